# SPDX-License-Identifier: Apache-2.0
"""files [MIB] - a large file (1 GiB) through the server, down and up, against nginx that serves and receives (PUT) the same file, in
turns; and 10,000 small files, one by one against nginx, and in one request."""
import json
import os
import pathlib
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from stage import Peer, Stage, report  # noqa: E402

SIZE = int(sys.argv[1] if len(sys.argv) > 1 else 1024) << 20
ROUNDS = 3
SMALL = 10_000
SMALL_BYTES = b"a small file of no great interest\n" * 4
BOUNDARY = "bench-boundary"


def part(path, first):
    lead = "" if first else "\r\n"
    return (f'{lead}--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n'
            f'Content-Type: application/json\r\n\r\n{json.dumps({"path": path})}\r\n'
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n').encode()


TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


def upload_head(stage, length):
    return ("POST", stage.path("/files/upload"), length,
            [*stage.token.items(), ("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")])


def rate(began):
    return SIZE / (time.perf_counter() - began) / 1e6


def download(peer, path, headers=()):
    began = time.perf_counter()
    peer.send_head("GET", path, 0, headers)
    if peer.drain() != SIZE:
        raise SystemExit("bench: not the whole file")
    return rate(began)


def send_file(peer, source, before=b"", behind=b""):
    peer.sock.sendall(before)
    source.seek(0)
    peer.sock.sendfile(source)
    peer.sock.sendall(behind)


def upload(stage, peer, source):
    head = part("/root/big", True)
    began = time.perf_counter()
    peer.send_head(*upload_head(stage, len(head) + SIZE + len(TAIL)))
    send_file(peer, source, head, TAIL)
    peer.drain()
    return rate(began)


def put(peer, source):
    began = time.perf_counter()
    peer.send_head("PUT", "/put", SIZE)
    send_file(peer, source)
    peer.drain()
    return rate(began)


def small_one_by_one(stage, peer):
    began = time.perf_counter()
    for i in range(SMALL):
        body = part(f"/root/one/{i}", True) + SMALL_BYTES + TAIL
        peer.send_head(*upload_head(stage, len(body)), body)
        peer.drain()
    return SMALL / (time.perf_counter() - began)


def small_put(peer):
    began = time.perf_counter()
    for i in range(SMALL):
        peer.send_head("PUT", f"/small/{i}", len(SMALL_BYTES), body=SMALL_BYTES)
        peer.drain()
    return SMALL / (time.perf_counter() - began)


def small_at_once(stage, peer):
    body = b"".join(part(f"/root/all/{i}", i == 0) + SMALL_BYTES for i in range(SMALL)) + TAIL
    began = time.perf_counter()
    peer.send_head(*upload_head(stage, len(body)), body)
    peer.drain()
    return SMALL / (time.perf_counter() - began)


with Stage() as stage_:
    nginx = Peer(stage_.start_nginx())
    ours = stage_.peer()
    name = stage_.folder / "nginx/files/big"
    block = os.urandom(1 << 20)
    with open(name, "wb") as f:
        for _ in range(SIZE >> 20):
            f.write(block)
    down = stage_.path("/files/download?path=" + urllib.parse.quote("/root/big"))
    ups, downs = [], []
    with open(name, "rb") as big:
        for _ in range(ROUNDS):
            ups.append((upload(stage_, ours, big), put(nginx, big)))
            downs.append((download(ours, down, stage_.token.items()), download(nginx, "/big")))
    by_one = small_one_by_one(stage_, ours), small_put(nginx)
    at_once = small_at_once(stage_, ours), by_one[0]
report("download.rate", "MB/s", downs, "nginx", 0.7, 1)
report("upload.rate", "MB/s", ups, "nginx, PUT", 0.7, 1)
report("upload.small_one_by_one", "files/s", [by_one], "nginx, PUT", None, 1)
report("upload.small_at_once", "files/s", [at_once], "one by one", None, 1)
