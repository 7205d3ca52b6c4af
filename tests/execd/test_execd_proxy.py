# SPDX-License-Identifier: Apache-2.0
"""Services of a sandbox through execd's port proxy."""
import contextlib
import http.client
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import clean_environment, free_port
from test_execd import EXECD, HEADER, STARTED_HERE, TOKEN, Connection, Execd, nothing_stays, serve, start  # noqa: F401

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):  # noqa: F811
    yield from serve(tmp_path_factory.mktemp("execd"))


class Backend:
    """A service whose every byte is the test's: `play` gets each connection."""

    def __init__(self, play):
        self.play, self.heads, self.errors = play, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                s.settimeout(30)
                threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s:
            data = b""
            try:
                while b"\r\n\r\n" not in data:
                    piece = s.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, rest = data.split(b"\r\n\r\n", 1)
                self.heads.append(head.decode("latin-1"))
                self.play(s, head, rest)
            except OSError as e:
                self.errors.append(e)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def answer(text):
    return lambda s, head, rest: s.sendall(text)


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/x\r\n\r\nhello"


def raw(execd, text, timeout=20):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(str(execd.path))
    s.sendall(text)
    return s


def request(execd, line, headers="", body=b""):
    with raw(execd, f"{line} HTTP/1.1\r\nHost: my.host:99\r\n{HEADER}: {TOKEN}\r\nConnection: close\r\n{headers}\r\n".encode() + body) as s:
        data = b""
        while piece := s.recv(65536):
            data += piece
        return data


# ---- what is passed ----


@pytest.mark.parametrize("rest, want", [
    ("", "/"), ("/", "/"), ("/a/b", "/a/b"), ("/a%2Fb//../c;x?q=%20&&=", "/a%2Fb//../c;x?q=%20&&="), ("?x=1", "/?x=1"), ("/?", "/?"),
    ("/%zz/%00/\\", "/%zz/%00/\\"), ("/proxy/80/", "/proxy/80/"), ("//x", "//x"), ("/" + "y" * 8000, "/" + "y" * 8000),
])
def test_path_and_query_byte_for_byte(execd, rest, want):
    with Backend(answer(HELLO)) as b:
        assert request(execd, f"GET /proxy/{b.port}{rest}").endswith(b"\r\n\r\nhello")
        assert b.heads[0].split("\r\n")[0] == f"GET {want} HTTP/1.1"


def test_headers_are_rebuilt_and_the_token_stays_here(execd):
    with Backend(answer(HELLO)) as b:
        request(execd, f"GET /proxy/{b.port}/", f"{HEADER.lower()}: other\r\nOPEN-SANDBOX-API-KEY: key\r\nX-A: 1\r\nX-A: 2\r\n"
                "Cookie: c=d\r\nAuthorization: Bearer mine\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Forwarded-For: 9.8.7.6, 1.1.1.1\r\n"
                "X-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\n")
        lines = b.heads[0].split("\r\n")[1:]
        assert "Host: my.host:99" in lines and lines.count("X-A: 1") == lines.count("X-A: 2") == 1
        assert "Cookie: c=d" in lines and "Authorization: Bearer mine" in lines
        assert "X-Forwarded-For: 9.8.7.6" in lines and "X-Forwarded-Proto: http" in lines  # a unix socket has no address
        names = [line.split(":")[0].lower() for line in lines]
        assert TOKEN not in b.heads[0] and "key" not in b.heads[0].lower().replace("keep-alive", "")
        for gone in (HEADER.lower(), "keep-alive", "te", "x-forwarded-host"):
            assert gone not in names
        assert names.count("connection") == 1


def test_the_answers_headers(execd):
    with Backend(answer(b"HTTP/1.1 203 Fine\r\nConnection: X-Gone\r\nX-Gone: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nDate: never\r\n"
                        b"X-Request-ID: theirs\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nhi")) as b:
        got = request(execd, f"GET /proxy/{b.port}/", "X-Request-ID: mine\r\n").decode()
        assert got.startswith("HTTP/1.1 203 ") and got.endswith("\r\n\r\nhi")
        assert "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n" in got and 'ETag: "x"' in got
        assert "never" not in got and "X-Gone" not in got and "theirs" not in got and "X-Request-ID: mine" in got
        assert "theirs" in request(execd, f"GET /proxy/{b.port}/").decode()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.smoke
