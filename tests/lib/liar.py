# SPDX-License-Identifier: Apache-2.0
"""A registry that lies, as far as a test tells it to. It speaks http on loopback."""
import http.server
import json
import socket
import threading
import time

from registry import Image, OCI, tar_of


class Liar:
    """Serves IMAGE as NAME:v1 and bends what HOOK(handler, path) takes: a hook that returns True has answered."""

    def __init__(self, image=None, hook=None):
        self.image = image or Image([tar_of({"a": b"layer one" * 1000}), tar_of({"b": b"layer two" * 1000})])
        self.hook = hook or (lambda handler, path: False)
        self.requests = []  # (method, path, headers)
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                liar.answer(self)

            do_HEAD = do_GET

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                liar.answer(self)

            def log_message(self, *args):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.uri = f"{self.host}/some/thing:v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def answer(self, h):
        self.requests.append((h.command, h.path, dict(h.headers)))
        if self.hook(h, h.path):
            return
        if h.path == "/v2/":
            reply(h, 200, b"{}", "application/json")
        elif "/manifests/" in h.path:
            reply(h, 200, self.image.manifest, self.image.type)
        elif h.path.split("/")[-1] in self.image.blobs:
            reply(h, 200, self.image.blobs[h.path.split("/")[-1]], "application/octet-stream")
        else:
            reply(h, 404, b"{}", "application/json")

    def asked(self, part):
        return [r for r in self.requests if part in r[1]]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def reply(h, status, body=b"", kind="application/octet-stream", **headers):
    h.send_response(status)
    h.send_header("Content-Type", kind)
    h.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        h.send_header(name.replace("_", "-"), value)
    h.end_headers()
    if h.command != "HEAD":
        h.wfile.write(body)


def redirect(h, where, status=307):
    reply(h, status, Location=where)


def hang_up(h):
    """In the middle of whatever it is."""
    h.wfile.flush()
    h.connection.shutdown(socket.SHUT_RDWR)
    h.close_connection = True


def endless(h, kind="application/octet-stream", pause=0.0, piece=b"x" * 65536):
    h.send_response(200)
    h.send_header("Content-Type", kind)
    h.send_header("Transfer-Encoding", "chunked")
    h.end_headers()
    try:
        while True:
            h.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(pause)
    except OSError:
        h.close_connection = True


def manifest_with(image, **changes):
    return json.dumps({**json.loads(image.manifest), **changes}).encode()


INDEX = OCI + "index.v1+json"
MANIFEST = OCI + "manifest.v1+json"
