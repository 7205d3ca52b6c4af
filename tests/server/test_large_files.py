# SPDX-License-Identifier: Apache-2.0
"""Long bodies through the whole house: client, server, execd, file. They are passed from socket to socket without copies, which
nobody is to notice but by the time it takes."""
import contextlib
import hashlib
import http.client
import json
import os
import socket
import time

import pytest

from api import EXECD, wait_for

KIB, MIB = 1 << 10, 1 << 20
# Around what is passed at all, what a pipe holds, and what goes at once.
SIZES = [0, 1, 64 * KIB - 1, 64 * KIB, 128 * KIB, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 3 * MIB, 5 * MIB + 3]
BOUNDARY = "a-boundary"
BIG = 64 * MIB


class Files:
    """The files of a sandbox, on one connection that is kept."""

    def __init__(self, api, sandbox_id):
        endpoint = api.endpoint(sandbox_id, EXECD)
        self.host, self.path = endpoint["endpoint"].split("/", 1)
        self.headers = endpoint["headers"]
        self.connection = http.client.HTTPConnection(self.host, timeout=60)

    def ask(self, method, path, body=None, headers=()):
        self.connection.request(method, f"/{self.path}{path}", body, {**self.headers, **dict(headers)})
        response = self.connection.getresponse()
        return response, response.read()

    def head(self, method, path, *lines):
        lines = [f"{method} /{self.path}{path} HTTP/1.1", "Host: h", *(f"{k}: {v}" for k, v in self.headers.items()), *lines]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def raw(self):
        host, port = self.host.split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def upload(self, path, content):
        return self.ask("POST", "/files/upload", form(path, content), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})

    def run(self, command):
        return self.ask("POST", "/command", json.dumps({"command": command}), {"Content-Type": "application/json"})[0].status

    def download(self, path, **headers):
        return self.ask("GET", f"/files/download?path={path}", headers=headers)


