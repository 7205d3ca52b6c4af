# SPDX-License-Identifier: Apache-2.0
"""A sandbox that has used up its own disk: whatever needs room in it answers 507, and its clients say so in words."""
import contextlib
import json
import os

import pytest

from api import EXECD, TIMEOUT_S
from mcp_client import Stdio
from osb import Osb

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run sandboxes")
# Bytes first, then what takes room for names alone: directories, each of which may be an entry of its own.
FILL = """
import os
with open("/root/old", "w") as f: f.write("before" * 1000)
with open("/dev/shm/large", "wb") as f: f.write(bytes(3 << 20))
def until_full(what):
    n = 0
    try:
        while True:
            what(n); n += 1
    except OSError: pass
big = os.open("/root/big", os.O_CREAT | os.O_WRONLY)
until_full(lambda n: os.write(big, bytes(1 << 20)))
until_full(lambda n: (os.write(big, b"x" * 4096), os.fsync(big)))
os.mkdir("/root/many") if not os.path.isdir("/root/many") else None
until_full(lambda n: os.mkdir(f"/root/many/{n}"))
print("full")
"""
BOUNDARY = "b0undary"


def upload(path, content):
    metadata = json.dumps({"path": path})
    return (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n{metadata}\r\n'
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n')


@pytest.fixture(scope="module")
def full(api):
    made = api.create(resourceLimits={"disk": "8Mi"})["id"]
    assert api.run(made, f"mkdir /root/many; python3 -c '{FILL}'") == ["full"]
    yield made
    assert api.delete(made).status == 204


@pytest.fixture(scope="module")
def ask(api, full):
    """One request to execd: status, and what the body says."""
    endpoint = api.endpoint(full, EXECD)
    host, path = endpoint["endpoint"].split("/", 1)

    def send(method, route, body, content_type="application/json"):
        with contextlib.closing(api.server.http(host, timeout=TIMEOUT_S)) as c:
            c.request(method, f"/{path}{route}", body if isinstance(body, str) else json.dumps(body),
                      {**endpoint["headers"], "Content-Type": content_type})
            response = c.getresponse()
            return response.status, response.read().decode()

    return send


@pytest.mark.parametrize("route, body", [
    ("/files/upload", upload("/root/new", "x" * (1 << 20))),
    ("/files/upload", upload("/root/deep/er/new", "x")),
    ("/files/replace", {"/root/old": {"old": "e", "new": "x" * 2000}}),
    ("/files/mv", [{"src": "/dev/shm/large", "dest": "/root/large"}]),
    ("/files/mv", [{"src": "/root/old", "dest": "/root/not/there/old"}]),
    ("/directories", {"/root/many/more/and/more": {}}),
    ("/session", {"cwd": "/root/many/new/session"}),
    ("/session", {"cwd": "/root"}),
    ("/pty", {"cwd": "/root/many/new/terminal"}),
    ("/code/context", {"language": "python", "cwd": "/root/many/new/code"}),
], ids=["upload", "upload that makes folders", "replace", "mv from another disk", "mv that makes folders", "mkdir", "session", "session in a directory that is there", "terminal", "code"])
def test_what_needs_room_answers_507(ask, route, body):
    content_type = f"multipart/form-data; boundary={BOUNDARY}" if route == "/files/upload" else "application/json"
    status, text = ask("POST", route, body, content_type)
    assert status == 507, text
    answer = json.loads(text)
    assert answer["code"] == "INSUFFICIENT_STORAGE" and "the disk is full" in answer["message"]


def test_what_needs_none_goes_on(api, full, ask):
    assert api.run(full, "cat /root/old | head -c 6; echo") == ["before"]
    assert api.run(full, "ls /root | grep -v many") == ["big", "old"]
    assert api.run(full, "echo $PWD", cwd="/root/many") == ["/root/many"]
    status, text = ask("POST", "/command", {"command": "true", "cwd": "/root/many/absent"})  # a command's is not made
    assert status == 400, text
    for route, status in (("/pty", 201), ("/code/context", 200)):
        assert ask("POST", route, {"cwd": "/root", "language": "python"} if status == 200 else {"cwd": "/root"})[0] == status


def test_clients_say_so_in_words(server, full, tmp_path):
    osb = Osb(server, tmp_path)
    (tmp_path / "large").write_bytes(b"x" * (1 << 20))
    done = osb("file", "upload", full, tmp_path / "large", "/root/new")
    assert done.status == 1 and "the disk is full" in done.stderr and "--resource disk=SIZE" in done.stderr, done
    done = osb("cp", tmp_path / "large", f"{full}:/root/new")
    assert done.status == 1 and "the disk is full" in done.stderr, done
    mcp = Stdio(server, tmp_path)
    mcp.initialize()
    said = mcp.error("file_write", sandbox_id=full, connect_if_missing=True, path="/root/new", content="x" * (1 << 20))
    mcp.close()
    assert "the disk is full" in said, said
