# SPDX-License-Identifier: Apache-2.0
"""osb mcp: what a model's host may ask, over stdin and over HTTP, and what it gets."""
import base64
import json
import pathlib
import signal
import subprocess
import threading
import time

import jsonschema
import pytest

from api import wait_for
from conftest import ROOT, Running, assert_clean
from mcp_client import ACCEPT, OSB, TIMEOUT_S, VERSION, Http, HttpServer, Stdio, call, environment, request

INITIALIZE = json.dumps(request("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}, 1))
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.fixture(scope="module")
def http_server(server, tmp_path_factory):
    s = HttpServer(server, tmp_path_factory.mktemp("mcp"))
    yield s
    s.stop()


@pytest.fixture(params=["stdio", "http"])
def mcp(request, server, tmp_path, http_server):
    """A session, on each of the two transports."""
    c = Stdio(server, tmp_path) if request.param == "stdio" else Http(http_server)
    c.initialize()
    yield c
    c.close()


@pytest.fixture
def line(server, tmp_path):
    """A session over stdin and stdout that is not initialized."""
    c = Stdio(server, tmp_path)
    yield c
    c.close()


@pytest.fixture
def talk(line):
    line.initialize()
    return line


@pytest.fixture(scope="module")
def schemas(server, tmp_path_factory):
    c = Stdio(server, tmp_path_factory.mktemp("list"))
    c.initialize()
    tools = {t["name"]: t for t in c.ask("tools/list")["tools"]}
    c.close()
    return tools


@pytest.fixture(scope="module")
def sandbox(api):
    made = api.create(resourceLimits={"cpu": "2", "memory": "1Gi"})
    yield made["id"]
    assert api.delete(made["id"]).status == 204


def running(mcp, sandbox, mark):
    """Whether a command with MARK in its line runs."""
    found = mcp.data("command_run", sandbox_id=sandbox, connect_if_missing=True, command=f"pgrep -f '[{mark[0]}]{mark[1:]}' | wc -l")
    return found["logs"]["stdout"][0]["text"] != "0"


# ---- the session


@pytest.mark.parametrize("asked, given", [*((v, v) for v in VERSIONS), ("1999-01-01", VERSIONS[-1]), ("2099-01-01", VERSIONS[-1])])
@pytest.mark.smoke
def test_versions_are_negotiated(line, asked, given):
    answer = line.initialize(asked)
    assert answer["protocolVersion"] == given
    assert answer["serverInfo"]["name"] == "OpenSandbox Sandbox"
    assert answer["capabilities"]["tools"] == {"listChanged": False}
    assert "sandbox_create" in answer["instructions"]


def test_nothing_is_done_before_initialize(line):
    assert line.exchange(request("tools/list", None, 1))["error"]["code"] == -32600
    assert line.exchange(call("sandbox_list", {}, 2))["error"]["code"] == -32600
    assert line.ask("ping") == {}
    line.initialize()
    assert line.exchange(request("initialize", {"protocolVersion": VERSION}, 9))["error"]["code"] == -32602


def test_what_is_empty_is_told_so(mcp):
    assert mcp.ask("resources/list") == {"resources": []}
    assert mcp.ask("resources/templates/list") == {"resourceTemplates": []}
    assert mcp.ask("prompts/list") == {"prompts": []}
    assert mcp.ask("ping") == {}
    assert mcp.ask("nothing/like/this")["error"]["code"] == -32601


@pytest.mark.parametrize("raw, code, id", [
    (b"{", -32700, None), (b"[" * 100 + b"]" * 100, -32700, None), (b'"x"', -32600, None), (b"[]", -32600, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None), (b'{"jsonrpc":"2.0","id":5,"method":3}', -32600, 5),
    (b'{"jsonrpc":"2.0","id":"s","method":"tools/list","params":{"cursor":"x"}}', -32602, "s"),
    (b'{"id":6,"method":"ping"}', -32600, 6), (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', -32600, 7),
])
def test_what_is_no_message_is_refused_and_the_next_one_served(talk, raw, code, id):
    talk.raw(raw + b"\n")
    assert talk.wait(id)["error"]["code"] == code
    assert talk.ask("ping") == {}


def test_messages_may_come_in_any_pieces(talk):
    text = json.dumps(request("ping", None, 77)).encode() + b"\r\n\n" + json.dumps(request("ping", None, "ä")).encode() + b"\n"
    for i in range(len(text)):
        talk.raw(text[i : i + 1])
    assert talk.wait(77)["result"] == {} and talk.wait("ä")["result"] == {}


def test_a_message_has_a_ceiling(server, tmp_path):
    c = Stdio(server, tmp_path, "--max-message", "10000")
    c.initialize()
    c.raw(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 100000 + b'"}\n')
    assert c.wait(None)["error"]["code"] == -32700
    assert c.ask("ping") == {}
    c.close()


def test_batches_belong_to_one_version(line):
    line.initialize("2025-03-26")
    line.send([request("ping", None, 21), request("notifications/x"), request("ping", None, 22), 7])
    assert line.wait(21)["result"] == {} and line.wait(22)["result"] == {} and line.wait(None)["error"]["code"] == -32600
    line.send([request("ping", None, i) for i in range(100)])
    assert line.wait(None)["error"]["code"] == -32600


def test_batches_are_refused_later(talk):
    talk.send([request("ping", None, 21)])
    assert talk.wait(None)["error"]["code"] == -32600


def test_log_messages_come_from_the_level_on_that_was_asked_for(mcp):
    mcp.error("sandbox_get_info", sandbox_id="nope")
    assert [n for n in mcp.notes if n["method"] == "notifications/message"] == []
    assert mcp.ask("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602
    assert mcp.ask("logging/setLevel", {"level": "info"}) == {}
    mcp.error("sandbox_get_info", sandbox_id="nope")
    mcp.data("sandbox_list")
    notes = [n["params"] for n in mcp.notes if n["method"] == "notifications/message"]
    assert [(n["level"], n["data"]["tool"]) for n in notes] == [("warning", "sandbox_get_info")]


# ---- tools


def test_every_schema_is_one(schemas):
    assert len(schemas) == 42
    for tool in schemas.values():
        for kind in ("inputSchema", "outputSchema"):
            jsonschema.Draft202012Validator.check_schema(tool[kind])
            assert tool[kind]["type"] == "object"
        assert len(tool["description"]) > 20 and tool["title"]
        for name, field in tool["inputSchema"]["properties"].items():
            assert field["description"].endswith("."), (tool["name"], name)


class Replay:
    """A recorded session: what was asked, and what must come of it."""

    def __init__(self, mcp, schemas):
        self.mcp, self.schemas, self.saved = mcp, schemas, {}

    def fill(self, value):
        if isinstance(value, dict):
            return {k: self.fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        if isinstance(value, str) and value.startswith("$"):
            return self.saved[value[1:]]
        return value

    @staticmethod
    def look(data, path):
        for step in path.split("."):
            data = data[int(step)] if isinstance(data, list) else data[step]
        return data

    def play(self, step):
        result = self.mcp.call(step["tool"], **self.fill(step["arguments"]))
        text = result["content"][0]["text"]
        if "error" in step:
            assert result["isError"] and step["error"] in text, (step, result)
            assert text.startswith(f"Error executing tool {step['tool']}: ")
            return
        assert not result["isError"], (step, result)
        data = result["structuredContent"]
        jsonschema.Draft202012Validator(self.schemas[step["tool"]]["outputSchema"]).validate(data)
        for path, want in step.get("expect", {}).items():
            found = len(self.look(data, path[1:])) if path.startswith("#") else self.look(data, path)
            assert found == want, (step, path, data)
        for want in step.get("contains", []):
            assert self.fill(want) in json.dumps(data, ensure_ascii=False), (step, data)
        for name, path in step.get("save", {}).items():
            self.saved[name] = self.look(data, path)


def test_a_recorded_session_of_an_assistant_goes_as_it_went(mcp, schemas):
    replay = Replay(mcp, schemas)
    for line in (ROOT / "tests/mcp/session.jsonl").read_text().splitlines():
        replay.play(json.loads(line))


def test_every_other_tool_does_what_it_says(mcp, sandbox, schemas):
    replay = Replay(mcp, schemas)

    def step(tool, expect=None, **arguments):
        replay.play({"tool": tool, "arguments": {"sandbox_id": sandbox, **arguments}, "expect": expect or {}})

    step("sandbox_connect", {"sandbox_id": sandbox, "info.id": sandbox})
    step("sandbox_healthcheck", {"sandbox_id": sandbox, "healthy": True})
    step("sandbox_get_metrics")
    step("sandbox_pause", {"status": "paused"})
    step("sandbox_resume", {"info.status.state": "Running"})
    step("file_write", {"status": "written"}, path="/tmp/x/a", content="1")
    step("file_move", {"status": "moved"}, entries=[{"src": "/tmp/x/a", "dest": "/tmp/x/b"}])
    step("file_chmod", {"status": "changed"}, entries=[{"path": "/tmp/x/b", "mode": 640}])
    step("file_info", {"result.0.mode": 640, "result.0.size": 1}, paths=["/tmp/x/b"])
    step("file_list", {"#result": 1, "result.0.path": "/tmp/x/b"}, path="/tmp/x")
    step("file_delete_directories", {"status": "deleted"}, paths=["/tmp/x"])
    step("code_context_create", {"language": "bash"}, language="bash")
    contexts = mcp.data("code_context_list", sandbox_id=sandbox, language="bash")
    step("code_context_delete", {"status": "deleted"}, context_id=contexts[0]["id"])
    step("egress_get")
    for kind in ("summary", "logs", "events", "network"):
        step("sandbox_diagnostics", {"kind": kind}, kind=kind)
    snapshot = mcp.data("snapshot_create", sandbox_id=sandbox)["id"]
    assert snapshot in [s["id"] for s in mcp.data("snapshot_list", sandbox_id=sandbox)["snapshots"]]
    made = mcp.data("sandbox_create_from_snapshot", snapshot_id=snapshot)["sandbox_id"]
    assert mcp.data("sandbox_kill", sandbox_id=made) == {"status": "killed"}
    assert mcp.data("snapshot_delete", snapshot_id=snapshot) == {"status": "deleted"}


def test_errors_are_results(mcp, sandbox):
    assert mcp.error("nope") == "Unknown tool: nope"
    assert mcp.error("sandbox_get_info") == "Error executing tool sandbox_get_info: sandbox_id: Field required"
    assert mcp.error("command_run", sandbox_id="a", command="b").startswith(
        "Error executing tool command_run: Sandbox not found in local registry.")
    assert "filter.page: " in mcp.error("sandbox_list", filter={"page": "x"})
    assert "go together" in mcp.error("sandbox_create", image="host", auth_username="x")
    assert "not supported" in mcp.error("file_read", sandbox_id=sandbox, path="/etc/passwd", encoding="utf-7", connect_if_missing=True)
    assert "image: " in mcp.error("sandbox_create", image="")
    for params in ({}, {"name": 7}, {"name": "sandbox_list", "arguments": [1]}):
        assert mcp.ask("tools/call", params)["isError"]


def test_an_unreachable_server_is_told(server, tmp_path):
    c = Stdio(server, tmp_path, "--domain", "127.0.0.1:1")
    c.initialize()
    assert c.error("sandbox_list").startswith("Error executing tool sandbox_list: ")
    c.close()


# ---- what is large, or no text


def test_long_output_is_cut_in_the_middle(server, sandbox, tmp_path):
    c = Stdio(server, tmp_path, "--max-output", "5000")
    c.initialize()
    c.data("sandbox_connect", sandbox_id=sandbox)
    ran = c.data("command_run", sandbox_id=sandbox, command="seq 1 200000; echo end >&2")
    texts = [line["text"] for line in ran["logs"]["stdout"]]
    assert texts[0] == "1" and texts[-1] == "200000" and len(json.dumps(ran)) < 20000
    assert any("left out" in t for t in texts) and ran["exit_code"] == 0
    assert c.data("command_run", sandbox_id=sandbox, command="printf 'a\\0b\\377c'")["logs"]["stdout"][0]["text"] == "a\0b\ufffdc"
    line = c.data("command_run", sandbox_id=sandbox, command="head -c 1000000 /dev/zero | tr '\\0' x")["logs"]["stdout"][0]["text"]
    assert len(line) < 5000 and "bytes left out" in line
    c.close()


def test_files_that_are_no_text_come_as_base64(mcp, sandbox):
    mcp.data("sandbox_connect", sandbox_id=sandbox)
    data = bytes(range(256))
    mcp.data("file_write", sandbox_id=sandbox, path="/tmp/bin", content=base64.b64encode(data).decode(), encoding="base64")
    read = mcp.data("file_read", sandbox_id=sandbox, path="/tmp/bin")
    assert read["encoding"] == "base64" and base64.b64decode(read["content"]) == data and "base64" in read["note"]
    assert mcp.data("file_read", sandbox_id=sandbox, path="/tmp/bin", encoding="latin-1")["content"] == data.decode("latin-1")
    assert mcp.data("file_read", sandbox_id=sandbox, path="/tmp/bin", range_header="bytes=65-67") ["content"] == "ABC"
    assert "cannot hold" in mcp.error("file_write", sandbox_id=sandbox, path="/tmp/l", content="\u20ac", encoding="latin-1")
    text = "nul is fine: \0, and so is \u2028 \U0001f600\r\n"
    mcp.data("file_write", sandbox_id=sandbox, path="/tmp/t", content=text)
    assert base64.b64decode(mcp.data("file_read", sandbox_id=sandbox, path="/tmp/t")["content"]).decode() == text
    assert mcp.data("file_read", sandbox_id=sandbox, path="/tmp/t", range_header="bytes=0-5")["content"] == "nul is"


def test_long_files_are_cut_in_the_middle(server, sandbox, tmp_path):
    c = Stdio(server, tmp_path, "--max-file", "2000")
    c.initialize()
    c.data("command_run", sandbox_id=sandbox, connect_if_missing=True, command="yes 'äöü' | head -n 5000 > /tmp/long; truncate -s 70M /tmp/huge")
    read = c.data("file_read", sandbox_id=sandbox, path="/tmp/long")
    assert read["size"] == 35000 and len(read["content"].encode()) < 2100 and "left out" in read["content"] and "do not write" in read["note"]
    assert "\ufffd" not in read["content"]
    assert "range_header" in c.error("file_read", sandbox_id=sandbox, path="/tmp/huge")
    c.error("file_read", sandbox_id=sandbox, path="/dev/zero")
    c.close()


def test_a_hostile_name_is_only_text(mcp, sandbox):
    mcp.data("sandbox_connect", sandbox_id=sandbox)
    path = "/tmp/h/a\"b\n\x1b[31m\u202e"
    mcp.data("file_write", sandbox_id=sandbox, path=path, content="x")
    assert [f["path"] for f in mcp.data("file_list", sandbox_id=sandbox, path="/tmp/h")] == [path]
    mcp.data("file_delete", sandbox_id=sandbox, paths=[path])


# ---- progress, cancelling, many at a time


def test_progress_is_told_to_who_wants_it(mcp):
    made = mcp.call("sandbox_create", token="t-1", image="host")["structuredContent"]
    steps = [(p["progress"], p["total"], p["message"]) for p in mcp.progress("t-1")]
    assert steps == [(0.1, 1.0, "Validating input"), (0.3, 1.0, "Creating sandbox"), (0.8, 1.0, "Fetching sandbox info"), (1.0, 1.0, "Done")]
    mcp.call("sandbox_list", token=7)
    assert [p["message"] for p in mcp.progress(7)] == ["Listing sandboxes", "Done"]
    before = len(mcp.notes)
    mcp.call("sandbox_list")
    assert len(mcp.notes) == before
    began = time.monotonic()
    mcp.call("command_run", token="c", sandbox_id=made["sandbox_id"], command="for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; sleep 0.25; done")
    took = time.monotonic() - began
    told = mcp.progress("c")
    assert 2 <= len(told) <= took + 2 and "line 1" in told[0]["message"] and "line 9" in told[-1]["message"]
    assert [p["progress"] for p in told] == sorted({p["progress"] for p in told})
    mcp.data("sandbox_kill", sandbox_id=made["sandbox_id"])


@pytest.mark.parametrize("tool, arguments", [
    ("command_run", {"command": "exec sleep 4321"}),
    ("code_run", {"code": "import subprocess; subprocess.run(['sleep', '4321'])"}),
    ("session_run", {"command": "sleep 4321"}),
])
def test_cancelling_ends_it_in_the_sandbox(talk, sandbox, tool, arguments):
    talk.data("sandbox_connect", sandbox_id=sandbox)
    if tool == "session_run":
        arguments = {**arguments, "session_id": talk.data("session_create", sandbox_id=sandbox)["session_id"]}
    talk.send(call(tool, {"sandbox_id": sandbox, **arguments}, "long"))
    wait_for(lambda: running(talk, sandbox, "sleep 4321"))
    talk.tell("notifications/cancelled", {"requestId": "long", "reason": "enough"})
    wait_for(lambda: not running(talk, sandbox, "sleep 4321"))
    talk.settle()
    assert "long" not in talk.answers
    assert talk.data("command_run", sandbox_id=sandbox, command="echo on")["logs"]["stdout"][0]["text"] == "on"


def test_a_command_that_is_cancelled_at_once_does_not_stay(talk, sandbox):
    talk.data("sandbox_connect", sandbox_id=sandbox)
    for i in range(5):
        talk.send(call("command_run", {"sandbox_id": sandbox, "command": "exec sleep 5432"}, f"x{i}"))
        talk.tell("notifications/cancelled", {"requestId": f"x{i}"})
    time.sleep(0.5)
    wait_for(lambda: not running(talk, sandbox, "sleep 5432"))


def test_a_create_that_is_cancelled_leaves_no_sandbox(talk, api):
    before = {s["id"] for s in api.get("/sandboxes?pageSize=200").json["items"]}
    for i in range(40):  # at any moment of it: also when it runs, and is only looked at once more
        talk.send(call("sandbox_create", {"image": "host"}, f"c{i}"))
        time.sleep(0.001 * i)
        talk.tell("notifications/cancelled", {"requestId": f"c{i}"})
    talk.settle()
    time.sleep(0.3)
    answered = {a["result"]["structuredContent"]["sandbox_id"] for k, a in talk.answers.items() if str(k).startswith("c")}
    wait_for(lambda: {s["id"] for s in api.get("/sandboxes?pageSize=200").json["items"]} - before == answered)
    for id in answered:
        api.delete(id)


def test_several_requests_are_at_work_at_a_time(talk, sandbox):
    talk.data("sandbox_connect", sandbox_id=sandbox)
    began = time.monotonic()
    for i in range(8):
        talk.send(call("command_run", {"sandbox_id": sandbox, "command": f"sleep 5; echo {i}"}, f"p{i}"))
    assert talk.ask("ping") == {} and time.monotonic() - began < 4
    for i in range(8):
        assert talk.wait(f"p{i}")["result"]["structuredContent"]["logs"]["stdout"][0]["text"] == str(i)
    assert time.monotonic() - began < 30


def test_too_many_at_a_time_are_refused(talk, sandbox):
    talk.data("sandbox_connect", sandbox_id=sandbox)
    for i in range(40):
        talk.send(call("command_run", {"sandbox_id": sandbox, "command": "sleep 2"}, i + 1000))
    assert talk.wait(1039)["error"]["code"] == -32000
    talk.send(call("command_run", {"sandbox_id": sandbox, "command": "true"}, 1000))
    assert talk.wait(1000)["error"]["code"] == -32600
    for i in range(32):
        talk.tell("notifications/cancelled", {"requestId": i + 1000})
    wait_for(lambda: not running(talk, sandbox, "sleep 2"))


# ---- the end


def test_at_the_end_of_input_everything_is_answered(server, sandbox, tmp_path):
    late = call("command_run", {"sandbox_id": sandbox, "connect_if_missing": True, "command": "sleep 0.5; echo late"}, 2)
    (tmp_path / "in").write_text(INITIALIZE + "\n" + json.dumps(late))
    with open(tmp_path / "in") as stdin, open(tmp_path / "out", "w") as stdout:
        done = subprocess.run([OSB, "mcp"], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment(server, tmp_path),
                              timeout=TIMEOUT_S, check=True)
    assert_clean(done.stderr)
    answers = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [a["id"] for a in answers] == [1, 2] and answers[1]["result"]["structuredContent"]["logs"]["stdout"][0]["text"] == "late"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_at_its_end_it_ends_what_runs(server, sandbox, tmp_path, talk, how):
    c = Stdio(server, tmp_path)
    c.initialize()
    c.data("sandbox_connect", sandbox_id=sandbox)
    c.send(call("command_run", {"sandbox_id": sandbox, "command": "exec sleep 6543"}, "x"))
    wait_for(lambda: running(talk, sandbox, "sleep 6543"))
    c.process.send_signal(how)
    assert c.process.wait(TIMEOUT_S) == 0
    assert_clean(c.process.stderr.read().decode())
    wait_for(lambda: not running(talk, sandbox, "sleep 6543"))


HOST = """
import subprocess, sys, time
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(sys.argv[1].encode()), p.stdin.flush()
print(p.pid, flush=True)
time.sleep(1000)
"""


def test_a_host_that_is_killed_takes_everything_with_it(server, sandbox, tmp_path, talk):
    lines = [INITIALIZE, json.dumps(call("command_run", {"sandbox_id": sandbox, "command": "exec sleep 9876", "connect_if_missing": True}, 2)), ""]
    host = subprocess.Popen(["/usr/bin/python3", "-c", HOST, "\n".join(lines), OSB, "mcp"], stdout=subprocess.PIPE, text=True,
                            env=environment(server, tmp_path))
    pid = int(host.stdout.readline())
    wait_for(lambda: running(talk, sandbox, "sleep 9876"))
    host.kill()
    host.wait()
    host.stdout.close()
    wait_for(lambda: not running(talk, sandbox, "sleep 9876"))
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists())


# ---- HTTP


POST = {"Accept": ACCEPT, "Content-Type": "application/json"}


@pytest.mark.parametrize("change, status", [
    ({}, 200), ({"Host": "evil.example:8000"}, 421), ({"Host": "localhost:1"}, 200), ({"Host": "[::1]:1"}, 200),
    ({"Origin": "http://evil.example"}, 403), ({"Origin": "http://localhost:{}"}, 200), ({"Origin": "null"}, 403),
    ({"Origin": "http://localhost:3000"}, 403), ({"Origin": "https://localhost:{}"}, 403), ({"Origin": "http://localhost"}, 403),
    ({"Content-Type": "text/plain"}, 400), ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ({"Accept": "application/json"}, 406), ({"Accept": "text/event-stream"}, 406), ({"Accept": "*/*"}, 200),
    ({"Mcp-Session-Id": "nope"}, 404),
])
def test_a_request_must_have_its_form(http_server, change, status):
    change = {name: value.replace("{}", str(http_server.port)) for name, value in change.items()}
    found, headers, body = http_server.request("POST", INITIALIZE, {**POST, **change})
    assert found == status, body
    if status != 200:
        assert json.loads(body)["error"]["message"]
    else:
        assert http_server.request("DELETE", headers={"Mcp-Session-Id": headers["Mcp-Session-Id"]})[0] == 200


def test_sessions_begin_and_end(http_server):
    c = Http(http_server)
    c.initialize()
    assert http_server.request("POST", json.dumps(request("ping", None, 1)), POST)[0] == 400
    assert http_server.request("POST", json.dumps(request("ping", None, 1)), {**c.headers(), "MCP-Protocol-Version": "1999"})[0] == 400
    assert http_server.request("POST", "{", c.headers())[0] == 400
    assert http_server.request("PUT", "{}", c.headers())[0] == 405
    assert http_server.request("POST", "{}", c.headers(), path="/other")[0] == 404
    other = Http(http_server)
    other.initialize()
    assert other.session != c.session and len(c.session) == 32
    c.close()
    assert http_server.request("POST", json.dumps(request("ping", None, 1)), c.headers())[0] == 404
    assert http_server.request("DELETE", headers=c.headers())[0] == 404
    assert other.ask("ping") == {}
    other.close()


def test_a_session_has_one_stream_to_listen_to(http_server):
    c = Http(http_server)
    c.initialize()
    first = http_server.connect()
    first.request("GET", http_server.path, headers={**c.headers(), "Accept": "text/event-stream"})
    response = first.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    assert http_server.request("GET", headers={**c.headers(), "Accept": "text/event-stream"})[0] == 409
    assert http_server.request("GET", headers=c.headers() | {"Accept": "application/json"})[0] == 406
    c.close()
    assert response.read().strip() in (b"", b": ping")
    first.close()


def test_cancelling_works_across_requests(http_server, sandbox):
    c, other = Http(http_server), Http(http_server)
    c.initialize(), other.initialize()
    other.data("sandbox_connect", sandbox_id=sandbox)
    connection = http_server.connect()
    connection.request("POST", http_server.path, json.dumps(call("command_run", {"sandbox_id": sandbox, "command": "exec sleep 7654"}, "long")), c.headers())
    response = connection.getresponse()
    assert response.status == 200
    wait_for(lambda: running(other, sandbox, "sleep 7654"))
    other.tell("notifications/cancelled", {"requestId": "long"})  # another session's: nothing happens
    assert running(other, sandbox, "sleep 7654")
    c.tell("notifications/cancelled", {"requestId": "long"})
    assert b"data:" not in response.read()
    connection.close()
    wait_for(lambda: not running(other, sandbox, "sleep 7654"))
    c.close(), other.close()


def test_the_end_of_a_session_ends_its_commands(http_server, sandbox):
    c, other = Http(http_server), Http(http_server)
    c.initialize(), other.initialize()
    connection = http_server.connect()
    connection.request("POST", http_server.path, json.dumps(call("command_run", {"sandbox_id": sandbox, "command": "exec sleep 8765", "connect_if_missing": True}, 1)),
                       c.headers())
    wait_for(lambda: running(other, sandbox, "sleep 8765"))
    c.close()
    wait_for(lambda: not running(other, sandbox, "sleep 8765"))
    connection.close()
    other.close()


def test_a_token_that_others_can_read_is_told(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123\n")
    token.chmod(0o644)
    with Running([OSB, "mcp", "--transport", "streamable-http", "--port", "0", "--token-file", token], env=environment(server, tmp_path),
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == f"Warning: --token-file: holds a secret that other users can read: chmod 600 {token}\n"
        assert "listening" in process.stderr.readline()
        process.terminate()


def test_an_address_for_others_needs_a_token(server, tmp_path):
    done = subprocess.run([OSB, "mcp", "--transport", "streamable-http", "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True,
                          env=environment(server, tmp_path), timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and "token" in done.stderr
    (tmp_path / "token").write_text("0123456789abcdef0123\n")
    (tmp_path / "token").chmod(0o600)
    s = HttpServer(server, tmp_path, "--host", "0.0.0.0", "--token-file", str(tmp_path / "token"), "--allowed-host", "box.example", "--path", "/x")
    assert s.path == "/x"
    status, headers, _ = s.request("POST", INITIALIZE, POST)
    assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
    assert s.request("POST", INITIALIZE, {**POST, "Authorization": "Bearer wrong"})[0] == 401
    right = {**POST, "Authorization": "Bearer 0123456789abcdef0123"}
    assert s.request("POST", INITIALIZE, {**right, "Host": "box.example"})[0] == 200
    assert s.request("POST", INITIALIZE, {**right, "Host": "other.example"})[0] == 421
    s.stop()


def test_sessions_have_a_ceiling(server, tmp_path):
    s = HttpServer(server, tmp_path)
    for _ in range(100):  # one that does not begin is none
        assert s.request("POST", json.dumps(request("initialize", {}, 1)), POST)[0] == 200
    found = [s.request("POST", INITIALIZE, POST)[0] for _ in range(66)]
    assert found == [200] * 64 + [503] * 2
    s.stop()


def test_a_connection_that_breaks_costs_its_answer_alone(http_server, sandbox):
    c = Http(http_server)
    c.initialize()
    c.data("sandbox_connect", sandbox_id=sandbox)
    for i in range(10):
        connection = http_server.connect()
        asked = call("command_run", {"sandbox_id": sandbox, "command": f"sleep 0.3; yes | head -n 20000; touch /tmp/broken-{i}"}, f"b{i}", token=f"t{i}")
        connection.request("POST", http_server.path, json.dumps(asked), c.headers())
        time.sleep(0.05 * i)
        connection.close()
    wait_for(lambda: len(c.data("file_search", sandbox_id=sandbox, path="/tmp", pattern="broken-*")) == 10)
    for _ in range(3):
        listener = http_server.connect()
        listener.request("GET", http_server.path, headers={**c.headers(), "Accept": "text/event-stream"})
        assert listener.getresponse().status == 200
        listener.close()
        wait_for(lambda: c.ask("ping") == {})
        time.sleep(0.1)
    c.close()


def test_a_reader_that_is_slow_is_waited_for(server, sandbox, tmp_path):
    """Answers wait in memory up to a mark; beyond it nothing more is read, and nothing is lost."""
    process = subprocess.Popen([OSB, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(server, tmp_path), cwd=tmp_path)
    lines = [INITIALIZE, *(json.dumps(request("tools/list", None, i + 10)) for i in range(200)), ""]
    writer = threading.Thread(target=lambda: (process.stdin.write("\n".join(lines).encode()), process.stdin.close()), daemon=True)
    writer.start()
    time.sleep(1)
    answers = [json.loads(line)["id"] for line in process.stdout]
    assert answers == [1, *range(10, 210)]
    writer.join(TIMEOUT_S)
    assert process.wait(TIMEOUT_S) == 0
