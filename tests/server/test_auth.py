# SPDX-License-Identifier: Apache-2.0
"""The API key: who needs it, and what protects a server without one (A1)."""
import pytest

from conftest import KEY

PREFLIGHT = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}


@pytest.mark.parametrize("path", ["/health", "/docs", "/redoc", "/openapi.json"])
def test_public_paths_need_no_key(server, path):
    assert server.get(path, auth=False).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/", "/v1/sandboxes", "/nowhere", "/v1/health", "/health/", "/health/x", "/healthz", "/Health", "/%68ealth",
        "//health", "/./health", "/docs/../v1/sandboxes", "/docs/oauth2-redirect", "/openapi.json/", "/v1/docs",
        "/sandboxes/a/proxy", "/sandboxes/a/proxy/x", "/sandboxes/a/proxy/%38", "/sandboxes/../proxy/80",
        "/sandboxes/%2e%2e/proxy/80", "/sandboxes//proxy/80", "/x/sandboxes/a/proxy/80", "/sandboxes/a/b/proxy/80",
    ],
)  # fmt: skip
def test_every_other_path_needs_the_key_before_routing(server, spec, path):
    spec.check_error(server.get(path, auth=False), 401, "MISSING_API_KEY")


@pytest.mark.parametrize("path", ["/sandboxes/a/proxy/80", "/v1/sandboxes/a/proxy/80/x", "/sandboxes/a/proxy/80/.."])
def test_endpoint_routes_need_no_key(server, path):
    assert server.get(path, auth=False).status != 401


def test_a_missing_key_names_the_header(server):
    assert "OPEN-SANDBOX-API-KEY" in server.get("/v1/sandboxes", auth=False).json["message"]
    empty = server.get("/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": ""})
    assert (empty.status, empty.json["code"]) == (401, "MISSING_API_KEY")


@pytest.mark.parametrize("key", ["x", KEY[:-1], KEY + "0", KEY.upper(), f"Bearer {KEY}", f"{KEY},{KEY}"])
def test_a_wrong_key_is_refused(server, spec, key):
    spec.check_error(server.get("/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": key}), 401, "INVALID_API_KEY")


def test_two_keys_are_refused(server):
    header = f"OPEN-SANDBOX-API-KEY: {KEY}\r\n"
    answer = server.raw(f"GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{header}{header}\r\n".encode())
    assert b"INVALID_API_KEY" in answer


def test_other_forms_of_the_key_do_not_count(server):
    assert server.get(f"/x?OPEN-SANDBOX-API-KEY={KEY}", auth=False).status == 401
    assert server.get("/x", auth=False, headers={"Authorization": f"Bearer {KEY}"}).status == 401


@pytest.mark.smoke
def test_the_key_opens(server, spec):
    spec.check_error(server.get("/nowhere"), 404, "NOT_FOUND")
    lower = {"open-sandbox-api-key": KEY}
    spec.check_error(server.get("/nowhere", auth=False, headers=lower), 404)


def test_a_refused_body_is_not_read(server):
    """401 comes before the body: the client need not send it."""
    with server.connect() as s:
        s.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
        assert s.recv(64).startswith(b"HTTP/1.1 401 ")


FLOOD = 200


def test_refused_requests_cannot_fill_the_logs(start_server):
    """Whoever has no key can make a line of them a second, and is counted from there on."""
    s = start_server(key=KEY)
    for number in range(FLOOD):
        assert s.get(f"/v1/sandboxes/{number}", headers={"OPEN-SANDBOX-API-KEY": "wrong"}).status == 401
        s.get(f"/sandboxes/a{number}/proxy/80", auth=False)
    assert s.get("/v1/nowhere", auth=False).status == 401 and s.get("/v1/nowhere").status == 404
    s.stop()
    log = s.stderr.splitlines()
    for of, about in (("status=401", "requests with a wrong API key"), ("/proxy/80", "requests without an API key")):
        written = len([line for line in log if of in line and " request " in line and "nowhere" not in line])
        left_out = [line for line in log if f'about="{about}"' in line]
        assert written == 60 and len(left_out) == 1 and f"lines={FLOOD - written}" in left_out[0], (written, left_out)
    assert [line.split("status=")[1][:3] for line in log if "nowhere" in line] == ["401", "404"], "other kinds have room"


