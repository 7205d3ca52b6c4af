# SPDX-License-Identifier: Apache-2.0
"""`1+1` in python through the server, on a connection that stays: in a context that is made for it, by starting an interpreter or by a
fork of one that waits, and in one that is there, against starting python and against a pipe to a python that runs, in turns."""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from stage import Stage, report  # noqa: E402

ROUNDS = 7
COUNT = 20
END = b"\r\n0\r\n\r\n"
ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.write(repr(eval(line)) + '\\n')\n    sys.stdout.flush()\n"
PYTHON = "/usr/bin/python3"


class Contexts:
    """Those of one sandbox."""

    def __init__(self, stage):
        self.stage, self.peer = stage, stage.peer()

    def send(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        self.peer.send_head(method, self.stage.path(path), len(data), self.stage.token.items(), data)

    def make(self, **more):
        self.send("POST", "/code/context", {"language": "python", **more})
        length, got = self.peer.head()
        while len(got) < length:
            got += self.peer.sock.recv(65536)
        return json.loads(got)["id"]

    def drop(self, context):
        self.send("DELETE", f"/code/contexts/{context}")
        self.peer.drain()

    def run(self, context, code="1+1", want=b'"text":"2"'):
        self.send("POST", "/code", {"code": code, "context": {"id": context}})
        self.peer.until(END, self.peer.until(want))

    def fresh(self, **more):
        """Seconds for a context and its first result."""
        began = time.perf_counter()
        context = self.make(**more)
        self.run(context)
        took = time.perf_counter() - began
        self.drop(context)
        return took

    def existing(self, context):
        began = time.perf_counter()
        self.run(context)
        return time.perf_counter() - began


def local():
    began = time.perf_counter()
    subprocess.run([PYTHON, "-c", "print(1+1)"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


class Pipe:
    def __init__(self):
        self.process = subprocess.Popen([PYTHON, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def turn(self):
        began = time.perf_counter()
        os.write(self.process.stdin.fileno(), b"1+1\n")
        assert os.read(self.process.stdout.fileno(), 100) == b"2\n"
        return time.perf_counter() - began

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def p50_ms(f, *args, **more):
    return 1000 * statistics.median(f(*args, **more) for _ in range(COUNT))


def measure_kernel(contexts):
    """ipykernel, where the sandbox has one."""
    with contextlib.suppress(SystemExit, KeyError):
        context = contexts.make(kernel="python3")
        contexts.run(context)
        report("code.ipykernel_existing", "ms", [(p50_ms(contexts.existing, context), 1)])
        contexts.drop(context)
        began = time.perf_counter()
        contexts.drop(contexts.make(kernel="python3"))
        report("code.ipykernel_fresh", "ms", [(1000 * (time.perf_counter() - began), 1)])


with Stage(EXECD_CODE_WARM="off") as stage_:
    cold = Contexts(stage_)
    cold.fresh()
    fresh = [(p50_ms(cold.fresh), p50_ms(local)) for _ in range(ROUNDS)]
    here, pipe = cold.make(), Pipe()
    cold.run(here)
    pipe.turn()
    existing = [(p50_ms(cold.existing, here), p50_ms(pipe.turn)) for _ in range(ROUNDS)]
    pipe.close()
    report("code.fresh", "ms", fresh, "python3 -c 'print(1+1)'", 1.5)
    report("code.existing", "ms", existing, "a turn of a pipe to a python that runs")
    report("code.existing_added_ms", "ms", [(a - b, b) for a, b in existing], goal=2)
    measure_kernel(cold)
    cold.peer.close()

with Stage() as stage_:
    warm = Contexts(stage_)
    warm.fresh()
    time.sleep(1)  # for what they are forked from
    forked = [(p50_ms(warm.fresh), p50_ms(local)) for _ in range(ROUNDS)]
    report("code.warm_fork", "ms", forked, "python3 -c 'print(1+1)'")
    warm.peer.close()
