# SPDX-License-Identifier: Apache-2.0
"""G11b: whatever the root of a sandbox does to its own files, calls about the sandbox answer, in time and truthfully."""
import base64
import json
import os
import time

import pytest

from test_box_files import TOKEN, Box, peer, pytestmark  # noqa: F401 fixtures
from test_execd_files import get, info, is_empty, is_error, pair, post, upload
from test_warden import guest, warden  # noqa: F401 fixtures

SECONDS = 20  # nothing here takes more than one; what hangs takes for ever


def events_of(answer):
    assert answer.status == 200, answer.body
    return [json.loads(e) for e in answer.body.decode()[:-2].split("\n\n")]


def output_of(answer):
    events = events_of(answer)
    assert events[-1]["type"] == "execution_complete", events
    return "".join(e.get("text", "") for e in events if e["type"] == "stdout").strip()


def call_command(box):
    body = json.dumps({"command": "cat; echo $((6*7))", "timeout": 1000 * SECONDS})
    assert output_of(box.request("POST", "/command", body, timeout=2 * SECONDS)) == "42"


def call_background(box):
    answer = box.request("POST", "/command", json.dumps({"command": "cat; echo $((6*7))", "background": True}), timeout=SECONDS)
    command = events_of(answer)[0]["text"]
    deadline = time.monotonic() + SECONDS
    while (status := box.request("GET", f"/command/status/{command}").json)["running"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert status["exit_code"] == 0
    logs = box.request("GET", f"/command/{command}/logs")
    assert (logs.status, logs.body) == (200, b"42\n")


def call_session(box):
    made = box.request("POST", "/session", "{}", timeout=SECONDS)
    assert made.status == 200, made.body
    path = f"/session/{made.json['session_id']}"
    try:
        for line, want in (("x=$((6*7)); cat", ""), ("echo $x", "42")):
            body = json.dumps({"command": line, "timeout": 1000 * SECONDS})
            assert output_of(box.request("POST", f"{path}/run", body, timeout=2 * SECONDS)) == want
    finally:
        assert is_empty(box.request("DELETE", path))


def terminal_output(box, path, until):
    with box.peer.dial(box.name) as s:
        s.settimeout(SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        s.sendall(f"GET {path}/ws HTTP/1.1\r\nHost: box\r\nX-EXECD-ACCESS-TOKEN: {TOKEN}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        seen = b""
        while until not in seen:
            piece = s.recv(4096)
            assert piece, seen
            seen += piece
        return seen


def call_terminal(box):
    made = box.request("POST", "/pty", json.dumps({"command": "tty; echo $((6*7))x"}), timeout=SECONDS)
    assert made.status == 201, made.body
    path = f"/pty/{made.json['session_id']}"
    seen = terminal_output(box, path, b"42x")
    assert b"/dev/pts/" in seen or b"not a tty" in seen, seen
    assert is_empty(box.request("DELETE", path))


def call_code(box):
    body = json.dumps({"code": "print(6*7)", "context": {"language": "python"}})
    assert "42" in output_of(box.request("POST", "/code", body, timeout=3 * SECONDS))
    assert is_empty(box.request("DELETE", "/code/contexts?language=python", timeout=SECONDS))


def call_files(box):
    assert is_empty(upload(box, pair("/kept/here/a.txt", b"six"), timeout=SECONDS))
    assert get(box, "/files/download", path="/kept/here/a.txt").body == b"six"
    assert get(box, "/files/download", path="/kept/here/a.txt", offset=1).body == b"six"
    assert info(box, "/kept/here/a.txt")["size"] == 3
    assert [f["path"] for f in get(box, "/files/search", path="/kept", pattern="*.txt").json] == ["/kept/here/a.txt"]
    assert [f["path"] for f in get(box, "/directories/list", path="/kept").json] == ["/kept/here"]
    assert is_empty(post(box, "/files/mv", [{"src": "/kept/here/a.txt", "dest": "/kept/b.txt"}]))
    assert is_empty(box.request("DELETE", "/directories?path=/kept", timeout=SECONDS))


def call_metrics(box):
    answer = box.request("GET", "/metrics", timeout=SECONDS)
    assert answer.status == 200 and answer.json["mem_total_mib"] > 0


CALLS = (call_command, call_background, call_session, call_terminal, call_code, call_files, call_metrics)


def assert_works(box, *without):
    for call in CALLS:
        if call not in without:
            call(box)
    assert box.request("GET", "/ping").status == 200


@pytest.fixture
def box(peer):  # noqa: F811
    return Box(peer, cwd="/workspace", env={"PATH": "/usr/bin:/bin"})


def replacements(path):
    yield f"rm -rf {path}"
    yield f"rm -rf {path}; echo text > {path}"
    yield f"rm -rf {path}; mkfifo {path}"
    yield f"rm -rf {path}; mkdir {path}; touch {path}/x"
    yield f"rm -rf {path}; ln -s /nowhere/at/all {path}"
    yield f"rm -rf {path}; ln -s {path} {path}"


def test_g11_dev_null_may_be_anything(box):
    for line in replacements("/dev/null"):
        box.command(line)
        assert_works(box)


def test_g11_names_in_dev_may_be_anything(box):
    for path in ("/dev/fd", "/dev/ptmx", "/dev/urandom", "/dev/stdin"):
        box.command(f"rm -rf {path}; mkfifo {path}")
        assert_works(box)
    box.command("rm -rf /dev/* ; true")
    assert_works(box)


def test_g11_the_temporary_directory_may_be_anything(box):
    for line in replacements("/tmp"):
        box.command(line)
        assert_works(box)
    box.command("rm -rf /tmp; ln -s /proc/1/fd /tmp")
    assert_works(box)


def test_g11_the_working_directory_may_go(box):
    session = box.request("POST", "/session", "{}").json["session_id"]
    box.command("rm -rf /workspace")
    assert_works(box)
    assert box.command("pwd") == "/workspace"
    assert is_empty(upload(box, pair("here.txt", b"1"))) and box.command("cat /workspace/here.txt") == "1"
    box.command("cd /; rm -rf /workspace; echo text > /workspace")
    answer = box.request("POST", "/command", json.dumps({"command": "pwd"}))
    assert is_error(answer, 400, "INVALID_REQUEST_BODY", "$.cwd: '/workspace' is not a directory")
    assert box.command("pwd", cwd="/usr") == "/usr"
    assert output_of(box.request("POST", f"/session/{session}/run", json.dumps({"command": "echo $((6*7))"}))) == "42"
    call_files(box)
    assert is_empty(box.request("DELETE", "/files?path=/workspace"))
    assert_works(box)


@pytest.mark.parametrize("cwd", ["/etc/passwd", "/etc/passwd/x", "/proc/none", "/sys/none", "/loop", "/dangling", "/proc/self/fd/0"])
def test_g11_what_cannot_be_a_working_directory_is_400(box, cwd):
    box.command("ln -s /loop /loop; ln -s /nowhere/at/all /dangling")
    session = box.request("POST", "/session", "{}").json["session_id"]
    for path, body in (("/command", {"command": "pwd"}), ("/session", {}), ("/pty", {}), ("/code/context", {"language": "python"}),
                       (f"/session/{session}/run", {"command": "pwd"})):
        answer = box.request("POST", path, json.dumps({"cwd": cwd, **body}), timeout=SECONDS)
        assert is_error(answer, 400, "INVALID_REQUEST_BODY", "$.cwd"), path


def test_g11_directories_that_were_made_for_shells_are_made_again(box):
    context = box.request("POST", "/code/context", json.dumps({"language": "bash", "cwd": "/made/code"}), timeout=3 * SECONDS).json["id"]
    terminal = box.request("POST", "/pty", json.dumps({"cwd": "/made/pty", "command": "echo $((6*7))x; pwd"})).json["session_id"]
    box.command("rm -rf /made")
    for code in ("exit 3", "pwd"):  # the first ends the shell, the second starts another one
        body = json.dumps({"code": code, "context": {"id": context, "language": "bash"}})
        last = box.request("POST", "/code", body, timeout=3 * SECONDS)
    assert output_of(last) == "/made/code"
    assert b"/made/pty" in terminal_output(box, f"/pty/{terminal}", b"/made/pty")


def test_g11_users_may_be_anything(box):
    for path in ("/etc/passwd", "/etc/group"):
        for line in replacements(path):
            box.command(line)
            # bash itself reads the first and waits at a FIFO: that is the sandbox's own, and what ends it works
            assert_works(box, *((call_command, call_background, call_session, call_terminal) if "mkfifo" in line else ()))
            call_users(box)
            assert box.request("DELETE", f"/directories?path={path}").status == 200
    box.command("rm -rf /etc")
    assert_works(box)


def call_users(box):
    assert is_empty(upload(box, pair("/owned", b"1")))
    assert {"owner", "group"} <= set(info(box, "/owned"))
    for body in ({"uid": "nobody"}, {"uid": 1234}):
        answer = box.request("POST", "/command", json.dumps({"command": "true", "timeout": 300, **body}), timeout=SECONDS)
        assert answer.status in (200, 400), answer.body


def test_g11_users_may_be_many(box):
    """What is looked up is found in files that execd has no room for; what is too large is named."""
    def run_as(**ids):
        return box.request("POST", "/command", json.dumps({"command": "id -u; id -g; id -G", **ids}), timeout=SECONDS)

    long_line = "long:x:7000:" + "member," * 30000
    upload(box, pair("/make.py", f"""
with open("/etc/passwd", "a") as f:
    for i in range(60000): f.write(f"user{{i}}:x:{{1000 + i % 60000}}:{{1000 + i % 60000}}:one of many:/home/user{{i}}:/bin/sh\\n")
    f.write("last:x:64000:64001::/home/last:/bin/sh")
with open("/etc/group", "a") as f:
    f.write("{long_line}\\n")
    for i in range(60000): f.write(f"group{{i}}:x:{{1000 + i % 60000}}:user1,user2\\n")
    f.write("end:x:64002:user3,last\\nmore:x:64003:last")
""".encode()))
    box.command("python3 /make.py; touch /owned; chown 64000:64003 /owned")
    assert int(box.command("stat -c %s /etc/passwd")) > 3 << 20
    assert output_of(run_as(uid="last")) == "640006400164001 64002 64003"
    assert output_of(run_as(uid=64000)) == "640006400164001 64002 64003"
    assert output_of(run_as(uid="user9", gid="more")) == "10096400364003"
    assert is_error(run_as(uid="nobody-at-all"), 400, "INVALID_REQUEST_BODY", "$.uid")
    assert is_error(run_as(uid="last", gid="long"), 400, "INVALID_REQUEST_BODY", "$.gid")
    assert (info(box, "/owned")["owner"], info(box, "/owned")["group"]) == ("last", "more")
    assert is_empty(upload(box, pair("/for-last", b"1", owner="last", group="end")))
    assert box.command("stat -c %u:%g /for-last") == "64000:64002"
    for path in ("/etc/group", "/etc/passwd"):
        box.command(f"truncate -s 17M {path}")
        assert is_error(run_as(uid="last"), 400, "INVALID_REQUEST_BODY", path)
        assert output_of(run_as(uid=5, gid=6)).startswith("56")
    call_files(box)


def test_g11_a_shell_that_is_gone_is_told_and_can_be_brought_back(box):
    shells = {name: get(box, "/files/download", path=f"/usr/bin/{name}").body for name in ("sh", "bash")}
    box.command("rm -f /usr/bin/sh /usr/bin/bash; mkfifo /usr/bin/sh")
    for path, body in (("/command", {"command": "true"}), ("/command", {"command": "true", "background": True})):
        answer = events_of(box.request("POST", path, json.dumps(body), timeout=SECONDS))
        assert answer[-1]["type"] == "error" and "exec" in answer[-1]["error"]["evalue"]
    call_files(box)
    call_metrics(box)
    assert is_empty(box.request("DELETE", "/files?path=/usr/bin/sh"))
    assert is_empty(upload(box, *(pair(f"/usr/bin/{name}", content, mode=755) for name, content in shells.items())))
    assert_works(box)


def test_l2_what_is_kept_is_never_charged_to_execd(box, warden):  # noqa: F811
    """A temporary directory in memory would make the output of commands count as execd's own."""
    box.command("rm -rf /tmp; ln -s /dev/shm /tmp")
    for _ in range(3):
        body = json.dumps({"command": "head -c 40000000 /dev/zero | tr '\\0' '\\n'", "background": True})
        command = events_of(box.request("POST", "/command", body))[0]["text"]
        while box.request("GET", f"/command/status/{command}").json["running"]:
            time.sleep(0.1)
    assert_works(box)
