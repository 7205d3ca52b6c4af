# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at every named place (base/kill_point.h): what was acknowledged is true afterwards, the rest is whole or gone, and
nothing is left behind. SOAK: 25 times each."""
import contextlib
import datetime
import json
import os
import pathlib
import re
import signal
import sqlite3
import time
import uuid

import pytest

import census
from conftest import BIN, KEY, ROOT, Server
from fleet import BODY, BROKEN, Fleet, KillSwitch, until
from oci import layer, member
from registry import Image, Registry, is_installed
from test_image_pull import entry
from test_image_sandboxes import BASE, tar
from test_layers import add, drop, listed
from test_network_kernel import PLACES as NETWORK_PLACES
from test_warden import Peer

SOAK = bool(os.environ.get("SOAK"))
ROUNDS = 25 if SOAK else 1

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(BIN != ROOT / "build/asan/bin", reason="only the test build has kill points"),
]

# What leads to each place; a number behind the colon: at which pass.
PLACES = {
    "create": [
        "server.create.intent_queued", "server.create.intent_committed", "server.create.asked", "server.create.made",
        "server.create.told", "server.create.commit_queued",
        "server.store.written", "server.store.written:2", "server.store.committed", "server.store.committed:2",
        "warden.create.asked", "warden.create.slot_taken", "warden.create.claimed", "warden.create.woken",
        "warden.create.ready", "warden.create.running", "warden.create.told",
        "warden.file.opened", "warden.file.opened:2",
        "warden.slot.folder", "warden.slot.disk", "warden.slot.group", "warden.slot.network", "warden.slot.child", "warden.slot.ready",
    ],
    "pause": [
        "server.switch.intent_committed", "server.switch.asked", "server.switch.done", "server.switch.committed",
        "server.switch.told", "server.store.committed", "server.store.committed:2",
        "warden.pause.begun", "warden.pause.frozen", "warden.switch.done", "warden.switch.told",
    ],
    "resume": [
        "server.switch.intent_committed", "server.switch.asked", "server.switch.done", "server.switch.committed",
        "server.switch.told", "warden.resume.begun", "warden.resume.thawed", "warden.switch.done", "warden.switch.told",
    ],
    "renew": ["server.renew.queued", "server.renew.committed", "server.store.written"],
    "patch": [
        "server.patch.queued", "server.patch.committed", "server.store.committed", "server.record.sent", "warden.record.written",
    ],
    "delete": [
        "server.remove.mark_queued", "server.remove.marked", "server.remove.asked", "server.remove.gone",
        "server.remove.delete_queued", "server.remove.forgotten", "server.remove.told",
        "server.store.written", "server.store.written:2", "server.store.committed", "server.store.committed:2",
        "warden.remove.marked", "warden.file.opened", "warden.destroy.killed", "warden.destroy.waited",
        "warden.destroy.half_removed:3", "warden.destroy.emptied", "warden.remove.destroyed", "warden.remove.collected",
        "warden.remove.dead", "warden.remove.told", "warden.remove.proven", "warden.remove.number_freed",
    ],
    "expire": ["server.expiry.due", "server.remove.marked", "server.remove.gone", "warden.destroy.emptied"],
    "end": ["server.end.told", "server.end.queued", "warden.end.seen", "warden.end.noted"],
    "layer": ["warden.layer.begun", "warden.layer.unpacked", "warden.layer.named", "warden.layer.told", "warden.layer.retired"],
    "pool create": ["server.pool.create_queued", "server.pool.created", "server.store.written", "server.store.committed",
                    "server.copy.written", "server.copy.committed"],
    "pool refill": [
        "server.create.intent_queued", "server.create.intent_committed", "server.create.asked", "server.create.made",
        "server.create.told", "server.create.commit_queued", "server.store.committed:2",
        "warden.create.asked", "warden.create.claimed", "warden.create.woken", "warden.create.running", "warden.create.told",
    ],
    "pool take": [
        "server.pool.chosen", "server.hand.queued", "server.hand.committed", "server.hand.told", "server.store.written",
        "server.store.committed",
    ],
    "pool resize": ["server.pool.resized", "server.store.committed", "server.remove.marked", "server.remove.forgotten"],
    "pool delete": [
        "server.pool.delete_queued", "server.pool.deleted", "server.store.written", "server.store.committed", "server.remove.marked",
        "server.copy.written", "server.copy.committed",
        "server.remove.gone", "server.remove.forgotten", "warden.remove.marked", "warden.destroy.emptied",
    ],
    "volume create": [
        "warden.volume.made", "warden.volume.named", "server.volume.made", "server.create.intent_committed", "server.create.made",
        "server.create.volumes_kept",
        "server.store.written", "server.store.committed", "server.store.committed:2", "server.copy.written", "server.copy.committed",
        "server.copy.committed:2", "warden.create.slot_taken:2", "warden.create.claimed",
        "warden.create.ready",
    ],
    "volume delete": [
        "warden.volume.taken", "server.volume.marked", "server.volume.gone", "server.volume.forgotten", "server.store.written",
        "server.store.committed", "server.store.committed:2",
    ],
    "volume expire": [
        "server.remove.gone", "server.store.committed:3", "server.volume.marked", "warden.volume.taken",
    ],
    "restart server": [
        "server.recover.loaded", "server.recover.listed", "server.recover.read", "server.recover.restored", "server.recover.one",
        "server.recover.all",
    ],
    "restart warden": [
        "warden.adopt.one", "warden.adopt.one:2", "warden.adopt.all", "warden.start.image_made", "warden.start.trial",
        "warden.start.ready",
    ],
    "snapshot": [
        "server.snapshot.queued", "server.snapshot.recorded", "server.snapshot.told", "server.snapshot.asked", "server.snapshot.made",
        "server.snapshot.saved", "server.store.written", "server.store.committed", "server.store.committed:2",
        "server.copy.written", "server.copy.committed", "server.copy.committed:2",
        "warden.snapshot.begun", "warden.snapshot.flushing", "warden.snapshot.flushed", "warden.snapshot.noted", "warden.snapshot.frozen", "warden.snapshot.cloned",
        "warden.snapshot.let_go", "warden.snapshot.finished", "warden.snapshot.told", "warden.snapshot.record_written",
    ],
    "snapshot delete": [
        "server.snapshot.marked", "server.snapshot.unrecorded", "server.snapshot.deleted", "server.snapshot.forgotten", "server.snapshot.swept",
        "server.store.committed", "server.store.committed:2", "server.copy.committed", "server.copy.committed:2",
        "warden.snapshot.removing", "warden.snapshot.removed",
    ],
    "snapshot restart": ["server.recover.snapshot"],
    "copy restart": ["server.copy.restoring", "server.copy.restored", "server.copy.made", "server.copy.replacing"],
    "image create": [
        "server.pull.asked", "server.pull.found", "server.pull.commit_queued", "server.pull.committed", "server.image.pulled",
        "server.image.noted", "server.image.layer_asked", "server.image.layer_there", "server.image.layers_there",
        "server.create.intent_committed", "server.create.made", "server.create.told", "server.store.written:2", "server.store.committed:2",
        "server.store.committed:3", "server.copy.committed", "server.copy.committed:2", "warden.layer.begun", "warden.layer.unpacked", "warden.layer.named", "warden.layer.told",
    ],
    "image pending": ["server.pending.recorded", "server.pending.told"],
    "image export": ["server.export.packed", "server.export.packed:2", "warden.pack.begun", "warden.pack.begun:2", "warden.pack.told"],
    "image import": ["server.load.commit_queued", "server.import.loaded", "server.import.recorded", "server.store.committed",
                     "server.store.committed:2"],
    "fork": [
        "server.fork.layer", "server.fork.begun", "server.fork.made", "server.fork.told", "warden.snapshot.frozen",
        "warden.snapshot.told", "warden.create.ready", "warden.create.told:2",
    ],
    "rollback": [
        "server.rollback.queued", "server.rollback.noted", "server.rollback.gone", "server.rollback.made",
        "server.rollback.committed", "server.rollback.told", "warden.remove.marked", "warden.remove.dead", "warden.create.claimed",
        "warden.create.ready", "warden.create.told",
    ],
}
CASES = [(operation, place) for operation, places in PLACES.items() for place in places]

# Those of them where a child works for the warden, which may be killed alone (for want of memory, as a rule).
ALONE = {
    "create": ["warden.slot.folder", "warden.slot.disk", "warden.slot.group", "warden.slot.network", "warden.slot.child"],
    "pause": ["warden.pause.begun", "warden.pause.frozen"],
    "resume": ["warden.resume.begun", "warden.resume.thawed"],
    "delete": ["warden.destroy.killed", "warden.destroy.waited", "warden.destroy.half_removed:3", "warden.destroy.emptied",
               "warden.remove.destroyed"],
    "volume create": ["warden.volume.made", "warden.volume.named"],
    "volume delete": ["warden.volume.taken"],
    "snapshot": [
        "warden.snapshot.begun", "warden.snapshot.flushing", "warden.snapshot.flushed", "warden.snapshot.noted",
        "warden.snapshot.frozen", "warden.snapshot.cloned", "warden.snapshot.let_go", "warden.snapshot.finished",
    ],
    "snapshot delete": ["warden.snapshot.removing", "warden.snapshot.removed"],
    "image create": ["warden.layer.begun", "warden.layer.unpacked", "warden.layer.named"],
    "image export": ["warden.pack.begun", "warden.pack.begun:2"],
    "fork": ["warden.snapshot.flushing", "warden.snapshot.frozen", "warden.snapshot.cloned"],
    "rollback": ["warden.remove.destroyed"],
}
ALONE_CASES = [(operation, place) for operation, places in ALONE.items() for place in places]


def test_every_place_has_a_case():
    named = {name for path in (ROOT / "src").rglob("*.c") for name in re.findall(r'KILL_POINT(?:_NAME)?\("([^"]+)"\)', path.read_text())}
    assert named == {place.split(":")[0] for _, place in CASES} | {place for _, place in NETWORK_PLACES}
    assert len(named) >= 40


def test_only_test_builds_can_be_killed_like_that():
    for name in ("opensandbox-server", "opensandbox-warden"):
        program = ROOT / "build/release/bin" / name
        if not program.exists():
            pytest.skip("build/release is not built: make")
        data = program.read_bytes()
        assert b"KILL_POINT" not in data and b"create.intent_committed" not in data and b"warden.remove" not in data
    assert b"warden.remove.proven" in (ROOT / "build/asan/bin/opensandbox-warden").read_bytes()


class World(Fleet):
    """A server, a sandbox that must live through everything, and what the host looks like with just that one."""

    def __init__(self, folder):
        self.switch = KillSwitch(folder / "switch")
        self.registry = Registry(folder / "registry") if is_installed() else None
        super().__init__(Server(folder, entry(self.registry.host) if self.registry else "", env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_KILL_POINT_FD": str(self.switch.fd)},
                                pass_fds=[self.switch.fd]))
        self.keeper = self.place = None

    def start(self):
        self.server.wait_ready()
        self.nothing = census.settled(self.server)
        self.keeper = self.made(metadata={"k": "v"})
        self.works(self.keeper)
        self.before = census.settled(self.server)

    def wait_struck(self):
        until(lambda: self.switch.left == 0, 10, "getting there")
        self.wait_up()
        self.works(self.keeper)

    def others(self, name):
        """At most one besides the keeper and NAME, once nothing is half-made or half-gone any more."""
        def is_quiet():
            extra = (self.ids() or set()) - {self.keeper, name}
            return [*extra] if all(self.state(x) == "Running" for x in extra) else None
        quiet = until(lambda: None if (q := is_quiet()) is None else (q,), 10, "finishing or forgetting")[0]
        assert len(quiet) <= 1
        return quiet

    def check(self):
        """Only the keeper is left, it works, and the host has nothing more."""
        until(lambda: self.ids() == {self.keeper}, 10, "forgetting the rest")
        assert self.get(self.keeper).json["metadata"] == {"k": "v"}
        self.works(self.keeper)
        census.check(self.server, self.before, 10)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    w = World(tmp_path_factory.mktemp("crash"))
    try:
        w.start()
        yield w
        w.remove(w.keeper)
        census.check(w.server, w.nothing, 10)
    finally:
        w.switch.disarm()
        for name in w.ids() or ():
            w.remove(name)
        for name in w.snapshots() or ():
            w.remove_snapshot(name)
        w.server.stop()
        w.switch.close()
        if w.registry:
            w.registry.stop()


def run_create(w, arm):
    keys = [str(uuid.uuid4()), None]
    for key in keys if SOAK or w.place.startswith("server") else keys[:1]:  # a warden knows no keys
        arm()
        answer = w.create(key)
        w.wait_struck()
        name = answer.json["id"] if answer and answer.status == 202 else None
        if name:
            w.works(name)
        elif key:  # whoever asks again gets one, and there is no second
            name = until(lambda: (a := w.create(key)) and a.status == 202 and a.json["id"], 10, "asking again")
            w.works(name)
        for other in w.others(name):  # without a key: it was made and recorded, and only the answer was lost
            assert not name and w.state(other) == "Running"
            w.works(other)
            w.remove(other)
        if name:
            w.remove(name)
        w.check()


def run_switch(w, arm, pause):
    name = w.made()
    if not pause:
        assert w.pause(name).status == 202
    arm()
    answer = w.pause(name) if pause else w.resume(name)
    w.wait_struck()
    state = until(lambda: (s := w.state(name)) in ("Running", "Paused") and s, 5, f"a state ({w.get(name)})")
    if answer and answer.status == 202:
        assert state == ("Paused" if pause else "Running")
    # What the server says is so, at the latest when it has heard from the new warden.
    until(lambda: w.command(name, timeout=1) == "fine" or w.state(name) == "Paused", 5, f"agreement ({w.get(name)})")
    if w.state(name) == "Paused":
        assert w.command(name) is None
        until(lambda: (a := w.resume(name)) and a.status == 202 or w.state(name) == "Running", 5, "resuming")
    w.works(name, 5)
    until(lambda: (a := w.pause(name)) and a.status == 202, 5, "pausing")
    w.remove(name)


def run_pause(w, arm):
    run_switch(w, arm, True)


def run_resume(w, arm):
    run_switch(w, arm, False)


def run_renew(w, arm):
    name = w.made()
    old, new = w.get(name).json["expiresAt"], "2099-01-01T00:00:00Z"
    arm()
    answer = w.renew(name, new)
    w.wait_struck()
    now = w.get(name).json["expiresAt"]
    assert now == new if answer and answer.status == 200 else now in (old, new)
    w.works(name)
    w.remove(name)


def run_patch(w, arm):
    name = w.made(metadata={"a": "1"})
    arm()
    answer = w.patch(name, {"a": "2"})
    w.wait_struck()
    now = w.get(name).json["metadata"]
    assert now == {"a": "2"} if answer and answer.status == 200 else now in ({"a": "1"}, {"a": "2"})
    w.works(name)
    w.remove(name)


def run_delete(w, arm):
    name = w.made()
    assert w.command(name, "mkdir -p /d/e; echo >/d/e/f; (setsid sleep 1000 &) >/dev/null 2>&1; echo fine") == "fine"
    arm()
    answer = w.delete(name)
    w.wait_struck()
    if answer and answer.status == 204:
        assert w.state(name) == "none"
    else:
        w.remove(name)


def run_expire(w, arm):
    name = w.made()
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.5)
    assert w.renew(name, when.isoformat()).status == 200
    arm()
    w.wait_struck()
    until(lambda: w.state(name) == "none", 5, "expiring")


def volumes(w):
    """Their names, once the server tells them; and what there is of them on the disk."""
    def ask():
        with contextlib.suppress(*BROKEN, IndexError):  # no warden at the moment
            answer = w.server.get("/v1/volumes")
            disks = pathlib.Path(f"/proc/{w.server.warden_pid}/root{w.server.home.state}/store/disks")
            on_disk = [name for name in os.listdir(disks) if "vol-" in name]
            return ([v["name"] for v in answer.json["items"]], on_disk) if answer.status == 200 else None
    return until(ask, 10, "a list of volumes")


def delete_volume(w, name):
    with contextlib.suppress(*BROKEN):
        return w.server.request("DELETE", f"/v1/volumes/{name}", timeout=30)
    return None


def claim(name, **more):
    return [{"name": "v", "mountPath": "/data", "pvc": {"claimName": name, "storage": "16Mi", **more}}]


def run_volume_create(w, arm):
    """What was told is there, with what is in it; what was not told is whole or gone."""
    volume, key = f"v{uuid.uuid4().hex}", str(uuid.uuid4())
    arm()
    answer = w.create(key, volumes=claim(volume))
    w.wait_struck()
    name = answer.json["id"] if answer and answer.status == 202 else None
    if not name:
        name = until(lambda: (a := w.create(key, volumes=claim(volume))) and a.status == 202 and a.json["id"], 10, "asking again")
    assert w.command(name, "echo kept >/data/f && cat /data/f") == "kept"
    w.remove(name)
    again = w.made(volumes=claim(volume, createIfNotExists=False))
    assert w.command(again, "cat /data/f") == "kept"
    assert delete_volume(w, volume).status == 409
    w.remove(again)
    # A create that was cut off has it until that is removed.
    until(lambda: (a := delete_volume(w, volume)) and a.status in (204, 404), 10, "deleting the volume")
    until(lambda: volumes(w) == ([], []), 10, "forgetting the volume")


def run_volume_delete(w, arm):
    volume = f"v{uuid.uuid4().hex}"
    name = w.made(volumes=claim(volume))
    assert w.command(name, "echo fine >/data/f && cat /data/f") == "fine"
    w.remove(name)
    arm()
    answer = delete_volume(w, volume)
    w.wait_struck()
    if answer and answer.status == 204:
        assert volume not in volumes(w)[0]
    elif volumes(w)[0]:  # whole still, or on its way
        until(lambda: (a := delete_volume(w, volume)) and a.status in (204, 404), 10, "deleting again")
    until(lambda: volumes(w) == ([], []), 10, "forgetting the volume")


def run_volume_expire(w, arm):
    volume = f"v{uuid.uuid4().hex}"
    name = w.made(volumes=claim(volume, deleteOnSandboxTermination=True))
    when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.5)
    assert w.renew(name, when.isoformat()).status == 200
    arm()
    w.wait_struck()
    until(lambda: w.state(name) == "none" and volumes(w) == ([], []), 10, "expiring")


def run_end(w, arm):
    name = w.made()
    pid = census.init_of(w.server.home, name)
    arm()
    os.kill(pid, signal.SIGKILL)
    w.wait_struck()
    until(lambda: w.state(name) == "Failed", 5, f"noticing its end ({w.get(name)})")
    assert w.get(name).json["status"]["reason"] in ("CONTAINER_KILLED", "CONTAINER_INIT_DIED", "CONTAINER_LOST")
    w.remove(name)


def told(fn, *args):
    """Whether the warden lived to say so."""
    try:
        fn(*args)
    except (EOFError, OSError):
        return False
    return True


def run_layer(w, arm):
    """A layer is added, used by nobody, and dropped."""
    one = layer([member("f", data=os.urandom(100)), member("d/.wh..wh..opq")])
    path = w.server.home.run / "warden.sock"
    images = listed(Peer(path))  # of other cases; they may go at any moment
    arm()
    was_told = told(add, peer := Peer(path), one)
    if w.switch.left:
        told(drop, peer, one)
        was_told = False
    w.wait_struck()
    peer = Peer(path)
    assert one.digest in listed(peer) or not was_told
    add(peer, one)
    assert listed(peer) - images == {one.digest}
    drop(peer, one)
    assert one.digest not in listed(peer)
    kept = tuple(f"blob-{digest.removeprefix('sha256:')}" for digest in images)
    folder = pathlib.Path(f"/proc/{w.server.warden_pid}/root{w.server.home.state}/store/layers")
    until(lambda: all(p.name.startswith(("host-", *kept)) for p in folder.iterdir()), 10, "removing what is left")


def pool_sizes(idle):
    return {"bufferMin": idle, "bufferMax": idle, "poolMin": 0, "poolMax": 9}


def pool_ask(w, method, path="", body=None):
    """The answer, or None: the connection broke before it came."""
    with contextlib.suppress(*BROKEN):
        return w.server.request(method, f"/v1/pools{path}", None if body is None else json.dumps(body), timeout=30)
    return None


def pool_make(w, idle):
    return pool_ask(w, "POST", body={"name": "p", "template": BODY, "capacitySpec": pool_sizes(idle)})


def pool_status(w):
    """None when it did not answer; all are 0 when there is none."""
    answer = pool_ask(w, "GET", "/p")
    if answer is None or answer.status >= 500:
        return None
    return answer.json["status"] if answer.status == 200 else {"total": 0, "allocated": 0, "available": 0}


def pool_settled(w, idle):
    """Those that wait are as many as they should be, and nothing is on its way in or out."""
    return until(lambda: (s := pool_status(w)) and s["available"] == idle and s["total"] == idle + s["allocated"] and s, 20,
                 f"a pool of {idle} ({pool_status(w)})")


def pool_ready(w, idle):
    answer = pool_make(w, idle)
    assert answer and answer.status == 201
    pool_settled(w, idle)


def pool_end(w):
    until(lambda: (a := pool_ask(w, "DELETE", "/p")) and a.status in (204, 404), 15, "deleting the pool")


def run_pool_create(w, arm):
    arm()
    answer = pool_make(w, 1)
    w.wait_struck()
    found = until(lambda: pool_ask(w, "GET", "/p"), 10, "an answer")
    assert found.status == 200 if answer else found.status in (200, 404)
    if found.status == 200:  # whole, with all that follows from it
        pool_settled(w, 1)
    pool_end(w)


def run_pool_refill(w, arm):
    pool_ready(w, 0)
    arm()
    until(lambda: pool_ask(w, "PUT", "/p", {"capacitySpec": pool_sizes(2)}), 10, "more")
    w.wait_struck()
    until(lambda: (a := pool_ask(w, "PUT", "/p", {"capacitySpec": pool_sizes(2)})) and a.status == 200, 10, "more")
    assert pool_settled(w, 2)["allocated"] == 0
    assert w.ids() == {w.keeper}
    pool_end(w)


def run_pool_take(w, arm):
    pool_ready(w, 2)
    key = str(uuid.uuid4())
    body = {"extensions": {"poolRef": "p"}, "timeout": 600}
    arm()
    answer = w.ask("POST", "", body, {"Idempotency-Key": key})
    w.wait_struck()
    again = until(lambda: (a := w.ask("POST", "", body, {"Idempotency-Key": key})) and a.status == 202 and a, 10, "asking again")
    name = again.json["id"]
    assert not answer or answer.status != 202 or answer.json["id"] == name
    w.works(name)
    assert pool_settled(w, 2)["allocated"] == 1 and w.ids() == {w.keeper, name}
    other = w.ask("POST", "", body)
    assert other.status == 202 and other.json["id"] != name
    pool_end(w)
    for one in (name, other.json["id"]):
        w.works(one)
        w.remove(one)


def run_pool_resize(w, arm):
    pool_ready(w, 2)
    arm()
    answer = pool_ask(w, "PUT", "/p", {"capacitySpec": pool_sizes(1)})
    w.wait_struck()
    now = until(lambda: pool_ask(w, "GET", "/p"), 10, "an answer").json["capacitySpec"]
    assert now == pool_sizes(1) if answer else now in (pool_sizes(1), pool_sizes(2))
    pool_settled(w, now["bufferMax"])
    pool_end(w)


def run_pool_delete(w, arm):
    pool_ready(w, 2)
    arm()
    answer = pool_ask(w, "DELETE", "/p")
    w.wait_struck()
    if answer:
        assert until(lambda: pool_ask(w, "GET", "/p"), 10, "an answer").status == 404
    pool_end(w)  # the census tells whether those that waited are gone


def run_restart(w, arm, pid):
    name = w.made()
    arm()
    os.kill(pid, signal.SIGKILL)
    w.wait_struck()
    w.works(name)
    assert w.state(name) == "Running"
    w.remove(name)


def run_restart_server(w, arm):
    run_restart(w, arm, w.server.pid)


def run_restart_warden(w, arm):
    run_restart(w, arm, w.server.warden_pid)


def run_snapshot(w, arm):
    name = w.made()
    assert w.command(name, "echo kept > /root/file; echo fine") == "fine"
    arm()
    answer = w.ask("POST", f"/{name}/snapshots")
    w.wait_struck()
    w.works(name)  # it is not frozen
    assert w.state(name) == "Running"
    found = w.settled_snapshots()
    if answer and answer.status == 202:
        assert answer.json["id"] in found
    assert len(found) <= 1 and {*found.values()} <= {"Ready", "Failed"}
    if "Ready" in found.values():
        copy = w.made_somehow(image=None, snapshotId=[*found][0])
        assert w.command(copy, "cat /root/file") == "kept"
        w.remove(copy)
    until(lambda: (a := w.pause(name)) and a.status == 202, 5, "pausing")
    w.remove(name)
    for snapshot in found:
        w.remove_snapshot(snapshot)


def run_snapshot_delete(w, arm):
    name = w.made()
    snapshot = w.taken(name)
    arm()
    answer = w.call("DELETE", f"/v1/snapshots/{snapshot}")
    w.wait_struck()
    if answer and answer.status == 204:
        assert w.snapshot_state(snapshot) == "none"
    w.remove_snapshot(snapshot)
    w.remove(name)


def run_snapshot_restart(w, arm):
    name = w.made()
    snapshot = w.taken(name)
    arm()
    os.kill(w.server.pid, signal.SIGKILL)
    w.wait_struck()
    assert w.settled_snapshots() == {snapshot: "Ready"}
    w.works(name)
    w.remove(name)
    w.remove_snapshot(snapshot)


def run_copy_restart(w, arm):
    """The database has lost a record of a snapshot, or its copy is gone: the next start mends either."""
    name = w.made()
    assert w.command(name, "echo kept > /root/file; echo fine") == "fine"
    snapshot = w.taken(name)
    folder = w.server.home.state / "server"
    if w.place.startswith("server.copy.rest"):
        with contextlib.closing(sqlite3.connect(folder / "db.sqlite")) as db, db:
            assert db.execute("DELETE FROM snapshots WHERE id = ?", (snapshot,)).rowcount == 1
    else:
        (folder / "copy.sqlite").unlink()
    arm()
    os.kill(w.server.pid, signal.SIGKILL)
    w.wait_struck()
    assert w.settled_snapshots() == {snapshot: "Ready"}
    copy = w.made_somehow(image=None, snapshotId=snapshot)
    assert w.command(copy, "cat /root/file") == "kept"
    with contextlib.closing(sqlite3.connect(f"file:{folder}/copy.sqlite?mode=ro", uri=True)) as db:
        assert db.execute("SELECT id FROM snapshots").fetchall() == [(snapshot,)]
    for one in (name, copy):
        w.remove(one)
    w.remove_snapshot(snapshot)


def run_fork(w, arm):
    name = w.made()
    assert w.command(name, "echo kept > /root/file; echo fine") == "fine"
    arm()
    answer = w.ask("POST", f"/{name}/fork", {"count": 2, "timeout": 3600})
    w.wait_struck()
    w.works(name)
    forks = {s["id"] for s in answer.json["items"]} if answer and answer.status == 202 else set()
    for fork in forks:
        w.works(fork)
        assert w.command(fork, "cat /root/file") == "kept"
    def settled():
        ids = w.ids()
        return ids is not None and all(w.state(i) in ("Running", "none") for i in ids) and (ids - {w.keeper, name},)
    if not forks:
        time.sleep(1.5)  # a removal that failed is tried again after a second
    others = until(settled, 10, "finishing or forgetting")[0]
    assert forks <= others and len(others) <= 2
    for fork in others:
        w.works(fork)
        assert w.command(fork, "cat /root/file") == "kept"
        w.remove(fork)
    w.remove(name)


def run_rollback(w, arm):
    name = w.made(metadata={"m": "1"})
    assert w.command(name, "echo old > /root/file; echo fine") == "fine"
    snapshot = w.taken(name)
    assert w.command(name, "echo new > /root/file; echo fine") == "fine"
    arm()
    answer = w.ask("POST", f"/{name}/rollback", {"snapshotId": snapshot})
    w.wait_struck()
    state = until(lambda: (s := w.state(name)) in ("Running", "Failed") and s, 10, f"a state ({w.get(name)})")
    if answer and answer.status == 200:
        assert state == "Running"
        until(lambda: w.command(name, "cat /root/file") == "old", 5, "its old file, once the warden is back")
    elif state == "Running":
        w.works(name)
        assert w.command(name, "cat /root/file") in ("old", "new")
    again = lambda: w.ask("POST", f"/{name}/rollback", {"snapshotId": snapshot})  # noqa: E731
    until(lambda: (a := again()) and a.status == 200, 10, "rolling back again")
    assert w.command(name, "cat /root/file") == "old" and w.get(name).json["metadata"] == {"m": "1"}
    w.remove(name)
    w.remove_snapshot(snapshot)


# ---- images of a registry ----


def push(w):
    """An image that nobody has seen yet."""
    return w.registry.push(f"killed/i{uuid.uuid4().hex}", "v1", Image([BASE, tar([member("own", data=os.urandom(1000))])]))


def forget_images(w):
    """And nothing is left of them in the folder of blobs."""
    def gone():
        found = w.call("GET", "/v1/images")
        for image in found.json["items"] if found and found.status == 200 else ():
            w.call("DELETE", f"/v1/images?uri={image['uri']}")
        return found and found.status == 200 and not [i for i in found.json["items"] if not i["kept"]]
    until(gone, 10, "forgetting images")
    blobs = w.server.home.state / "server" / "blobs"
    until(lambda: not [p for p in blobs.iterdir() if p.name.startswith("new-")], 10, "sweeping blobs")


def run_image_create(w, arm):
    """Whoever asks again gets one, and there is no second; no half image is in its way."""
    uri, key = push(w), str(uuid.uuid4())
    arm()
    answer = w.create(key, image={"uri": uri})
    w.wait_struck()
    name = answer.json["id"] if answer and answer.status == 202 else None
    if not name:
        again = lambda: w.create(key, image={"uri": uri})  # noqa: E731
        name = until(lambda: (a := again()) and a.status == 202 and a.json["id"], 15, "asking again")
    assert w.command(name, "ls /own") == "/own" and w.state(name) == "Running"
    assert w.others(name) == []
    snapshot = w.taken(name)
    w.remove(name)
    for image in w.call("GET", "/v1/images").json["items"]:
        w.call("DELETE", f"/v1/images?uri={image['uri']}")
    copy = w.made_somehow(image=None, snapshotId=snapshot)  # the record knows what it stands on
    assert w.command(copy, "ls /own") == "/own"
    w.remove(copy)
    w.remove_snapshot(snapshot)
    forget_images(w)


def run_image_pending(w, arm):
    """The answer is Pending after 20 s. Who got it finds the sandbox, Failed: its environment is kept nowhere. Who did not
    finds the same, or nothing."""
    uri, key = push(w), str(uuid.uuid4())
    w.registry.process.send_signal(signal.SIGSTOP)
    try:
        arm()
        answer = w.create(key, image={"uri": uri})
        w.wait_struck()
    finally:
        w.registry.process.send_signal(signal.SIGCONT)
    names = until(lambda: None if (ids := w.ids()) is None else (ids - {w.keeper},), 10, "a list")[0]
    assert len(names) <= 1
    if answer and answer.status == 202:
        assert answer.json["status"]["state"] == "Pending" and names == {answer.json["id"]}
    for name in names:
        status = until(lambda: (a := w.get(name)) and a.status == 200 and a.json["status"], 10, "its state")
        assert (status["state"], status["reason"]) == ("Failed", "PROVISIONING_INTERRUPTED")
        w.remove(name)
    forget_images(w)


def exported(w, snapshot):
    """The archive; None: the connection broke, or it could not be had at the moment."""
    with contextlib.suppress(*BROKEN):
        answer = w.server.request("GET", f"/v1/snapshots/{snapshot}/archive", timeout=60)
        return answer.body if answer.status == 200 else None
    return None


def imported(w, archive):
    with contextlib.suppress(*BROKEN):
        return w.server.request("POST", "/v1/snapshots/import?name=imported", body=archive, timeout=60)
    return None


def run_image_export(w, arm):
    """One that was cut off leaves nothing, and works the next time."""
    name = w.made(image={"uri": push(w)})
    assert w.command(name, "echo kept > /file; echo fine") == "fine"
    snapshot = w.taken(name)
    arm()
    assert not exported(w, snapshot) or "told" in w.place
    w.wait_struck()
    archive = until(lambda: exported(w, snapshot), 10, "exporting again")
    assert b"kept" in archive
    w.remove(name)
    w.remove_snapshot(snapshot)
    forget_images(w)


def run_image_import(w, arm):
    name = w.made(image={"uri": push(w)})
    assert w.command(name, "echo kept > /file; echo fine") == "fine"
    snapshot = w.taken(name)
    archive = exported(w, snapshot)
    arm()
    answer = imported(w, archive)
    w.wait_struck()
    found = {s: state for s, state in w.settled_snapshots().items() if s != snapshot}
    assert len(found) <= 1 and set(found.values()) <= {"Ready"}
    assert not answer or answer.json["id"] in found
    if not found:
        answer = until(lambda: imported(w, archive), 10, "importing again")
        assert answer.status == 201, answer
        found = {answer.json["id"]: "Ready"}
    for one in found:
        copy = w.made_somehow(image=None, snapshotId=one)
        assert w.command(copy, "cat /file") == "kept"
        w.remove(copy)
        w.remove_snapshot(one)
    w.remove(name)
    w.remove_snapshot(snapshot)
    forget_images(w)


def killed(world, operation, place, alone):
    name, _, passes = place.partition(":")
    if operation.startswith("image") and not world.registry:
        pytest.skip("docker-registry is not installed")
    world.place = place
    for _ in range(ROUNDS):
        run = globals()["run_" + operation.replace(" ", "_")]
        try:
            run(world, lambda: world.switch.arm(name, int(passes or 1), alone))
        finally:
            world.switch.disarm()
        world.check()


def names_of(cases):
    return [f"{o.replace(' ', '-')}-{p}" for o, p in cases]


@pytest.mark.parametrize("operation,place", CASES, ids=names_of(CASES))
def test_killed_at(world, operation, place):
    killed(world, operation, place, False)


@pytest.mark.parametrize("operation,place", ALONE_CASES, ids=names_of(ALONE_CASES))
def test_a_child_of_the_warden_killed_alone_at(world, operation, place):
    """The warden lives and needs no restart: it tells the truth, nothing stays frozen, nothing is left behind."""
    warden = world.server.warden_pid
    killed(world, operation, place, True)
    assert world.server.warden_pid == warden
