# SPDX-License-Identifier: Apache-2.0
"""Limits of a sandbox (L1 to L7, G6, G7, G10): what a sandbox does to use up the host is bounded, is felt by nobody else, and ends when it is deleted."""
import contextlib
import http.client
import json
import os
import re
import time

import pytest

from inside import JSON, box, eventually, nspid, pinged, plane, pytestmark_needs, read, status_of  # noqa: F401

pytestmark = [*pytestmark_needs, pytest.mark.alone("uses up processors, and measures what is left to neighbours")]
MIB = 1 << 20
ASIDE = 64 * MIB
SERVER_GROWTH_KIB = 64 * 1024


@pytest.fixture(scope="module", autouse=True)
def server_memory(plane, box):
    """Of the server over all of this file (G6)."""
    box.run("true")
    before = plane.rss_kib()
    yield
    assert plane.rss_kib() - before <= SERVER_GROWTH_KIB


@pytest.fixture
def attacker(plane):
    made = []

    def make(entrypoint=("sleep", "3000"), **limits):
        made.append(plane.create(entrypoint=entrypoint, limits={"memory": "192Mi", "pids": "200", **limits}))
        return made[-1]

    yield make
    for sandbox in made:
        if plane.server.get(sandbox.path).status == 200:
            sandbox.delete()


def memory_of(sandbox, leaf="user"):
    return int(sandbox.limit(leaf, "memory.usage_in_bytes", "memory.current"))


def memory_of_execd(sandbox):
    """On v1 it is in the group of the box itself, which counts those below as well."""
    return memory_of(sandbox, "init") if sandbox.has_own_leaf else max(0, memory_of(sandbox, "") - memory_of(sandbox))


def count(sandbox):
    return int(sandbox.limit("", "pids.current"))


def bothers_nobody(attacker, neighbour, seconds=1.0):
    """While it lasts: both PID 1 answer within a second, the neighbour runs commands, the server is well."""
    with pinged(attacker, neighbour):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            assert neighbour.run("echo works").out == "works" and time.monotonic() - began < 3
            began = time.monotonic()
            assert neighbour.plane.server.get("/health").status == 200 and time.monotonic() - began < 1


# ---- limits ------------------------------------------------------------------------------------------------------------


def test_L1_defaults_hold_where_no_limit_was_named(box):
    assert int(box.limit("user", "memory.limit_in_bytes", "memory.max")) == 512 * MIB
    assert box.limit("user", "pids.max") == "4096"
    assert box.limit("", "cpu.cfs_quota_us", "cpu.max") in ("100000", "100000 100000")
    swap = box.limit("user", "memory.memsw.limit_in_bytes", "memory.swap.max")
    assert swap in (None, "0", str(512 * MIB))
    if box.has_own_leaf:
        assert int(box.limit("init", "memory.max")) == ASIDE and box.limit("init", "pids.max") == "32"
    assert int(box.limit("", "memory.limit_in_bytes", "memory.max")) == 512 * MIB + ASIDE and box.limit("", "pids.max") == str(4096 + 32)


def test_L1_limits_of_a_request_hold(attacker):
    sandbox = attacker(memory="96Mi", pids="50", cpu="250m")
    assert int(sandbox.limit("user", "memory.limit_in_bytes", "memory.max")) == 96 * MIB and sandbox.limit("user", "pids.max") == "50"
    assert sandbox.limit("", "cpu.cfs_quota_us", "cpu.max") in ("25000", "25000 100000")


def test_L1_there_are_no_huge_pages(box):
    assert box.python("""
        print((call(9, 0, 1 << 21, 3, 0x40022, -1, 0), call(319, b'x', 4), call(29, 0, 1 << 21, 0o5600)))
        """) == ("ENOMEM", "EINVAL", "EPERM")


