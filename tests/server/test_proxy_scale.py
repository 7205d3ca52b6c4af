# SPDX-License-Identifier: Apache-2.0
"""Much at once, for long, and large, through the server's proxy and through the gateway: 100,000 messages, 2 GiB each way, streams that
say nothing for a while, 1,000 of them together. SOAK makes the silence ten minutes."""
import concurrent.futures
import hashlib
import os
import socket
import threading
import time

import pytest

from api import TIMEOUT_S, wait_for
from gateway import Gateway, GatewayWay
from way import ENTRYPOINT, Way

MESSAGES = 100_000
BIG = 2 << 30
SILENCE_S = 600 if os.environ.get("SOAK") else 70
STREAMS = 1000
LONG_S = 300
WS_HEAD = ("Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")


@pytest.fixture(scope="module")
def inside(api):
    limits = {"cpu": "4", "memory": "1Gi", "pids": "4096"}
    sandbox_id = api.create(entrypoint=ENTRYPOINT, resourceLimits=limits)["id"]
    wait_for(lambda: api.server.get(f"/sandboxes/{sandbox_id}/proxy/8080/").status == 200, what="the server in the sandbox")
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, server):
    g = Gateway(tmp_path_factory.mktemp("gateway"), [server], "uri")
    yield g
    g.stop()


class ServerWay(Way):
    def head(self, method, rest, *lines):
        return "\r\n".join([f"{method} {self.path(rest)} HTTP/1.1", "Host: localhost", *lines]).encode() + b"\r\n\r\n"


@pytest.fixture(params=["proxy", "gateway"])
def way(request, api, inside, gateway):
    return ServerWay(api, inside, api.server.port + 1) if request.param == "proxy" else GatewayWay(gateway, inside)


def connect(way, timeout=LONG_S):
    return socket.create_connection((way.host, way.port), timeout=timeout)


def read_head(f):
    status = f.readline()
    headers = {}
    while (line := f.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


def masked(text):
    """A short text frame of a client."""
    mask = b"\x11\x22\x33\x44"
    return bytes([0x81, 0x80 | len(text)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(text))


def test_a_hundred_thousand_messages(way):
    with connect(way) as s, s.makefile("rb") as f:
        s.sendall(way.head("GET", "/ws", *WS_HEAD))
        assert b" 101 " in read_head(f)[0]
        assert f.read(1) == b"\x81"  # what the backend says first
        size = f.read(1)[0]
        f.read(int.from_bytes(f.read(2), "big") if size == 126 else size)
        sender = threading.Thread(target=lambda: [s.sendall(b"".join(masked(b"%07d" % i) for i in range(at, at + 1000)))
                                                  for at in range(0, MESSAGES, 1000)])  # fmt: skip
        sender.start()
        for i in range(MESSAGES):
            assert f.read(9) == b"\x81\x07%07d" % i
        sender.join()


def test_two_gibibytes_up(way):
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    with connect(way) as s, s.makefile("rb") as f:
        s.sendall(way.head("POST", "/up", f"Content-Length: {BIG}"))
        for _ in range(BIG >> 20):
            s.sendall(block)
            digest.update(block)
        status, headers = read_head(f)
        body = f.read(int(headers["content-length"]))
        assert b" 200 " in status and digest.hexdigest().encode() in body and b'"size": %d' % BIG in body


def test_two_gibibytes_down(way):
    with connect(way) as s, s.makefile("rb") as f:
        s.sendall(way.head("GET", f"/big?n={BIG}"))
        status, headers = read_head(f)
        assert b" 200 " in status and int(headers["content-length"]) == BIG
        left, view = BIG, memoryview(bytearray(1 << 20))
        block = b"0123456789abcdef" * 65536
        while left > 0:
            n = f.readinto(view[: min(left, len(view))])
            assert n > 0
            at = (BIG - left) % 16
            assert view[:n] == (block[at:] + block[:at])[:n]
            left -= n


def test_a_stream_that_is_silent_for_long(api, inside, gateway):
    ways = [ServerWay(api, inside, api.server.port + 1), GatewayWay(gateway, inside)]

    def listen(way):
        with connect(way, SILENCE_S + TIMEOUT_S) as s, s.makefile("rb") as f:
            s.sendall(way.head("GET", f"/later?after={SILENCE_S}"))
            status, headers = read_head(f)
            assert b" 200 " in status and headers["content-type"] == "text/event-stream"
            began = time.monotonic()
            text = b""
            while b"first" not in text:
                text += f.readline()
            assert time.monotonic() - began < TIMEOUT_S
            while b"second" not in text:
                piece = f.readline()
                assert piece, text
                text += piece
            return time.monotonic() - began

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert all(took > SILENCE_S - 5 for took in pool.map(listen, ways))


def test_a_thousand_streams_at_once(way):
    sockets = [connect(way) for _ in range(STREAMS)]
    try:
        for s in sockets:
            s.sendall(way.head("GET", "/chorus"))
        files = [s.makefile("rb") for s in sockets]
        for f in files:
            status, _ = read_head(f)
            assert b" 200 " in status, status
            while b"first" not in (line := f.readline()):
                assert line
        assert way.request("GET", "/sing")[0].status == 204
        for f in files:
            while b"second" not in (line := f.readline()):
                assert line
    finally:
        for s in sockets:
            s.close()
