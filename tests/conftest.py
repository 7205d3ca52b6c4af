# SPDX-License-Identifier: Apache-2.0
"""What the black-box tests share: a server in a folder of its own, and a client that hides nothing.

OPENSANDBOX_BIN is the folder of the programs under test (build/asan/bin)."""
import contextlib
import glob
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import jsonschema
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Helpers, and rooms whose tests lend something to those of others.
sys.path[1:1] = [str(ROOT / "tests" / room) for room in ("lib", "server", "warden", "execd", "egress", "ingress", "images", "faults", "security")]

import network_left  # noqa: E402
from api import Api, wait_for  # noqa: E402
from ports import free_port  # noqa: E402
from way import ENTRYPOINT  # noqa: E402

BIN = pathlib.Path(os.environ.get("OPENSANDBOX_BIN", ROOT / "build/asan/bin")).resolve()
SERVER = BIN / "opensandbox-server"
EXECD = ROOT / "build/musl/bin/execd"  # the one that runs in sandboxes
KEY = "0123456789abcdef0123456789abcdef"
AUTH = {"OPEN-SANDBOX-API-KEY": KEY}
START_SECONDS = 120  # none of these is what a test waits for: they only end what hangs
STOP_SECONDS = 60
ANSWER_SECONDS = 60
SANITIZER = re.compile(r"runtime error:|AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer")

# Whoever runs the tests in the background may ignore these, and all that they start would do so, too.
for signo in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(signo) == signal.SIG_IGN:
        signal.signal(signo, signal.default_int_handler if signo == signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config):
    config.addinivalue_line("markers", "alone(why): needs the machine for itself: runs when nothing else does")
    config.addinivalue_line("markers", "smoke: the test of a feature that `make check` runs")


class Running(subprocess.Popen):
    """For a `with` that a failing test may leave at any time: it waits for nobody then."""

    def __exit__(self, kind, *rest):
        if kind:
            self.kill()
        super().__exit__(kind, *rest)


def clean_environment(home, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENSANDBOX_", "SANDBOX_"))}
    env["HOME"] = str(home)
    env.update({k: str(v) for k, v in more.items()})
    return env


def assert_clean(stderr):
    """No sanitizer had anything to say."""
    assert not SANITIZER.search(stderr), stderr


class Answer:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:200]!r}>"


def children_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]
    return []


def user_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return int(re.search(r"^Uid:\s+(\d+)", f.read(), re.M).group(1))
    return None


def program_of(pid):
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return None


def open_way(folder):
    """The server's user can come by: pytest's folders are closed to all others."""
    for p in [folder, *folder.parents]:
        if p.stat().st_uid == 0 and p.is_relative_to(tempfile.gettempdir()) and p != pathlib.Path(tempfile.gettempdir()):
            p.chmod(p.stat().st_mode | 0o11)


