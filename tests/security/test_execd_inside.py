# SPDX-License-Identifier: Apache-2.0
"""L2 and what execd takes, in real sandboxes: it answers while user code is at its limits, is small, and runs in any root."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import shutil
import subprocess
import threading
import time
import urllib.parse

import pytest

from conftest import EXECD, KEY, ROOT, Server
from inside import JSON, Plane, Sandbox, eventually, plane, pytestmark_needs, status_of  # noqa: F401

pytestmark = pytestmark_needs
BUSYBOX = pathlib.Path("/bin/busybox")
STATIC_PROBE = ROOT / "build/musl/bin/static-probe"
IDLE_KIB_MAX = 300
PLACES = 8
DISK_BYTES_MAX = 400 * 1024
SECOND = 1.0


# ---- what it takes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [EXECD, ROOT / "build/bin/execd"], ids=["tested", "installed"])
def test_it_is_small_static_and_stripped(path):
    if not path.exists():
        pytest.skip(f"{path} is not built")
    assert path.stat().st_size <= DISK_BYTES_MAX
    shown = subprocess.run(["readelf", "-lWSd", path], check=True, capture_output=True, text=True).stdout
    assert "INTERP" not in shown and "NEEDED" not in shown and "RWE" not in shown and ".symtab" not in shown
    assert EXECD.with_suffix(".debug").stat().st_size > EXECD.stat().st_size


@pytest.mark.parametrize("entrypoint", [["tail", "-f", "/dev/null"], ["sleep", "1000"]], ids=["none", "a program"])
def test_an_idle_execd_is_small(plane, entrypoint):
    """VmRSS of PID 1: what is its own and what it shares, before anything has been asked of it but to start. How much the kernel
    maps of the code depends on where that begins, which is another place in every sandbox."""
    for _ in range(PLACES):
        sandbox = plane.create(entrypoint=entrypoint)
        try:
            eventually(lambda pid=sandbox.pid1: int(status_of(pid)["VmRSS"].split()[0]) <= IDLE_KIB_MAX, 5)  # it tidies up after its start
            assert "[heap]" not in pathlib.Path(f"/proc/{sandbox.pid1}/maps").read_text()  # which would have page tables of its own
        finally:
            sandbox.delete()


# ---- while user code is at its limits ----------------------------------------------------------------------------------


def timed(sandbox, method, path, body=None):
    began = time.monotonic()
    status, answer = sandbox.request(method, path, body)
    return time.monotonic() - began, status, answer


def answers(sandbox, sleeper, seconds=2.0):
    """Pings, information about a file, its content, a line of it: each answers within a second, and so does an interrupt."""
    name = urllib.parse.quote("/tmp/small")
    slow = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for path in ("/ping", f"/files/download?path={name}", f"/files/download?path={name}&offset=1&limit=1",
                     f"/files/info?path={name}", f"/command/status/{sleeper}"):
            took, status, answer = timed(sandbox, "GET", path)
            assert status == 200, (path, answer)
            slow.append((took, path))
    assert max(slow)[0] < SECOND, max(slow)
    took, status, answer = timed(sandbox, "DELETE", f"/command?id={sleeper}")
    assert status == 200 and took < SECOND, (took, answer)


def start_sleeper(sandbox):
    _, body = sandbox.request("POST", "/command", json.dumps({"command": "exec sleep 600", "background": True}))
    return json.loads(body.split(b"\n\n")[0])["text"]


@pytest.mark.parametrize("bomb", [
    "python3 -c 'x = []; [x.append(bytearray(1 << 20)) for _ in iter(int, 1)]'",
    "dd if=/dev/zero of=/dev/shm/x bs=1M",
], ids=["allocations", "shared memory"])
def test_L2_it_answers_while_memory_is_at_its_limit(plane, bomb):
    sandbox = plane.create(limits={"memory": "56Mi", "pids": "200"})
    try:
        assert sandbox.run("printf 'one\\ntwo\\n' >/tmp/small").code == 0
        sleeper = start_sleeper(sandbox)
        sandbox.start(f"while :; do {bomb.replace(chr(39), chr(34))}; done")
        eventually(lambda: int(sandbox.limit("user", "memory.usage_in_bytes", "memory.current")) > (53 << 20), 20)
        answers(sandbox, sleeper)
    finally:
        sandbox.delete(10)


def test_L2_it_answers_while_processes_are_at_their_limit(plane):
    sandbox = plane.create(limits={"memory": "192Mi", "pids": "100"})
    try:
        assert sandbox.run("printf 'one\\ntwo\\n' >/tmp/small").code == 0
        sleeper = start_sleeper(sandbox)
        sandbox.start("b() { b | b & }; while :; do b; done")
        eventually(lambda: int(sandbox.limit("user", "pids.current")) >= 95)
        answers(sandbox, sleeper)
    finally:
        sandbox.delete(10)


# ---- roots of any kind -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    """A server with images that have nothing of Debian: a busybox, and nothing at all."""
    folder = tmp_path_factory.mktemp("roots")
    images = {"bare": folder / "busybox", "scratch": folder / "empty"}
    (images["bare"] / "bin").mkdir(parents=True)
    images["scratch"].mkdir()
    shutil.copy(BUSYBOX, images["bare"] / "bin/busybox")
    for name in ("sh", "cat", "tail", "id", "echo"):
        (images["bare"] / "bin" / name).symlink_to("busybox")
    config = "[native.images]\n" + "".join(f'{name} = "{path}"\n' for name, path in images.items())
    server = Server(folder, config, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    server.wait_ready()
    plane = Plane.__new__(Plane)
    plane.server = server
    yield plane
    plane.stop()


@pytest.fixture(params=["host", "bare", "scratch"])
def rooted(roots, request):
    body = {"image": {"uri": request.param}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 900, "resourceLimits": {}}
    answer = roots.server.request("POST", "/v1/sandboxes", json.dumps(body), JSON, timeout=30)
    assert answer.status == 202 and answer.json["status"]["state"] == "Running", answer
    sandbox = Sandbox(roots, answer.json["id"])
    sandbox.image = request.param
    yield sandbox
    sandbox.delete()


def upload(sandbox, path, data, mode):
    b = "----x"
    body = b"".join([f'--{b}\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n'.encode(),
                     json.dumps({"path": path, "mode": mode}).encode(),
                     f'\r\n--{b}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode(), data,
                     f"\r\n--{b}--\r\n".encode()])
    connection = http.client.HTTPConnection("127.0.0.1", sandbox.plane.server.port + 1, timeout=30)
    connection.request("POST", f"/sandboxes/{sandbox.id}/proxy/44772/files/upload", body,
                       {**sandbox.token, "Content-Type": f"multipart/form-data; boundary={b}"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    connection.close()


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")
@pytest.mark.skipif(not STATIC_PROBE.exists(), reason="make musl builds the program that is uploaded")
def test_it_runs_unchanged_in_any_root(rooted):
    """Pings, files and an uploaded static program; where there is no shell, the program is one."""
    assert rooted.ping_ms() < 1000
    upload(rooted, "/a folder/text", b"hello\n", 644)
    assert rooted.request("GET", "/files/download?path=%2Fa%20folder%2Ftext") == (200, b"hello\n")
    status, body = rooted.request("GET", "/files/info?path=%2Fa%20folder%2Ftext")
    assert status == 200 and json.loads(body)["/a folder/text"]["size"] == 6
    status, body = rooted.request("GET", "/directories/list?path=%2Fa%20folder")
    assert status == 200 and [e["path"] for e in json.loads(body)] == ["/a folder/text"]
    if rooted.image == "scratch":
        assert "No such file" in rooted.run("true").error["evalue"]
        upload(rooted, "/bin/sh", BUSYBOX.read_bytes(), 755)
    upload(rooted, "/probe", STATIC_PROBE.read_bytes(), 755)
    assert rooted.run("/probe").out == "ok"
    result = rooted.run("echo $((6 * 7)); cat", stdin="from outside") if rooted.image != "scratch" else rooted.run("echo $((6 * 7))")
    assert result.code == 0 and result.out.split("\n")[0] == "42", result


# ---- many at once ------------------------------------------------------------------------------------------------------


def test_a_slow_reader_costs_64_kib(plane):
    """Of execd's own memory, for each of 64 that write short lines without end."""
    sandbox = plane.create(limits={"memory": "512Mi", "pids": "500", "cpu": "2"})
    streams = 64
    try:
        own = lambda: int(status_of(sandbox.pid1)["RssAnon"].split()[0])  # noqa: E731
        sandbox.ping_ms()
        before = own()
        with contextlib.ExitStack() as stack:
            for _ in range(streams):
                c = http.client.HTTPConnection("127.0.0.1", plane.server.port + 1, timeout=60)
                stack.callback(c.close)
                c.request("POST", f"/sandboxes/{sandbox.id}/proxy/44772/command", json.dumps({"command": "yes"}),
                          {**sandbox.token, **JSON})
            time.sleep(3)  # until nothing moves any more
            assert own() - before <= streams * 64
    finally:
        sandbox.delete(10)


