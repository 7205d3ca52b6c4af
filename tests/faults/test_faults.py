# SPDX-License-Identifier: Apache-2.0
"""When the host runs short (S8, S9): a full disk, a database that is locked, damaged or gone, no descriptors."""
import contextlib
import os
import signal
import sqlite3
import subprocess
import time

import pytest

import census
from conftest import KEY, free_port, user_of
from fleet import running, until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ENV = {"OPENSANDBOX_SERVER_API_KEY": KEY}


def database(home):
    return home.state / "server/db.sqlite"


# ---- a database that cannot be written ------------------------------------------------------------------------


def test_a_locked_database_stops_changes_and_nothing_else(tmp_path, home):
    with running(tmp_path, home) as fleet:
        name = fleet.made()
        fleet.works(name)
        before = census.settled(fleet.server)
        db = sqlite3.connect(database(home), isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        answer = fleet.create()
        assert answer.status == 503 and answer.headers["Retry-After"], answer
        assert fleet.delete(name).status == 503
        assert fleet.state(name) == "Running" and fleet.ids() == {name}
        fleet.works(name)
        db.execute("ROLLBACK")
        db.close()
        census.check(fleet.server, before)
        fleet.remove(fleet.made())


@pytest.fixture
def small_disk(home):
    """The folder of the database on a file system of its own."""
    folder = home.state / "server"
    folder.mkdir(parents=True)
    home.state.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    path = folder / "filler"
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as f:
        while f.write(bytes(4096)):
            pass
    return path


def test_a_full_disk_stops_changes_until_there_is_room(small_disk, tmp_path, home):
    with running(tmp_path, home) as fleet:
        name = fleet.made(metadata={"a": "1"})
        filler = fill(small_disk)
        answer = until(lambda: (a := fleet.create()) and a.status != 202 and a, 20, "a full log")
        assert answer.status in (503, 507), answer
        assert fleet.create().status in (503, 507) and fleet.patch(name, {"a": "2"}).status in (503, 507)
        assert fleet.get(name).json["metadata"] == {"a": "1"}
        fleet.works(name)
        assert fleet.server.get("/health").status == 200
        filler.unlink()
        fleet.remove(until(lambda: (a := fleet.create()) and a.status == 202 and a.json["id"], 10, "recovering"))
        assert fleet.patch(name, {"a": "2"}).status == 200
        os.kill(fleet.server.pid, signal.SIGKILL)
        fleet.works(name)
        assert fleet.get(name).json["metadata"] == {"a": "2"}


# ---- a damaged one --------------------------------------------------------------------------------------------


def refuses(run_server, home, **more):
    began = time.monotonic()
    done = run_server(env={**ENV, **home.env, "OPENSANDBOX_SERVER_PORT": str(free_port()), **more})
    assert done.returncode == 3 and "opensandbox-server recover" in done.stderr, done
    assert time.monotonic() - began < 10
    return done


def recovers(run_server, home):
    done = run_server("recover", env={**ENV, **home.env})
    assert done.returncode == 0, done
    return done.stdout


def damage_header(path):
    with open(path, "r+b") as f:
        f.write(b"this is no database at all" * 20)


def damage_rows(path):
    """One leaf of the table of sandboxes. The log is written back first."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = db.execute("PRAGMA page_size").fetchone()[0]
    root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sandboxes'").fetchone()[0]
    db.close()
    data = path.read_bytes()
    page = data[(root - 1) * size:root * size]
    assert page[0] == 5  # an interior page: its first child is a leaf with the oldest rows
    pointer = int.from_bytes(page[12:14], "big")
    leaf = int.from_bytes(page[pointer:pointer + 4], "big")
    with open(path, "r+b") as f:
        f.seek((leaf - 1) * size)
        f.write(bytes([0xFF]) * size)


def remove_all(path):
    for p in path.parent.glob("db.sqlite*"):
        p.unlink()


def test_sandboxes_outlive_their_database(tmp_path, home, run_server):
    with running(tmp_path, home, clean=False) as fleet:
        names = [fleet.made() for _ in range(3)]
        assert fleet.pause(names[1]).status == 202
        inits = [census.init_of(home, name) for name in names]
    damage_header(database(home))
    refuses(run_server, home)
    refuses(run_server, home)
    assert [census.init_of(home, name) for name in names] == inits
    assert "3 of them got a new record" in recovers(run_server, home)
    assert len(list((home.state / "server").glob("damaged-*.sqlite"))) == 1
    with running(tmp_path, home) as fleet:
        assert [fleet.state(name) for name in names] == ["Running", "Paused", "Running"]
        assert [census.init_of(home, name) for name in names] == inits
        fleet.works(names[0])  # with the same token as ever
        assert fleet.resume(names[1]).status == 202
        fleet.works(names[1])


def test_a_database_that_is_gone_is_made_again(tmp_path, home):
    """From its copy and from those beside the sandboxes: nothing is asked of the operator."""
    with running(tmp_path, home, clean=False) as fleet:
        names = [fleet.made(metadata={"n": str(i)}) for i in range(3)]
        assert fleet.pause(names[1]).status == 202
        inits = [census.init_of(home, name) for name in names]
    remove_all(database(home))
    with running(tmp_path, home) as fleet:
        assert [fleet.state(name) for name in names] == ["Running", "Paused", "Running"]
        assert [fleet.get(name).json["metadata"]["n"] for name in names] == ["0", "1", "2"]
        assert [census.init_of(home, name) for name in names] == inits
        fleet.works(names[0])  # with the same token as ever


def test_what_can_be_read_of_a_damaged_database_is_kept(tmp_path, home, run_server):
    with running(tmp_path, home, clean=False) as fleet:
        names = [fleet.made(metadata={"n": str(i), "pad": "x" * 60}, env={f"V{j}": "" for j in range(60)}) for i in range(12)]
        gone = fleet.made()
        fleet.remove(gone)
    damage_rows(database(home))
    refuses(run_server, home)
    said = recovers(run_server, home)
    assert "not all of it could be read" in said
    with running(tmp_path, home) as fleet:
        assert fleet.ids() == set(names)
        for i, name in enumerate(names):  # from the database, or from the copy beside the sandbox
            assert fleet.get(name).json["metadata"]["n"] == str(i), said
            assert fleet.state(name) == "Running"
        fleet.works(names[0])
        fleet.works(names[-1])


def test_a_recovery_that_was_cut_off_is_done_again(tmp_path, home, run_server):
    with running(tmp_path, home, clean=False) as fleet:
        name = fleet.made(metadata={"a": "1"})
    folder = home.state / "server"
    owner = os.stat(folder / "db.sqlite").st_uid
    for state in ("begun", "moved", "rebuilt"):
        (folder / "recovering").write_text("damaged-7.sqlite")
        os.chown(folder / "recovering", owner, owner)
        if state == "moved":
            (folder / "db.sqlite").rename(folder / "damaged-7.sqlite")
        if state == "rebuilt":
            (folder / "db.sqlite").write_bytes(b"half")
        refuses(run_server, home)
        assert "1 records were read" in recovers(run_server, home)
        if state == "begun":
            (folder / "damaged-7.sqlite").unlink()
    with running(tmp_path, home) as fleet:
        fleet.works(name)
        assert fleet.get(name).json["metadata"] == {"a": "1"}


# ---- no descriptors -------------------------------------------------------------------------------------------


def used(pid):
    return max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1


def set_limit(pid, n):
    user = str(user_of(pid))
    subprocess.run(["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "prlimit", "--pid", str(pid), f"--nofile={n}:"],
                   check=True)


@pytest.mark.parametrize("who", ["server", "warden"])
def test_without_descriptors_requests_fail_one_by_one(tmp_path, home, who):
    with running(tmp_path, home) as fleet:
        name = fleet.made()
        fleet.works(name)
        before = census.settled(fleet.server)
        pid = fleet.server.pid if who == "server" else fleet.server.warden_pid
        for spare in (0, 1, 2, 3, 5, 8, 13):
            set_limit(pid, used(pid) + spare)
            for _ in range(3):
                answer = fleet.create()
                assert answer is None or answer.status in (202, 429, 500, 503), answer
                fleet.command(name, timeout=5)
            set_limit(pid, 4096)
            until(lambda: fleet.state(name) == "Running", 5, "an answer")
        until(lambda: (a := fleet.create()) and a.status == 202, 10, "a create")
        for each in fleet.ids() - {name}:
            fleet.remove(each)
        fleet.works(name)
        assert pid in (fleet.server.pid, fleet.server.warden_pid)
        census.check(fleet.server, before, 30)
