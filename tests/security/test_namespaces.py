# SPDX-License-Identifier: Apache-2.0
"""Namespaces and ids (N1 to N5); and that one sandbox is nothing to another (G3, TB6)."""
import fcntl
import os
import pathlib
import socket
import time

import pytest

from conftest import free_port
from inside import (NAMESPACES, NOBODY, PRELUDE, ROOT_AND_OTHER, box, eventually, nspid, plane, pytestmark_needs, quoted, read,  # noqa: F401
                    settled, status_of)

pytestmark = pytestmark_needs


@pytest.fixture(scope="module")
def other(plane):
    return plane.create()


def links(pid):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


@pytest.mark.smoke
def test_N1_no_namespace_is_shared_with_the_host_or_another_sandbox(box, other):
    box.start("sleep 300")
    other.start("sleep 300")
    host = links("self")
    eventually(lambda: len(box.pids()) >= 3 and len(other.pids()) >= 3)
    ones, twos = [links(p) for p in box.pids()], [links(p) for p in other.pids()]
    assert all(one == ones[0] for one in ones)
    for name in NAMESPACES:
        assert len({host[name], ones[0][name], twos[0][name]}) == 3, name


def test_N2_id_ranges_are_whole_aligned_disjoint_and_nobodys(box, other):
    bases = []
    for sandbox in (box, other):
        for kind in ("uid", "gid"):
            inside, base, count = map(int, read(f"/proc/{sandbox.pid1}/{kind}_map").split())
            assert (inside, count, base % 65536) == (0, 65536, 0) and 1000000 <= base < 2 ** 31 - 65536
        bases.append(base)
        for pid in sandbox.pids():
            ids = [int(i) for kind in ("Uid", "Gid", "Groups") for i in status_of(pid)[kind].split()]
            assert all(base <= i < base + 65536 for i in ids), (pid, ids)
    assert bases[0] != bases[1]
    accounts = [int(line.split(":")[i]) for f in ("/etc/passwd", "/etc/group") for line in read(f).splitlines() for i in (2,)]
    assert not [a for a in accounts for base in bases if base <= a < base + 65536]


def test_N2_each_user_namespace_belongs_to_its_own_root(box, other):
    """The kernel counts much of what a namespace uses for its owner, too: one owner for all would be one budget for all."""
    for sandbox in (box, other):
        fd = os.open(f"/proc/{sandbox.pid1}/ns/user", os.O_RDONLY)
        owner = fcntl.ioctl(fd, 0xB704, bytes(4))  # NS_GET_OWNER_UID
        os.close(fd)
        assert int.from_bytes(owner, "little") == sandbox.id_base


def test_N2_the_range_of_one_does_not_reach_files_of_another(box, other):
    box.run("echo mine >/root/f; chmod 600 /root/f")
    other.run("echo theirs >/root/f; chmod 600 /root/f")
    for sandbox in (box, other):
        st = (sandbox.upper / "root/f").stat()
        assert (st.st_uid, st.st_gid) == (sandbox.id_base, sandbox.id_base)


def test_N3_lower_layers_are_shared_read_only_and_a_setuid_file_belongs_to_nobody(box):
    before = pathlib.Path("/usr/bin/true").stat()
    result = box.run("cp /usr/bin/true /root/s && chmod 6755 /root/s && chown 0:0 /usr/bin/true && echo x >>/usr/bin/true; stat -c %a /root/s")
    assert result.out == "6755", result
    after = pathlib.Path("/usr/bin/true").stat()
    assert (before.st_size, before.st_mtime, before.st_uid) == (after.st_size, after.st_mtime, after.st_uid)
    st = (box.upper / "root/s").stat()
    assert st.st_uid == box.id_base and st.st_mode & 0o6000
    mounts = read(f"/proc/{box.pid1}/mountinfo")
    assert all("nosuid" in line.split()[5] for line in mounts.splitlines())