def test_L2_256_commands_with_slow_readers_stay_within_what_is_set_aside(plane):
    """Each writes without end and is hardly read. What execd uses, by its own control group, stays below 64 MiB, and its
    own memory below the 48 MiB of its account."""
    sandbox = plane.create(limits={"memory": "1Gi", "pids": "1000", "cpu": "2"})
    connections, lock = [], threading.Lock()

    def begin(i):
        c = http.client.HTTPConnection("127.0.0.1", plane.server.port + 1, timeout=60)
        text = "yes" if i % 2 else "head -c 900000 /dev/zero | tr '\\0' x; yes"
        c.request("POST", f"/sandboxes/{sandbox.id}/proxy/44772/command", json.dumps({"command": text}), {**sandbox.token, **JSON})
        response = c.getresponse()
        assert response.status == 200
        with lock:
            connections.append((c, response, bytearray()))

    try:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(begin, range(256)))
        for _ in range(3):
            for _, response, got in connections:
                got += response.read1(2048)
                assert not response.isclosed(), got
            assert sandbox.ping_ms() < 1000
        assert all(got.startswith(b'{"type":"init"') for *_, got in connections)
        assert int(status_of(sandbox.pid1)["VmHWM"].split()[0]) < 48 * 1024
        leaf = "init" if sandbox.has_own_leaf else ""
        used = int(sandbox.limit(leaf, "memory.usage_in_bytes", "memory.current"))
        stat = dict(line.split() for line in sandbox.limit(leaf, "memory.stat").splitlines())
        used -= int(stat.get("cache", stat.get("file")))  # of the files that keep what was written: it goes when it must
        used -= 0 if leaf else int(sandbox.limit("user", "memory.usage_in_bytes"))
        assert used < 56 << 20, used
    finally:
        for c, *_ in connections:
            c.close()
        sandbox.delete(10)
