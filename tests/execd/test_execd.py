# SPDX-License-Identifier: Apache-2.0
"""execd as an ordinary process, and as PID 1 with descriptors made by hand."""
import concurrent.futures
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

from conftest import BIN, assert_clean, clean_environment, free_port

EXECD = BIN / "execd"
TOKEN = "0123456789abcdef0123456789abcdef"
HEADER = "X-EXECD-ACCESS-TOKEN"
UNAUTHORIZED = {"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"}
RECORD = struct.Struct("<IHHiiIIq216s8x")
MAGIC = 0x31445845
STARTED, READY, EXITED, FAILED = 1, 2, 3, 4
SEGMENT_MAX = 1024 * 1024

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces and user ids")


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("execd", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Execd:
    """A client of an execd, and its process if it has one of ours."""

    def __init__(self, path, process=None, stderr_path=None, token=TOKEN):
        self.path, self.process, self.stderr_path, self.token = path, process, stderr_path, token

    @property
    def stderr(self):
        return self.stderr_path.read_text(errors="replace")

    def headers(self, more=None):
        return {**({HEADER: self.token} if self.token else {}), **(more or {})}

    def request(self, method, path, body=None, headers=None, timeout=30):
        connection = Connection(self.path, timeout)
        try:
            connection.request(method, path, body=body, headers=self.headers(headers))
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def command(self, command, timeout_s=30, **fields):
        answer = self.request("POST", "/command", json.dumps({"command": command, **fields}), timeout=timeout_s)
        assert answer.status == 200, answer.body
        return events_of(answer.body)

    def wait_ready(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.process and self.process.poll() is not None:
                pytest.fail(f"execd ended with {self.process.returncode}: {self.stderr}")
            with contextlib.suppress(OSError):
                assert self.request("GET", "/ping").status == 200
                return self
            time.sleep(0.02)
        pytest.fail(f"execd does not answer: {self.stderr}")

    def stop(self, status=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            got = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"execd does not stop: {self.stderr}")
        assert_clean(self.stderr)
        assert got == status, self.stderr


def events_of(body):
    """Each event is one line of JSON and an empty line; pings after the first are left out."""
    text = body.decode()
    assert text.endswith("\n\n") and "data:" not in text
    events = [json.loads(line) for line in text[:-2].split("\n\n")]
    for e in events:
        assert isinstance(e["timestamp"], int) and abs(e["timestamp"] / 1000 - time.time()) < 180
    assert events[0]["type"] == "init" and re.fullmatch("[0-9a-f]{32}", events[0]["text"])
    assert events[1]["type"] == "ping" and events[1]["text"] == "pong"
    events = [events[0]] + [e for e in events if e["type"] != "ping" and e is not events[0]]
    ends = [e for e in events if e["type"] in ("error", "execution_complete")]
    assert len(ends) == 1 and events[-1] is ends[0], events
    return events


def texts(events, kind="stdout"):
    return [e["text"] for e in events if e["type"] == kind]


def error_of(events):
    return events[-1]["error"]


STARTED_HERE = []


def start(folder, args=(), token=TOKEN, env=None, command=(), wrapper=(), **popen):
    path = folder / "execd.sock"
    stderr_path = folder / "execd.stderr"
    full = clean_environment(folder, **({"EXECD_ACCESS_TOKEN": token} if token else {}))
    # What the sanitizer holds back of freed memory would hide what execd uses.
    full["ASAN_OPTIONS"] = ":".join(filter(None, [full.get("ASAN_OPTIONS"), "quarantine_size_mb=1"]))
    full.update(env or {})
    with open(stderr_path, "wb") as stderr:
        process = subprocess.Popen(
            [*wrapper, EXECD, "--socket", path, *args, *command], env=full, cwd=folder, stderr=stderr,
            stdin=subprocess.DEVNULL, **popen)
    STARTED_HERE.append(process)
    return Execd(path, process, stderr_path, token)


def serve(folder, **more):
    """What start() gives, ready, and ended in order: for the body of a fixture."""
    d = start(folder, **more)
    try:
        yield d.wait_ready()
        d.stop()
    finally:
        d.process.kill()
        d.process.wait()


@pytest.fixture(scope="module", autouse=True)
def nothing_stays():
    """A test that fails leaves its execd running."""
    yield
    for process in STARTED_HERE:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):
    folder = tmp_path_factory.mktemp("execd")
    envs = folder / "envs"
    envs.write_text("# from the file\nFROM_FILE=file $HOME\nBOTH=file\nno equals sign\n")
    d = start(folder, env={"EXECD_ENVS": str(envs), "BOTH": "process", "JUPYTER_TOKEN": "secret"})
    yield d.wait_ready()
    d.stop()


# ---- events ----


@pytest.mark.smoke
def test_hello_is_one_init_one_stdout_one_complete(execd):
    events = execd.command("echo 'Hello'")
    assert [e["type"] for e in events] == ["init", "stdout", "execution_complete"]
    assert events[1] == {"type": "stdout", "text": "Hello", "timestamp": events[1]["timestamp"]}
    assert isinstance(events[2]["execution_time"], int) and events[2]["execution_time"] < 30000


def test_the_stream_has_the_headers_that_clients_and_proxies_need(execd):
    answer = execd.request("POST", "/command", '{"command":"true"}', {"X-Request-ID": "abc 123"})
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["X-Request-ID"] == "abc 123"


@pytest.mark.parametrize("command, want", [
    (r"printf 'a\n\nb\n\n\nc\n'", ["a", "\n", "b", "\n", "\n", "c"]),
    (r"printf 'a\nb'", ["a", "b"]),
    (r"printf '10%%\r20%%\r\n30%%'", ["10%", "20%", "30%"]),
    (r"printf 'a\r'; sleep 0.1; printf '\nb\n'", ["a", "b"]),
    (r"printf '\r\n\r\n'", ["\n", "\n"]),
    (r"printf 'x'; sleep 0.1; printf 'y\n'", ["xy"]),
    (r"printf '\xff\xfea\n'", ["\ufffd\ufffda"]),
    (r"printf '\xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9\n'", ["\x85 \u2028 \u2029"]),
    (r"printf '\x00\x01\x1b[0m\n'", ["\x00\x01\x1b[0m"]),
    (r"printf '\xe2'; sleep 0.1; printf '\x82\xac\n'", ["€"]),
    ("head -c 262144 /dev/zero | tr '\\0' x; echo", ["x" * 262144]),
    ("true", []),
])
def test_lines_become_events(execd, command, want):
    assert texts(execd.command(command)) == want


def test_no_line_separator_of_any_reader_is_left_unescaped(execd):
    answer = execd.request("POST", "/command", json.dumps({"command": r"printf '\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\x0b\x0c\x1c\n'"}))
    for line in answer.body.decode().splitlines():
        assert line == "" or json.loads(line)


def test_a_line_beyond_a_mebibyte_is_split_and_nothing_is_lost(execd):
    got = texts(execd.command("head -c 2500000 /dev/zero | tr '\\0' y; echo; echo after"))
    assert got[-1] == "after" and "".join(got[:-1]) == "y" * 2500000
    assert [len(t) for t in got[:-1]] == [1048576, 1048576, 402848]


def test_events_stay_below_four_mebibytes_whatever_they_hold(execd):
    answer = execd.request("POST", "/command", json.dumps({"command": "head -c 1000000 /dev/zero | tr '\\0' '\\1'; echo"}))
    assert max(len(line) for line in answer.body.split(b"\n")) < 4 * 1024 * 1024
    assert "".join(texts(events_of(answer.body))) == "\x01" * 1000000


def test_stderr_is_its_own_stream_and_comes_before_the_end(execd):
    events = execd.command("echo out; echo err >&2; exit 3")
    assert texts(events) == ["out"] and texts(events, "stderr") == ["err"]
    assert error_of(events) == {"ename": "CommandExecError", "evalue": "3", "traceback": ["exit status 3"]}


@pytest.mark.parametrize("command, value, trace", [
    ("exit 1", "1", "exit status 1"),
    ("exit 255", "255", "exit status 255"),
    ("nosuchcommand-x", "127", "exit status 127"),
    ("kill -9 $$", "137", "signal: killed"),
    ("kill -TERM $$", "143", "signal: terminated"),
    ("kill -INT $$; sleep 1", "130", "signal: interrupt"),
    ("ulimit -c 0; kill -SEGV $$", "139", "signal: segmentation fault"),
    ("kill -42 $$", "170", "signal: signal 42"),
])
def test_failures_tell_their_exit_code(execd, command, value, trace):
    assert error_of(execd.command(command)) == {"ename": "CommandExecError", "evalue": value, "traceback": [trace]}


def test_an_unknown_command_is_named_on_stderr(execd):
    assert texts(execd.command("nosuchcommand-x"), "stderr") == ["bash: line 1: nosuchcommand-x: command not found"]


def test_a_quiet_stream_gets_pings(execd):
    answer = execd.request("POST", "/command", '{"command":"sleep 3.5"}')
    assert answer.body.count(b'"type":"ping"') == 2


def test_a_command_ends_without_delay(execd):
    execd.command("true")
    before = time.monotonic()
    for _ in range(10):
        execd.command("true")
    assert time.monotonic() - before < 3


# ---- the process ----


def test_the_process_decides_not_who_holds_its_pipes(execd, tmp_path):
    proof = tmp_path / "proof"
    before = time.monotonic()
    events = execd.command(f"(for i in $(seq 20); do sleep 0.2; echo late || exit; done; echo alive > {proof}) & echo now")
    assert texts(events) == ["now"] and time.monotonic() - before < 3
    wait_for(lambda: proof.exists() and proof.read_text() == "alive\n")


def test_timeout_kills_the_whole_group(execd, tmp_path):
    pids = tmp_path / "pids"
    events = execd.command(f"sleep 100 & echo $! > {pids}; echo begun; wait", timeout=400)
    assert texts(events) == ["begun"]
    assert error_of(events) == {"ename": "CommandExecError", "evalue": "137", "traceback": ["signal: killed"]}
    wait_for(lambda: not is_running(int(pids.read_text())))


def test_a_command_leads_its_group_with_no_input_and_no_descriptor_of_ours(execd):
    out = texts(execd.command("echo $$; ps -o pgid= -p $$ | tr -d ' '; readlink /proc/$$/fd/0; ls /proc/$$/fd; true"))
    assert out[0] == out[1] and out[2] == "/dev/null" and out[3:6] == ["0", "1", "2"]
    assert set(out[3:]) <= {"0", "1", "2", "255"}  # a pipe of the shell's own would be one more, for a moment


def test_no_signal_is_blocked_or_ignored(execd):
    out = dict(line.split(":") for line in texts(execd.command("grep -E '^Sig(Blk|Ign)' /proc/self/status")))
    of_libc = 0b11 << 31  # 32 and 33: the C library's own, which its sigaction() lets nobody touch
    assert int(out["SigBlk"], 16) == 0 and int(out["SigIgn"], 16) & ~of_libc == 0


def test_environment_is_ours_then_the_file_then_the_request(execd):
    command = 'echo "$FROM_FILE|$BOTH|$MINE|$EXECD_ACCESS_TOKEN|$JUPYTER_TOKEN"'
    home = str(execd.path.parent)
    assert texts(execd.command(command)) == [f"file {home}|file|||"]
    assert texts(execd.command(command, envs={"BOTH": "request", "MINE": "a=b c"})) == [f"file {home}|request|a=b c||"]


def test_no_process_shows_the_token(execd):
    assert TOKEN not in "".join(texts(execd.command("env; tr '\\0' '\\n' < /proc/$PPID/cmdline; tr '\\0' '\\n' < /proc/$PPID/environ")))
    assert TOKEN not in execd.stderr


def test_cwd(execd, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (execd.path.parent / "sub dir").mkdir(exist_ok=True)
    home = str(execd.path.parent)
    assert texts(execd.command("pwd", cwd=str(tmp_path))) == [str(tmp_path)]
    assert texts(execd.command("pwd -P", cwd=str(tmp_path / "link"))) == [str(tmp_path)]
    assert texts(execd.command("pwd", cwd="~/sub dir")) == [home + "/sub dir"]
    assert texts(execd.command("pwd", cwd="$HOME")) == [home]
    assert texts(execd.command("pwd", cwd="${D}/.", envs={"D": str(tmp_path)})) == [str(tmp_path)]
    assert texts(execd.command("pwd", cwd="sub dir")) == [home + "/sub dir"]
    assert texts(execd.command("pwd", cwd="")) == [home]


@needs_root
def test_user_and_group_ids(execd):
    show = "id -u; id -g; id -G; ulimit -c >/dev/null"
    assert texts(execd.command(show, uid=54321, cwd="/")) == ["54321", "54321", "54321"]
    assert texts(execd.command(show, uid=54321, gid=7, cwd="/")) == ["54321", "7", "7"]
    assert texts(execd.command(show, uid=0, gid=0))[:2] == ["0", "0"]
    nobody = subprocess.run(["id", "-u", "nobody"], capture_output=True, text=True, check=True).stdout.strip()
    want = subprocess.run(["id", "-G", "nobody"], capture_output=True, text=True, check=True).stdout.split()
    assert texts(execd.command(show, uid=int(nobody), cwd="/"))[2].split() == want


@needs_root
@pytest.mark.parametrize("ids, want", [
    ({"uid": "nobody"}, ["65534", "65534", "65534"]),
    ({"uid": "0"}, ["0", "0", "0"]),
    ({"uid": "54321"}, ["54321"] * 3),
    ({"uid": "nobody", "gid": "daemon"}, ["65534", "1", "1"]),
    ({"uid": 54321, "gid": "daemon"}, ["54321", "1", "1"]),
    ({"uid": "54321", "gid": "7"}, ["54321", "7", "7"]),
])
def test_user_and_group_by_name_or_number(execd, ids, want):
    assert texts(execd.command("id -u; id -g; id -G", cwd="/", **ids)) == want


# ---- what a command reads ----


def test_a_command_reads_what_it_is_given_and_then_the_end(execd):
    assert texts(execd.command("cat; echo end", stdin="one\ntwo\n")) == ["one", "two", "end"]
    assert texts(execd.command("od -An -tx1", stdin="a\0\u00e9")) == [" 61 00 c3 a9"]
    for nothing in ({}, {"stdin": ""}, {"stdin": None}):
        assert texts(execd.command("cat; echo end", **nothing)) == ["end"]


@pytest.mark.parametrize("size", [4095, 4096, 4097, 65537, 1 << 20])
def test_input_of_any_size_arrives_whole(execd, size):
    text = "".join(f"{i:07}\n" for i in range(size // 8 + 1))[:size]
    want = hashlib.sha256(text.encode()).hexdigest()
    assert texts(execd.command("sleep 0.05; sha256sum", stdin=text)) == [want + "  -"]


def test_a_command_in_the_background_reads_its_input_too(execd, tmp_path):
    out = tmp_path / "out"
    execd.command(f"cat > {out}.part; mv {out}.part {out}", background=True, stdin="x" * 300_000)
    wait_for(out.exists)
    assert out.read_text() == "x" * 300_000


def test_input_that_nobody_reads_holds_up_nothing(execd):
    began = time.monotonic()
    assert texts(execd.command("echo hi", stdin="x" * (1 << 20))) == ["hi"]
    assert error_of(execd.command("exec <&-; sleep 0.2; exit 3", stdin="x" * (1 << 20)))["evalue"] == "3"
    assert time.monotonic() - began < 5


def test_input_that_waits_is_bounded_and_paid_back(execd):
    """What the account has no room for is refused; those who wait do not keep the loop busy."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(open_stream(execd, command="sleep 30", stdin="x" * (1 << 20))) for _ in range(12)]
        heads = [s.recv(12) for s in sockets]
        assert heads.count(b"HTTP/1.1 503") >= 4 and heads.count(b"HTTP/1.1 200") >= 3, heads
        before = cpu_ticks(execd.process.pid)
        time.sleep(0.5)
        assert cpu_ticks(execd.process.pid) - before <= 10
        for pid in children_of(execd.process.pid):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not children_of(execd.process.pid))
    assert texts(execd.command("wc -c", stdin="x" * (1 << 20))) == [str(1 << 20)]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return sum(int(word) for word in f.read().rpartition(")")[2].split()[11:13])


@needs_root
def test_a_command_that_cannot_start_says_so_in_the_stream(execd, tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    error = error_of(execd.command("true", uid=54321, cwd=str(private)))
    assert error["ename"] == "CommandExecError" and "Permission denied" in error["evalue"]
    assert error["traceback"] == [error["evalue"]]


# ---- what is refused ----


@pytest.mark.parametrize("body, field", [
    ("", "empty"),
    ("   ", "empty"),
    ("{", "byte"),
    ("[]", ""),
    ("null", ""),
    ("{} {}", ""),
    ("{}", "command"),
    ('{"command":null}', "command"),
    ('{"command":""}', "command"),
    ('{"command":7}', "command"),
    ('{"command":"a\\u0000b"}', "command"),
    ('{"command":"true","command":"true"}', "command"),
    ('{"command":"true","COMMAND":"true"}', "command"),
    ('{"command":"true","cwd":"/does/not/exist"}', "cwd"),
    ('{"command":"true","cwd":"/etc/passwd"}', "cwd"),
    ('{"command":"true","cwd":"$UNDEFINED_NAME/x"}', "cwd"),
    ('{"command":"true","cwd":"/proc/self/root"}', "cwd"),
    ('{"command":"true","cwd":7}', "cwd"),
    ('{"command":"true","timeout":-1}', "timeout"),
    ('{"command":"true","timeout":"5"}', "timeout"),
    ('{"command":"true","timeout":1.5}', "timeout"),
    ('{"command":"true","uid":-1}', "uid"),
    ('{"command":"true","uid":65536}', "uid"),
    ('{"command":"true","uid":4294967295}', "uid"),
    ('{"command":"true","uid":1.5}', "uid"),
    ('{"command":"true","uid":true}', "uid"),
    ('{"command":"true","uid":""}', "uid"),
    ('{"command":"true","uid":"65536"}', "uid"),
    ('{"command":"true","uid":"99999999999999999999"}', "uid"),
    ('{"command":"true","uid":"-1"}', "uid"),
    ('{"command":"true","uid":"no such user"}', "uid"),
    ('{"command":"true","uid":"root:root"}', "uid"),
    ('{"command":"true","uid":"root","gid":"no such group"}', "gid"),
    ('{"command":"true","uid":0,"gid":"65536"}', "gid"),
    ('{"command":"true","gid":"root"}', "gid"),
    ('{"command":"true","gid":5}', "gid"),
    ('{"command":"true","uid":5,"gid":65536}', "gid"),
    ('{"command":"true","envs":{"A=B":"c"}}', "envs"),
    ('{"command":"true","envs":{"":"c"}}', "envs"),
    ('{"command":"true","envs":{"GOOD":"1","A\\nB":"c"}}', "envs: 'A\\nB' is not a name"),
    ('{"command":"true","envs":{"A\\u007f":"c"}}', "envs: 'A\\u007f' is not a name"),
    ('{"command":"true","envs":{"A\\u2028B":"c"}}', "envs: 'A\\u2028B' is not a name"),
    ('{"command":"true","envs":{"A":"b\\u0000"}}', "envs"),
    ('{"command":"true","envs":{"A":7}}', "envs"),
    ('{"command":"true","envs":[]}', "envs"),
    (json.dumps({"command": "true", "envs": {f"N{i}": "" for i in range(257)}}), "envs"),
    (json.dumps({"command": "true", "envs": {"A": "x" * 131072}}), "envs"),
    ('{"command":"true","background":"yes"}', "background"),
    ('{"command":"true","stdin":7}', "stdin"),
    ('{"command":"true","stdin":["x"]}', "stdin"),
    (json.dumps({"command": "true", "stdin": "x" * 1048577}), "stdin"),
])
def test_bad_requests_are_answered_with_the_fields_name(execd, body, field):
    answer = execd.request("POST", "/command", body)
    assert answer.status == 400, answer.body
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json["code"] == "INVALID_REQUEST_BODY" and field in answer.json["message"]


def test_a_secret_value_is_not_repeated(execd):
    answer = execd.request("POST", "/command", '{"command":"true","envs":{"A":["hunter2"]}}')
    assert answer.status == 400 and b"hunter2" not in answer.body


def test_lengths_that_are_too_large(execd):
    assert texts(execd.command("echo ok #" + "x" * (131071 - 9))) == ["ok"]
    answer = execd.request("POST", "/command", json.dumps({"command": "x" * 131072}))
    assert answer.status == 413 and "command" in answer.json["message"]
    assert execd.request("POST", "/command", b'{"command":"' + b"x" * 5_000_000 + b'"}').status == 413
    assert execd.request("GET", "/ping", headers={"X-Long": "y" * 20000}).status == 431


def test_nulls_unknown_keys_and_other_cases_are_taken(execd):
    body = {"Command": "echo $A", "cwd": None, "background": None, "timeout": None, "uid": None, "gid": None,
            "ENVS": {"A": "1"}, "unknown": {"x": []}}
    answer = execd.request("POST", "/command", json.dumps(body))
    assert texts(events_of(answer.body)) == ["1"]


def test_chunked_bodies_are_taken(execd):
    connection = Connection(execd.path, 10)
    connection.request("POST", "/command", body=iter([b'{"comm', b'and":"echo', b' hi"}']), headers=execd.headers(),
                       encode_chunked=True)
    assert texts(events_of(connection.getresponse().read())) == ["hi"]
    connection.close()


def test_ping_is_empty_and_says_so(execd):
    answer = execd.request("GET", "/ping")
    assert answer.status == 200 and answer.body == b"" and answer.headers["Content-Length"] == "0"


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/nope", 404), ("POST", "/ping", 404), ("GET", "/command", 404), ("DELETE", "/", 404),
    ("GET", "/a/../ping", 400), ("GET", "/a%2fb", 400), ("GET", "/%00", 400), ("GET", "//ping", 400),
])
def test_other_paths_and_methods(execd, method, path, status):
    answer = execd.request(method, path)
    assert answer.status == status and set(answer.json) == {"code", "message"}
    assert all(answer.json.values())


@pytest.mark.parametrize("method, path", [("GET", "/ping"), ("POST", "/command"), ("GET", "/nope"), ("GET", "/proxy/80/")])
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "0", TOKEN.upper()])
def test_every_route_asks_for_the_token(execd, method, path, token):
    other = Execd(execd.path, token=None)
    answer = other.request(method, path, headers={} if token is None else {HEADER: token})
    assert answer.status == 401 and answer.json == UNAUTHORIZED
    assert answer.body == json.dumps(UNAUTHORIZED, separators=(",", ":")).encode()


def test_request_ids_are_echoed_if_they_can_be(execd):
    assert execd.request("GET", "/ping", headers={"X-Request-ID": "r" * 128}).headers["X-Request-ID"] == "r" * 128
    assert "X-Request-ID" not in execd.request("GET", "/ping", headers={"X-Request-ID": "r" * 129}).headers
    assert "X-Request-ID" not in execd.request("GET", "/ping").headers
    assert Execd(execd.path, token="no").request("GET", "/x", headers={"X-Request-ID": "a"}).headers["X-Request-ID"] == "a"


def test_each_request_is_one_line_of_json_in_the_log(execd):
    execd.request("GET", "/logged?token=secret", headers={"X-Request-ID": "find-me"})
    deadline = time.monotonic() + 10
    mine = []
    while not mine and time.monotonic() < deadline:  # the line is written after the answer
        whole = execd.stderr.rpartition("\n")[0]
        mine = [line for line in map(json.loads, whole.splitlines()) if line.get("request_id") == "find-me"]
        time.sleep(0.01)
    assert len(mine) == 1 and mine[0]["path"] == "/logged" and mine[0]["status"] == 404 and "secret" not in str(mine)


# ---- many, slow and lost ----


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def open_stream(execd, **fields):
    body = json.dumps(fields).encode()
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(str(execd.path))
    s.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s"
              % (HEADER.encode(), execd.token.encode(), len(body), body))
    return s


def test_a_slow_reader_makes_the_command_wait_and_costs_no_memory(execd, tmp_path):
    done = tmp_path / "done"
    before = rss_kib(execd.process.pid)
    with open_stream(execd, command=f"seq 1 2000000; touch {done}") as s:
        time.sleep(1.5)
        assert not done.exists()
        assert rss_kib(execd.process.pid) - before < 8 * 1024
        received = bytearray()
        while not received.endswith(b"0\r\n\r\n"):
            piece = s.recv(1 << 20)
            assert piece
            received += piece
    assert done.exists()
    assert received.count(b'"type":"stdout"') == 2000000
    assert rss_kib(execd.process.pid) - before < 32 * 1024


def test_many_slow_readers_of_long_lines_stay_within_the_budget(execd):
    before = rss_kib(execd.process.pid)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(open_stream(execd, command="head -c 3000000 /dev/zero | tr '\\0' '\\1'; echo"))
                   for _ in range(60)]
        time.sleep(4)
        assert rss_kib(execd.process.pid) - before < 64 * 1024  # twice the budget, for the sanitizer's red zones
        assert execd.request("GET", "/ping").status == 200
        received = bytearray()
        while not received.endswith(b"0\r\n\r\n"):
            received += sockets[-1].recv(1 << 20)
        assert received.count(b"\\u0001") + received.count(b"\\u00\r\n") >= 2_900_000
    wait_for(lambda: not children_of(execd.process.pid), 30)


def test_two_hundred_commands_at_once(execd):
    def one(i):
        return texts(execd.command(f"sleep 0.5; echo {i}", timeout_s=120))

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        assert list(pool.map(one, range(200))) == [[str(i)] for i in range(200)]


def test_more_than_256_commands_are_too_many(execd):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(open_stream(execd, command="sleep 30", timeout=60000)) for _ in range(256)]
        for s in sockets:
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        answer = execd.request("POST", "/command", '{"command":"true"}')
        assert answer.status == 429 and answer.headers["Retry-After"] == "1" and answer.json["code"] == "TOO_MANY_REQUESTS"
        assert execd.request("GET", "/ping").status == 200
        for pid in children_of(execd.process.pid):
            os.kill(pid, signal.SIGKILL)
        for s in sockets:
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += s.recv(65536)
            assert b'"evalue":"137"' in received
    assert texts(execd.command("echo again")) == ["again"]


def test_a_lost_client_does_not_end_the_command(execd, tmp_path):
    done = tmp_path / "done"
    with open_stream(execd, command=f"seq 1 300000; sleep 0.3; seq 1 300000 >&2; echo $? > {done}") as s:
        assert s.recv(100)
    wait_for(lambda: done.exists() and done.read_text() == "0\n")
    assert texts(execd.command("echo fine")) == ["fine"]


def test_two_hundred_cycles_leave_nothing_behind(execd):
    execd.command("true")
    fds = f"/proc/{execd.process.pid}/fd"
    wait_for(lambda: execd.request("GET", "/ping").status == 200)
    before = len(os.listdir(fds))
    for i in range(200):
        if i % 4 == 0:
            with open_stream(execd, command="echo x; sleep 0.05"):
                pass
        else:
            execd.command("true & echo y")
    wait_for(lambda: len(os.listdir(fds)) <= before + 1 + 200)  # the output of each is kept
    children = subprocess.run(["ps", "--ppid", str(execd.process.pid), "-o", "stat="], capture_output=True, text=True,
                              check=False).stdout
    assert "Z" not in children


# ---- its own life ----


def test_flags_and_environment(tmp_path):
    d = start(tmp_path, ["-access-token=from-argv", "-log-level", "3"], token="environment")
    d.token = "from-argv"
    d.wait_ready()
    assert Execd(d.path, token="environment").request("GET", "/ping").status == 401
    cmdline = f"/proc/{d.process.pid}/cmdline"
    with open(cmdline, "rb") as f:
        assert b"from-argv" not in f.read()
    d.stop()
    assert d.stderr == ""


@pytest.mark.parametrize("args, env, status", [
    (["--nope"], {}, 2), (["--port", "0"], {}, 2), (["--log-level", "x"], {}, 2),
    (["--socket", "/nonexistent/x"], {}, 1), ([], {"EXECD_API_GRACE_SHUTDOWN": "soon"}, 1), ([], {"JUPYTER_HOST": "x"}, 1),
])
def test_what_it_cannot_start_with(tmp_path, args, env, status):
    d = start(tmp_path, args, env=env)
    assert d.process.wait(20) == status and d.stderr.startswith("execd: ")


def test_refused_requests_cannot_fill_the_log(tmp_path):
    d = start(tmp_path).wait_ready()
    for _ in range(100):
        assert Execd(d.path, token="wrong").request("GET", "/ping").status == 401
        assert d.request("GET", "/metrics").status == 200
    d.stop()
    log = [json.loads(line) for line in d.stderr.splitlines()]
    assert [len([r for r in log if (r.get("path"), r.get("status")) == of]) for of in (("/ping", 401), ("/metrics", 200))] == [60, 100]
    assert [r["lines"] for r in log if "left out" in r["msg"]] == [40]


def test_without_a_token_nobody_is_asked(tmp_path):
    d = start(tmp_path, token=None, env={"EXECD_API_GRACE_SHUTDOWN": "1h1.5s"}).wait_ready()
    assert d.request("GET", "/ping").status == 200
    d.stop()


def test_a_port_works_as_well(tmp_path):
    port = free_port()
    with open(tmp_path / "stderr", "wb") as stderr:
        process = subprocess.Popen([EXECD, "--port", str(port)], env=clean_environment(tmp_path), stderr=stderr)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/ping")
            assert connection.getresponse().status == 200
            break
        time.sleep(0.02)
    process.terminate()
    assert process.wait(20) == 0


def test_sigterm_ends_commands_and_their_streams(tmp_path):
    d = start(tmp_path).wait_ready()
    with open_stream(d, command="echo begun; sleep 100") as s:
        received = b""
        while b"begun" not in received:
            received += s.recv(4096)
        d.process.send_signal(signal.SIGTERM)
        while not received.endswith(b"0\r\n\r\n"):
            piece = s.recv(4096)
            assert piece
            received += piece
    assert b'"evalue":"143"' in received
    d.stop()


@pytest.mark.parametrize("command, status", [
    (["sh", "-c", "sleep 0.3; exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["/nonexistent"], 1), (["nonexistent-x"], 1),
])
def test_it_ends_with_its_entrypoint(tmp_path, command, status):
    d = start(tmp_path, command=command)
    assert d.process.wait(20) == status
    assert_clean(d.stderr)


def test_sigterm_is_passed_on_to_the_entrypoint(tmp_path):
    d = start(tmp_path, command=["sh", "-c", "trap 'exit 9' TERM; touch ready; while :; do sleep 0.1; done"]).wait_ready()
    wait_for((tmp_path / "ready").exists)
    d.stop(9)


# ---- PID 1 ----


class Guest:
    """execd as PID 1 of a pid namespace, with the descriptors that the warden would give it."""

    def __init__(self, folder, spec, raw=None, cgroups=0):
        self.folder = folder
        self.state, self.logs = folder / "state", [folder / "log.0", folder / "log.1"]
        path = folder / "guest.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(64)
        ready, ready_write = os.pipe()
        memfd = os.memfd_create("spec", os.MFD_ALLOW_SEALING)
        os.write(memfd, raw if raw is not None else json.dumps(spec).encode())
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        flags = os.O_WRONLY | os.O_CREAT
        fds = [memfd, listener.fileno(), ready_write, os.open(self.state, flags | os.O_APPEND)]
        fds += [os.open(log, flags) for log in self.logs]
        fds += [os.open(folder / f"cgroup.{i}", flags | os.O_APPEND) for i in range(cgroups)]
        stderr_path = folder / "guest.stderr"

        def arrange():
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in fds]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
                os.close(fd)

        with open(stderr_path, "wb") as stderr:
            process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", EXECD, "--guest", f"--cgroups={cgroups}"], close_fds=False, env={},
                stderr=stderr, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=arrange)
        for fd in fds[2:] + [memfd]:
            os.close(fd)
        listener.close()
        self.ready = os.fdopen(ready, "rb", buffering=0)
        self.execd = Execd(path, process, stderr_path, (spec or {}).get("token"))

    def wait_ready(self):
        assert self.ready.read(1) == b"1", self.execd.stderr
        return self.execd

    @property
    def pid(self):
        """Of execd, as we see it."""
        return children_of(self.execd.process.pid)[0]

    @property
    def records(self):
        data = self.state.read_bytes()
        assert len(data) % RECORD.size == 0
        found = []
        for i in range(0, len(data), RECORD.size):
            magic, version, kind, code, signo, flags, reserved, when, text = RECORD.unpack_from(data, i)
            assert (magic, version, reserved) == (MAGIC, 1, 0) and abs(when / 1e9 - time.time()) < 180
            found.append((kind, code, signo, flags, text.rstrip(b"\0").decode()))
        return found

    def end(self, status=None):
        try:
            got = self.execd.process.wait(20)
        finally:
            self.execd.process.kill()
            self.ready.close()
        assert_clean(self.execd.stderr)
        if status is not None:
            assert got == status, self.execd.stderr


@pytest.fixture
def guest(tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare")
    made = []

    def make(spec, **more):
        made.append(Guest(tmp_path, spec, **more))
        return made[-1]

    yield make
    for g in made:
        if g.execd.process.poll() is None:
            os.kill(g.pid, signal.SIGKILL)
            g.execd.process.wait(20)
        assert_clean(g.execd.stderr)


def test_a_guest_that_stays_is_ready_without_a_process(guest):
    g = guest({"id": "ab12", "entrypoint": ["tail", "-f", "/dev/null"], "token": TOKEN, "env": {"A": "1"}, "cwd": "/tmp"})
    execd = g.wait_ready()
    assert [r[0] for r in g.records] == [READY]
    assert texts(execd.command("echo $A $PPID $PWD $TOKEN; echo $PATH; umask")) == [
        "1 1 /tmp", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "0022"]
    assert texts(execd.command("ps -e -o pid= | head -1 | tr -d ' '; ps -o comm= -p 2")) == ["1"]
    assert Execd(execd.path, token=None).request("GET", "/ping").json == UNAUTHORIZED
    os.kill(g.pid, signal.SIGTERM)
    g.end(0)
    assert [r[:3] for r in g.records] == [(READY, 0, 0), (EXITED, 0, 0)]


def test_orphans_are_collected(guest):
    execd = guest({"token": TOKEN}).wait_ready()
    execd.command("for i in $(seq 50); do (sleep 0.1 &) ; done")
    wait_for(lambda: texts(execd.command("ps -e -o stat=,comm= | grep -c -e Z -e sleep; true")) == ["0"])


def test_signals_from_inside_count_for_nothing(guest):
    execd = guest({"token": TOKEN}).wait_ready()
    execd.command("kill -TERM 1; kill -INT 1; kill -CHLD 1; kill -HUP 1; kill -USR1 1; kill -KILL 1; kill -STOP 1; sleep 0.2")
    assert texts(execd.command("echo alive")) == ["alive"]


def test_pid_1_is_protected_from_the_root_of_its_sandbox(guest):
    execd = guest({"token": TOKEN}).wait_ready()
    gids = texts(execd.command("grep Gid /proc/1/status"))[0].split()[1:]
    assert gids == ["0", "0", "65535", "0"]
    assert texts(execd.command("grep Gid /proc/self/status"))[0].split()[1:] == ["0", "0", "0", "0"]
    # The capabilities of a sandbox. Not being listable takes a user namespace as well: that is the warden's to test.
    caps = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,setfcap,net_bind_service,sys_chroot"
    limited = f"setpriv --inh-caps -all --bounding-set -all,+{caps.replace(',', ',+')}"
    for probe in ("prlimit --pid 1 --nofile=100:100", "cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/root/",
                  "readlink -v /proc/1/exe"):
        events = execd.command(f"{limited} {probe}")
        error = " ".join(texts(events, "stderr"))
        assert events[-1]["type"] == "error" and ("denied" in error or "not permitted" in error), (probe, events)


def test_the_entrypoint_runs_is_logged_and_takes_execd_with_it(guest):
    script = "echo one; echo two >&2; echo $A; id -u; pwd; printf tail; exit 7"
    g = guest({"entrypoint": ["sh", "-c", script], "env": {"A": "x y", "PATH": "/usr/bin:/bin"}, "token": TOKEN,
               "user": "54321:7", "cwd": "/tmp/made/for/it"})
    g.wait_ready()
    g.end(7)
    os.removedirs("/tmp/made/for/it")
    assert [r[:3] for r in g.records] == [(STARTED, 0, 0), (READY, 0, 0), (EXITED, 7, 0)]
    lines = g.logs[0].read_text().splitlines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z "
    assert all(re.match(stamp, line) for line in lines)
    assert sorted(re.sub(stamp, "", line, 1) for line in lines) == sorted(["one", "two", "x y", "54321", "/tmp/made/for/it", "tail"])


def test_an_entrypoint_killed_by_a_signal(guest):
    g = guest({"entrypoint": ["sh", "-c", "kill -KILL $$"]})
    g.end(137)
    assert g.records[-1][:3] == (EXITED, 137, 9)


def test_sigterm_from_outside_reaches_the_entrypoint(guest):
    g = guest({"entrypoint": ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"], "token": TOKEN})
    execd = g.wait_ready()
    wait_for(lambda: "up" in g.logs[0].read_text())
    execd.command("kill -TERM 1")
    assert execd.request("GET", "/ping").status == 200
    os.kill(g.pid, signal.SIGTERM)
    g.end(3)
    assert g.records[-1][:3] == (EXITED, 3, 0) and "bye" in g.logs[0].read_text()


@pytest.mark.parametrize("spec, raw, text", [
    ({"entrypoint": ["/nonexistent/program", "x"]}, None, "No such file"),
    ({"entrypoint": ["nonexistent-program"]}, None, "not in PATH"),
    ({"entrypoint": ["/etc"]}, None, "Permission denied"),
    ({"user": "nobody-knows", "entrypoint": ["true"]}, None, "unknown"),
    ({"cwd": "relative"}, None, "absolute"),
    ({"surprise": 1}, None, "surprise"),
    (None, b"{", "spec"),
    (None, b" " * (1024 * 1024 + 1), "spec"),
])
def test_what_cannot_start_is_recorded(guest, spec, raw, text):
    g = guest(spec, raw=raw)
    assert g.ready.read(1) == b""
    g.end(1)
    assert [r[0] for r in g.records] == [FAILED] and text in g.records[0][4]


def test_programs_enter_the_leaf_before_they_run(guest, tmp_path):
    g = guest({"token": TOKEN, "entrypoint": ["sleep", "100"]}, cgroups=2)
    execd = g.wait_ready()
    execd.command("true")
    assert (tmp_path / "cgroup.0").read_text() == "00" and (tmp_path / "cgroup.1").read_text() == "00"


def test_log_segments_are_written_in_turn_and_bounded(guest):
    g = guest({"token": TOKEN, "entrypoint": ["sh", "-c", "seq 1 200000; sleep 100"]})
    g.wait_ready()
    wait_for(lambda: any(b" 200000\n" in log.read_bytes() for log in g.logs))
    assert all(0 < log.stat().st_size <= SEGMENT_MAX for log in g.logs)
    old, new = sorted(g.logs, key=lambda log: b" 200000\n" in log.read_bytes())
    numbers = [int(line.split()[1]) for log in (old, new) for line in log.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 200001)) and len(numbers) > 20000


@pytest.mark.parametrize("spec, home", [({}, "/root"), ({"env": {"HOME": "/elsewhere"}}, "/elsewhere"), ({"user": "nobody"}, "/nonexistent"),
                                        ({"uid": 54321}, "/")])
def test_programs_have_a_home(guest, spec, home):
    g = guest({"token": TOKEN, **spec})
    assert texts(g.wait_ready().command("echo $HOME")) == [home]
