# SPDX-License-Identifier: Apache-2.0
"""What a sandbox uses, by execd as an ordinary process and inside of a real sandbox; and what its terminals can see there."""
import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import time

import pytest

from conftest import EXECD as STATIC, KEY, Server
from test_execd import EXECD, Connection, nothing_stays, serve, start  # noqa: F401
from test_execd_pty import LOOP

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
KEYS = ["cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib",
        "timestamp"]


def check(m):
    """As every client reads it."""
    assert list(m) == KEYS and all(isinstance(v, (int, float)) for v in m.values())
    assert m["cpu_count"] >= 1 and 0 <= m["cpu_used_pct"] <= 100 and 0 <= m["mem_used_mib"] <= m["mem_total_mib"]
    assert (m["cpu_used_pct"], m["mem_total_mib"], m["mem_used_mib"]) == (
        m["cpu_used_percentage"], m["memory_total_in_mib"], m["memory_used_in_mib"])
    assert isinstance(m["timestamp"], int) and abs(m["timestamp"] / 1000 - time.time()) < 60
    return m


# ---- an ordinary process ----


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):  # noqa: F811
    yield from serve(tmp_path_factory.mktemp("execd"))


@pytest.mark.alone("measures time")
def test_metrics_are_sane_and_come_at_once(execd):
    began = time.monotonic()
    answer = execd.request("GET", "/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/json")
    m = check(answer.json)
    assert time.monotonic() - began < 0.6
    assert m["cpu_count"] <= len(os.sched_getaffinity(0))
    with open("/proc/meminfo") as f:
        assert m["mem_total_mib"] <= int(re.search(r"MemTotal:\s+(\d+)", f.read()).group(1)) / 1024 + 1
    began = time.monotonic()
    for _ in range(20):
        check(execd.request("GET", "/metrics").json)
    assert time.monotonic() - began < 0.6  # from the last look


@pytest.mark.smoke
def test_many_at_once_share_one_look(tmp_path):
    d = start(tmp_path).wait_ready()
    connections = []
    for _ in range(30):
        c = Connection(d.path, 10)
        c.request("GET", "/metrics", headers=d.headers())
        connections.append(c)
    connections.pop().close()  # one that does not wait for it
    stamps = {check(json.loads(c.getresponse().read()))["cpu_used_pct"] for c in connections}
    assert len(stamps) == 1
    d.stop()


def watch(connection, headers, path="/metrics/watch"):
    connection.request("GET", path, headers={**headers, "Accept": "text/event-stream"})
    r = connection.getresponse()
    assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream" and r.headers["Cache-Control"] == "no-cache"
    return r


def test_watching_gives_one_each_second(execd):
    c = Connection(execd.path, 10)
    began = time.monotonic()
    r = watch(c, execd.headers())
    times = []
    for _ in range(4):
        check(json.loads(r.readline()))
        assert r.readline() == b"\n"
        times.append(time.monotonic() - began)
    c.close()
    assert times[0] < 0.6 and 2 < times[3] < 4.5
    assert execd.request("GET", "/ping").status == 200


def test_a_watcher_that_comes_when_looks_have_just_ended_sees_them_go_on(tmp_path):
    d = start(tmp_path).wait_ready()
    check(d.request("GET", "/metrics").json)
    time.sleep(11)  # looks go on for ten seconds after a request; the last one is fresh for two
    c = Connection(d.path, 5)
    r = watch(c, d.headers())
    assert [check(json.loads(r.readline())) and r.readline() for _ in range(3)] == [b"\n"] * 3
    c.close()
    d.stop()


def test_a_watcher_that_does_not_read_costs_nothing(execd):
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.connect(str(execd.path))
            s.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\nX-EXECD-ACCESS-TOKEN: " + execd.token.encode() + b"\r\n\r\n")
        time.sleep(1.2)
        check(execd.request("GET", "/metrics").json)


def test_stopping_ends_the_watch(tmp_path):
    d = start(tmp_path).wait_ready()
    c = Connection(d.path, 10)
    r = watch(c, d.headers())
    r.readline()
    began = time.monotonic()
    d.process.send_signal(signal.SIGTERM)
    assert r.read().startswith(b"\n")  # whole: otherwise the read fails
    assert time.monotonic() - began < 2
    c.close()
    d.stop()


def test_no_other_methods(execd):
    assert execd.request("POST", "/metrics").status == 404
    assert execd.request("GET", "/metrics", headers={"X-EXECD-ACCESS-TOKEN": "no"}).status == 401


# ---- in a sandbox ----