def form(path, content):
    return (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n{json.dumps({"path": path})}\r\n'
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n').encode() + content + \
        f"\r\n--{BOUNDARY}--\r\n".encode()


def form_head(files, length):
    return files.head("POST", "/files/upload", f"Content-Type: multipart/form-data; boundary={BOUNDARY}", f"Content-Length: {length}")


def content_of(size):
    """Random, with beginnings of the delimiter all over it."""
    block = bytearray(os.urandom(min(size, MIB)))
    for at in range(0, max(0, len(block) - 20), 4093):
        block[at:at + 10] = f"\r\n--{BOUNDARY}".encode()[:10]
    return (bytes(block) * (size // MIB + 1))[:size]


def read_answer(s, got=b""):
    """Status, body and what came behind it."""
    while b"\r\n\r\n" not in got:
        piece = s.recv(65536)
        assert piece, got
        got += piece
    head, _, rest = got.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(rest) < length:
        piece = s.recv(1 << 20)
        assert piece, len(rest)
        rest += piece
    return int(head.split()[1]), rest[:length], rest[length:]


@pytest.fixture(scope="module")
def files(api):
    sandbox_id = api.create(resourceLimits={"cpu": "2", "memory": "512Mi"})["id"]
    yield Files(api, sandbox_id)
    assert api.delete(sandbox_id).status == 204


@pytest.fixture(scope="module")
def big(files):
    """A file of BIG bytes in the sandbox."""
    response, body = files.upload("/tmp/big", content_of(BIG))
    assert response.status == 200, body
    return "/tmp/big"


@pytest.mark.smoke
def test_what_goes_up_comes_down(files):
    for size in SIZES:
        content = content_of(size)
        response, body = files.upload("/tmp/f", content)
        assert response.status == 200, (size, body)
        response, body = files.download("/tmp/f")
        assert response.status == 200 and response.headers["Content-Length"] == str(size)
        assert hashlib.sha256(body).digest() == hashlib.sha256(content).digest(), size


def test_ranges_of_a_long_file(files):
    content = content_of(5 * MIB + 3)
    assert files.upload("/tmp/f", content)[0].status == 200
    end = len(content) - 1
    for first, last in [(0, 0), (0, 64 * KIB - 1), (1, 256 * KIB), (4095, 3 * MIB), (MIB, end), (end, end)]:
        response, body = files.download("/tmp/f", Range=f"bytes={first}-{last}")
        assert response.status == 206 and response.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
        assert body == content[first:last + 1]


def test_requests_behind_a_long_body_are_answered_in_turn(files):
    content = content_of(2 * MIB + 1)
    body = form("/tmp/f", content)
    with contextlib.closing(files.raw()) as s:
        s.sendall(form_head(files, len(body)) + body + files.head("GET", "/files/download?path=/tmp/f") * 2 +
                  files.head("GET", "/ping"))
        status, _, rest = read_answer(s)
        assert status == 200
        for _ in range(2):
            status, got, rest = read_answer(s, rest)
            assert status == 200 and got == content
        assert read_answer(s, rest)[0] == 200


def test_a_chunked_upload_is_the_same(files):
    content = content_of(MIB + 5)
    body = form("/tmp/f", content)
    response, got = files.ask("POST", "/files/upload", iter([body[:100], body[100:300000], body[300000:]]),
                              {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
    assert response.status == 200, got
    assert files.download("/tmp/f")[1] == content


def test_a_refused_upload_is_answered_while_the_body_comes(files):
    """What is wrong stands at its beginning; the rest is of no use to anybody."""
    body = form("/tmp", content_of(8 * MIB))
    with contextlib.closing(files.raw()) as s:
        s.sendall(form_head(files, len(body)))
        with contextlib.suppress(ConnectionError):
            s.sendall(body)
        status, got, _ = read_answer(s)
        assert status == 400 and b"is a directory" in got
    assert files.ask("GET", "/ping")[0].status == 200


def fds(api):
    return len(os.listdir(f"/proc/{api.server.pid}/fd"))


def test_peers_that_go_midway_leave_no_descriptors(api, files, big):
    before = fds(api)
    for _ in range(8):
        with contextlib.closing(files.raw()) as s:
            s.sendall(files.head("GET", f"/files/download?path={big}"))
            assert s.recv(65536)
        body = form("/tmp/gone", content_of(8 * MIB))
        with contextlib.closing(files.raw()) as s:
            s.sendall(form_head(files, len(body)) + body[:5 * MIB])
    wait_for(lambda: fds(api) <= before + 1, what="the descriptors")  # one connection to execd may have been made anew
    assert files.ask("GET", "/files/info?path=/tmp/gone")[0].status == 404


def test_a_reader_that_waits_gets_all_of_it(files, big):
    with contextlib.closing(files.raw()) as s:
        s.sendall(files.head("GET", f"/files/download?path={big}"))
        time.sleep(1)
        assert files.ask("GET", "/ping")[0].status == 200  # nobody else waits
        status, got, _ = read_answer(s)
    assert status == 200 and len(got) == BIG


def test_a_file_that_is_cut_while_it_is_sent_cuts_the_answer(files, big):
    assert files.run(f"cp {big} /tmp/cut") == 200
    with contextlib.closing(files.raw()) as s:
        s.sendall(files.head("GET", "/files/download?path=/tmp/cut"))
        assert s.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert files.run("truncate -s 1M /tmp/cut") == 200
        got = 0
        with contextlib.suppress(ConnectionError):
            while piece := s.recv(1 << 20):
                got += len(piece)
    assert got < BIG


def test_a_sandbox_that_goes_cuts_the_answer(api, box):
    sandbox = box(resourceLimits={"cpu": "2", "memory": "512Mi"})
    files = Files(api, sandbox["id"])
    assert files.upload("/tmp/big", content_of(BIG))[0].status == 200
    with contextlib.closing(files.raw()) as s:
        s.sendall(files.head("GET", "/files/download?path=/tmp/big"))
        assert s.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert api.delete(sandbox["id"]).status == 204
        got = 0
        with contextlib.suppress(ConnectionError):
            while piece := s.recv(1 << 20):
                got += len(piece)
    assert got < BIG
