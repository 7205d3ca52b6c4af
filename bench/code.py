# SPDX-License-Identifier: Apache-2.0
"""`1+1` in python through the server, on a connection that stays: in a context that is made for it, by starting an interpreter or by a
fork of one that waits, and in one that is there, against starting python and against a pipe to a python that runs, in turns. And in
ipykernel, against Jupyter's own client of a kernel on this machine."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "lib"), str(HERE.parent / "tests/lib")]
import kernels  # noqa: E402
from installing import Unavailable  # noqa: E402
from stage import Stage, report  # noqa: E402

ROUNDS = 7
COUNT = 20
END = b"\r\n0\r\n\r\n"
ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.write(repr(eval(line)) + '\\n')\n    sys.stdout.flush()\n"
PYTHON = "/usr/bin/python3"
CLIENT = """
import sys, time
from jupyter_client.manager import start_new_kernel
def turn(client):
    began = time.perf_counter()
    client.execute_interactive("1+1", output_hook=lambda message: None, allow_stdin=False, timeout=60)
    return time.perf_counter() - began
there = start_new_kernel(kernel_name="python3")
turn(there[1])
for line in sys.stdin:
    if line == "existing\\n":
        took = turn(there[1])
    else:
        began = time.perf_counter()
        manager, client = start_new_kernel(kernel_name="python3")
        turn(client)
        took = time.perf_counter() - began
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    print(took, flush=True)
there[1].stop_channels()
there[0].shutdown_kernel(now=True)
"""


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


class Jupyter:
    """A kernel on this machine, by Jupyter's own client."""

    def __init__(self, prefix, env):
        self.process = subprocess.Popen([prefix / "bin/python", "-c", CLIENT], env={"HOME": "/nonexistent", **env}, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_kernel(prefix):
    env = {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
    with Stage([prefix], EXECD_CODE_WARM="off", **env) as stage:
        ours, theirs = Contexts(stage), Jupyter(prefix, env)
        ours.fresh(kernel="python3")
        starts = [(1000 * ours.fresh(kernel="python3"), 1000 * theirs.ask("fresh")) for _ in range(ROUNDS)]
        context = ours.make(kernel="python3")
        ours.run(context)
        turns = [(p50_ms(ours.existing, context), p50_ms(theirs.ask, "existing")) for _ in range(ROUNDS)]
        theirs.close()
        ours.peer.close()
    report("code.ipykernel_fresh", "ms", starts, "jupyter_client without a sandbox", 1.5)
    report("code.ipykernel_existing", "ms", turns, "jupyter_client without a sandbox")
    report("code.ipykernel_existing_added_ms", "ms", [(a - b, b) for a, b in turns], goal=2)


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
    cold.peer.close()

with Stage() as stage_:
    warm = Contexts(stage_)
    warm.fresh()
    time.sleep(1)  # for what they are forked from
    forked = [(p50_ms(warm.fresh), p50_ms(local)) for _ in range(ROUNDS)]
    report("code.warm_fork", "ms", forked, "python3 -c 'print(1+1)'")
    warm.peer.close()

try:
    measure_kernel(kernels.python())
except Unavailable as e:
    print(f"bench: no ipykernel: {e}", file=sys.stderr)
