# SPDX-License-Identifier: Apache-2.0
"""opensandbox-ingress: where a request goes, who may come in, and what is passed on."""
import asyncio
import json
import os
import re
import signal
import subprocess
import time

import pytest
import websockets

from api import EXECD, TIMEOUT_S, Api, wait_for
from conftest import KEY, Server
from gateway import GATEWAY, SECRETS, Gateway, GatewayWay, gateway_socket  # noqa: F401
from test_renewals import QUEUE, redis  # noqa: F401
from test_secure_access import CONFIG, HEADER, base36, signature
from way import ENTRYPOINT

RENEWS = f"[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n{CONFIG}"


@pytest.fixture(scope="module")
def server(tmp_path_factory, gateway_socket):  # noqa: F811
    s = Server(tmp_path_factory.mktemp("server"), f'{RENEWS}\n[ingress]\ngateway_socket = "{gateway_socket}"\n',
               env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture(scope="module", params=["header", "uri", "header by gateway socket", "uri by gateway socket"])
def gateway(request, tmp_path_factory, server, gateway_socket):
    mode, *by_socket = request.param.split(" ", 1)
    g = Gateway(tmp_path_factory.mktemp("gateway"), [server], mode, *(["--gateway-socket", gateway_socket] if by_socket else []))
    if by_socket:
        wait_for(lambda: "gateway socket connected" in g.stderr, what="the gateway socket")
    yield g
    g.stop()


@pytest.fixture(scope="module")
def secured(api):
    sandbox_id = api.create(entrypoint=ENTRYPOINT, secureAccess=True, resourceLimits={"cpu": "2", "memory": "256Mi"})["id"]
    token = api.endpoint(sandbox_id, 8080)["headers"][HEADER]
    listens = lambda: api.server.get(f"/sandboxes/{sandbox_id}/proxy/8080/", headers={HEADER: token}).status == 200  # noqa: E731
    wait_for(listens, what="the server in the sandbox")
    yield sandbox_id, token
    assert api.delete(sandbox_id).status == 204


@pytest.fixture
def way(gateway, inside):
    return GatewayWay(gateway, inside)


def refused(answer, status, says):
    response, body = answer
    assert (response.status, body.decode()) == (status, f"OpenSandbox Ingress: {says}\n")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


# ---- routes ----


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.smoke
def test_every_method_arrives(way, method):
    response, body = way.request(method, "/a?b=c", b"body" if method != "GET" else None)
    assert response.status == 200 and response.headers["Reverse-Proxy-Server-PowerBy"] == "OpenSandbox-ingress"
    said = json.loads(body)
    assert said["line"] == f"{method} /a?b=c HTTP/1.1" and said["size"] == (4 if method != "GET" else 0)


@pytest.mark.parametrize("rest, want", [("/", "/"), ("/?x", "/?x"), ("/a%2Fb", "/a%2Fb"), ("//a//b/", "//a//b/"), ("/a/../b", "/a/../b"),
                                        ("/./a", "/./a"), ("/%zz?a?b", "/%zz?a?b"), ("/status.ok", "/status.ok"),
                                        ("/x2qxvk/58d4200bk/y", "/x2qxvk/58d4200bk/y")])  # fmt: skip
def test_paths_arrive_byte_for_byte(way, rest, want):
    """What looks signed belongs to a sandbox that is open to all."""
    assert json.loads(way.request("GET", rest)[1])["line"] == f"GET {want} HTTP/1.1"


def test_a_host_names_a_sandbox_too(gateway, inside):
    if gateway.mode == "uri":
        assert json.loads(GatewayWay(gateway, inside).request("GET", "?q")[1])["line"] == "GET /?q HTTP/1.1"
        return
    way = GatewayWay(gateway, inside, by_host=True)
    assert json.loads(way.request("GET", "/x")[1])["line"] == "GET /x HTTP/1.1"
    response, _ = way.request("GET", "/x", headers={"OPEN-SANDBOX-INGRESS": f"https://{inside}-8080.x"})
    assert response.status == 200


def test_routes_that_lead_nowhere(gateway, inside):
    none = "00000000-0000-4000-8000-000000000000"
    refused(GatewayWay(gateway, none).request("GET", "/"), 404, f"sandbox not found: {none}")
    refused(GatewayWay(gateway, "No-Such.id"[:5]).request("GET", "/"), 404, "sandbox not found: No-Su")
    for port in ("0", "65536", "x", ""):
        response, body = GatewayWay(gateway, inside, port).request("GET", "/")
        assert response.status == 400 and body.startswith(b"OpenSandbox Ingress: a route is ")
    response, body = GatewayWay(gateway, inside, 9999).request("GET", "/")
    assert response.status == 502


def test_health_is_for_those_who_name_no_sandbox(gateway):
    for method in ("GET", "POST"):
        head = f"{method} /status.ok HTTP/1.1\r\nHost: 10.0.0.1:28888\r\nConnection: close\r\n\r\n".encode()
        answer = GatewayWay(gateway, "x").raw(head)
        assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\nOK")


def test_a_sandbox_that_is_not_running(gateway, api, box):
    sandbox_id = box()["id"]
    api.pause(sandbox_id)
    api.wait_state(sandbox_id, "Paused")
    refused(GatewayWay(gateway, sandbox_id).request("GET", "/"), 503, "sandbox not ready: it is Paused")
    api.resume(sandbox_id)
    api.wait_state(sandbox_id, "Running")
    wait_for(lambda: GatewayWay(gateway, sandbox_id).request("GET", "/")[0].status == 502, what="a connection that is refused")


def test_several_servers_are_asked(tmp_path, server, inside, start_server, spec):
    other = start_server()
    second = Api(other, spec)
    there = second.create(entrypoint=ENTRYPOINT)["id"]
    g = Gateway(tmp_path, [server, other, "http://127.0.0.1:1"], "uri")
    try:
        assert GatewayWay(g, inside).request("GET", "/")[0].status == 200
        wait_for(lambda: GatewayWay(g, there).request("GET", "/")[0].status == 200, what="the other server's sandbox")
        none = GatewayWay(g, "none").request("GET", "/")
        refused(none, 502, "the sandbox could not be looked up")  # the third might have had it
    finally:
        g.stop()
    assert second.delete(there).status == 204


# ---- headers ----


def test_what_is_passed_and_what_is_not(way):
    sent = {"Cookie": "a=b", "Authorization": "Bearer x", "X-Mine": "1", "Origin": "https://o.example", HEADER: "t",
            "OPEN-SANDBOX-API-KEY": "theirs", "OpenSandbox-Gateway": "1", "X-Forwarded-For": "1.2.3.4", "Forwarded": "for=1.2.3.4",
            "OPEN-SANDBOX-INGRESS": "x", "X-Real-IP": "1.2.3.4", "Connection": "close, X-Hop", "X-Hop": "1"}  # fmt: skip
    response, body = way.request("GET", "/x", headers=sent)
    said = json.loads(body)
    values = dict(h.split(": ", 1) for h in said["headers"])
    assert (values["Cookie"], values["Authorization"], values["X-Mine"]) == ("a=b", "Bearer x", "1")
    assert values["X-Forwarded-For"] == "127.0.0.1" and values["X-Forwarded-Proto"] == "http" and values["X-Forwarded-Host"]
    text = body.decode()
    for word in (KEY, "theirs", "1.2.3.4", "OpenSandbox", "OPEN-SANDBOX", "X-Hop"):
        assert word not in text
    assert "Access-Control-Allow-Origin" not in response.headers  # what the sandbox does not say


def test_answers_pass_with_their_headers(way):
    response, body = way.request("GET", "/headers")
    assert response.headers.get_all("X-Twice") == ["1", "2"]
    assert response.headers["ETag"] == '"x"' and "X-Gone" not in response.headers and body == b"ok"


def test_cookies_stay_with_their_sandbox(way):
    """Behind one host they are kept apart by their paths, and behind hosts of their own by those."""
    response, _ = way.request("GET", "/headers?x=/y/")
    cookies = response.headers.get_all("Set-Cookie")
    if way.gateway.mode == "uri":
        place = f"/{way.sandbox_id}/8080"
        assert cookies == [f"a=1; Path={place}/", f"b=2; Path={place}", f"c=3; Secure; Path={place}/c"]
    else:
        assert cookies == ["a=1; Path=/", "b=2", "c=3; Secure; path=/c", "__Host-d=4; Secure; Path=/"]
    for name in ("Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security", "NEL"):
        assert name not in response.headers, name


def test_cookies_of_a_signed_route_outlive_its_signature(gateway, secured):
    sandbox_id, _ = secured
    response, _ = signed_way(gateway, sandbox_id, int(time.time()) + 60).request("GET", "/headers")
    if gateway.mode == "uri":
        assert response.headers.get_all("Set-Cookie")[0] == f"a=1; Path=/{sandbox_id}/8080/"


@pytest.mark.parametrize("head", [
    "Content-Length: 3\r\nTransfer-Encoding: chunked", "Content-Length: 3\r\nContent-Length: 4", "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding : chunked", "Content-Length: +3", "X: a\r\n folded", "Host: other", "X\0Y: 1", "Transfer-Encoding: xchunked",
    "Content-Length: 3, 3",
])  # fmt: skip
def test_requests_that_could_be_read_in_two_ways_are_refused(way, head):
    smuggled = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = way.raw(way.head("POST", "/x", head) + smuggled)
    assert re.match(rb"HTTP/1\.1 (400|501) ", answer) and answer.count(b"HTTP/1.1 ") == 1 and b"smuggled" not in answer


def test_a_value_cannot_add_a_header(way, gateway, inside):
    for value in (f"{inside}-8080\rX: 1", f"{inside}-8080\nX: 1"):
        answer = way.raw(f"GET {way.path('/')} HTTP/1.1\r\nHost: a\r\nOpenSandbox-Ingress-To: {value}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("target", ["http://127.0.0.1:22/", "//127.0.0.1:22/", "127.0.0.1:22"])
def test_nothing_a_client_says_names_an_address(gateway, target):
    """No route names a host: what looks like one is a route that cannot be read, or an id that there cannot be."""
    answer = GatewayWay(gateway, "x").raw(f"GET {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nOpenSandbox-Ingress-To: {target}\r\n"
                                          "Connection: close\r\n\r\n".encode())
    assert re.match(rb"HTTP/1\.1 (400|404) ", answer), answer


# ---- who may come in ----


def signed_way(gateway, sandbox_id, expires, key="k", port=8080, sign=None):
    sign = sign or signature(sandbox_id, 8080, expires, SECRETS.get(key, b"?"), key)
    return GatewayWay(gateway, sandbox_id, port, signed=(base36(expires), sign))


def test_the_whole_matrix(gateway, inside, secured):
    sandbox_id, token = secured
    now = int(time.time())
    plain, good = GatewayWay(gateway, sandbox_id), signed_way(gateway, sandbox_id, now + 60)
    assert plain.request("GET", "/", headers={HEADER: token})[0].status == 200
    assert plain.request("GET", "/", headers={HEADER: f"  {token} "})[0].status == 200
    assert signed_way(gateway, sandbox_id, now + 60, sign="00000000k").request("GET", "/", headers={HEADER: token})[0].status == 200
    assert json.loads(good.request("GET", "/x?y")[1])["line"] == "GET /x?y HTTP/1.1"
    assert signed_way(gateway, sandbox_id, now + 60, "o").request("GET", "/")[0].status == 200
    for wrong in ("", "no", token[:-1]):
        refused(good.request("GET", "/", headers={HEADER: wrong}), 401, "signature: secure access header mismatch")
    refused(plain.request("GET", "/"), 401, "signature: signature required for this sandbox")
    refused(signed_way(gateway, sandbox_id, now - 9).request("GET", "/"), 401, "signature: access expired")
    refused(signed_way(gateway, sandbox_id, now + 60, "z").request("GET", "/"), 401, "signature: unauthorized: unknown signed_key_id")
    refused(signed_way(gateway, sandbox_id, now + 60, port=81).request("GET", "/"), 401, "signature: unauthorized: signature mismatch")
    assert GatewayWay(gateway, inside).request("GET", "/", headers={HEADER: "anything"})[0].status == 200
    assert json.loads(signed_way(gateway, inside, now + 60).request("GET", "/x")[1])["line"] == "GET /x HTTP/1.1"


def test_without_keys_nothing_signed_is_believed(tmp_path, server, secured):
    g = Gateway(tmp_path, [server], "header", keys=None)
    try:
        refused(signed_way(g, secured[0], int(time.time()) + 60).request("GET", "/"), 503, "signature: ingress verifier not configured")
        assert GatewayWay(g, secured[0]).request("GET", "/", headers={HEADER: secured[1]})[0].status == 200
    finally:
        g.stop()


def test_guessing_ends_soon(gateway, api, box):
    way = GatewayWay(gateway, box(secureAccess=True)["id"])
    answers = [way.request("GET", "/", headers={HEADER: f"guess {i}"})[0].status for i in range(25)]
    assert answers == [401] * 20 + [429] * 5


def test_refused_requests_cannot_fill_the_log(tmp_path, server, inside):
    g = Gateway(tmp_path, [server], "uri")
    try:
        for number in range(100):
            assert GatewayWay(g, f"nobody-{number}").request("GET", "/")[0].status == 404
            assert GatewayWay(g, inside).request("GET", "/status?404")[0].status == 200
    finally:
        g.stop()
    for of, count in ((" id=nobody-", 60), (f" id={inside} ", 100)):
        assert g.stderr.count(f"ingress requested{of}") == count
    assert 'about="requests that were refused" lines=40' in g.stderr


def test_looking_up_strangers_ids_cannot_fill_the_servers_log(tmp_path, start_server):
    """A gateway asks with the key, so that its server cannot tell who made it ask."""
    server = start_server()
    g = Gateway(tmp_path, [server], "uri")
    try:
        for number in range(100):
            assert GatewayWay(g, f"nobody-{number}").request("GET", "/")[0].status == 404
    finally:
        g.stop()
    audit = server.home.state / "server/audit.jsonl"
    server.get("/sandboxes", headers={"X-Request-ID": "the-last"})
    wait_for(lambda: "the-last" in audit.read_text(), what="a line of the audit")
    assert audit.read_text().count("/sandboxes/nobody-") == server.stderr.count("path=/sandboxes/nobody-") == 60
    server.stop()
    assert 'about="sandboxes that were looked up in vain" lines=40' in server.stderr


def test_signatures_and_queries_stay_out_of_the_log(gateway, secured):
    expires = int(time.time()) + 99
    assert signed_way(gateway, secured[0], expires).request("GET", "/x?hush=1")[0].status == 200
    wait_for(lambda: f"ingress requested id={secured[0]}" in gateway.stderr, what="a line")
    assert signature(secured[0], 8080, expires) not in gateway.stderr and "hush" not in gateway.stderr


def test_control_ports_want_their_own_tokens(gateway, api, inside):
    way = GatewayWay(gateway, inside, EXECD)
    assert way.request("GET", "/ping")[0].status == 401
    assert way.request("GET", "/ping", headers=api.endpoint(inside, EXECD)["headers"])[0].status == 200
    assert GatewayWay(gateway, inside, 18080).request("GET", "/policy")[0].status == 401


def test_proxies_in_front_are_believed_if_they_are_trusted(tmp_path, server, inside, box):
    g = Gateway(tmp_path, [server], "header", "--trusted-proxy", "127.0.0.0/8")
    try:
        sent = {"X-Forwarded-For": "203.0.113.9, 198.51.100.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "a.example"}
        said = json.loads(GatewayWay(g, inside).request("GET", "/", headers=sent)[1])["headers"]
        assert [h for h in said if h.startswith("X-Forwarded-For")] == ["X-Forwarded-For: 203.0.113.9, 198.51.100.1", "X-Forwarded-For: 127.0.0.1"]
        assert "X-Forwarded-Proto: https" in said and "X-Forwarded-Host: a.example" in said
        way = GatewayWay(g, box(secureAccess=True)["id"])
        status = lambda client: way.request("GET", "/", headers={HEADER: "no", "X-Forwarded-For": client})[0].status  # noqa: E731
        assert [status("198.51.100.1") for _ in range(22)][-2:] == [429, 429] and status("198.51.100.2") == 401
        assert "client=198.51.100.1" in g.stderr
    finally:
        g.stop()


# ---- WebSockets ----


def talk(way, act, rest="/ws", **more):
    async def run():
        headers = {**{k: v for k, v in way.headers.items() if k != "Host"}, **more.pop("extra_headers", {})}
        url = f"ws://{way.host}:{way.port}{way.path(rest)}"
        async with websockets.connect(url, extra_headers=headers, ping_interval=None, max_size=64 << 20, **more) as ws:
            return await act(ws, json.loads(await ws.recv()))

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def test_websockets_pass_with_all_headers(way):
    async def act(ws, hello):
        for message in ("text", b"\0\xff", "", os.urandom(1 << 20)):
            await ws.send(message)
            assert await ws.recv() == message
        await ws.send("close 4321")
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        return hello, ws.close_code, ws.subprotocol

    hello, code, protocol = talk(way, act, subprotocols=["one", "two"], extra_headers={"X-Mine": "1", "Cookie": "a=b"})
    assert code == 4321 and protocol == "two" and "X-Mine: 1" in hello["headers"] and "Cookie: a=b" in hello["headers"]


def test_a_refused_handshake_is_told_as_it_was(way):
    with pytest.raises(websockets.InvalidStatusCode) as refusal:
        talk(way, None, "/special?kind=status&code=403")
    assert refusal.value.status_code == 403


# ---- life ----


def test_intents_are_told_once_in_an_interval(tmp_path, server, inside, secured, redis):  # noqa: F811
    g = Gateway(tmp_path, [server], "uri", "--renew-intent-enabled=true", "--renew-intent-redis-dsn", redis.dsn,
                "--renew-intent-queue-max-len", "5", "--renew-intent-min-interval", "2")  # fmt: skip
    try:
        assert GatewayWay(g, secured[0]).request("GET", "/")[0].status == 401  # who was not let in is nobody
        for _ in range(3):
            assert GatewayWay(g, inside).request("GET", "/v1/x?hush")[0].status == 200
        wait_for(lambda: redis.call("LLEN", QUEUE) == b":1\r\n", what="the intent")
        intent = json.loads(redis.call("RPOP", QUEUE).split(b"\r\n")[1])
        assert intent.keys() == {"sandbox_id", "observed_at", "port", "request_uri"}
        assert (intent["sandbox_id"], intent["port"], intent["request_uri"]) == (inside, 8080, "/v1/x")
        time.sleep(2.1)
        assert GatewayWay(g, inside).request("GET", "/")[0].status == 200
        wait_for(lambda: redis.call("LLEN", QUEUE) == b":1\r\n", what="the next one")
        redis.stop()
        time.sleep(2.1)
        for _ in range(3):
            assert GatewayWay(g, inside).request("GET", "/")[0].status == 200
        wait_for(lambda: g.metrics()["ingress_renew_intents_failed_total"] >= 1, what="a failure")
        assert g.metrics()["ingress_renew_intents_sent_total"] == 2 and g.stderr.count("cannot send renewals") == 1
    finally:
        g.stop()


def test_metrics_count(gateway, way):
    before = gateway.metrics()
    for _ in range(5):
        assert way.request("GET", "/")[0].status == 200
    assert GatewayWay(gateway, "none").request("GET", "/")[0].status == 404
    after = gateway.metrics()
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown['ingress_http_request_count{status="2xx"}'] == 5 and grown['ingress_http_request_count{status="4xx"}'] == 1
    assert grown["ingress_proxy_http_requests_total"] == 5 and grown['ingress_routing_resolutions_count{result="not_found"}'] == 1
    assert grown["ingress_http_request_duration_count"] == 6 and after["ingress_system_memory_usage_bytes"] > 0


def test_it_has_no_privileges(gateway):
    status = dict(line.split(":\t") for line in open(f"/proc/{gateway.process.pid}/status").read().splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split() and status["Groups"].strip() == ""
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and int(status["CapPrm"], 16) == 0 and int(status["CapBnd"], 16) == 0


def test_requests_in_progress_may_end(tmp_path, server, inside):
    g = Gateway(tmp_path, [server], "uri")
    way = GatewayWay(g, inside)
    with way.connection() as c:
        c.request("GET", way.path("/gated"))
        response = c.getresponse()
        assert response.read(7) == b"first\n\n"
        g.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.get(f"/sandboxes/{inside}/proxy/8080/gate").status == 204
        assert response.read() == b"second\n\n"
    g.process.wait(TIMEOUT_S)  # a second signal would cut what is left
    g.stop()


def make_certificate(folder, name):
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)  # fmt: skip
    for p in (cert, key):
        p.chmod(0o644)
    return cert, key


def test_tls_and_reload(tmp_path, server, inside, secured):
    for p in [tmp_path, *tmp_path.parents][:4]:
        p.chmod(p.stat().st_mode | 0o11)  # its own user reads them anew
    cert, key = make_certificate(tmp_path, "one")
    keys = tmp_path / "keys"
    keys.write_text("o=b2xk\n")
    g = Gateway(tmp_path, [server], "uri", "--tls-cert", cert, "--tls-key", key, "--secure-access-keys-file", keys, keys=None)
    (tmp_path / "gateway.key").chmod(0o644)

    def ask(path):
        out = subprocess.run(["curl", "-sS", "--cacert", cert, "-w", "%{http_code}", "-o", "/dev/null", f"https://127.0.0.1:{g.port}{path}"],
                             capture_output=True, text=True, check=False)  # fmt: skip
        return out.stdout

    try:
        expires = int(time.time()) + 60
        route = f"/{secured[0]}/8080/{base36(expires)}/{signature(secured[0], 8080, expires)}/"
        assert ask(f"/{inside}/8080/") == "200" and ask(route) == "401"
        keys.write_text("# rotated\nk=MDEyMzQ1Njc4OWFiY2RlZg\n")
        new = make_certificate(tmp_path, "two")
        cert.write_bytes(new[0].read_bytes())
        key.write_bytes(new[1].read_bytes())
        g.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in g.stderr, what="a reload")
        assert "keeping" not in g.stderr, g.stderr
        assert ask(f"/{inside}/8080/") == "200" and ask(route) == "200"
        keys.write_text("junk\n")
        g.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "keeping the old ones" in g.stderr, what="a complaint")
        assert ask(route) == "200"
    finally:
        g.stop()


def test_secrets_that_others_can_read_are_told(tmp_path, server):
    """At the start and at each reload; it is no reason not to run."""
    cert, key = make_certificate(tmp_path, "one")
    keys = tmp_path / "keys"
    keys.write_text("o=b2xk\n")
    words = "holds a secret that other users can read: chmod 640"
    options = {"--tls-key": key, "--secure-access-keys-file": keys}
    for path in (key, keys):
        path.chmod(0o644)
    g = Gateway(tmp_path, [server], "uri", "--tls-cert", cert, *(x for pair in options.items() for x in pair), keys=None)
    try:
        options["--server-key-file"] = tmp_path / "gateway.key"
        for option, path in options.items():
            assert g.stderr.count(f'the configuration needs a look what="{option}: {words} {path}"') == 1, g.stderr
            path.chmod(0o640)
        g.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "reloaded" in g.stderr, what="a reload")
        assert g.stderr.count("needs a look") == 3, g.stderr
    finally:
        g.stop()


@pytest.mark.parametrize("args, says", [
    ([], "--server"), (["--server", "ftp://x"], "http://HOST"), (["--server", "http://127.0.0.1:1", "--mode", "x"], "header, wildcard, uri"),
    (["--server", "http://127.0.0.1:1", "--secure-access-keys", "A=AQID"], "0-9 and a-z"),
    (["--server", "http://127.0.0.1:1", "--tls-cert", "x"], "--tls-key"), (["--server", "http://127.0.0.1:1", "--provider-type", "x"], "server"),
    (["--server", "http://127.0.0.1:1", "--renew-intent-enabled", "--renew-intent-redis-dsn", "x://"], "redis://"),
])  # fmt: skip
def test_what_it_does_not_start_with(args, says):
    done = subprocess.run([GATEWAY, "--listen", "127.0.0.1:0", *args], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode in (1, 2) and says in done.stderr


def test_pages_about_it():
    for option, word in (("--help", "--renew-intent-queue-key"), ("--version", "opensandbox-ingress "), ("--man", ".TH"),
                         ("--completion=bash", "secure-access-keys")):  # fmt: skip
        done = subprocess.run([GATEWAY, option], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        assert word in done.stdout
