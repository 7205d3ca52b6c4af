# SPDX-License-Identifier: Apache-2.0
"""Files and directories of execd: as an ordinary process, and some of it as PID 1."""
import calendar
import concurrent.futures
import contextlib
import grp
import http.client
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid

import pytest

from conftest import BIN, children_of
from test_execd import TOKEN, Connection, guest, needs_root, nothing_stays, rss_kib, start, wait_for  # noqa: F401 fixtures

EXECD = BIN / "execd"
pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
FIELDS = {"path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def execd(tmp_path_factory, nothing_stays):  # noqa: F811
    folder = tmp_path_factory.mktemp("execd-files")
    d = start(folder, env={"HERE": str(folder), "TMPDIR": str(folder)}, umask=0o022)
    yield d.wait_ready()
    d.stop()


def query(**values):
    pairs = [(k, v) for k, vs in values.items() for v in (vs if isinstance(vs, list) else [vs])]
    return "?" + urllib.parse.urlencode(pairs) if pairs else ""


def get(d, route, headers=None, **values):
    return d.request("GET", route + query(**values), headers=headers)


def delete(d, path, *paths):
    return d.request("DELETE", path + query(path=[str(p) for p in paths]))


def post(d, path, body):
    return d.request("POST", path, body if isinstance(body, (bytes, str)) else json.dumps(body))


def is_empty(answer):
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "0", b""), answer.body
    return True


def is_error(answer, status, code, text=""):
    assert answer.status == status and int(answer.headers["Content-Length"]) > 0, answer.body
    assert set(answer.json) == {"code", "message"} and answer.json["code"] == code, answer.body
    assert str(text) in answer.json["message"], answer.body
    return True


def info(d, path):
    answer = get(d, "/files/info", path=str(path))
    assert answer.status == 200, answer.body
    return answer.json[str(path)]


def leftovers(folder):
    return [p for p in folder.rglob("*") if p.name.startswith(".execd")]


# ---- uploads as the clients send them ----


def pair(path, content=b"x", **more):
    return {"path": str(path), **more}, content


def python_body(pairs, boundary="8d1f0c4aa7e94d5c8fb2d2a0c9d3b1e7"):
    """httpx: quoted names, the whole path as file name."""
    out = b""
    for meta, content in pairs:
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                "Content-Type: application/json\r\n\r\n").encode() + json.dumps(meta).encode() + b"\r\n"
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{meta["path"]}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def js_body(pairs):
    """undici: base names with quotes as %22, parts in its own boundary."""
    boundary = "----formdata-undici-034817263941"
    out = b""
    for meta, content in pairs:
        name = os.path.basename(meta["path"]).replace('"', "%22")
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                "Content-Type: application/json\r\n\r\n").encode() + json.dumps(meta).encode() + b"\r\n"
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: text/plain;charset=UTF-8\r\n\r\n").encode() + content + b"\r\n"
    return out + f"--{boundary}--".encode(), f"multipart/form-data; boundary={boundary}"


def kotlin_body(pairs):
    """OkHttp: each part with its length, explicit nulls."""
    boundary = str(uuid.UUID(int=42))
    out = b""
    for meta, content in pairs:
        text = json.dumps({"owner": None, "group": None, "mode": None, **meta}).encode()
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                f"Content-Type: application/json; charset=utf-8\r\nContent-Length: {len(text)}\r\n\r\n").encode() + text + b"\r\n"
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{meta["path"]}"\r\n'
                f"Content-Type: application/octet-stream\r\nContent-Length: {len(content)}\r\n\r\n").encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def dotnet_body(pairs):
    """HttpClient: nothing quoted but the boundary, type before disposition, byte parts without a type."""
    boundary = "5f2d9c1e-7d0b-4d5a-9a43-0c7b1f3c2a11"
    out = b""
    for meta, content in pairs:
        out += (f"--{boundary}\r\nContent-Type: application/json; charset=utf-8\r\n"
                "Content-Disposition: form-data; name=metadata; filename=metadata; filename*=utf-8''metadata\r\n\r\n"
                ).encode() + json.dumps(meta).encode() + b"\r\n"
        name = os.path.basename(meta["path"])
        shown = name if re.fullmatch(r"[\w.-]+", name, re.A) else f'"{name}"' if name.isascii() else '"=?utf-8?B?w7xu?="'
        out += (f"--{boundary}\r\nContent-Disposition: form-data; name=file; filename={shown}; "
                f"filename*=utf-8''{urllib.parse.quote(name)}\r\n\r\n").encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f'multipart/form-data; boundary="{boundary}"'


def go_body(pairs):
    """mime/multipart: a fixed file name, always sent in chunks."""
    boundary = "b6c1f0e9a7d24fbb8f00c5f1e8cf4a31d0f6b2a7c5e1493c8d20"
    out = b""
    for meta, content in pairs:
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
                "Content-Type: application/json\r\n\r\n").encode() + json.dumps(meta).encode() + b"\r\n"
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + content + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


DIALECTS = {"python": python_body, "js": js_body, "kotlin": kotlin_body, "dotnet": dotnet_body, "go": go_body}


def pieces(data, size):
    return (data[i:i + size] for i in range(0, len(data), size))


def upload(d, *pairs, dialect="python", timeout=60):
    body, kind = DIALECTS[dialect](pairs)
    return d.request("POST", "/files/upload", pieces(body, 1000) if dialect == "go" else body, {"Content-Type": kind}, timeout=timeout)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.smoke
def test_every_client_can_upload_many_files(execd, tmp_path, dialect):
    names = ["plain.txt", "with blank.txt", "ünïcode-€.bin", 'quo"te.txt' if dialect == "js" else "semi;colon.txt", "empty"]
    contents = [b"one\r\ntwo", bytes(range(256)) * 300, b"\r\n--" * 500, b"-" * 70000, b""]
    pairs = [pair(tmp_path / "deep" / "er" / n, c, mode=640) for n, c in zip(names, contents)]
    assert is_empty(upload(execd, *pairs, dialect=dialect))
    for name, content in zip(names, contents):
        path = tmp_path / "deep/er" / name
        assert path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not leftovers(tmp_path)


def test_metadata_needs_no_file_name_and_any_order_will_do(execd, tmp_path):
    def part(name, content, more=""):
        return f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + content + b"\r\n"

    def meta(name):
        return part("metadata", json.dumps({"path": str(tmp_path / name)}).encode())

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    body = meta("1") + meta("2") + part("comment", b"?") + part("file", b"one") + part("file", b"two") + b"--b--"
    assert is_empty(execd.request("POST", "/files/upload", body, kind))
    body = part("file", b"three" * 30000) + part("file", b"four") + meta("3") + meta("4") + b"--b--"
    assert is_empty(execd.request("POST", "/files/upload", body, kind))
    assert [(tmp_path / n).read_bytes() for n in "1234"] == [b"one", b"two", b"three" * 30000, b"four"]


def test_upload_mode_owner_and_what_stays(execd, tmp_path):
    path = tmp_path / "f"
    assert is_empty(upload(execd, pair(path, b"1")))
    assert info(execd, path)["mode"] == 755
    assert is_empty(upload(execd, pair(path, b"2", mode=4644, owner=None, group=None)))
    assert info(execd, path)["mode"] == 644
    path.chmod(0o600)
    assert is_empty(upload(execd, pair(path, b"3", mode=0)))
    assert info(execd, path)["mode"] == 600 and path.read_bytes() == b"3"


