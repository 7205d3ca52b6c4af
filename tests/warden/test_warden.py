# SPDX-License-Identifier: Apache-2.0
"""The warden by itself: every message of box/wire.h over its socket, and what is left of boxes on the host.

OPENSANDBOX_BIN is the folder of the programs under test; EXECD the real PID 1, for the test that needs it. All other tests
bring a small PID 1 of their own, which can misbehave."""
import base64
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid

import census
import network_left
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("OPENSANDBOX_BIN", ROOT / "build/asan/bin")).resolve()
WARDEN = BIN / "opensandbox-warden"
EXECD = pathlib.Path(os.environ.get("EXECD", ROOT / "build/musl/bin/execd")).resolve()
SANITIZER = re.compile(r"runtime error:|AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer")

CREATE, PAUSE, RESUME, REMOVE, DIAL, LOGS, STATS, LIST, SNAPSHOT, SNAPSHOT_REMOVE, SNAPSHOTS = range(1, 12)
LAYER_ADD, LAYER_DROP, LAYERS, LAYER_PACK, VOLUME_MAKE, VOLUME_REMOVE, VOLUMES, RECORD_SET, RECORD_GET, ENDED = range(12, 22)
VERSION = 3
STARTING, RUNNING, PAUSED, OVER = range(4)
EXITED, INIT, KILLED, LOST = range(4)
INVALID, NOT_FOUND, CONFLICT, DENIED, LIMIT, TIMEOUT, UNAVAILABLE, IO, INTERNAL = range(1, 10)
REQUEST = struct.Struct("=IIQ64sIII4x5QI64sI64sI")  # the last: how many layers above the image follow
LAYER = struct.Struct("=I32s")
BLOB, SNAP = 1, 2
NO_IMAGE = 0xFFFFFFFF
REPLY = struct.Struct("=IIQ64sIIIiiI13Q16s2Q2II32sii496s4x")
LIMITS = (1000, 256 << 20, 256, 10 << 30, 1000000)  # cpu, memory, pids, disk, inodes
SLOTS = 2
DISK_SIZE = 4 << 30  # of all boxes together

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not WARDEN.exists(), reason=f"{WARDEN} is not built"),
    pytest.mark.skipif(not shutil.which("musl-gcc"), reason="needs musl-gcc"),
]


class Failed(Exception):
    def __init__(self, code, message, errno=0):
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.errno = code, message, errno


class Reply:
    def __init__(self, data, fds):
        (self.version, self.call, self.serial, name, self.failed, self.state, self.reason, self.exit_code, self.signal,
         self.oom, self.cpu_usec, self.memory_bytes, self.memory_peak_bytes, self.pids, self.disk_bytes, self.oom_kills,
         self.io_read_bytes, self.io_written_bytes, self.net_in_bytes, self.net_out_bytes, self.net_in_packets, self.net_out_packets, self.net_refused_packets,
         self.snapshot, self.flush_us, self.frozen_us, self.has_record, _, self.layer_kind, self.layer, self.code, self.errno, message) = REPLY.unpack(data)
        self.id = name.split(b"\0")[0].decode()
        self.message = message.split(b"\0")[0].decode()
        self.fds = fds


def sealed(spec):
    fd = os.memfd_create("spec", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, spec if isinstance(spec, bytes) else json.dumps(spec).encode())
    ctypes.CDLL(None, use_errno=True).fcntl(fd, 1033, 0xF)  # F_ADD_SEALS: seal, shrink, grow, write
    return fd


def request(call, serial, name="", port=0, image=0, limits=LIMITS, version=VERSION, layers=(), blob=None, diff_id=b"",
            network=0):
    """LAYERS are names of blobs or of snapshots, which are shorter; the uppermost first. BLOB is the digest of one that is added."""
    if call == LAYER_ADD and blob is None:
        blob = layers[0] if layers else b""
    blob = blob or b""
    packed = b"".join(LAYER.pack(BLOB if len(layer) == 32 else SNAP, layer) for layer in layers)
    return REQUEST.pack(version, call, serial, name.encode(), image, port, network, *limits, len(blob), blob,
                        len(diff_id), diff_id, len(layers)) + packed


RECORD = b"what the server wants to have back"


def with_record(fds, record=RECORD):
    """The descriptors of a create: its record comes behind the spec."""
    return [fds[0], sealed(record), *fds[1:]] if fds else []


