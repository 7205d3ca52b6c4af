# SPDX-License-Identifier: Apache-2.0
"""src/net against programs that we did not write: curl, openssl, websockets for Python, a browser."""
import asyncio
import hashlib
import json
import os
import select
import shutil
import subprocess

import pytest
import websockets

from conftest import BIN, assert_clean

SIZE = 20_000_000


class Peer:
    def __init__(self, folder, *args):
        self.folder = folder
        self.process = subprocess.Popen([BIN / "peer-server", folder, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.url = f"{'https' if args else 'http'}://127.0.0.1:{self.port}"

    def stop(self):
        _, stderr = self.process.communicate(timeout=20)
        assert_clean(stderr)
        assert self.process.returncode == 0, stderr

    def curl(self, *args, path="", check=True):
        done = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "60", *args, self.url + path],
                              capture_output=True, check=False)
        if check:
            assert done.returncode == 0, done.stderr
        return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    d = tmp_path_factory.mktemp("files")
    (d / "big").write_bytes(os.urandom(SIZE))
    (d / "empty").write_bytes(b"")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d / "key.pem", "-out", d / "cert.pem",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    return d


@pytest.fixture(scope="module", params=["plain", "tls"])
def peer(request, folder):
    p = Peer(folder, *([folder / "cert.pem", folder / "key.pem"] if request.param == "tls" else []))
    if request.param == "tls":
        plain = p.curl
        p.curl = lambda *args, **more: plain("--cacert", folder / "cert.pem", *args, **more)
    yield p
    p.stop()


@pytest.fixture(scope="module")
def plain(folder):
    p = Peer(folder)
    yield p
    p.stop()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# ---- files ----


def test_curl_downloads_a_file(peer, folder):
    assert sha256(peer.curl(path="/files/big").stdout) == sha256((folder / "big").read_bytes())
    assert peer.curl(path="/files/empty").stdout == b""


@pytest.mark.parametrize("ask, first, last", [("0-0", 0, 0), ("100-199", 100, 199), (f"{SIZE - 5}-", SIZE - 5, SIZE - 1),
                                              ("-7", SIZE - 7, SIZE - 1), (f"10-{SIZE * 2}", 10, SIZE - 1)])
def test_curl_downloads_a_range(peer, folder, ask, first, last):
    done = peer.curl("--range", ask, "--dump-header", "-", path="/files/big").stdout
    head, _, body = done.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 206 ")
    assert f"Content-Range: bytes {first}-{last}/{SIZE}".encode() in head
    assert body == (folder / "big").read_bytes()[first : last + 1]


def test_curl_asks_for_what_is_not_there(peer):
    head = peer.curl("--range", f"{SIZE}-", "--dump-header", "-", path="/files/big").stdout
    assert head.startswith(b"HTTP/1.1 416 ") and f"Content-Range: bytes */{SIZE}".encode() in head
    assert peer.curl("--head", path="/files/big").stdout.count(f"Content-Length: {SIZE}".encode()) == 1
    assert b" 404 " in peer.curl("--head", path="/files/nothing").stdout


