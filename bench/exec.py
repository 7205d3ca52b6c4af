# SPDX-License-Identifier: Apache-2.0
"""A command through the server, on a connection that stays: the whole of `true`, and the way to the first byte of `echo`, against
starting the same shell right here, in turns."""
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from stage import Stage, report  # noqa: E402

ROUNDS = 9
COUNT = 60
END = b"\r\n0\r\n\r\n"


def local(command, reads):
    """Seconds to start it, and to its end or its first byte."""
    r, w = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, w, 1), (os.POSIX_SPAWN_CLOSE, r)] if reads else []
    began = time.perf_counter()
    pid = os.posix_spawn("/bin/bash", ["bash", "-c", command], os.environ, file_actions=actions)
    if reads:
        os.read(r, 100)
        took = time.perf_counter() - began
        os.waitpid(pid, 0)
    else:
        os.waitpid(pid, 0)
        took = time.perf_counter() - began
    os.close(r)
    os.close(w)
    return took


def remote(stage, peer, command, mark):
    began = time.perf_counter()
    stage.run(peer, command)
    got = peer.until(mark)
    took = time.perf_counter() - began
    peer.until(END, got)
    return took


def p50_ms(f, *args):
    return 1000 * statistics.median(f(*args) for _ in range(COUNT))


with Stage() as stage_:
    peer_ = stage_.peer()
    remote(stage_, peer_, "true", END)
    whole = [(p50_ms(remote, stage_, peer_, "true", END), p50_ms(local, "true", False)) for _ in range(ROUNDS)]
    first = [(p50_ms(remote, stage_, peer_, "echo x", b'"text":"x"'), p50_ms(local, "echo x", True)) for _ in range(ROUNDS)]
    peer_.close()
report("exec.p50", "ms", whole, "fork, exec and wait of bash -c true", 2.5)
report("exec.first_byte", "ms", first, "first byte of bash -c 'echo x'", 2.5)