@needs_root
def test_upload_for_another_owner(execd, tmp_path):
    path = tmp_path / "f"
    assert is_empty(upload(execd, pair(path, b"1", owner="nobody", group="nogroup", mode=644)))
    got = info(execd, path)
    assert (got["owner"], got["group"], got["mode"], got["size"]) == ("nobody", "nogroup", 644, 1)
    assert is_empty(upload(execd, pair(path, b"22")))
    assert info(execd, path)["owner"] == "nobody"
    for who in ("no-such-user", "65534"):
        assert is_error(upload(execd, pair(tmp_path / "g", b"1", owner=who)), 500, "RUNTIME_ERROR", who)
    assert not (tmp_path / "g").exists()


def test_upload_goes_behind_a_final_symlink(execd, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/target")
    (tmp_path / "absolute").symlink_to(tmp_path / "there/other")
    (tmp_path / "loop").symlink_to("loop")
    assert is_empty(upload(execd, pair(tmp_path / "link", b"1"), pair(tmp_path / "absolute", b"2")))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "there/target").read_bytes() == b"1"
    assert (tmp_path / "there/other").read_bytes() == b"2"
    assert is_empty(upload(execd, pair(tmp_path / "link", b"3")))
    assert (tmp_path / "there/target").read_bytes() == b"3"
    assert is_error(upload(execd, pair(tmp_path / "loop", b"4")), 500, "RUNTIME_ERROR", "loop")


@pytest.mark.parametrize("body, kind, code", [
    (b"{}", "application/json", "INVALID_FILE"),
    (b"--b\r\nnonsense", "multipart/form-data; boundary=b", "INVALID_FILE"),
    (b"--b--", "multipart/form-data; boundary=b", "INVALID_FILE_METADATA"),
    (b'--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n{"path":"/tmp/x"}\r\n--b--', "multipart/form-data; boundary=b",
     "INVALID_FILE_CONTENT"),
    (b'--b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--b--', "multipart/form-data; boundary=b", "INVALID_FILE_METADATA"),
    (b'--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n{"path":""}\r\n--b--', "multipart/form-data; boundary=b",
     "INVALID_FILE_METADATA"),
    (b'--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n[]\r\n--b--', "multipart/form-data; boundary=b",
     "INVALID_FILE_METADATA"),
    (b'--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n{"path":"x","mode":"644"}\r\n--b--',
     "multipart/form-data; boundary=b", "INVALID_FILE_METADATA"),
    (b"", "multipart/form-data; boundary=b", "INVALID_FILE"),
    (b'--b\r\nX: ' + b"y" * 9000 + b'\r\n', "multipart/form-data; boundary=b", "INVALID_FILE"),
])
def test_uploads_that_are_none(execd, body, kind, code):
    assert is_error(execd.request("POST", "/files/upload", body, {"Content-Type": kind}), 400, code)


def test_parts_must_be_pairs_and_a_failed_upload_leaves_nothing(execd, tmp_path):
    body, kind = python_body([pair(tmp_path / "a", b"1"), pair(tmp_path / "b", b"2")])
    half = body[:body.rindex(b"--8d1f0c4aa7e94d5c8fb2d2a0c9d3b1e7\r\n")] + b"--8d1f0c4aa7e94d5c8fb2d2a0c9d3b1e7--\r\n"
    assert is_error(execd.request("POST", "/files/upload", half, {"Content-Type": kind}), 400, "INVALID_FILE")
    assert is_error(execd.request("POST", "/files/upload", body[:-8], {"Content-Type": kind}), 400, "INVALID_FILE")
    assert is_error(upload(execd, pair(tmp_path / "a", b"1"), pair(tmp_path, b"2")), 400, "INVALID_FILE_METADATA", tmp_path)
    assert is_error(upload(execd, pair(tmp_path / "a", b"1"), pair(tmp_path / "b", b"2", mode=888)), 400, "INVALID_FILE_METADATA", "mode")
    assert is_error(upload(execd, pair(tmp_path / "a", b"1"), pair("/proc/version/x", b"2")), 500, "RUNTIME_ERROR")
    assert os.listdir(tmp_path) == []


def test_a_thousand_files_in_one_upload(execd, tmp_path):
    pairs = [pair(tmp_path / f"d{i % 10}" / f"f{i}", str(i).encode()) for i in range(1000)]
    assert is_empty(upload(execd, *pairs, timeout=120))
    assert all((tmp_path / f"d{i % 10}" / f"f{i}").read_bytes() == str(i).encode() for i in range(1000))


def test_the_limits_table_on_parts(execd, tmp_path):
    part = b'--b\r\nContent-Disposition: form-data; name=z\r\n\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    assert is_error(execd.request("POST", "/files/upload", part * 20001 + b"--b--", kind), 400, "INVALID_FILE", "20000")
    meta = b'--b\r\nContent-Disposition: form-data; name=metadata\r\n\r\n{"path":"%s"}\r\n' % str(tmp_path / "f").encode()
    assert is_error(execd.request("POST", "/files/upload", meta * 10001 + b"--b--", kind), 400, "INVALID_FILE", "10000")
    assert is_error(execd.request("POST", "/files/upload", b"", {**kind, "Content-Length": str(9 << 30)}), 413, "CONTENT_TOO_LARGE")


def raw(d, head, timeout=30):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(str(d.path))
    s.sendall(head.encode())
    return s


def head_of(body_length, kind, method="POST", path="/files/upload", chunked=False):
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {body_length}"
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-EXECD-ACCESS-TOKEN: {TOKEN}\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n"


def test_a_client_that_dies_in_an_upload_leaves_nothing(execd, tmp_path):
    (tmp_path / "old").write_bytes(b"before")
    body, kind = python_body([pair(tmp_path / "a", b"1" * 100000), pair(tmp_path / "old", b"2" * 300000), pair(tmp_path / "c", b"3")])
    for cut in (50, 1000, 150000, len(body) - 1):
        with raw(execd, head_of(len(body), kind)) as s:
            s.sendall(body[:cut])
            wait_for(lambda: children_of(execd.process.pid))
            time.sleep(0.1)
        wait_for(lambda: not children_of(execd.process.pid))
        assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"before"
    # The last delimiter has arrived, but not the end of the body.
    with raw(execd, head_of(0, kind, chunked=True)) as s:
        s.sendall(f"{len(body):x}\r\n".encode() + body + b"\r\n")
        wait_for(lambda: children_of(execd.process.pid))
        time.sleep(0.2)
    wait_for(lambda: not children_of(execd.process.pid))
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"before"


def test_a_killed_worker_is_an_error_and_leaves_nothing(execd, tmp_path):
    body, kind = python_body([pair(tmp_path / "a", b"1" * 100000)])
    with raw(execd, head_of(len(body), kind)) as s:
        s.sendall(body[:50000])
        wait_for(lambda: children_of(execd.process.pid))
        time.sleep(0.1)
        os.kill(children_of(execd.process.pid)[0], signal.SIGKILL)
        s.sendall(body[50000:])
        assert s.recv(4096).startswith(b"HTTP/1.1 500")
    assert os.listdir(tmp_path) == []