class Home:
    """Where a server keeps everything: folders that its user can reach, and names in the kernel of its own."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-test-"))
        self.folder.chmod(0o711)
        self.state, self.run = self.folder / "state", self.folder / "run"
        self.prefix = f"t{uuid.uuid4().hex[:8]}"

    @property
    def env(self):
        return {"OPENSANDBOX_NATIVE_STATE_DIR": str(self.state), "OPENSANDBOX_NATIVE_RUN_DIR": str(self.run),
                "OPENSANDBOX_NATIVE_PREFIX": self.prefix, "OPENSANDBOX_NATIVE_EXECD": str(EXECD),
                "OPENSANDBOX_NATIVE_SLOTS": "1", "OPENSANDBOX_NATIVE_NETWORK": "none"}

    def groups(self):
        """The control groups of its sandboxes, and those above them."""
        tops = [top for depth in ("", "*/", "*/*/") for top in glob.glob(f"/sys/fs/cgroup/{depth}{self.prefix}")]
        return [pathlib.Path(path) for top in tops for path, _, _ in os.walk(top)]  # others' groups come and go meanwhile

    def drain(self, seconds):
        deadline = time.monotonic() + seconds
        while self.groups() and time.monotonic() < deadline:  # a warden whose supervisor was killed goes a moment later
            for group in sorted(self.groups(), reverse=True):
                with contextlib.suppress(OSError):
                    group.rmdir()
            time.sleep(0.02)
        return self.groups()

    def kill(self):
        """Ends what still runs in its groups: a test that failed in the middle leaves nothing to the next."""
        for group in self.groups():
            with contextlib.suppress(OSError):
                (group / "freezer.state").write_text("THAWED")
            with contextlib.suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self):
        left = self.drain(STOP_SECONDS)
        if left:
            self.kill()
            self.drain(STOP_SECONDS)
        network_left.clean(self.prefix)
        if self.folder.exists():
            shutil.rmtree(self.folder)
        assert not left, left


class Server:
    """A running opensandbox-server: the supervisor is `process`, the one that serves `pid`. Each request has a connection
    of its own. NETNS is a netns.Netns that it runs in. POPEN goes to subprocess.Popen."""

    def __init__(self, folder, config="", env=None, args=(), host="127.0.0.1", port=None, home=None, program=SERVER, netns=None, **popen):
        self.host, self.netns = host, netns
        self.port = port or free_port()
        self.folder = folder
        open_way(folder)
        self.owns_home = home is None
        self.home = home or Home()
        self.stderr_path = folder / f"stderr.{self.port}"
        config_path = folder / f"config.{self.port}.toml"
        config_path.write_text(config)
        full_env = clean_environment(folder, OPENSANDBOX_SERVER_PORT=self.port, OPENSANDBOX_SERVER_HOST=host,
                                     **self.home.env)
        full_env.update(env or {})
        if netns:
            popen["preexec_fn"] = netns.enter
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(
                [program, "--config", config_path, *args],
                **{"env": full_env, "cwd": folder, "stderr": stderr, "stdin": subprocess.DEVNULL, **popen},
            )

    def children(self, is_root):
        """The warden (IS_ROOT), or those that the server is or works with."""
        pids = [c for c in children_of(self.process.pid) if (user_of(c) == 0) == is_root]
        return [c for c in pids if program_of(c) != "opensandbox-egress"]

    @property
    def pid(self):
        """Of the process that serves."""
        return self.children(False)[0]

    @property
    def warden_pid(self):
        return self.children(True)[0]

    @property
    def egress_pid(self):
        return [c for c in children_of(self.process.pid) if program_of(c) == "opensandbox-egress"][0]

    def limit(self, **limits):
        """Sets resource limits of the process that serves: only its own user may."""
        user = str(user_of(self.pid))
        subprocess.run(["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "prlimit", "--pid", str(self.pid),
                        *(f"--{name}={value}" for name, value in limits.items())], check=True)

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                pytest.fail(f"the server ended with {self.process.returncode}: {self.stderr}")
            with contextlib.suppress(ConnectionRefusedError, TimeoutError), self.connect(START_SECONDS) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    s.recv(1)  # an answer, or the end: TLS is asked for. Before, the connection waits to be accepted.
                if self.process.poll() is None and self.children(False):
                    return
            time.sleep(0.02)
        self.process.kill()
        pytest.fail(f"the server does not listen: {self.stderr}")

    def connect(self, timeout=ANSWER_SECONDS):
        return (self.netns.connect if self.netns else socket.create_connection)((self.host, self.port), timeout=timeout)

    def http(self, host, port=None, timeout=ANSWER_SECONDS):
        """A connection to where it serves, or says that something is."""
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        if self.netns:
            connection._create_connection = self.netns.connect
        return connection

    def request(self, method, path, body=None, headers=None, auth=True, timeout=ANSWER_SECONDS):
        connection = self.http(self.host, self.port, timeout)
        try:
            connection.request(method, path, body=body, headers={**(AUTH if auth else {}), **(headers or {})})
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def raw(self, data, timeout=ANSWER_SECONDS):
        """Sends bytes as they are; returns all that comes back until the server closes."""
        with self.connect(timeout) as s:
            s.sendall(data)
            return read_all(s)

    def stop(self):
        """SIGTERM must end it in order: status 0, nothing from a sanitizer, nothing left behind."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            try:
                status = self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                pytest.fail(f"the server does not stop: {self.stderr}")
            assert_clean(self.stderr)
            assert status == 0, self.stderr
        finally:
            if self.owns_home:
                self.home.remove()


def read_all(s):
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            received += piece
    return received


@contextlib.contextmanager
def servers(folder):
    """Gives what the fixture start_server gives. One that does not stop as it should spares none of the others."""
    with contextlib.ExitStack() as stack:

        def start(config="", env=None, key=KEY, **more):
            env = {**({"OPENSANDBOX_SERVER_API_KEY": key} if key is not None else {}), **(env or {})}
            server = Server(folder, config, env, **more)
            stack.callback(server.stop)
            server.wait_ready()
            return server

        yield start


@pytest.fixture
def home():
    """A Home that outlives the servers in it."""
    h = Home()
    yield h
    h.remove()


