# SPDX-License-Identifier: Apache-2.0
"""The C library's server side against a real server."""
import json
import os
import subprocess

import pytest

import registry
from conftest import BIN, KEY, Server, assert_clean, clean_environment
from registry import Image, Registry, tar_of
from test_http_basics import make_certificate
from test_image_pull import entry

PROGRAMS = BIN.parent / "client"

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def run(program, *args, env=None, timeout=180):
    done = subprocess.run([program, *args], env=clean_environment("/nonexistent", **(env or {})), timeout=timeout,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    assert_clean(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("proxy", [False, True], ids=["endpoints", "server-proxy"])
@pytest.mark.smoke
def test_every_function_about_the_server_works_waiting_and_not(server, proxy):
    out = run(PROGRAMS / "server_side", f"127.0.0.1:{server.port}", KEY, env={"USE_SERVER_PROXY": "1"} if proxy else None)
    assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")
    shown = dict(line.split(" ", 1) for line in out.splitlines() if line[0] not in "wc")
    assert list(json.loads(shown["info"])) == ["id", "status", "entrypoint", "expires_at", "created_at", "image", "snapshot_id",
                                               "platform", "metadata"]  # fmt: skip
    assert json.loads(shown["info"])["image"] == {"image": "host", "auth": None}
    assert list(json.loads(shown["list"])["pagination"]) == ["page", "page_size", "total_items", "total_pages", "has_next_page"]
    assert list(json.loads(shown["snapshot"])) == ["id", "sandbox_id", "name", "status", "created_at"]
    assert json.loads(shown["endpoint"])["headers"] == {}


@pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed")
def test_images_come_and_go_in_both_directions(tmp_path):
    hub = Registry(tmp_path / "hub")
    server = Server(tmp_path, entry(hub.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    try:
        server.wait_ready()
        hub.push("made/small", "1", Image([tar_of({"etc/name": b"small", "data": os.urandom(300000)})]))
        out = run(PROGRAMS / "images", f"127.0.0.1:{server.port}", KEY,
                  env={"IMAGE": f"{hub.host}/made/small:1", "ARCHIVE": tmp_path / "archive.tar"})
        assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")
    finally:
        server.stop()
        hub.stop()


def test_it_speaks_tls_and_says_whom_it_does_not_trust(start_server, tmp_path):
    cert, key = make_certificate(tmp_path)
    server = start_server(f"[server]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n")
    assert run(PROGRAMS / "https", f"127.0.0.1:{server.port}", KEY, cert) == "ok\n"
