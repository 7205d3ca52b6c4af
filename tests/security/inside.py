# SPDX-License-Identifier: Apache-2.0
"""Real sandboxes of a real server, and programs that run in them: what every test of this folder starts from.

A requirement of docs/threat-model.md is tried by its id (test_N1_...): as the sandbox's root, and as another user of it."""
import ast
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import textwrap
import time

import pytest

from conftest import EXECD, KEY, ROOT, SERVER, Server

pytestmark_needs = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run sandboxes"),
    pytest.mark.skipif(not SERVER.exists() or not EXECD.exists(), reason="the server or execd is not built"),
]
JSON = {"Content-Type": "application/json"}
NOBODY = 12345  # a user that no file of the sandbox knows
ROOT_AND_OTHER = pytest.mark.parametrize("uid", [0, NOBODY])
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")

# In front of every program: system calls by number, and what they answer.
PRELUDE = """
import ctypes, errno, os, sys
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
def call(nr, *args):
    "0 or more: the answer; otherwise the name of the error"
    ctypes.set_errno(0)
    r = _libc.syscall(ctypes.c_long(nr), *[a if isinstance(a, (bytes, ctypes.Array, type(None))) or hasattr(a, '_obj')
                                           else ctypes.c_long(a) for a in args])
    return r if r >= 0 else errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
def tried(f, *args, **more):
    "the name of the error, or OK"
    try:
        f(*args, **more)
        return 'OK'
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
"""


class Result:
    """How a command ended: all it wrote, its exit code, and the last event."""

    def __init__(self, body):
        events = [json.loads(line) for line in body.decode().split("\n\n") if line]
        self.out = "\n".join(e["text"] for e in events if e["type"] == "stdout")
        self.err = "\n".join(e["text"] for e in events if e["type"] == "stderr")
        self.last = events[-1]
        self.error = self.last.get("error")
        self.code = 0 if self.last["type"] == "execution_complete" else None
        if self.error and re.fullmatch(r"\d+", self.error.get("evalue", "")):
            self.code = int(self.error["evalue"])

    def __repr__(self):
        return f"<{self.code} {self.out!r} {self.err!r} {self.last}>"


class Sandbox:
    def __init__(self, plane, sandbox_id):
        self.plane, self.id = plane, sandbox_id
        self.path = f"/v1/sandboxes/{sandbox_id}"
        self.token = plane.server.get(f"{self.path}/endpoints/44772").json["headers"]

    # ---- through the server ----

    def request(self, method, path, body=None, timeout=30, port=44772):
        connection = http.client.HTTPConnection("127.0.0.1", self.plane.server.port + 1, timeout=timeout)
        try:
            connection.request(method, f"/sandboxes/{self.id}/proxy/{port}{path}", body, {**self.token, **JSON})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def run(self, command, timeout_s=30, **fields):
        fields = {"timeout": timeout_s * 1000, **fields}
        status, body = self.request("POST", "/command", json.dumps({"command": command, **fields}), timeout_s)
        assert status == 200, body
        return Result(body)

    def python(self, code, uid=None, **more):
        """What a program prints: one literal of Python."""
        text = PRELUDE + textwrap.dedent(code)
        assert "PYEND" not in text
        result = self.run(f"python3 - <<'PYEND'\n{text}\nPYEND", **({} if uid is None else {"uid": uid}), **more)
        assert result.code == 0, result
        return ast.literal_eval(result.out)

    def start(self, command, **fields):
        """Leaves it to run by itself."""
        return self.run(f"setsid sh -c {quoted(command)} >/dev/null 2>&1 </dev/null & echo started", **fields)

    def put(self, path, data):
        """A program."""
        text = base64.encodebytes(data).decode()
        assert self.run(f"base64 -d >{path} <<'PUTEND' && chmod 755 {path}\n{text}\nPUTEND").code == 0

    def ping_ms(self):
        began = time.monotonic()
        status, _ = self.request("GET", "/ping", timeout=10)
        assert status == 200
        return (time.monotonic() - began) * 1000

    def state(self):
        return self.plane.server.get(self.path).json["status"]

    def wait_state(self, want, seconds):
        deadline = time.monotonic() + seconds
        while (status := self.state())["state"] != want and time.monotonic() < deadline:
            time.sleep(0.02)
        assert status["state"] == want, status
        return status

    def post(self, verb):
        answer = self.plane.server.request("POST", f"{self.path}/{verb}")
        assert answer.status // 100 == 2, answer

    def delete(self, seconds=5):
        """Gone, with everything, within the time (G10)."""
        group, pids = self.group, self.pids()
        began = time.monotonic()
        answer = self.plane.server.request("DELETE", self.path, timeout=30)
        assert answer.status == 204, answer
        while any(alive(p) for p in pids) or any(self.plane.groups(group)):
            assert time.monotonic() - began < seconds, (group, self.plane.groups(group))
            time.sleep(0.02)
        assert self.plane.server.get(self.path).status == 404
        return time.monotonic() - began

    # ---- as the host sees it ----

    @property
    def box(self):
        for folder in (self.plane.server.home.state / "boxes").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if self.id.encode() in (folder / "box").read_bytes():
                    return folder
        raise AssertionError(f"no box of {self.id}")

    @property
    def group(self):
        return self.box.name

    @property
    def upper(self):
        """Its root on its disk, which the warden alone sees."""
        server = self.plane.server
        return pathlib.Path(f"/proc/{server.warden_pid}/root{server.home.state}/store/disks/{self.box.name}/upper/.root")

    def pids(self):
        """Of all its processes, on the host; PID 1 first."""
        found = {int(p) for g in self.plane.groups(self.group) for p in read(g / "cgroup.procs").split()}
        return sorted(found, key=lambda p: (nspid(p) != 1, p))

    @property
    def pid1(self):
        return self.pids()[0]

    @property
    def id_base(self):
        return int(read(f"/proc/{self.pid1}/uid_map").split()[1])

    @property
    def has_own_leaf(self):
        """Whether PID 1 has control groups of its own: where only leaves hold processes."""
        return any(group.name == "init" for group in self.plane.groups(self.group))

    def members(self, leaf, controller):
        """The processes of its control group for CONTROLLER."""
        files = [f"{controller}.max", f"{controller}.limit_in_bytes"]
        group = next(g / leaf for g in self.plane.groups(self.group) if any((g / leaf / name).exists() for name in files))
        return set((group / "cgroup.procs").read_text().split())

    def limit(self, leaf, *names):
        """The value of a file of its control group, whatever it is called in this version of them."""
        for group in self.plane.groups(self.group):
            for name in names:
                with contextlib.suppress(OSError):
                    return (group / leaf / name).read_text().strip()
        return None