class Peer:
    """One connection to the warden."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30)
        self.sock.connect(str(path))
        self.serial = 0
        self.answers, self.ended = {}, {}

    def send(self, call, name="", fds=(), **more):
        self.serial += 1
        fds = with_record(list(fds)) if call == CREATE else list(fds)
        socket.send_fds(self.sock, [request(call, self.serial, name, **more)], fds)
        if call == CREATE and fds:
            os.close(fds[1])
        return self.serial

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.sock, REPLY.size + 1, 4)
        if not data:
            raise EOFError
        reply = Reply(data, fds)
        if reply.call == ENDED:
            assert reply.serial == 0 and reply.id not in self.ended
            self.ended[reply.id] = reply
        return reply

    def wait(self, serial):
        while serial not in self.answers:
            reply = self.receive()
            if reply.call != ENDED:
                assert reply.serial not in self.answers, "answered twice"
                self.answers[reply.serial] = reply
        reply = self.answers.pop(serial)
        if reply.failed:
            raise Failed(reply.code, reply.message, reply.errno)
        return reply

    def call(self, call, name="", fds=(), **more):
        return self.wait(self.send(call, name, fds, **more))

    def create(self, spec=None, name=None, **more):
        name = name or str(uuid.uuid4())
        fd = sealed(spec or {"id": name})
        try:
            self.call(CREATE, name, [fd], **more)
        finally:
            os.close(fd)
        return name

    def list(self):
        serial = self.send(LIST)
        rows = {}
        while True:
            reply = self.receive()
            if reply.serial == serial and not reply.id:
                return rows
            if reply.serial == serial:
                rows[reply.id] = reply

    def record(self, name):
        fd, = self.call(RECORD_GET, name).fds
        with open(fd, "rb") as f:
            return f.read()

    def set_record(self, name, record):
        fd = sealed(record)
        try:
            self.call(RECORD_SET, name, [fd])
        finally:
            os.close(fd)

    def dial(self, name, port=0):
        fd, = self.call(DIAL, name, port=port).fds
        sock = socket.socket(fileno=fd)
        sock.settimeout(20)
        return sock

    def shell(self, name, line):
        """What one line of shell prints in the sandbox (the tests' own PID 1)."""
        with self.dial(name) as sock:
            sock.sendall(line.encode() + b"\n")
            out = b""
            while chunk := sock.recv(65536):
                out += chunk
        return out.decode()

    def wait_ended(self, name, seconds=10):
        self.sock.settimeout(seconds)
        while name not in self.ended:
            self.receive()
        self.sock.settimeout(30)
        return self.ended[name]


def mounts(folder):
    """Of this namespace, below FOLDER: other servers of this host come and go meanwhile."""
    return [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


class Warden:
    def __init__(self, folder, prefix, execd):
        self.folder, self.prefix, self.execd = folder, prefix, execd
        self.state = folder / "state"
        self.path = folder / "w.sock"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen(16)
        self.log = open(folder / "stderr", "ab")
        self.process = None
        self.netns = None  # another network than the host's, by its name

    def start(self, *more, slots=SLOTS, check=True, pass_fds=(), env=None):
        fd = self.listener.fileno()
        into = ["nsenter", f"--net=/run/netns/{self.netns}"] if self.netns else []
        self.process = subprocess.Popen(
            [*into, WARDEN, "--state-dir", self.state, "--prefix", self.prefix, "--execd", self.execd, "--socket-fd", str(fd),
             "--slots", str(slots), "--disk-size", str(DISK_SIZE), *more], pass_fds=[fd, *pass_fds], stderr=self.log, env=env or {})
        if check:
            self.settle(slots)
        return self

    def children(self, of=None):
        of = of or self.process.pid
        return pathlib.Path(f"/proc/{of}/task/{of}/children").read_text().split()

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settle(self, slots=SLOTS, boxes=0):
        """Waits until there is nothing but ready slots and boxes."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"warden ended: {self.stderr()}")
            if self.is_settled(slots, boxes):
                fds = self.fds()
                time.sleep(0.1)
                if self.is_settled(slots, boxes) and self.fds() == fds:
                    return
            time.sleep(0.02)
        raise AssertionError(f"not settled: {self.children()} {self.stderr()}")

    def helpers(self):
        """Children that are not boxes, which have a pid namespace of their own: the makers of slots, and workers."""
        found = []
        for child in self.children():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{child}/ns/pid") == os.readlink("/proc/self/ns/pid"):
                    found.append(child)
        return found

    def is_settled(self, slots, boxes):
        """Besides slots and boxes only the makers of slots, and of changes, are there."""
        with contextlib.suppress(OSError):
            helpers = self.helpers()
            names = {pathlib.Path(f"/proc/{p}/comm").read_text().strip() for p in helpers}
            return (len(self.children()) - len(helpers) == slots + boxes == len(self.folders())) and names <= {"osb-maker", "osb-changer"}
        return False

    def folders(self):
        return sorted(p.name for p in (self.state / "boxes").iterdir())

    @property
    def store(self):
        """Where the warden, and nobody else on the host, sees disks and layers."""
        return pathlib.Path(f"/proc/{self.process.pid}/root{self.state}/store")

    def disks(self):
        return sorted(p.name for p in (self.store / "disks").iterdir())

    def groups(self):
        return sorted({p.name for top in self.tops() for p in top.iterdir() if p.is_dir()})

    def tops(self):
        return sorted(p for depth in ("", "*/") for p in pathlib.Path("/sys/fs/cgroup").glob(depth + self.prefix))

    def census(self):
        return {"children": len(self.children()), "fds": self.fds(), "folders": len(self.folders()),
                "groups": len(self.groups()), "mounts": len(mounts(self.folder)),
                "networks": len(self.networks()), "layers": len(list((self.store / "layers").iterdir())),
                "disks": len(self.disks())}

    def networks(self):
        """Network namespaces of its boxes and slots."""
        found = set()
        for procs in (f for top in self.tops() for f in top.glob("**/cgroup.procs")):
            with contextlib.suppress(OSError):
                found |= {os.readlink(f"/proc/{pid}/ns/net") for pid in procs.read_text().split()}
        return found

    def peer(self):
        peer = Peer(self.path)
        peer.list()  # it is known from here on
        return peer

    def stderr(self):
        return (self.folder / "stderr").read_text()

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(20)

    def clean(self):
        """Ends whatever is left, however the test went. A slot that was being made may still enter its groups meanwhile."""
        if self.process and self.process.poll() is None:
            self.stop(signal.SIGKILL)
        until = time.monotonic() + 10
        while self.tops() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.kill_all()
                for top in self.tops():
                    for path, _, _ in os.walk(top, topdown=False):
                        os.rmdir(path)
            time.sleep(0.02)
        assert not self.tops()
        network_left.clean(self.prefix, self.netns)
        self.listener.close()
        self.log.close()

    def kill_all(self):
        for top in self.tops():
            pids = {int(pid) for f in top.glob("**/cgroup.procs") for pid in f.read_text().split()}
            for f in top.glob("**/freezer.state") if pids else ():
                f.write_text("THAWED")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    path = tmp_path_factory.mktemp("guest") / "init"
    subprocess.run(["musl-gcc", "-static", "-Os", "-D_GNU_SOURCE", f"-I{ROOT}/src", "-o", path, ROOT / "tests/peers/warden_guest.c"], check=True)
    return path


@pytest.fixture
def warden(tmp_path, guest):
    w = Warden(tmp_path, f"t{uuid.uuid4().hex[:7]}", guest)
    try:
        yield w
    finally:
        w.clean()
        print(w.stderr())
    assert not SANITIZER.search(w.stderr()), w.stderr()


def pid1(warden, name):
    """The PID 1 of the sandbox, as the host sees it."""
    for folder in (warden.state / "boxes").iterdir():
        with contextlib.suppress(FileNotFoundError):
            data = (folder / "box").read_bytes()
            if data[8:72].split(b"\0")[0].decode() == name:
                return struct.unpack_from("=i", data, 120)[0]
    raise AssertionError(f"no box {name}")


# ---- a life ---------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_box_runs_commands_as_root_of_its_own_host(warden):
    peer = warden.start().peer()
    name = peer.create()
    out = peer.shell(name, "id -u; hostname; cat /proc/1/comm; ls /; cat /etc/passwd; ls -A /root /home; echo x >/etc/x && cat /etc/x")
    assert out.startswith(f"0\n{name}\n")
    assert "root:x:0:0" in out and "nobody" in out and out.endswith("x\n")
    assert "/home:\n\n/root:\n" in out
    peer.call(REMOVE, name)


def test_the_image_has_nothing_of_the_hosts_own(warden):
    peer = warden.start().peer()
    name = peer.create()
    out = peer.shell(name, "ls -ld /bin /lib /tmp /var/tmp /root; ls /etc; python3 -c 'import ssl, os; print(len(os.environ))'")
    assert "usr/bin" in out and "drwxrwxrwt" in out and "drwx------" in out
    for word in ("ld.so.cache", "alternatives", "nsswitch.conf", "resolv.conf"):
        assert word in out
    for word in ("shadow", "fstab", "ssh", "sudoers", "machine-id"):
        assert word not in out.split()


@pytest.fixture
def usr_folder():
    """A folder of this test's own below the host's /usr."""
    path = pathlib.Path(f"/usr/local/lib/osb-test-{uuid.uuid4().hex[:8]}")
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


def test_files_of_usr_that_only_some_users_may_read_are_not_in_the_image(warden, usr_folder):
    """Root of a box owns what root of the host owns there, so a mode would not keep it out."""
    def put(name, mode, text="secret"):
        path = usr_folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    put("open", 0o644, "open")
    put("mine", 0o600)
    put("groups", 0o640)
    put("program", 0o4711)  # that everyone may run, so there is nothing in it to hide
    put("script", 0o711)
    put("closed/inside", 0o644)
    put("unlisted/inside", 0o644)
    put("deep/mine", 0o600)
    (usr_folder / "link").symlink_to("mine")
    for name, mode in (("closed", 0o700), ("unlisted", 0o711), ("deep", 0o750 | 0o5)):
        (usr_folder / name).chmod(mode)
    os.utime(usr_folder / "deep", (10**9, 10**9))
    peer = warden.start().peer()
    name = peer.create()
    out = peer.shell(name, f"cd {usr_folder}; ls -A . deep; cat open; stat -c '%n %a %u %Y' deep; grep -rs secret . -l")
    assert out.splitlines() == [".:", "deep", "link", "open", "program", "", "deep:", f"open{'deep 755 0 1000000000'}", "./program"]
    assert peer.shell(name, f"cd {usr_folder}; echo own >mine && cat mine; ls -A closed 2>&1") .startswith("own\n")
    assert (usr_folder / "mine").read_text() == "secret"
    peer.call(REMOVE, name)


def test_the_makers_of_slots_can_be_killed_at_any_moment(warden):
    peer = warden.start().peer()
    fds = warden.fds()
    for i in range(12):
        makers = warden.helpers()
        names = [peer.create() for _ in range(2)]  # of which they make the next two now
        time.sleep(0.001 * i)
        for pid in makers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for name in names:
            peer.call(REMOVE, name)
    warden.settle()
    assert warden.fds() in (fds, fds - 2, fds - 4)  # the last ones killed have a successor only when there is something to make
    assert peer.shell(peer.create(), "echo on")


def test_slots_made_for_creates_that_went_meanwhile_are_not_kept(warden):
    peer = warden.start().peer()
    before = warden.census()
    names = [str(uuid.uuid4()) for _ in range(12)]  # most of them wait for a slot
    fd = sealed({"id": names[0]})
    creates = [peer.send(CREATE, name, [fd]) for name in names]
    removes = [peer.send(REMOVE, name) for name in names]
    os.close(fd)
    for serial in removes:
        peer.wait(serial)
    for serial in creates:
        with contextlib.suppress(Failed):  # removed while it started
            peer.wait(serial)
    warden.settle()
    assert warden.census() == before


def test_removal_leaves_nothing(warden):
    peer = warden.start().peer()
    before = warden.census()
    names = [peer.create() for _ in range(4)]
    assert set(peer.list()) == set(names)
    for name in names:
        peer.shell(name, "(setsid sleep 1000 & setsid sleep 1000 &) >/dev/null 2>&1 </dev/null; mkdir -p /d/e/f; echo >/d/e/f/g")
        peer.call(REMOVE, name)
        assert name not in peer.list()
    warden.settle()
    assert warden.census() == before
    assert warden.groups() == warden.folders()


def test_most_slots_are_started_for_what_is_asked_for(warden):
    """Those cannot become anything else: for that there are the others."""
    peer = warden.start().peer()
    for _ in range(20):  # of 16 of a kind in a row
        peer.call(REMOVE, peer.create())
    warden.settle()
    eager = {int(p) for p in set(warden.children()) - set(warden.helpers()) if census.name_of(p) != "osb-maker"}
    assert len(eager) == SLOTS // 2
    inits = [census.init_of(warden, peer.create(name=name)) for name in ("like-it", "a-plain-one-now")]
    assert inits[0] in eager and inits[1] not in eager
    assert peer.shell("like-it", "uname -n").strip() == "like-it"
    warden.settle(boxes=2)
    peer.create(spec={"id": "x" * 40000})  # which fits into no pipe


def test_whoever_needs_a_plain_slot_waits_for_no_eager_one(warden):
    """With more of them at once than there are, while others take long to start."""
    peer = warden.start(slots=8).peer()
    warden.settle(slots=8)
    late = sealed({"id": "late", "mode": "never-ready"})
    slow = [peer.send(CREATE, f"slow-{i}", [late]) for i in range(2)]  # for the two plain slots
    names = [f"plain-{i}" for i in range(3)]
    for name in names:
        began = time.monotonic()
        peer.create(name=name)
        assert time.monotonic() - began < 5  # they go on for 10
    assert not set(slow) & set(peer.answers)
    os.close(late)


def test_fifty_boxes_come_and_go(warden):
    peer = warden.start().peer()
    peer.call(REMOVE, peer.create())
    warden.settle()
    before = warden.census()
    for _ in range(50):
        peer.call(REMOVE, peer.create())
    warden.settle()
    assert warden.census() == before


def test_many_creates_at_once(warden):
    peer = warden.start().peer()
    names = [str(uuid.uuid4()) for _ in range(20)]
    fds = [sealed({"id": n}) for n in names]
    serials = [peer.send(CREATE, n, [fd]) for n, fd in zip(names, fds)]
    for serial in serials:
        peer.wait(serial)
    assert {r.state for r in peer.list().values()} == {RUNNING} and len(peer.list()) == 20
    serials = [peer.send(REMOVE, n) for n in names]
    for serial in serials:
        peer.wait(serial)
    assert not peer.list()
    for fd in fds:
        os.close(fd)


def test_ports_are_dialled_in_the_boxes_own_network(warden):
    peer = warden.start().peer()
    name = peer.create()
    code = ("import socket, os; s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen()\n"
            "if os.fork() == 0: os.setsid(); os.closerange(0, 3); c, _ = s.accept(); c.sendall(b'inside'); c.close()\n")
    peer.shell(name, f"echo {base64.b64encode(code.encode()).decode()} | base64 -d | python3 -")
    with peer.dial(name, 8000) as sock:
        sock.settimeout(10)
        sock.connect(("127.0.0.1", 8000))
        assert sock.recv(100) == b"inside"


def test_pause_stops_everything_and_resume_lets_it_go_on(warden):
    peer = warden.start().peer()
    name = peer.create()
    peer.shell(name, "(setsid sh -c 'while :; do date +%s%N >/tmp/t; sleep 0.01; done' &) >/dev/null 2>&1 </dev/null; "
               "until [ -s /tmp/t ]; do sleep 0.01; done")
    peer.call(PAUSE, name)
    assert peer.list()[name].state == PAUSED
    for call in (PAUSE, DIAL):
        with pytest.raises(Failed) as e:
            peer.call(call, name)
        assert e.value.code == CONFLICT
    upper = next((warden.store / "disks").glob("*/upper/.root/tmp/t"))
    first = upper.read_text()
    time.sleep(0.2)
    assert upper.read_text() == first
    peer.call(RESUME, name)
    time.sleep(0.2)
    assert upper.read_text() != first
    with pytest.raises(Failed):
        peer.call(RESUME, name)
    peer.call(PAUSE, name)
    peer.call(REMOVE, name)
    warden.settle()


def test_stats_and_logs(warden):
    peer = warden.start().peer()
    name = peer.create()
    peer.shell(name, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    stats = peer.call(STATS, name)
    assert stats.cpu_usec > 0 and stats.memory_bytes > 0 and stats.pids >= 1 and stats.state == RUNNING
    fds = peer.call(LOGS, name).fds
    assert [os.read(fd, 100) for fd in fds] == [b"2026-06-15T09:46:58.120431123Z hello\n", b""]
    for fd in fds:
        with pytest.raises(OSError):
            os.write(fd, b"x")
        os.close(fd)


def test_limits_hold_from_the_start(warden):
    peer = warden.start().peer()
    name = peer.create(limits=(500, 64 << 20, 40, 10 << 30, 1000000))
    (number,) = [p.parent.name for p in (warden.state / "boxes").glob("*/box") if name.encode() in p.read_bytes()]
    assert {p.read_text().strip() for top in warden.tops() for p in top.glob(f"{number}/user/pids.max")} == {"40"}
    for file, wants in (("pids.max", ["72"]), ("user/memory.limit_in_bytes", [str(64 << 20)]), ("user/memory.max", [str(64 << 20)])):
        found = [p.read_text().strip() for top in warden.tops() for p in top.glob(f"{number}/{file}")]
        assert found == wants or not found and "memory" in file
    peer.call(REMOVE, name)


# ---- ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line, reason, code, signo", [
    ("exit 7", EXITED, 7, 0),
    ("exit 0", EXITED, 0, 0),
    ("die", INIT, 5, 0),
])
def test_an_end_is_told_and_the_row_stays(warden, line, reason, code, signo):
    peer = warden.start().peer()
    other = warden.peer()
    name = peer.create()
    peer.shell(name, "(setsid sleep 1000 &) >/dev/null 2>&1 </dev/null")
    peer.shell(name, line)
    for p in (peer, other):
        end = p.wait_ended(name)
        assert (end.reason, end.exit_code, end.signal, end.oom) == (reason, code, signo, 0)
    row = peer.list()[name]
    assert (row.state, row.reason, row.exit_code) == (OVER, reason, code)
    assert len(peer.call(LOGS, name).fds) == 2
    with pytest.raises(Failed) as e:
        peer.call(DIAL, name)
    assert e.value.code == CONFLICT
    peer.call(REMOVE, name)
    warden.settle()


def test_a_killed_pid_1_is_told(warden):
    peer = warden.start().peer()
    name = peer.create()
    os.kill(pid1(warden, name), signal.SIGKILL)
    end = peer.wait_ended(name, 2)
    assert (end.reason, end.exit_code, end.signal) == (KILLED, 137, 9)
    peer.call(REMOVE, name)


@pytest.mark.parametrize("mode, code, text", [
    ("cannot-start", INVALID, r"exec 'x\u001b[31m\ny\xff': No such file or directory"),
    ("die-early", INTERNAL, "execd ended before it was ready"),
])
def test_a_failed_start_leaves_nothing(warden, mode, code, text):
    peer = warden.start().peer()
    before = warden.census()
    with pytest.raises(Failed) as e:
        peer.create({"mode": mode})
    assert e.value.code == code and text in e.value.message
    warden.settle()
    assert warden.census() == before and not peer.list()


def test_a_start_that_never_ends_is_cut_off(warden):
    peer = warden.start().peer()
    name, fd = str(uuid.uuid4()), sealed({"mode": "never-ready"})
    serial = peer.send(CREATE, name, [fd])
    assert peer.list()[name].state == STARTING
    started = time.monotonic()
    with pytest.raises(Failed) as e:
        peer.wait(serial)
    assert e.value.code == TIMEOUT and 8 < time.monotonic() - started < 15
    os.close(fd)


def test_removes_of_one_box_are_answered_together_and_a_create_may_be_cut(warden):
    peer = warden.start().peer()
    name, fd = str(uuid.uuid4()), sealed({"mode": "never-ready"})
    create = peer.send(CREATE, name, [fd])
    serials = [peer.send(REMOVE, name) for _ in range(5)]
    for serial in serials:
        peer.wait(serial)
    with pytest.raises(Failed) as e:
        peer.wait(create)
    assert e.value.code == CONFLICT
    peer.call(REMOVE, name)  # what is not there is removed already
    os.close(fd)


def test_what_the_host_calls_usr_root_is_no_part_of_a_sandboxs_root(warden):
    warden.start().peer().create()
    layer = next((warden.store / "layers").glob("host-*"))
    assert os.getxattr(layer / ".root", "trusted.overlay.opaque") == b"y"


# ---- restarts -------------------------------------------------------------------------------------------------


def test_boxes_survive_a_killed_warden(warden):
    peer = warden.start().peer()
    names = [peer.create() for _ in range(3)]
    peer.shell(names[0], "echo kept >/root/f")
    peer.call(PAUSE, names[1])
    layers = len(list((warden.store / "layers").iterdir()))
    warden.stop(signal.SIGKILL)
    warden.start(check=False)
    peer = warden.peer()
    rows = peer.list()
    assert {n: rows[n].state for n in names} == {names[0]: RUNNING, names[1]: PAUSED, names[2]: RUNNING}
    assert peer.shell(names[0], "cat /root/f") == "kept\n"
    peer.call(RESUME, names[1])
    assert peer.shell(names[1], "echo hi") == "hi\n"
    os.kill(pid1(warden, names[2]), signal.SIGKILL)
    assert peer.wait_ended(names[2], 2).reason in (INIT, KILLED)
    peer.shell(names[1], "exit 3")
    assert peer.wait_ended(names[1]).exit_code == 3
    for name in names:
        peer.call(REMOVE, name)
    warden.settle()
    until = time.monotonic() + 5  # the old one goes with the last box that has it
    while len(list((warden.store / "layers").iterdir())) != layers and time.monotonic() < until:
        time.sleep(0.02)
    assert len(list((warden.store / "layers").iterdir())) == layers
    assert warden.groups() == warden.folders()


def test_what_ended_while_nobody_watched_is_told_in_the_list(warden):
    peer = warden.start().peer()
    told, lost, gone = (peer.create() for _ in range(3))
    peer.shell(gone, "exit 4")
    peer.wait_ended(gone)
    warden.stop(signal.SIGKILL)
    with_record = pid1(warden, told)
    folder = next(p.parent for p in (warden.state / "boxes").glob("*/box") if told.encode() in p.read_bytes())
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(folder / "execd.sock"))
    sock.sendall(b"exit 6\n")
    os.kill(pid1(warden, lost), signal.SIGKILL)
    until = time.monotonic() + 5
    while pathlib.Path(f"/proc/{with_record}/stat").exists() and time.monotonic() < until:
        if ") Z " in pathlib.Path(f"/proc/{with_record}/stat").read_text():
            break
        time.sleep(0.01)
    warden.start(check=False)
    rows = warden.peer().list()
    assert (rows[told].state, rows[told].reason, rows[told].exit_code) == (OVER, EXITED, 6)
    assert (rows[lost].state, rows[lost].reason) == (OVER, LOST)
    assert (rows[gone].state, rows[gone].reason, rows[gone].exit_code) == (OVER, EXITED, 4)


def test_leftovers_are_removed_at_the_next_start(warden):
    peer = warden.start().peer()
    name = peer.create()
    fd = sealed({"mode": "never-ready"})
    peer.send(CREATE, "half-made", [fd])
    assert peer.list()["half-made"].state == STARTING
    os.close(fd)
    warden.stop(signal.SIGKILL)
    data = bytearray(next(p for p in (warden.state / "boxes").glob("*/box") if name.encode() in p.read_bytes()).read_bytes())
    other_boot = warden.state / "boxes/b900"
    other_boot.mkdir()
    (other_boot / "deep/er").mkdir(parents=True)
    data[72:108] = b"00000000-0000-4000-8000-000000000000"
    (other_boot / "box").write_bytes(data)
    garbage = warden.state / "boxes/b901"
    garbage.mkdir()
    (garbage / "box").write_bytes(b"\xff" * 1000)
    foreign = warden.state / "boxes/notes"
    foreign.mkdir()
    for top in warden.tops():
        (top / "b902").mkdir()
    warden.start(check=False)
    peer = warden.peer()
    assert set(peer.list()) == {name}
    until = time.monotonic() + 10
    while time.monotonic() < until and (len(warden.folders()) != SLOTS + 2 or len(warden.groups()) != SLOTS + 1):
        time.sleep(0.05)
    assert foreign.exists() and not other_boot.exists() and not garbage.exists()
    assert "b902" not in warden.groups() and len(warden.groups()) == SLOTS + 1
    assert peer.shell(name, "echo alive") == "alive\n"


def test_kills_at_any_moment_lose_nothing_that_was_acknowledged(warden):
    """Traffic with removes, pauses and creates under way when the warden is killed, again and again."""
    rng = random.Random(7)
    acknowledged, unsure = set(), set()
    for round_ in range(int(os.environ.get("WARDEN_KILL_ROUNDS", "12"))):
        warden.start(check=False)
        peer = warden.peer()
        rows = peer.list()
        assert acknowledged <= set(rows) <= acknowledged | unsure, f"round {round_}"
        assert all(rows[n].state in (RUNNING, PAUSED) for n in acknowledged), f"round {round_}"
        unsure = set(rows) - acknowledged
        waiting = {}
        for name in sorted(acknowledged)[:6]:
            if rng.random() < 0.3:
                waiting[peer.send(REMOVE, name)] = (REMOVE, name)
                unsure.add(name)
                acknowledged.discard(name)
            elif rng.random() < 0.5:
                peer.send(RESUME if rows[name].state == PAUSED else PAUSE, name)
        for _ in range(6):
            name, fd = str(uuid.uuid4()), sealed({"id": "x"})
            waiting[peer.send(CREATE, name, [fd])] = (CREATE, name)
            unsure.add(name)
            os.close(fd)
        until = time.monotonic() + rng.random() * 0.08
        while (left := until - time.monotonic()) > 0:
            peer.sock.settimeout(left)
            with contextlib.suppress(TimeoutError):
                reply = peer.receive()
                call, name = waiting.get(reply.serial, (0, None))
                if call and not reply.failed:
                    unsure.discard(name)
                    (acknowledged.add if call == CREATE else acknowledged.discard)(name)
        warden.stop(signal.SIGKILL)
        with contextlib.suppress(OSError, EOFError):  # what it said before it died counts
            peer.sock.settimeout(1)
            while True:
                reply = peer.receive()
                call, name = waiting.get(reply.serial, (0, None))
                if call and not reply.failed:
                    unsure.discard(name)
                    (acknowledged.add if call == CREATE else acknowledged.discard)(name)
    warden.start(check=False)
    peer = warden.peer()
    assert acknowledged <= set(peer.list())
    for name in peer.list():
        peer.call(REMOVE, name)
    warden.settle()
    assert warden.groups() == warden.folders()


@pytest.mark.alone("uses up processors")
def test_a_fork_bomb_is_removed_within_seconds(warden):
    peer = warden.start().peer()
    name = peer.create()
    peer.shell(name, "(setsid sh -c 'b() { b | b & }; while :; do b; done' &) >/dev/null 2>&1 </dev/null")
    time.sleep(0.5)
    started = time.monotonic()
    peer.call(REMOVE, name)
    assert time.monotonic() - started < 5
    warden.settle()


def test_sigterm_leaves_boxes_and_no_slots(warden):
    peer = warden.start().peer()
    name = peer.create()
    warden.settle(boxes=1)
    process = pid1(warden, name)
    assert warden.stop() == 0
    assert len(warden.folders()) == 1 and warden.groups() == warden.folders()
    os.kill(process, 0)


def test_a_second_warden_is_refused(warden):
    warden.start()
    fd = warden.listener.fileno()
    for state, prefix, text, status in ((warden.state, "tother", "another warden runs", 4),
                                        (warden.folder / "other", warden.prefix, "another state directory", 1)):
        done = subprocess.run([WARDEN, "--state-dir", state, "--prefix", prefix, "--execd", warden.execd, "--socket-fd", str(fd)],
                              pass_fds=[fd], capture_output=True, text=True, timeout=30)
        assert done.returncode == status and text in done.stderr.splitlines()[0]
    for top in pathlib.Path("/sys/fs/cgroup").glob("*/tother"):
        top.rmdir()


def test_a_host_that_cannot_hold_boxes_is_refused(warden, tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF")
    bad.chmod(0o755)
    warden.execd = bad
    warden.start(check=False)
    assert warden.process.wait(20) == 1
    assert "this host cannot hold sandboxes" in warden.stderr()
    assert not warden.groups() and not warden.folders()


# ---- who asks, and how ----------------------------------------------------------------------------------------


def test_bad_requests_are_answered_or_dropped(warden):
    peer = warden.start().peer()
    fd = sealed({})
    plain = os.open("/etc", os.O_RDONLY)
    for code, call, name, fds, more in [
            (INVALID, CREATE, "../x", [fd], {}), (INVALID, CREATE, "x", [], {}), (INVALID, PAUSE, "x", [fd], {}),
            (INVALID, DIAL, "x", [], {"port": 65536}), (INVALID, CREATE, "x", [plain], {}), (NOT_FOUND, CREATE, "x", [fd], {"image": 7}),
            (INVALID, CREATE, "x", [fd], {"limits": (1, 2 ** 64 - 1, 1, 1, 1)}), (NOT_FOUND, STATS, "x", [], {}),
            (NOT_FOUND, DIAL, "x", [], {})]:
        with pytest.raises(Failed) as e:
            peer.call(call, name, fds, **more)
        assert e.value.code == code, (call, e.value)
    name = peer.create()
    with pytest.raises(Failed) as e:
        peer.create(name=name)
    assert e.value.code == CONFLICT
    for data, fds in [(b"x", []), (request(LIST, 1) + b"x", []), (request(LIST, 1, version=VERSION + 1), []), (request(LIST, 0), []),
                      (request(99, 1), []), (request(CREATE, 1, "x"), [fd, fd, fd, fd])]:
        bad = warden.peer()
        socket.send_fds(bad.sock, [data], fds)
        with pytest.raises((EOFError, ConnectionError)):
            bad.receive()
    assert peer.list()[name].state == RUNNING
    os.close(fd)
    os.close(plain)


def test_only_root_and_the_server_may_ask(warden):
    warden.start("--server-uid", "12345")
    os.chmod(warden.path, 0o666)
    warden.folder.chmod(0o755)
    for p in warden.folder.parents:
        if p != pathlib.Path("/") and not p.stat().st_mode & 1:
            p.chmod(p.stat().st_mode | 0o011)
    code = ("import socket,sys,os; os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
            "s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(10); s.connect(sys.argv[1])\n"
            "try: s.send(bytes.fromhex(sys.argv[3])); n=len(s.recv(10000))\nexcept ConnectionError: n=0\nprint(n)")
    for uid, want in ((12345, REPLY.size), (12346, 0)):
        done = subprocess.run(["/usr/bin/python3", "-c", code, warden.path, str(uid), request(LIST, 1).hex()], capture_output=True,
                              text=True, timeout=30, check=True)
        assert int(done.stdout) == want


def test_a_peer_that_does_not_read_holds_up_nobody(warden):
    peer = warden.start().peer()
    name = peer.create()
    slow = warden.peer()
    slow.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        for serial in range(1, 20000):
            slow.sock.send(request(STATS, serial, name))
    assert peer.shell(name, "echo hi") == "hi\n"
    slow.sock.close()
    peer.call(REMOVE, name)


# ---- with the real PID 1 --------------------------------------------------------------------------------------


@pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
def test_execd_runs_a_command(warden):
    warden.execd = EXECD
    peer = warden.start().peer()
    name = str(uuid.uuid4())
    peer.create({"id": name, "entrypoint": ["tail", "-f", "/dev/null"], "env": {"PATH": "/usr/bin:/bin"}}, name)
    http_ = http.client.HTTPConnection("sandbox")
    http_.sock = peer.dial(name)
    http_.request("POST", "/command", json.dumps({"command": "echo $((6*7))"}), {"Content-Type": "application/json"})
    response = http_.getresponse()
    assert response.status == 200 and b"42" in response.read()
    peer.call(REMOVE, name)