def test_a_reader_sees_old_or_new_never_half(execd, tmp_path):
    """O3"""
    path = tmp_path / "f"
    versions = [bytes([65 + i]) * 200000 for i in range(4)]
    path.write_bytes(versions[0])
    done, seen = threading.Event(), set()

    def read():
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(24):
            assert is_empty(upload(execd, pair(path, versions[i % 4])))
    finally:
        done.set()
        reader.join()
    assert seen <= set(versions) and len(seen) > 1


def test_expect_continue(execd, tmp_path):
    body, kind = python_body([pair(tmp_path / "f", b"content")])
    with raw(execd, head_of(len(body), kind).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n")) as s:
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(body)
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
    assert (tmp_path / "f").read_bytes() == b"content"


def test_large_transfers_take_no_memory(execd, tmp_path):
    """L2"""
    size, block = 300 * MIB, os.urandom(MIB)
    path = tmp_path / "large"
    front, kind = python_body([pair(path, b"SPLIT")])
    front, back = front.split(b"SPLIT")
    before = rss_kib(execd.process.pid)
    most = 0
    with raw(execd, head_of(len(front) + size + len(back), kind), timeout=120) as s:
        s.sendall(front)
        for i in range(300):
            s.sendall(block)
            if i % 20 == 0:
                most = max(most, rss_kib(execd.process.pid))
                assert execd.request("GET", "/ping").status == 200
        s.sendall(back)
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
    assert path.stat().st_size == size
    connection = Connection(execd.path, 120)
    connection.request("GET", "/files/download" + query(path=str(path)), headers=execd.headers())
    response = connection.getresponse()
    assert response.headers["Content-Length"] == str(size)
    for i in range(300):
        assert response.read(MIB) == block
        if i % 20 == 0:
            most = max(most, rss_kib(execd.process.pid))
    connection.close()
    path.unlink()
    assert most - before < 8 * 1024


def test_a_hundred_clients_at_once(execd, tmp_path):
    def one(i):
        path = tmp_path / f"{i}" / "f"
        content = os.urandom(100000 + i)
        assert is_empty(upload(execd, pair(path, content), dialect=list(DIALECTS)[i % 5]))
        assert get(execd, "/files/download", path=str(path)).body == content
        assert info(execd, path)["size"] == len(content)
        assert is_empty(post(execd, "/files/mv", [{"src": str(path), "dest": str(path) + "2"}]))
        assert [e["path"] for e in get(execd, "/files/search", path=str(path.parent)).json] == [str(path) + "2"]
        assert is_empty(delete(execd, "/directories", path.parent))

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        list(pool.map(one, range(100)))
    assert os.listdir(tmp_path) == []
    wait_for(lambda: not children_of(execd.process.pid))


def test_nothing_is_left_open(execd, tmp_path):
    def cycle(i):
        path = tmp_path / "f"
        assert is_empty(upload(execd, pair(path, b"a b")))
        assert is_empty(post(execd, "/files/replace", {str(path): {"old": "a", "new": "c"}}))
        assert get(execd, "/files/download", path=str(path), offset=1).body == b"c b"
        with raw(execd, head_of(100000, "multipart/form-data; boundary=b")) as s:
            s.sendall(b"--b\r\n")
        with raw(execd, head_of(0, "x", "GET", "/files/search?path=/usr")):
            pass
        with raw(execd, head_of(10, "x", path="/files/mv")) as s:
            s.sendall(b"[")

    fds = f"/proc/{execd.process.pid}/fd"
    cycle(0)
    wait_for(lambda: not children_of(execd.process.pid))
    before = len(os.listdir(fds))
    for i in range(30):
        cycle(i)
    wait_for(lambda: not children_of(execd.process.pid) and len(os.listdir(fds)) <= before + 1)


def test_more_uploads_than_workers_wait_in_line(execd, tmp_path):
    with contextlib.ExitStack() as stack:
        sockets = []
        for i in range(40):
            body, kind = python_body([pair(tmp_path / str(i), b"x" * 1000)])
            s = stack.enter_context(raw(execd, head_of(len(body), kind)))
            s.sendall(body[:600])
            sockets.append((s, body[600:]))
        wait_for(lambda: len(children_of(execd.process.pid)) == 16)
        assert info(execd, tmp_path)["type"] == "directory"
        assert get(execd, "/directories/list", path=str(tmp_path)).json == []
        for s, rest in sockets:
            s.sendall(rest)
        for s, _ in sockets:
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
    assert len(os.listdir(tmp_path)) == 40


# ---- information ----


def parse_time(text):
    whole, fraction = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?Z", text).groups()
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(fraction or 0)


def test_info_tells_what_there_is(execd, tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "none").touch(mode=0)
    (tmp_path / "none").chmod(0)
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    paths = [str(tmp_path / n) for n in ("file", "none", "link", "fifo")] + [str(tmp_path)]
    answer = get(execd, "/files/info", path=paths)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    got = answer.json
    assert list(got) == paths and all(set(v) == FIELDS and v["path"] == k for k, v in got.items())
    assert [got[p]["type"] for p in paths] == ["file", "file", "symlink", "other", "directory"]
    assert [got[p]["mode"] for p in paths[:3]] == [640, 0, 777]
    me = got[paths[0]]
    assert me["size"] == 5 and me["owner"] == pwd.getpwuid(os.getuid()).pw_name and me["group"] == grp.getgrgid(os.getgid()).gr_name
    st = os.stat(paths[0])
    assert abs(parse_time(me["modified_at"]) - st.st_mtime) < 1e-3 and abs(parse_time(me["created_at"]) - st.st_ctime) < 1e-3


@needs_root
def test_an_unknown_owner_is_a_number(execd, tmp_path):
    os.chown(tmp_path, 54321, 54322)
    assert (info(execd, tmp_path)["owner"], info(execd, tmp_path)["group"]) == ("54321", "54322")


def test_info_of_nothing_and_of_what_is_missing(execd, tmp_path):
    assert get(execd, "/files/info").json == {}
    assert is_error(get(execd, "/files/info", path=["/", str(tmp_path / "no")]), 404, "FILE_NOT_FOUND", tmp_path / "no")
    assert is_error(get(execd, "/files/info", path="/etc/passwd/x"), 500, "RUNTIME_ERROR", "/etc/passwd/x")


def test_paths_are_expanded_unless_they_exist_as_they_are(execd):
    home = execd.path.parent
    (home / "cost$5.txt").write_bytes(b"literal")
    (home / "cost.txt").write_bytes(b"expanded")
    assert list(get(execd, "/files/info", path=["~", "$HERE/cost.txt", "${HERE}", "cost.txt", "./x/../cost.txt"]).json) == [
        "~", "$HERE/cost.txt", "${HERE}", "cost.txt", "./x/../cost.txt"]
    assert get(execd, "/files/info", path="./x/../cost.txt").json["./x/../cost.txt"]["path"] == str(home / "cost.txt")
    assert get(execd, "/files/download", path=str(home / "cost$5.txt")).body == b"literal"
    assert get(execd, "/files/download", path="$HERE/cost$5.txt").body == b"expanded"
    assert get(execd, "/files/download", path="~/cost.txt").body == b"expanded"
    assert is_error(get(execd, "/files/info", path="$UNDEFINED_X/f"), 500, "RUNTIME_ERROR", "UNDEFINED_X")
    assert is_empty(delete(execd, "/files", home / "cost$5.txt"))
    assert (home / "cost.txt").exists() and not (home / "cost$5.txt").exists()
    assert is_empty(upload(execd, pair("relative/one.txt", b"1"), pair("$HERE/two.txt", b"2"), pair("~/three.txt", b"3")))
    assert [(home / n).read_bytes() for n in ("relative/one.txt", "two.txt", "three.txt")] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("path", ["x" * 4096, "/" + "y" * 256, "/a/" + "z" * 256 + "/b"])
def test_o3_what_is_no_path(execd, path):
    for method, route in (("GET", "/files/info"), ("DELETE", "/files"), ("GET", "/files/download"), ("GET", "/files/search"),
                          ("GET", "/directories/list"), ("DELETE", "/directories")):
        assert is_error(execd.request(method, route + query(path=path)), 400, "INVALID_REQUEST_BODY")
    assert is_error(post(execd, "/directories", {path: {}}), 400, "INVALID_REQUEST_BODY")
    assert upload(execd, pair(path)).status == 400
    assert execd.request("GET", "/files/info?path=a%00b").status == 400
    assert post(execd, "/directories", '{"a\\u0000b":{}}').status == 400


def test_paths_are_decoded_once(execd, tmp_path):
    (tmp_path / "a%2fb").write_bytes(b"percent")
    assert get(execd, "/files/download", path=str(tmp_path / "a%2fb")).body == b"percent"


# ---- O2 ----


def test_o2_content_is_that_of_regular_files(execd, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to("fifo")
    for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path / "link", tmp_path, "/dev/zero", "/dev/null"):
        before = time.monotonic()
        assert is_error(get(execd, "/files/download", path=str(path)), 400, "INVALID_REQUEST_BODY", path)
        assert is_error(get(execd, "/files/download", path=str(path), offset=1), 400, "INVALID_REQUEST_BODY", path)
        assert is_error(post(execd, "/files/replace", {str(path): {"old": "a", "new": "b"}}), 400, "INVALID_REQUEST_BODY", path)
        assert is_error(upload(execd, pair(path)), 400, "INVALID_FILE_METADATA", path)
        assert time.monotonic() - before < 2
    assert stat.S_ISFIFO((tmp_path / "fifo").lstat().st_mode)


def test_o1_no_magic_links(execd):
    assert get(execd, "/files/download", path="/proc/self/exe").status == 500
    assert get(execd, "/files/info", path="/proc/self/root/etc").status == 500
    assert upload(execd, pair("/proc/self/cwd/x")).status == 500


# ---- removing ----


def test_delete_files(execd, tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "target").touch()
    (tmp_path / "file").touch()
    for name, to in (("to-file", "target"), ("to-dir", "dir"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(to)
    assert is_empty(execd.request("DELETE", "/files"))
    assert is_empty(delete(execd, "/files", tmp_path / "file", tmp_path / "missing", tmp_path / "to-file", tmp_path / "dangling",
                           tmp_path / "missing/too"))
    assert is_error(delete(execd, "/files", tmp_path / "dir"), 500, "RUNTIME_ERROR", tmp_path / "dir")
    assert is_error(delete(execd, "/files", tmp_path / "to-dir"), 500, "RUNTIME_ERROR")
    assert sorted(os.listdir(tmp_path)) == ["dir", "target", "to-dir"]


def test_delete_takes_the_empty_chunked_body_of_a_proxy(execd, tmp_path):
    (tmp_path / "f").touch()
    answer = execd.request("DELETE", "/files" + query(path=str(tmp_path / "f")), iter([]))
    assert is_empty(answer) and not (tmp_path / "f").exists()


def test_remove_directories(execd, tmp_path):
    tree = tmp_path / "tree"
    (tree / "a/b/c").mkdir(parents=True)
    (tree / "a/file").touch()
    os.mkfifo(tree / "a/b/fifo")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tree / "a/link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "plain").touch()
    assert is_empty(delete(execd, "/directories", tree, tmp_path / "missing", f"{tmp_path}/link/", tmp_path / "plain", tmp_path / "no/x"))
    assert os.listdir(tmp_path) == ["kept"] and os.listdir(tmp_path / "kept") == ["file"]
    for path in ("/", ".", "..", f"{tmp_path}/kept/."):
        assert is_error(delete(execd, "/directories", path), 400, "INVALID_REQUEST_BODY")


def test_remove_what_is_very_deep_and_very_wide(execd, tmp_path):
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        with open(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at), "wb"):
            pass
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    wide = tmp_path / "d/wide"
    wide.mkdir()
    for i in range(5000):
        (wide / str(i)).touch()
    assert is_empty(delete(execd, "/directories", tmp_path / "d"))
    assert os.listdir(tmp_path) == ["f"]


@needs_root
def test_remove_does_not_enter_mounts(guest, tmp_path):  # noqa: F811
    execd = guest({"token": TOKEN}).wait_ready()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / "tree/mount").mkdir(parents=True)
    execd.command(f"mount --bind {kept} {tmp_path}/tree/mount")
    assert is_error(delete(execd, "/directories", tmp_path / "tree"), 500, "RUNTIME_ERROR", tmp_path / "tree")
    assert os.listdir(kept) == ["file"]


# ---- moving ----


def test_move(execd, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "d/sub").mkdir(parents=True)
    moves = [{"src": str(tmp_path / "a"), "dest": str(tmp_path / "new/er/b")}, {"SRC": str(tmp_path / "d"), "Dest": str(tmp_path / "e")}]
    assert is_empty(post(execd, "/files/mv", moves))
    assert (tmp_path / "new/er/b").read_bytes() == b"a" and (tmp_path / "e/sub").is_dir()
    assert sorted(os.listdir(tmp_path)) == ["e", "new"]
    assert is_error(post(execd, "/files/mv", moves), 404, "FILE_NOT_FOUND", tmp_path / "a")
    move = {"src": str(tmp_path / "new"), "dest": str(tmp_path / "e")}
    assert is_error(post(execd, "/files/mv", [move]), 500, "RUNTIME_ERROR", tmp_path / "e")
    assert is_error(post(execd, "/files/mv", [{"src": str(tmp_path / "e"), "dest": str(tmp_path / "e/f")}]), 500, "RUNTIME_ERROR")
    assert is_empty(post(execd, "/files/mv", []))


@pytest.mark.skipif(not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tempfile.gettempdir()).st_dev,
                    reason="needs a second file system in /dev/shm")
