# SPDX-License-Identifier: Apache-2.0
"""What bounds the disk of a sandbox (L3, G7, G10), from inside of it and from the host."""
import base64
import contextlib
import errno
import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import time

import pytest

from test_warden import (CREATE, INVALID, LIMITS, PAUSE, REMOVE, RESUME, RUNNING, SLOTS, STATS, UNAVAILABLE,
                         WARDEN, Failed, guest, pid1, sealed, warden)  # noqa: F401
from test_warden import pytestmark as needs

MIB = 1 << 20
SLACK = 4 * MIB
MKFS = pathlib.Path("/usr/sbin/mkfs.btrfs")
SUBVOL_CREATE, SNAP_DESTROY, SYNC, TREE_ARGS = 0x5000940E, 0x5000940F, 0x9408, 4096

pytestmark = [*needs, pytest.mark.skipif(not MKFS.exists(), reason="needs btrfs-progs"),
              pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="needs loop devices")]


def disk(size):
    return (*LIMITS[:3], size, LIMITS[4])


def python(peer, name, code):
    """What it prints. The last files before a limit are slow, and slower on a busy disk: each refusal is a commit."""
    with peer.dial(name) as sock:
        sock.settimeout(120)
        sock.sendall(f"echo {base64.b64encode(code.encode()).decode()} | base64 -d | python3 - 2>&1\n".encode())
        out = b""
        while chunk := sock.recv(65536):
            out += chunk
    return out.decode()


def loops(warden):
    """Devices that have the image."""
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if path.read_text().strip().startswith(str(warden.state / "disk.img")):
                found.append(path.parent.parent.name)
    return found


def qgroups(warden):
    """Limits in bytes, per subvolume."""
    device, = loops(warden)
    folder = next(pathlib.Path("/sys/fs/btrfs").glob(f"*/devices/{device}")).parent.parent / "qgroups"
    found = {}
    for path in folder.glob("0_*"):
        with contextlib.suppress(OSError):
            found[path.name] = int((path / "max_referenced").read_text())
    return found


def sync(warden):
    fd = os.open(warden.store, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SYNC)
    finally:
        os.close(fd)


def on_disk(warden):
    """What the image takes of the host's disk."""
    sync(warden)
    return os.stat(warden.state / "disk.img").st_blocks * 512


def wait_for(what, seconds=20):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def of_box(warden, name):
    """The folder that tells of the sandbox is named as its disk."""
    for folder in (warden.state / "boxes").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if (folder / "box").read_bytes()[8:72].split(b"\0")[0].decode() == name:
                return folder.name
    raise AssertionError(f"no box {name}")


FILL = """
import os
n = 0
for path in ("/f", "/usr/f", "/tmp/g"):
    try:
        fd = os.open(path, os.O_CREAT | os.O_WRONLY)
        while True: n += os.write(fd, b"x" * 65536)
    except OSError as e: print(path, n, e.errno)
"""


# ---- the limit ------------------------------------------------------------------------------------------------


def test_a_full_disk_stays_within_its_limit_and_the_box_in_hand(warden):
    peer = warden.start().peer()
    full, other = peer.create(limits=disk(64 * MIB)), peer.create()
    before = on_disk(warden)
    lines = python(peer, full, FILL).splitlines()
    assert len(lines) == 3 and all(int(line.split()[2]) in (errno.EDQUOT, errno.ENOSPC) for line in lines), lines
    assert 60 * MIB < int(lines[-1].split()[1]) <= 64 * MIB
    assert 60 * MIB < peer.call(STATS, full).disk_bytes <= 64 * MIB
    assert on_disk(warden) - before <= 64 * MIB + SLACK
    assert peer.shell(other, "dd if=/dev/zero of=/big bs=1M count=80 2>/dev/null && stat -c %s /big") == f"{80 * MIB}\n"
    assert peer.call(STATS, other).disk_bytes >= 80 * MIB
    for call in (PAUSE, RESUME, PAUSE):
        started = time.monotonic()
        peer.call(call, full)
        assert time.monotonic() - started < 5
    assert set(peer.list()) == {full, other}
    started = time.monotonic()
    peer.call(REMOVE, full)
    assert time.monotonic() - started < 5
    assert peer.shell(other, "stat -c %s /big") == f"{80 * MIB}\n"


def test_a_full_box_is_still_logged_and_its_end_recorded(warden):
    peer = warden.start().peer()
    name = peer.create(limits=disk(8 * MIB))
    python(peer, name, FILL)
    with contextlib.suppress(OSError):
        peer.shell(name, "exit 3")
    assert peer.wait_ended(name).exit_code == 3
    warden.stop(signal.SIGKILL)
    warden.start(check=False)
    assert warden.peer().list()[name].exit_code == 3


