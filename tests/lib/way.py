# SPDX-License-Identifier: Apache-2.0
"""A way into a sandbox: one of the server's two ports, towards the web server of tests/peers/backend.py."""
import contextlib
import http.client
import json
import pathlib
import socket

from api import TIMEOUT_S

BACKEND = (pathlib.Path(__file__).parents[1] / "peers/backend.py").read_text()
ENTRYPOINT = ["/usr/bin/python3", "-c", BACKEND]


class Way:
    """One of the two ports, towards one sandbox."""

    def __init__(self, api, sandbox_id, port, prefix=""):
        self.api, self.sandbox_id, self.port, self.prefix = api, sandbox_id, port, prefix
        self.host = api.server.host

    def path(self, rest, port=8080):
        return f"{self.prefix}/sandboxes/{self.sandbox_id}/proxy/{port}{rest}"

    def connection(self):
        return contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S))

    def request(self, method, rest, body=None, headers=None, port=8080):
        with self.connection() as c:
            c.request(method, self.path(rest, port), body, headers or {})
            response = c.getresponse()
            return response, response.read()

    def echo(self, method, rest, body=None, headers=None):
        response, text = self.request(method, rest, body, headers)
        assert response.status == 200, text
        return json.loads(text)

    def state(self):
        return json.loads(self.request("GET", "/state")[1])

    def raw(self, data):
        with socket.create_connection((self.host, self.port), timeout=TIMEOUT_S) as s:
            s.sendall(data)
            received = b""
            while piece := s.recv(65536):
                received += piece
            return received
