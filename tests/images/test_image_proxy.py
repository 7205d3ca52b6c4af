# SPDX-License-Identifier: Apache-2.0
"""Registries behind a proxy that the operator has named."""
import base64
import contextlib
import http.server
import json
import os
import select
import socket
import socketserver
import threading
import urllib.parse

import pytest

import registry
from conftest import KEY, Server, open_way
from registry import Image, Registry, tar_of
from test_image_pull import entry, pull, pulled

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
]


class Proxy:
    """Forwards http and tunnels the rest, remembers what was asked for, and may want a password."""

    def __init__(self, user=None, names=()):
        seen = self.seen = []
        self.names = dict(names)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def may(self):
                want = "Basic " + base64.b64encode(user.encode()).decode() if user else None
                if want and self.headers.get("Proxy-Authorization") != want:
                    self.send_response(407)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return False
                return True

            def far(self, place):
                host, port = (outer.names.get(place) or place).rsplit(":", 1)
                return socket.create_connection((host, int(port)))

            def relay(self, far):
                ends = [self.connection, far]
                while True:
                    for s in select.select(ends, [], [], 30)[0]:
                        data = s.recv(65536)
                        if not data:
                            return
                        ends[s is self.connection].sendall(data)

            def do_CONNECT(self):
                seen.append(("CONNECT", self.path, self.headers.get("Authorization")))
                if not self.may():
                    return
                with self.far(self.path) as far, contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("WWW-Authenticate", "Bearer realm=\"http://proxy.invalid/\"")
                    self.end_headers()
                    self.relay(far)
                self.close_connection = True

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                seen.append((self.command, url.netloc, self.headers.get("Authorization")))
                if not self.may():
                    return
                path = url.path + ("?" + url.query if url.query else "")
                with self.far(url.netloc) as far, contextlib.suppress(OSError):
                    head = "".join(f"{k}: {v}\r\n" for k, v in self.headers.items() if not k.lower().startswith("proxy-"))
                    far.sendall(f"{self.command} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
                    while data := far.recv(65536):
                        self.connection.sendall(data)
                self.close_connection = True

            do_HEAD = do_GET

        class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

        self.server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://{user + '@' if user else ''}127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def proxy():
    made = []

    def make(**more):
        made.append(Proxy(**more))
        return made[-1]
    yield make
    for p in made:
        p.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("hub") / "r")
    yield r
    r.stop()


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("secure") / "r", with_tls=True)
    open_way(r.cert.parent)
    yield r
    r.stop()


@pytest.fixture
def serve(tmp_path):
    made = []

    def make(config, **env):
        made.append(Server(tmp_path, config, env={"OPENSANDBOX_SERVER_API_KEY": KEY, **env}))
        made[-1].wait_ready()
        return made[-1]
    yield make
    for s in made:
        s.stop()


def image():
    return Image([tar_of({"f": os.urandom(1000)})])


def config(url, *entries, no_proxy=()):
    return f"[images]\nproxy = {json.dumps(url)}\nno_proxy = {json.dumps(list(no_proxy))}\n" + "".join(entries)


def test_http_and_https_go_by_the_proxy(serve, proxy, hub, secure):
    p = proxy()
    server = serve(config(p.url, entry(hub.host), entry(secure.host, insecure=False, ca_file=str(secure.cert))))
    for r in (hub, secure):
        uri = r.push("by/proxy", "v1", image())
        assert pulled(server, uri)
    assert {("GET", hub.host), ("CONNECT", secure.host)} <= {(method, place) for method, place, _ in p.seen}


def test_names_are_the_proxys_to_resolve(serve, proxy, hub):
    """A host that only the proxy knows, and that need not be called private: what it leads to is not ours to see."""
    p = proxy(names={"registry.test": hub.host, "registry.test:443": "127.0.0.1:1"})
    hub.push("by/name", "v1", image())
    server = serve(config(p.url, entry("registry.test", private=False)))
    assert pulled(server, "registry.test/by/name:v1")


def test_addresses_that_are_written_out_are_judged_all_the_same(serve, proxy, hub):
    p = proxy(names={"localhost:80": hub.host, "[::1]:80": hub.host})
    uri = hub.push("by/address", "v1", image())
    server = serve(config(p.url, entry(hub.host, private=False), entry("localhost", private=False)))
    for name in (uri, "localhost/by/address:v1"):
        end = pull(server, name)[-1]
        assert end["type"] == "error" and "private address" in end["message"], end
    assert p.seen == []


def test_some_hosts_are_asked_directly(serve, proxy, hub):
    p = proxy()
    uri = hub.push("directly", "v1", image())
    server = serve(config(p.url, entry(hub.host), no_proxy=["127.0.0.1", ".example"]))
    assert pulled(server, uri) and p.seen == []


def test_the_environment_names_no_proxy(serve, proxy, hub):
    p = proxy()
    uri = hub.push("environment", "v1", image())
    server = serve(entry(hub.host), http_proxy=p.url, https_proxy=p.url, HTTPS_PROXY=p.url, ALL_PROXY=p.url)
    assert pulled(server, uri) and p.seen == []


def test_a_proxy_with_a_password(serve, proxy, secure):
    p = proxy(user="me:s3cret")
    uri = secure.push("password", "v1", image())
    rule = entry(secure.host, insecure=False, ca_file=str(secure.cert))
    server = serve(config(p.url, rule))
    assert pulled(server, uri)
    assert "s3cret" not in server.stderr
    end = pull(serve(config(p.url.replace("s3cret", "wrong"), rule)), uri)[-1]
    assert end["type"] == "error" and "status 407" in end["message"] and "wrong" not in end["message"]


def test_credentials_are_the_registrys(serve, proxy, tmp_path_factory):
    guarded = Registry(tmp_path_factory.mktemp("guarded") / "r", with_password=True, with_tls=True)
    open_way(guarded.cert.parent)
    try:
        p = proxy()
        uri = guarded.push("private", "v1", image())
        server = serve(config(p.url, entry(guarded.host, insecure=False, ca_file=str(guarded.cert))))
        assert pulled(server, uri, auth={"username": registry.USER, "password": registry.PASSWORD})
        assert {a for _, _, a in p.seen} == {None}, "they go through the tunnel"
    finally:
        guarded.stop()


def test_a_proxy_that_is_not_there(serve, hub):
    uri = hub.push("no/proxy", "v1", image())
    end = pull(serve(config("http://127.0.0.1:1", entry(hub.host))), uri)[-1]
    assert end["type"] == "error" and "the proxy for images cannot be reached" in end["message"]


@pytest.mark.parametrize("text, why", [
    ('proxy = "ftp://x"', "images.proxy"), ('proxy = "proxy:3128"', "images.proxy"), ('proxy = "http://a/b"', "images.proxy"),
    ('proxy = "http://a b"', "images.proxy"), ('no_proxy = ["a/b"]', "images.no_proxy"),
])
def test_what_is_no_proxy_is_refused(run_server, tmp_path, text, why):
    (tmp_path / "c.toml").write_text(f"[images]\n{text}\n")
    done = run_server("config", "--config", tmp_path / "c.toml")
    assert done.returncode == 1 and why in done.stderr


def test_the_listing_does_not_show_its_password(run_server, tmp_path):
    (tmp_path / "c.toml").write_text('[images]\nproxy = "http://me:s3cret@proxy:3128"\n')
    done = run_server("config", "--config", tmp_path / "c.toml")
    assert done.returncode == 0 and "s3cret" not in done.stdout