# ---- CORS, with a key ----


def test_preflights_need_no_key(server):
    asked = {**PREFLIGHT, "Access-Control-Request-Headers": "content-type, open-sandbox-api-key"}
    a = server.request("OPTIONS", "/v1/sandboxes", auth=False, headers=asked)
    assert (a.status, a.body) == (200, b"OK")
    assert a.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert a.headers["Access-Control-Allow-Credentials"] == "true"
    assert a.headers["Access-Control-Allow-Headers"] == "content-type, open-sandbox-api-key"
    assert "PATCH" in a.headers["Access-Control-Allow-Methods"]
    assert a.headers["Access-Control-Max-Age"] == "600"
    assert a.headers["X-Request-ID"]


def test_half_a_preflight_needs_the_key(server):
    for missing in PREFLIGHT:
        headers = {k: v for k, v in PREFLIGHT.items() if k != missing}
        assert server.request("OPTIONS", "/v1/sandboxes", auth=False, headers=headers).status == 401


def test_answers_may_be_read_by_any_origin(server):
    origin = {"Origin": "https://a.example"}
    for auth in (True, False):  # errors too
        a = server.get("/v1/nowhere", auth=auth, headers=origin)
        assert a.headers["Access-Control-Allow-Origin"] == "*"
        assert a.headers["Access-Control-Allow-Credentials"] == "true"
    a = server.get("/health", headers={**origin, "Cookie": "a=b"})
    assert a.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert a.headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Origin" not in server.get("/health").headers


def test_odd_origins_are_not_repeated(server):
    a = server.request("OPTIONS", "/x", auth=False, headers={**PREFLIGHT, "Origin": "https://a\"><script>"})
    assert "Access-Control-Allow-Origin" not in a.headers


# ---- without a key ----


@pytest.fixture(params=["config", "environment"])
def open_server(request, start_server):
    if request.param == "config":
        return start_server("[server]\nunsafe_no_auth = true\n", key=None)
    return start_server(key=None, env={"OPENSANDBOX_INSECURE_SERVER": "YES"})


def test_without_a_key_no_key_is_asked_for(open_server, spec):
    spec.check_error(open_server.get("/nowhere", auth=False), 404)
    assert "no API key" in open_server.stderr


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "0.0.0.0", "[::]"])
def test_without_a_key_the_host_must_be_loopback(open_server, spec, host):
    for path in ("/health", "/v1/sandboxes"):
        spec.check_error(open_server.get(path, auth=False, headers={"Host": host}), 403, "FORBIDDEN_HOST")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "127.1.2.3", "[::1]:8080"])
def test_without_a_key_every_loopback_name_will_do(open_server, host):
    assert open_server.get("/health", auth=False, headers={"Host": host}).status == 200


def test_without_a_key_foreign_origins_are_refused(open_server, spec):
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{open_server.port + 1}", "http://localhost"):
        a = open_server.get("/health", auth=False, headers={"Origin": origin})
        spec.check_error(a, 403, "FORBIDDEN_ORIGIN")
        assert not [h for h in a.headers if h.lower().startswith("access-control-")]
    a = open_server.request("OPTIONS", "/v1/sandboxes", auth=False, headers=PREFLIGHT)
    assert a.status == 403


def test_without_a_key_the_own_origin_is_welcome(open_server):
    own = f"http://127.0.0.1:{open_server.port}"
    a = open_server.get("/health", auth=False, headers={"Origin": own})
    assert a.status == 200
    assert not [h for h in a.headers if h.lower().startswith("access-control-")]
