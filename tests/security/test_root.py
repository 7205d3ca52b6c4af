# SPDX-License-Identifier: Apache-2.0
"""R1 to R7, D1 to D3, V1, O1: the root, descriptors and our own program, devices, paths."""
import hashlib
import http.client
import json
import os
import pathlib
import re
import stat
import threading
import time

import pytest

from conftest import EXECD
from inside import NOBODY, ROOT_AND_OTHER, box, eventually, plane, pytestmark_needs, read  # noqa: F401

pytestmark = pytestmark_needs
MASKED = ["/proc/" + n for n in ("acpi", "asound", "interrupts", "kcore", "keys", "kmsg", "latency_stats", "sched_debug", "scsi",
                                 "sysrq-trigger", "timer_list", "timer_stats")]
MASKED += ["/sys/" + n for n in ("firmware", "fs/bpf", "kernel/debug", "kernel/tracing", "kernel/security", "devices/virtual/powercap")]
MASKED += ["/proc/diskstats", "/proc/partitions", "/proc/fs/ext4", "/proc/fs/jbd2", "/proc/fs/xfs"]
MASKED += ["/sys/" + n for n in ("block", "class/bdi", "class/block", "dev/block", "devices/virtual/bdi", "devices/virtual/block", "fs/btrfs",
                                 "fs/ext4", "fs/f2fs", "fs/xfs")]


def mounts_of(sandbox):
    """Mount point -> (options of the mount, type, all options of the file system)."""
    rows = {}
    for line in sandbox.run("cat /proc/self/mountinfo").out.splitlines():
        left, right = line.split(" - ")
        rows[left.split()[4]] = (set(left.split()[5].split(",")), *right.split(" ", 2)[::2])
    return rows


# ---- the root ---------------------------------------------------------------------------------------------------------


@ROOT_AND_OTHER
@pytest.mark.smoke
def test_R1_there_is_no_way_out_of_the_root(box, uid):
    """chroot and .., a descriptor kept over a chroot, the root of others, and names that magic links would lead to."""
    got = box.python("""
        marks = sorted(os.listdir('/'))
        def same(): return sorted(os.listdir('.')) == marks
        out = []
        os.chdir('/' + '../' * 40); out.append(same())
        try:
            os.makedirs('/tmp/jail%d' % os.getuid(), exist_ok=True)
            fd = os.open('/', os.O_RDONLY)
            os.chroot('/tmp/jail%d' % os.getuid())
            os.fchdir(fd)
            for _ in range(100): os.chdir('..')
            out.append(same())
            os.chroot('.')
            out.append(sorted(os.listdir('/')) == marks)
        except PermissionError:
            out += [True, True]
        print(out)
        """, uid)
    assert got == [True, True, True]


def test_R1_propagation_is_private_and_the_old_root_is_gone(box):
    text = box.run("cat /proc/self/mountinfo").out
    assert not re.search(r" (shared|master|propagate_from):", text)
    tops = [line.split()[4] for line in text.splitlines()]
    assert tops.count("/") == 1 and not [t for t in tops if "stage" in t or "layers" in t], tops


@pytest.mark.parametrize("cwd", ["/proc/1/root", "/proc/self/root/../..", "/proc/self/fd/3", "/proc/1/cwd", "/dev/fd/3"])
def test_R1_a_working_directory_is_inside_of_the_root(box, cwd):
    status, body = box.request("POST", "/command", json.dumps({"command": "pwd; ls /", "cwd": cwd}))
    assert status == 400, body


def test_R1_a_working_directory_that_moves_away_fails_the_command_or_stays_inside(box):
    """Somebody swaps the directory for a link while it is entered."""
    box.start("mkdir -p /tmp/w/a /tmp/w/b; cd /tmp/w; while :; do mv a c; ln -s /proc/1/root a; rm a; mv c a; done")
    try:
        for _ in range(30):
            status, body = box.request("POST", "/command", json.dumps({"command": "pwd -P; ls -A", "cwd": "/tmp/w/a"}))
            assert status in (200, 400), body
            assert b"(unreachable)" not in body and b"/proc" not in body, body
    finally:
        box.run("pkill -9 -f /tmp/w; rm -rf /tmp/w")