def test_L2_all_boxes_together_leave_the_host_a_reserve(plane, box):
    total = int(re.search(r"MemTotal:\s+(\d+)", read("/proc/meminfo")).group(1)) * 1024
    pid_max = int(read("/proc/sys/kernel/pid_max"))
    tops = [g for g in plane.groups() if g.name == plane.server.home.prefix]
    values = {name: int(v) for g in tops for name in ("memory.limit_in_bytes", "memory.max", "pids.max") if (v := read(g / name).strip())}
    assert values["pids.max"] == pid_max - pid_max // 4
    memory = values.get("memory.limit_in_bytes") or values["memory.max"]
    assert max(total // 16, 256 * MIB) - MIB <= total - memory <= max(total // 16, 256 * MIB) + MIB


def test_L2_pid_1_is_beside_what_it_starts_and_alone(box):
    """In a leaf of its own, or (v1) in the group above the one with the limits of the sandbox."""
    box.start("sleep 300")
    init, user = (box.members(leaf, "memory") for leaf in ("init" if box.has_own_leaf else "", "user"))
    assert init == {str(box.pid1)} and user and not init & user
    assert box.members("init" if box.has_own_leaf else "", "pids") == init


def test_L2_what_is_set_aside_is_beyond_what_the_sandbox_can_fill(attacker):
    """All that it may use is used, and as much as is set aside is left in the group above."""
    sandbox = attacker(memory="96Mi")
    sandbox.start("python3 -c 'b = bytearray(80 << 20); import time; time.sleep(60)'; dd if=/dev/zero of=/dev/shm/x bs=1M; sleep 60")
    eventually(lambda: memory_of(sandbox) > 80 * MIB)
    whole = int(sandbox.limit("", "memory.limit_in_bytes", "memory.max"))
    assert whole - memory_of(sandbox) >= ASIDE and memory_of(sandbox) <= 96 * MIB
    assert sandbox.ping_ms() < 1000


# ---- processes -----------------------------------------------------------------------------------------------------------


def test_a_fork_bomb(attacker, box):
    sandbox = attacker()
    sandbox.start("b() { b | b & }; while :; do b; done")
    eventually(lambda: count(sandbox) >= 190)
    bothers_nobody(sandbox, box)
    assert count(sandbox) <= 200 + 32
    result = sandbox.run("echo one more", timeout_s=10)  # it may run or not, but it is told
    assert result.last["type"] in ("execution_complete", "error")
    assert sandbox.delete() < 5


def test_a_bomb_of_threads(attacker, box):
    sandbox = attacker()
    got = sandbox.python("""
        import threading, time
        n = 0
        try:
            while True:
                threading.Thread(target=time.sleep, args=(1.0,), daemon=True).start()
                n += 1
        except RuntimeError:
            pass
        print(n)
        sys.stdout.flush()
        os._exit(0)
        """)
    assert 150 < got <= 200
    sandbox.start("python3 -c 'import threading, time\nwhile True:\n  try: threading.Thread(target=time.sleep, args=(60,)).start()\n  except RuntimeError: pass'")
    eventually(lambda: count(sandbox) >= 190)
    bothers_nobody(sandbox, box, 0.5)
    assert sandbox.delete() < 5


def test_ten_thousand_children_leave_no_zombie(attacker, box):
    sandbox = attacker(cpu="2")
    with pinged(sandbox, box):
        got = sandbox.python("""
            orphans = 0
            for i in range(2500):                       # each leaves three behind
                pid = os.fork()
                if pid == 0:
                    n = 0
                    for _ in range(3):
                        if tried(lambda: os.fork() == 0 and os._exit(0)) == 'OK': n += 1
                    os._exit(n)
                orphans += os.WEXITSTATUS(os.waitpid(pid, 0)[1])
            print(orphans)
            """, timeout_s=60)
    assert got > 7000
    eventually(lambda: not [p for p in sandbox.pids() if status_of(p).get("State", "").startswith("Z")])
    assert len(sandbox.pids()) <= 3


def test_a_process_that_ignores_everything(attacker):
    sandbox = attacker()
    sandbox.start("python3 -c 'import signal, time\nfor s in set(range(1, 65)) - {9, 19, 32, 33}: signal.signal(s, signal.SIG_IGN)\ntime.sleep(600)'")
    result = sandbox.run("trap '' TERM INT HUP; sleep 600", timeout=300)
    assert result.code == 137, result
    assert sandbox.delete() < 5


# ---- memory --------------------------------------------------------------------------------------------------------------

EAT = "python3 -c 'x = []; [x.append(bytearray(1 << 20)) for _ in iter(int, 1)]'"


@pytest.mark.parametrize("command", [EAT, f"{EAT}; exit $?", f"bash -c {json.dumps(EAT)}"], ids=["exec", "shell", "grandchild"])
def test_L2_a_memory_bomb_ends_as_oom_killed(attacker, box, command):
    sandbox = attacker()
    entry = [p for p in sandbox.pids() if nspid(p) != 1]
    assert len(entry) == 1
    with pinged(sandbox, box):
        result = sandbox.run(command)
    assert result.code == 137 and "oom_killed" in json.dumps(result.error), result
    assert sandbox.state()["state"] == "Running" and set(entry) <= set(sandbox.pids())
    assert sandbox.run("echo fine").out == "fine"
    assert memory_of(sandbox) <= 192 * MIB


def test_L2_many_memory_bombs_at_once_and_delete_in_the_middle(attacker, box):
    sandbox = attacker()
    sandbox.start(f"while :; do for i in 1 2 3 4; do {EAT.replace(chr(39), chr(34))} & done; wait; done")
    bothers_nobody(sandbox, box)
    assert memory_of(sandbox) <= 192 * MIB and memory_of(sandbox, "") <= 192 * MIB + ASIDE
    assert sandbox.delete() < 5


def test_an_entrypoint_that_runs_out_of_memory_fails_its_sandbox(plane):
    sandbox = plane.create(entrypoint=["sh", "-c", f"sleep 0.3; exec {EAT}"], limits={"memory": "64Mi"})
    status = sandbox.wait_state("Failed", 15)
    assert status["reason"] == "CONTAINER_EXITED_ERROR" and "Memory ran out" in status["message"], status
    sandbox.delete()


def test_L1_shared_memory_counts_as_memory_and_has_its_own_ceiling(attacker, box):
    sandbox = attacker()
    before = memory_of(sandbox)
    result = sandbox.run("head -c 200M /dev/zero >/dev/shm/x; stat -c %s /dev/shm/x")
    assert "No space left" in result.err and int(result.out) == 64 * MIB, result
    assert memory_of(sandbox) - before >= 60 * MIB
    # What is in there is no process's, so the kernel may pick any: there is none but the command's.
    small = attacker(("tail", "-f", "/dev/null"), memory="40Mi")
    result = small.run("head -c 200M /dev/zero >/dev/shm/x")
    assert result.code == 137 and "oom_killed" in json.dumps(result.error), result
    assert small.ping_ms() < 1000 and memory_of(small) <= 40 * MIB


@pytest.mark.parametrize("kind", ["udp", "tcp", "unix", "pipe", "memfd"])
def test_G7_buffers_of_the_kernel_count_as_memory(attacker, box, kind):
    """What a program leaves in sockets and pipes is memory of the host. Where v1 counts it apart, the kernel lets each TCP
    socket have one segment beyond any limit."""
    room = 64 * MIB + ASIDE + (PAIRS * 65536 if kind == "tcp" else 0)
    sandbox = attacker(memory="64Mi", pids="100")
    host_before = sockets_kib()
    sandbox.put("/tmp/fill", FILL)
    sandbox.start(f"python3 /tmp/fill {kind}")
    with pinged(sandbox, box):
        most = 0
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            most = max(most, memory_of(sandbox, "") + max(0, sockets_kib() - host_before) * 1024)
            time.sleep(0.02)
    assert most <= room, most // MIB
    assert sandbox.delete() < 5


def sockets_kib():
    """Of all internet sockets of the host: the kernel has one count."""
    return sum(int(m) for m in re.findall(r"^(?:TCP|UDP):.* mem (\d+)", read("/proc/net/sockstat"), re.M)) * 4


PAIRS = 3000
FILL = b"""
import os, socket, sys, time
kept, block = [], b'x' * 30000
def udp():
    tx, rx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    rx.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    rx.bind(('127.0.0.1', 0))
    kept.append((tx, rx))
    for _ in range(12): tx.sendto(block, rx.getsockname())
def tcp():
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen(1)
    a = socket.create_connection(listener.getsockname(), timeout=1)
    b, _ = listener.accept()
    kept.append((a, b))
    a.setblocking(False)
    while True: a.send(block)
def unix():
    a, b = socket.socketpair()
    kept.append((a, b))
    a.setblocking(False)
    while True: a.send(block)
def pipe():
    r, w = os.pipe()
    os.set_blocking(w, False)
    while True: os.write(w, block)
def memfd():
    fd = os.memfd_create('x')
    os.write(fd, block * 100)
for _ in range(%d):
    try: globals()[sys.argv[1]]()
    except OSError: pass
time.sleep(600)
""" % PAIRS


# ---- output, CPU, files ----------------------------------------------------------------------------------------------------


def test_a_flood_of_output_waits_for_its_reader(plane, attacker, box):
    sandbox = attacker()
    before = plane.rss_kib()
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(4):
            c = http.client.HTTPConnection("127.0.0.1", plane.server.port + 1, timeout=10)
            stack.callback(c.close)
            c.request("POST", f"/sandboxes/{sandbox.id}/proxy/44772/command", json.dumps({"command": "yes flood; yes >&2"}),
                      {**sandbox.token, **JSON})
            connections.append(c.getresponse())
        bothers_nobody(sandbox, box)
        assert plane.rss_kib() - before < 16 * 1024
        got = connections[0].read(8 * MIB)
        assert len(got) == 8 * MIB and b"flood" in got
    assert memory_of_execd(sandbox) < 48 * MIB
    eventually(lambda: sandbox.run("echo still").out == "still")
    assert sandbox.delete() < 5


def test_a_flood_from_the_entrypoint_keeps_to_its_segments(plane, box):
    sandbox = plane.create(entrypoint=["sh", "-c", "yes & exec yes >&2"], limits={"memory": "96Mi"})
    bothers_nobody(sandbox, box)
    sizes = [(sandbox.box / name).stat().st_size for name in ("log.0", "log.1")]
    assert sum(sizes) <= 3 * MIB and memory_of_execd(sandbox) < 48 * MIB, sizes
    assert plane.server.get(f"{sandbox.path}/diagnostics/logs").status == 200
    assert sandbox.delete() < 5


def test_G7_a_tight_loop_gets_its_share_and_no_more(attacker, box):
    sandbox = attacker(cpu="500m")
    sandbox.start("for i in 1 2 3; do (while :; do :; done) & done; wait")
    time.sleep(0.3)
    began, used = time.monotonic(), cpu_seconds(sandbox)
    bothers_nobody(sandbox, box, 3)
    share = (cpu_seconds(sandbox) - used) / (time.monotonic() - began)
    assert share <= 0.55, share
    assert share >= 0.2, share
    assert sandbox.delete() < 5


def cpu_seconds(sandbox):
    ticks = 0
    for pid in sandbox.pids():
        fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()
        ticks += sum(int(f) for f in fields[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_many_open_files(attacker, box):
    sandbox = attacker()
    sandbox.start("""for i in 1 2 3 4; do python3 -c '
import os, time
try:
    while True: os.open("/dev/null", 0)
except OSError: pass
time.sleep(600)' & done; wait""")
    bothers_nobody(sandbox, box)
    assert box.python("print(len([os.open('/dev/null', 0) for _ in range(5000)]))") == 5000
    assert memory_of(sandbox) <= 192 * MIB and sandbox.delete() < 5


# ---- delete, in the worst moment ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bomb", ["sleep 600", "b() { b | b & }; while :; do b; done", EAT.replace("'", '"')], ids=["quiet", "forks", "memory"])
def test_G10_a_paused_sandbox_is_deleted(attacker, bomb):
    sandbox = attacker()
    sandbox.start(f"while :; do {bomb}; done")
    time.sleep(0.3)
    sandbox.post("pause")
    assert sandbox.wait_state("Paused", 10)
    status, _ = sandbox.request("POST", "/command", json.dumps({"command": "true"}))
    assert status == 409
    assert sandbox.delete() < 5


def test_L4_a_kill_is_of_the_whole_group(attacker):
    """Sessions of their own, stopped, traced and forking processes: none is left."""
    sandbox = attacker()
    sandbox.start("setsid sleep 600 & kill -STOP $!; setsid setsid sleep 600 & (setsid sh -c 'while :; do setsid sleep 0.01 & done' &); sleep 600")
    sandbox.start("python3 -c 'import ctypes, os, time\npid = os.fork()\nif pid == 0: time.sleep(600)\nctypes.CDLL(None).ptrace(16, pid, 0, 0)\ntime.sleep(600)'")
    eventually(lambda: count(sandbox) > 8)
    assert sandbox.delete() < 5
