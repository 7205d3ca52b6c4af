# SPDX-License-Identifier: Apache-2.0
"""Files of a real sandbox: an overlay for a root, a user namespace, the syscall filter and the control groups of a box."""
import contextlib
import http.client
import json
import pathlib
import time
import uuid

import pytest

from test_execd_files import delete, get, head_of, info, is_empty, is_error, pair, post, python_body, upload
from test_warden import EXECD, REMOVE, STATS, guest, pid1, warden  # noqa: F401 fixtures
from test_warden import pytestmark as warden_marks

TOKEN = "0123456789abcdef0123456789abcdef"
pytestmark = [*warden_marks, pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")]


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


class Box:
    def __init__(self, peer, **spec):
        self.peer, self.name = peer, str(uuid.uuid4())
        peer.create({"id": self.name, "token": TOKEN, **spec}, self.name)

    def request(self, method, path, body=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection("box", timeout=timeout)
        connection.sock = self.peer.dial(self.name)
        connection.sock.settimeout(timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"X-EXECD-ACCESS-TOKEN": TOKEN, **(headers or {})})
            return Answer(connection.getresponse())

    def command(self, line, **more):
        answer = self.request("POST", "/command", json.dumps({"command": line, **more}))
        assert answer.status == 200, answer.body
        events = [json.loads(e) for e in answer.body.decode()[:-2].split("\n\n")]
        return "\n".join(e["text"] for e in events if e["type"] == "stdout")


@pytest.fixture
def peer(warden):  # noqa: F811
    warden.execd = EXECD
    return warden.start().peer()


def test_files_belong_to_the_user_of_the_sandbox(peer):
    box = Box(peer, user="1000:1001", cwd="/workspace", env={"PATH": "/usr/bin:/bin"})
    assert is_empty(upload(box, pair("a/b/own.txt", b"1"), pair("/root/roots.txt", b"2", owner="root", group="root", mode=600)))
    assert is_empty(post(box, "/directories", {"a/dir": {}}))
    assert box.command("stat -c %u:%g:%a a/b/own.txt a/b a/dir") == "1000:1001:755\n1000:1001:755\n1000:1001:755"
    assert box.command("cat /root/roots.txt 2>&1 || true").endswith("Permission denied")
    assert get(box, "/files/download", path="/root/roots.txt").body == b"2"
    assert info(box, "/root/roots.txt")["owner"] == "root" and info(box, "a/b/own.txt")["mode"] == 755
    assert box.command("echo 3 > a/b/own.txt; cat a/b/own.txt") == "3"
    assert is_empty(post(box, "/files/replace", {"a/b/own.txt": {"old": "3", "new": "4"}}))
    assert box.command("stat -c %u a/b/own.txt; cat a/b/own.txt; ls -A a/b") == "1000\n4\nown.txt"


def test_directories_of_the_image_can_be_moved_and_removed(peer):
    """On an overlay a rename of these is one between file systems."""
    box = Box(peer)
    count = box.command("find /usr/share/terminfo /usr/lib/terminfo 2>/dev/null | wc -l; ls -d /usr/share/zoneinfo")
    source = "/usr/share/zoneinfo" if "zoneinfo" in count else "/usr/share/common-licenses"
    before = box.command(f"cd {source} && find . | sort | md5sum")
    assert is_empty(post(box, "/files/mv", [{"src": source, "dest": "/made/here"}]))
    assert box.command("cd /made/here && find . | sort | md5sum") == before
    assert is_error(get(box, "/files/info", path=source), 404, "FILE_NOT_FOUND", source)
    for path in ("/usr/share/doc", "/made", "/usr/include"):
        assert is_empty(delete(box, "/directories", path))
        assert is_error(get(box, "/files/info", path=path), 404, "FILE_NOT_FOUND")
    assert box.command("ls -A / | grep -c execd || true") == "0"


def test_what_only_root_may_do_stays_undone(peer):
    box = Box(peer)
    for path in ("/proc/sys/kernel/hostname", "/proc/1/root/x", "/proc/self/fd/0", "/sys/x"):
        assert upload(box, pair(path)).status in (400, 500)
    assert delete(box, "/directories", "/proc").status == 500
    for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/maps"):
        for answer in (get(box, "/files/download", path=path), get(box, "/files/download", path=path, offset=1)):
            assert answer.status == 500 or answer.body == b""
    assert box.request("GET", "/ping").status == 200


def test_l2_files_are_served_while_programs_are_at_their_limits(peer):
    box = Box(peer)
    box.command("sh -c 'for i in $(seq 400); do sleep 1000 & done' 2>/dev/null")
    assert peer.call(STATS, box.name).pids >= 250
    began = time.monotonic()
    assert is_empty(upload(box, pair("/tmp/f", b"1")))
    assert get(box, "/files/search", path="/tmp").json[0]["path"] == "/tmp/f"
    assert box.request("GET", "/ping").status == 200
    assert time.monotonic() - began < 5


def test_workers_live_in_the_leaf_of_the_user(peer, warden):  # noqa: F811
    box = Box(peer)
    body, kind = python_body([pair("/tmp/f", b"x" * 1000)])
    with peer.dial(box.name) as s:
        s.sendall(head_of(len(body), kind).encode() + body[:-10])
        init = pid1(warden, box.name)
        deadline = time.monotonic() + 10
        while not (workers := pathlib.Path(f"/proc/{init}/task/{init}/children").read_text().split()):
            assert time.monotonic() < deadline
        time.sleep(0.2)
        of_worker, of_init = (pathlib.Path(f"/proc/{pid}/cgroup").read_text() for pid in (workers[0], init))
        assert of_worker != of_init and "/user" in of_worker and "/user\n" not in of_init
        s.sendall(body[-10:])
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    peer.call(REMOVE, box.name)