@pytest.mark.parametrize("path", ["proc", "sys", "dev", "etc", "etc/resolv.conf", "etc/passwd", "tmp"])
def test_R2_links_planted_where_we_look_lead_nowhere(plane, path):
    """The sandbox replaces what PID 1 or the next start of a program will open."""
    sandbox = plane.create()
    before = os.stat("/etc/hostname").st_mtime
    sandbox.run(f"mv /{path} /old-{path.replace('/', '-')}; ln -s /../../../../../../../../tmp /{path}; ln -s / /loop; true")
    got = sandbox.run("echo alive >/root/x; cat /root/x; ls -d /proc/1")
    assert "alive" in got.out and os.stat("/etc/hostname").st_mtime == before, got
    assert sandbox.ping_ms() < 1000
    sandbox.delete()


def test_R3_mounts_have_their_flags(box):
    rows = mounts_of(box)
    want = {"/": {"nosuid", "nodev"}, "/proc": {"nosuid", "nodev", "noexec"}, "/sys": {"ro", "nosuid", "nodev", "noexec"},
            "/dev": {"nosuid", "noexec"}, "/dev/pts": {"nosuid", "noexec"}, "/dev/shm": {"nosuid", "nodev", "noexec"},
            "/dev/mqueue": {"nosuid", "nodev", "noexec"}}
    for path, flags in want.items():
        assert flags <= rows[path][0], (path, rows[path])
    assert all("nosuid" in flags for flags, *_ in rows.values())
    assert "size=65536k" in rows["/dev"][2] and "mode=755" in rows["/dev"][2]  # one file system with /dev/shm
    assert {"ptmxmode=666", "mode=620", "max=1024"} <= set(rows["/dev/pts"][2].split(","))
    assert "size=65536k" in rows["/dev/shm"][2]
    known = set(want) | {"/usr", "/usr/.root", *MASKED, "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/pressure"}
    assert set(rows) <= known or all(p.startswith("/sys/devices/system/cpu/") for p in set(rows) - known), set(rows) - known
    kinds = {kind for _, kind, _ in rows.values()}
    assert kinds <= {"overlay", "proc", "sysfs", "tmpfs", "devpts", "mqueue"}, kinds


@ROOT_AND_OTHER
def test_R3_root_and_usr_are_one_file_system_and_neither_shows_the_other_twice(box, uid):
    got = box.python("""
        hidden, own = '/usr/.root', '/tmp/own%d' % os.getuid()
        open(own, 'w').close()
        print([{os.lstat(p).st_dev for p in ('/', '/usr', '/tmp', own, '/etc/passwd', '/usr/bin', os.path.realpath('/usr/bin/env'), hidden)},
               os.listdir(hidden), 'bin' in os.listdir(hidden + '/..'), os.path.ismount(own),
               tried(os.rename, hidden, '/usr/elsewhere'), tried(os.rmdir, hidden), os.system('find /usr -maxdepth 1 >/dev/null')])
        """, uid)
    devices, *rest = got
    assert len(devices) == 1 and rest[:3] == [[], True, False] and {*rest[3:5]} <= {"EBUSY", "EACCES"} and rest[5] == 0, got


def test_R3_everything_in_usr_can_be_changed(box):
    assert box.run("mkdir /usr/local/d && chown -R 1000 /usr/local /usr/.root && chmod -R g+w /usr/local /usr/.root && du -shx /usr/local").code == 0


@ROOT_AND_OTHER
def test_R3_mounts_cannot_be_changed(box, uid):
    got = box.python("""
        print({call(165, b'none', b'/tmp', b'tmpfs', 0, None), call(165, b'/', b'/tmp', None, 4096, None), call(166, b'/proc/sys', 2),
               call(165, None, b'/sys', None, 32 | 4096, None), call(155, b'.', b'.'), call(428, -100, b'/', 1), call(430, b'tmpfs', 0),
               call(442, -100, b'/sys', 0, bytes(32), 32), call(429, -100, b'/tmp', -100, b'/sys', 0)})
        """, uid)
    assert got == {"EPERM"}, got


