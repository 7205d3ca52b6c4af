# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of the execution API share: a server of its own with one sandbox, nginx beside it, and connections that cost
the same towards both."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEY = "bench-" + uuid.uuid4().hex
CRLF = b"\r\n"

NGINX = """
user root; worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000000; client_max_body_size 0; sendfile on; tcp_nopush on;
  client_body_temp_path {dir}/files/.body; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
  uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  server {{ listen 127.0.0.1:{port}; root {dir}/files; location / {{ dav_methods PUT; create_full_put_path on; }} }}
}}
"""


def free_ports(n):
    """N ports in a row."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                for i in range(1, n):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + i))
            except (OSError, OverflowError):
                continue
            return port


class Peer:
    """A keep-alive connection that reads with one large buffer."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.room = bytearray(1 << 20)

    def send_head(self, method, path, length=0, headers=(), body=b""):
        lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Content-Length: {length}"]
        lines += [f"{k}: {v}" for k, v in headers]
        self.sock.sendall("\r\n".join(lines).encode() + CRLF * 2 + body)

    def head(self):
        """Reads the head of the answer; gives its length (None: chunked) and what came behind it."""
        got = b""
        while CRLF * 2 not in got:
            piece = self.sock.recv(65536)
            if not piece:
                raise SystemExit(f"bench: the connection was closed: {got!r}")
            got += piece
        head, _, rest = got.partition(CRLF * 2)
        if head.split()[1] not in (b"200", b"201", b"204"):
            raise SystemExit(f"bench: {head!r} {rest!r}")
        for line in head.lower().split(CRLF):
            if line.startswith(b"content-length:"):
                return int(line.split(b":")[1]), rest
        return (None, rest) if b"transfer-encoding: chunked" in head.lower() else (0, rest)

    def skip(self, n):
        while n > 0:
            got = self.sock.recv_into(self.room, min(n, len(self.room)))
            if not got:
                raise SystemExit("bench: the answer is cut short")
            n -= got

    def drain(self):
        """Reads the answer to its end; a chunked one ends in an empty chunk and is followed by nothing."""
        length, tail = self.head()
        if length is not None:
            self.skip(length - len(tail))
            return length
        total = len(tail)
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            got = self.sock.recv_into(self.room)
            if not got:
                raise SystemExit("bench: the answer is cut short")
            total += got
            tail = (tail + bytes(self.room[max(0, got - 16):got]))[-16:]
        return total

    def until(self, mark, got=b""):
        """Reads until MARK has come behind what was GOT before; gives all so far."""
        while mark not in got:
            piece = self.sock.recv(65536)
            if not piece:
                raise SystemExit(f"bench: the connection was closed: {got!r}")
            got += piece
        return got

    def close(self):
        self.sock.close()


class Stage:
    """The server and one sandbox; `peer()` is a connection and `path()` the way to its execd. FOLDERS of the host are there at the same place."""

    def __init__(self, folders=(), **env):
        self.env, self.folders = env, [str(f) for f in folders]  # of the sandbox
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-bench-"))
        self.folder.chmod(0o711)
        self.prefix = "b" + uuid.uuid4().hex[:8]
        self.port = free_ports(2)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "OPENSANDBOX_SERVER_API_KEY": KEY,
               "OPENSANDBOX_NATIVE_STATE_DIR": f"{self.folder}/state", "OPENSANDBOX_NATIVE_RUN_DIR": f"{self.folder}/run",
               "OPENSANDBOX_NATIVE_PREFIX": self.prefix, "OPENSANDBOX_NATIVE_EXECD": str(ROOT / "build/bin/execd"),
               "OPENSANDBOX_NATIVE_SLOTS": "1", "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": json.dumps(self.folders)}
        self.process = subprocess.Popen([ROOT / "build/bin/opensandbox-server", "--port", str(self.port)], env=env,
                                        cwd=self.folder, stderr=open(self.folder / "log", "wb"))
        self.nginx = None

    def __enter__(self):
        try:
            self.id = self.create()
            self.token = self.call("GET", f"/v1/sandboxes/{self.id}/endpoints/44772")["headers"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, SystemExit, AttributeError):
            self.call("DELETE", f"/v1/sandboxes/{self.id}")
        for process in filter(None, (self.process, self.nginx)):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"*/{self.prefix}"):
            for path, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, json.dumps(body) if body else None,
                  {"OPEN-SANDBOX-API-KEY": KEY, "Content-Type": "application/json"})
        response = c.getresponse()
        data = response.read()
        if response.status // 100 != 2:
            raise SystemExit(f"bench: {method} {path}: {response.status} {data!r}")
        return json.loads(data) if data else None

    def create(self):
        volumes = [{"name": f"folder-{i}", "mountPath": f, "host": {"path": f}, "readOnly": True} for i, f in enumerate(self.folders)]
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600, "env": self.env, "volumes": volumes,
                "resourceLimits": {"cpu": str(os.cpu_count()), "memory": "2Gi"}}
        for _ in range(200):
            try:
                return self.call("POST", "/v1/sandboxes", body)["id"]
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise SystemExit("bench: the server does not listen")

    def path(self, rest):
        return f"/sandboxes/{self.id}/proxy/44772{rest}"

    def peer(self):
        return Peer(self.port + 1)

    def run(self, peer, command):
        """Sends a command; its answer is the caller's to read."""
        body = json.dumps({"command": command}).encode()
        peer.send_head("POST", self.path("/command"), len(body), self.token.items(), body)

    def start_nginx(self):
        """Serves and receives files below folder/files; gives its port."""
        port, folder = free_ports(1), self.folder / "nginx"
        (folder / "files").mkdir(parents=True)
        (folder / "nginx.conf").write_text(NGINX.format(dir=folder, port=port))
        self.nginx = subprocess.Popen(["nginx", "-e", folder / "error.log", "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)
        for _ in range(100):
            with contextlib.suppress(OSError):
                Peer(port).close()
                return port
            time.sleep(0.05)
        raise SystemExit("bench: nginx does not listen")

    def pids(self):
        """Those whose time counts: the processes of the server, and the sandbox's PID 1."""
        server = [self.process.pid, *children_of(self.process.pid)]
        inits = [p for p in all_pids() if is_init_below(p, server)]
        return server + inits

    def cpu_seconds(self):
        return sum(map(cpu_seconds, self.pids()))


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def is_init_below(pid, parents):
    """PID 1 of a namespace whose parent is one of ours."""
    with contextlib.suppress(OSError):
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        return status["NSpid"].split()[-1] == "1" and len(status["NSpid"].split()) > 1 and int(status["PPid"]) in parents
    return False


def cpu_seconds(pid):
    with contextlib.suppress(OSError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def report(name, unit, pairs, baseline=None, goal=None, digits=3):
    """PAIRS of (ours, baseline) that ran next to each other shared the machine's mood; medians drop the outliers."""
    ours = statistics.median(a for a, _ in pairs)
    line = {"name": name, "value": round(ours, digits), "unit": unit, "baseline": baseline, "baseline_value": None, "ratio": None,
            "goal": goal}
    if baseline:
        line["baseline_value"] = round(statistics.median(b for _, b in pairs), digits)
        line["ratio"] = round(statistics.median(a / b for a, b in pairs), 3)
    print(json.dumps(line), flush=True)
