# SPDX-License-Identifier: Apache-2.0
"""The execution API's checklist, point by point, and where others go wrong. One short test each; the files test_execd_*.py
have the long ones."""
import contextlib
import json
import os
import re
import time

import pytest

from test_execd import EXECD, Connection, error_of, events_of, nothing_stays, open_stream, start, texts, wait_for  # noqa: F401
from test_execd_commands import background, ended, logs, status
from test_execd_files import get, info, pair, post, query, upload
from test_execd_pty import TAKEN_OVER, Client, new, nothing_is_left  # noqa: F401
from test_execd_sessions import Session

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):  # noqa: F811
    folder = tmp_path_factory.mktemp("execd")
    (folder / "x").mkdir()
    d = start(folder, env={"BOTH": "process", "WHERE": str(folder / "x")})
    yield d.wait_ready()
    d.stop()


# ---- the checklist -----------------------------------------------------------------------------------------------------


def test_1_hello(execd):
    events = execd.command("echo 'Hello'")
    assert [e["type"] for e in events] == ["init", "stdout", "execution_complete"] and texts(events) == ["Hello"]
    assert all(abs(e["timestamp"] / 1000 - time.time()) < 180 for e in events)


def test_2_directories_and_environment(execd):
    folder = str(execd.path.parent / "x")
    for cwd in (folder, "~/x", "$WHERE", "${WHERE}"):
        assert texts(execd.command("pwd", cwd=cwd)) == [folder]
    assert execd.request("POST", "/command", json.dumps({"command": "pwd", "cwd": "/no/such"})).status == 400
    assert texts(execd.command("echo $BOTH", envs={"BOTH": "request"})) == ["request"]


def test_3_an_unknown_command(execd):
    events = execd.command("nosuchcommand_")
    assert "nosuchcommand_" in "".join(texts(events, "stderr"))
    assert (error_of(events)["ename"], error_of(events)["evalue"]) == ("CommandExecError", "127")
    assert not [e for e in events if e["type"] == "execution_complete"]


@pytest.mark.parametrize("command, want", [
    (r"printf 'a\n\nb\n\n\nc\n'", ["a", "\n", "b", "\n", "\n", "c"]),
    (r"printf '1\r2\r3\n'", ["1", "2", "3"]),
    (r"printf 'a\r'; sleep 0.1; printf '\nb\r\n'", ["a", "b"]),
    ("head -c 262144 /dev/zero | tr '\\0' x; echo", ["x" * 262144]),
    ("printf 'no end'", ["no end"]),
], ids=["blank lines", "CR", "CR and LF apart", "256 KiB", "no newline"])
def test_4_lines(execd, command, want):
    assert texts(execd.command(command)) == want


def test_5_background(execd):
    began = time.monotonic()
    id_ = background(execd, "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 30")
    assert time.monotonic() - began < 10
    s = status(execd, id_)
    assert s["id"] == id_ and s["running"] and s.get("exit_code") is None
    got, cursor = b"", 0
    while len(got) < 6:
        piece, cursor = logs(execd, id_, cursor)
        got += piece
    assert got == b"1\n2\n3\n" and logs(execd, id_, cursor) == (b"", cursor)
    assert execd.request("DELETE", f"/command?id={id_}").status == 200


def test_6_interrupt(execd, tmp_path):
    child = tmp_path / "child"
    with open_stream(execd, command=f"sleep 30 & echo $! > {child}; wait") as s:
        begun = b""
        while not (init := re.search(rb'\{"type":"init".*?\}', begun)):
            begun += s.recv(65536)
        id_ = json.loads(init[0])["text"]
        wait_for(lambda: child.exists() and child.read_text())
        began = time.monotonic()
        assert execd.request("DELETE", f"/command?id={id_}").status == 200
        received = b""
        while not received.endswith(b"0\r\n\r\n"):
            received += s.recv(65536)
        assert time.monotonic() - began < 5 and b'"type":"error"' in received
    pid = int(child.read_text())
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split()[2] == "Z")
    assert execd.request("DELETE", f"/command?id={id_}").status >= 400
    assert texts(execd.command("echo next")) == ["next"]


def test_7_a_lost_client(execd):
    with open_stream(execd, command="yes | head -c 3000000") as s:
        s.recv(10)
    assert execd.request("GET", "/ping").status == 200 and texts(execd.command("echo fine")) == ["fine"]


