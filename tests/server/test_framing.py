# SPDX-License-Identifier: Apache-2.0
"""Requirement A4 over real sockets: what could be read in two ways is answered 400 and the connection closed."""
import socket
import time

import pytest

from conftest import ROOT, read_all

CORPUS = ROOT / "fuzz/corpus/http_request"
MALFORMED = sorted(p.name for p in CORPUS.iterdir() if not p.name.startswith("good_"))


def example(name):
    """The requests with bodies go to a route that needs no key and reads, and drops, what is sent to it."""
    return (CORPUS / name).read_bytes().replace(b"POST /echo", b"GET /health")


def split(data):
    """The statuses of all answers in DATA; every answer must be whole."""
    statuses = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        statuses.append(int(lines[0].split(b" ")[1]))
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(headers[b"content-length"])
        assert len(rest) >= length
        data = rest[length:]
    return statuses


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_framing_gets_one_answer_and_the_end(server, name):
    request = example(name)
    want = 505 if name == "an_http_2_preface" else 400
    answer = server.raw(request)
    assert split(answer) == [want]
    assert b"connection: close" in answer.lower()
    assert b'"code":' in answer and b'"message":' in answer
    assert b"x-request-id: " in answer.lower()


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_framing_in_small_pieces(server, name):
    request = example(name)
    with server.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for i in range(0, len(request), 7):
                s.sendall(request[i : i + 7])
                if i < 70:
                    time.sleep(0.001)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert len(split(read_all(s))) == 1


def test_pipelined_requests_are_answered_in_order(server):
    one = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    other = b"GET /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"
    last = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert split(server.raw(one + other + one * 50 + last)) == [200, 401] + [200] * 51


def test_a_body_is_never_a_request(server):
    inner = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    for framing in (
        b"Content-Length: %d\r\n\r\n%s" % (len(inner), inner),
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner),
    ):
        last = inner.replace(b"Host: a", b"Host: a\r\nConnection: close")
        answer = server.raw(b"GET /health HTTP/1.1\r\nHost: a\r\n" + framing + last)
        assert split(answer) == [200, 200]