def test_room_that_is_given_back_can_be_used_again(warden):
    peer = warden.start().peer()
    name = peer.create(limits=disk(32 * MIB))
    for _ in range(3):
        python(peer, name, FILL)
        assert peer.shell(name, "rm -f /f /usr/f /tmp/g && echo gone") == "gone\n"
        assert peer.shell(name, "dd if=/dev/zero of=/f bs=1M count=24 2>/dev/null && echo fits; rm /f") == "fits\n"


FLOOD = """
import os
def until_full(what):
    n = 0
    try:
        while True:
            what(n); n += 1
    except OSError as e: return n, e.errno
os.mkdir("/d")
print(*until_full(lambda n: os.close(os.open(f"/d/{n}", os.O_CREAT | os.O_WRONLY))))
print(*until_full(lambda n: os.mkdir(f"/usr/{n}")))
print(*until_full(lambda n: os.symlink("x" * 1000, f"/d/s{n}")))
print(*until_full(lambda n: os.link("/d/0", f"/d/" + "l" * 200 + str(n))))
print(*until_full(lambda n: open(f"/tmp/t{n}", "w").write("x" * 1500)))
"""


def test_a_flood_of_small_files_is_bounded(warden):
    peer = warden.start().peer()
    name = peer.create(limits=disk(4 * MIB))
    before = on_disk(warden)
    rows = [tuple(map(int, line.split())) for line in python(peer, name, FLOOD).splitlines()]
    assert len(rows) == 5 and 5000 < rows[0][0] < 25000
    assert {number for _, number in rows} <= {errno.EDQUOT, errno.ENOSPC, errno.EMLINK}
    assert peer.call(STATS, name).disk_bytes <= 4 * MIB
    assert on_disk(warden) - before <= 4 * MIB + SLACK
    started = time.monotonic()
    peer.call(REMOVE, name)
    assert time.monotonic() - started < 5


TRICKS = """
import ctypes, mmap, os
def tried(what):
    try: what()
    except OSError as e: print(e.errno)
    else: print(0)
def allocate(): os.posix_fallocate(os.open("/a", os.O_CREAT | os.O_RDWR), 0, 1 << 30)
def unlinked():
    fd = os.open("/u", os.O_CREAT | os.O_RDWR); os.unlink("/u")
    while True: os.write(fd, b"x" * 65536)
def unnamed():
    fd = os.open("/", os.O_TMPFILE | os.O_RDWR)
    while True: os.write(fd, b"x" * 65536)
def attributes():
    for i in range(100000): open(f"/x{i}", "w").close(); os.setxattr(f"/x{i}", "user.a", b"x" * 3000)
def direct():
    fd = os.open("/o", os.O_CREAT | os.O_RDWR | os.O_DIRECT); m = mmap.mmap(-1, 65536)
    while True: os.write(fd, m)
def as_another():
    os.setgid(1234); os.setuid(1234)
    while True: os.write(os.open("/tmp/y", os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"x" * 65536)
for f in allocate, unlinked, unnamed, attributes, direct, as_another: tried(f)
"""


def test_no_way_of_writing_leads_around_the_limit(warden):
    peer = warden.start().peer()
    name = peer.create(limits=disk(16 * MIB))
    before = on_disk(warden)
    numbers = [int(line) for line in python(peer, name, TRICKS).splitlines()]
    assert len(numbers) == 6 and set(numbers) <= {errno.EDQUOT, errno.ENOSPC}, numbers
    assert peer.call(STATS, name).disk_bytes <= 16 * MIB
    assert on_disk(warden) - before <= 16 * MIB + SLACK


def test_a_sandbox_makes_no_subvolumes(warden):
    peer = warden.start().peer()
    name = peer.create()
    code = f"""
import fcntl, os, struct
for path in "/", "/usr", "/tmp", "/root":
    fd = os.open(path, os.O_RDONLY)
    for call in {SUBVOL_CREATE}, {SNAP_DESTROY}:
        try: fcntl.ioctl(fd, call, bytearray(struct.pack("q", 0) + b"nested".ljust({TREE_ARGS - 8}, b"\\0"))); print("made")
        except OSError as e: print(e.errno)
"""
    out = python(peer, name, code).split()
    assert len(out) == 8 and set(out) <= {str(errno.ENOTTY), str(errno.EPERM)}, out
    peer.call(REMOVE, name)


@pytest.mark.smoke
def test_every_slot_has_the_default_limit_and_a_box_its_own(warden):
    peer = warden.start().peer()
    warden.settle()
    assert set(qgroups(warden).values()) == {0, 10 << 30}
    name = peer.create(limits=disk(1 * MIB))  # the least that there is
    assert MIB in qgroups(warden).values()
    assert peer.shell(name, "echo x >/x; cat /x") == "x\n"
    for size in (MIB - 1, 0, 1 << 62):
        with pytest.raises(Failed) as e:
            peer.create(limits=disk(size))
        assert e.value.code == INVALID
    assert peer.create(limits=disk(1 << 40)) in peer.list()  # more than there is, which is for others to say