def test_move_to_another_file_system(execd, tmp_path):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        tree = tmp_path / "tree"
        (tree / "sub").mkdir(parents=True, mode=0o750)
        (tree / "sub/f").write_bytes(b"content" * 50000)
        (tree / "sub/f").chmod(0o604)
        os.utime(tree / "sub/f", (1000000000, 1000000000.5))
        (tree / "link").symlink_to("sub/f")
        os.mkfifo(tree / "fifo")
        with open(tree / "sparse", "wb") as f:
            f.truncate(64 * MIB)
            f.seek(32 * MIB)
            f.write(b"x")
        assert is_empty(post(execd, "/files/mv", [{"src": str(tree), "dest": f"{other}/p/q"}]))
        assert not tree.exists()
        st = os.stat(f"{other}/p/q/sub/f")
        assert stat.S_IMODE(st.st_mode) == 0o604 and st.st_mtime == 1000000000.5 and st.st_size == 350000
        assert os.readlink(f"{other}/p/q/link") == "sub/f" and stat.S_ISFIFO(os.stat(f"{other}/p/q/fifo").st_mode)
        sparse = os.stat(f"{other}/p/q/sparse")
        assert sparse.st_size == 64 * MIB and sparse.st_blocks < 2048
        assert is_error(post(execd, "/files/mv", [{"src": f"{other}/p/q/sub", "dest": str(tmp_path)}]), 500, "RUNTIME_ERROR")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f"{other}/p/q/socket")
        assert is_error(post(execd, "/files/mv", [{"src": f"{other}/p/q", "dest": str(tmp_path / "r")}]), 500, "RUNTIME_ERROR")
        assert os.listdir(tmp_path) == [] and os.path.exists(f"{other}/p/q/sub/f")