@ROOT_AND_OTHER
def test_R4_what_is_masked_cannot_be_read(box, uid):
    got = box.python(f"""
        def look(p):
            if not os.path.lexists(p): return 'ENOENT'
            return tried(os.listdir, p) if os.path.isdir(p) else tried(lambda: open(p, 'rb').read(1))
        print({{p: look(p) for p in {MASKED}}})
        """, uid)
    assert set(got.values()) <= {"ENOENT", "EACCES", "EPERM"}, got
    assert "EACCES" in got.values()
    throttles = box.python("""
        import glob
        print([tried(os.listdir, p) for p in glob.glob('/sys/devices/system/cpu/cpu*/thermal_throttle')])
        """, uid)
    assert set(throttles) <= {"EACCES"}, throttles


@ROOT_AND_OTHER
def test_L6_nothing_of_the_store_shows(plane, box, uid):
    """Neither the file system that all disks are on, nor the device below it, nor the one that the state directory is on."""
    state = str(plane.server.home.state)
    devices = [p.parent.parent.name for p in pathlib.Path("/sys/block").glob("loop*/loop/backing_file") if read(p).startswith(state)]
    ids = [p.name for d in devices for p in pathlib.Path("/sys/fs/btrfs").iterdir() if (p / "devices" / d).exists()]
    assert len(devices) == len(ids) == 1
    got = box.python(f"""
        import re
        sought, seen = re.compile(r'\\b{devices[0]}\\b|{ids[0]}|\\bbtrfs-\\d|{state}'), []
        for top in ('/sys', '/proc/fs'):
            for folder, folders, files in os.walk(top):
                for name in folders + files:
                    path = os.path.join(folder, name)
                    if sought.search(path) or (os.path.islink(path) and sought.search(os.readlink(path))): seen.append(path)
        for path in ('/proc/diskstats', '/proc/partitions', '/proc/swaps', '/proc/devices', '/proc/locks', '/proc/misc', '/proc/vmstat'):
            try:
                if sought.search(open(path).read()): seen.append(path)
            except OSError: pass
        print(seen)
        """, uid)
    assert got == []


def test_R4_masks_are_of_our_making(box):
    """Not the image's /dev/null: their device is a file system that nothing else in the sandbox is on."""
    got = box.python(f"""
        print([{{(os.lstat(p).st_dev, os.lstat(p).st_uid, os.lstat(p).st_mode & 0o777) for p in {MASKED} if os.path.lexists(p)}},
               {{os.stat(p).st_dev for p in ('/', '/dev', '/dev/null', '/dev/shm', '/tmp', '/usr')}}])
        """)
    (dev, owner, mode), = got[0]
    assert dev not in got[1] and owner == 65534 and mode == 0, got


@ROOT_AND_OTHER
def test_R4_masks_are_no_way_to_other_sandboxes(box, uid):
    """All sandboxes have the same ones: nobody can open, lock, watch or change them."""
    assert {"ro", "nosuid", "nodev", "noexec"} <= set.intersection(*[f for p, (f, *_) in mounts_of(box).items() if p in MASKED])
    got = box.python(f"""
        def tries(p):
            name = p.encode()
            return {{tried(os.open, p, os.O_RDONLY), tried(os.open, p, os.O_WRONLY), tried(os.chmod, p, 0o777), tried(os.chown, p, 0, 0),
                    tried(os.utime, p), tried(os.setxattr, p, 'user.x', b'x'), call(254, INOTIFY, name, 0xfff),
                    tried(os.link, p, '/tmp/mask'), tried(os.rename, p, p + '2')}}
        INOTIFY = ctypes.CDLL(None).inotify_init1(0)
        print(set().union(*[tries(p) for p in {MASKED} if os.path.lexists(p)]))
        """, uid)
    assert got <= {"EACCES", "EPERM", "EROFS", "EXDEV", "EISDIR", "ENOENT"}, got


