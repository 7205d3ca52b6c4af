# SPDX-License-Identifier: Apache-2.0
"""Clients that do everything there is to sandboxes of their own while programs are killed, and hold the server to what they were
told; and who kills them."""
import collections
import contextlib
import os
import random
import signal
import threading
import time
import uuid

import census
from conftest import children_of
from fleet import Fleet, until
from test_kill_points import claim

PATIENCE_SECONDS = 120
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "192.0.2.9"}]}
POOL = "p"
DIES_SECONDS = 2  # C3
BREATH_EVERY_SECONDS, BREATH_SECONDS = 8, PATIENCE_SECONDS / 2


class Client(threading.Thread):
    """What it was told is in `alive`, by id: state, expires; MARK is what its file says; the volume that it has."""

    def __init__(self, server, seed, stop):
        super().__init__()
        self.fleet, self.random, self.stop = Fleet(server), random.Random(seed), stop
        self.volume, self.in_volume = f"v{uuid.uuid4().hex}", None
        self.alive, self.gone = {}, set()
        self.snapshots = {}  # id: { of, mark }
        self.steps = 0       # that it has done, each with whatever it took
        self.unsure = 0      # forks that it was told nothing about
        self.done = collections.Counter()
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                self.step()
                self.steps += 1
        except BaseException as e:  # for the main thread to raise
            self.failure = e

    def step(self):
        if not self.alive or (len(self.alive) < 3 and self.random.random() < 0.3):
            self.random.choice([self.create, self.create, self.take, self.create_with_volume, self.restore])()
            return
        name = self.random.choice(list(self.alive))
        is_running = self.alive[name]["state"] == "Running"
        operations = ["command", "mark", "renew", "delete", "pause" if is_running else "resume", "snapshot"]
        operations += ["fork"] * (len(self.alive) < 3) + ["rollback"] * any(s["of"] == name for s in self.snapshots.values())
        operations += ["remove_snapshot"] * (len(self.snapshots) > 2)
        operation = self.random.choice(operations)
        if is_running or operation not in ("command", "mark"):
            getattr(self, operation)(name)

    def patiently(self, ask, what, *statuses):
        """The first answer with one of STATUSES; nobody is killed for long."""
        last = None

        def attempt():
            nonlocal last
            last = ask() or last
            return last if last and last.status in statuses else None

        try:
            return until(attempt, PATIENCE_SECONDS, what)
        except AssertionError as e:
            raise AssertionError(f"{e}: {last}") from e

    # ---- sandboxes ----

    def create(self, mark=None, **more):
        key = str(uuid.uuid4())
        if self.random.random() < 0.3:
            more["networkPolicy"] = POLICY
        answer = self.patiently(lambda: self.fleet.create(key, **more), "a create", 202)
        name = answer.json["id"]
        assert name not in self.alive and name not in self.gone
        self.alive[name] = {"state": "Running", "expires": answer.json["expiresAt"], "mark": mark}
        self.done["create"] += 1
        return name

    def take(self):
        """From the pool, where there may be none at the moment."""
        key, body = str(uuid.uuid4()), {"extensions": {"poolRef": POOL}, "timeout": 3600}
        answer = self.patiently(lambda: self.fleet.ask("POST", "", body, {"Idempotency-Key": key}), "one of the pool", 202)
        assert answer.json["id"] not in self.alive and answer.json["id"] not in self.gone
        self.alive[answer.json["id"]] = {"state": "Running", "expires": answer.json["expiresAt"], "mark": None}
        self.done["take"] += 1

    def create_with_volume(self):
        """What was in the volume still is."""
        name = self.create(volumes=claim(self.volume))
        if self.in_volume:
            self.says(name, "cat /data/mark", self.in_volume)
        self.in_volume = str(self.random.randrange(1 << 30))
        self.says(name, f"echo {self.in_volume} > /data/mark && sync /data/mark && cat /data/mark", self.in_volume)
        self.done["volume"] += 1

    def says(self, name, line, expected):
        """It may fail while nobody is there to ask; when there is an answer, it is this one."""
        def attempt():
            out = self.fleet.command(name, line)
            if out is None and (state := self.fleet.state(name)) is not None:
                assert state == "Running", f"{name} is {self.fleet.get(name).body}"
            assert out in (None, expected), f"{name} says {out!r} to {line!r}, not {expected!r}"
            return out == expected
        until(attempt, PATIENCE_SECONDS, f"a command in {name}")

    def command(self, name):
        mark = self.alive[name]["mark"]
        self.says(name, "cat /root/mark" if mark else "echo fine", mark or "fine")
        self.done["command"] += 1

    def mark(self, name):
        mark = str(self.random.randrange(1 << 30))
        self.says(name, f"echo {mark} > /root/mark && cat /root/mark", mark)
        self.alive[name]["mark"] = mark
        self.done["mark"] += 1

    def switch(self, name, answer, to):
        if answer and answer.status == 202:
            self.alive[name]["state"] = to
            self.done[to] += 1
            return
        # It may have been done or not: what it is when all is quiet, it is.
        self.settle(name)

    def settle(self, name):
        """Once nobody is killed any more, or by a change that does not come back with a doubt."""
        def attempt():
            state = self.fleet.state(name)
            assert state not in ("none", "Failed", "Terminated"), f"{name} is lost"
            if state == "Paused":
                answer = self.fleet.resume(name)
                return answer and answer.status == 202
            return state == "Running" and self.fleet.command(name, timeout=3) == "fine"
        until(attempt, PATIENCE_SECONDS, f"knowing the state of {name}")
        self.alive[name]["state"] = "Running"

    def pause(self, name):
        self.switch(name, self.fleet.pause(name), "Paused")

    def resume(self, name):
        self.switch(name, self.fleet.resume(name), "Running")

    def renew(self, name):
        when = f"2099-01-01T00:00:{self.random.randrange(60):02}Z"
        self.patiently(lambda: self.fleet.renew(name, when), f"a renewal of {name}", 200)
        self.alive[name]["expires"] = when
        self.done["renew"] += 1

    def delete(self, name):
        self.fleet.remove(name, PATIENCE_SECONDS)
        del self.alive[name]
        self.gone.add(name)
        self.done["delete"] += 1

    # ---- snapshots ----

    def snapshot(self, name):
        """One that was acknowledged is never lost: it is ready, or failed where it was cut off."""
        answer = self.fleet.ask("POST", f"/{name}/snapshots")
        if not answer or answer.status != 202:
            return
        state = self.settled(answer.json["id"])
        self.done[f"snapshot {state}"] += 1
        if state == "Ready":
            self.snapshots[answer.json["id"]] = {"of": name, "mark": self.alive[name]["mark"]}

    def settled(self, snapshot):
        state = until(lambda: (s := self.fleet.snapshot_state(snapshot)) != "Creating" and s, PATIENCE_SECONDS, f"snapshot {snapshot}")
        assert state in ("Ready", "Failed"), f"snapshot {snapshot} is {state}"
        return state

    def restore(self):
        if not self.snapshots:
            return
        snapshot = self.random.choice(list(self.snapshots))
        mark = self.snapshots[snapshot]["mark"]
        name = self.create(mark, image=None, snapshotId=snapshot)
        self.command(name)
        self.done["restore"] += 1

    def fork(self, name):
        count = self.random.choice([1, 2])
        answer = self.fleet.ask("POST", f"/{name}/fork", {"count": count, "timeout": 3600})
        if not answer or answer.status != 202:
            self.unsure += count
            return
        for fork in answer.json["items"]:
            self.alive[fork["id"]] = {"state": "Running", "expires": fork["expiresAt"], "mark": self.alive[name]["mark"]}
        self.done["fork"] += 1

    def rollback(self, name):
        """It is repeated until it is known to be done: in between the sandbox may be anything but gone."""
        snapshot = self.random.choice([s for s, is_ in self.snapshots.items() if is_["of"] == name])
        self.patiently(lambda: self.fleet.ask("POST", f"/{name}/rollback", {"snapshotId": snapshot}), f"a rollback of {name}", 200)
        self.alive[name].update(state="Running", mark=self.snapshots[snapshot]["mark"])
        self.command(name)
        self.done["rollback"] += 1

    def remove_snapshot(self, _):
        """One that somebody stands on (409) is there until it is asked for again, and can no longer be used."""
        snapshot = self.random.choice(list(self.snapshots))
        self.patiently(lambda: self.fleet.call("DELETE", f"/v1/snapshots/{snapshot}"), f"removing snapshot {snapshot}", 204, 404, 409)
        del self.snapshots[snapshot]
        self.done["remove snapshot"] += 1

    # ---- in the end ----

    def check(self):
        for name, model in self.alive.items():
            now = self.fleet.get(name).json
            assert now["status"]["state"] == model["state"], (name, model, now)
            assert now["expiresAt"] == model["expires"], (name, model, now)
            if model["state"] == "Running":
                self.command(name)
        for name in self.gone:
            assert self.fleet.state(name) == "none"
        for snapshot in self.snapshots:
            assert self.settled(snapshot) == "Ready"


