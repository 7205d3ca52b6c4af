# SPDX-License-Identifier: Apache-2.0
"""The system call filter (F1 to F4), from inside a sandbox."""
import platform
import signal

import pytest

from inside import NOBODY, ROOT_AND_OTHER, box, build, plane, pytestmark_needs, status_of  # noqa: F401

pytestmark = [*pytestmark_needs, pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers here are x86-64's")]

NEVER = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323, "bpf": 321, "perf_event_open": 298,
    "keyctl": 250, "add_key": 248, "request_key": 249, "mount": 165, "umount2": 166, "pivot_root": 155, "open_tree": 428,
    "open_tree_attr": 467, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "setns": 308, "unshare": 272, "swapon": 167, "swapoff": 168, "reboot": 169, "kexec_load": 246, "kexec_file_load": 320,
    "create_module": 174, "init_module": 175, "finit_module": 313, "delete_module": 176, "query_module": 178, "acct": 163,
    "quotactl": 179, "quotactl_fd": 443, "settimeofday": 164, "clock_settime": 227, "iopl": 172, "ioperm": 173, "modify_ldt": 154,
    "open_by_handle_at": 304, "lookup_dcookie": 212, "fanotify_init": 300, "syslog": 103, "vhangup": 153, "sethostname": 170,
    "setdomainname": 171, "kcmp": 312, "pidfd_getfd": 438, "process_madvise": 440, "mbind": 237, "migrate_pages": 256,
    "move_pages": 279, "set_mempolicy": 238, "set_mempolicy_home_node": 450, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460,
    "ustat": 136, "sysfs": 139, "uselib": 134, "_sysctl": 156, "nfsservctl": 180, "adjtimex": 159, "memfd_secret": 447,
}


@pytest.mark.smoke
def test_F1_every_process_is_filtered_once(box):
    box.start("sleep 300")
    box.start("sleep 300", uid=NOBODY)
    for pid in box.pids():
        row = status_of(pid)
        assert (row["Seccomp"], row["Seccomp_filters"], row["NoNewPrivs"]) == ("2", "1", "1"), (pid, row)


@ROOT_AND_OTHER
def test_F1_unknown_and_newer_calls_are_not_there(box, uid):
    got = box.python("print({call(n, 0, 0, 0, 0, 0, 0) for n in [*range(472, 1024), 65535, 2**30 - 1]})", uid)
    assert got == {"ENOSYS"}


@pytest.mark.parametrize("nr", [335, 336])
def test_F1_the_calls_of_probes_are_of_no_use(box, nr):
    """Newer kernels let these two pass by every filter, and end whoever makes them from elsewhere than a probe's own code."""
    got = box.run(f"python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall({nr}, 0), ctypes.get_errno())'")
    assert got.out in ("-1 38", "-1 6") or got.code in (128 + signal.SIGILL, 128 + signal.SIGTRAP), got


@pytest.mark.parametrize("how", ["i386", "x32", "x32-high"])
@ROOT_AND_OTHER
def test_F1_a_foreign_abi_ends_the_process(box, tmp_path, how, uid):
    box.put("/tmp/foreign", build(tmp_path, "foreign_abi").read_bytes())
    assert box.run("/tmp/foreign bare", uid=uid).out == "lived 1"
    got = box.run(f"/tmp/foreign {how}; echo $?", uid=uid)
    assert got.out.split()[-1] == str(128 + signal.SIGSYS) and "lived" not in got.out, got


@ROOT_AND_OTHER
def test_F1_a_tracer_does_not_get_round_the_filter(box, uid):
    """The number of a harmless call is changed while the filter could already have looked; and the filter is not suspended."""
    got = box.python("""
        import signal, struct
        pid = os.fork()
        if pid == 0:
            call(101, 0, 0, 0, 0)                    # PTRACE_TRACEME
            os.kill(os.getpid(), signal.SIGSTOP)
            r = call(39)                             # getpid, as far as it knows
            os._exit(0 if r == 'EPERM' else 1)
        os.waitpid(pid, 0)
        suspend = call(101, 0x4200, pid, 0, 0x200000)  # PTRACE_O_SUSPEND_SECCOMP
        regs, changed = (ctypes.c_ulong * 27)(), 0
        while True:
            call(101, 24, pid, 0, 0)                 # PTRACE_SYSCALL
            _, status = os.waitpid(pid, 0)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                break
            call(101, 12, pid, 0, regs)              # GETREGS
            if regs[15] == 39:                       # orig_rax
                regs[15], regs[14] = 272, 0x10000000  # unshare(CLONE_NEWUSER)
                call(101, 13, pid, 0, regs)
                changed += 1
        print((suspend, changed > 0, os.WEXITSTATUS(status)))
        """, uid)
    assert got == ("EPERM", True, 0), got


@ROOT_AND_OTHER
def test_F2_what_must_never_be_reachable_is_refused(box, uid):
    got = box.python(f"""
        calls = {NEVER}
        print({{n: {{call(nr, 0, 0, 0, 0, 0, 0), call(nr, -1, -1, -1, -1, -1, -1)}} for n, nr in calls.items()}})
        """, uid)
    assert {n: v for n, v in got.items() if v != {"EPERM"}} == {}
    assert box.python("print([call(435, bytes(88), 88)])", uid) == ["ENOSYS"]  # clone3