# ---- restarts -------------------------------------------------------------------------------------------------


def test_limits_and_files_survive_a_killed_warden(warden):
    peer = warden.start().peer()
    name = peer.create(limits=disk(32 * MIB))
    peer.shell(name, "echo kept >/root/kept")
    upper = warden.store / "disks" / of_box(warden, name) / "upper/.root/root/kept"
    inode, devices = upper.stat().st_ino, loops(warden)
    assert len(devices) == 1
    host = pathlib.Path("/proc/self/mountinfo").read_text()
    assert str(warden.state) not in host and devices[0] not in host
    warden.stop(signal.SIGKILL)
    assert loops(warden) == devices  # the box holds it
    assert peer_shell_of(warden, name) == "kept\n"
    warden.start(check=False)
    peer = warden.peer()
    assert peer.list()[name].state == RUNNING and loops(warden) == devices
    upper = warden.store / "disks" / of_box(warden, name) / "upper/.root/root/kept"
    assert upper.stat().st_ino == inode and upper.read_text() == "kept\n"
    assert peer.shell(name, "cat /root/kept; echo more >>/root/kept") == "kept\n"
    assert upper.read_text() == "kept\nmore\n"
    lines = python(peer, name, FILL).splitlines()
    assert 28 * MIB < int(lines[-1].split()[1]) <= 32 * MIB and 28 * MIB < peer.call(STATS, name).disk_bytes <= 32 * MIB
    peer.call(REMOVE, name)
    assert warden.stop() == 0
    wait_for(lambda: not loops(warden))
    assert str(warden.state) not in pathlib.Path("/proc/self/mountinfo").read_text()


def peer_shell_of(warden, name):
    """Without a warden: through the root of its PID 1."""
    return pathlib.Path(f"/proc/{pid1(warden, name)}/root/root/kept").read_text()


def test_the_last_box_takes_the_loop_device_with_it(warden):
    peer = warden.start().peer()
    peer.create()
    warden.settle(boxes=1)
    assert warden.stop() == 0 and len(loops(warden)) == 1
    warden.kill_all()
    wait_for(lambda: not loops(warden))


def test_disks_of_nobody_are_swept(warden):
    peer = warden.start().peer()
    name = peer.create()
    warden.settle(boxes=1)
    disks = warden.store / "disks"
    fd = os.open(disks, os.O_RDONLY)
    fcntl.ioctl(fd, SUBVOL_CREATE, bytearray(struct.pack("q", 0) + b"b900".ljust(TREE_ARGS - 8, b"\0")))
    os.close(fd)
    (disks / "b900/f").write_text("left")
    (disks / "b901/deep").mkdir(parents=True)
    (disks / "notes").mkdir()
    (warden.state / "boxes/b902").mkdir()  # a folder without a disk
    warden.stop(signal.SIGKILL)
    warden.start(check=False)
    peer = warden.peer()
    mine = of_box(warden, name)
    wait_for(lambda: len(warden.disks()) == SLOTS + 2 and {mine, "notes"} <= set(warden.disks()))
    wait_for(lambda: len(warden.folders()) == SLOTS + 1)
    assert not {"b900", "b901"} & set(warden.disks()) and "b902" not in warden.folders()
    assert peer.shell(name, "echo alive") == "alive\n"


def test_hundreds_of_boxes_leave_no_subvolumes_or_quotas(warden):
    peer = warden.start().peer()
    warden.settle()
    disks = len(warden.disks())
    for i in range(int(os.environ.get("DISK_CYCLES", "200"))):
        name = peer.create(limits=disk((16 + i % 7) * MIB))
        if i % 10 == 0:
            peer.shell(name, "dd if=/dev/zero of=/f bs=64k count=16 2>/dev/null; mkdir -p /a/b/c")
        peer.call(REMOVE, name)
    warden.settle()
    assert len(warden.disks()) == disks

    def is_clean():
        sync(warden)  # which has the kernel take apart what was removed
        return len(qgroups(warden)) == disks + 2  # of the folder of disks, and of all that is in no disk

    wait_for(is_clean, 60)


def test_the_image_grows_when_it_is_told_to(warden):
    warden.start("--disk-size", str(256 * MIB))
    small = os.statvfs(warden.store)
    peer = warden.peer()
    name = peer.create()
    warden.settle(boxes=1)
    warden.stop(signal.SIGKILL)
    warden.start("--disk-size", str(1024 * MIB), check=False)  # with a box that uses it
    warden.peer()
    assert small.f_blocks * small.f_frsize == 256 * MIB
    assert os.statvfs(warden.store).f_blocks * small.f_frsize == 1024 * MIB
    assert warden.peer().shell(name, "df -k / | tail -1").split()[1] == str(1024 * 1024)