@pytest.fixture
def start_server(tmp_path):
    """start_server(config, env=, key=, args=, host=, port=): a Server that is ready; it is stopped and checked."""
    with servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server with a key and otherwise defaults, for all tests of a module."""
    s = Server(tmp_path_factory.mktemp("server"), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture
def run_server(tmp_path):
    """run_server(*args, env=) -> CompletedProcess of a server that is to end by itself."""

    home = Home()

    def run(*args, env=None, timeout=START_SECONDS):
        done = subprocess.run(
            [SERVER, *args], env=clean_environment(tmp_path, **{**home.env, **(env or {})}), cwd=tmp_path, timeout=timeout,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert_clean(done.stderr)
        return done

    yield run
    home.remove()


class Spec:
    """specs/NAME.yml, to hold answers to."""

    def __init__(self, path):
        self.document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)

    def check(self, schema, value):
        """VALUE is what components/schemas/SCHEMA says."""
        root = {"$ref": f"#/components/schemas/{schema}", "components": self.document["components"]}
        jsonschema.Draft202012Validator(root).validate(value)

    def problems(self, schema, value):
        """What is wrong with VALUE, by components/schemas/SCHEMA."""
        root = {"$ref": f"#/components/schemas/{schema}", "components": self.document["components"]}
        return jsonschema.Draft202012Validator(root).iter_errors(value)

    def check_error(self, answer, status, code=None):
        """An error as every error is."""
        assert answer.status == status, answer
        assert answer.headers["Content-Type"] == "application/json"
        self.check("RequestId", answer.headers["X-Request-ID"])
        self.check("ValidationError" if status == 422 else "Error", answer.json)
        if code:
            assert answer.json["code"] == code

    def resolve(self, node):
        """What NODE stands for: it may be a reference."""
        while "$ref" in node:
            at = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                at = at[step]
            node = at
        return node

    def operation(self, method, path):
        """The operation that METHOD PATH calls. HEAD is GET, /v1 changes nothing; {path} may have slashes."""
        path = path.split("?")[0].removeprefix("/v1")
        for template, item in self.document["paths"].items():
            pattern = re.sub(r"\\{(\w+)\\}", lambda m: ".*" if m[1] == "path" else "[^/]+", re.escape(template))
            name = "get" if method == "HEAD" and "head" not in item else method.lower()
            if re.fullmatch(pattern, path) and name in item:
                return item[name]
        raise AssertionError(f"{method} {path} is not described")

    def check_answer(self, method, path, answer):
        """ANSWER is one that the document describes for METHOD PATH: its status by number, its headers, its body."""
        responses = self.operation(method, path)["responses"]
        assert str(answer.status) in responses, f"{method} {path}: a status that is not described: {answer}"
        response = self.resolve(responses[str(answer.status)])
        for name, header in response["headers"].items():
            header = self.resolve(header)
            assert name in answer.headers or not header.get("required"), f"{name} is missing: {answer}"
            if name in answer.headers and self.resolve(header["schema"]).get("type") == "string":
                self.check_schema(header["schema"], answer.headers[name])
        if "content" not in response:
            assert answer.body == b"" and "Content-Type" not in answer.headers, answer
            return
        kind = answer.headers["Content-Type"].split(";")[0]
        assert kind in response["content"], f"{method} {path}: {kind} is not described"
        if kind == "application/json" and method != "HEAD":
            self.check_schema(response["content"][kind]["schema"], answer.json)

    def check_schema(self, schema, value):
        root = {"allOf": [schema], "components": self.document["components"]}
        jsonschema.Draft202012Validator(root).validate(value)


@pytest.fixture(scope="session")
def spec():
    return Spec(ROOT / "specs/server.yml")


@pytest.fixture(scope="module")
def api(server, spec):
    """The module's server, as its clients have it. What a failed test has left there goes with the module."""
    api = Api(server, spec)
    yield api
    for sandbox in api.get("/sandboxes?pageSize=200").json["items"]:
        assert api.delete(sandbox["id"]).status == 204


@pytest.fixture
def box(api):
    """box(...) makes a sandbox as Api.create does; it goes with the test."""
    made = []

    def make(*args, **changes):
        made.append(api.create(*args, **changes))
        return made[-1]

    yield make
    for sandbox in made:
        assert api.delete(sandbox["id"]).status in (204, 404)


@pytest.fixture(scope="module")
def shared(api):
    """The id of a sandbox that all tests of a module read and none changes."""
    sandbox = api.create(metadata={"kind": "shared"})
    yield sandbox["id"]
    assert api.delete(sandbox["id"]).status == 204


@pytest.fixture(scope="module")
def inside(api):
    """The id of a sandbox with the web server of tests/peers/backend.py, for all tests of a module."""
    sandbox_id = api.create(entrypoint=ENTRYPOINT, resourceLimits={"cpu": "2", "memory": "256Mi"})["id"]
    listens = lambda: api.server.get(f"/sandboxes/{sandbox_id}/proxy/8080/").status == 200  # noqa: E731
    wait_for(listens, what="the server in the sandbox")
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204