def test_8_sessions(execd, tmp_path):
    session = Session(execd, cwd=str(tmp_path))
    assert session.out("pwd") == [str(tmp_path)] and session.out("pwd", cwd="/") == ["/"]
    session.run("export A=kept")
    assert session.out("echo $A") == ["kept"]
    assert error_of(session.run("exit 7"))["evalue"] == "7"
    began = time.monotonic()
    with contextlib.closing(open_run(execd, session.id, "sleep 60")):
        assert session.delete().status == 200
    assert time.monotonic() - began < 3
    assert session.delete().status == 404


def open_run(execd, id_, command):
    connection = Connection(execd.path, 30)
    connection.request("POST", f"/session/{id_}/run", json.dumps({"command": command}), execd.headers())
    assert connection.getresponse().read1(10)
    return connection


def test_9_files(execd, tmp_path):
    for mode in (755, 644):
        assert post(execd, "/directories", {str(tmp_path / f"d{mode}"): {"mode": mode}}).status == 200
        assert info(execd, tmp_path / f"d{mode}")["mode"] == mode
    assert post(execd, "/directories", {str(tmp_path / "d644"): {"mode": 700}}).status == 200
    assert info(execd, tmp_path / "d644")["mode"] == 644
    lines = "".join(f"line{i}\n" for i in range(1, 5)).encode()
    owner = {"owner": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    assert upload(execd, pair(tmp_path / "f", lines, mode=640, **owner)).status == 200
    got = info(execd, tmp_path / "f")
    assert (got["size"], got["mode"]) == (len(lines), 640) and {k: got[k] for k in owner} == owner
    assert get(execd, "/files/download", {"Range": "bytes=0-9"}, path=str(tmp_path / "f")).body == lines[:10]
    assert get(execd, "/files/download", path=str(tmp_path / "f"), offset=2, limit=2).body == b"line2\nline3"


def test_10_changes(execd, tmp_path):
    f = tmp_path / "f"
    f.write_text("a b a c a")
    before = f.stat().st_mtime_ns
    time.sleep(0.02)  # the clock of files goes in steps of some milliseconds
    body = {str(f): {"old": "a", "new": "x"}}
    assert post(execd, "/files/replace", body).status == 200 and f.read_text() == "x b x c x"
    assert f.stat().st_mtime_ns - before >= 1_000_000
    assert post(execd, "/files/mv", [{"src": str(f), "dest": str(tmp_path / "g")}]).status == 200
    assert get(execd, "/files/info", path=str(f)).status == 404
    (tmp_path / "dir/deeper").mkdir(parents=True)
    found = get(execd, "/files/search", path=str(tmp_path), pattern="*").json
    assert [e["path"] for e in found] == [str(tmp_path / "g")]
    assert execd.request("DELETE", "/directories" + query(path=str(tmp_path / "dir"))).status == 200
    assert execd.request("DELETE", "/files" + query(path=str(tmp_path / "g"))).status == 200 and os.listdir(tmp_path) == []


def test_11_lists(execd, tmp_path):
    (tmp_path / "b/c/d").mkdir(parents=True)
    (tmp_path / "a").write_text("")
    (tmp_path / "l").symlink_to("b")

    def names(**more):
        answer = get(execd, "/directories/list", path=str(tmp_path), **more)
        return [os.path.relpath(e["path"], tmp_path) for e in answer.json]

    assert names() == names(depth=1) == ["a", "b", "l"] and names(depth=2) == ["a", "b", "b/c", "l"]
    for bad in ({"path": str(tmp_path / "l")}, {"path": str(tmp_path / "a")}, {"path": str(tmp_path), "depth": "x"}):
        assert get(execd, "/directories/list", **bad).status == 400


def test_12_metrics(execd):
    m = execd.request("GET", "/metrics").json
    assert m["cpu_count"] >= 1 and 0 <= m["cpu_used_pct"] <= 100 and 0 <= m["mem_used_mib"] <= m["mem_total_mib"]


def test_14_errors_before_the_first_event_are_json(execd):
    for path, body, want in (("/command", "{", 400), ("/command", '{"command":""}', 400), ("/session/none/run", '{"command":"x"}', 404)):
        answer = execd.request("POST", path, body)
        assert answer.status == want and answer.headers["Content-Type"].startswith("application/json"), path
        assert set(answer.json) == {"code", "message"}


def test_15_terminals(execd):
    assert execd.request("GET", "/pty/00000000-0000-4000-8000-000000000000/ws").status == 404
    id_ = new(execd)
    with Client(execd, id_) as first:
        assert first.connected()["mode"] == "pty"
        first.type("echo pid=$$.\n")
        pid = first.until_match(rb"pid=(\d+)\.")
        first.say(type="resize", cols=91, rows=17)
        first.type("stty size\n")
        first.until("17 91")
        assert execd.request("GET", f"/pty/{id_}/ws?takeover=1").status == 409
        with Client(execd, id_, "?takeover=1") as second:
            assert first.until_closed()[0] == TAKEN_OVER
            second.connected()
            assert b"17 91" in second.replayed
            second.type("echo again=$$.; exit 3\n")
            second.until("again=" + pid.decode())
            while second.take() != "exit":
                pass
            assert second.news[-1]["exit_code"] == 3


# ---- where others go wrong ---------------------------------------------------------------------------------------------


def test_a_command_costs_no_second_and_a_line_comes_at_once(execd):
    began = time.monotonic()
    with open_stream(execd, command="echo early; sleep 5") as s:
        received = b""
        while b'"early"' not in received:
            received += s.recv(4096)
        assert time.monotonic() - began < 4
        id_ = json.loads(re.search(rb'\{"type":"init".*?\}', received)[0])["text"]
        assert execd.request("DELETE", f"/command?id={id_}").status == 200
    times = []
    for _ in range(5):
        began = time.monotonic()
        execd.command("true")
        times.append(time.monotonic() - began)
    assert min(times) < 0.9, times


def test_u0085_and_its_kind_lose_no_line(execd):
    answer = execd.request("POST", "/command", json.dumps({"command": r"printf 'a\302\205b\342\200\250c\342\200\251d\n'"}))
    assert len(answer.body.decode().splitlines()) == answer.body.count(b"\n")
    assert texts(events_of(answer.body)) == ["a\x85b\u2028c\u2029d"]


def test_a_background_id_is_known_with_the_first_event_and_children_stay(execd, tmp_path):
    mark = tmp_path / "mark"
    id_ = background(execd, f"(sleep 0.3; touch {mark}) &")
    assert status(execd, id_)["id"] == id_
    ended(execd, id_)
    wait_for(mark.exists)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for user ids")
def test_an_unknown_uid_does_not_get_group_0(execd):
    assert texts(execd.command("id -g", uid=54321, cwd="/")) == ["54321"]


def test_secrets_are_not_in_the_environment(execd):
    assert not [line for line in texts(execd.command("env")) if line.startswith(("EXECD_ACCESS_TOKEN", "JUPYTER_TOKEN"))]


def test_unknown_ids_are_not_found_and_not_500(execd):
    assert execd.request("DELETE", "/command?id=" + "0" * 32).status == 404
    assert execd.request("POST", "/session/none/run", '{"command":"true"}').status == 404


def test_output_leaves_no_file_with_a_name(execd):
    folder = execd.path.parent
    before = sorted(os.listdir(folder))
    assert texts(execd.command("echo x; ls $TMPDIR/*.stdout /tmp/*.stdout 2>/dev/null | wc -l")) == ["x", "0"]
    assert sorted(os.listdir(folder)) == before


def test_a_busy_session_makes_the_next_run_wait(execd):
    """Others append something to the stream that is no event."""
    session = Session(execd)
    with contextlib.closing(open_run(execd, session.id, "sleep 0.4")):
        assert session.out("echo after") == ["after"]
    assert session.delete().status == 200


def test_what_is_replaced_leaves_nothing_and_an_existing_name_with_a_dollar_is_that_name(execd, tmp_path):
    f = tmp_path / "$HOME"
    f.write_bytes(b"one")
    assert upload(execd, pair(f, b"two")).status == 200
    assert os.listdir(tmp_path) == ["$HOME"] and f.read_bytes() == b"two"


def test_any_bytes_arrive_complete_and_in_order(execd):
    """Every byte value, invalid UTF-8, NUL, and a line of 4 MiB: what cannot be UTF-8 is U+FFFD, one for each byte."""
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)).replace(b'\\r', b'').replace(b'\\n', b'') + b'\\n' + b'\\0' * 3)"
    got = texts(execd.command(f"python3 -c {json.dumps(code)}"))
    raw = bytes(b for b in range(256) if b not in (10, 13))
    assert got == ["".join(chr(b) if b < 128 else "\ufffd" for b in raw), "\0\0\0"]
    line = texts(execd.command("seq -s ' ' 1 700000 | head -c 4194304", timeout_s=60))
    assert "".join(line) == " ".join(map(str, range(1, 700001)))[:4194304] and len(line) >= 4
