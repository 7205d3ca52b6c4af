# SPDX-License-Identifier: Apache-2.0
"""The MCP server and a sandbox whose inside lies: what reaches the model is bounded, whatever the tool."""
import contextlib
import json
import pathlib
import re
import threading
import time
import types

import pytest

from api import wait_for
from liar import Liar, endless, reply
from mcp_client import TIMEOUT_S, Http, HttpServer, Stdio, call, events, request

INFO = {"id": "s1", "status": {"state": "Running"}, "entrypoint": ["a"], "createdAt": "2026-01-01T00:00:00Z"}
LONG = "x" * 6_000_000
FILE = {"path": LONG, "mode": 644, "owner": "a", "group": "a", "size": 1, "modified_at": "2026-01-01T00:00:00Z",
        "created_at": "2026-01-01T00:00:00Z"}
LIES = {
    "/in/command/status/": {"id": "c1", "running": False, "content": LONG},
    "/in/code/contexts": [{"id": LONG, "language": "python"}],
    "/in/directories/list": [FILE],
    "/in/policy": {"status": "ok", "policy": {"defaultAction": "deny", "egress": [{"action": "allow", "target": LONG}]}},
}


LOGS = b"first" + b"x" * 60_000_000 + b"last"
QUOTES = b'"' * 3_900_000  # in an answer each is six bytes


@pytest.fixture
def server():
    over = threading.Event()

    def hook(h, path):
        if path == "/in/command":
            over.wait()  # a command that neither begins nor ends
            return True
        if path.startswith("/in/command/endless/logs"):
            endless(h, "text/plain", piece=LOGS[:4_000_000])
            return True
        if path.startswith("/in/command/c1/logs"):
            reply(h, 200, LOGS, "text/plain", EXECD_COMMANDS_TAIL_CURSOR="77")
            return True
        found = [lie for begins, lie in LIES.items() if path.startswith(begins)]
        if "/endpoints/" in path:
            found = [{"endpoint": f"127.0.0.1:{liar.port}/in"}]
        elif path.startswith("/v1/sandboxes/"):
            found = [INFO]
        body = QUOTES if path.startswith("/in/files/download") else json.dumps(found[0]).encode() if found else b""
        reply(h, 200, body, "application/json")
        return True

    liar = Liar(hook=hook)
    yield types.SimpleNamespace(host="127.0.0.1", port=liar.port)
    over.set()
    liar.stop()


@pytest.fixture
def talk(server, tmp_path):
    c = Stdio(server, tmp_path)
    c.initialize()
    c.data("sandbox_connect", sandbox_id="s1")
    yield c
    c.close()


def test_a_sandbox_that_was_made_is_named_whatever_comes_after(tmp_path):
    def hook(h, path):
        if h.command == "POST" and path == "/v1/sandboxes":
            reply(h, 202, json.dumps(INFO).encode(), "application/json")
        elif "/endpoints/" in path:
            reply(h, 200, json.dumps({"endpoint": f"127.0.0.1:{liar.port}/in"}).encode(), "application/json")
        else:
            reply(h, 200 if path.startswith("/in/") else 400, b'{"code": "INVALID", "message": "not now"}', "application/json")
        return True

    liar = Liar(hook=hook)
    c = Stdio(types.SimpleNamespace(host="127.0.0.1", port=liar.port), tmp_path)
    c.initialize()
    error = c.error("sandbox_create", image="host")
    c.close()
    liar.stop()
    assert "'s1'" in error and "not now" in error


@pytest.mark.parametrize("tool, arguments", [
    ("command_status", {"execution_id": "c1"}), ("code_context_list", {}), ("file_list", {"path": "/"}), ("egress_get", {}),
])
def test_what_a_sandbox_answers_is_bounded(talk, tool, arguments):
    assert "the result is too large" in talk.error(tool, sandbox_id="s1", **arguments)
    assert talk.data("sandbox_healthcheck", sandbox_id="s1")["healthy"]


def test_an_answer_that_no_connection_takes_is_refused_by_name(server, tmp_path):
    http = HttpServer(server, tmp_path, "--max-file", "4000000")
    c = Http(http)
    c.initialize()
    c.data("sandbox_connect", sandbox_id="s1")
    assert "the result is too large" in c.error("file_read", sandbox_id="s1", path="/quotes")
    assert c.data("sandbox_healthcheck", sandbox_id="s1")["healthy"]
    c.close()
    http.stop()


