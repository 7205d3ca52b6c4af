# SPDX-License-Identifier: Apache-2.0
"""Damage to the database, to its log, to its copy and to the secret (S1, S8, G8): what was acknowledged and outlives sandboxes
is there after the next start and can be used, and sandboxes that run can be reached."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import time

import pytest

from conftest import KEY
from fleet import running, until
from registry import Image, tar_of
from test_faults import recovers, refuses
from test_image_archives import layout_of, load

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

CAPACITY = {"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 3}
TEMPLATE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}}


def kill(fleet):
    """All of it at once, as when the machine stops."""
    for pid in (fleet.server.process.pid, fleet.server.pid, fleet.server.warden_pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    fleet.server.process.wait(10)


def keep(folder, place):
    """The database and its copy as they are now."""
    place.mkdir()
    for path in folder.glob("*.sqlite*"):
        if not path.name.endswith("-shm"):
            shutil.copy2(path, place)
            os.chown(place / path.name, path.stat().st_uid, path.stat().st_gid)


def put_back(folder, place, start):
    for path in folder.glob(start + "*"):
        path.unlink()
    for path in place.glob(start + "*"):
        shutil.copy2(path, folder)
        os.chown(folder / path.name, path.stat().st_uid, path.stat().st_gid)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 4
    with open(path, "r+b") as f:
        f.write(data)


def remove(folder, start):
    for path in folder.glob(start + "*"):
        path.unlink()


DAMAGES = {
    "nothing": lambda folder, place: None,
    "the log removed": lambda folder, place: (folder / "db.sqlite-wal").unlink(),
    "the log halved": lambda folder, place: os.truncate(folder / "db.sqlite-wal", (folder / "db.sqlite-wal").stat().st_size // 2),
    "a bit of the log flipped": lambda folder, place: flip(folder / "db.sqlite-wal", 0.3),
    "an older database": lambda folder, place: put_back(folder, place, "db.sqlite"),
    "an older log": lambda folder, place: put_back(folder, place, "db.sqlite-wal"),
    "no database": lambda folder, place: remove(folder, "db.sqlite"),
    "no copy": lambda folder, place: remove(folder, "copy.sqlite"),
    "the copy's log removed": lambda folder, place: (folder / "copy.sqlite-wal").unlink(),
    "the copy damaged": lambda folder, place: flip(folder / "copy.sqlite", 0),
    "an older copy": lambda folder, place: put_back(folder, place, "copy.sqlite"),
}


def claim(**more):
    return [{"name": "v", "mountPath": "/data", "pvc": {"claimName": "data", "storage": "16Mi", **more}}]


def make_all(fleet):
    """A snapshot, an image, a pool and a named volume, and no sandbox."""
    name = fleet.made(volumes=claim())
    assert fleet.command(name, "echo kept >/data/f && echo kept >/root/f && cat /data/f") == "kept"
    snapshot = fleet.taken(name)
    fleet.remove(name)
    items = load(fleet.server, layout_of(("kept.test/image:v1", Image([tar_of({"own": b"x" * 100})]))))
    answer = fleet.call("POST", "/v1/pools", {"name": "p", "template": TEMPLATE, "capacitySpec": CAPACITY})
    assert answer and answer.status == 201, answer
    return snapshot, items[0]["digest"]


def check_all(fleet, snapshot, digest):
    assert fleet.snapshot_state(snapshot) == "Ready"
    assert [i["digest"] for i in fleet.call("GET", "/v1/images").json["items"]] == [digest]
    assert fleet.call("GET", "/v1/pools/p").json["capacitySpec"] == CAPACITY
    assert [v["name"] for v in fleet.call("GET", "/v1/volumes").json["items"]] == ["data"]
    time.sleep(3)  # the layers of nobody have been removed by then
    name = fleet.made_somehow(image=None, snapshotId=snapshot, volumes=claim(createIfNotExists=False))
    assert fleet.command(name, "cat /root/f /data/f") == "keptkept"
    fleet.remove(name)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=[name.replace(" ", "-") for name in DAMAGES])
def test_what_outlives_sandboxes_outlives_damage_to_a_file(tmp_path, home, damage):
    folder, place = home.state / "server", tmp_path / "older"
    with running(tmp_path, home) as fleet:
        fleet.remove(fleet.made())
    with running(tmp_path, home, clean=False) as fleet:
        keep(folder, place)
        made = make_all(fleet)
        kill(fleet)
    damage(folder, place)
    with running(tmp_path, home) as fleet:
        check_all(fleet, *made)
        fleet.remove_snapshot(made[0])  # it can be changed, in both files
        assert fleet.call("DELETE", "/v1/pools/p").status == 204
        kill(fleet)
    remove(folder, "db.sqlite")
    with running(tmp_path, home) as fleet:
        assert fleet.snapshots() == set() and fleet.call("GET", "/v1/pools/p").status == 404
        assert [i["digest"] for i in fleet.call("GET", "/v1/images").json["items"]] == [made[1]]


def test_a_recovery_takes_it_from_the_copy(tmp_path, home, run_server):
    folder = home.state / "server"
    with running(tmp_path, home, clean=False) as fleet:
        made = make_all(fleet)
        kill(fleet)
    remove(folder, "db.sqlite-")
    (folder / "db.sqlite").write_bytes(b"this is no database" * 1000)
    refuses(run_server, home)
    assert "5 of 5 tables were read from the copy" in recovers(run_server, home)
    with running(tmp_path, home) as fleet:
        check_all(fleet, *made)


# ---- the secret -----------------------------------------------------------------------------------------------


def change(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount == 1


def spoil_file(folder):
    flip(folder / "secret", 0.1)


def spoil_database(folder):
    change(folder / "db.sqlite", "UPDATE meta SET value = zeroblob(32) WHERE name = 'secret'")


def spoil_copy(folder):
    change(folder / "copy.sqlite", "UPDATE meta SET value = zeroblob(32) WHERE name = 'secret'")


@pytest.mark.parametrize("spoils", [(spoil_file,), (spoil_database,), (spoil_copy,), (spoil_file, spoil_database), (spoil_file, spoil_copy),
                                    (spoil_database, spoil_copy)], ids=lambda s: "+".join(f.__name__[6:] for f in s))
def test_sandboxes_can_be_reached_after_damage_to_the_secret(tmp_path, home, spoils):
    with running(tmp_path, home, clean=False) as fleet:
        name = fleet.made()
        token = json.dumps(fleet.token(name))
        kill(fleet)
    for spoil in spoils:
        spoil(home.state / "server")
    with running(tmp_path, home) as fleet:
        fleet.works(name)
        assert json.dumps(fleet.token(name)) == token


def test_without_a_good_secret_the_start_says_what_to_do(tmp_path, home, run_server):
    folder = home.state / "server"
    with running(tmp_path, home, clean=False) as fleet:
        name = fleet.made()
        fleet.works(name)
        kill(fleet)
    good = (folder / "secret").read_bytes()
    for spoil in (spoil_file, spoil_database, spoil_copy):
        spoil(folder)
    before = {path.name: path.read_bytes() for path in (folder / "secret", folder / "db.sqlite")}
    for _ in range(2):
        done = refuses(run_server, home)
        assert "put it back from a backup" in done.stderr and str(folder / "secret") in done.stderr
    assert before["secret"] == (folder / "secret").read_bytes()
    (folder / "secret").write_bytes(good)
    with running(tmp_path, home) as fleet:
        fleet.works(name)


def test_a_recovery_may_make_a_new_secret(tmp_path, home, run_server):
    folder = home.state / "server"
    with running(tmp_path, home, clean=False) as fleet:
        name = fleet.made()
        kill(fleet)
    for spoil in (spoil_file, spoil_database, spoil_copy):
        spoil(folder)
    assert "cannot be reached any more" in recovers(run_server, home)
    with running(tmp_path, home) as fleet:
        assert fleet.state(name) == "Running" and fleet.command(name) is None
        fleet.remove(name)
        fleet.works(fleet.made())


def test_the_files_of_a_server_are_closed_to_others(tmp_path, home):
    with running(tmp_path, home) as fleet:
        until(lambda: (home.state / "server/copy.sqlite").exists(), 5, "a copy")
        assert fleet.ids() == set()
    for path in (home.state / "server").glob("*.sqlite*"):
        assert path.stat().st_mode & 0o077 == 0, path