@ROOT_AND_OTHER
def test_R5_nothing_of_the_kernels_files_can_be_written(box, uid):
    """All of /proc and /sys but what is of one's own processes: sysctls, sysrq, uevent helpers, core patterns, ..."""
    got = box.python("""
        import stat
        tried_, hits = 0, []
        for top in ('/proc', '/sys'):
            for folder, folders, files in os.walk(top):
                if folder == '/proc':
                    folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]
                for name in files:
                    path = os.path.join(folder, name)
                    try:
                        if not stat.S_ISREG(os.lstat(path).st_mode): continue
                        tried_ += 1
                        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                        hits.append(path)
                    except OSError:
                        pass
        print((tried_, hits))
        """, uid)
    assert got[0] > 500 and got[1] == [], got
    got = box.python("""
        print({p: tried(lambda: open(p, 'w').write('x')) for p in
               ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe', '/proc/sysrq-trigger', '/proc/sys/kernel/hostname',
                '/proc/sys/vm/drop_caches', '/sys/kernel/uevent_helper', '/proc/sys/net/ipv4/ip_forward', '/sys/power/state',
                '/proc/sys/user/max_user_namespaces', '/proc/sys/kernel/ns_last_pid', '/proc/irq/default_smp_affinity')})
        """, uid)
    assert set(got.values()) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, got


@ROOT_AND_OTHER
def test_R5_control_groups_are_out_of_reach(box, uid):
    got = box.python("""
        print([os.listdir('/sys/fs/cgroup'), open('/proc/self/cgroup').read().split(), tried(os.mkdir, '/sys/fs/cgroup/x'),
               'cgroup' in open('/proc/self/mountinfo').read()])
        """, uid)
    assert got[0] == [] and got[2] in ("EROFS", "EACCES", "EPERM", "ENOENT") and got[3] is False, got
    assert all(line.endswith(":/") for line in got[1]), got


def test_R6_nothing_inside_tells_of_others_or_of_secrets(plane, box):
    other = plane.create(env={"OTHERS_SECRET": "0thers"}, metadata={"tenant": "acme-tenant"})
    other.start("sleep 300")
    text = box.run("cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup /proc/1/cgroup /proc/*/cmdline /proc/*/environ /proc/net/unix"
                   " /proc/self/status /proc/cmdline /proc/swaps /proc/locks /proc/1/mountinfo 2>/dev/null; env; hostname; ls -laR /etc /root /home /var /tmp /run 2>/dev/null").out
    token = box.token["X-EXECD-ACCESS-TOKEN"]
    number = re.compile(rf"boxes/{other.group}\b")
    for secret in (other.id, token, other.token["X-EXECD-ACCESS-TOKEN"], "0thers", "acme-tenant", "0123456789abcdef0123456789abcdef"):
        assert secret not in text, secret
    assert not number.search(text)
    other.delete()


def test_G10_folders_deeper_than_any_path_are_deleted(plane):
    sandbox = plane.create()
    assert sandbox.python("""
        os.chdir('/root')
        for i in range(1000):
            os.mkdir('d' * 200)
            os.chdir('d' * 200)
        os.mkfifo('f')
        os.chmod('.', 0)
        print(i)
        """) == 999
    folder = sandbox.box
    inode = folder.stat().st_ino
    sandbox.delete(20)
    eventually(lambda: not folder.exists() or folder.stat().st_ino != inode, 5)


# ---- descriptors, and our own program --------------------------------------------------------------------------------------


def fds_of(text):
    return {int(line.split(" -> ")[0].split()[-1]): line.split(" -> ")[1] for line in text.splitlines() if " -> " in line}


@ROOT_AND_OTHER
def test_D1_a_command_has_its_three_descriptors(box, uid):
    got = box.run("exec ls -l /proc/self/fd", uid=uid)
    fds = fds_of(got.out)
    assert sorted(fds) == [0, 1, 2, 3] and fds[3].startswith("/proc/"), fds  # the last one is the listing's own
    assert fds[0] == "/dev/null" and fds[1].startswith("pipe:") and fds[2].startswith("pipe:")


