# SPDX-License-Identifier: Apache-2.0
"""The gateway socket: authentication, requests for connections into sandboxes, and gateways that use it."""
import array
import asyncio
import contextlib
import os
import signal
import socket
import struct

import pytest

from api import EXECD, TIMEOUT_S, wait_for
from conftest import KEY, Server
from gateway import Gateway, GatewayWay, gateway_socket  # noqa: F401

VERSION, HELLO, DIAL, USED = 1, 1, 2, 3
OK, NO_SANDBOX, NO_LISTENER, REFUSED = range(4)
RENEWS = "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory, gateway_socket):  # noqa: F811
    s = Server(tmp_path_factory.mktemp("server"), f'{RENEWS}[ingress]\ngateway_socket = "{gateway_socket}"\n',
               env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


class Peer:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(str(path))
        self.serial = 0

    def send(self, kind, text, port=0, version=VERSION):
        self.serial += 1
        self.socket.send(struct.pack("<IIQI", version, kind, self.serial, port) + text.encode() + b"\0")

    def answer(self):
        """Serial, status and perhaps a socket; None: it has been closed."""
        data, ancillary, _, _ = self.socket.recvmsg(64, socket.CMSG_SPACE(4))
        if not data:
            return None
        serial, status, _ = struct.unpack("<QII", data)
        fds = [fd for _, _, raw in ancillary for fd in array.array("i", raw)]
        return serial, status, socket.socket(fileno=fds[0]) if fds else None

    def ask(self, *args, **kwargs):
        self.send(*args, **kwargs)
        answer = self.answer()
        assert answer is None or answer[0] == self.serial
        return answer and answer[1:]


@pytest.fixture
def peer(server, gateway_socket):
    c = Peer(gateway_socket)
    with c.socket:
        yield c


@pytest.fixture
def known(peer):
    assert peer.ask(HELLO, KEY) == (OK, None)
    return peer


@pytest.mark.smoke
def test_only_peers_with_the_key_are_accepted(server, gateway_socket, inside):
    for kind, text, version in [(HELLO, "wrong", VERSION), (HELLO, "", VERSION), (DIAL, inside, VERSION), (HELLO, KEY, 2), (99, KEY, VERSION)]:
        c = Peer(gateway_socket)
        with c.socket:
            assert c.ask(kind, text, 8080, version) is None
    assert server.get("/health").status == 200


@pytest.mark.parametrize("data", [b"x", b"\0" * 19, b"\0" * 20, struct.pack("<IIQI", 1, 1, 1, 0) + b"k" * 64, b"\0" * 4000])
def test_a_malformed_request_closes_the_connection(known, data):
    known.socket.send(data)
    assert known.answer() is None


def test_a_connection_leads_into_the_sandbox(known, inside):
    status, connection = known.ask(DIAL, inside, 8080)
    assert status == OK
    with connection:
        connection.setblocking(True)
        connection.sendall(b"GET /through HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"GET /through HTTP/1.1" in b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("port, status", [(9999, NO_LISTENER), (EXECD, REFUSED), (18080, REFUSED), (0, REFUSED), (65536, REFUSED), (2**32 - 1, REFUSED)])
def test_ports_that_are_refused(known, inside, port, status):
    """A7: ports that need a token of the server cannot be reached without it."""
    assert known.ask(DIAL, inside, port) == (status, None)


def test_sandboxes_that_cannot_be_called(known, api, box):
    assert known.ask(DIAL, "none", 8080) == (NO_SANDBOX, None)
    assert known.ask(DIAL, "../" * 20, 8080) == (NO_SANDBOX, None)
    sandbox_id = box()["id"]
    api.pause(sandbox_id)
    api.wait_state(sandbox_id, "Paused")
    assert known.ask(DIAL, sandbox_id, 8080) == (NO_SANDBOX, None)


def test_more_open_requests_than_allowed(known, inside):
    for _ in range(200):
        known.send(DIAL, inside, 8080)
    statuses = []
    for _ in range(200):
        _, status, connection = known.answer()
        statuses.append(status)
        if connection:
            connection.close()
    assert statuses.count(OK) >= 128 and set(statuses) <= {OK, REFUSED}


def test_peers_that_disconnect_with_open_requests(server, gateway_socket, inside):
    for _ in range(20):
        c = Peer(gateway_socket)
        with c.socket:
            assert c.ask(HELLO, KEY) == (OK, None)
            for _ in range(50):
                c.send(DIAL, inside, 8080)
    assert server.get("/health").status == 200


def test_what_is_used_lives_longer(known, api, box):
    sandbox_id = box(timeout=60, extensions={"access.renew.extend.seconds": "600"})["id"]
    before = api.read(sandbox_id)["expiresAt"]
    known.send(USED, sandbox_id)
    wait_for(lambda: api.read(sandbox_id)["expiresAt"] > before, what="a later end")


def test_a_file_that_is_no_socket_is_not_replaced(tmp_path, home):
    file = tmp_path / "gateway.sock"
    file.write_text("mine")
    s = Server(tmp_path, f'[ingress]\ngateway_socket = "{file}"\n', env={"OPENSANDBOX_SERVER_API_KEY": KEY}, home=home)
    assert s.process.wait(TIMEOUT_S) == 1
    assert "ingress.gateway_socket" in s.stderr and "is no socket" in s.stderr
    assert file.read_text() == "mine"


def test_a_gateway_reconnects_to_the_socket_of_a_restarted_server(tmp_path, gateway_socket, server, inside):
    """Requests fail while the server is down, and use the gateway socket again afterwards."""
    g = Gateway(tmp_path, [server], "uri", "--gateway-socket", gateway_socket)
    way = GatewayWay(g, inside)
    try:
        wait_for(lambda: "gateway socket connected" in g.stderr, what="the gateway socket")
        assert way.request("GET", "/")[0].status == 200
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: "gateway socket closed" in g.stderr, what="a closed gateway socket")
        wait_for(lambda: g.stderr.count("gateway socket connected") == 2, what="the gateway socket")
        with contextlib.suppress(OSError):
            wait_for(lambda: way.request("GET", "/")[0].status == 200, what="an answer")
        assert way.request("GET", "/")[0].status == 200
    finally:
        g.stop()


def test_a_thousand_streams_use_the_gateway_socket(tmp_path, gateway_socket, server, inside):
    g = Gateway(tmp_path, [server], "uri", "--gateway-socket", gateway_socket)
    way = GatewayWay(g, inside)

    async def one():
        reader, writer = await asyncio.open_connection(g.host, g.port)
        writer.write(way.head("GET", "/", "Connection: close"))
        answer = await reader.read()
        writer.close()
        return answer

    async def all_of_them():
        return await asyncio.gather(*(one() for _ in range(1000)))

    try:
        wait_for(lambda: "gateway socket connected" in g.stderr, what="the gateway socket")
        answers = asyncio.run(all_of_them())
        assert sum(a.startswith(b"HTTP/1.1 200 ") for a in answers) == 1000
    finally:
        g.stop()
