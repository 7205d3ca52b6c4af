# SPDX-License-Identifier: Apache-2.0
"""What every answer has in common, the documents of the server, and how it stops."""
import base64
import contextlib
import hashlib
import os
import re
import resource
import signal
import ssl
import subprocess
import threading
import time

import pytest
import yaml

from conftest import clean_environment, free_port, Home, read_all, ROOT, SERVER, servers
from fleet import until


# ---- documents ----


def test_health(server, spec):
    a = server.get("/health", auth=False)
    assert a.status == 200
    assert a.headers["Content-Type"] == "application/json"
    spec.check("Health", a.json)
    assert a.body == b'{"status":"healthy"}'


def test_the_description_is_the_one_of_the_source(server):
    a = server.get("/openapi.json", auth=False)
    assert (a.status, a.headers["Content-Type"]) == (200, "application/json")
    assert a.json == yaml.safe_load((ROOT / "specs/server.yml").read_text())


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_description_is_sound(spec):
    document = spec.document
    assert document["openapi"].startswith("3.1.")
    for reference in references(document):
        at = document
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
    ids = [op["operationId"] for item in document["paths"].values() for op in item.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.smoke
def test_every_described_document_is_served(server, spec):
    for path, item in spec.document["paths"].items():
        if "get" in item and "{" not in path:
            a = server.get(path)
            assert a.status == 200
            assert a.headers["Content-Type"].split(";")[0] in item["get"]["responses"]["200"].get(
                "content", {"text/html": None}
            )


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_the_page_needs_nothing_from_elsewhere(server, path):
    a = server.get(path, auth=False)
    page = a.body.decode()
    assert a.headers["Content-Type"] == "text/html; charset=utf-8"
    assert a.headers["X-Content-Type-Options"] == "nosniff"
    assert not re.search(r"https?://", page)
    assert not re.search(r"<(link|img|iframe)\b|\bsrc=|@import|url\(", page)
    assert "innerHTML" not in page and "eval(" not in page
    policy = dict(p.strip().split(" ", 1) for p in a.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
    assert not re.search(r"\sstyle=|\son[a-z]+=", page)


def test_head_is_get_without_the_body(server):
    get, head = server.get("/openapi.json"), server.request("HEAD", "/openapi.json")
    assert head.status == 200 and head.body == b""
    for name in ("Content-Type", "Content-Length", "Cache-Control"):
        assert head.headers[name] == get.headers[name]


# ---- errors ----


def test_unknown_paths(server, spec):
    for path in ("/nowhere", "/v1", "/v1/nowhere", "/", "/v1/health", "/v2/health", "/metrics"):
        a = server.get(path)
        spec.check_error(a, 404, "NOT_FOUND")
        assert a.json["detail"] == "Not Found"


def test_wrong_methods(server, spec):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"):
        a = server.request(method, "/health")
        spec.check_error(a, 405, "METHOD_NOT_ALLOWED")
        assert a.json["detail"] == "Method Not Allowed"
        assert a.headers["Allow"] == "GET, HEAD"


def test_one_slash_too_many_is_redirected(server):
    a = server.get("/health/?a=1&b=%2F")
    assert a.status == 307
    assert a.headers["Location"] == "/health?a=1&b=%2F"
    assert a.headers["X-Request-ID"]


@pytest.mark.parametrize("path", ["/a/../health", "/./health", "//health", "/a%2fb", "/a%5cb", "/a%00", "/%zz", r"/a\b"])
def test_paths_that_could_be_read_in_two_ways_are_refused(server, spec, path):
    spec.check_error(server.get(path), 400)


def test_a_bad_head_is_answered_in_the_same_form(server):
    answer = server.raw(b"GET /health HTTP/1.1\r\n\r\n").decode()
    assert answer.startswith("HTTP/1.1 400 ")
    assert re.search(r"\r\nX-Request-ID: [0-9a-f]{32}\r\n", answer)
    assert '"code":' in answer and '"message":' in answer


# ---- request ids ----


def request_id(server, value):
    """The value as it is on the wire, blanks and all."""
    head = f"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Request-ID:{value}\r\n\r\n"
    answer = server.raw(head.encode("latin-1")).decode("latin-1")
    (found,) = re.findall(r"\r\nX-Request-ID: ([^\r]*)\r\n", answer)
    return found


@pytest.mark.parametrize("value", ["a", "abc-123", "x" * 128, "a b", "~!@#$%^&*()"])
def test_printable_ids_are_echoed(server, value):
    assert request_id(server, value) == value
    assert request_id(server, f" \t {value} ") == value


@pytest.mark.parametrize("value", ["", "   ", "x" * 129, "\xe9", "a\tb"])
def test_other_ids_are_replaced(server, value):
    assert re.fullmatch(r"[0-9a-f]{32}", request_id(server, value))


def test_every_answer_has_an_id_of_its_own(server):
    answers = [
        server.get("/health"), server.get("/nowhere"), server.get("/health/"), server.request("POST", "/health"),
        server.get("/nowhere", auth=False), server.get("/docs"), server.request("HEAD", "/health"),
    ]  # fmt: skip
    ids = [a.headers["X-Request-ID"] for a in answers]
    assert len(set(ids)) == len(ids)


def test_an_id_cannot_add_a_header(server):
    answer = server.raw(b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Request-ID: a\rb: c\r\n\r\n")
    assert b"\rb: c" not in answer


def test_requests_are_logged_by_id_without_their_query(server):
    server.get("/logged-path?secret=1", headers={"X-Request-ID": "find-me"})
    deadline = time.monotonic() + 5
    while "find-me" not in server.stderr and time.monotonic() < deadline:
        time.sleep(0.01)
    (line,) = [line for line in server.stderr.splitlines() if "find-me" in line]
    for part in ("method=GET", "path=/logged-path", "status=404", "took_ms="):
        assert part in line
    assert "secret" not in server.stderr


# ---- connections ----


def test_a_connection_serves_many_requests(server):
    with server.connect() as s:
        for _ in range(3):
            s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = b""
            while b"healthy" not in answer:
                answer += s.recv(4096)
            assert b"connection: close" not in answer.lower()


def test_many_clients_at_once(server):
    problems = []

    def ask():
        try:
            for _ in range(10):
                assert server.get("/health").status == 200
        except Exception as e:  # told below: an exception in a thread fails no test
            problems.append(e)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems


def test_the_limit_of_concurrent_requests(start_server, spec):
    server = start_server("[server]\nlimit_concurrency = 1\n")
    with server.connect() as held:
        # A request whose body is still on its way is in progress.
        held.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
        wait_for(lambda: server.get("/health").status == 503)
        a = server.get("/health")
        spec.check_error(a, 503, "UNAVAILABLE")
        assert a.headers["Retry-After"] == "1"
        held.sendall(b"12345")
        assert held.recv(64).startswith(b"HTTP/1.1 200 ")
    wait_for(lambda: server.get("/health").status == 200)


def test_public_paths_do_not_count_against_the_key(start_server):
    server = start_server("[limits]\nrequests_per_key = 1\n")
    with server.connect() as held:
        held.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
        time.sleep(0.1)
        assert server.get("/nowhere").status == 404


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_descriptors_bound_the_connections(start_server, tmp_path):
    few, home = ["prlimit", "--nofile=100:100", SERVER], Home()
    env = clean_environment(tmp_path, OPENSANDBOX_INSECURE_SERVER="YES", OPENSANDBOX_SERVER_PORT=free_port(), **home.env)
    done = subprocess.run(few, env=env, capture_output=True, text=True, timeout=20, check=False)
    home.remove()
    assert done.returncode == 1
    assert "this host lacks what sandboxes need: descriptors" in done.stderr
    server = start_server()
    soft, hard = re.search(r"Max open files +(\d+) +(\d+)", open(f"/proc/{server.pid}/limits").read()).groups()
    assert soft == hard


# ---- the process ----


def read_now(fd):
    """What a pipe holds."""
    os.set_blocking(fd, False)
    received = b""
    try:
        while piece := os.read(fd, 65536):
            received += piece
    except BlockingIOError:
        pass
    return received.decode()


def test_a_log_that_nobody_reads_holds_nothing_up(start_server):
    reader, writer = os.pipe()
    try:
        server = start_server(stderr=writer)
        for i in range(1000):
            assert server.get(f"/nowhere/{'x' * 100}{i}").status == 404
        seen = [read_now(reader)]
        server.get("/last")
        wait_for(lambda: seen.append(read_now(reader)) or " path=/last " in "".join(seen))
        assert re.search(r" dropped=[1-9]\d*\n", "".join(seen))
    finally:
        os.close(reader)
        os.close(writer)


def test_a_log_that_nobody_can_read_does_not_end_it(start_server):
    reader, writer = os.pipe()
    server = start_server(stderr=writer)
    os.close(reader)
    os.close(writer)
    assert server.get("/nowhere").status == 404
    assert server.get("/nowhere").status == 404


def test_a_log_at_its_limit_does_not_end_it(start_server):
    server = start_server()
    limit = len(server.stderr) + 1000
    server.limit(fsize=limit)
    for _ in range(20):
        assert server.get("/nowhere").status == 404
    assert len(server.stderr) == limit


def status_of(pid):
    return dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)


def test_it_takes_no_harm_from_what_it_inherits(start_server):
    def inherit():
        os.umask(0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    status = status_of(start_server(preexec_fn=inherit).pid)
    ignored = int(status["SigIgn"], 16)
    assert int(status["Umask"], 8) == 0o077
    assert not ignored & 1 << signal.SIGCHLD - 1
    assert ignored & 1 << signal.SIGPIPE - 1 and ignored & 1 << signal.SIGXFSZ - 1


def test_its_memory_is_not_for_others(start_server):
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]

    def inherit():
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    server = start_server(preexec_fn=inherit)
    least = 1 if most else 0  # 1 also stops the pipe of a core handler
    assert re.search(rf"Max core file size +{least} +{least} ", open(f"/proc/{server.pid}/limits").read())
    # The kernel gives the files of a process that may not be dumped to root.
    assert os.stat(f"/proc/{server.pid}/mem").st_uid == 0


# ---- TLS ----


def make_certificate(folder):
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o644)  # what is read anew while the server runs is read by its own user
    return cert, key


def get_secure(server, cert):
    """The answer, and the certificate that the server showed."""
    context = ssl.create_default_context(cafile=cert)
    with context.wrap_socket(server.connect(), server_hostname="127.0.0.1") as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        return read_all(s), s.getpeercert(binary_form=True)


def test_it_serves_https(start_server, tmp_path):
    cert, key = make_certificate(tmp_path)
    server = start_server(f"[server]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n")
    answer, shown = get_secure(server, cert)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b'{"status":"healthy"}')
    assert "scheme=https" in server.stderr
    make_certificate(tmp_path)
    server.process.send_signal(signal.SIGHUP)

    def renewed_answer():
        with contextlib.suppress(ssl.SSLCertVerificationError):  # it still shows the old one
            return get_secure(server, cert)

    answer, renewed = until(renewed_answer, 10, "a renewed certificate")
    assert answer.startswith(b"HTTP/1.1 200 ") and renewed != shown


