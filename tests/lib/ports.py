# SPDX-License-Identifier: Apache-2.0
"""Ports of the host for servers under test, which processes that test side by side do not take from each other.

Each process holds blocks of ports, by a lock on a file, until it ends. No block has ports that the kernel gives to connections:
such a port would be busy now and then, whoever holds the block."""
import contextlib
import errno
import fcntl
import os
import pathlib
import random
import socket

BLOCK = 32
FIRST, LAST = 10000, 65535
FOLDER = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"osb-test-ports-{os.geteuid()}"  # noqa: S108 (locks alone)
held = []  # descriptors of the locks; a child does not inherit them
left = []  # ports of those blocks that nobody has had


def ephemeral():
    """The first and the last port that the kernel gives to connections."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        first, last = map(int, f.read().split())
    return first, last


def blocks():
    first, last = ephemeral()
    starts = [b for b in range(FIRST, LAST + 2 - BLOCK, BLOCK) if b + BLOCK <= first or b > last]
    assert starts, f"the kernel gives ports {first} to {last} to connections: none are left for servers"
    return random.sample(starts, len(starts))


def take_block():
    """One that no other process holds."""
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    for start in blocks():
        fd = os.open(FOLDER / str(start), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(fd)
            if e.errno != errno.EWOULDBLOCK:
                raise
            continue
        held.append(fd)
        return range(start, start + BLOCK)
    raise RuntimeError("other processes hold all blocks of ports")


def is_free(port):
    """A server that outlived its test may still listen."""
    with socket.socket() as s, contextlib.suppress(OSError):
        s.bind(("0.0.0.0", port))
        return True
    return False


def free_ports(count):
    """The first of COUNT ports in a row that are free, and are nobody else's from now on."""
    while True:
        if len(left) < count:
            left[:] = take_block()
        mine = left[:count]
        del left[:count]
        if all(is_free(p) for p in mine):
            return mine[0]


def free_port():
    """A port that is free together with the next one, which is the endpoint proxy's."""
    return free_ports(2)