@ROOT_AND_OTHER
def test_F3_sockets_are_of_four_families(box, uid):
    """AF_VSOCK (40) and AF_ALG (38) by name, then all others; upper bits are no way around."""
    got = box.python("""
        up = 0x123 << 32
        print({'vsock': call(41, 40, 1, 0), 'alg': call(41, 38, 5, 0), 'packet': call(41, 17, 3, 0), 'alg high': call(41, up | 38, 5, 0),
               'others': {call(41, f, t, 0) for f in range(64) for t in (1, 2, 3, 5) if f not in (1, 2, 10, 16)},
               'raw': {call(41, f, t, p) for f in (2, 10) for t in (3, 10, 3 | 0x80000) for p in (0, 1, 6, 255)},
               'raw high': call(41, 2, up | 3, 1),
               'protocols': {call(41, f, 1, p) for f in (2, 10) for p in (33, 132, 136, 262, 256 + 6)},
               'seqpacket': call(41, 2, 5, 0), 'dccp': call(41, 2, 6, 0),
               'netlink': {call(41, 16, t, p) for t in (2, 3) for p in range(1, 32)} | {call(41, 16, 3, up | 12)},
               'pairs': {call(53, f, 1, 0, (ctypes.c_int * 2)()) for f in (2, 10, 16, 30, 40)},
               'works': {isinstance(call(41, f, t, 0), int) for f, t in ((1, 1), (2, 1), (2, 2), (16, 3))}})
        """, uid)
    assert {got[k] for k in ("vsock", "alg", "packet", "alg high")} == {"EAFNOSUPPORT"} and got["others"] == {"EAFNOSUPPORT"}, got
    assert got["raw"] == {"EPERM"} and got["raw high"] == "EPERM" and got["protocols"] == {"EPROTONOSUPPORT"}, got
    assert {got["seqpacket"], got["dccp"]} == {"ESOCKTNOSUPPORT"} and got["netlink"] == {"EPROTONOSUPPORT"}, got
    assert got["pairs"] == {"EAFNOSUPPORT"} and got["works"] == {True}, got


@ROOT_AND_OTHER
def test_F3_links_routes_and_rules_cannot_be_changed(box, uid):
    """What is of the network belongs to the host's user namespace: ip(8)'s own messages."""
    got = box.run("ip link add d0 type dummy; ip addr add 10.9.9.9/8 dev lo; ip route add 1.2.3.4 dev lo; ip link set lo down;"
                  " ip link | grep -c ^[0-9]; grep -c . /proc/net/dev", uid=uid)
    if "not found" in got.err:
        pytest.skip("this host's /usr has no ip(8)")
    assert got.err.count("Operation not permitted") == 4, got
    assert got.out.split()[-2:] == ["1", "3"], got


@ROOT_AND_OTHER
def test_F3_terminals_sockets_and_personalities(box, uid):
    got = box.python("""
        import pty
        up = 0x7 << 32
        master, slave = pty.openpty()
        ioctls = {call(16, fd, r | h, b'x') for fd in (master, slave, 0) for r in (0x5412, 0x541c, 0x5423) for h in (0, up)}
        s = call(41, 2, 1, 0)
        ulp = [call(54, s, 6, 31, b'tls\\0', 4), call(54, s, up | 6, up | 31, b'tls\\0', 4)]
        bad = {call(135, p) for p in (0x0040000, 0x0400000, 0x0100000, 0x0200000, 1, 3, 6, 0x8000000, up | 0x0040000)}
        print((ioctls, ulp, bad, call(135, 0xffffffff), call(135, 8), call(135, 0)))
        """, uid)
    assert got[:3] == ({"EPERM"}, ["ENOPROTOOPT"] * 2, {"EPERM"}), got
    assert all(isinstance(v, int) for v in got[3:]), got


def test_F3_a_namespace_by_clone_with_dirty_upper_bits(box):
    got = box.python("""
        up = [0, 1 << 32, 0xffffffff << 32]
        print({call(56, (u | f | 17) - (2**64 if u > 2**63 else 0), 0, 0, 0, 0) for u in up for f in
               (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)})
        """)
    assert got == {"EPERM"}


def test_F4_what_programs_need_still_works(box):
    got = box.run("set -e; python3 -c 'import threading, subprocess, socket, multiprocessing as m; p = m.Pool(2); print(sum(p.map(abs, [1, -2]))); "
                  "p.close()'; sync; mkfifo /tmp/f4; nice -n 5 true; timeout 5 true; setsid true; echo done")
    assert got.out.split() == ["3", "done"] and got.code == 0, got


@ROOT_AND_OTHER
def test_G6_nobody_writes_back_the_disks_of_others(box, uid):
    """sync and syncfs answer success, also for what is no descriptor: the kernel is not asked. Files can be written back."""
    got = box.python("""
        fd = os.open(f'/tmp/synced{os.getuid()}', os.O_CREAT | os.O_RDWR)
        print((call(162), call(306, fd), call(306, -1), call(306, 1 << 20), call(74, fd), call(75, fd), call(74, -1)))
        """, uid)
    assert got == (0, 0, 0, 0, 0, 0, "EBADF"), got
