# SPDX-License-Identifier: Apache-2.0
"""Privileges (C1 to C5): what programs of a sandbox may do, and that they may do nothing to its PID 1."""
import json
import os
import resource
import signal
import time

import pytest

from inside import NOBODY, ROOT_AND_OTHER, box, eventually, nspid, plane, pytestmark_needs, read, status_of  # noqa: F401

pytestmark = pytestmark_needs
CAPS = "00000000800405fb"
NONE = "0000000000000000"


def census(sandbox):
    return {pid: status_of(pid) for pid in sandbox.pids()}


@pytest.mark.smoke
def test_C1_every_process_has_the_capabilities_of_the_list_and_no_others(box):
    box.start("sleep 300")
    box.start("sleep 300", uid=NOBODY)
    box.start("sleep 300", uid=NOBODY, gid=0)
    rows = census(box)
    assert len(rows) >= 5
    for pid, row in rows.items():
        is_root = int(row["Uid"].split()[0]) == box.id_base
        assert row["CapBnd"] == CAPS and row["CapInh"] == NONE and row["CapAmb"] == NONE, (pid, row)
        assert row["CapPrm"] == row["CapEff"] == (CAPS if is_root else NONE), (pid, row)


@ROOT_AND_OTHER
def test_C1_no_capability_comes_back(box, uid):
    """By an exec of a file with capabilities, by the ambient set, by the inheritable set, by setuid programs."""
    box.run("cp /usr/bin/python3 /root/p; cp /usr/bin/python3 /tmp/p; chmod 6755 /tmp/p")
    box.python("""
        import struct
        os.setxattr('/tmp/p', 'security.capability', struct.pack('<5I', 0x2000001, 0xffffffff, 0, 0xffffffff, 0))
        print(0)
        """)
    got = box.run("/tmp/p -c 'print(open(\"/proc/self/status\").read())'", uid=uid)
    if uid == 0:
        assert f"CapEff:\t{CAPS}" in got.out, got
    elif got.code == 0:
        assert f"CapEff:\t{NONE}" in got.out and f"CapPrm:\t{NONE}" in got.out and f"Uid:\t{uid}\t{uid}" in got.out, got
    tries = box.python("""
        hdr = (ctypes.c_uint32 * 2)(0x20080522, 0)
        print((call(126, hdr, (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)),       # capset
               call(157, 47, 2, 21, 0, 0),                                      # ambient SYS_ADMIN
               call(157, 28, 0x3f, 0, 0, 0),                                    # securebits
               call(157, 39, 0, 0, 0, 0)))                                      # no_new_privs: stays
        """, uid)
    assert tries[0] == "EPERM" and tries[1] == "EPERM" and tries[3] == 1, tries
    assert all(row["CapEff"] in (CAPS, NONE) for row in census(box).values())


@ROOT_AND_OTHER
def test_C2_setuid_and_setgid_programs_gain_nothing(box, uid):
    box.run("cp /usr/bin/id /tmp/id; chown 0:0 /tmp/id; chmod 6755 /tmp/id")
    assert box.run("/tmp/id -u; /tmp/id -g", uid=uid).out == f"{uid}\n{uid}"
    for pid, row in census(box).items():
        assert row["NoNewPrivs"] == "1", pid
    mounts = box.run("cat /proc/self/mountinfo").out.splitlines()
    assert all("nosuid" in line.split()[5] for line in mounts), mounts


def test_C2_ids_of_commands_are_what_was_asked_for(box):
    box.run("echo 'known:x:1500:1501::/:/bin/sh' >>/etc/passwd; echo 'more:x:1502:known' >>/etc/group; echo '77:x:0:0::/:/bin/sh' >>/etc/passwd")
    line = "grep -E '^(Uid|Gid|Groups)' /proc/self/status | cut -f2-"
    assert box.run(line, uid=1500).out.split() == ["1500"] * 4 + ["1501"] * 4 + ["1502"]
    assert box.run(line, uid=1500, gid=7).out.split() == ["1500"] * 4 + ["7"] * 4
    assert box.run(line, uid=NOBODY).out.split() == [str(NOBODY)] * 8
    assert box.run(line, uid=77).out.split() == ["77"] * 8  # a name of digits is no name
    assert box.run(line, uid=65535).out.split() == ["65535"] * 8
    for wrong in ({"uid": 65536}, {"uid": -1}, {"gid": 0}, {"uid": 1, "gid": 65536}, {"uid": 2 ** 32}):
        status, _ = box.request("POST", "/command", json.dumps({"command": "id", **wrong}))
        assert status == 400, wrong


# ---- PID 1 ----------------------------------------------------------------------------------------------------------


