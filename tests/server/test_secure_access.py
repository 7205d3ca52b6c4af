# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with secureAccess: the token, signed endpoints, and what neither of them leaves in a log."""
import contextlib
import hashlib
import http.client
import json
import struct
import time

import pytest

from api import EXECD, TIMEOUT_S, Api, wait_for
from conftest import KEY, Server
from way import ENTRYPOINT

HEADER = "OpenSandbox-Secure-Access"
SECRET = b"0123456789abcdef"
CONFIG = """
[ingress.secure_access]
active_key = "k"
max_ttl_seconds = 86400
[[ingress.secure_access.keys]]
key_id = "k"
key = "MDEyMzQ1Njc4OWFiY2RlZg=="
[[ingress.secure_access.keys]]
key_id = "o"
key = "b2xk"
"""


def base36(n):
    digits = ""
    while n:
        n, d = divmod(n, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[d] + digits
    return digits or "0"


def signature(sandbox_id, port, expires, secret=SECRET, key="k"):
    """As the contract has it, and not as the server computes it."""
    canonical = f"v1\nshort\n{sandbox_id}\n{port}\n{base36(expires)}\n".encode()
    inner = struct.pack(">I", len(secret)) + secret + struct.pack(">I", len(canonical)) + canonical
    return hashlib.sha256(inner).hexdigest()[:8] + key


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = Server(tmp_path_factory.mktemp("server"), CONFIG, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture(scope="module")
def secured(api):
    sandbox_id = api.create(entrypoint=ENTRYPOINT, secureAccess=True, resourceLimits={"cpu": "2", "memory": "256Mi"})["id"]
    wait_for(lambda: ask(api.endpoint(sandbox_id, 8080), "/").status == 200, what="the server in the sandbox")
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204


def ask(endpoint, rest="", headers=None, method="GET", body=None):
    """An answer, with its `text`, of ENDPOINT as a client takes it."""
    host, _, path = endpoint["endpoint"].partition("/")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=TIMEOUT_S)) as c:
        c.request(method, f"/{path}{rest}", body, {**endpoint.get("headers", {}), **(headers or {})})
        response = c.getresponse()
        response.text = response.read().decode()
        return response


def denied(response, status, says):
    assert response.status == status, response.text
    error = json.loads(response.text)
    assert error["code"] == "SECURE_ACCESS_DENIED" and error["message"] == f"signature: {says}"


@pytest.mark.parametrize("query", ["", "?use_server_proxy=true"])
def test_an_endpoint_comes_with_what_it_needs(api, secured, query):
    for port in (1, 8080, EXECD):
        assert HEADER in api.endpoint(secured, port, query)["headers"]
    endpoint = api.endpoint(secured, 8080, query)
    assert json.loads(ask(endpoint, "/x?y").text)["line"] == "GET /x?y HTTP/1.1"
    bare = {"endpoint": endpoint["endpoint"]}
    denied(ask(bare), 401, "signature required for this sandbox")
    for wrong in ("", "x", endpoint["headers"][HEADER][:-1]):
        denied(ask(bare, headers={HEADER: wrong}), 401, "secure access header mismatch")


def test_execd_wants_both_tokens(api, secured):
    endpoint = api.endpoint(secured, EXECD)
    assert ask(endpoint, "/ping").status == 200
    for name in endpoint["headers"]:
        rest = {k: v for k, v in endpoint["headers"].items() if k != name}
        assert ask({**endpoint, "headers": rest}, "/ping").status == 401


@pytest.mark.smoke
def test_a_signed_endpoint_needs_nothing_else(api, secured):
    expires = int(time.time()) + 3600
    endpoint = api.endpoint(secured, 8080, f"?expires={expires}")
    assert "headers" not in endpoint
    assert endpoint["endpoint"] == \
        f"127.0.0.1:{api.server.port + 1}/{secured}/8080/{base36(expires)}/{signature(secured, 8080, expires)}"
    for rest, want in (("", "/"), ("/", "/"), ("/a%2Fb//c?d", "/a%2Fb//c?d"), ("?q", "/?q")):
        assert json.loads(ask(endpoint, rest).text)["line"] == f"GET {want} HTTP/1.1"
    denied(ask(endpoint, headers={HEADER: "wrong"}), 401, "secure access header mismatch")
    assert list(api.endpoint(secured, EXECD, f"?expires={expires}")["headers"]) == ["X-EXECD-ACCESS-TOKEN"]


def test_signatures_that_do_not_hold(api, secured):
    now = int(time.time())
    proxy = f"127.0.0.1:{api.server.port + 1}"

    def route(port=8080, expires=now + 60, sign=None, **more):
        return {"endpoint": f"{proxy}/{secured}/{port}/{base36(expires)}/{sign or signature(secured, 8080, expires, **more)}"}

    assert ask(route(secret=b"old", key="o")).status == 200
    denied(ask(route(expires=now - 60)), 401, "access expired")
    denied(ask(route(key="z")), 401, "unauthorized: unknown signed_key_id")
    denied(ask(route(sign="00000000k")), 401, "unauthorized: signature mismatch")
    denied(ask(route(port=8081)), 401, "unauthorized: signature mismatch")
    assert ask(route(sign="0000000gk")).status == 401  # no signature at all: nothing that can be had without the key