# ---- permissions and directories ----


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions(execd, tmp_path):
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to("f")
    os.mkfifo(tmp_path / "fifo")
    body = {str(tmp_path / "link"): {"mode": 4751, "owner": None, "group": ""}, str(tmp_path / "fifo"): {"MODE": 600}}
    assert is_empty(post(execd, "/files/permissions", body))
    assert mode_of(tmp_path / "f") == 0o751 and mode_of(tmp_path / "fifo") == 0o600
    assert is_empty(post(execd, "/files/permissions", {str(tmp_path / "f"): {"mode": 0}, str(tmp_path / "fifo"): None}))
    assert mode_of(tmp_path / "f") == 0o751
    assert mode_of(tmp_path / "f") == 0o751
    missing = tmp_path / "missing"
    assert is_error(post(execd, "/files/permissions", {str(missing): {"mode": 644}}), 500, "RUNTIME_ERROR", missing)
    for who in ("no-such-user", "1000"):
        assert is_error(post(execd, "/files/permissions", {str(tmp_path / "f"): {"owner": who}}), 500, "RUNTIME_ERROR", who)
        assert is_error(post(execd, "/files/permissions", {str(tmp_path / "f"): {"group": who}}), 500, "RUNTIME_ERROR", who)


@needs_root
def test_permissions_change_the_owner(execd, tmp_path):
    assert is_empty(post(execd, "/files/permissions", {str(tmp_path): {"owner": "nobody", "group": "nogroup"}}))
    assert (info(execd, tmp_path)["owner"], info(execd, tmp_path)["group"]) == ("nobody", "nogroup")


@pytest.mark.parametrize("route", ["/files/permissions", "/files/mv", "/files/replace", "/directories"])
@pytest.mark.parametrize("body", ["", "nope", "1", '"x"', "[1]", '{"/x":1}', '{"/x":{"mode":"644","old":1}}', "null"])
def test_bodies_that_are_none(execd, route, body):
    assert is_error(post(execd, route, body), 400, "INVALID_REQUEST_BODY")


def test_large_bodies(execd):
    assert post(execd, "/files/mv", "[" + " " * (4 * MIB) + "]").status == 413
    assert is_error(post(execd, "/files/mv", "[" + "1," * 70000 + "1]"), 413, "CONTENT_TOO_LARGE")


@pytest.mark.parametrize("mode", [888, 649, 10000, 10644, 7778, -1, -267, -644, 2**31, -2**31, 2**62, 644.5])
def test_g11_what_is_no_mode_is_400_by_name_and_changes_nothing(execd, tmp_path, mode):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o640)
    for route in ("/files/permissions", "/directories"):
        body = {str(tmp_path / "first"): {"mode": 700}, str(path): {"mode": mode}}
        assert is_error(post(execd, route, body), 400, "INVALID_REQUEST_BODY", "mode")
    assert is_error(upload(execd, pair(path, b"new", mode=mode)), 400, "INVALID_FILE_METADATA", "mode")
    assert (path.read_bytes(), mode_of(path)) == (b"old", 0o640) and not (tmp_path / "first").exists()


def test_make_directories(execd, tmp_path):
    body = {str(tmp_path / "a/b/c"): {"mode": 700}, str(tmp_path / "d"): {"mode": 644}, str(tmp_path / "e"): {}}
    assert is_empty(post(execd, "/directories", body))
    assert [mode_of(tmp_path / p) for p in ("a", "a/b", "a/b/c", "d", "e")] == [0o755, 0o755, 0o700, 0o644, 0o755]
    assert [info(execd, tmp_path / p)["mode"] for p in ("a/b/c", "d")] == [700, 644]
    assert is_empty(post(execd, "/directories", {str(tmp_path / "d"): {"mode": 777}, "/": {"mode": 700}}))
    assert mode_of(tmp_path / "d") == 0o644
    (tmp_path / "f").touch()
    for path in (tmp_path / "f", tmp_path / "f/g"):
        assert is_error(post(execd, "/directories", {str(path): {}}), 500, "RUNTIME_ERROR", path)
    assert is_error(post(execd, "/directories", {str(tmp_path / "x"): {"owner": "no-such-user"}}), 500, "RUNTIME_ERROR")
    assert not (tmp_path / "x").exists()


# ---- list and search ----