class Plane:
    """The server, and the sandboxes of a module."""

    def __init__(self, folder):
        # What the sanitizer holds back of freed memory would hide what the server uses.
        asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1"]))
        self.server = Server(folder, env={"OPENSANDBOX_SERVER_API_KEY": KEY, "ASAN_OPTIONS": asan})
        self.server.wait_ready()

    def create(self, entrypoint=("tail", "-f", "/dev/null"), limits=None, **more):
        body = {"image": {"uri": "host"}, "entrypoint": list(entrypoint), "timeout": 900, "resourceLimits": limits or {}, **more}
        answer = self.server.request("POST", "/v1/sandboxes", json.dumps(body), JSON, timeout=30)
        assert answer.status == 202 and answer.json["status"]["state"] == "Running", answer
        return Sandbox(self, answer.json["id"])

    def groups(self, name=""):
        """The control groups of a box, one for each hierarchy that has any, and those below."""
        tops = [g for depth in ("", "*/") for g in pathlib.Path("/sys/fs/cgroup").glob(depth + self.server.home.prefix)]
        return [pathlib.Path(p) for top in tops for p, _, _ in os.walk(top / name)]

    def rss_kib(self):
        return int(re.search(r"^VmRSS:\s+(\d+)", read(f"/proc/{self.server.pid}/status"), re.M).group(1))

    def stop(self):
        for item in self.server.get("/v1/sandboxes?pageSize=100").json["items"]:
            self.server.request("DELETE", f"/v1/sandboxes/{item['id']}", timeout=30)
        self.server.stop()


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def read(path):
    """Empty when it is gone."""
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text(errors="replace")
    return ""


def alive(pid):
    stat = read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def nspid(pid):
    match = re.search(r"^NSpid:.*?(\d+)$", read(f"/proc/{pid}/status"), re.M)
    return int(match.group(1)) if match else None


def settled(sandbox):
    """Its processes, once the shell of the last command is among those that have gone."""
    before = None
    while (now := sandbox.pids()) != before:
        before = now
        time.sleep(0.05)
    return now


def eventually(what, seconds=10):
    """What it gives, once it gives anything."""
    deadline = time.monotonic() + seconds
    while not (got := what()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return got


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    return dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def build(folder, name):
    """tests/security/NAME.c as a static program; its path."""
    path = folder / name
    subprocess.run(["musl-gcc", "-static", "-Os", "-D_GNU_SOURCE", f"-I{ROOT}/src", "-o", path, ROOT / f"tests/security/{name}.c"],
                   check=True)
    return path


@contextlib.contextmanager
def pinged(*sandboxes, most_ms=1000):
    """Meanwhile each of them answers, always within a second (L2, G6). Yields the slowest answers so far, in ms."""
    slowest = [0.0] * len(sandboxes)
    stop = []

    def watch(i):
        while not stop:
            slowest[i] = max(slowest[i], sandboxes[i].ping_ms())
            time.sleep(0.03)

    with concurrent.futures.ThreadPoolExecutor(len(sandboxes)) as pool:
        watches = [pool.submit(watch, i) for i in range(len(sandboxes))]
        try:
            yield slowest
        finally:
            stop.append(True)
            for w in watches:
                w.result()
    assert max(slowest) < most_ms, slowest


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    p = Plane(tmp_path_factory.mktemp("plane"))
    yield p
    p.stop()


@pytest.fixture(scope="module")
def box(plane):
    """One sandbox for all tests of a module that leave it as it was."""
    return plane.create(env={"SECRET_OF_THE_USER": "s3cr3t"})
