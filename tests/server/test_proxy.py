# SPDX-License-Identifier: Apache-2.0
"""Requests into sandboxes, through the API's own port and through that of the endpoint proxy (A7)."""
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import re
import shlex
import socket
import threading
import time

import pytest

from api import EGRESS, EXECD, TIMEOUT_S, Api, wait_for, when
from conftest import AUTH, KEY, read_all
from way import BACKEND, ENTRYPOINT, Way

BIG = 200 << 20
TRANSPORT = ["Host", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-For"]  # what a bare request has over there


@pytest.fixture(params=["api", "api-v1", "proxy"])
def way(request, api, inside):
    port = api.server.port + (request.param == "proxy")
    return Way(api, inside, port, "/v1" if request.param == "api-v1" else "")


@pytest.fixture
def front(api, inside):
    return Way(api, inside, api.server.port)


def failed(response, body, status, code="GENERAL::UNKNOWN_ERROR", says=""):
    assert response.status == status, body
    assert response.headers["Content-Type"] == "application/json" and response.headers["X-Request-ID"]
    error = json.loads(body)
    assert error["code"] == code and says in error["message"], error


def names(headers):
    return [h.split(":")[0] for h in headers]


# ---- requests ----


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "BREW"])
@pytest.mark.smoke
def test_every_method_arrives(way, method):
    response, body = way.request(method, "/a?b=c")
    assert response.status == 200
    if method == "HEAD":
        assert body == b"" and int(response.headers["Content-Length"]) > 0
    else:
        assert json.loads(body)["line"] == f"{method} /a?b=c HTTP/1.1"


@pytest.mark.parametrize(
    "rest, want",
    [
        ("", "/"), ("/", "/"), ("?", "/?"), ("?a=b", "/?a=b"), ("/?", "/?"), ("/a/", "/a/"), ("/a%2Fb", "/a%2Fb"), ("/a%2fb", "/a%2fb"),
        ("//a//b", "//a//b"), ("/%41", "/%41"), ("/a+b%20c", "/a+b%20c"), ("/%00", "/%00"), ("/a/../b", "/a/../b"), ("/./a", "/./a"),
        ("/..", "/.."), ("/%2e%2e/x", "/%2e%2e/x"), ("/a?b=%zz&&c==d&é".replace("é", "%C3%A9"), "/a?b=%zz&&c==d&%C3%A9"), ("/a;b=c,d", "/a;b=c,d"),
        ("/a\\b", "/a\\b"), ("/%5c", "/%5c"), ("/?x=/../..", "/?x=/../.."), ("/a?b?c", "/a?b?c"), ("/%zz", "/%zz"),
        ("/proxy/80", "/proxy/80"), ("/~!$&'()*:@-._", "/~!$&'()*:@-._"), ("/a[1]{x}|^`\"<>", "/a[1]{x}|^`\"<>"),
    ],
)  # fmt: skip
def test_what_follows_the_port_arrives_byte_for_byte(way, rest, want):
    assert way.echo("GET", rest)["line"] == f"GET {want} HTTP/1.1"


def test_nothing_is_added_but_where_it_came_from(way):
    request = f"GET {way.path('/x')} HTTP/1.1\r\nHost: name.example:7\r\nConnection: close\r\n\r\n"
    said = json.loads(way.raw(request.encode()).split(b"\r\n\r\n", 1)[1])
    assert sorted(names(said["headers"])) == sorted(TRANSPORT)
    values = dict(h.split(": ", 1) for h in said["headers"])
    assert values["X-Forwarded-Host"] == "name.example:7" and values["X-Forwarded-Proto"] == "http"
    assert values["X-Forwarded-For"] == "127.0.0.1"
    assert values["Host"] == "localhost:8080"


def test_headers_pass_in_order_and_as_often_as_they_come(way):
    with way.connection() as c:
        c.putrequest("GET", way.path("/x"), skip_accept_encoding=True)
        for name, value in [("X-A", "1"), ("x-a", "2"), ("Accept", "a"), ("Range", "bytes=1-2"), ("X-A", "3, 4"), ("X-Empty", "")]:
            c.putheader(name, value)
        c.endheaders()
        said = json.loads(c.getresponse().read())
    ours = [h.rstrip() for h in said["headers"] if h.lower().startswith(("x-a", "accept", "range", "x-e"))]
    assert ours == ["X-A: 1", "x-a: 2", "Accept: a", "Range: bytes=1-2", "X-A: 3, 4", "X-Empty:"]


