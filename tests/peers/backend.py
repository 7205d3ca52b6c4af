# SPDX-License-Identifier: Apache-2.0
"""A web server for the inside of a sandbox: it says what it got byte for byte, and misbehaves when asked to.

Runs as `python3 -c SOURCE`, alone; one thread per connection, port 8080 of the loopback."""
import base64
import hashlib
import json
import socket
import struct
import threading
import time
import urllib.parse

STATE = {"sent": 0, "open": 0, "closed": 0}
CHORUS = [threading.Event()]


def read_head(f):
    lines = []
    while line := f.readline():
        if line == b"\r\n":
            break
        lines.append(line.rstrip(b"\r\n").decode("latin-1"))
    return lines


def read_body(f, headers):
    """Pieces of a request's body."""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(f.readline().split(b";")[0], 16):
            yield f.read(size)
            f.readline()
        while f.readline() not in (b"\r\n", b""):
            pass
    left = int(headers.get("content-length", 0))
    while left > 0 and (piece := f.read(min(left, 65536))):
        left -= len(piece)
        yield piece


def answer(s, status, body=b"", *headers, length=True):
    more = [f"Content-Length: {len(body)}"] if length else []
    s.sendall("\r\n".join([f"HTTP/1.1 {status}", *headers, *more, "", ""]).encode("latin-1") + body)


def echo(s, f, line, raw, headers, query):
    digest, size = hashlib.sha256(), 0
    for piece in read_body(f, headers):
        digest.update(piece)
        size += len(piece)
    said = {"line": line, "headers": raw, "size": size, "sha256": digest.hexdigest()}
    body = json.dumps(said).encode()
    if line.startswith("HEAD "):
        answer(s, "200 OK", b"", "Content-Type: application/json", f"Content-Length: {len(body)}", length=False)
    else:
        answer(s, "200 OK", body, "Content-Type: application/json")


def headers_of_all_kinds(s, f, line, raw, headers, query):
    answer(s, "200 OK", b"ok", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2", "Set-Cookie: c=3; Domain=localhost; Secure; path=/c",
           "Set-Cookie: __Host-d=4; Secure; Path=/", "NEL: {}", "X-Twice: 1", "X-Twice: 2", "Content-Encoding: gzip",
           "Connection: close, X-Gone", "X-Gone: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Trailer: X-T", "Upgrade: h2c",
           "X-Request-ID: backend", "Strict-Transport-Security: max-age=1", "Clear-Site-Data: *", "Service-Worker-Allowed: /",
           "Content-Security-Policy: default-src 'self'", "Server: backend", "ETag: \"x\"", "Vary: A", "Location: /elsewhere")  # fmt: skip


def big(s, f, line, raw, headers, query):
    left, block, STATE["sent"] = int(query["n"]), b"0123456789abcdef" * 4096, 0
    s.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
    while left > 0:
        n = s.send(block[: min(left, len(block))])
        left -= n
        STATE["sent"] += n


def chunked(s, f, line, raw, headers, query):
    s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for size in (1, 10, 70000, 3):
        s.sendall(b"%x;ext=1\r\n" % size + b"x" * size + b"\r\n")
    s.sendall(b"0\r\nX-Trailer: 1\r\n\r\n")


def stream(s, f, line, raw, headers, query):
    """Events until the client goes."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    STATE["open"] += 1
    try:
        while True:
            s.sendall(b"8\r\n{}      \r\n")
            time.sleep(0.02)
    finally:
        STATE["closed"] += 1


def one_and_wait(s, f, line, raw, headers, query):
    """One event; the next when the client was seen to have the first."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nfirst\n\n")
    STATE["gate"] = threading.Event()
    STATE["gate"].wait(20)
    s.sendall(b"second\n\n")


def open_gate(s, f, line, raw, headers, query):
    STATE["gate"].set()
    answer(s, "204 No Content", length=False)