# ---- hosts that cannot ----------------------------------------------------------------------------------------


def started_without(warden, hidden, *more):
    """A warden on a host where something is missing. Its output."""
    fd = warden.listener.fileno()
    line = f"mount --bind {warden.folder}/nothing {hidden} && exec \"$@\""
    (warden.folder / "nothing").touch()
    return subprocess.Popen(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", line, "sh", WARDEN, "--state-dir", warden.state, "--prefix",
         warden.prefix, "--execd", warden.execd, "--socket-fd", str(fd), "--slots", "1", *more], pass_fds=[fd],
        stderr=warden.log, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


@pytest.mark.parametrize("hidden, says", [(MKFS, "install btrfs-progs"), ("/dev/loop-control", "'/dev/loop-control'")])
def test_a_host_without_a_limit_is_refused_by_name(warden, hidden, says):
    warden.process = started_without(warden, hidden)
    assert warden.process.wait(20) == 1
    assert says in warden.stderr() and "--unsafe-no-disk-limit" in warden.stderr() and warden.stderr().count("\n") == 1
    assert not warden.tops() and not (warden.state / "disk.img.new").exists()


def test_an_operator_can_go_on_without_a_limit(warden):
    warden.process = started_without(warden, MKFS, "--unsafe-no-disk-limit")
    peer = warden.peer()
    name = peer.create()
    assert peer.shell(name, "dd if=/dev/zero of=/f bs=1M count=4 2>/dev/null; stat -c %s /f") == f"{4 * MIB}\n"
    assert peer.call(STATS, name).disk_bytes == 0
    fd = sealed({"id": "x"})
    serial = peer.send(CREATE, "limited", [fd], limits=disk(64 * MIB))  # what cannot be enforced is refused
    with pytest.raises(Failed) as e:
        peer.wait(serial)
    assert e.value.code == UNAVAILABLE
    os.close(fd)
    assert not loops(warden) and not (warden.state / "disk.img").exists()
    peer.call(REMOVE, name)
    wait_for(lambda: len(list((warden.state / "disks").iterdir())) == 1)  # the slot's


def test_a_wrong_size_is_a_usage_error():
    with open("/dev/null", "rb") as null:
        done = subprocess.run([WARDEN, "--state-dir", "/nowhere", "--prefix", "x", "--execd", "/x", "--socket-fd", "5", "--disk-size",
                               "1000"], stdin=null, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "--disk-size" in done.stderr


# ---- neighbours -----------------------------------------------------------------------------------------------


def test_removal_does_not_wait_for_anybodys_writes(warden):
    """Both have hundreds of dirty megabytes, and the neighbour goes on."""
    peer = warden.start().peer()
    large = (1000, 1 << 30, *LIMITS[2:])
    name, other = peer.create(limits=large), peer.create(limits=large)
    peer.shell(other, "(setsid sh -c 'while :; do dd if=/dev/zero of=/n bs=1M count=300; done' &) >/dev/null 2>&1 </dev/null")
    peer.shell(name, "dd if=/dev/zero of=/f bs=1M count=400 2>/dev/null")
    took = []
    for call in (PAUSE, RESUME, REMOVE):
        started = time.monotonic()
        peer.call(call, name)
        took.append(time.monotonic() - started)
    assert max(took) < 5, took
    started = time.monotonic()
    peer.call(REMOVE, peer.create())
    assert time.monotonic() - started < 5


def test_a_store_that_boxes_have_filled_together_is_emptied_by_removing_them(warden):
    """More was promised than there is: nobody can write any more, and everything else goes on."""
    peer = warden.start("--disk-size", str(256 * MIB)).peer()
    names = [peer.create(), peer.create()]
    for name in names:
        lines = python(peer, name, FILL).splitlines()
        assert len(lines) == 3 and all(int(line.split()[2]) == errno.ENOSPC for line in lines), lines
    with contextlib.suppress(OSError):
        peer.shell(names[1], "exit 4")
    assert peer.wait_ended(names[1]).exit_code == 4
    peer.call(PAUSE, names[0])
    warden.stop(signal.SIGKILL)
    warden.start("--disk-size", str(256 * MIB), check=False)
    peer = warden.peer()
    assert peer.list()[names[1]].exit_code == 4 and set(peer.list()) == set(names)
    for name in names:
        started = time.monotonic()
        peer.call(REMOVE, name)
        assert time.monotonic() - started < 5

    wait_for(lambda: sync(warden) or on_disk(warden) < 64 * MIB, 40)
    warden.stop()
    warden.start("--disk-size", str(256 * MIB))  # one that began with a full store has no image
    peer = warden.peer()
    assert peer.shell(peer.create(), "dd if=/dev/zero of=/f bs=1M count=50 2>/dev/null && echo fits") == "fits\n"