def test_D1_the_entrypoint_has_its_three_descriptors(plane):
    sandbox = plane.create(entrypoint=["sleep", "300"])
    entry, = (p for p in sandbox.pids() if read(f"/proc/{p}/comm").strip() == "sleep")
    fds = {int(n): os.readlink(f"/proc/{entry}/fd/{n}") for n in os.listdir(f"/proc/{entry}/fd")}
    assert sorted(fds) == [0, 1, 2], fds
    sandbox.delete()


def test_D1_what_the_host_knows_of_commands_agrees(box):
    """While PID 1 starts many, none ever has more than its own once it runs its program."""
    box.start("for i in $(seq 40); do sleep 300 & done; wait")
    deadline = time.monotonic() + 5
    while sum(read(f"/proc/{p}/comm") == "sleep\n" for p in box.pids()) < 40:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for pid in box.pids()[1:]:
        if read(f"/proc/{pid}/comm") == "sleep\n":
            assert set(os.listdir(f"/proc/{pid}/fd")) == {"0", "1", "2"}
    box.run("pkill -9 -x sleep; true")


@ROOT_AND_OTHER
def test_D2_our_program_cannot_be_written_read_or_replaced(box, uid):
    before = hashlib.sha256(EXECD.read_bytes()).digest()
    exe = os.stat(f"/proc/{box.pid1}/exe")
    assert stat.S_IMODE(exe.st_mode) == 0o111 and exe.st_uid == 0
    got = box.python("""
        names = [f'/proc/{p}/exe' for p in os.listdir('/proc') if p.isdigit()] + ['/proc/1/task/1/exe', '/proc/1/map_files']
        out = {n: (tried(os.open, n, os.O_WRONLY), tried(os.open, n, os.O_RDWR | os.O_TRUNC)) for n in names[:1] + names[-2:]}
        print(out)
        """, uid)
    assert all(v not in ("OK",) for pair in got.values() for v in pair), got
    # A child of ours is ours until it runs its program: nobody reads it by being quick.
    start_commands(box)
    got = box.python("""
        import time
        hits, until = set(), time.monotonic() + 0.7
        last = os.getpid()
        while time.monotonic() < until:
            for p in range(last + 1, last + 60):
                try:
                    link = os.readlink(f'/proc/{p}/exe')
                    if 'memfd' in link or 'execd' in link: hits.add(link)
                    for fd in os.listdir(f'/proc/{p}/fd'):
                        t = os.readlink(f'/proc/{p}/fd/{fd}')
                        with open(f'/proc/{p}/comm') as comm:  # sockets of the shell itself are its own affair
                            if 'memfd' in t or 'cgroup' in t or 'execd' in comm.read(): hits.add(t)
                except OSError:
                    pass
            last = max(int(p) for p in os.listdir('/proc') if p.isdigit()) - 3
        print(hits)
        """, uid)
    assert got == set(), got
    assert hashlib.sha256(EXECD.read_bytes()).digest() == before


def start_commands(sandbox):
    """Keeps PID 1 starting programs for a second, beside what the caller does next."""
    def flood():
        until = time.monotonic() + 1
        while time.monotonic() < until:
            sandbox.run("true")

    threading.Thread(target=flood).start()


def test_D2_the_token_is_nowhere_inside(box):
    """In no file, in no process's memory, arguments or environment, as far as the sandbox's root can read."""
    token = box.token["X-EXECD-ACCESS-TOKEN"]
    assert len(token) * 4 >= 128
    got = box.python(f"""
        import re
        token, hits = bytes(reversed({token[::-1].encode()!r})), []
        me = str(os.getpid())
        for pid in filter(str.isdigit, os.listdir('/proc')):
            for name in ('cmdline', 'environ'):
                try:
                    if token in open(f'/proc/{{pid}}/{{name}}', 'rb').read() and pid != me: hits.append((pid, name))
                except OSError: pass
            if pid == me: continue
            try:
                with open(f'/proc/{{pid}}/maps') as maps, open(f'/proc/{{pid}}/mem', 'rb') as mem:
                    comm = open(f'/proc/{{pid}}/comm').read().strip()
                    for line in maps:
                        lo, hi = (int(x, 16) for x in line.split()[0].split('-'))
                        if 'rw' not in line or comm == 'bash': continue
                        try:
                            mem.seek(lo)
                            if token in mem.read(hi - lo): hits.append((pid, line))
                        except (OSError, ValueError): pass
            except OSError: pass
        for folder, _, files in os.walk('/'):
            if folder.startswith(('/proc', '/sys', '/usr')): continue
            for f in files:
                try:
                    p = os.path.join(folder, f)
                    if os.path.isfile(p) and token in open(p, 'rb').read(): hits.append(p)
                except OSError: pass
        print(hits)
        """)
    assert got == [], got
    folder = box.box
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.is_file():
            assert token.encode() not in path.read_bytes(), path
    other = json.dumps({"command": "true"})
    assert box.request("POST", "/command", other)[0] == 200