STRIPPED = ["Authorization", "Cookie", "OPEN-SANDBOX-API-KEY", "open-sandbox-api-key", "X-EXECD-ACCESS-TOKEN",
            "OPENSANDBOX-EGRESS-AUTH", "OpenSandbox-Secure-Access", "Keep-Alive", "Proxy-Authorization", "Proxy-Authenticate", "TE",
            "Trailer", "Proxy-Connection"]  # fmt: skip


@pytest.mark.parametrize("name", STRIPPED)
def test_keys_tokens_and_hop_by_hop_headers_stay_here(way, name):
    value = KEY if name.lower().endswith("key") else "hush"
    said = way.echo("GET", "/x", headers={name: value, "X-Kept": "1"})
    assert name.lower() not in [n.lower() for n in names(said["headers"])]
    assert "X-Kept: 1" in said["headers"] and value not in json.dumps(said)


def test_headers_that_connection_names_stay_here(way):
    said = way.echo("GET", "/x", headers={"Connection": "close, X-Mine , x-other", "X-Mine": "1", "X-Other": "2", "X-Kept": "3"})
    assert [h for h in said["headers"] if h.startswith("X-") and "Forwarded" not in h] == ["X-Kept: 3"]


def test_forwarding_headers_of_the_client_do_not_count(way):
    forged = {"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "Forwarded": "for=1.2.3.4",
              "X-Real-IP": "1.2.3.4"}  # fmt: skip
    said = way.echo("GET", "/x", headers=forged)
    text = json.dumps(said["headers"])
    assert "1.2.3.4" not in text and "evil" not in text and "https" not in text


def test_bodies_arrive(way):
    for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
        for size in (0, 1, 65536, 1 << 20):
            body = os.urandom(size)
            said = way.echo(method, "/x", body=body)
            assert (said["size"], said["sha256"]) == (size, hashlib.sha256(body).hexdigest())