@ROOT_AND_OTHER
def test_N4_no_namespace_can_be_made(box, uid):
    got = box.python("""
        flags = [0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80]
        print([call(272, f) for f in flags]                                     # unshare
              + [call(56, f | 17, 0, 0, 0, 0) for f in flags[:-1]]              # clone
              + [call(56, f | 17 | 0xffffffff00000000 - 2**64, 0, 0, 0, 0) for f in flags[:-1]]
              + [call(435, b'\\0\\0\\0\\x10' + bytes(84), 88)]                    # clone3
              + [call(308, os.open('/proc/self/ns/' + n, 0), 0) for n in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup')])
        """, uid)
    assert got[:22] == ["EPERM"] * 22 and got[22] == "ENOSYS" and got[23:] == ["EPERM"] * 7, got


def test_N4_the_settings_forbid_namespaces_besides_the_filter(box):
    got = box.python("""
        import glob
        print({n: open('/proc/sys/user/max_%s_namespaces' % n).read().strip() for n in
               ('user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup', 'time')})
        """)
    assert set(got.values()) == {"0"}, got
    assert box.python("print([tried(open, f'/proc/sys/user/max_{n}_namespaces', 'w') for n in ('user', 'mnt')])") == ["EROFS"] * 2


def test_N5_the_box_is_known_by_pid_start_time_and_boot(box):
    data = (box.box / "box").read_bytes()
    boot = read("/proc/sys/kernel/random/boot_id").strip().encode()
    start = int(read(f"/proc/{box.pid1}/stat").rsplit(")", 1)[1].split()[19])
    assert boot in data
    assert box.pid1.to_bytes(4, "little") in data and start.to_bytes(8, "little") in data


# ---- between two sandboxes ---------------------------------------------------------------------------------------


@ROOT_AND_OTHER
def test_no_process_of_another_can_be_seen_or_signalled(box, other, uid):
    other.start("exec -a visible-elsewhere sleep 300")
    theirs = settled(other)
    got = box.python(f"""
        seen = [p for p in os.listdir('/proc') if p.isdigit()]
        names = [open(f'/proc/{{p}}/comm').read() for p in seen if os.path.exists(f'/proc/{{p}}/comm')]
        killed = [tried(os.kill, p, 9) for p in {theirs} + [{os.getpid()}] if str(p) not in seen]
        print((len(seen), any('visible' in n for n in names), sorted(set(killed))))
        """, uid)
    assert got[0] < 30 and got[1] is False and set(got[2]) <= {"ESRCH"}, got
    assert other.pids() == theirs
    # -1 reaches all that one may signal, and no further than the sandbox.
    assert box.python("""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.kill(-1, 0)
            os._exit(0)
        print(os.waitpid(pid, 0)[1])
        """, uid) in (0, 256)
    assert other.pids() == theirs


