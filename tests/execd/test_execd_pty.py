# SPDX-License-Identifier: Apache-2.0
"""Terminals: REST and WebSocket, against execd as an ordinary process."""
import asyncio
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.legacy.client import unix_connect

from test_execd import EXECD, HEADER, nothing_stays, serve, start  # noqa: F401

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
STDIN, STDOUT, STDERR, REPLAY = 0, 1, 2, 3
TAKEN_OVER = 4001
RING = 1024 * 1024
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):  # noqa: F811
    folder = tmp_path_factory.mktemp("execd")
    (folder / "envs").write_text("FROM_FILE=file\n")
    yield from serve(folder, env={"EXECD_ENVS": str(folder / "envs")})


def wait_for(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


MADE = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    while MADE:
        execd, id_ = MADE.pop()
        with contextlib.suppress(OSError):
            assert execd.request("DELETE", f"/pty/{id_}").status in (200, 404)


def new(execd, **body):
    answer = execd.request("POST", "/pty", json.dumps(body) if body else None)
    assert answer.status == 201, answer.body
    assert list(answer.json) == ["session_id"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", answer.json["session_id"])
    MADE.append((execd, answer.json["session_id"]))
    return answer.json["session_id"]


@pytest.fixture
def pty(execd):
    return new(execd)


LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


class WebSocket:
    """The library's client, from code that waits."""

    def __init__(self, path, uri, headers):
        self.ws = self.run(lambda: unix_connect(str(path), uri, extra_headers=headers, compression=None, max_size=None,
                                                open_timeout=20, close_timeout=10))

    @staticmethod
    def run(make):
        async def do():
            return await make()
        return asyncio.run_coroutine_threadsafe(do(), LOOP).result()

    @property
    def close_code(self):
        return self.ws.close_code

    def recv(self, timeout):
        return self.run(lambda: asyncio.wait_for(self.ws.recv(), timeout))

    def send(self, data):
        self.run(lambda: self.ws.send(data))

    def close(self):
        self.run(self.ws.close)


class Client:
    """A client that keeps count of the offset, as the contract tells clients to."""

    def __init__(self, execd, id_, query=""):
        self.ws = WebSocket(execd.path, f"ws://execd/pty/{id_}/ws{query}", execd.headers())
        self.offset = None
        self.output, self.errors, self.replayed = b"", b"", b""
        self.news = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.close()

    def take(self, timeout=15):
        """One message; its kind."""
        message = self.ws.recv(timeout)
        if isinstance(message, str):
            self.news.append(json.loads(message))
            return self.news[-1]["type"]
        kind, rest = message[0], message[1:]
        if kind == REPLAY:
            self.offset = struct.unpack(">Q", rest[:8])[0] + len(rest) - 8
            self.replayed += rest[8:]
            return kind
        assert kind in (STDOUT, STDERR) and 0 < len(rest) <= 32 * 1024
        self.offset = (self.offset or 0) + len(rest)
        if kind == STDOUT:
            self.output += rest
        else:
            self.errors += rest
        return kind

    def connected(self):
        while self.take() != "connected":
            pass
        return self.news[-1]

    def type(self, text):
        self.ws.send(b"\0" + text.encode())

    def say(self, **order):
        self.ws.send(json.dumps(order))

    def until(self, text, of="output", seconds=15):
        deadline = time.monotonic() + seconds
        while text.encode() not in getattr(self, of):
            assert time.monotonic() < deadline, (self.output, self.news)
            self.take(seconds)
        return getattr(self, of)

    def until_match(self, pattern):
        while not (found := re.search(pattern, self.output)):
            self.take()
        return found.group(1)

    def until_closed(self):
        """All that comes until the other side closes: code and reason."""
        try:
            while True:
                self.take(30)
        except ConnectionClosed as e:
            assert e.rcvd is not None, e
            return e.rcvd.code, e.rcvd.reason


def status(execd, id_):
    return execd.request("GET", f"/pty/{id_}")


def offset(execd, id_):
    return status(execd, id_).json["output_offset"]


# ---- REST ----


def test_a_session_has_no_process_before_a_client_comes(execd, pty):
    assert status(execd, pty).json == {"session_id": pty, "running": False, "output_offset": 0}


@pytest.mark.parametrize("method, path", [("GET", "/pty/none"), ("DELETE", "/pty/none"), ("GET", "/pty/none/ws")])
def test_an_unknown_session_is_not_found(execd, method, path):
    answer = execd.request(method, path)
    assert answer.status == 404 and answer.json["code"] == "CONTEXT_NOT_FOUND"


@pytest.mark.parametrize("body", ["{", "[]", '{"cwd":7}', '{"command":{}}'])
def test_a_bad_body_is_refused_by_name(execd, body):
    answer = execd.request("POST", "/pty", body)
    assert answer.status == 400 and answer.json["code"] == "INVALID_REQUEST_BODY"


def test_the_directory_is_made_and_one_that_cannot_be_fails_once(execd, tmp_path):
    id_ = new(execd, cwd=str(tmp_path / "a/b"))
    assert (tmp_path / "a/b").is_dir()
    with Client(execd, id_) as c:
        c.connected()
        c.type("pwd; exit\n")
        assert c.until_closed()[0] == 1000 and f"{tmp_path}/a/b\r\n".encode() in c.output
    (tmp_path / "file").write_text("")
    answer = execd.request("POST", "/pty", json.dumps({"cwd": str(tmp_path / "file/x")}))
    assert answer.status == 400 and list(answer.json) == ["code", "message"]


def test_a_plain_request_is_no_websocket(execd, pty):
    assert execd.request("GET", f"/pty/{pty}/ws").status == 426
    assert execd.request("GET", f"/pty/{pty}/ws?since=x").json["code"] == "INVALID_REQUEST_BODY"
    assert execd.request("GET", f"/pty/{pty}/ws?pty=maybe").status == 400
    assert not status(execd, pty).json["running"]


def test_the_token_is_asked_for(execd, pty):
    for path in (f"/pty/{pty}", f"/pty/{pty}/ws"):
        assert execd.request("GET", path, headers={HEADER: "wrong"}).status == 401


def test_there_are_at_most_so_many(tmp_path):
    for d in serve(tmp_path):
        ids = [new(d) for _ in range(32)]
        answer = d.request("POST", "/pty")
        assert answer.status == 429 and answer.headers["Retry-After"]
        assert d.request("DELETE", f"/pty/{ids[3]}").status == 200
        wait_for(lambda: d.request("POST", "/pty").status == 201)


# ---- the terminal ----


@pytest.mark.smoke
def test_a_shell_with_a_terminal(execd, pty):
    with Client(execd, pty) as c:
        assert c.connected() == {"type": "connected", "session_id": pty, "mode": "pty"}
        assert status(execd, pty).json["running"]
        c.type("tty; stty size; echo env:$FROM_FILE; echo ids:$$:$(ps -o sid= -p $$); stty -a | grep -o iutf8; exit 3\n")
        assert c.until_closed() == (1000, "process exited")
        got = c.output.decode().split("\n", 1)[1]
        assert re.search(r"/dev/pts/\d+\r\n24 80\r\nenv:file\r\n", got) and "\niutf8\r" in got
        pid, sid = re.search(r"ids:(\d+): *(\d+)\r", got).groups()
        assert pid == sid
        assert c.news[-1] == {"type": "exit", "exit_code": 3}
    assert status(execd, pty).json == {"session_id": pty, "running": False, "output_offset": c.offset}


def test_term_is_left_alone_where_there_is_one_and_made_where_there_is_none(tmp_path):
    for term, want in (("vt100", "vt100"), (None, "xterm-256color")):
        folder = tmp_path / str(term)
        folder.mkdir()
        env = {"TERM": term} if term else {}
        before = os.environ.pop("TERM", None)
        try:
            for d in serve(folder, env=env):
                with Client(d, new(d, command="echo [$TERM]")) as c:
                    c.until_closed()
                    assert f"[{want}]".encode() in c.output
        finally:
            if before is not None:
                os.environ["TERM"] = before


def test_a_resize_is_seen_by_the_program(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        c.say(type="resize", cols=120, rows=40)
        for wrong in ({"cols": 0, "rows": 5}, {"cols": 5}, {"cols": "5", "rows": 5}, {"cols": 70000, "rows": 5}, {"cols": 1.5, "rows": 5}):
            c.say(type="resize", **wrong)
        c.type("stty size\n")
        c.until("40 120")


def test_programs_see_their_standard_streams_and_nothing_else(execd):
    for query in ("", "?pty=0"):
        with Client(execd, new(execd, command="ls /proc/self/fd; ls -l /proc/$$/fd | wc -l"), query) as c:
            c.until_closed()
            assert [line for line in c.output.decode().split() if line.isdigit()][:4] == ["0", "1", "2", "3"]  # 3: ls
    with Client(execd, new(execd)) as c:
        c.connected()
        c.type("ls -x /proc/self/fd; echo do''ne\n")
        assert re.search(rb"0 +1 +2 +3\r\n", c.until("done\r\n"))


def test_stdin_comes_in_both_forms_and_is_echoed(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        c.type("echo on''e\n")
        assert b"echo on''e" in c.until("one\r\n")
        c.say(type="stdin", data="echo t\"\"wo\n")
        c.until("two\r\n")


def test_what_is_typed_before_the_shell_is_up_is_not_lost(execd, pty):
    with Client(execd, pty) as c:
        c.type("echo ear''ly; exit\n")
        assert c.until_closed()[0] == 1000 and b"early\r\n" in c.output


def test_much_input_waits_for_the_program(execd, tmp_path):
    with Client(execd, new(execd, command=f"stty raw -echo; echo ready; sleep 0.5; head -c 700000 > {tmp_path}/got; echo over")) as c:
        c.until("ready")
        data = os.urandom(700000)
        c.ws.send(b"\0" + data)
        c.until("over")
        assert (tmp_path / "got").read_bytes() == data


def test_the_exit_comes_after_the_last_output(execd):
    for _ in range(5):
        with Client(execd, new(execd, command="seq 1 20000; printf end; exit 7")) as c:
            assert c.until_closed() == (1000, "process exited")
            assert c.news[-1] == {"type": "exit", "exit_code": 7}
            assert c.output == b"".join(b"%d\r\n" % i for i in range(1, 20001)) + b"end"


@pytest.mark.parametrize("command, code", [("exit 0", 0), ("kill -9 $$", 137), ("nosuchprogram", 127)])
def test_how_it_ended(execd, command, code):
    with Client(execd, new(execd, command=command)) as c:
        c.until_closed()
        assert c.news[-1] == {"type": "exit", "exit_code": code}


def test_what_the_shell_leaves_running_does_not_hold_the_end_and_lives_on(execd, tmp_path):
    with Client(execd, new(execd, command=f"trap '' HUP; (sleep 5; echo late; echo still > {tmp_path}/x) & echo first")) as c:
        began = time.monotonic()
        c.until_closed()
        assert c.output == b"first\r\n" and time.monotonic() - began < 4
    wait_for(lambda: (tmp_path / "x").exists())


# ---- signals ----


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGQUIT", 131), ("SIGKILL", 137), ("SIGHUP", 129)])
def test_a_signal_reaches_the_job_in_front_and_not_the_shell(execd, pty, name, code):
    with Client(execd, pty) as c:
        c.connected()
        c.type("ulimit -c 0; echo go$((1)); sleep 100; echo code=$?.\n")
        c.until("go1")
        wait_for(lambda: "sleep" in subprocess.run(["pgrep", "-a", "-P", shell_of(execd)], capture_output=True, text=True, check=False).stdout)
        c.say(type="signal", signal="SIGUSR1")  # not one of those
        c.say(type="signal", signal=name)
        if name == "SIGINT":  # bash drops the rest of the line, as at any terminal
            time.sleep(0.3)
            c.type("echo code=$?.\n")
        c.until(f"code={code}.")
        c.type("echo shell:$((6*7))\n")
        c.until("shell:42")


def shell_of(execd):
    """The youngest child of execd."""
    pids = subprocess.run(["pgrep", "-n", "-P", str(execd.process.pid)], capture_output=True, text=True, check=True).stdout.split()
    return pids[-1]


def test_control_c_is_the_terminals_own(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        c.type("sleep 100\n")
        c.until("sleep 100\r\n")
        time.sleep(0.3)
        c.type("\x03")
        c.until("^C")
        c.type("echo code=$?.\n")
        c.until("code=130.")


# ---- pipes ----


def test_without_a_terminal_stdout_and_stderr_are_apart(execd, pty):
    with Client(execd, pty, "?pty=0") as c:
        assert c.connected()["mode"] == "pipe"
        c.say(type="resize", cols=5, rows=5)
        c.type("tty; echo out; echo err >&2\n")
        c.until("out\n")
        c.until("err\n", of="errors")
        assert c.output == b"not a tty\nout\n" and c.errors == b"err\n"
        c.type("sleep 100\n")
        time.sleep(0.3)
        c.say(type="signal", signal="SIGTERM")
        assert c.until_closed() == (1000, "process exited")
        assert c.news[-1] == {"type": "exit", "exit_code": 143}
        assert c.offset == offset(execd, pty) == len(c.output) + len(c.errors)


def test_input_that_nobody_takes_is_told_once_and_the_program_goes_on(execd):
    with Client(execd, new(execd, command="exec <&-; echo closed; sleep 0.5; echo more; exit 3"), "?pty=0") as c:
        c.until("closed")
        c.type("x" * 100)
        c.type("y" * 100)
        assert c.until_closed() == (1000, "process exited")
        assert [n["type"] for n in c.news] == ["connected", "error", "exit"]
        assert c.news[1]["code"] == "STDIN_WRITE_FAILED" and c.news[2]["exit_code"] == 3
        assert c.output == b"closed\nmore\n"


def test_the_end_of_input_is_read_after_all_of_it(execd):
    with Client(execd, new(execd, command="sleep 0.3; cat | wc -c; exit 5"), "?pty=0") as c:
        for _ in range(8):
            c.ws.send(b"\0" + b"\0" * 65535)
        c.say(type="stdin_end")
        assert c.until_closed() == (1000, "process exited")
        assert c.output == b"524280\n" and c.news[-1] == {"type": "exit", "exit_code": 5}


def test_a_terminal_has_no_end_of_input(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        c.say(type="stdin_end")
        c.type("echo st''ill; exit\n")
        c.until("still")


def test_a_program_with_pipes_waits_for_a_slow_reader_and_loses_nothing(execd):
    command = "head -c 6000000 /dev/zero | tr '\\0' x; echo; exit 4"
    with Client(execd, new(execd, command=command), "?pty=0") as c:
        c.connected()
        c.ws.ws.transport.pause_reading()
        time.sleep(12)  # beyond what a terminal's shell waits, and what its client may take
        c.ws.ws.transport.resume_reading()
        assert c.until_closed() == (1000, "process exited")
        assert c.output == b"x" * 6000000 + b"\n" and not c.replayed and c.news[-1]["exit_code"] == 4


def test_commands_that_are_over_make_room_for_more(execd):
    for i in range(40):
        with Client(execd, new(execd, command=f"exit {i}"), "?pty=0") as c:
            assert c.until_closed()[0] == 1000 and c.news[-1]["exit_code"] == i


# ---- coming back ----


def test_closing_the_socket_leaves_the_shell_running_and_its_output_is_replayed(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        c.type("X=kept; echo $((1)).; sleep 0.5; echo behind your back\n")
        c.until("1.")
    wait_for(lambda: offset(execd, pty) > c.offset + 15)
    assert status(execd, pty).json["running"]
    with Client(execd, pty, f"?since={c.offset}") as again:
        assert again.take() == REPLAY
        again.connected()
        assert b"behind your back\r\n" in again.replayed and b"1." not in again.replayed
        again.type("echo $X.\n")
        again.until("kept.")
    with Client(execd, pty) as whole:  # everything that is retained
        whole.connected()
        assert b"1." in whole.replayed and b"kept." in whole.replayed and len(whole.replayed) == whole.offset
        assert whole.news[-1]["type"] == "connected"
    with Client(execd, pty, "?since=99999999") as none:
        assert none.take() == "connected" and none.replayed == b""


def test_the_ring_keeps_the_last_mebibyte(execd):
    id_ = new(execd, command="seq 1 300000; sleep 100")
    with Client(execd, id_, "?pty=0") as c:
        c.until("\n300000\n", seconds=60)
        total = c.offset
    assert total == offset(execd, id_) > RING
    with Client(execd, id_) as again:
        again.connected()
        assert again.replayed == c.output[-RING:] and again.offset == total
    with Client(execd, id_, f"?since={total - 10}") as again:
        again.connected()
        assert again.replayed == c.output[-10:]


def test_a_new_shell_after_the_end_and_offsets_go_on(execd, pty):
    for i in range(3):
        before = offset(execd, pty)
        with Client(execd, pty, f"?since={before}") as c:
            c.offset = before
            assert c.connected() and c.replayed == b""
            c.type(f"echo round-$(({i}+10)); A=${{A}}x; echo $A; exit {i}\n")
            c.until_closed()
            assert f"round-{i + 10}".encode() in c.output and b"\r\nx\r\n" in c.output
            assert c.news[-1]["exit_code"] == i
        assert offset(execd, pty) == c.offset


def test_only_one_client_and_takeover(execd, pty):
    with Client(execd, pty) as first:
        first.connected()
        first.type("echo pid=$$.\n")
        pid = first.until_match(rb"pid=(\d+)\.")
        for headers in ({}, {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}):
            answer = execd.request("GET", f"/pty/{pty}/ws", headers=headers)
            assert answer.status == 409 and answer.json["code"] == "ALREADY_CONNECTED"
        assert execd.request("GET", f"/pty/{pty}/ws?takeover=1").status == 409  # not a handshake: evicts nobody
        bad = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "short"}
        assert execd.request("GET", f"/pty/{pty}/ws?takeover=1", headers=bad).status == 400
        first.say(type="ping")
        while first.take() != "pong":
            pass
        with Client(execd, pty, "?takeover=1") as second:
            assert first.until_closed() == (TAKEN_OVER, "TAKEN_OVER")
            second.connected()
            second.type("echo again=$$.\n")
            assert b"again=" + pid + b"." in second.until("again=" + pid.decode())
            with Client(execd, pty, "?takeover=1") as third:
                assert second.until_closed()[0] == TAKEN_OVER
                third.connected()


def test_many_takeovers_at_once_leave_one(execd, pty):
    with Client(execd, pty) as first:
        first.connected()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            clients = list(pool.map(lambda _: Client(execd, pty, "?takeover=1"), range(8)))
        codes = []
        alive = []
        for c in [first, *clients]:
            c.type("echo I am $((1)) here\n") if not c.ws.close_code else None
            try:
                c.until("I am 1 here", seconds=3)
                alive.append(c)
            except ConnectionClosed as e:
                codes.append(e.rcvd.code)
        assert codes == [TAKEN_OVER] * 8 and len(alive) == 1
        alive[0].ws.close()


def test_delete_ends_it_and_tells_the_client(execd):
    id_ = new(execd)
    with Client(execd, id_) as c:
        c.connected()
        c.type("trap '' HUP TERM INT; (trap '' HUP TERM INT; sleep 1000)\n")
        c.until("sleep 1000")
        time.sleep(0.3)
        began = time.monotonic()
        assert execd.request("DELETE", f"/pty/{id_}").status == 200
        assert c.until_closed() == (1000, "process exited") and time.monotonic() - began < 3
        assert c.news[-1] == {"type": "exit", "exit_code": 137}
    assert status(execd, id_).status == 404
    assert execd.request("DELETE", f"/pty/{id_}").status == 404


def test_a_shell_that_cannot_be_started(execd, tmp_path):
    id_ = new(execd, cwd=str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    (tmp_path / "gone").touch()
    with Client(execd, id_) as c:
        assert c.until_closed() == (1011, "START_FAILED")
        assert c.news[-1]["type"] == "error" and c.news[-1]["code"] == "START_FAILED" and c.news[-1]["error"]
    (tmp_path / "gone").unlink()
    with Client(execd, id_) as c:
        c.connected()


def test_without_bash_there_is_sh(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "ls"):
        (programs / name).symlink_to(shutil.which(name))
    for d in serve(tmp_path, env={"PATH": str(programs)}):
        with Client(d, new(d)) as c:
            c.connected()
            c.type("echo $0 $((40+2)); exit\n")
            c.until_closed()
            assert b"sh 42\r\n" in c.output


# ---- frames ----


def test_orders_that_make_no_sense(execd, pty):
    with Client(execd, pty) as c:
        c.connected()
        for ignored in ("no json", "[]", "7", '{"type":"stdin"}', '{"type":"signal","signal":7}', b"", b"\7abc", b"\0", '{"type":"ping"'):
            c.ws.send(ignored)
        for wrong in ('{"type":"dance"}', "{}", '{"type":7}', '{"type":"stdin","data":"' + "x" * 65536 + '"}'):
            c.ws.send(wrong)
            while c.take() != "error":
                pass
            assert c.news[-1]["code"] == "INVALID_FRAME" and c.news[-1]["error"]
        c.say(type="ping")
        while c.take() != "pong":
            pass
        assert c.news[-1] == {"type": "pong"}


class Raw:
    """A WebSocket whose frames are made by hand."""

    def __init__(self, execd, id_, query=""):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(20)
        self.s.connect(str(execd.path))
        self.s.sendall(f"GET /pty/{id_}/ws{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{HEADER}: {execd.token}\r\n\r\n".encode())
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        assert b" 101 " in head and b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        assert b"extensions" not in head.lower()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def more(self):
        piece = self.s.recv(65536)
        if not piece:
            raise EOFError
        self.data += piece

    def send(self, opcode, payload=b"", fin=True, masked=True, reserved=0, length=None):
        n = len(payload) if length is None else length
        head = bytes([(0x80 if fin else 0) | reserved | opcode])
        mark = 0x80 if masked else 0
        head += bytes([mark | n]) if n < 126 else bytes([mark | 126]) + struct.pack(">H", n) if n < 65536 else \
            bytes([mark | 127]) + struct.pack(">Q", n)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.s.sendall(head + (b"\0\0\0\0" if masked else b"") + payload)

    def frame(self):
        def need(n):
            while len(self.data) < n:
                self.more()
        need(2)
        n, at = self.data[1] & 127, 2
        if n == 126:
            need(4)
            n, at = struct.unpack(">H", self.data[2:4])[0], 4
        elif n == 127:
            need(10)
            n, at = struct.unpack(">Q", self.data[2:10])[0], 10
        need(at + n)
        opcode, payload, self.data = self.data[0] & 15, self.data[at:at + n], self.data[at + n:]
        return opcode, payload

    def close_code(self):
        while True:
            opcode, payload = self.frame()
            if opcode == 8:
                return struct.unpack(">H", payload[:2])[0]


@pytest.mark.parametrize("frames, code", [
    ([dict(opcode=2, payload=b"\0ls\n", masked=False)], 1002),
    ([dict(opcode=2, payload=b"\0ls\n", reserved=0x40)], 1002),
    ([dict(opcode=3, payload=b"x")], 1002),
    ([dict(opcode=0, payload=b"x")], 1002),
    ([dict(opcode=9, payload=b"x" * 126)], 1002),
    ([dict(opcode=9, payload=b"x", fin=False)], 1002),
    ([dict(opcode=2, payload=b"\0a", fin=False), dict(opcode=2, payload=b"\0b")], 1002),
    ([dict(opcode=2, payload=b"", length=1024 * 1024 + 1)], 1009),
    ([dict(opcode=2, payload=b"\0" + b"\n" * 600000, fin=False), dict(opcode=0, payload=b"", length=600000)], 1009),
    ([dict(opcode=1, payload=b"\xff\xfe")], 1007),
    ([dict(opcode=9, payload=b"x")] * 80, 1008),
    ([dict(opcode=8, payload=struct.pack(">H", 999))], 1002),
    ([dict(opcode=8, payload=b"\3")], 1002),
    ([dict(opcode=8, payload=struct.pack(">H", 1000))], 1000),
])
def test_who_breaks_the_protocol_is_told_and_the_shell_stays(execd, frames, code):
    id_ = new(execd)
    with Raw(execd, id_) as r:
        for f in frames:
            r.send(**f)
        assert r.close_code() == code
    wait_for(lambda: execd.request("GET", f"/pty/{id_}/ws").status == 426)  # not held any more
    assert status(execd, id_).json["running"]


def test_messages_in_fragments_with_controls_in_between(execd):
    id_ = new(execd)
    with Raw(execd, id_) as r:
        r.send(2, b"\0echo fr", fin=False)
        r.send(9, b"ping")
        r.send(0, b"ag", fin=False)
        r.send(0, b"''ments\n")
        seen, pong = b"", False
        while b"fragments\r\n" not in seen or not pong:
            opcode, payload = r.frame()
            pong |= opcode == 10 and payload == b"ping"
            seen += payload[1:] if opcode == 2 else b""


def test_large_messages_within_the_memory_that_there_is(execd):
    """A mebibyte each, unfinished, from many clients: some are refused, execd goes on."""
    ids = [new(execd) for _ in range(16)]
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(Raw(execd, id_)) for id_ in ids]
        for r in raws:
            r.send(2, b"\0" + b"x" * 999999, fin=False)
        time.sleep(0.5)
        refused = 0
        for r in raws:
            r.s.settimeout(0.2)
            try:
                while True:
                    opcode, payload = r.frame()
                    if opcode == 8:
                        assert struct.unpack(">H", payload[:2])[0] == 1009
                        refused += 1
                        break
            except TimeoutError:
                pass
        assert 8 <= refused < 16
        assert execd.request("GET", "/ping").status == 200
    assert execd.command("echo fine")[1]["text"] == "fine"
    wait_for(lambda: all(execd.request("GET", f"/pty/{id_}/ws").status == 426 for id_ in ids))
    with Client(execd, new(execd, command="stty raw; head -c 1000000 | wc -c")) as c:  # the memory is there again
        time.sleep(0.3)
        c.ws.send(b"\0" + b"y" * 1000000)
        c.until("1000000")


# ---- a client that does not keep up ----


def rss(execd):
    with open(f"/proc/{execd.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def test_a_client_that_stops_reading_is_dropped_and_the_shell_runs_on(execd, tmp_path):
    id_ = new(execd, command=f"seq 1 2000000; echo over > {tmp_path}/over; sleep 100")
    before = rss(execd)
    with Raw(execd, id_) as r:
        time.sleep(1)
        first = offset(execd, id_)
        time.sleep(1)
        assert offset(execd, id_) == first < 2 * RING  # it waits for its reader
        wait_for(lambda: (tmp_path / "over").exists(), 60)  # but not for ever
        assert rss(execd) - before < 8 * 1024 * 1024
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                r.data = b""
                r.more()
    with Client(execd, id_, f"?since={first}") as c:
        c.connected()
        assert len(c.replayed) == RING and c.replayed.endswith(b"1999999\r\n2000000\r\n")


def test_a_client_that_pauses_skips_and_knows_what(execd):
    """After a while the shell goes on without it; then it gets what the ring still has."""
    id_ = new(execd, command="stty -opost; seq -w 1 600000; sleep 100")
    whole = b"".join(b"%06d\n" % i for i in range(1, 600001))
    with Raw(execd, id_) as r:
        seen, skipped, at, replays = 0, 0, 0, 0

        def take():
            nonlocal at, seen, skipped, replays
            opcode, payload = r.frame()
            if opcode != 2:
                return
            if payload[0] == REPLAY:
                to = struct.unpack(">Q", payload[1:9])[0]
                assert to >= at
                replays, skipped, at, payload = replays + 1, skipped + to - at, to, payload[8:]
            assert payload[1:] == whole[at:at + len(payload) - 1]
            seen += len(payload) - 1
            at += len(payload) - 1

        time.sleep(2)
        before = offset(execd, id_)
        wait_for(lambda: offset(execd, id_) > before, 30)
        time.sleep(1)
        assert before + 512 * 1024 <= offset(execd, id_) < before + 768 * 1024
        while at < len(whole):
            take()
        assert seen + skipped == len(whole) == offset(execd, id_) and replays > 0


def test_clients_that_vanish_leave_nothing(execd):
    id_ = new(execd, command="while :; do echo line; sleep 0.01; done")
    fds = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
    for _ in range(20):
        with Raw(execd, id_, "?takeover=1") as r:
            r.frame()
    wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= fds + 8)
    wait_for(lambda: execd.request("GET", f"/pty/{id_}/ws").status == 426)


# ---- the end ----


def test_stopping_ends_the_shells_and_tells_their_clients(tmp_path):
    d = start(tmp_path).wait_ready()
    ids = [new(d) for _ in range(3)]
    with Client(d, ids[0]) as c, Client(d, ids[1], "?pty=0") as piped:
        c.connected()
        piped.connected()
        c.type("echo pid=$$.; sleep 1000\n")
        pid = int(c.until_match(rb"pid=(\d+)\."))
        began = time.monotonic()
        d.process.send_signal(signal.SIGTERM)
        for each in (c, piped):
            assert each.until_closed() == (1000, "process exited")
            assert each.news[-1] == {"type": "exit", "exit_code": 129}
    d.stop()
    assert time.monotonic() - began < 4
    assert not os.path.exists(f"/proc/{pid}")


def test_a_shell_that_will_not_go_is_killed(tmp_path):
    d = start(tmp_path).wait_ready()
    with Client(d, new(d, command="trap '' HUP TERM; echo deaf; while :; do sleep 1; done")) as c:
        c.until("deaf")
        d.process.send_signal(signal.SIGTERM)
        assert c.until_closed()[0] == 1000 and c.news[-1]["exit_code"] == 137
    d.stop()


def test_nothing_that_is_typed_or_run_is_logged(tmp_path):
    d = start(tmp_path).wait_ready()
    with Client(d, new(d, command="echo s3cret-command; read x")) as c:
        c.until("s3cret-command")
        c.type("s3cret-typed\n")
        c.until_closed()
    d.command("echo s3cret-text")
    d.request("GET", "/ping?key=s3cret-query")
    d.stop()
    lines = [json.loads(line) for line in d.stderr.splitlines()]
    assert "s3cret" not in d.stderr and d.token not in d.stderr
    requests = [(r["method"], r["path"].split("/")[1], r["status"]) for r in lines if r["msg"] == "request"]
    for want in (("POST", "pty", 201), ("GET", "pty", 101), ("POST", "command", 200)):
        assert requests.count(want) == 1
    assert all({"ts", "level", "msg"} <= set(line) for line in lines)