def later(s, f, line, raw, headers, query):
    """Two events with a long silence between them."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
    time.sleep(float(query["after"]))
    s.sendall(b"data: second\n\n")


def chorus(s, f, line, raw, headers, query):
    """The same for many, who get the second one together."""
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")
    CHORUS[-1].wait(300)
    s.sendall(b"data: second\n\n")


def sing(s, f, line, raw, headers, query):
    CHORUS.append(threading.Event())
    CHORUS[-2].set()
    answer(s, "204 No Content", length=False)


def state(s, f, line, raw, headers, query):
    answer(s, "200 OK", json.dumps({k: v for k, v in STATE.items() if isinstance(v, int)}).encode())


def frame(op, data):
    n = len(data)
    size = struct.pack("!B", n) if n < 126 else struct.pack("!BH", 126, n) if n < 65536 else struct.pack("!BQ", 127, n)
    return bytes([0x80 | op]) + size + data


def read_frame(f):
    first, second = f.read(2)
    n = second & 127
    n = struct.unpack("!H", f.read(2))[0] if n == 126 else struct.unpack("!Q", f.read(8))[0] if n == 127 else n
    mask, data = f.read(4), f.read(n)
    pad = (mask * (n // 4 + 1))[:n]
    return first & 15, (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")


def websocket(s, f, line, raw, headers, query):
    """Tells its headers, then echoes; "close N" closes with that code, "drop" hangs up."""
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    chosen = [f"Sec-WebSocket-Protocol: {p.strip()}" for p in headers.get("sec-websocket-protocol", "").split(",")[-1:] if p]
    answer(s, "101 Switching Protocols", frame(1, json.dumps({"line": line, "headers": raw}).encode()), "Upgrade: websocket",
           "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}", "X-Backend: yes", *chosen, length=False)  # fmt: skip
    STATE["open"] += 1
    try:
        while True:
            op, data = read_frame(f)
            if op == 8:
                STATE["close"] = int.from_bytes(data[:2], "big")
                s.sendall(frame(8, data))
                return
            if op == 1 and data.startswith(b"close "):
                s.sendall(frame(8, struct.pack("!H", int(data[6:])) + "wegen €".encode()))
            elif data == b"drop":
                return
            else:
                s.sendall(frame(10 if op == 9 else op, data))
    finally:
        STATE["closed"] += 1


def special(s, f, line, raw, headers, query):
    """Answers that are short, or none."""
    kind = query["kind"]
    if kind == "cut":
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes.")
    elif kind == "cut-chunked":
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")
    elif kind == "garbage":
        s.sendall(b"\0\1\2 this is no HTTP\r\n\r\n")
    elif kind == "both":
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    elif kind == "headers":
        answer(s, "200 OK", b"x", *(f"X-{i}: {'y' * 1000}" for i in range(30)))
    elif kind == "until-close":
        s.sendall(b"HTTP/1.0 200 OK\r\n\r\nall of it")
    elif kind == "early":  # without reading the body
        answer(s, "403 Forbidden", b"no", "Connection: close")
        time.sleep(1)
    elif kind == "silent":
        STATE["open"] += 1
        time.sleep(600)
    elif kind == "interim":
        s.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        answer(s, "200 OK", b"done")
    elif kind == "status":
        has_body = query["code"] not in ("204", "304")
        answer(s, f"{query['code']} Whatever", b"body" if has_body else b"", "Location: http://127.0.0.1:1/", length=has_body)


PATHS = {"/headers": headers_of_all_kinds, "/big": big, "/chunked": chunked, "/stream": stream, "/gated": one_and_wait,
         "/gate": open_gate, "/state": state, "/ws": websocket, "/special": special, "/later": later,
         "/chorus": chorus, "/sing": sing}  # fmt: skip


def serve(s):
    with s, s.makefile("rb") as f:
        lines = read_head(f)
        if not lines:
            return
        headers = {h.split(":", 1)[0].lower(): h.split(":", 1)[1].strip() for h in lines[1:]}
        path, _, text = lines[0].split(" ")[1].partition("?")
        PATHS.get(path, echo)(s, f, lines[0], lines[1:], headers, dict(urllib.parse.parse_qsl(text)))


def quietly(s):
    try:
        serve(s)
    except OSError:
        pass


def listen(family, address):
    with socket.create_server(address, family=family, backlog=4096) as listener:
        while True:
            threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()


listen(socket.AF_INET, ("127.0.0.1", 8080))
