# SPDX-License-Identifier: Apache-2.0
"""A running opensandbox-ingress, and how clients name sandboxes to it."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from api import TIMEOUT_S
from conftest import BIN, KEY, assert_clean, clean_environment, free_port

GATEWAY = BIN / "opensandbox-ingress"
SECRETS = {"k": b"0123456789abcdef", "o": b"old"}
KEYS = "k=MDEyMzQ1Njc4OWFiY2RlZg==,o=b2xk"


@pytest.fixture(scope="module")
def gateway_socket():
    """In a folder that every user may enter: a gateway runs as a user of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        yield Path(folder) / "gateway.sock"


class Gateway:
    """MODE is header or uri; SERVERS are the Servers behind it."""

    def __init__(self, folder, servers, mode, *args, keys=KEYS, env=None):
        self.host, self.port, self.metrics_port, self.mode = "127.0.0.1", free_port(), free_port(), mode
        key = folder / "gateway.key"
        key.write_text(KEY + "\n")
        self.stderr_path = folder / f"gateway.{self.port}"
        command = [GATEWAY, "--listen", f"127.0.0.1:{self.port}", "--mode", mode, "--server-key-file", key, "--metrics-listen",
                   f"127.0.0.1:{self.metrics_port}", *(["--secure-access-keys", keys] if keys else []), *args]  # fmt: skip
        for server in servers:
            command += ["--server", server if isinstance(server, str) else f"http://127.0.0.1:{server.port}"]
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(command, stderr=stderr, stdin=subprocess.DEVNULL, cwd=folder, env=clean_environment(folder))
        deadline = time.monotonic() + TIMEOUT_S
        while "listening" not in self.stderr:
            assert self.process.poll() is None and time.monotonic() < deadline, self.stderr
            time.sleep(0.01)

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(TIMEOUT_S)
        assert_clean(self.stderr)
        assert status == 0, self.stderr

    def metrics(self):
        with contextlib.closing(http.client.HTTPConnection(self.host, self.metrics_port, timeout=TIMEOUT_S)) as c:
            c.request("GET", "/metrics")
            response = c.getresponse()
            assert response.status == 200 and response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            lines = [line.rsplit(" ", 1) for line in response.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}


class GatewayWay:
    """One sandbox through a gateway, as tests/lib/way.py has it through a server. SIGNED: "EXPIRES", "SIGNATURE"."""

    def __init__(self, gateway, sandbox_id, port=8080, signed=(), by_host=False):
        self.gateway, self.host, self.port = gateway, gateway.host, gateway.port
        self.sandbox_id, self.box_port, self.signed, self.by_host = sandbox_id, port, signed, by_host

    @property
    def headers(self):
        if self.gateway.mode == "uri":
            return {}
        route = "-".join([self.sandbox_id, str(self.box_port), *self.signed])
        return {"Host": f"{route}.gw.example:{self.port}"} if self.by_host else {"OpenSandbox-Ingress-To": route}

    def path(self, rest):
        return "".join(f"/{part}" for part in (self.sandbox_id, self.box_port, *self.signed)) + rest if self.gateway.mode == "uri" else rest or "/"

    def connection(self, timeout=TIMEOUT_S):
        return contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=timeout))

    def request(self, method, rest, body=None, headers=None):
        with self.connection() as c:
            c.request(method, self.path(rest), body, {**self.headers, **(headers or {})})
            response = c.getresponse()
            return response, response.read()

    def head(self, method, rest, *lines):
        """The bytes of a request's head."""
        headers = {"Host": "gw.example", **self.headers}
        lines = [f"{method} {self.path(rest)} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), *lines]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def raw(self, data):
        with socket.create_connection((self.host, self.port), timeout=TIMEOUT_S) as s:
            s.sendall(data)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    received += piece
            return received