def test_a_chunked_body_arrives(way):
    pieces = [b"a", b"b" * 70000, b"", b"c" * 3]
    with way.connection() as c:
        c.request("POST", way.path("/x"), (p for p in pieces if p), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        said = json.loads(c.getresponse().read())
    assert said["sha256"] == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_a_client_that_waits_to_be_asked_for_its_body(way):
    head = f"POST {way.path('/x')} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.create_connection((way.host, way.port), timeout=TIMEOUT_S) as s:
        s.sendall(head.encode())
        assert s.recv(65536).startswith(b"HTTP/1.1 100 Continue\r\n")
        s.sendall(b"12345")
        answer = read_all(s)
    assert b'"size": 5' in answer and b"Expect" not in answer


def test_one_connection_many_requests(way):
    with way.connection() as c:
        for i in range(20):
            c.request("POST", way.path(f"/{i}"), b"x" * i)
            assert json.loads(c.getresponse().read())["size"] == i


# ---- answers ----


def test_what_passes_back_and_what_does_not(way):
    response, body = way.request("GET", "/headers")
    assert (response.status, body) == (200, b"ok")
    h = response.headers
    place = way.path("")
    assert h.get_all("Set-Cookie") == [f"a=1; Path={place}/", f"b=2; Path={place}", f"c=3; Secure; Path={place}/c"]
    assert h.get_all("X-Twice") == ["1", "2"]
    for name, value in (("Content-Encoding", "gzip"), ("Server", "backend"), ("ETag", '"x"'), ("Location", "/elsewhere")):
        assert h[name] == value
    assert h["Content-Length"] == "2"
    for name in ("X-Gone", "Keep-Alive", "Proxy-Authenticate", "Trailer", "Upgrade", "Strict-Transport-Security", "Clear-Site-Data",
                 "Service-Worker-Allowed", "NEL"):  # fmt: skip
        assert name not in h, name
    assert re.fullmatch("[0-9a-f]{32}", h["X-Request-ID"]) and len(h.get_all("X-Request-ID")) == 1


def test_documents_on_the_port_of_the_api_are_nobodys(api, inside):
    ours = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"
    response, _ = Way(api, inside, api.server.port).request("GET", "/headers")
    assert response.headers.get_all("Content-Security-Policy") == ["default-src 'self'", ours]
    response, _ = Way(api, inside, api.server.port + 1).request("GET", "/headers")
    assert response.headers.get_all("Content-Security-Policy") == ["default-src 'self'"]


@pytest.mark.parametrize("code", [200, 201, 204, 206, 301, 302, 304, 307, 400, 401, 404, 418, 429, 500, 502, 503, 599])
def test_statuses_pass_and_no_redirect_is_followed(way, code):
    response, body = way.request("GET", f"/special?kind=status&code={code}")
    assert response.status == code and response.headers["Location"] == "http://127.0.0.1:1/"
    assert body == (b"" if code in (204, 304) else b"body")


def test_a_chunked_answer_passes(way):
    response, body = way.request("GET", "/chunked")
    assert body == b"x" * (1 + 10 + 70000 + 3) and "Trailer" not in response.headers


def test_an_answer_that_ends_with_its_connection(way):
    assert way.request("GET", "/special?kind=until-close")[1] == b"all of it"


def test_interim_answers_are_not_the_answer(way):
    response, body = way.request("GET", "/special?kind=interim")
    assert (response.status, body) == (200, b"done")


@pytest.mark.parametrize("kind", ["cut", "cut-chunked"])
def test_an_answer_that_is_cut_does_not_look_whole(way, kind):
    with way.connection() as c:
        c.request("GET", way.path(f"/special?kind={kind}"))
        response = c.getresponse()
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()


@pytest.mark.parametrize("kind", ["garbage", "both"])
def test_what_is_no_answer(way, kind):
    failed(*way.request("GET", f"/special?kind={kind}"), 500, says="internal error occurred in the proxy")


def test_headers_that_are_too_large(way):
    failed(*way.request("GET", "/special?kind=headers"), 502, says="headers of the sandbox's answer are too large")


def test_an_answer_before_the_body_is_read_reaches_the_client(way):
    with way.connection() as c:
        c.putrequest("POST", way.path("/special?kind=early"))
        c.putheader("Content-Length", str(8 << 20))
        c.endheaders()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(128):
                c.send(b"x" * 65536)
        response = c.getresponse()
        assert (response.status, response.read()) == (403, b"no")


def test_events_come_one_by_one(way):
    with way.connection() as c:
        c.request("GET", way.path("/gated"))
        response = c.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.read1(100) == b"first\n\n"  # the second is not written before this was seen
        assert way.request("POST", "/gate")[0].status == 204
        assert response.read() == b"second\n\n"


def test_a_client_that_goes_ends_the_stream(front):
    before = front.state()
    with front.connection() as c:
        c.request("GET", front.path("/stream"))
        assert c.getresponse().read1(5)
    wait_for(lambda: front.state()["closed"] == before["closed"] + 1, what="the end of the stream over there")


# ---- much ----


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) << 10