# ---- who kills --------------------------------------------------------------------------------------------------


EVERYBODY = ["server", "server", "warden", "warden", "both", "egress", "worker", "worker", "worker", "maker", "execd"]
WORKERS = ["worker", "worker", "worker", "worker", "maker", "execd", "egress"]  # neither server nor warden sweeps after these by starting


class Killer:
    """Of the VICTIMS, one after another."""

    def __init__(self, server, seed, victims):
        self.server, self.fleet, self.random, self.victims = server, Fleet(server), random.Random(seed), victims
        self.kills = collections.Counter()

    def run(self, seconds, clients):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.kill_for(min(BREATH_EVERY_SECONDS, end - time.monotonic()))
            self.let_breathe(clients)

    def let_breathe(self, clients):
        """What takes long on a slow machine, as a first volume does, would be cut off again and again: once in a while each client
        gets done with what it is at."""
        steps = [client.steps for client in clients]
        with contextlib.suppress(AssertionError):
            until(lambda: all(c.steps > n or c.failure for c, n in zip(clients, steps)), BREATH_SECONDS, "a step of each client")

    def kill_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.3, 1))
            who = self.random.choice(self.victims)
            with contextlib.suppress(IndexError):  # it is just being started
                if getattr(self, f"kill_{who}")():
                    self.kills[who] += 1

    @staticmethod
    def strike(*pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return True

    def kill_server(self):
        return self.strike(self.server.pid)

    def kill_warden(self):
        return self.strike(self.server.warden_pid)

    def kill_both(self):
        return self.strike(*self.random.sample([self.server.pid, self.server.warden_pid], 2))

    def kill_egress(self):
        return self.strike(self.server.egress_pid)

    def kill_maker(self):
        """It makes the first process of sandboxes, and was there before those."""
        return self.strike([p for p in children_of(self.server.warden_pid) if census.name_of(p) == "osb-maker"][0])

    def kill_worker(self):
        """Whichever is at work, at some moment of its life: what it does is done by nobody then, and the warden goes on."""
        end = time.monotonic() + 2
        while time.monotonic() < end:
            found = [p for p in children_of(self.server.warden_pid) if (census.name_of(p) or "").startswith("opensandbox-")]
            if found:
                time.sleep(self.random.uniform(0, 0.005))
                return self.strike(self.random.choice(found))
        return False

    def kill_execd(self):
        """Of a sandbox that is nobody's but ours: it has failed, and says so (C3)."""
        name = self.fleet.made_somehow(PATIENCE_SECONDS)
        self.fleet.works(name, PATIENCE_SECONDS)
        self.fleet.wait_up()
        self.strike(census.init_of(self.server.home, name))
        until(lambda: self.fleet.state(name) == "Failed", DIES_SECONDS, f"the failure of {name} ({self.fleet.get(name)})")
        self.fleet.remove(name, PATIENCE_SECONDS)
        return True
