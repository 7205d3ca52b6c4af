# SPDX-License-Identifier: Apache-2.0
"""The limits of docs/threat-model.md against the real program, with times made short by configuration; the exact times and
the counts that would take long are in src/net/http/server_limits_test.c, with a clock that is turned by hand."""
import os
import resource
import socket
import time

import pytest

from conftest import KEY, Server, read_all

IDLE = 10_000
SHORT = """
[limits]
head_seconds = 1
body_idle_seconds = 1
reader_seconds = 1
[server]
timeout_keep_alive = 1
"""
GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("server"), SHORT, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


def test_slow_headers_get_408(impatient):
    with impatient.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\n")
        for _ in range(4):
            time.sleep(0.2)
            s.sendall(b"X: y\r\n")
        assert status_of(read_all(s)) == 408


def test_a_silent_connection_is_closed(impatient):
    with impatient.connect() as s:
        assert read_all(s) == b""


def test_a_body_that_stops_gets_408(impatient):
    with impatient.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nonly this")
        assert status_of(read_all(s)) == 408


def test_an_idle_connection_is_closed_without_a_word(impatient):
    with impatient.connect() as s:
        s.sendall(GET)
        answer = read_all(s)
        assert answer.count(b"HTTP/1.1 ") == 1 and status_of(answer) == 200


def test_a_client_that_never_reads_is_dropped(impatient):
    request = b"GET /docs HTTP/1.1\r\nHost: a\r\n\r\n"
    with impatient.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.setblocking(False)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                s.send(request * 100)
            except BlockingIOError:
                time.sleep(0.05)
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            pytest.fail("the server keeps a client that never reads")
    assert impatient.get("/health").status == 200


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"GET /health?" + b"a" * 33000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 33000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n" + b"a" * 65537, 413),
    ],
)
def test_what_is_too_large_is_refused(server, request_bytes, status):
    assert status_of(server.raw(request_bytes)) == status


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def test_ten_thousand_idle_connections(start_server):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 1000:
        pytest.skip(f"{hard} descriptors are not enough for {IDLE} connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = start_server()
    before = rss_kib(server.pid)
    connections = []
    try:
        for i in range(IDLE):
            s = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            s.sendall(GET)
            connections.append(s)
            if i % 100 == 99:
                for c in connections[-100:]:
                    assert c.recv(4096).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        assert server.get("/health").status == 200
        took = time.monotonic() - began
        per_connection = (rss_kib(server.pid) - before) * 1024 / IDLE
        print(f"with {IDLE} idle connections: /health in {took * 1000:.1f} ms, {per_connection:.0f} bytes each")
        # Every one of them still works.
        for c in connections[::997]:
            c.sendall(GET)
            assert c.recv(4096).startswith(b"HTTP/1.1 200 ")
    finally:
        for c in connections:
            c.close()
    deadline = time.monotonic() + 10
    while len(os.listdir(f"/proc/{server.pid}/fd")) > 100 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(os.listdir(f"/proc/{server.pid}/fd")) < 100


def test_connections_beyond_the_limit_get_503(start_server):
    server = start_server("[limits]\nconnections = 64\n")
    held = [server.connect() for _ in range(64)]
    try:
        deadline = time.monotonic() + 5
        while (answer := server.raw(GET)) and status_of(answer) == 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert status_of(answer) == 503
        assert b'"code":' in answer
    finally:
        for s in held:
            s.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if status_of(server.raw(GET.replace(b"Host: a", b"Host: a\r\nConnection: close"))) == 200:
            return
        time.sleep(0.05)
    pytest.fail("the places were not given back")


def test_running_out_of_descriptors_refuses_and_recovers(start_server):
    server = start_server("[limits]\nconnections = 1000\n")
    server.limit(nofile=40)
    held = []
    try:
        for _ in range(80):
            held.append(server.connect())
        time.sleep(0.3)
    finally:
        for s in held:
            s.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if server.get("/health").status == 200:
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the server does not accept again")
