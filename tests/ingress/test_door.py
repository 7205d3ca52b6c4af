# SPDX-License-Identifier: Apache-2.0
"""The socket where gateways of the same host get connections into sandboxes: who is let in, and what they get."""
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
from gateway import Gateway, GatewayWay, door  # noqa: F401

VERSION, HELLO, DIAL, USED = 1, 1, 2, 3
OPEN, NOWHERE, NOBODY, REFUSED = range(4)
RENEWS = "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory, door):  # noqa: F811
    s = Server(tmp_path_factory.mktemp("server"), f'{RENEWS}[ingress]\ndoor = "{door}"\n', env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


class Caller:
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
def caller(server, door):
    c = Caller(door)
    with c.socket:
        yield c


@pytest.fixture
def known(caller):
    assert caller.ask(HELLO, KEY) == (OPEN, None)
    return caller


@pytest.mark.smoke
def test_only_who_has_the_key_comes_in(server, door, inside):
    for kind, text, version in [(HELLO, "wrong", VERSION), (HELLO, "", VERSION), (DIAL, inside, VERSION), (HELLO, KEY, 2), (99, KEY, VERSION)]:
        c = Caller(door)
        with c.socket:
            assert c.ask(kind, text, 8080, version) is None
    assert server.get("/health").status == 200


@pytest.mark.parametrize("data", [b"x", b"\0" * 19, b"\0" * 20, struct.pack("<IIQI", 1, 1, 1, 0) + b"k" * 64, b"\0" * 4000])
def test_what_is_no_question_ends_it(known, data):
    known.socket.send(data)
    assert known.answer() is None


def test_a_connection_leads_into_the_sandbox(known, inside):
    status, connection = known.ask(DIAL, inside, 8080)
    assert status == OPEN
    with connection:
        connection.setblocking(True)
        connection.sendall(b"GET /through HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"GET /through HTTP/1.1" in b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("port, status", [(9999, NOBODY), (EXECD, REFUSED), (18080, REFUSED), (0, REFUSED), (65536, REFUSED), (2**32 - 1, REFUSED)])
def test_ports_that_have_no_door(known, inside, port, status):
    """A6: what needs a token of the server's is not to be had without it."""
    assert known.ask(DIAL, inside, port) == (status, None)


def test_sandboxes_that_cannot_be_called(known, api, box):
    assert known.ask(DIAL, "none", 8080) == (NOWHERE, None)
    assert known.ask(DIAL, "../" * 20, 8080) == (NOWHERE, None)
    sandbox_id = box()["id"]
    api.pause(sandbox_id)
    api.wait_state(sandbox_id, "Paused")
    assert known.ask(DIAL, sandbox_id, 8080) == (NOWHERE, None)


def test_more_questions_than_are_answered_at_once(known, inside):
    for _ in range(200):
        known.send(DIAL, inside, 8080)
    statuses = []
    for _ in range(200):
        _, status, connection = known.answer()
        statuses.append(status)
        if connection:
            connection.close()
    assert statuses.count(OPEN) >= 128 and set(statuses) <= {OPEN, REFUSED}


def test_callers_that_hang_up_in_the_middle(server, door, inside):
    for _ in range(20):
        c = Caller(door)
        with c.socket:
            assert c.ask(HELLO, KEY) == (OPEN, None)
            for _ in range(50):
                c.send(DIAL, inside, 8080)
    assert server.get("/health").status == 200


def test_what_is_used_lives_longer(known, api, box):
    sandbox_id = box(timeout=60, extensions={"access.renew.extend.seconds": "600"})["id"]
    before = api.read(sandbox_id)["expiresAt"]
    known.send(USED, sandbox_id)
    wait_for(lambda: api.read(sandbox_id)["expiresAt"] > before, what="a later end")


def test_no_socket_of_somebody_else_is_replaced(tmp_path, home):
    file = tmp_path / "door"
    file.write_text("mine")
    s = Server(tmp_path, f'[ingress]\ndoor = "{file}"\n', env={"OPENSANDBOX_SERVER_API_KEY": KEY}, home=home)
    assert s.process.wait(TIMEOUT_S) == 1
    assert "ingress.door" in s.stderr and "is no socket" in s.stderr
    assert file.read_text() == "mine"


def test_a_gateway_outlives_its_servers_door(tmp_path, door, server, inside):
    """While the server is away there is no answer; then requests go by its door again."""
    g = Gateway(tmp_path, [server], "uri", "--door", door)
    way = GatewayWay(g, inside)
    try:
        wait_for(lambda: "door is open" in g.stderr, what="the door")
        assert way.request("GET", "/")[0].status == 200
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: "door of a server has closed" in g.stderr, what="a closed door")
        wait_for(lambda: g.stderr.count("door is open") == 2, what="the door")
        with contextlib.suppress(OSError):
            wait_for(lambda: way.request("GET", "/")[0].status == 200, what="an answer")
        assert way.request("GET", "/")[0].status == 200
    finally:
        g.stop()


def test_a_thousand_streams_go_by_the_door(tmp_path, door, server, inside):
    g = Gateway(tmp_path, [server], "uri", "--door", door)
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
        wait_for(lambda: "door is open" in g.stderr, what="the door")
        answers = asyncio.run(all_of_them())
        assert sum(a.startswith(b"HTTP/1.1 200 ") for a in answers) == 1000
    finally:
        g.stop()
