# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of the whole house share: a server of their own, the client's samples, and lines of results."""
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).parents[2]
SERVER = ROOT / "build/bin/opensandbox-server"
CLIENT = ROOT / "build/release/bench/create_loop"
START_SECONDS = 60
STOP_SECONDS = 15
ASK_SECONDS = 60


def free_port():
    """With the one behind it, where the proxy listens. Not from where the kernel takes those of clients."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as a, socket.socket() as b, contextlib.suppress(OSError):
            a.bind(("127.0.0.1", port))
            b.bind(("127.0.0.1", port + 1))
            return port


class House:
    """A server in a folder of its own, with names in the kernel of its own. Everything is gone when it closes."""

    def __init__(self, config="", netns=None):
        self.config, self.netns = config, netns  # a netns.Netns of the tests, or where we are
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-bench-"))
        self.folder.chmod(0o711)  # the server's user goes through it
        self.port = free_port()
        self.prefix = f"b{uuid.uuid4().hex[:8]}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        deadline = time.monotonic() + STOP_SECONDS
        while (groups := self.groups()) and time.monotonic() < deadline:  # the warden ends a moment after its supervisor
            for group in groups:
                with contextlib.suppress(OSError):
                    group.rmdir()
            time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    def groups(self):
        """The tops: what was below them is the warden's to remove."""
        return list(pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.prefix}"))

    def start(self):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "OPENSANDBOX_INSECURE_SERVER": "YES",
               "OPENSANDBOX_SERVER_PORT": str(self.port), "OPENSANDBOX_NATIVE_STATE_DIR": str(self.folder / "state"),
               "OPENSANDBOX_NATIVE_RUN_DIR": str(self.folder / "run"), "OPENSANDBOX_NATIVE_PREFIX": self.prefix,
               "OPENSANDBOX_LOG_LEVEL": "WARNING"}
        (self.folder / "config.toml").write_text(self.config)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([SERVER, "--config", self.folder / "config.toml"], env=env, cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stderr=log, preexec_fn=self.netns.enter if self.netns else None)
        self.wait_healthy()

    def wait_healthy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"bench: the server ended: {(self.folder / 'log').read_text()}")
            with contextlib.suppress(OSError):
                if self.get("/health")["status"] == "healthy":
                    return
            time.sleep(0.01)
        raise SystemExit("bench: the server does not answer")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def kill(self):
        """Of the supervisor alone; the others follow it."""
        self.process.kill()
        self.process.wait()

    def open(self, method, path, body=None, headers=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, headers=headers or {},
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        with self.netns.entered() if self.netns else contextlib.nullcontext():
            return urllib.request.urlopen(request, timeout=ASK_SECONDS)

    def ask(self, *args, **more):
        with self.open(*args, **more) as answer:
            return answer.read()

    def get(self, path):
        return json.loads(self.ask("GET", path))

    def create(self, **limits):
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600,
                "resourceLimits": {"cpu": "1", "memory": "512Mi", **limits}}
        return json.loads(self.ask("POST", "/v1/sandboxes", body))["id"]

    def delete(self, sandbox):
        self.ask("DELETE", f"/v1/sandboxes/{sandbox}")

    def execd(self, method, sandbox, path, body=None):
        token = self.get(f"/v1/sandboxes/{sandbox}/endpoints/44772")["headers"]["X-EXECD-ACCESS-TOKEN"]
        return self.open(method, f"/v1/sandboxes/{sandbox}/proxy/44772{path}", body, {"X-EXECD-ACCESS-TOKEN": token})

    def open_command(self, sandbox, text):
        return self.execd("POST", sandbox, "/command", {"command": text})

    def ping(self, sandbox):
        self.execd("GET", sandbox, "/ping").close()

    def client(self, *args, first=False):
        """What the client in C took: name -> samples. FIRST: it never waits for a processor."""
        before = ["chrt", "-f", "50"] if first else []
        out = subprocess.run([*before, CLIENT, str(self.port), *map(str, args)], check=True, capture_output=True, text=True, cwd=ROOT)
        samples = collections.defaultdict(list)
        for line in out.stdout.splitlines():
            name, value = line.split()
            samples[name].append(value if name == "id" else float(value))
        return samples


def percentile(samples, p):
    ordered = sorted(samples)
    return ordered[min(len(ordered) * p // 100, len(ordered) - 1)]


def report(name, value, unit, baseline=None, baseline_value=None, goal=None, digits=3):
    ratio = None if baseline_value is None else round(value / baseline_value, digits)
    print(json.dumps({"name": name, "value": round(value, digits), "unit": unit, "baseline": baseline,
                      "baseline_value": None if baseline_value is None else round(baseline_value, digits), "ratio": ratio,
                      "goal": goal}), flush=True)


def need_root(name):
    if os.geteuid() != 0:
        raise SystemExit(f"bench: {name} needs root, skipped")


median = statistics.median