def test_D2_a_token_is_valid_for_one_sandbox(plane, box):
    other = plane.create()
    own = other.token
    other.token = box.token
    try:
        assert other.request("POST", "/command", json.dumps({"command": "true"}))[0] == 401
        other.token = {}
        assert other.request("GET", "/ping")[0] == 401
    finally:
        other.token = own
    other.delete()


def test_D2_an_imitation_of_execd_gets_no_request(box):
    """Whoever listens on its port inside is not who the server asks."""
    box.start("""python3 -c '
import socket
s = socket.socket()
s.setsockopt(1, 2, 1)
s.bind(("0.0.0.0", 44772))
s.listen()
open("/tmp/listens", "w")
while True:
    c, _ = s.accept()
    open("/tmp/stolen", "ab").write(c.recv(65536))
    c.close()'""")
    deadline = time.monotonic() + 5
    while box.run("test -e /tmp/listens").code != 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert box.ping_ms() < 1000
    assert box.run("test -e /tmp/stolen; echo $?").out == "1"


def test_D3_nobody_joins_a_running_sandbox(plane, box):
    """There is no process in it that the sandbox did not start: the server dials, it does not enter."""
    box.run("true")
    inside = {os.readlink(f"/proc/{p}/ns/pid") for p in box.pids()}
    mnt = os.readlink(f"/proc/{box.pid1}/ns/mnt")
    assert len(inside) == 1
    for pid in (plane.server.process.pid, plane.server.pid, plane.server.warden_pid):
        assert os.readlink(f"/proc/{pid}/ns/mnt") != mnt and os.readlink(f"/proc/{pid}/ns/pid") not in inside


# ---- devices ---------------------------------------------------------------------------------------------------------------


def test_V1_dev_has_what_is_on_the_list(box):
    got = box.python("""
        import stat
        print(({n for n in os.listdir('/dev')}, {n: (os.major(os.stat('/dev/' + n).st_rdev), os.minor(os.stat('/dev/' + n).st_rdev))
               for n in os.listdir('/dev') if stat.S_ISCHR(os.lstat('/dev/' + n).st_mode)},
               [n for n in os.listdir('/dev') if stat.S_ISBLK(os.lstat('/dev/' + n).st_mode)]))
        """)
    assert got[0] == {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "mqueue", "fd", "stdin", "stdout", "stderr"}
    assert got[1] == {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)} and got[2] == []


@ROOT_AND_OTHER
def test_V1_no_device_can_be_made_or_opened(plane, box, uid):
    """mknod is refused; a node that came by other means (an image) does not open, on the root and on /dev."""
    got = box.python("""
        nodes = ((0o020666, 1, 1), (0o020666, 1, 3), (0o060666, 8, 0), (0o020666, 10, 229), (0o020666, 10, 200), (0o060666, 7, 0), (0o020666, 1, 11))
        print({tried(os.mknod, d + '/node', m, os.makedev(a, b)) for d in ('/tmp', '/dev', '/dev/shm') for m, a, b in nodes})
        """, uid)
    assert got <= {"EPERM", "EACCES"}, got
    planted = pathlib.Path(f"/proc/{box.pid1}/root/root/planted")
    os.mknod(planted, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.chmod(planted, 0o666)
    dev = pathlib.Path(f"/proc/{box.pid1}/root/dev/planted")
    os.mknod(dev, stat.S_IFCHR | 0o666, os.makedev(1, 11))
    os.chmod(dev, 0o666)
    box.run("chmod 755 /root")
    try:
        got = box.python("print([tried(open, p, 'rb') for p in ('/root/planted', '/dev/planted')])", uid)
        assert got[0] in ("EACCES", "EPERM", "ENXIO", "ENOENT") and got[1] in ("EPERM", "EACCES"), got
    finally:
        planted.unlink()
        dev.unlink()
        box.run("chmod 700 /root")


# ---- paths that PID 1 opens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", ["mkfifo {0}", "mkdir {0}", "ln -s /dev/zero {0}", "ln -s /proc/1/mem {0}", "ln -s {0} {0}",
                                   "head -c 300M /dev/zero >{0}", "python3 -c \"import socket; socket.socket(1).bind('{0}')\"",
                                   "ln -s /dev/tty {0}"])