class Box:
    """A sandbox through the server, with its execd."""

    def __init__(self, server, **limits):
        self.server = server
        body = {"image": {"uri": "host"}, "timeout": 600, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": limits}
        answer = server.request("POST", "/v1/sandboxes", json.dumps(body), timeout=60)
        assert answer.status == 202, answer
        self.id = answer.json["id"]
        endpoint = server.get(f"/v1/sandboxes/{self.id}/endpoints/44772").json
        self.address, path = endpoint["endpoint"].split("/", 1)
        self.path, self.headers = "/" + path, endpoint["headers"]

    def connection(self):
        return http.client.HTTPConnection(self.address, timeout=30)

    def request(self, method, path, body=None, headers=None):
        c = self.connection()
        try:
            c.request(method, self.path + path, body=json.dumps(body) if body is not None else None, headers={**self.headers, **(headers or {})})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def metrics(self):
        status, body = self.request("GET", "/metrics")
        assert status == 200, body
        return check(json.loads(body))

    def command(self, text):
        status, body = self.request("POST", "/command", {"command": text})
        assert status == 200, body
        events = [json.loads(line) for line in body.decode().split("\n\n") if line]
        return "".join(e["text"] + "\n" for e in events if e["type"] == "stdout")

    def delete(self):
        assert self.server.request("DELETE", f"/v1/sandboxes/{self.id}", timeout=60).status == 204


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not STATIC.exists():
        pytest.skip(f"{STATIC} is not built")
    server = Server(tmp_path_factory.mktemp("server"), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    server.wait_ready()
    b = None
    try:
        b = Box(server, cpu="500m", memory="192Mi")
        yield b
    finally:
        if b:
            b.delete()
        server.stop()


def test_a_sandbox_is_told_of_itself_and_not_of_the_host(box):
    m = box.metrics()
    assert m["cpu_count"] == 1 and m["mem_total_mib"] == 192 and m["mem_used_mib"] < 60
    before = m["mem_used_mib"]
    box.command("head -c 50000000 /dev/zero | tail -c 40000000 > /dev/null & echo; exit")
    text = box.command("exec 9</dev/null; python3 -c 'x = b\"x\" * 60000000; import time; time.sleep(30)' >/dev/null 2>&1 & sleep 1; echo ok; true")
    assert text == "ok\n"
    deadline = time.monotonic() + 15
    while box.metrics()["mem_used_mib"] < before + 50:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_cpu_is_a_share_of_its_quota(box):
    deadline = time.monotonic() + 10
    while box.metrics()["cpu_used_pct"] > 40:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    box.command("timeout 6 sh -c 'while :; do :; done' >/dev/null 2>&1 & true")
    deadline = time.monotonic() + 5
    while box.metrics()["cpu_used_pct"] < 70:  # half a processor is all that it may have
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_the_watch_comes_through_the_server(box):
    c = box.connection()
    r = watch(c, box.headers, box.path + "/metrics/watch")
    first = check(json.loads(r.readline()))
    assert first["mem_total_mib"] == 192 and r.readline() == b"\n"
    check(json.loads(r.readline()))
    c.close()


def test_no_program_has_the_descriptors_of_the_gauges(box):
    assert box.command("ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # 3: of ls


def terminal(box, command, query=""):
    """All that a terminal shows until its shell ends, and the news."""
    from websockets.legacy.client import connect

    async def run():
        status, body = await asyncio.to_thread(box.request, "POST", "/pty", {"command": command})
        assert status == 201, body
        id_ = json.loads(body)["session_id"]
        shown, news = b"", []
        async with connect(f"ws://{box.address}{box.path}/pty/{id_}/ws{query}", extra_headers=box.headers, compression=None) as ws:
            async for message in ws:
                if isinstance(message, str):
                    news.append(json.loads(message))
                else:
                    shown += message[1:]
        await asyncio.to_thread(box.request, "DELETE", f"/pty/{id_}")
        return shown.decode(), news

    return asyncio.run_coroutine_threadsafe(run(), LOOP).result(60)


def test_a_terminal_in_a_sandbox(box):
    shown, news = terminal(box, "tty; stty size; id -u; test -t 0 && echo is-terminal; echo hi > /dev/tty; ls -x /proc/self/fd; "
                                "cat /proc/self/cgroup | cut -d: -f3 | sort -u; grep Seccomp: /proc/self/status; exit 5")
    assert re.search(r"^/dev/pts/\d+\r\n24 80\r\n0\r\nis-terminal\r\nhi\r\n0 +1 +2 +3\r\n/\r\nSeccomp:\s+2\r\n$", shown), shown
    assert news[0]["mode"] == "pty" and news[-1] == {"type": "exit", "exit_code": 5}
    shown, news = terminal(box, "ls -x /proc/self/fd; tty; exit 6", "?pty=0")
    assert re.search(r"^0 +1 +2 +3\nnot a tty\n$", shown), shown
    assert news[0]["mode"] == "pipe" and news[-1]["exit_code"] == 6


def test_a_terminals_memory_is_the_sandboxs(box):
    """It is in the leaf whose limit the sandbox has, and the kill is the sandbox's own affair."""
    shown, news = terminal(box, "python3 -c 'x = b\"x\" * 400000000' ; echo code=$?")
    assert "code=137" in shown and news[-1]["exit_code"] == 0
    assert box.request("GET", "/ping")[0] == 200


def test_characters_cannot_be_pushed_into_a_terminal(box):
    program = "import fcntl, termios\ntry:\n  fcntl.ioctl(0, termios.TIOCSTI, b'x')\n  print('pushed')\nexcept OSError as e:\n  print('errno', e.errno)"
    shown, _ = terminal(box, f"python3 -c \"{program}\"")
    assert "errno 1\r\n" in shown


def test_a_service_in_a_sandbox_through_its_proxy(box):
    box.command("cd /tmp && echo from inside > page && (python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 &) ; sleep 1; true")
    deadline = time.monotonic() + 15
    while True:
        status, body = box.request("GET", "/proxy/8123/page")
        if status != 502:
            break
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (status, body) == (200, b"from inside\n")
    status, body = box.request("GET", "/proxy/44772/ping")
    assert status == 400