@ROOT_AND_OTHER
def test_C3_pid_1_cannot_be_read(box, uid):
    got = box.python("""
        names = ('mem', 'environ', 'maps', 'smaps', 'auxv', 'pagemap', 'stack', 'syscall', 'io', 'personality', 'clear_refs')
        print({n: tried(lambda: open('/proc/1/' + n, 'rb').read(1)) for n in names}
              | {n: tried(os.readlink, '/proc/1/' + n) for n in ('root', 'exe', 'cwd', 'ns/mnt', 'fd/3')}
              | {n: tried(os.listdir, '/proc/1/' + n) for n in ('fd', 'fdinfo', 'map_files', 'root', 'cwd', 'task/1/fd')}
              | {'open exe': tried(os.open, '/proc/1/exe', os.O_RDONLY), 'root/etc': tried(os.open, '/proc/1/root/etc', os.O_PATH)})
        """, uid)
    assert set(got.values()) <= {"EACCES", "EPERM"}, got


@ROOT_AND_OTHER
def test_C3_pid_1_cannot_be_traced_limited_or_written_to(box, uid):
    before = {n: read(f"/proc/{box.pid1}/{n}") for n in ("limits", "oom_score_adj", "coredump_filter", "timerslack_ns", "comm")}
    got = box.python("""
        buf = ctypes.create_string_buffer(64)
        class Iov(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('n', ctypes.c_size_t)]
        iov = Iov(ctypes.addressof(buf), 8)
        fd = call(434, 1, 0)
        print({
            'attach': call(101, 16, 1, 0, 0), 'seize': call(101, 0x4206, 1, 0, 0),
            'vm_readv': call(310, 1, ctypes.byref(iov), 1, ctypes.byref(iov), 1, 0),
            'vm_writev': call(311, 1, ctypes.byref(iov), 1, ctypes.byref(iov), 1, 0),
            'prlimit': call(302, 1, 7, None, buf), 'prlimit set': call(302, 1, 7, (ctypes.c_ulong * 2)(3, 3), None),
            'get_robust_list': call(274, 1, buf, buf), 'pidfd_getfd': call(438, fd, 0, 0), 'kcmp': call(312, 1, 1, 2, 0, 0),
            'process_madvise': call(440, fd, ctypes.byref(iov), 1, 4, 0), 'setns': call(308, fd, 0x20000),
            'migrate_pages': call(256, 1, 8, buf, buf), 'move_pages': call(279, 1, 0, None, None, None, 0)}
            | {n: tried(lambda: os.write(os.open('/proc/1/' + n, os.O_WRONLY), b'1')) for n in
               ('oom_score_adj', 'oom_adj', 'coredump_filter', 'timerslack_ns', 'comm', 'mem', 'clear_refs', 'loginuid', 'sched',
                'autogroup', 'uid_map', 'gid_map', 'setgroups', 'timens_offsets', 'attr/current')})
        """, uid)
    assert "OK" not in got.values() and not [k for k, v in got.items() if isinstance(v, int)], got
    assert {n: read(f"/proc/{box.pid1}/{n}") for n in before} == before


@ROOT_AND_OTHER
def test_C3_signals_from_inside_are_ignored(box, uid):
    pid1 = box.pid1
    box.python("""
        import fcntl
        for s in range(1, 65):
            for _ in range(3):
                tried(os.kill, 1, s)
                call(234, 1, 1, s)
                call(424, call(434, 1, 0), s, None, 0)
                for code in (-1, -2, -3, -6, -60, 0, 1, 128):                 # with a sender of its own invention: 0
                    call(129, 1, s, (ctypes.c_int * 32)(s, 0, code))
                    call(297, 1, 1, s, (ctypes.c_int * 32)(s, 0, code))
            r, w = os.pipe()                                                  # the kernel, on behalf of a pipe
            tried(fcntl.fcntl, r, fcntl.F_SETOWN, 1)
            fcntl.fcntl(r, 10, s)                                             # F_SETSIG
            fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
            os.write(w, b'x')
        print(0)
        """, uid)
    assert box.pid1 == pid1 and box.ping_ms() < 1000 and box.state()["state"] == "Running"
    eventually(lambda: status_of(pid1)["State"][0] == "S")


