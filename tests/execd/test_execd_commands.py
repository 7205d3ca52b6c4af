# SPDX-License-Identifier: Apache-2.0
"""Commands in the background, and what is remembered of all commands."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time

import pytest

from test_execd import EXECD, Connection, events_of, serve, start, texts

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
CURSOR = "EXECD-COMMANDS-TAIL-CURSOR"


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("execd"))


def wait_for(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def background(execd, command, **more):
    events = execd.command(command, background=True, **more)
    assert [e["type"] for e in events] == ["init", "execution_complete"]
    return events[0]["text"]


def status(execd, id_):
    answer = execd.request("GET", f"/command/status/{id_}")
    assert answer.status == 200 and answer.json["id"] == id_
    return answer.json


def ended(execd, id_):
    return wait_for(lambda: (s := status(execd, id_)) and not s["running"] and s)


def logs(execd, id_, cursor=None):
    answer = execd.request("GET", f"/command/{id_}/logs" + (f"?cursor={cursor}" if cursor is not None else ""))
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    return answer.body, int(answer.headers[CURSOR])


class Stream:
    """A command in the foreground, read as it comes."""

    def __init__(self, execd, command, **more):
        self.connection = Connection(execd.path, 30)
        self.connection.request("POST", "/command", json.dumps({"command": command, **more}), execd.headers())
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        self.id = json.loads(self.response.readline())["text"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


# ---- in the background ----


def test_it_is_told_at_once_and_its_status_is_there(execd):
    began = time.monotonic()
    id_ = background(execd, "sleep 30")
    assert time.monotonic() - began < 10
    s = status(execd, id_)
    assert s["running"] and s["content"] == "sleep 30" and "exit_code" not in s and "finished_at" not in s
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", s["started_at"])
    assert execd.request("DELETE", f"/command?id={id_}").status == 200


@pytest.mark.parametrize("command, code, error", [
    ("true", 0, None), ("exit 3", 3, "exit status 3"), ("kill -9 $$", 137, "signal: killed"), ("nosuchprogram", 127, "exit status 127"),
])
@pytest.mark.smoke
def test_its_end_is_remembered(execd, command, code, error):
    s = ended(execd, background(execd, command))
    assert (s["exit_code"], s.get("error")) == (code, error) and s["finished_at"] >= s["started_at"]


def test_output_by_cursor_comes_without_loss_and_without_repeats(execd):
    id_ = background(execd, "for i in $(seq 1 300); do echo out $i; echo err $i >&2; [ $((i % 50)) = 0 ] && sleep 0.05; done")
    got, cursor = b"", 0
    while True:
        over = not status(execd, id_)["running"]
        piece, next_ = logs(execd, id_, cursor)
        assert next_ == cursor + len(piece)
        got, cursor = got + piece, next_
        if over and not piece:
            break
    assert got.decode() == "".join(f"out {i}\nerr {i}\n" for i in range(1, 301))
    assert logs(execd, id_, cursor) == (b"", cursor)
    assert logs(execd, id_) == (got, cursor)


@pytest.mark.parametrize("cursor, want", [("", b"abc\n"), ("x", b"abc\n"), ("-1", b"abc\n"), ("2", b"c\n"), ("99", b"")])
def test_cursors_of_all_kinds(execd, cursor, want):
    id_ = background(execd, "echo abc")
    ended(execd, id_)
    body, next_ = logs(execd, id_, cursor)
    assert (body, next_) == (want, 99 if cursor == "99" else 4)


def test_bytes_are_kept_as_they_are(execd):
    id_ = background(execd, r"printf 'a\0\377\r\n'")
    ended(execd, id_)
    assert logs(execd, id_)[0] == b"a\0\xff\r\n"


def test_what_it_leaves_running_goes_on_and_is_still_heard(execd, tmp_path):
    go = tmp_path / "go"
    id_ = background(execd, f"(while [ ! -e {go} ]; do sleep 0.02; done; echo later) & echo now")
    assert ended(execd, id_)["exit_code"] == 0
    assert logs(execd, id_)[0] == b"now\n"
    go.touch()
    wait_for(lambda: logs(execd, id_)[0] == b"now\nlater\n")


def test_a_timeout_ends_the_whole_group(execd, tmp_path):
    pidfile = tmp_path / "pid"
    id_ = background(execd, f"sleep 100 & echo $! > {pidfile}; wait", timeout=300)
    s = ended(execd, id_)
    assert (s["exit_code"], s["error"]) == (137, "signal: killed")
    pid = int(pidfile.read_text())
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2])


def test_one_that_cannot_start_says_so_and_is_remembered(execd, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root for user ids")
    gone = tmp_path / "gone"
    gone.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    answer = execd.request("POST", "/command", json.dumps({"command": "true", "background": True, "uid": 12345, "cwd": str(gone)}))
    events = events_of(answer.body)
    assert events[-1]["error"]["ename"] == "CommandExecError" and "working directory" in events[-1]["error"]["evalue"]
    assert ended(execd, events[0]["text"])["exit_code"] == 255


def test_the_output_of_a_flood_is_bounded_and_says_where_it_begins(execd):
    id_ = background(execd, "head -c 70000000 /dev/zero; echo end")
    ended(execd, id_)
    answer = execd.request("GET", f"/command/{id_}/logs")
    assert len(answer.body) == 64 * 1024 * 1024 and answer.body.endswith(b"\0end\n")
    assert int(answer.headers[CURSOR]) == 70000004
    assert int(answer.headers["EXECD-COMMANDS-LOG-START"]) == 70000004 - 64 * 1024 * 1024


# ---- in the foreground, afterwards ----


def test_a_command_in_the_foreground_is_remembered_too(execd):
    events = execd.command("echo out; echo err >&2; exit 4")
    s = status(execd, events[0]["text"])
    assert not s["running"] and s["exit_code"] == 4
    assert sorted(logs(execd, events[0]["text"])[0].splitlines()) == [b"err", b"out"]


def test_a_client_that_goes_away_loses_nothing(execd, tmp_path):
    go = tmp_path / "go"
    with Stream(execd, f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; seq 1 50000; exit 5") as s:
        id_ = s.id
    assert status(execd, id_)["running"]
    go.touch()
    assert ended(execd, id_)["exit_code"] == 5
    assert logs(execd, id_)[0].decode() == "one\n" + "".join(f"{i}\n" for i in range(1, 50001))


# ---- being ended ----


def test_an_interrupt_ends_the_command_and_its_children(execd, tmp_path):
    pidfile = tmp_path / "pid"
    with Stream(execd, f"sleep 100 & echo $! > {pidfile}; sleep 100") as s:
        wait_for(lambda: pidfile.exists() and pidfile.read_text().strip())
        began = time.monotonic()
        answer = execd.request("DELETE", f"/command?id={s.id}")
        assert answer.status == 200 and answer.headers["Content-Length"] == "0" and time.monotonic() - began < 2.5
        events = events_of(b'{"type":"init","text":"%s","timestamp":%d}\n\n' % (s.id.encode(), time.time() * 1000)
                           + s.response.read().lstrip(b"\n"))
        assert events[-1]["error"]["evalue"] == "143"
        pid = int(pidfile.read_text())
        wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2])
        assert status(execd, s.id)["exit_code"] == 143
        again = execd.request("DELETE", f"/command?id={s.id}")
        assert again.status == 409 and again.json["code"] == "RUNTIME_ERROR" and "not running" in again.json["message"]
    assert texts(execd.command("echo fine")) == ["fine"]


def test_who_ignores_the_signal_is_killed(execd):
    id_ = background(execd, "trap '' TERM; echo ready; while :; do sleep 1; done")
    wait_for(lambda: logs(execd, id_)[0] == b"ready\n")
    began = time.monotonic()
    assert execd.request("DELETE", f"/command?id={id_}").status == 200
    assert 2.5 < time.monotonic() - began < 10 and status(execd, id_)["exit_code"] == 137


def test_many_may_ask_for_the_same_end(execd):
    id_ = background(execd, "trap '' TERM; echo ready; sleep 100")
    wait_for(lambda: logs(execd, id_)[0] == b"ready\n")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: execd.request("DELETE", f"/command?id={id_}").status, range(8)))
    assert set(answers) <= {200, 409} and 200 in answers


def test_who_does_not_wait_for_the_end_does_no_harm(execd):
    id_ = background(execd, "trap '' TERM; echo ready; sleep 100")
    wait_for(lambda: logs(execd, id_)[0] == b"ready\n")
    connection = Connection(execd.path, 30)
    connection.request("DELETE", f"/command?id={id_}", headers=execd.headers())
    connection.close()
    assert ended(execd, id_)["exit_code"] in (137, 143)


@pytest.mark.parametrize("method, path, want", [
    ("DELETE", "/command", (400, "MISSING_QUERY")), ("DELETE", "/command?id=", (400, "MISSING_QUERY")),
    ("DELETE", "/command?id=nope", (404, "RUNTIME_ERROR")), ("GET", "/command/status/nope", (404, "INVALID_REQUEST_BODY")),
    ("GET", "/command/nope/logs", (404, "INVALID_REQUEST_BODY")), ("GET", "/command/status/logs", (404, "INVALID_REQUEST_BODY")),
])
def test_unknown_ids(execd, method, path, want):
    answer = execd.request(method, path)
    assert (answer.status, answer.json["code"]) == want and answer.json["message"]


@pytest.fixture
def in_a_small_world(tmp_path):
    """An execd in a process namespace of its own, where the next number can be chosen."""
    d = start(tmp_path, wrapper=["unshare", "--pid", "--fork", "--kill-child"])
    yield d.wait_ready()
    subprocess.run(["pkill", "-TERM", "-P", str(d.process.pid)], check=True)
    assert d.process.wait(20) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a process namespace")
@pytest.mark.parametrize("kind", ["background", "foreground"])
def test_the_number_of_an_ended_command_may_be_a_strangers(in_a_small_world, kind):
    d = in_a_small_world
    if kind == "background":
        old = background(d, "echo $$")
        ended(d, old)
        number = int(logs(d, old)[0])
    else:
        events = d.command("echo $$")
        old, number = events[0]["text"], int(texts(events)[0])
    text = texts(d.command(f"echo {number - 1} > /proc/sys/kernel/ns_last_pid; setsid sleep 300 >/dev/null 2>&1 & echo $!"))
    assert text == [str(number)]
    assert d.request("DELETE", f"/command?id={old}").status == 409
    assert d.command(f"kill -0 {number} && kill {number}")[-1]["type"] == "execution_complete"  # it was still there


def test_a_stop_ends_what_runs_in_the_background(tmp_path):
    d = start(tmp_path).wait_ready()
    pid_file = tmp_path / "pid"
    background(d, f"echo $$ > {pid_file}; exec sleep 100")
    pid = int(wait_for(lambda: pid_file.exists() and pid_file.read_text()))
    d.process.send_signal(signal.SIGTERM)
    d.stop()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2])


def test_output_that_waits_for_its_reader_costs_no_processor_time(execd):
    """Also when whoever wrote it is gone."""

    def used():
        with open(f"/proc/{execd.process.pid}/stat") as f:
            return sum(int(n) for n in f.read().rsplit(")", 1)[1].split()[11:13]) / os.sysconf("SC_CLK_TCK")

    with Stream(execd, "exec head -c 600000 /dev/zero"):
        time.sleep(1)
        before = used()
        time.sleep(1)
        assert used() - before < 0.2