@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/group", "/root/envs"])
def test_O2_files_of_the_sandbox_that_are_none_hold_up_nobody(plane, hostile, path, plant):
    """PID 1 reads who users are, and its file of variables, for each command."""
    sandbox = hostile
    sandbox.run(f"[ -e {path}.orig ] || cp {path} {path}.orig; rm -rf {path}; " + plant.format(path))
    began = time.monotonic()
    # The shell itself may well wait for the file that it reads.
    status, _ = sandbox.request("POST", "/command", json.dumps({"command": "echo hi", "uid": NOBODY, "timeout": 200}), timeout=10)
    assert status in (200, 400, 403, 429, 500) and time.monotonic() - began < 2
    assert sandbox.ping_ms() < 1000
    target = pathlib.Path(f"/proc/{sandbox.pid1}/root{path}")
    target.rmdir() if target.is_dir() and not target.is_symlink() else target.unlink()
    assert sandbox.run(f"cp {path}.orig {path}; echo again").out == "again"


@pytest.fixture(scope="module")
def hostile(plane):
    sandbox = plane.create(env={"EXECD_ENVS": "/root/envs"}, limits={"memory": "1Gi"})
    sandbox.run("echo A=b >/root/envs")
    return sandbox


def test_O1_the_file_of_variables_does_not_lead_to_pid_1s_own(hostile):
    for n in range(3, 24):
        hostile.run(f"rm -f /root/envs; ln -s /proc/self/fd/{n} /root/envs")
        out = hostile.run("env").out
        assert hostile.token["X-EXECD-ACCESS-TOKEN"] not in out and "token" not in out.lower(), out
    hostile.run("rm -f /root/envs; ln -s /proc/self/environ /root/envs")
    assert hostile.token["X-EXECD-ACCESS-TOKEN"] not in hostile.run("env").out


@pytest.mark.parametrize("cwd", ["relative/../..", "/tmp/" + "x" * 256, "/" + "y/" * 2100, "/tmp/\x00x", "/etc/passwd", "/nowhere"])
def test_O3_paths_are_checked(box, cwd):
    status, body = box.request("POST", "/command", json.dumps({"command": "pwd", "cwd": cwd}))
    assert status == 400 or (status == 200 and cwd.startswith("relative")), (status, body)


def test_O4_a_search_that_would_be_too_long_does_not_look_whole(box):
    """From the root of a whole system: beyond its ceiling the body ends without its last chunk, or it is 413."""
    try:
        status, body = box.request("GET", "/files/search?path=/proc&pattern=*")[:2]
        assert status == 413 or json.loads(body), status
    except http.client.IncompleteRead:
        pass
    assert box.run("echo fine").out == "fine"


def test_O1_links_lead_nowhere_but_inside(box):
    """The daemon's own root is the sandbox's: a link out of it and back is a link inside."""
    box.run("ln -sfn /proc/1/root/etc/passwd /root/l; ln -sfn ../../../../../../etc/hostname /root/m")
    assert box.request("GET", "/files/download?path=/root/l")[0] in (400, 403, 404, 500)
    status, body = box.request("GET", "/files/download?path=/root/m")[:2]
    assert status == 404 or body.decode().strip() != pathlib.Path("/etc/hostname").read_text().strip()