@contextlib.contextmanager
def bounded_memory(pid, growth=48 << 20):
    """The process does not grow by more than that meanwhile."""
    start, worst, stop = rss(pid), [0], threading.Event()

    def watch():
        while not stop.wait(0.01):
            worst[0] = max(worst[0], rss(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    assert worst[0] - start < growth, f"{worst[0] - start} bytes more"


@pytest.mark.parametrize("extra", [0, 1])
def test_two_hundred_megabytes_come_out_in_bounded_memory(api, inside, extra):
    way = Way(api, inside, api.server.port + extra)
    with way.connection() as c, bounded_memory(api.server.pid):
        c.request("GET", way.path(f"/big?n={BIG}"))
        response, size = c.getresponse(), 0
        while piece := response.read(1 << 20):
            size += len(piece)
    assert size == BIG


@pytest.mark.parametrize("extra", [0, 1])
def test_two_hundred_megabytes_go_in_in_bounded_memory(api, inside, extra):
    way = Way(api, inside, api.server.port + extra)
    block, digest = os.urandom(1 << 20), hashlib.sha256()
    with way.connection() as c, bounded_memory(api.server.pid):
        c.putrequest("PUT", way.path("/x"))
        c.putheader("Transfer-Encoding", "chunked")
        c.endheaders()
        for _ in range(BIG >> 20):
            digest.update(block)
            c.send(b"%x\r\n" % len(block) + block + b"\r\n")
        c.send(b"0\r\n\r\n")
        said = json.loads(c.getresponse().read())
    assert (said["size"], said["sha256"]) == (BIG, digest.hexdigest())


def test_a_client_that_does_not_read_slows_the_sandbox_down(front):
    with front.connection() as c, bounded_memory(front.api.server.pid):
        c.connect()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.request("GET", front.path(f"/big?n={BIG}"))
        response = c.getresponse()
        last = -1
        while (sent := front.state()["sent"]) != last:
            last = sent
            time.sleep(0.3)  # longer than any write takes that can go on
        assert 0 < sent < 32 << 20
        size = 0
        while piece := response.read(1 << 20):
            size += len(piece)
        assert size == BIG


def test_many_at_once(way):
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        said = list(pool.map(lambda i: way.echo("POST", f"/{i}", body=b"x" * i * 100), range(200)))
    assert [s["size"] for s in said] == [i * 100 for i in range(200)]


def test_too_many_streams_of_one_sandbox_are_refused(start_server, spec):
    server = start_server()
    api = Api(server, spec)
    sandbox_id = api.create(entrypoint=ENTRYPOINT)["id"]
    way = Way(api, sandbox_id, server.port + 1)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")
    with contextlib.ExitStack() as stack:
        request = f"GET {way.path('/special?kind=silent')} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
        for _ in range(1024):
            s = stack.enter_context(socket.create_connection((way.host, way.port), timeout=TIMEOUT_S))
            s.sendall(request)
        # The last of them may still be on its way.
        response, body = wait_for(lambda: (a := way.request("GET", "/"))[0].status != 200 and a, what="a refusal")
        failed(response, body, 429, "TOO_MANY_REQUESTS", "too many requests")
        assert response.headers["Retry-After"] == "1"
        assert api.state(sandbox_id) == "Running"
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="room again")
    assert api.delete(sandbox_id).status == 204


# ---- errors ----


def test_nobody_listens(way):
    failed(*way.request("GET", "/", port=9), 502, says="Could not connect to the backend sandbox: does anything listen on port 9?")


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("name", ["00000000-0000-4000-8000-000000000000", "x", "A", "x" * 64])
def test_there_is_no_such_sandbox(api, name, extra):
    way = Way(api, name, api.server.port + extra)
    failed(*way.request("GET", "/"), 404, "NATIVE::SANDBOX_NOT_FOUND", "not found")


@pytest.mark.parametrize("port", ["0", "65536", "99999", "4294975376"])
def test_ports_that_cannot_be(front, port):
    failed(*front.request("GET", "/", port=port), 400, "NATIVE::INVALID_PORT", "65535")


@pytest.mark.parametrize("port", ["x", "80x", "8080.5", "-1", "0x50"])
def test_a_port_that_is_no_number_needs_the_key_and_is_422(front, port):
    failed(*front.request("GET", "/", port=port), 401, "MISSING_API_KEY")
    failed(*front.request("GET", "/", port=port, headers=AUTH), 422 if port != "-1" else 400,
           "SANDBOX::INVALID_PARAMETER" if port != "-1" else "NATIVE::INVALID_PORT", "port")  # fmt: skip


def test_the_port_of_the_proxy_has_nothing_else(api, inside):
    way = Way(api, inside, api.server.port + 1)
    for path in ("/sandboxes", "/v1/sandboxes", f"/sandboxes/{inside}", "/docs", "/health", "/openapi.json"):
        with way.connection() as c:
            c.request("GET", path, headers=AUTH)
            assert c.getresponse().status == 404, path


def test_an_upgrade_that_is_none(way):
    response, body = way.request("GET", "/ws", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    failed(response, body, 400, says="Websocket upgrade is not supported yet")
    response, body = way.request("GET", "/ws", headers={"Upgrade": "websocket"})
    failed(response, body, 400, says="Websocket upgrade is not supported yet")


def test_another_upgrade_is_just_a_request(way):
    said = way.echo("GET", "/x", headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAA"})
    assert not [n for n in names(said["headers"]) if n in ("Upgrade", "HTTP2-Settings")]
    assert not [h for h in said["headers"] if h.startswith("Connection")]


def test_preflights_are_answered_here_and_other_options_there(way):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "PUT"}
    response, body = way.request("OPTIONS", "/x", headers=asked)
    assert (response.status, body) == (200, b"OK")
    assert response.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert way.echo("OPTIONS", "/x", headers={"Origin": "https://a.example"})["line"].startswith("OPTIONS /x")


# ---- ports that have an owner ----


def test_the_port_of_execd_wants_its_token(api, inside):
    headers = api.endpoint(inside, EXECD)["headers"]
    assert list(headers) == ["X-EXECD-ACCESS-TOKEN"] and re.fullmatch("[0-9a-f]{64}", headers["X-EXECD-ACCESS-TOKEN"])
    other = api.endpoint(api.create()["id"], EXECD)["headers"]
    for extra in (0, 1):
        way = Way(api, inside, api.server.port + extra)
        response, body = way.request("GET", "/ping", headers=headers, port=EXECD)
        assert (response.status, body, response.headers["Content-Length"]) == (200, b"", "0")
        for wrong in ({}, AUTH, other, {"X-EXECD-ACCESS-TOKEN": ""}, {"X-EXECD-ACCESS-TOKEN": KEY}):
            response, body = way.request("GET", "/ping", headers=wrong, port=EXECD)
            failed(response, body, 401, "INVALID_ACCESS_TOKEN", "X-EXECD-ACCESS-TOKEN")
        twice = f"X-EXECD-ACCESS-TOKEN: {headers['X-EXECD-ACCESS-TOKEN']}\r\n" * 2
        answer = way.raw(f"GET {way.path('/ping', EXECD)} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{twice}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 401 ")


def test_the_port_of_the_policy_wants_its_token(api, inside):
    headers = api.endpoint(inside, EGRESS)["headers"]
    assert list(headers) == ["OPENSANDBOX-EGRESS-AUTH"]
    assert headers["OPENSANDBOX-EGRESS-AUTH"] != api.endpoint(inside, EXECD)["headers"]["X-EXECD-ACCESS-TOKEN"]
    way = Way(api, inside, api.server.port)
    failed(*way.request("GET", "/policy", port=EGRESS), 401, "INVALID_ACCESS_TOKEN", "OPENSANDBOX-EGRESS-AUTH")
    wrong = {"OPENSANDBOX-EGRESS-AUTH": api.endpoint(inside, EXECD)["headers"]["X-EXECD-ACCESS-TOKEN"]}
    failed(*way.request("GET", "/policy", headers=wrong, port=EGRESS), 401, "INVALID_ACCESS_TOKEN", "OPENSANDBOX-EGRESS-AUTH")
    assert way.request("GET", "/policy", headers=headers, port=EGRESS)[0].status != 401


def test_a_program_of_the_sandbox_cannot_pretend_to_be_execd(api, box):
    """44772 leads to execd's own socket, whoever listens on that number."""
    source = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=44772, bind='127.0.0.1')"
    sandbox_id = box(entrypoint=["/usr/bin/python3", "-u", "-c", source])["id"]
    wait_for(lambda: "44772" in api.get(f"/sandboxes/{sandbox_id}/diagnostics/logs").body.decode(), what="the impostor")
    headers = api.endpoint(sandbox_id, EXECD)["headers"]
    response, body = Way(api, sandbox_id, api.server.port).request("GET", "/ping", headers=headers, port=EXECD)
    assert (response.status, body) == (200, b"") and "Python" not in (response.headers["Server"] or "")


# ---- a sandbox that goes ----


def test_a_sandbox_that_is_deleted_takes_its_streams_along(api):
    sandbox_id = api.create(entrypoint=ENTRYPOINT)["id"]
    way = Way(api, sandbox_id, api.server.port)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")
    with way.connection() as streaming, way.connection() as waiting:
        streaming.request("GET", way.path("/stream"))
        response = streaming.getresponse()
        assert response.read1(5)
        waiting.request("GET", way.path("/special?kind=silent"))
        wait_for(lambda: way.state()["open"] == 2, what="both requests over there")
        assert api.delete(sandbox_id).status == 204
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            while response.read(1 << 16):
                pass
        late = waiting.getresponse()
        failed(late, late.read(), 502, says="Could not connect to the backend sandbox: it is not running")
    failed(*way.request("GET", "/"), 404, "NATIVE::SANDBOX_NOT_FOUND")


def test_a_backend_that_dies_in_the_middle(api, box):
    sandbox_id = box()["id"]
    api.run(sandbox_id, f"/usr/bin/python3 -c {shlex.quote(BACKEND)} & echo $! >/tmp/pid")
    way = Way(api, sandbox_id, api.server.port)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")
    with way.connection() as c:
        c.request("GET", way.path(f"/big?n={BIG}"))
        response = c.getresponse()
        assert response.read(1000)
        api.run(sandbox_id, "kill -9 $(cat /tmp/pid)")
        size = 1000
        with contextlib.suppress(ConnectionResetError):
            while piece := response.read(1 << 20):
                size += len(piece)
        assert size < BIG
    failed(*way.request("GET", "/"), 502, says="Could not connect to the backend sandbox")
    assert api.state(sandbox_id) == "Running"


def test_a_command_goes_on_after_a_pause(api, box):
    sandbox_id = box()["id"]
    headers = api.endpoint(sandbox_id, EXECD)["headers"]
    way = Way(api, sandbox_id, api.server.port)
    with way.connection() as c:
        command = {"command": "echo before; while ! test -e /tmp/go; do sleep 0.02; done; echo after"}
        c.request("POST", way.path("/command", EXECD), json.dumps(command), headers)
        response, text = c.getresponse(), b""
        while b"before" not in text:
            text += response.read1(1 << 16)
        api.pause(sandbox_id)
        api.resume(sandbox_id)
        api.run(sandbox_id, "touch /tmp/go")
        text += response.read()
    assert b"after" in text and b"execution_complete" in text


# ---- lives that accesses extend ----


def test_an_access_extends_the_life_of_what_was_made_so(start_server, spec):
    server = start_server("[renew_intent]\nenabled = true\n")
    api = Api(server, spec)
    renewed = api.create(timeout=60, extensions={"access.renew.extend.seconds": "600"})
    other = api.create(timeout=60)
    longer = api.create(timeout=3000, extensions={"access.renew.extend.seconds": "600"})
    for sandbox in (renewed, other, longer):
        assert Way(api, sandbox["id"], server.port + 1).request("GET", "/")[0].status == 502  # nobody listens: it counts
    left = lambda: (when(api.read(renewed["id"])["expiresAt"]) - when(renewed["createdAt"])).total_seconds()  # noqa: E731
    wait_for(lambda: left() >= 600, what="a later end")
    assert left() < 660
    once = api.read(renewed["id"])["expiresAt"]
    assert Way(api, renewed["id"], server.port + 1).request("GET", "/")[0].status == 502
    assert api.read(renewed["id"])["expiresAt"] == once  # once a minute is enough
    for sandbox in (other, longer):
        assert api.read(sandbox["id"])["expiresAt"] == sandbox["expiresAt"]
    for sandbox in (renewed, other, longer):
        assert api.delete(sandbox["id"]).status == 204


def test_accesses_extend_nothing_unless_the_server_is_told_to(api, box):
    sandbox = box(timeout=60, extensions={"access.renew.extend.seconds": "600"})
    assert Way(api, sandbox["id"], api.server.port + 1).request("GET", "/")[0].status == 502
    assert api.read(sandbox["id"])["expiresAt"] == sandbox["expiresAt"]


ONE_AT_A_TIME = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    do_POST = do_GET
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""


def test_a_server_that_has_one_connection_at_a_time_is_not_blocked_by_one_that_is_kept(api, box):
    sandbox_id = box(entrypoint=["/usr/bin/python3", "-c", ONE_AT_A_TIME])["id"]
    way = Way(api, sandbox_id, api.server.port + 1)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")
    began = time.monotonic()
    for method in ("GET", "POST", "GET", "GET", "POST", "POST", "GET"):
        response, body = way.request(method, "/", b"body" if method == "POST" else None)
        assert response.status == 200 and body == b"ok"
    assert time.monotonic() - began < 3