@pytest.mark.parametrize("expires", ["0", "1", "-1", "18446744073709551616", "9" * 40])
def test_times_that_nothing_is_signed_for(api, secured, expires):
    api.refused(api.get(f"/sandboxes/{secured}/endpoints/80?expires={expires}"), 400, "SANDBOX::INVALID_PARAMETER", "expires")


def test_a_signature_has_a_longest_life(api, secured):
    far = int(time.time()) + 90000
    api.refused(api.get(f"/sandboxes/{secured}/endpoints/80?expires={far}"), 400, "SANDBOX::INVALID_PARAMETER", "86400")


def test_an_open_sandbox_can_be_signed_for_too(api, inside):
    endpoint = api.endpoint(inside, 8080, f"?expires={int(time.time()) + 60}")
    assert json.loads(ask(endpoint, "/x").text)["line"] == "GET /x HTTP/1.1"


def test_guessing_ends_soon(api, box):
    sandbox_id = box(secureAccess=True)["id"]
    endpoint = api.endpoint(sandbox_id, 8080)
    answers = [ask(endpoint, headers={HEADER: f"guess {i}"}).status for i in range(25)]
    assert answers == [401] * 20 + [429] * 5
    assert ask(endpoint).status == 429 and int(ask(endpoint).headers["Retry-After"]) > 0


def test_logs_have_no_signature(api, secured):
    expires = int(time.time()) + 77
    endpoint = api.endpoint(secured, 8080, f"?expires={expires}")
    assert ask(endpoint, "/hush").status == 200
    wait_for(lambda: f"path=/{secured}/8080 " in api.server.stderr, what="the line")
    audit = (api.server.home.state / "server/audit.jsonl").read_text()
    assert f'"path":"/{secured}/8080"' in audit
    for text in (api.server.stderr, audit):
        assert signature(secured, 8080, expires) not in text and "/hush" not in text.split(f"{secured}/8080")[-1][:40]


def test_the_token_survives_a_restart(home, start_server, spec):
    first = start_server(home=home)
    api = Api(first, spec)
    sandbox_id = api.create(secureAccess=True)["id"]
    before = api.endpoint(sandbox_id, 8080)["headers"]
    first.stop()
    second = Api(start_server(home=home), spec)
    assert second.endpoint(sandbox_id, 8080)["headers"] == before
    assert ask({"endpoint": second.endpoint(sandbox_id, 8080)["endpoint"]}).status == 401
    fork = second.fork(sandbox_id)[0]
    assert HEADER in second.endpoint(fork, 8080)["headers"] and second.endpoint(fork, 8080)["headers"] != before
    for i in (sandbox_id, fork):
        assert second.delete(i).status == 204


GATEWAYS = {
    "wildcard": ("*.gw.example", "{id}-8080.gw.example", "{id}-8080-{exp}-{sig}.gw.example", None),
    "uri": ("gw.example:1/base", "gw.example:1/base/{id}/8080", "gw.example:1/base/{id}/8080/{exp}/{sig}", None),
    "header": ("gw.example", "gw.example", "gw.example", "{id}-8080"),
}


@pytest.mark.parametrize("mode", GATEWAYS)
def test_endpoints_of_a_gateway(start_server, spec, mode):
    address, plain, signed, header = GATEWAYS[mode]
    config = f'[ingress]\nmode = "gateway"\n[ingress.gateway]\naddress = "{address}"\nroute = {{ mode = "{mode}" }}\n{CONFIG}'
    api = Api(start_server(config), spec)
    sandbox_id = api.create(secureAccess=True)["id"]
    expires = int(time.time()) + 60
    words = {"id": sandbox_id, "exp": base36(expires), "sig": signature(sandbox_id, 8080, expires)}
    one, two = api.endpoint(sandbox_id, 8080), api.endpoint(sandbox_id, 8080, f"?expires={expires}")
    assert one["endpoint"] == plain.format(**words) and two["endpoint"] == signed.format(**words)
    assert HEADER in one["headers"] and HEADER not in two.get("headers", {})
    if header:
        assert one["headers"]["OpenSandbox-Ingress-To"] == header.format(**words)
        assert two["headers"]["OpenSandbox-Ingress-To"] == f"{sandbox_id}-8080-{words['exp']}-{words['sig']}"
    by_server = api.endpoint(sandbox_id, 8080, "?use_server_proxy=true")
    assert by_server["endpoint"].endswith(f"/sandboxes/{sandbox_id}/proxy/8080") and list(by_server["headers"]) == [HEADER]
    assert api.delete(sandbox_id).status == 204