def peak_kib(process):
    """The most memory that it has had."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])


def test_long_logs_take_no_memory(talk):
    before = peak_kib(talk.process)
    for i in range(4):
        talk.send(call("command_logs", {"sandbox_id": "s1", "execution_id": "c1"}, f"l{i}"))
    for i in range(4):
        logs = talk.wait(f"l{i}")["result"]["structuredContent"]
        assert logs["content"].startswith("first") and logs["content"].endswith("last") and len(logs["content"]) < 101_000
        assert f"[... {len(LOGS) - 100_000} bytes left out ...]" in logs["content"] and logs["cursor"] == 77 and "cut" in logs["note"]
    assert peak_kib(talk.process) - before < 32 * 1024


def test_logs_have_a_ceiling_all_the_same(talk):
    assert "cursor" in talk.error("command_logs", sandbox_id="s1", execution_id="endless")


HANGS = call("command_run", {"sandbox_id": "s1", "command": "true"}, "hangs")


def test_an_http_server_that_is_ending_takes_no_more_calls(server, tmp_path):
    http = HttpServer(server, tmp_path)
    c = Http(http)
    c.initialize()
    c.data("sandbox_connect", sandbox_id="s1")
    body = json.dumps(call("sandbox_get_info", {"sandbox_id": "s1"}, 9)).encode()
    half, runs = http.connect(), http.connect()
    half.request("POST", http.path, headers={**c.headers(), "Content-Length": str(len(body))})
    half.send(body[:5])
    runs.request("POST", http.path, json.dumps(HANGS), c.headers())
    running = runs.getresponse()
    http.process.terminate()
    assert b"data:" not in running.read()  # cancelled, and the server waits for it to end
    half.send(body[5:])
    answer = half.getresponse()
    assert answer.status == 503 and json.loads(answer.read())["error"] == {"code": -32000, "message": "the server is ending"}
    with pytest.raises(ConnectionRefusedError):
        http.request("POST", json.dumps(request("ping", None, 1)), c.headers())
    assert http.process.poll() is None
    half.close(), runs.close()
    http.stop()


def test_a_server_on_stdin_that_is_ending_takes_no_more_calls(server, tmp_path):
    refused = {"code": -32000, "message": "the server is ending"}
    for _ in range(5):
        c = Stdio(server, tmp_path)
        c.initialize()
        c.data("sandbox_connect", sandbox_id="s1")
        c.send(HANGS)
        c.settle()
        c.process.terminate()
        with contextlib.suppress(BrokenPipeError):  # it was gone before it could be asked
            wait_for(lambda: c.exchange(call("sandbox_get_info", {"sandbox_id": "s1"}, c.new_id())).get("error") == refused)
            break
        assert c.process.wait(TIMEOUT_S) == 0
    else:
        raise AssertionError("nobody could ask it")
    assert c.process.wait(TIMEOUT_S) == 0
    c.close()


def test_the_answers_to_a_batch_have_a_ceiling_together(server, tmp_path):
    http = HttpServer(server, tmp_path, "--max-file", "500000")
    c = Http(http)
    c.initialize("2025-03-26")  # the last version that has batches
    c.data("sandbox_connect", sandbox_id="s1")
    connection = http.connect()
    batch = [call("file_read", {"sandbox_id": "s1", "path": "/quotes"}, f"b{i}") for i in range(8)]  # 3 MB each
    connection.request("POST", http.path, json.dumps(batch), c.headers())
    time.sleep(1)  # all of them wait for a reader that is late
    body = connection.getresponse().read()
    connection.close()
    answers = {m["id"]: m for m in events(body)}
    assert sorted(answers) == [f"b{i}" for i in range(8)] and len(body) < 8 << 20
    refused = [m["error"] for m in answers.values() if "error" in m]
    assert len(refused) == 6 and {(e["code"], e["message"]) for e in refused} == {(-32603, "the answers to this batch are too large together")}
    assert c.data("sandbox_healthcheck", sandbox_id="s1")["healthy"]
    c.close()
    http.stop()