def test_curl_resumes_a_download(peer, folder, tmp_path):
    part = tmp_path / "part"
    part.write_bytes((folder / "big").read_bytes()[: SIZE // 2])
    peer.curl("--continue-at", "-", "--output", part, path="/files/big")
    assert part.read_bytes() == (folder / "big").read_bytes()


# ---- uploads ----


def test_curl_uploads_a_form(peer, folder, tmp_path):
    odd = tmp_path / 'a "b" \u00fc.txt'
    odd.write_bytes(b"\r\n--boundary\r\n" * 1000)
    got = json.loads(peer.curl("--form", f"file=@{folder / 'big'}", "--form", 'metadata={"path":"/x"};type=application/json',
                               "--form", f'file=@"{str(odd).replace(chr(34), chr(92) + chr(34))}";type=text/plain', path="/upload").stdout)
    assert [p["name"] for p in got] == ["file", "metadata", "file"]
    assert got[0]["sha256"] == sha256((folder / "big").read_bytes()) and got[0]["size"] == SIZE
    assert got[1]["sha256"] == sha256(b'{"path":"/x"}') and "filename" not in got[1]
    assert got[2]["sha256"] == sha256(odd.read_bytes()) and got[2]["filename"].endswith(".txt")


def test_curl_gets_its_body_back_while_it_sends(peer, folder):
    big = (folder / "big").read_bytes()
    for extra in ([], ["--header", "Transfer-Encoding: chunked"], ["--header", "Expect: 100-continue"], ["--http1.0"]):
        done = peer.curl("--data-binary", f"@{folder / 'big'}", *extra, path="/echo")
        assert sha256(done.stdout) == sha256(big), extra
    assert sha256(peer.curl("--upload-file", folder / "big", path="/echo").stdout) == sha256(big)


def test_a_bad_form_is_refused(peer):
    done = peer.curl("--data", "no form", "--write-out", "%{http_code}", path="/upload")
    assert done.stdout.endswith(b"400")


# ---- streams ----


def test_curl_reads_all_events(peer):
    events = peer.curl("--no-buffer", path="/events").stdout.decode().split("\n\n")
    assert events[0] == "data: event 0\ndata: of 1000" and len(events) == 1001 and events[-1] == ""


def test_keep_alive_is_kept(peer):
    done = peer.curl("--output", "/dev/null", "--write-out", "%{num_connects} ", f"{peer.url}/files/empty",
                     "--next", "--silent", "--cacert", peer.folder / "cert.pem", "--write-out", "%{num_connects}", path="/files/empty")
    assert done.stdout.split() == [b"1", b"0"]


# ---- websockets ----


def with_websocket(plain, talk, **options):
    async def run():
        async with websockets.connect(f"ws://127.0.0.1:{plain.port}/ws", max_size=None, **options) as ws:
            return await asyncio.wait_for(talk(ws), 30)

    return asyncio.run(run())


def test_websockets_echoes(plain):
    async def talk(ws):
        for message in ("", "hello", "\U0001f600" * 1000, b"", os.urandom(125), os.urandom(126), os.urandom(65535), os.urandom(65536),
                        "x" * 1_000_000):
            await ws.send(message)
            assert await ws.recv() == message
        return ws.subprotocol

    assert with_websocket(plain, talk, subprotocols=["other", "echo"]) == "echo"
    assert with_websocket(plain, talk, compression=None) is None


def test_websockets_fragments_and_pings(plain):
    async def talk(ws):
        await ws.send(["one ", "two ", "three"])
        assert await ws.recv() == "one two three"
        await (await ws.ping(b"are you there"))

    with_websocket(plain, talk)


def test_websockets_close_codes(plain):
    async def talk(ws):
        await ws.send("close")
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        return ws.close_code, ws.close_reason

    assert with_websocket(plain, talk) == (4001, "as you wish")


def test_websockets_too_large(plain):
    async def talk(ws):
        await ws.send(b"x" * (1024 * 1024 + 1))
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        return ws.close_code

    assert with_websocket(plain, talk) == 1009


def test_a_browser_speaks_websocket(plain, tmp_path):
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not installed")
    browser = subprocess.Popen(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}", "--remote-debugging-port=0",
         f"{plain.url}/page"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        readable, _, _ = select.select([plain.process.stdout], [], [], 60)
        assert readable, "the browser reported nothing"
        assert plain.process.stdout.readline() == "echo|gr\u00fc\u00df dich|200000|4001|as you wish\n"
    finally:
        browser.terminate()
        browser.wait(20)


# ---- TLS ----


def test_openssl_gets_tls_1_2_and_1_3_and_nothing_older(folder):
    p = Peer(folder, folder / "cert.pem", folder / "key.pem")
    for version, works in (("-tls1_3", True), ("-tls1_2", True), ("-tls1_1", False)):
        done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{p.port}", version, "-cipher", "ALL:@SECLEVEL=0",
                               "-CAfile", folder / "cert.pem", "-verify_return_error", "-alpn", "http/1.1"],
                              input=b"", capture_output=True, check=False)
        assert (done.returncode == 0) == works, done.stderr
        assert (b"ALPN protocol: http/1.1" in done.stdout) == works
    p.stop()