def test_plain_http_to_a_tls_port_gets_nothing(start_server, tmp_path):
    cert, key = make_certificate(tmp_path)
    server = start_server(f"[server]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n")
    assert b"healthy" not in server.raw(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
    assert get_secure(server, cert)[0].startswith(b"HTTP/1.1 200 ")


# ---- stopping ----


def test_a_request_in_progress_is_answered_before_it_stops(start_server):
    server = start_server()
    with server.connect() as s, server.connect() as idle:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n123")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in server.stderr)
        with pytest.raises(OSError):
            server.connect(timeout=2).close()
        assert idle.recv(1) == b""  # who has nothing to wait for is let go
        assert server.process.poll() is None
        s.sendall(b"45")
        answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b'{"status":"healthy"}')
    assert b"\r\nConnection: close\r\n" in answer
    assert server.process.wait(5) == 0


def test_it_does_not_wait_for_ever(start_server):
    server = start_server("[limits]\ndrain_seconds = 1\n")
    with server.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
        time.sleep(0.2)
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert 0.5 < time.monotonic() - began < 5


def test_a_second_signal_stops_it_at_once(start_server):
    server = start_server()
    with server.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in server.stderr)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 1
    assert "second signal" in server.stderr
    server.process.returncode = 0  # as it should be here; the fixture expects an orderly end otherwise


def test_hangup_does_not_stop_it(start_server):
    server = start_server()
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert server.get("/health").status == 200


def test_the_port_can_be_taken_again_at_once(start_server):
    first = start_server()
    with first.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
        assert s.recv(16)
        first.stop()
    assert start_server(port=first.port).get("/health").status == 200


# ---- the tests themselves ----


@pytest.mark.parametrize("victim", [0, 1])
def test_a_server_that_fails_leaves_no_other_behind(tmp_path, victim):
    with pytest.raises(AssertionError), servers(tmp_path) as start:
        both = [start(), start()]
        both[victim].process.kill()
    assert [s.process.poll() is not None for s in both] == [True, True]