def test_a_signal_to_everybody_ends_neither_pid_1_nor_a_neighbour(plane, box):
    victim = plane.create(entrypoint=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    before = settled(box)
    victim.run("kill -9 -1; sleep 0.1", uid=NOBODY)
    assert victim.state()["state"] == "Running" and victim.ping_ms() < 1000
    pid1 = victim.pid1
    victim.run("kill -9 -1; sleep 0.1")  # takes the entrypoint along: the sandbox ends by its own hand
    victim.wait_state("Failed", 5)
    assert nspid(pid1) in (1, None) and box.pids() == before
    victim.delete()


def test_ipc_is_the_sandboxs_own(box, other):
    code = """
        shm = call(29, 0x5eed, 4096, 0o1666)
        sem, msg = call(64, 0x5eed, 1, 0o1666), call(68, 0x5eed, 0o1666)
        mq = call(240, b'seed', 0o102, 0o666, None)
        open('/dev/shm/seed', 'w').write('x')
        print((shm, sem, msg, mq))
        """
    assert all(isinstance(v, int) for v in box.python(code))
    got = other.python("""
        print((call(29, 0x5eed, 4096, 0o666), call(64, 0x5eed, 1, 0o666), call(68, 0x5eed, 0o666), call(240, b'seed', 0, 0, None),
               os.listdir('/dev/shm'), os.listdir('/dev/mqueue'), len(open('/proc/sysvipc/shm').readlines())))
        """)
    assert got == ("ENOENT", "ENOENT", "ENOENT", "ENOENT", [], [], 1), got
    assert "0x00005eed" not in read("/proc/sysvipc/shm")


@ROOT_AND_OTHER
def test_sockets_of_another_and_of_the_host_are_out_of_reach(plane, box, other, uid):
    """Abstract names, ports on loopback, the server's own ports, and the warden's socket by its path."""
    abstract = f"osb-test-{plane.server.home.prefix}"
    other.start(f"""python3 -c '
import socket, time
a = socket.socket(socket.AF_UNIX); a.bind("\\0{abstract}"); a.listen()
b = socket.socket(); b.bind(("0.0.0.0", 8123)); b.listen()
time.sleep(300)'""")
    deadline = time.monotonic() + 10
    while not other.python("print(abs('8123' in open('/proc/net/unix').read() or ':1FBB' in open('/proc/net/tcp').read()))"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with socket.socket(socket.AF_UNIX) as s, socket.socket() as t:
        s.bind(f"\0{abstract}-host")
        s.listen()
        port = free_port()
        t.bind(("0.0.0.0", port))
        t.listen()
        address = socket.gethostbyname(socket.gethostname())
        got = box.python(f"""
            import socket
            def dial(family, address):
                s = socket.socket(family, socket.SOCK_STREAM)
                s.settimeout(2)
                return tried(s.connect, address)
            print([dial(socket.AF_UNIX, '\\0{abstract}'), dial(socket.AF_UNIX, '\\0{abstract}-host'),
                   dial(socket.AF_UNIX, '{plane.server.home.run}/warden.sock')]
                  + [dial(socket.AF_INET, (h, p)) for h in ('127.0.0.1', '{address}')
                     for p in (8123, {port}, {plane.server.port}, {plane.server.port + 1})]
                  + [dial(socket.AF_INET6, ('::1', {port}))])
            """, uid)
    assert got[:2] == ["ECONNREFUSED"] * 2 and got[2] in ("ENOENT", "EACCES"), got
    assert set(got[3:]) <= {"ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"}, got


def test_G3_an_unknown_id_is_answered_alike_whatever_is_asked(plane):
    answers = set()
    for sandbox_id in ("00000000-0000-4000-8000-000000000000", "nobody-has-this", "A" * 36):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/endpoints/44772"), ("GET", "/diagnostics/logs")):
            answer = plane.server.request(method, f"/v1/sandboxes/{sandbox_id}{path}")
            answers.add((answer.status, answer.body.decode().replace(sandbox_id, "ID")))
    assert {status for status, _ in answers} == {404}, answers


# ---- what is counted for a user of the host ---------------------------------------------------------------------------


INOTIFY = "got = 0\nwhile isinstance(call(294, 0), int): got += 1"
QUEUES = """
class Attr(ctypes.Structure): _fields_ = [(n, ctypes.c_long) for n in ('flags', 'max', 'size', 'cur')] + [('pad', ctypes.c_long * 4)]
got = 0
while isinstance(call(240, b'q%d' % got, 0o302, 0o600, ctypes.byref(Attr(0, 10, 8192, 0))), int): got += 1
for i in range(got if is_last else 0): call(241, b'q%d' % i)
"""
SIGNALS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
info, got = (ctypes.c_int * 32)(40, 0, -1), 0
while got < 5000 and call(129, os.getpid(), 40, info) == 0: got += 1
"""
RINGS = "got, at = 0, ctypes.c_long(0)\nwhile call(206, 1000, ctypes.byref(at)) == 0: got, at = got + 1, ctypes.c_long(0)"
PIPES = """
got = 0
while got < 3000 and tried(os.pipe) == 'OK': got += 1
"""


@pytest.mark.parametrize("code", [INOTIFY, QUEUES, SIGNALS, RINGS, PIPES], ids=["inotify", "queues", "signals", "aio", "pipes"])
def test_what_one_sandbox_uses_up_another_still_has(box, other, code):
    """Some of these are counted for the user who made the user namespace as well, some for the whole host."""
    alone = other.python(f"is_last = True\n{code}\nprint(got)")
    box.start(f"python3 -c {shell_python(code)}")
    deadline = time.monotonic() + 10
    while not (box.upper / "tmp/full").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    try:
        assert other.python(f"is_last = True\n{code}\nprint(got)") == alone
    finally:
        box.run("pkill -f time.sleep.500; rm -f /tmp/full /dev/mqueue/*")


def shell_python(code):
    return quoted(f"{PRELUDE}\nis_last = False\n{code}\nimport time\nopen('/tmp/full', 'w').close()\ntime.sleep(500)")
