# SPDX-License-Identifier: Apache-2.0
"""stream [MIB] - what a command writes (1 GiB of lines of 100 bytes) as events through the server: its rate against the same
command read through a pipe right here, in turns, and the processor time of the server and execd for it."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from stage import Stage, report  # noqa: E402

SIZE = int(sys.argv[1] if len(sys.argv) > 1 else 1024) << 20
ROUNDS = 3
COMMAND = f"yes {'x' * 99} | head -c {SIZE}"


def remote(stage, peer):
    """MB/s of what was written, and seconds of processor time for a GiB of it."""
    before, began = stage.cpu_seconds(), time.perf_counter()
    stage.run(peer, COMMAND)
    if peer.drain() < SIZE:
        raise SystemExit("bench: not all of it has come")
    took = time.perf_counter() - began
    return SIZE / took / 1e6, (stage.cpu_seconds() - before) * (1 << 30) / SIZE


def local():
    room = bytearray(1 << 20)
    began = time.perf_counter()
    with subprocess.Popen(["bash", "-c", COMMAND], stdout=subprocess.PIPE, bufsize=0) as p:
        while os.readv(p.stdout.fileno(), [room]):
            pass
    return SIZE / (time.perf_counter() - began) / 1e6


with Stage() as stage_:
    peer_ = stage_.peer()
    rounds = [(remote(stage_, peer_), local()) for _ in range(ROUNDS)]
    peer_.close()
report("stream.rate", "MB/s", [(ours[0], theirs) for ours, theirs in rounds], "the same through a pipe", None, 1)
report("stream.cpu", "s/GiB", [(statistics.median(ours[1] for ours, _ in rounds), None)])
