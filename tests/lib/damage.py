# SPDX-License-Identifier: Apache-2.0
"""A host whose bookkeeping can be damaged while its sandboxes run: what was true before, the damage, and what must hold after the
next start."""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import tempfile
import time

import pytest

import census
from api import EGRESS
from conftest import KEY, SERVER, Home, Server, assert_clean, children_of, clean_environment
from fleet import Fleet, until
from netns import Netns

NETWORK = {"OPENSANDBOX_NATIVE_NETWORK": "default", "OPENSANDBOX_EGRESS_UPSTREAMS": '["198.51.100.53"]'}
ENV = {"OPENSANDBOX_SERVER_API_KEY": KEY, **NETWORK}
COUNT = ["/bin/sh", "-c", "n=0; while sleep 0.2; do n=$((n+1)); echo $n > /tmp/count; done"]
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "192.0.2.9"}]}
VOLUME = "damaged"
PORT = 8080  # nobody else is in its network namespace, and the kernel gives none of these to clients
BACK_SECONDS = 10
ASKING_SECONDS = 2.5  # by then the server has the connection on which it asks egress for what was denied


# ---- damage -----------------------------------------------------------------------------------------------------


def change(path, how, random):
    """Damages one file in place: its owner and mode stay."""
    data = bytearray(path.read_bytes())
    if how == "removed":
        path.unlink()
        return
    if how == "halved":
        data = data[:len(data) // 2]
    elif how == "cut":
        data = data[:random.randrange(len(data))]
    elif how == "flipped":
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif how == "overwritten":
        at = random.randrange(len(data))
        n = min(len(data) - at, random.randint(1, 64))
        data[at:at + n] = random.randbytes(n)
    elif how == "page":
        at = random.randrange(len(data) // 4096) * 4096
        data[at:at + 4096] = random.randbytes(4096)
    else:
        raise ValueError(how)
    path.write_bytes(data)


# ---- processes --------------------------------------------------------------------------------------------------


def stamp(pid):
    """When it started; None: it is dead. Together with its number that is one process of this boot."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])


class Sandbox:
    """What a sandbox was before the damage. LINE prints what its files must still have."""

    def __init__(self, home, role, name, line="echo fine", says="fine"):
        self.role, self.name, self.line, self.says = role, name, line, says
        self.folder = None  # of the notes of its box
        self.init = census.init_of(home, name)
        self.counter = until(lambda: next((c for c in children_of(self.init) if census.name_of(c) == "sh"), None), 5, "its counter")
        self.stamps = [(pid, stamp(pid)) for pid in (self.init, self.counter)]
        self.truth = None
        self.policy = None

    def __repr__(self):
        return f"{self.role} {self.name}"

    def lives(self):
        return all(start is not None and stamp(pid) == start for pid, start in self.stamps)

    def count(self):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{self.init}/root/tmp/count").read_text()
        return None


# ---- the host ---------------------------------------------------------------------------------------------------


class Host:
    """A server with sandboxes of every kind, in a network namespace of its own. It lives through many rounds of damage."""

    def __init__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="osb-test-")
        self.home, self.netns = Home(), Netns("damage")
        self.boxes = {}  # role: Sandbox
        self.past = set()  # ids of all that there ever were
        self.snapshot = self.snapshot_status = None
        self.seeds, self.said = [], ""
        self.loses_layers = False
        self.server = self.fleet = None
        try:
            assert self.try_start() == 0
            time.sleep(ASKING_SECONDS)
            self.nothing, self.owned = census.settled(self.server), census.belongings(self.server)
        except BaseException:
            self.drop()
            raise

    # ---- starting and ending ----

    @property
    def folder(self):
        return pathlib.Path(self.scratch.name)

    @property
    def database(self):
        return self.home.state / "server/db.sqlite"

    def try_start(self):
        """0: it serves; else the status that it ended with."""
        self.server = Server(self.folder, env=ENV, home=self.home, netns=self.netns, port=PORT)
        self.fleet = Fleet(self.server)
        try:
            self.server.wait_ready()
        except pytest.fail.Exception:
            assert_clean(self.server.stderr)
            if self.server.process.poll() in (None, -signal.SIGKILL):
                raise
            self.said += self.server.stderr
            return self.server.process.returncode
        return 0

    def start(self, may_refuse):
        """With status 3 it may end where the database itself is damaged; then it is recovered."""
        self.said = ""
        status = self.try_start()
        if status:
            end = self.server.stderr[-2000:]
            assert status == 3 and "opensandbox-server recover" in end, f"status {status}: {end}"
            why = [line for line in self.server.stderr.splitlines() if line.startswith("opensandbox-server: ")]
            assert may_refuse, f"the start was refused, which only a damaged db.sqlite is a reason for: {why}"
            self.recover()
            status = self.try_start()
            assert status == 0, f"status {status} after a recovery: {self.server.stderr[-2000:]}"
        until(lambda: self.fleet.ids() is not None, BACK_SECONDS, "a list")

    def recover(self):
        env = clean_environment(self.folder, **{**self.home.env, **ENV})
        done = subprocess.run([SERVER, "recover"], env=env, cwd=self.folder, timeout=60, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, preexec_fn=self.netns.enter)
        assert_clean(done.stderr)
        assert done.returncode == 0, done
        self.said += done.stdout + done.stderr

    def kill(self):
        """All programs of ours at once; sandboxes stay."""
        pids = [self.server.process.pid, *children_of(self.server.process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.process.wait(10)
        until(lambda: all(stamp(pid) is None for pid in pids), 10, "the end of the programs")
        assert_clean(self.server.stderr)

    def log(self):
        """What the start that followed the damage had to say, without requests."""
        dull = (" info request ", "set up better")
        return [line for line in (self.said + self.server.stderr).splitlines() if not any(word in line for word in dull)]

    def end(self):
        """Everything goes, and then the host is as it was (G9, G10)."""
        for name in until(lambda: None if (ids := self.fleet.ids()) is None else (ids,), 10, "a list")[0]:
            self.fleet.remove(name)
        for name in self.fleet.snapshots():
            self.fleet.remove_snapshot(name)
        for volume in self.volumes():
            assert self.server.request("DELETE", f"/v1/volumes/{volume}").status == 204
        if self.loses_layers:  # that of a record that was lost, and said to be so, is left alone
            self.nothing["snapshots"], self.owned = census.snapshots(self.server), census.belongings(self.server)
        census.check(self.server, self.nothing, 10)
        owned = lambda: census.belongings(self.server)  # noqa: E731
        until(lambda: owned() == self.owned, BACK_SECONDS, f"removing what is nobody's: {owned()}, not {self.owned}")
        self.server.stop()
        assert (self.netns.links(), self.netns.tables()) == (["lo"], [])
        self.drop()

    def drop(self):
        """However it is."""
        if self.server and self.server.process.poll() is None:
            self.kill()
        self.home.kill()
        with contextlib.suppress(AssertionError):
            self.home.remove()
        self.netns.remove()
        self.scratch.cleanup()

    # ---- what there is ----

    def add(self, role, line="echo fine", says="fine", prepare=None, **body):
        """LINE, once PREPARE has run, prints SAYS."""
        name = self.fleet.made(**{"entrypoint": COUNT, **body})
        self.past.add(name)
        if prepare:
            assert self.fleet.command(name, f"{prepare} && echo fine") == "fine", role
        self.boxes[role] = Sandbox(self.home, role, name, line, says)
        return self.boxes[role]

    def fill(self):
        """Whatever is missing is made anew."""
        kept = {"prepare": "echo kept > /root/kept", "line": "cat /root/kept", "says": "kept"}
        missing = lambda role: role not in self.boxes  # noqa: E731
        if missing("plain"):
            self.add("plain", **kept)
        if missing("paused"):
            assert self.fleet.pause(self.add("paused").name).status == 202
        if missing("labelled"):
            self.add("labelled", metadata={"team": "x", "round": "0"}, resourceLimits={"cpu": "500m", "memory": "128Mi"})
        if missing("volume"):
            self.add("volume", prepare="echo kept > /data/kept", line="cat /data/kept", says="kept",
                     volumes=[{"name": "v", "mountPath": "/data", "pvc": {"claimName": VOLUME, "storage": "16Mi"}}])
        if missing("policy"):
            self.add("policy", networkPolicy=POLICY)
        if missing("secured"):
            self.add("secured", secureAccess=True)
        if self.snapshot is None:
            self.snapshot = self.fleet.taken(self.boxes["plain"].name)
        if missing("restored"):
            self.add("restored", line="cat /root/kept", says="kept", image=None, snapshotId=self.snapshot)
        self.add("doomed")
        self.add("overdue")

    def live(self, random):
        """What an older copy of the database does not know."""
        self.add("fresh", metadata={"seed": str(random.randrange(1000))}, timeout=random.choice([600, 7200]))
        if random.random() < 0.5:
            assert self.fleet.pause(self.add("fresh paused").name).status == 202
        label = self.boxes["labelled"].name
        assert self.fleet.patch(label, {"round": str(random.randrange(1, 1000))}).status == 200
        assert self.fleet.renew(label, f"2099-01-01T00:00:{random.randrange(60):02}Z").status == 200
        gone = self.boxes.pop("doomed")
        assert self.fleet.delete(gone.name).status == 204
        return gone

    def volumes(self):
        return [v["name"] for v in self.server.get("/v1/volumes").json["items"]]

    def read(self, box):
        return until(lambda: (a := self.fleet.get(box.name)) and a.status in (200, 404) and a, BACK_SECONDS, f"an answer about {box}")

    def describe(self, box):
        """What clients know of it, and what its endpoints ask for."""
        answer = self.read(box)
        assert answer.status == 200, f"{box} is not there any more: {answer}"
        found = answer.json
        headers = self.fleet.ask("GET", f"/{box.name}/endpoints/8080").json.get("headers", {})
        found["headers of endpoints"] = sorted(headers)
        inspect = self.fleet.ask("GET", f"/{box.name}/diagnostics/inspect").body.decode()
        found["limits"] = next(line for line in inspect.splitlines() if line.startswith("limits: "))
        return found

    def policy(self, box):
        endpoint = self.fleet.ask("GET", f"/{box.name}/endpoints/{EGRESS}").json
        answer = self.fleet.ask("GET", f"/{box.name}/proxy/{EGRESS}/policy", headers=endpoint["headers"])
        return json.loads(answer.body)["policy"] if answer and answer.status == 200 else None

    def status_of_snapshot(self):
        answer = self.server.get(f"/v1/snapshots/{self.snapshot}")
        return answer.json["status"] if answer.status == 200 else {"state": "none", "reason": ""}

    def note(self):
        self.snapshot_status = self.status_of_snapshot()
        for box in self.boxes.values():
            box.truth, box.folder = self.describe(box), self.folder_of(box)
        self.boxes["policy"].policy = self.policy(self.boxes["policy"])
        assert self.boxes["policy"].policy["egress"] == POLICY["egress"]

    # ---- files ----

    def copy_database(self, name="db.sqlite"):
        """Or the copy of its durable tables, once nothing is being written to it."""
        files = [self.database.with_name(f"{name}{end}") for end in ("", "-wal", "-shm")]
        seen = None
        while (now := [p.read_bytes() for p in files]) != seen:
            seen = now
            time.sleep(0.05)
        return dict(zip(files, now))

    def checkpoint(self):
        """What the log has is in the database itself from here on."""
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def put_back(self, copy):
        owner = self.database.stat()
        for path, data in copy.items():
            path.write_bytes(data)
            os.chown(path, owner.st_uid, owner.st_gid)

    def known(self):
        """Ids that the damaged database still has, with whatever of its log counts; None: who reads it must pick."""
        with tempfile.TemporaryDirectory() as folder:
            for path in self.database.parent.glob("db.sqlite*"):
                if not path.name.endswith("-shm"):
                    pathlib.Path(folder, path.name).write_bytes(path.read_bytes())
            with contextlib.suppress(sqlite3.Error, AssertionError), contextlib.closing(sqlite3.connect(f"{folder}/db.sqlite")) as db:
                assert db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
                return {row[0] for row in db.execute("SELECT id FROM sandboxes NOT INDEXED")}
        return None

    def folder_of(self, box):
        """Of its box: the folder of its notes."""
        return next(p.parent for p in self.home.state.glob("boxes/*/box") if box.name.encode() in p.read_bytes())

    def layer_notes(self):
        """What is written down about snapshots, beside their files."""
        layers = census.store(self.server) / "layers"
        return [p for p in (*layers.glob("*"), *layers.glob("snap-*/*")) if p.is_file() and p.stat().st_size]

    def mentions(self, name):
        """Files of boxes and of egress that name it."""
        found = [*self.home.state.glob("boxes/*/*"), *self.home.state.glob("egress/*")]
        return [p for p in found if name in p.name or p.is_file() and name.encode() in p.read_bytes()]
