# SPDX-License-Identifier: Apache-2.0
"""Ports of the host that lead straight into sandboxes (ingress.host_ports, the extension ports.publish)."""
import contextlib
import http.client
import json
import socket
import time

import pytest

from api import EXECD, TIMEOUT_S, Api, wait_for
from ports import free_ports
from way import ENTRYPOINT

KEY = "ports.publish"
LIMITS = {"cpu": "2", "memory": "256Mi"}


def config(ports):
    """A few ports that nobody else takes meanwhile."""
    first = free_ports(ports)
    return first, f'[ingress]\nhost_ports = "{first}-{first + ports - 1}"\n'


def ask(address, path="/x"):
    with contextlib.closing(http.client.HTTPConnection(address, timeout=TIMEOUT_S)) as c:
        c.request("GET", path)
        return json.loads(c.getresponse().read())


def listens(address):
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        return ask(address)["line"] == "GET /x HTTP/1.1"


def is_refused(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.smoke
def test_a_published_port_leads_there_as_long_as_the_sandbox_lives(home, start_server, spec):
    _, text = config(20)
    server = start_server(text, home=home)
    api = Api(server, spec)
    sandbox_id = api.create(entrypoint=ENTRYPOINT, resourceLimits=LIMITS, extensions={KEY: "8080, 9999"})["id"]
    address = api.endpoint(sandbox_id, 8080)["endpoint"]
    assert "/" not in address and address != api.endpoint(sandbox_id, 9999)["endpoint"]
    wait_for(lambda: listens(address), what="the sandbox")
    assert dict(h.split(": ", 1) for h in ask(address)["headers"])["Host"] == address  # byte for byte
    assert api.endpoint(sandbox_id, 8081)["endpoint"].endswith(f"/sandboxes/{sandbox_id}/proxy/8081")
    assert api.endpoint(sandbox_id, 8080, "?use_server_proxy=true")["endpoint"].endswith("/proxy/8080")
    host, port = api.endpoint(sandbox_id, 9999)["endpoint"].split(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as s:
        assert s.recv(1) == b""  # nobody is there
    second = api.create(entrypoint=ENTRYPOINT, resourceLimits=LIMITS, extensions={KEY: "8080"})["id"]
    assert api.endpoint(second, 8080)["endpoint"] not in (address, f"{host}:{port}")

    # Both ways, and a half-close.
    with socket.create_connection(tuple([address.split(":")[0], int(address.split(":")[1])]), timeout=TIMEOUT_S) as s:
        s.sendall(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000000)
        s.shutdown(socket.SHUT_WR)
        received = b""
        while piece := s.recv(65536):
            received += piece
    assert b'"size": 1000000' in received

    server.stop()
    api = Api(start_server(text, home=home), spec)
    assert api.endpoint(sandbox_id, 8080)["endpoint"] == address
    wait_for(lambda: listens(address), what="the sandbox after a restart")
    api.pause(sandbox_id)
    api.wait_state(sandbox_id, "Paused")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(address)
    for i in (sandbox_id, second):
        assert api.delete(i).status == 204
    wait_for(lambda: is_refused(address), what="the end of it")


def test_what_cannot_be_published(start_server, spec):
    first, text = config(2)
    api = Api(start_server(text), spec)
    for value in ("", "x", "0", "65536", "80,80", "80,,81", "1,2,3,4,5,6,7,8,9", str(EXECD), "18080"):
        if value == "":
            continue  # nothing is asked for
        api.refused(api.try_create(extensions={KEY: value}), 400, "SANDBOX::INVALID_PARAMETER", KEY)
    api.refused(api.try_create(extensions={KEY: "80"}, secureAccess=True), 400, "SANDBOX::INVALID_PARAMETER", KEY, "secureAccess")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        one = api.create(extensions={KEY: "80"})["id"]
        assert api.endpoint(one, 80)["endpoint"] == f"127.0.0.1:{first + 1}"
        api.refused(api.try_create(extensions={KEY: "80"}), 503, "UNAVAILABLE", "host_ports")
    assert api.delete(one).status == 204
    assert wait_for(lambda: is_refused(f"127.0.0.1:{first + 1}"), what="a free port")
    time.sleep(0.05)
    two = api.create(extensions={KEY: "80,81"})["id"]  # what a refused create had opened is free, too
    assert api.delete(two).status == 204


def test_without_a_range_nothing_is_published(api):
    api.refused(api.try_create(extensions={KEY: "80"}), 400, "SANDBOX::INVALID_PARAMETER", KEY, "ingress.host_ports")


def test_a_range_that_is_none(run_server, tmp_path):
    path = tmp_path / "c.toml"
    for text in ("80-90", "5000", "6000-5000", "5000-70000"):
        path.write_text(f'[ingress]\nhost_ports = "{text}"\n')
        done = run_server("config", "--config", str(path))
        assert done.returncode == 1 and "ingress.host_ports" in done.stderr