def test_every_method(execd, method):
    with Backend(answer(HELLO)) as b:
        assert request(execd, f"{method} /proxy/{b.port}/x").endswith(b"hello")
        assert b.heads[0].startswith(f"{method} /x HTTP/1.1\r\n")


def test_head_has_the_length_and_nothing_else(execd):
    with Backend(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")) as b:
        got = request(execd, f"HEAD /proxy/{b.port}/x")
        assert b.heads[0].startswith("HEAD /x ") and b"Content-Length: 1234\r\n" in got and got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_answers_without_a_body(execd, status):
    with Backend(answer(b"HTTP/1.1 " + status + b"\r\nX-A: 1\r\n\r\n")) as b:
        got = request(execd, f"GET /proxy/{b.port}/x")
        assert got.startswith(b"HTTP/1.1 " + status[:3]) and b"X-A: 1" in got and got.endswith(b"\r\n\r\n")


def test_informational_answers_and_bodies_until_the_end(execd):
    with Backend(answer(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end")) as b:
        assert b"until the end" in request(execd, f"GET /proxy/{b.port}/")


def test_the_connection_is_kept_for_the_next_request(execd):
    with Backend(answer(HELLO)) as b:
        c = Connection(execd.path, 20)
        for _ in range(3):
            c.request("GET", f"/proxy/{b.port}/", headers=execd.headers())
            assert c.getresponse().read() == b"hello"
        c.close()


def test_a_peer_with_an_address_is_named(tmp_path):
    port = free_port()
    stderr = tmp_path / "stderr"
    with open(stderr, "wb") as f:
        process = subprocess.Popen([EXECD, "--port", str(port)], env=clean_environment(tmp_path), cwd=tmp_path, stderr=f)
    STARTED_HERE.append(process)

    def get(path):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read()

    deadline = time.monotonic() + 20
    while True:
        try:
            get("/ping")
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    with Backend(answer(HELLO)) as b:
        assert get(f"/proxy/{b.port}/") == (200, b"hello")
        assert "X-Forwarded-For: 127.0.0.1, 127.0.0.1\r\n" in b.heads[0] and f"Host: 127.0.0.1:{port}" in b.heads[0]
    status, body = get(f"/proxy/{port}/ping")  # a loop
    assert status == 400 and b"itself" in body
    Execd(None, process, stderr).stop()


# ---- bodies ----


def echo_chunks(s, head, rest):
    """Answers at once, and sends back every chunk as it comes."""
    s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    data = rest
    while True:
        while m := re.match(rb"([0-9a-f]+)\r\n", data):
            n = int(m.group(1), 16)
            while len(data) < m.end() + n + 2:
                data += s.recv(65536)
            s.sendall(data[:m.end() + n + 2])
            data = data[m.end() + n + 2:]
            if n == 0:
                return
        data += s.recv(65536)


def test_bodies_flow_both_ways_at_the_same_time(execd):
    with Backend(echo_chunks) as b, raw(execd, f"POST /proxy/{b.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n"
                                        "Transfer-Encoding: chunked\r\n\r\n".encode()) as s:
        got = b""
        for word in (b"one", b"twotwo", b"three" * 1000):
            s.sendall(b"%x\r\n%s\r\n" % (len(word), word))
            while word not in got:
                got += s.recv(65536)
        s.sendall(b"0\r\n\r\n")
        while not got.endswith(b"0\r\n\r\n"):
            got += s.recv(65536)


def test_expect_continue_and_a_length(execd):
    def play(s, head, rest):
        while len(rest) < 300000:
            rest += s.recv(65536)
        assert rest == b"z" * 300000
        s.sendall(HELLO)

    with Backend(play) as b:
        got = request(execd, f"PUT /proxy/{b.port}/", "Content-Length: 300000\r\nExpect: 100-continue\r\n", b"z" * 300000)
        assert got.endswith(b"hello") and "Expect" not in b.heads[0] and "Content-Length: 300000" in b.heads[0]
        assert not b.errors


def rss(execd):
    with open(f"/proc/{execd.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def flood(s):
    """Sends until nobody takes any more."""
    piece, sent = b"x" * 65536, 0
    s.setblocking(False)
    while select.select([], [s], [], 1)[1] and sent < 64 << 20:
        with contextlib.suppress(BlockingIOError):
            sent += s.send(piece)
    s.settimeout(30)
    return sent


def test_whoever_is_slow_slows_the_other_and_memory_stays_small(execd):
    go, flooded = threading.Event(), []

    def slow_reader(s, head, rest):
        go.wait(30)
        n = len(rest)
        while n < 20 << 20:
            piece = s.recv(1 << 20)
            if not piece:
                return
            n += len(piece)
        s.sendall(HELLO)

    def eager(s, head, rest):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 << 20))
        flooded.append(flood(s))
        s.sendall(b"x" * ((64 << 20) - flooded[0]))

    before = rss(execd)
    with Backend(slow_reader) as b, raw(execd, f"POST /proxy/{b.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n"
                                        f"Content-Length: {20 << 20}\r\n\r\n".encode()) as s:
        sent = flood(s)
        assert sent < 16 << 20  # sockets hold some
        assert rss(execd) - before < 4 << 20
        go.set()
        s.sendall(b"x" * ((20 << 20) - sent))
        assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
    with Backend(eager) as b, raw(execd, f"GET /proxy/{b.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n\r\n".encode()) as s:
        time.sleep(2.5)
        assert flooded and flooded[0] < 16 << 20 and rss(execd) - before < 4 << 20
        got = b""
        while b"\r\n\r\n" not in got:
            got += s.recv(65536)
        n = len(got.split(b"\r\n\r\n", 1)[1])
        while n < 64 << 20:
            n += len(s.recv(1 << 20))
        assert n == 64 << 20


def test_event_streams_are_passed_on_at_once(execd):
    arrived = threading.Semaphore(0)

    def play(s, head, rest):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(5):
            event = b"data: %d\n\n" % i
            s.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            assert arrived.acquire(timeout=20)  # before anything else is sent
        s.sendall(b"0\r\n\r\n")

    with Backend(play) as b:
        c = Connection(execd.path, 20)
        c.request("GET", f"/proxy/{b.port}/events", headers=execd.headers())
        r = c.getresponse()
        assert r.headers["Content-Type"] == "text/event-stream"
        for i in range(5):
            assert r.readline() == b"data: %d\n" % i and r.readline() == b"\n"
            arrived.release()
        assert r.read() == b""
        c.close()


def test_a_client_that_leaves_ends_the_call(execd):
    gone = threading.Event()

    def play(s, head, rest):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        if s.recv(1) == b"":
            gone.set()

    with Backend(play) as b:
        with raw(execd, f"GET /proxy/{b.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n\r\n".encode()) as s:
            s.recv(10)
        assert gone.wait(5)


# ---- WebSockets ----


def websocket(s, head, rest):
    """Agrees, then sends everything back."""
    s.sendall(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
              b"Sec-WebSocket-Protocol: chat\r\n\r\nearly")
    while piece := s.recv(65536):
        s.sendall(piece)


def handshake(port, more=""):
    lines = "".join(f"{k}: {v}\r\n" for k, v in HANDSHAKE.items())
    return f"GET /proxy/{port}/ws?a=b HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n{lines}{more}\r\n".encode()


def test_websockets_are_relayed_as_bytes(execd):
    with Backend(websocket) as b, raw(execd, handshake(b.port, "Sec-WebSocket-Protocol: chat\r\n") + b"sent early") as s:
        got = b""
        while not got.endswith(b"earlysent early"):
            got += s.recv(65536)
        head = got.split(b"\r\n\r\n")[0].decode()
        assert head.startswith("HTTP/1.1 101 ") and "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        assert "Sec-WebSocket-Protocol: chat" in head and "Upgrade: websocket" in head
        assert "GET /ws?a=b HTTP/1.1" in b.heads[0] and f"Sec-WebSocket-Key: {KEY}" in b.heads[0] and TOKEN not in b.heads[0]
        data = os.urandom(3 << 20)
        threading.Thread(target=s.sendall, args=(data,), daemon=True).start()
        back = b""
        while len(back) < len(data):
            back += s.recv(1 << 20)
        assert back == data
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""


def test_a_websocket_that_is_refused_is_an_answer(execd):
    with Backend(answer(b"HTTP/1.1 403 No\r\nContent-Length: 4\r\nX-Why: so\r\n\r\nnope")) as b, raw(execd, handshake(b.port)) as s:
        got = b""
        while not got.endswith(b"nope"):
            got += s.recv(65536)
        assert got.startswith(b"HTTP/1.1 403 ") and b"X-Why: so" in got
    with raw(execd, handshake(1)) as s:
        assert s.recv(65536).startswith(b"HTTP/1.1 502 ")
    with Backend(answer(b"HTTP/1.1 101 Hm\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n")) as b, raw(execd, handshake(b.port)) as s:
        assert s.recv(65536).startswith(b"HTTP/1.1 502 ")
    with Backend(answer(b"HTTP/1.1 101 Hm\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")) as b:  # nobody asked
        assert request(execd, f"GET /proxy/{b.port}/").startswith(b"HTTP/1.1 502 ")


# ---- refusals ----


@pytest.mark.parametrize("path, words", [
    ("/proxy", "port is required"), ("/proxy/", "port is required"), ("/proxy/?x", "port is required"), ("/proxy/0/", "1 to 65535"),
    ("/proxy/65536/", "1 to 65535"), ("/proxy/-1/", "1 to 65535"), ("/proxy/80x/", "1 to 65535"), ("/proxy/%2e%2e/x", "port is required"),
    ("/proxy/127.0.0.1:80/", "1 to 65535"), ("/proxy/44772/ping", "itself"), ("/proxy/http:/x", "1 to 65535"),
])
def test_ports_that_are_none(execd, path, words):
    got = execd.request("GET", path)
    assert got.status == 400 and words in got.json["message"] and got.json["code"] == "INVALID_REQUEST_BODY"


def test_the_token_is_asked_for(execd):
    with Backend(answer(HELLO)) as b:
        assert execd.request("GET", f"/proxy/{b.port}/", headers={HEADER: "wrong"}).status == 401
        assert b.heads == []


@pytest.mark.parametrize("play", [
    None, answer(b"HTTP/1.1 banana\r\n\r\n"), answer(b""), answer(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 13000 + b"\r\nContent-Length: 0\r\n\r\n"),
    answer(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 90000), answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
    answer(b"HTTP/1.1 100 C\r\n\r\n" * 30),
])
def test_a_backend_that_fails_is_a_bad_gateway(execd, play):
    with Backend(play) as b:
        got = execd.request("GET", f"/proxy/{b.port if play else free_port()}/")
        assert got.status == 502 and got.json["code"] == "BAD_GATEWAY" and got.json["message"].startswith("Bad Gateway")
        assert got.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("text", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalfzz\r\n",
])
def test_half_an_answer_does_not_look_whole(execd, text):
    with Backend(answer(text)) as b:
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            execd.request("GET", f"/proxy/{b.port}/")


def test_too_many_at_once_are_refused_and_commands_still_run(execd):
    release = threading.Event()

    def play(s, head, rest):
        release.wait(60)
        s.sendall(HELLO)

    with Backend(play) as b, contextlib.ExitStack() as stack:
        line = f"GET /proxy/{b.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\nConnection: close\r\n\r\n".encode()
        waiting = [stack.enter_context(raw(execd, line)) for _ in range(100)]
        deadline = time.monotonic() + 10
        while len(b.heads) < 60 and time.monotonic() < deadline:
            time.sleep(0.02)
        refused = [s for s in waiting if select.select([s], [], [], 0.02)[0]]
        for s in refused:
            assert s.recv(65536).startswith(b"HTTP/1.1 429 ")
        assert 60 <= 100 - len(refused) < 80
        assert execd.command("echo fine")[1]["text"] == "fine"
        release.set()
        for s in waiting:
            if s not in refused:
                assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
    with Backend(answer(HELLO)) as b:
        assert execd.request("GET", f"/proxy/{b.port}/").body == b"hello"


# ---- the end ----


def test_stopping_ends_tunnels_and_requests(tmp_path):
    def forever(s, head, rest):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        s.recv(1)

    d = start(tmp_path).wait_ready()
    with Backend(websocket) as b, Backend(forever) as f:
        with raw(d, handshake(b.port)) as tunnel, raw(d, f"GET /proxy/{f.port}/ HTTP/1.1\r\nHost: x\r\n{HEADER}: {TOKEN}\r\n\r\n".encode()) as stream:
            got = b""
            while not got.endswith(b"early"):
                got += tunnel.recv(65536)
            stream.recv(65536)
            began = time.monotonic()
            d.process.send_signal(signal.SIGTERM)
            assert tunnel.recv(1) == b"" and time.monotonic() - began < 2
            with contextlib.suppress(ConnectionResetError):
                while stream.recv(65536):
                    pass
            d.stop()
            assert time.monotonic() - began < 8