def test_C3_scheduling_of_pid_1_may_be_asked_for_but_it_answers(box):
    """Its group has a share of its own: a nice value or the idle class count within it alone."""
    box.python("""
        call(141, 0, 1, 19), call(141, 2, 0, 19)                              # setpriority: the process, all of its user
        call(144, 1, 5, ctypes.byref(ctypes.c_int(0)))                        # sched_setscheduler: SCHED_IDLE
        call(203, 1, 8, ctypes.byref(ctypes.c_ulong(1)))                      # sched_setaffinity
        call(251, 1, 1, 3 << 13)                                              # ioprio_set: idle
        print(0)
        """)
    box.start("exec -a burner sh -c 'for i in 1 2 3 4 5 6; do (while :; do :; done) & done; wait'")
    try:
        assert max(box.ping_ms() for _ in range(10)) < 1000
    finally:
        box.run("pkill -9 -f burner; pkill -9 -x sh; true")


def test_C3_pid_1_reaps_what_it_did_not_start(box):
    box.run("for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 0.05 & exit' &) ; done; sleep 0.3")
    deadline = time.monotonic() + 5
    while zombies := [p for p in box.pids() if status_of(p).get("State", "").startswith("Z")]:
        assert time.monotonic() < deadline, zombies
        time.sleep(0.02)


def test_C3_a_dead_pid_1_fails_the_sandbox_within_two_seconds(plane):
    sandbox = plane.create()
    sandbox.start("sleep 300")
    group, pids = sandbox.group, sandbox.pids()
    os.kill(pids[0], signal.SIGKILL)
    status = sandbox.wait_state("Failed", 2)
    assert status["reason"] in ("CONTAINER_KILLED", "CONTAINER_INIT_DIED"), status
    deadline = time.monotonic() + 2
    while any(read(f"/proc/{p}/cgroup").count(group) for p in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@ROOT_AND_OTHER
def test_C4_nothing_is_inherited(box, uid):
    got = box.python("""
        stat = open('/proc/self/stat').read().rsplit(')', 1)[1].split()
        status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines())
        print({'tty': stat[4], 'is_session': os.getsid(0) not in (0, 1), 'env': sorted(os.environ),
               'blocked': status['SigBlk'], 'ignored': int(status['SigIgn'], 16) & ~0x1001000,
               'keyctl': [call(250, 0, -3, 0), call(250, 6, -3), call(248, b'user', b'x', b'y', 1, -3), call(249, b'user', b'x', None, 0)],
               'tty open': tried(open, '/dev/tty')})
        """, uid)
    assert got["tty"] == "0" and got["is_session"] and got["tty open"] == "ENXIO", got
    assert got["blocked"] == NONE and got["ignored"] == 0, got
    assert set(got["keyctl"]) == {"EPERM"}, got
    assert set(got["env"]) <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD", "SECRET_OF_THE_USER", "HOME", "LC_CTYPE"}, got


def test_C4_sessions_are_not_the_hosts(box):
    for pid in box.pids():
        fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
        assert int(fields[3]) in box.pids() or int(fields[3]) == 0 or nspid(int(fields[3])) is None, (pid, fields)
        assert fields[4] == "0"


@ROOT_AND_OTHER
def test_C5_limits_are_set_and_cannot_be_raised(box, uid):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    got = box.python("""
        import resource as r
        def both(n): return r.getrlimit(n)
        out = {'nofile': both(r.RLIMIT_NOFILE), 'core': both(r.RLIMIT_CORE), 'memlock': both(r.RLIMIT_MEMLOCK), 'msgqueue': both(12),
               'sigpending': both(11), 'nice': both(13), 'rtprio': both(14)}
        new = (ctypes.c_ulong * 2)(2 ** 63, 2 ** 63)
        out['raised'] = [call(302, 0, n, new, None) for n in (7, 8, 11, 12, 13, 14)] + [call(160, n, new) for n in (7, 8, 12)]
        out['core set'] = [call(160, 4, new), call(302, 0, 4, new, None)]
        out['core after'] = both(r.RLIMIT_CORE)
        out['fifo'] = call(144, 0, 1, ctypes.byref(ctypes.c_int(1)))
        out['nice'] = (out['nice'], call(141, 0, 0, -5))
        print(out)
        """, uid)
    assert got["nofile"] == (min(65536, hard),) * 2 and got["core"] == got["core after"] == (1, 1), got
    assert got["memlock"] == (8 << 20,) * 2 and got["msgqueue"] == (819200,) * 2 and got["sigpending"] == (4096,) * 2, got
    assert got["nice"] == ((0, 0), "EACCES") and got["rtprio"] == (0, 0) and got["fifo"] == "EPERM", got
    assert set(got["raised"]) == {"EPERM"} and got["core set"] == [0, 0], got


def test_C5_no_core_is_written(box):
    got = box.run("cd /tmp; python3 -c 'import os; os.abort()'; echo $?; ls /tmp | grep -c '^core'; true")
    assert got.out.split() == ["134", "0"], got
