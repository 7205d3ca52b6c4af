# SPDX-License-Identifier: Apache-2.0
"""Where a port of a sandbox can be reached, and with which headers."""
import contextlib
import http.client
import json

import pytest

from api import EXECD, TIMEOUT_S, Api


@pytest.mark.smoke
def test_endpoints_lead_where_they_say(api, inside):
    for query in ("", "?use_server_proxy=false", "?use_server_proxy=true", "?use_server_proxy=1", "?use_server_proxy=ON"):
        host, path = api.endpoint(inside, 8080, query)["endpoint"].split("/", 1)
        port = api.server.port + (0 if query.endswith(("true", "1", "ON")) else 1)
        assert host == f"127.0.0.1:{port}" and path == f"sandboxes/{inside}/proxy/8080"
        with contextlib.closing(http.client.HTTPConnection(host, timeout=TIMEOUT_S)) as c:
            c.request("GET", f"/{path}/hello")
            assert json.loads(c.getresponse().read())["line"] == "GET /hello HTTP/1.1"


def test_the_server_is_where_the_client_found_it(api, inside):
    a = api.get(f"/sandboxes/{inside}/endpoints/8080?use_server_proxy=true", headers={"Host": "box.example:99"})
    assert a.json["endpoint"] == f"box.example:99/sandboxes/{inside}/proxy/8080"


def test_only_guarded_ports_have_headers(api, inside):
    for port in (1, 80, 8080, 65535):
        assert "headers" not in api.endpoint(inside, port)
    for query in ("", "?use_server_proxy=true"):
        assert api.endpoint(inside, EXECD, query)["headers"] == api.endpoint(inside, EXECD)["headers"]


@pytest.mark.parametrize("port", ["0", "65536", "-1", "99999999"])
def test_endpoints_of_ports_that_cannot_be(api, inside, port):
    api.refused(api.get(f"/sandboxes/{inside}/endpoints/{port}"), 400, "NATIVE::INVALID_PORT", "port", "65535")


@pytest.mark.parametrize("port", ["x", "80a", "1.5", "9" * 30])
def test_endpoints_of_what_is_no_port(api, inside, port):
    a = api.refused(api.get(f"/sandboxes/{inside}/endpoints/{port}"), 422, "SANDBOX::INVALID_PARAMETER", "port")
    assert a.json["detail"][0]["loc"] == ["path", "port"]


@pytest.mark.parametrize("query, name", [("use_server_proxy=maybe", "use_server_proxy"), ("use_server_proxy=", "use_server_proxy"),
                                         ("expires=soon", "expires"), ("expires=", "expires")])  # fmt: skip
def test_parameters_of_endpoints_that_cannot_be_read(api, inside, query, name):
    a = api.refused(api.get(f"/sandboxes/{inside}/endpoints/80?{query}"), 422, "SANDBOX::INVALID_PARAMETER", name)
    assert a.json["detail"][0]["loc"] == ["query", name]


def test_without_keys_nothing_is_signed(api, inside):
    at = f"/sandboxes/{inside}/endpoints/80?expires=4102444800"
    api.refused(api.get(at), 400, "SANDBOX::INVALID_PARAMETER", "expires", "keys")
    api.refused(api.get(f"{at}&use_server_proxy=true"), 400, "SANDBOX::INVALID_PARAMETER", "expires", "use_server_proxy")


def test_the_configured_address_is_told(start_server, spec):
    server = start_server('[server]\neip = "https://public.example:444/base/"\n')
    api = Api(server, spec)
    sandbox_id = api.create()["id"]
    at = f"/sandboxes/{sandbox_id}/proxy/8080"
    assert api.endpoint(sandbox_id, 8080)["endpoint"] == f"public.example:{server.port + 1}{at}"
    assert api.endpoint(sandbox_id, 8080, "?use_server_proxy=true")["endpoint"] == f"public.example:444/base{at}"
    assert api.delete(sandbox_id).status == 204