@pytest.fixture
def many(tmp_path):
    """A folder for very many files: in memory, where there is such a place."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as folder:
        yield pathlib.Path(folder)


def touch_many(folder, count):
    folder.mkdir(exist_ok=True)
    fd = os.open(folder, os.O_RDONLY)
    for i in range(count):
        os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def tree(tmp_path):
    for name in ("b/deep/x.py", "b/y.py", "a.txt", "c.py", "B.py", ".hidden.py", "b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "zlink").symlink_to("b")
    return tmp_path


def listed(d, route, root, **more):
    answer = get(d, route, path=str(root), **more)
    assert answer.status == 200, answer.body
    assert all(set(e) == FIELDS for e in answer.json)
    return [os.path.relpath(e["path"], root) for e in answer.json]


def test_list(execd, tree):
    top = [".hidden.py", "B.py", "a.txt", "b", "b.py", "c.py", "zlink"]
    assert listed(execd, "/directories/list", tree) == top
    assert listed(execd, "/directories/list", tree, depth=0) == []
    two = [".hidden.py", "B.py", "a.txt", "b", "b/deep", "b/y.py", "b.py", "c.py", "zlink"]
    assert listed(execd, "/directories/list", tree, depth=2) == two
    three = two[:5] + ["b/deep/x.py"] + two[5:]
    assert listed(execd, "/directories/list", tree, depth=3) == listed(execd, "/directories/list", tree, depth=2147483647) == three
    for depth in ("-1", "x", "1.5", ""):
        assert is_error(get(execd, "/directories/list", path=str(tree), depth=depth), 400, "INVALID_REQUEST_BODY", "depth")
    assert is_error(get(execd, "/directories/list"), 400, "MISSING_QUERY", "path")
    assert is_error(get(execd, "/directories/list", path=str(tree / "no")), 404, "FILE_NOT_FOUND", tree / "no")
    for path in (tree / "zlink", tree / "a.txt"):
        assert is_error(get(execd, "/directories/list", path=str(path)), 400, "INVALID_REQUEST_BODY", path)


def test_search(execd, tree):
    assert listed(execd, "/files/search", tree) == [".hidden.py", "B.py", "a.txt", "b/deep/x.py", "b/y.py", "b.py", "c.py", "zlink"]
    for pattern, want in {
        "*": 8, "**": 8, "": 8, "*.py": ["B.py", "b.py", "c.py", "b/y.py", "b/deep/x.py", ".hidden.py"],
        "**/*.py": ["B.py", "b.py", "c.py", "b/y.py", "b/deep/x.py", ".hidden.py"], "b/*.py": ["b/y.py"], "b/**": ["b/deep/x.py", "b/y.py"],
        "?.py": ["B.py", "b.py", "c.py", "b/y.py", "b/deep/x.py"], "[a-c].{py,txt}": ["a.txt", "b.py", "c.py"], "zlink": ["zlink"],
        "!(*.py)": ["a.txt", "zlink"], "nothing": [],
    }.items():
        got = listed(execd, "/files/search", tree, pattern=pattern)
        assert len(got) == want if isinstance(want, int) else sorted(got) == sorted(want), pattern
    assert listed(execd, "/files/search", tree / "zlink") == ["."]
    assert listed(execd, "/files/search", tree / "a.txt", pattern="*.txt") == ["."]
    for pattern in ("[", "{a", "a!b", "!(x", "[]", "\\"):
        assert is_error(get(execd, "/files/search", path=str(tree), pattern=pattern), 400, "INVALID_REQUEST_BODY", "pattern")
    assert is_error(get(execd, "/files/search"), 400, "MISSING_QUERY", "path")
    assert is_error(get(execd, "/files/search", path=str(tree / "no")), 404, "FILE_NOT_FOUND", tree / "no")


def test_names_of_any_bytes_are_listed(execd, tmp_path):
    for name in (b"new\nline", b"\xff\xfe", b"tab\t", b'quote"\\', "€".encode(), b"\x01\x7f", b"$HOME", b"~"):
        (tmp_path / os.fsdecode(name)).touch()
    names = [os.path.basename(e["path"]) for e in get(execd, "/directories/list", path=str(tmp_path)).json]
    assert names == ["\x01\x7f", "$HOME", "new\nline", 'quote"\\', "tab\t", "~", "€", "\ufffd\ufffd"]


def test_names_that_are_no_text_can_be_used_everywhere(execd, tmp_path):
    folder, name = os.fsencode(tmp_path), b"a\xff b%41\xfe"
    (tmp_path / os.fsdecode(name)).write_bytes(b"line one\nline two")
    (tmp_path / os.fsdecode(b"a\xfe b%41\xff")).write_bytes(b"other")
    raw_path = urllib.parse.quote_from_bytes(folder + b"/" + name)
    for route, more in (("/directories/list", {}), ("/files/search", {"pattern": "a*"})):
        found = get(execd, route, path=str(tmp_path), **more).json
        assert [set(e) for e in found] == [FIELDS | {"uri"}] * 2 and found[0]["path"] == found[1]["path"]
        assert [urllib.parse.unquote_to_bytes(e["uri"])[len("file://"):] for e in found] == [folder + b"/a\xfe b%41\xff", folder + b"/" + name]
    uri = found[1]["uri"]
    for sent in (raw_path, urllib.parse.quote(uri)):
        answer = execd.request("GET", f"/files/download?path={sent}")
        assert answer.body == b"line one\nline two"
        assert answer.headers["Content-Disposition"].endswith("filename*=UTF-8''a%EF%BF%BD%20b%2541%EF%BF%BD")
        assert execd.request("GET", f"/files/download?path={sent}&offset=2").body == b"line two"
        assert execd.request("GET", f"/files/info?path={sent}").json[uri]["uri"] == uri
        assert execd.request("GET", f"/files/search?path={sent}").json[0]["uri"] == uri
    assert execd.request("GET", "/files/info?" + "&".join(f"path={urllib.parse.quote(e['uri'])}" for e in found)).json.keys() == {e["uri"] for e in found}
    assert is_empty(post(execd, "/files/permissions", {uri: {"mode": 600}}))
    assert is_empty(post(execd, "/files/replace", {uri: {"old": "one", "new": "1"}}))
    assert is_empty(post(execd, "/files/mv", [{"src": uri, "dest": f"file://{tmp_path}/%80/%C3%A9%2F..%81"}]))
    moved = tmp_path / os.fsdecode(b"\x80") / "é" / os.fsdecode(b"..\x81")
    assert moved.read_bytes() == b"line 1\nline two" and mode_of(moved) == 0o600
    assert is_empty(upload(execd, pair(f"file://{tmp_path}/%80/up", b"1")))
    assert is_empty(post(execd, "/directories", {f"file://{tmp_path}/%82": {}}))
    assert len(get(execd, "/directories/list", path=f"file://{tmp_path}/%80").json) == 2
    assert is_empty(execd.request("DELETE", f"/files?path={urllib.parse.quote_from_bytes(folder)}/%80/up"))
    assert is_empty(delete(execd, "/directories", f"file://{tmp_path}/%80"))
    assert sorted(os.listdir(folder)) == [b"a\xfe b%41\xff", b"\x82"]


@pytest.mark.parametrize("path", ["file:///a%", "file:///a%zz", "file:///a%00b", "file:///%2e%2e/" + "a%20" * 2000])
def test_o3_what_is_no_file_uri(execd, path):
    for answer in (get(execd, "/files/info", path=path), get(execd, "/files/download", path=path), post(execd, "/directories", {path: {}})):
        assert answer.status == 400 and answer.json["code"] == "INVALID_REQUEST_BODY"


def test_what_is_called_like_a_uri_is_itself(execd, tmp_path):
    execd_here = os.readlink(f"/proc/{execd.process.pid}/cwd")
    path = pathlib.Path(execd_here) / "file:" / "here%41"
    path.parent.mkdir()
    try:
        path.write_bytes(b"mine")
        assert get(execd, "/files/download", path="file:///here%41").body == b"mine"
    finally:
        shutil.rmtree(path.parent)


def test_o4_too_deep_is_413_and_not_a_short_list(execd, tmp_path):
    at = tmp_path
    for _ in range(63):
        at = at / "d"
    at.mkdir(parents=True)
    (at / "last").touch()
    assert listed(execd, "/files/search", tmp_path)[-1].endswith("/last")
    (at / "d").mkdir()
    assert len(listed(execd, "/directories/list", tmp_path, depth=1000)) == 65
    (at / "d/beyond").touch()
    for route, more in (("/files/search", {}), ("/directories/list", {"depth": 1000})):
        assert is_error(get(execd, route, path=str(tmp_path), **more), 413, "CONTENT_TOO_LARGE", "64")
    assert len(listed(execd, "/directories/list", tmp_path, depth=64)) == 65


def test_o4_too_many_is_413_and_a_long_list_is_whole(execd, many):
    for i in range(100):
        touch_many(many / f"{i:02}", 999)
    routes = (("/files/search", {"pattern": "*"}), ("/directories/list", {"depth": 9}))
    for (route, more), count in zip(routes, (99900, 100000)):  # each name is visited, whether it is told or not
        answer = get(execd, route, path=str(many), **more)
        assert answer.status == 200 and answer.headers["Transfer-Encoding"] == "chunked" and len(answer.json) == count
        paths = [e["path"] for e in answer.json]
        assert len(set(paths)) == count and paths == sorted(paths) and paths[-1] == f"{many}/99/998"
        assert {e["size"] for e in answer.json if e["type"] == "file"} == {0}
    assert get(execd, "/files/search", path=str(many), pattern="997").headers["Content-Length"]
    touch_many(many / "00" / "more", 0)
    for route, more in (*routes, ("/files/search", {"pattern": "997"}), ("/files/search", {})):
        assert is_error(get(execd, route, path=str(many), **more), 413, "CONTENT_TOO_LARGE", "100000")
    assert len(get(execd, "/directories/list", path=str(many / "99")).json) == 999


def test_g12_a_list_that_cannot_be_whole_says_so_before_its_first_byte(execd, many):
    """What is too deep comes last, behind more than goes out in one piece."""
    touch_many(many, 40000)
    at = many / "z"
    at.mkdir()
    for _ in range(65):
        at = at / "d"
        at.mkdir()
    for route, more in (("/files/search", {}), ("/directories/list", {"depth": 1000})):
        assert is_error(get(execd, route, path=str(many), **more), 413, "CONTENT_TOO_LARGE", "64")


def test_a_search_ends_with_its_client(execd, tmp_path):
    with raw(execd, head_of(0, "x", "GET", "/files/search?path=/")):
        wait_for(lambda: children_of(execd.process.pid))
    wait_for(lambda: not children_of(execd.process.pid))


def test_a_slow_reader_of_a_long_list_holds_up_nobody(execd, many):
    touch_many(many, 30000)
    before = rss_kib(execd.process.pid)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(raw(execd, head_of(0, "x", "GET", "/files/search" + query(path=str(many)))))
                   for _ in range(8)]
        time.sleep(2)
        assert rss_kib(execd.process.pid) - before < 8 * 1024
        assert info(execd, many)["type"] == "directory"
        response = http.client.HTTPResponse(sockets[0])
        response.begin()
        assert len(json.loads(response.read())) == 30000


# ---- replace ----


def test_replace(execd, tmp_path):
    a, b, c = (tmp_path / n for n in "abc")
    a.write_bytes(b"one two two \xff two")
    b.write_bytes(b"aaaa")
    c.write_bytes(b"nothing")
    a.chmod(0o604)
    body = {str(a): {"old": "two", "new": "2"}, str(b): {"old": "aa", "new": "aaa"}, str(c): {"old": "x", "new": "y"}}
    before = a.stat().st_mtime_ns
    answer = post(execd, "/files/replace?verbose=true", body)
    assert answer.json == {str(a): {"replacedCount": 3}, str(b): {"replacedCount": 2}, str(c): {"replacedCount": 0}}
    assert [p.read_bytes() for p in (a, b, c)] == [b"one 2 2 \xff 2", b"aaaaaa", b"nothing"]
    assert mode_of(a) == 0o604 and a.stat().st_mtime_ns > before
    assert is_empty(post(execd, "/files/replace?verbose=false", {str(c): {"old": "nothing", "new": ""}}))
    assert c.read_bytes() == b""
    assert is_empty(post(execd, "/files/replace", {str(b): {"old": "a", "new": None}}))
    assert b.read_bytes() == b""
    missing = tmp_path / "missing"
    assert is_error(post(execd, "/files/replace", {str(missing): {"old": "x", "new": "y"}}), 404, "FILE_NOT_FOUND", missing)
    assert is_error(post(execd, "/files/replace", {str(a): {"old": "", "new": "y"}}), 400, "INVALID_REQUEST_BODY", "old")
    assert not leftovers(tmp_path)


def test_replace_across_pieces_and_behind_a_symlink(execd, tmp_path):
    (tmp_path / "d").mkdir()
    target = tmp_path / "d/f"
    (tmp_path / "link").symlink_to("d/f")
    needle = "needle" * 20000
    for old, new in (("ab", "c"), (needle, "short"), ("x", "long" * 100)):
        content = b"".join(os.urandom(1).hex().encode() * 30011 + old.encode() * (i % 3) + b"x" for i in range(30))
        target.write_bytes(content)
        answer = post(execd, "/files/replace?verbose=true", {str(tmp_path / "link"): {"old": old, "new": new}})
        assert answer.json == {str(tmp_path / "link"): {"replacedCount": content.count(old.encode())}}
        assert target.read_bytes() == content.replace(old.encode(), new.encode())
    assert (tmp_path / "link").is_symlink()


# ---- download ----


def test_download_whole(execd, tmp_path):
    path = tmp_path / "report.bin"
    path.write_bytes(bytes(range(256)) * 1000)
    os.utime(path, (1000000000, 1000000000))
    answer = get(execd, "/files/download", path=str(path))
    assert answer.status == 200 and answer.body == path.read_bytes()
    assert answer.headers["Content-Type"] == "application/octet-stream" and answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="report.bin"'
    assert answer.headers["Last-Modified"] == "Sun, 09 Sep 2001 01:46:40 GMT"
    head = execd.request("HEAD", "/files/download" + query(path=str(path)))
    assert head.status == 200 and head.headers["Content-Length"] == "256000" and head.body == b""
    (tmp_path / "empty").touch()
    assert get(execd, "/files/download", path=str(tmp_path / "empty")).headers["Content-Length"] == "0"
    name = tmp_path / '€"\n.txt'
    name.touch()
    shown = urllib.parse.quote(name.name)
    assert get(execd, "/files/download", path=str(name)).headers["Content-Disposition"] == (
        f"attachment; filename=\"{shown}\"; filename*=UTF-8''{shown}")
    assert is_error(get(execd, "/files/download"), 400, "MISSING_QUERY", "path")
    assert is_error(get(execd, "/files/download", path=str(tmp_path / "no")), 404, "FILE_NOT_FOUND", tmp_path / "no")
    (tmp_path / "link").symlink_to("report.bin")
    assert get(execd, "/files/download", path=str(tmp_path / "link")).body == path.read_bytes()


@pytest.mark.parametrize("value, want", [
    ("bytes=0-9", (206, "bytes 0-9/26", b"abcdefghij")), ("bytes=20-", (206, "bytes 20-25/26", b"uvwxyz")),
    ("bytes=-3", (206, "bytes 23-25/26", b"xyz")), ("bytes=24-99", (206, "bytes 24-25/26", b"yz")),
    ("bytes=2-3,5-6", (206, "bytes 2-3/26", b"cd")), ("bytes=26-", (416, "bytes */26", None)), ("bytes=9-8", (416, None, None)),
    ("bytes=x", (416, None, None)), ("bytes=", (416, None, None)), ("lines=1-2", (200, None, b"abcdefghijklmnopqrstuvwxyz")),
])
def test_ranges(execd, tmp_path, value, want):
    (tmp_path / "f").write_bytes(b"abcdefghijklmnopqrstuvwxyz")
    answer = get(execd, "/files/download", {"Range": value}, path=str(tmp_path / "f"))
    status, content_range, body = want
    assert answer.status == status and answer.headers["Content-Range"] == content_range
    if body is None:
        assert is_error(answer, 416, "UNKNOWN") and int(answer.headers["Content-Length"]) == len(answer.body)
    else:
        assert answer.body == body


def test_conditions(execd, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"content")
    os.utime(path, (1000000000, 1000000000.5))
    then, before = "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:39 GMT"
    for headers, status in (
        ({"If-Modified-Since": then}, 304), ({"If-Modified-Since": before}, 200), ({"If-Modified-Since": "yesterday"}, 200),
        ({"If-Unmodified-Since": then}, 200), ({"If-Unmodified-Since": before}, 412), ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"x"', "If-Modified-Since": then}, 200), ({"If-Match": "*"}, 200), ({"If-Match": '"x"'}, 412),
        ({"Range": "bytes=0-0", "If-Range": then}, 206), ({"Range": "bytes=0-0", "If-Range": before}, 200),
        ({"Range": "bytes=0-0", "If-Range": '"x"'}, 200),
    ):
        answer = get(execd, "/files/download", headers, path=str(path))
        assert answer.status == status, headers
        assert answer.body == {200: b"content", 206: b"c", 304: b""}.get(status, answer.body)


@pytest.mark.parametrize("content, values, want", [
    (b"line1\nline2\nline3\nline4\n", {"offset": 2, "limit": 2}, b"line2\nline3"),
    (b"line1\r\nline2\r\r\nline3", {"limit": 2}, b"line1\nline2"),
    (b"a\n\nb\n", {"offset": 1}, b"a\n\nb"), (b"a\nb", {"offset": 2}, b"b"), (b"a\nb\n", {"offset": 3}, b""),
    (b"a", {"offset": 9}, b""), (b"", {"limit": 1}, b""), (b"\n\n", {"limit": 5}, b"\n"), (b"a\rb\r\n", {"offset": 1}, b"a\rb"),
])
def test_lines(execd, tmp_path, content, values, want):
    (tmp_path / "f").write_bytes(content)
    answer = get(execd, "/files/download", path=str(tmp_path / "f"), **values)
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, want, "text/plain; charset=utf-8")
    assert answer.headers["Content-Disposition"] is None


def test_lines_of_a_large_file(execd, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"".join(b"%d %s\n" % (i, b"x" * (i % 100)) for i in range(200000)))
    want = path.read_bytes()[:-1].split(b"\n")
    assert get(execd, "/files/download", path=str(path), offset=199990).body == b"\n".join(want[199989:])
    assert get(execd, "/files/download", path=str(path), offset=2).body == b"\n".join(want[1:])
    before = rss_kib(execd.process.pid)
    path.write_bytes(b"\r" * (9 * MIB) + b"x\n")
    assert get(execd, "/files/download", path=str(path), offset=1).body == b"\r" * (9 * MIB) + b"x"
    assert rss_kib(execd.process.pid) - before < 8 * 1024


def test_lines_that_cannot_be(execd, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    for values in ({"offset": 0}, {"limit": 0}, {"offset": -1}, {"limit": "x"}, {"offset": ""}, {"offset": 1, "limit": "1.5"}):
        assert is_error(get(execd, "/files/download", path=str(tmp_path / "f"), **values), 400, "INVALID_REQUEST_BODY")
    assert is_error(get(execd, "/files/download", {"Range": "bytes=0-1"}, path=str(tmp_path / "f"), offset=1), 400, "INVALID_REQUEST_BODY")
    assert is_error(get(execd, "/files/download", path=str(tmp_path / "no"), limit=1), 404, "FILE_NOT_FOUND")


def test_a_file_that_shrinks_while_it_is_sent_is_a_cut_answer(execd, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * (64 * MIB))
    with raw(execd, head_of(0, "x", "GET", "/files/download" + query(path=str(path)))) as s:
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
        os.truncate(path, 0)
        total = 0
        while piece := s.recv(MIB):
            total += len(piece)
    assert total < 64 * MIB
    assert execd.request("GET", "/ping").status == 200


# ---- full disks ----


@needs_root
def test_a_full_disk_is_an_error_and_leaves_nothing(execd, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    full = 507, "INSUFFICIENT_STORAGE", "the disk is full: No space left"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=True)
    try:
        (disk / "old").write_bytes(b"before" * 1000)
        assert is_error(upload(execd, pair(disk / "old", b"x" * 3 * MIB)), *full)
        assert is_error(post(execd, "/files/replace", {str(disk / "old"): {"old": "e", "new": "x" * 2000}}), *full)
        (tmp_path / "large").write_bytes(b"x" * 3 * MIB)
        move = {"src": str(tmp_path / "large"), "dest": str(disk / "large")}
        assert is_error(post(execd, "/files/mv", [move]), *full)
        assert os.listdir(disk) == ["old"] and (disk / "old").read_bytes() == b"before" * 1000
        assert (tmp_path / "large").exists()
    finally:
        until = time.monotonic() + 10  # a worker that has just answered may not be gone yet
        while subprocess.run(["umount", disk], check=False).returncode != 0:
            assert time.monotonic() < until
            time.sleep(0.05)


# ---- as PID 1 ----


def test_a_guest_serves_files_for_its_user(guest, tmp_path):  # noqa: F811
    os.chmod(tmp_path, 0o755)
    folder = tmp_path / "w"
    folder.mkdir()
    d = guest({"token": TOKEN, "user": "54321:54322", "cwd": str(folder), "env": {"A": "x"}}, cgroups=1).wait_ready()
    assert is_empty(upload(d, pair("made/here/$A.txt", b"1", mode=640), pair("other", b"2", owner="root", group="root")))
    for path, ids in ((folder / "made", (54321, 54322)), (folder / "made/here/x.txt", (54321, 54322)), (folder / "other", (0, 0))):
        assert (path.stat().st_uid, path.stat().st_gid) == ids
    assert is_empty(post(d, "/directories", {"made/dir": {"mode": 700}}))
    assert (folder / "made/dir").stat().st_uid == 54321
    (folder / "private").mkdir(mode=0o700)
    (folder / "private/f").write_bytes(b"root's")
    assert get(d, "/files/download", path="private/f").body == b"root's"
    assert is_empty(delete(d, "/directories", "private", "made"))
    assert os.listdir(folder) == ["other"]
    assert (tmp_path / "cgroup.0").read_text() == "0" * 3  # each worker has entered the leaf
    assert d.command("ps -e -o comm=")[-1]["type"] == "execution_complete"


def test_workers_of_a_guest_hold_nothing_of_ours(guest, tmp_path):  # noqa: F811
    """D1"""
    g = guest({"token": TOKEN})
    d = g.wait_ready()
    body, kind = python_body([pair(tmp_path / "f", b"x" * 1000)])
    with raw(d, head_of(len(body), kind)) as s:
        s.sendall(body[:-20])
        wait_for(lambda: children_of(g.pid))
        worker = children_of(g.pid)[0]
        wait_for(lambda: not any("guest.sock" in os.readlink(f"/proc/{worker}/fd/{n}") for n in os.listdir(f"/proc/{worker}/fd"))
                 and len(os.listdir(f"/proc/{worker}/fd")) <= 8)
        links = [os.readlink(f"/proc/{worker}/fd/{n}") for n in os.listdir(f"/proc/{worker}/fd")]
        assert not any(link.startswith("socket:") or "state" in link or "log.0" in link for link in links), links
        s.sendall(body[-20:])
        assert s.recv(1000).startswith(b"HTTP/1.1 200")
