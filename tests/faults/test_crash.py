# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at any moment (G8-G10): of the server, the warden, both and the supervisor, at random under mixed traffic; of workers alone,
so that nobody starts again; a host that was restarted; and thousands of sandboxes that come and go. SOAK: ten minutes of either kind
of kills (or KILL_SECONDS, WORKER_SECONDS), 10,000 sandboxes. SEED repeats."""
import collections
import concurrent.futures
import contextlib
import datetime
import hashlib
import os
import random
import signal
import sqlite3
import threading
import time
import uuid

import pytest

import census
from conftest import ROOT, assert_clean
from damage import ASKING_SECONDS, NETWORK
from fleet import running, until
from netns import Netns
from test_kill_points import delete_volume, pool_end, pool_make, pool_settled, volumes
from traffic import EVERYBODY, WORKERS, Client, Killer

SOAK = bool(os.environ.get("SOAK"))
KILL_SECONDS = int(os.environ.get("KILL_SECONDS", 600 if SOAK else 25))
WORKER_SECONDS = int(os.environ.get("WORKER_SECONDS", 600 if SOAK else 20))
SETTLE_SECONDS = 60
POOL_SIZE = 2
CYCLES = 10000 if SOAK else 2000
WARM_UP = 1000 if SOAK else 500
CLIENTS = 8
MANY = 1000 if SOAK else 60

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def kill(*pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# ---- whole processes ------------------------------------------------------------------------------------------


@pytest.mark.alone("measures time")
def test_both_killed_at_once(tmp_path, home):
    with running(tmp_path, home) as fleet:
        before = census.settled(fleet.server)
        name = fleet.made()
        paused = fleet.made()
        assert fleet.pause(paused).status == 202
        for order in (1, -1):
            kill(*[fleet.server.pid, fleet.server.warden_pid][::order])
            began = time.monotonic()
            fleet.works(name, 5)
            assert time.monotonic() - began < 5  # G8
            assert fleet.state(paused) == "Paused"
        assert fleet.resume(paused).status == 202
        fleet.works(paused)
        fleet.remove(name)
        fleet.remove(paused)
        census.check(fleet.server, before)


@pytest.mark.alone("measures time")
def test_many_are_reachable_again_within_five_seconds(tmp_path, home):
    with running(tmp_path, home) as fleet:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            names = list(pool.map(lambda _: fleet.made(), range(MANY)))
            inits = {census.init_of(home, name) for name in names}
            kill(fleet.server.pid, fleet.server.warden_pid)
            began = time.monotonic()
            until(lambda: fleet.command(names[0]) == "fine", 5, f"a command in one of {MANY}")
            print(f"{MANY} sandboxes: back after {time.monotonic() - began:.2f} s")
            assert all(out == "fine" for out in pool.map(fleet.command, names))
            assert {census.init_of(home, name) for name in names} == inits
            list(pool.map(fleet.remove, names))


@pytest.mark.parametrize("order", ["supervisor", "supervisor server warden", "warden supervisor server", "server warden supervisor"])
@pytest.mark.smoke
def test_the_supervisor_killed_and_started_again(tmp_path, home, order):
    port = None
    name = None
    for start in range(2):
        with running(tmp_path, home, clean=False, **({"port": port} if port else {})) as fleet:
            server, port = fleet.server, fleet.server.port
            if start == 0:
                before = census.settled(server)
                name = fleet.made()
                pids = {"supervisor": server.process.pid, "server": server.pid, "warden": server.warden_pid}
                kill(*[pids[who] for who in order.split()])
                server.process.wait(10)
                assert_clean(server.stderr)
            else:
                fleet.works(name, 5)
                assert fleet.state(name) == "Running"
                fleet.remove(name)
                census.check(server, before)
    until(lambda: all(is_gone(pid) for pid in pids.values()), 15, "the end of the children")


def test_a_stop_leaves_sandboxes_running_and_the_next_start_adopts_them(tmp_path, home):
    with running(tmp_path, home, clean=False) as fleet:
        names = [fleet.made() for _ in range(3)]
        assert fleet.pause(names[2]).status == 202
        inits = [census.init_of(home, name) for name in names]
    assert not any(is_gone(pid) for pid in inits)
    with running(tmp_path, home) as fleet:
        assert [fleet.state(name) for name in names] == ["Running", "Running", "Paused"]
        assert [census.init_of(home, name) for name in names] == inits
        fleet.works(names[0])
        assert fleet.resume(names[2]).status == 202
        fleet.works(names[2])


@pytest.mark.alone("measures time")
def test_overdue_sandboxes_end_within_five_seconds_of_a_start(tmp_path, home):
    with running(tmp_path, home, clean=False) as fleet:
        name, later = fleet.made(), fleet.made()
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
        assert fleet.renew(name, when.isoformat()).status == 200
        pid = census.init_of(home, name)
        kill(fleet.server.process.pid, fleet.server.pid, fleet.server.warden_pid)
        fleet.server.process.wait(10)
    time.sleep(1)
    assert not is_gone(pid)
    with running(tmp_path, home) as fleet:
        until(lambda: fleet.state(name) == "none", 5, "ending what is overdue")
        assert is_gone(pid)
        fleet.works(later)


BOX_FILE_BYTES, BOOT_AT, CHECK_AT = 240, 72, 216  # src/warden/box_file.c
FILE_AT, SUM_AT = 16, 256  # src/warden/box_record.c


def of_another_boot(box_file, boot):
    data = bytearray(box_file)
    data[BOOT_AT:BOOT_AT + 40] = boot.ljust(40, b"\0")
    data[CHECK_AT:CHECK_AT + 16] = bytes(16)
    data[CHECK_AT:CHECK_AT + 16] = hashlib.sha256(data).digest()[:16]
    return bytes(data)


def rewrite_boot(home):
    """As if all of it came from another boot of this host."""
    other = str(uuid.uuid4()).encode()
    for path in home.state.glob("boxes/*/box"):
        path.write_bytes(of_another_boot(path.read_bytes(), other))
    for path in home.state.glob("boxes/*/record"):
        data = bytearray(path.read_bytes())
        data[FILE_AT:SUM_AT] = of_another_boot(data[FILE_AT:SUM_AT], other)
        data[SUM_AT:SUM_AT + 32] = bytes(32)
        data[SUM_AT:SUM_AT + 32] = hashlib.sha256(data).digest()
        path.write_bytes(data)
    db = sqlite3.connect(home.state / "server/db.sqlite")
    with db:
        assert db.execute("UPDATE meta SET value = ? WHERE name = 'boot_id'", (other,)).rowcount == 1
    db.close()


def test_a_restarted_host_is_told_as_such_and_cleaned(tmp_path, home):
    with running(tmp_path, home, clean=False) as fleet:
        before = census.settled(fleet.server)
        name, paused = fleet.made(), fleet.made()
        assert fleet.pause(paused).status == 202
        kill(fleet.server.process.pid, fleet.server.pid, fleet.server.warden_pid)
        fleet.server.process.wait(10)
    rewrite_boot(home)
    with running(tmp_path, home) as fleet:
        for each in (name, paused):
            status = fleet.get(each).json["status"]
            assert (status["state"], status["reason"]) == ("Failed", "host_restarted")
            assert fleet.delete(each).status == 204
        census.check(fleet.server, before, 10)


# ---- at random, under load ------------------------------------------------------------------------------------


def check_in_the_end(fleet, clients):
    """Nobody is started again for it."""
    for client in clients:
        client.check()
    known = {name for client in clients for name in client.alive}
    unsure = sum(client.unsure for client in clients)

    def strangers():
        """A fork that nobody was told of is there as a whole, or not at all."""
        names = fleet.ids()
        extra = None if names is None else names - known
        return extra is not None and len(extra) <= unsure and all(fleet.state(name) == "Running" for name in extra) and (extra,)

    extra = until(strangers, SETTLE_SECONDS, f"forgetting what nobody was told of: {(fleet.ids() or set()) - known}")[0]
    for name in extra:
        fleet.works(name)
    paused = [name for client in clients for name, model in client.alive.items() if model["state"] == "Paused"]
    frozen = lambda: census.frozen(fleet.server.home.prefix)  # noqa: E731
    until(lambda: len(frozen()) == len(paused), SETTLE_SECONDS, f"thawing all but {len(paused)}: {frozen()}")
    assert set(fleet.settled_snapshots().values()) <= {"Ready", "Failed", "Deleting"}
    pool_settled(fleet, POOL_SIZE)
    pool_end(fleet)
    for name in known | extra:
        fleet.remove(name)
    for snapshot in fleet.snapshots():
        fleet.remove_snapshot(snapshot)
    for volume in volumes(fleet)[0]:
        assert delete_volume(fleet, volume).status == 204


def killed_at_random(tmp_path, home, victims, seconds):
    """Clients and a killer for SECONDS; what must hold afterwards does within a minute. Who serves then: pids before and after."""
    seed = int(os.environ.get("SEED") or random.randrange(1 << 30))
    stop = threading.Event()
    netns = Netns("crash")
    try:
        with running(tmp_path, home, netns=netns, env=NETWORK) as fleet:
            fleet.remove(fleet.made())
            time.sleep(ASKING_SECONDS)
            before, owned = census.settled(fleet.server), census.belongings(fleet.server)
            pids = [(fleet.server.pid, fleet.server.warden_pid)]
            assert pool_make(fleet, POOL_SIZE).status == 201
            clients = [Client(fleet.server, seed + i, stop) for i in range(CLIENTS)]
            for client in clients:
                client.start()
            killer = Killer(fleet.server, seed, victims)
            try:
                killer.run(seconds, clients)
            finally:
                stop.set()
                for client in clients:
                    client.join(60)
                done = sum((client.done for client in clients), collections.Counter())
                print(f"seed {seed}, kills {dict(killer.kills)}, done {dict(done)}")
            fleet.wait_up()
            for client in clients:
                if client.failure:
                    raise AssertionError(f"seed {seed}: {client.failure}") from client.failure
            check_in_the_end(fleet, clients)
            assert done["create"] > CLIENTS and done["delete"] > CLIENTS
            census.check(fleet.server, before, SETTLE_SECONDS)
            found = lambda: census.belongings(fleet.server)  # noqa: E731
            until(lambda: found() == owned, SETTLE_SECONDS, f"removing what is nobody's: {found()}, not {owned}")
            pids.append((fleet.server.pid, fleet.server.warden_pid))
            assert_clean(fleet.server.stderr)
        assert (netns.links(), netns.tables()) == (["lo"], [])
    finally:
        netns.remove()
    return pids


def test_kills_at_random_under_mixed_traffic(tmp_path, home):
    killed_at_random(tmp_path, home, EVERYBODY, KILL_SECONDS)


def test_workers_killed_at_random_leave_nothing_to_a_restart(tmp_path, home):
    """Server and warden sweep when they start. Here they do not: what a worker did not finish, they finish while they run."""
    before, after = killed_at_random(tmp_path, home, WORKERS, WORKER_SECONDS)
    assert after == before


# ---- many -----------------------------------------------------------------------------------------------------


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def test_thousands_come_and_go_and_leave_nothing(tmp_path, home):
    """Of the programs as they are installed: what a sanitizer keeps is not what they keep."""
    programs = ROOT / "build/release/bin"
    if not (programs / "opensandbox-server").exists():
        pytest.skip("build/release is not built: make")
    took = []

    def cycle(_):
        began = time.monotonic()
        name = fleet.made()
        took.append(time.monotonic() - began)
        assert fleet.ping(name) == 200 and fleet.command(name) == "fine"  # the first ones: whoever is told Running can be used
        assert fleet.delete(name).status == 204

    with running(tmp_path, home, program=programs / "opensandbox-server") as fleet:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(cycle, range(WARM_UP)))
            before = census.settled(fleet.server)
            pids = {"server": fleet.server.pid, "warden": fleet.server.warden_pid}
            rss = {who: rss_kb(pid) for who, pid in pids.items()}
            list(pool.map(cycle, range(CYCLES - WARM_UP)))
        census.check(fleet.server, before)
        assert (fleet.server.pid, fleet.server.warden_pid) == tuple(pids.values())
        grown = {who: rss_kb(pid) - rss[who] for who, pid in pids.items()}
        took.sort()
        print(f"{CYCLES} cycles: create p50 {took[len(took) // 2] * 1000:.1f} ms, p99 {took[len(took) * 99 // 100] * 1000:.1f} ms, "
              f"grown by {grown} KiB")
        assert all(kb <= 2048 for kb in grown.values()), grown
