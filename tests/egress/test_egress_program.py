# SPDX-License-Identifier: Apache-2.0
"""The resolver, policies and relay of sandboxes, with this process as the warden (W4, W6-W9, W11; E7-E31)."""
import base64
import contextlib
import hashlib
import http.client
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from api import wait_for
from egress_rig import BOX, BOX2, HOST, OPEN, OTHER, POLICY, WEB, Rig, in_namespace

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not all(map(shutil.which, ("dig", "dnsmasq", "nft", "ip"))), reason="needs dig, dnsmasq, nft and ip")]


def deny_all_but(*targets, **more):
    return {"defaultAction": "deny", "egress": [{"action": "allow", "target": t} for t in targets], **more}


@pytest.fixture(scope="module")
def shared():
    rig = Rig()
    yield rig
    rig.stop()


@pytest.fixture
def rig(shared):
    """Without sandboxes, servers and memories of them."""
    shared.stop_webs()
    for name in list(shared.warden.known):
        shared.warden.unbind(name)
    shared.warden.refuses.clear()
    shared.warden.delay = 0
    for path in shared.rules.iterdir():
        path.unlink()
    wait_for(lambda: shared.call("GET", "/metrics").json["sandboxes"] == 0, what="no sandbox is left")
    shared.warden.forget()
    return shared


@contextlib.contextmanager
def own_rig(*options, **more):
    rig = Rig(*options, **more)
    try:
        yield rig
    finally:
        rig.stop()


# ---- binding ----


def test_a_policy_is_in_force_and_on_disk_before_a_sandbox_is_bound(rig):
    policy = deny_all_but("web.test", "203.0.113.128/25", "203.0.113.200", "10.0.0.0/8")
    policy["egress"].append({"action": "deny", "target": "203.0.113.0/30"})
    bound = rig.warden.bind("box1", policy=policy)
    assert not bound["failed"]
    assert [row["call"] for row in rig.warden.told] == ["rules", "bound"]
    rules = rig.warden.told[0]
    # Sorted, without what is in another, without what is reserved.
    assert rules["rules"] == ["deny 203.0.113.0/30", "allow 203.0.113.128/25"] and rules["allows"] == 0 and rules["address"] == BOX
    assert (rig.state / "box1.json").exists() and (rig.state / "box1.json").stat().st_mode & 0o777 == 0o600
    rig.warden.unbind("box1")
    wait_for(lambda: not (rig.state / "box1.json").exists(), what="its policy is gone")


def test_an_open_sandbox_has_no_file_and_everything_is_allowed(rig):
    bound = rig.warden.bind("box1", network=OPEN)
    assert not bound["failed"] and rig.warden.of("rules")[0]["allows"] == 1
    assert rig.call("GET", "/sandboxes/box1/policy").json == {"status": "ok", "mode": "allow_all", "enforcementMode": "dns+nft",
                                                               "policy": {"egress": [], "defaultAction": "allow"}}
    assert list(rig.state.iterdir()) == []


@pytest.mark.parametrize("text", ["{", '{"defaultAction":"block"}', '{"egress":[{"action":"allow","target":"http://x"}]}'])
def test_a_policy_that_is_not_understood_fails_the_bind(rig, text):
    bound = rig.warden.bind("box1", policy=text)
    assert bound["failed"] and bound["why"]
    assert rig.dig("web.test", "A")[0] == "SERVFAIL"


def test_rules_that_are_refused_fail_the_bind(rig):
    rig.warden.refuses.add("rules")
    bound = rig.warden.bind("box1", policy=deny_all_but("web.test"))
    assert bound["failed"] and "the kernel says no" in bound["why"]
    assert rig.dig("web.test", "A")[0] == "SERVFAIL"


# ---- names ----


@pytest.mark.smoke
def test_names_are_answered_by_policy_and_nothing_else_goes_upstream(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test", "*.test:8080"))
    asked = len(rig.dns.queries())
    assert rig.addresses("web.test") == ("NOERROR", [WEB])
    assert rig.addresses("WEB.Test") == ("NOERROR", [WEB])
    assert rig.dig("example.com", "A") == ("NXDOMAIN", [])
    assert rig.dig("test", "A") == ("NXDOMAIN", [])
    assert rig.dig("exfil.data.xtest", "A") == ("NXDOMAIN", [])
    assert rig.dns.queries()[asked:] == [["[A]", "web.test"]] * 1
    assert rig.dig("-x", "192.0.2.10") == ("NXDOMAIN", [])


def test_only_addresses_are_answered_under_a_default_of_deny(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    for kind in ("AAAA", "TXT", "MX", "HTTPS", "SVCB", "ANY", "NULL", "SRV", "NS"):
        assert rig.dig("web.test", kind, "+notcp") == ("NOERROR", []), kind
    assert all(kind == "[A]" for kind, name in rig.dns.queries() if name == "web.test")


def test_other_types_are_answered_under_a_default_of_allow(rig):
    rig.warden.bind("box1", network=OPEN)
    status, rows = rig.dig("web.test", "TXT")
    assert status == "NOERROR" and rows[0][4] == '"hello"'
    status, rows = rig.dig("web.test", "MX")
    assert rows[0][4:] == ["10", "mail.test."]
    for kind in ("AAAA", "HTTPS", "SVCB", "ANY", "NULL"):
        assert rig.dig("web.test", kind, "+notcp") == ("NOERROR", []), kind


def test_private_addresses_and_the_hosts_own_are_taken_out_of_answers(rig):
    rig.warden.bind("box1", network=OPEN)
    assert rig.addresses("private.test") == ("NOERROR", [])
    assert rig.addresses("mixed.test") == ("NOERROR", [WEB])
    assert rig.addresses("own.test") == ("NOERROR", []), HOST


def test_addresses_that_a_rule_denies_are_taken_out_too(rig):
    rig.warden.bind("box1", policy={"defaultAction": "allow", "egress": [{"action": "deny", "target": "192.0.2.0/28"}]})
    assert rig.addresses("web.test") == ("NOERROR", [])
    assert rig.addresses("other.test") == ("NOERROR", [OTHER])


def test_an_alias_of_a_denied_name_is_denied(rig):  # E12
    policy = deny_all_but("alias.test", "bad.test")
    policy["egress"].append({"action": "deny", "target": "denied.test"})
    rig.warden.bind("box1", policy=policy)
    status, rows = rig.dig("alias.test", "A")
    assert status == "NOERROR" and [row[3:] for row in rows] == [["CNAME", "web.test."], ["A", WEB]]
    assert rig.dig("bad.test", "A") == ("NXDOMAIN", [])


def test_long_answers_come_over_tcp(rig):  # E16
    rig.warden.bind("box1", network=OPEN)
    status, found = rig.addresses("many.test")  # dig asks again over TCP when it is told to
    assert status == "NOERROR" and len(found) == 120
    out = subprocess.run(["ip", "netns", "exec", rig.namespaces.box, "dig", "-b", BOX, "+ignore", "@198.51.100.1", "many.test"],
                         capture_output=True, text=True).stdout
    assert "flags: qr tc rd ra" in out
    assert rig.call("GET", "/metrics").json["upstream"]["overTcp"] >= 1


def test_what_is_learned_is_let_through_before_the_answer(rig):  # E13, E15
    rig.warden.bind("box1", policy=deny_all_but("short.test", "web.test", "long.test", "other.test:8443", "other.test:443"))
    rig.warden.delay = 0.3
    began = time.monotonic()
    assert rig.addresses("short.test") == ("NOERROR", [WEB])
    assert time.monotonic() - began >= 0.3
    rig.warden.delay = 0
    for name in ("web.test", "long.test", "other.test"):
        rig.dig(name, "A")
    learned = [(row["net"], row["ports"], row["seconds"]) for row in rig.warden.of("learn")]
    # 10, 60 and 9999 make 70, 120 and 360 s; 80 and 443 go through the relay.
    assert learned == [(f"{WEB}/32", [22], 70), (f"{WEB}/32", [22], 120), (f"{WEB}/32", [22], 360), (f"{OTHER}/32", [8443], 120)]
    status, rows = rig.dig("long.test", "A")
    assert int(rows[0][1]) <= 300  # not longer than what it lets reach
    assert len(rig.warden.of("learn")) == 4  # nothing new was needed


def test_an_answer_that_cannot_be_let_through_fails(rig):  # E15
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    rig.warden.refuses.add("learn")
    assert rig.dig("web.test", "A")[0] == "SERVFAIL"
    rig.warden.refuses.clear()
    assert rig.addresses("web.test") == ("NOERROR", [WEB])


def test_queries_have_a_rate(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    query = b"\1\1\1\0\0\1\0\0\0\0\0\0\3web\4test\0\0\1\0\1"
    s = in_namespace(rig.namespaces.box, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    s.bind((BOX, 0))
    s.settimeout(0.5)
    for _ in range(400):
        s.sendto(query, ("192.0.2.99", 53))  # whoever is asked, we answer
        time.sleep(0.0002)
    answers = 0
    with contextlib.suppress(TimeoutError):
        while s.recv(2048):
            answers += 1
    assert 150 <= answers <= 260
    assert rig.activity("box1")["counters"]["dnsThrottled"] >= 140


def test_nonsense_is_answered_or_dropped_and_strangers_are_not_heard(rig):
    rig.warden.bind("box1", network=OPEN)
    s = in_namespace(rig.namespaces.box, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    s.bind((BOX, 0))
    s.settimeout(2)
    s.sendto(b"\0\7\1\0\0\2\0\0\0\0\0\0", ("198.51.100.1", 53))
    assert s.recv(512)[3] & 15 == 1  # FORMERR
    for junk in (b"", b"x", b"\xff" * 12, b"\0" * 2000):
        s.sendto(junk, ("198.51.100.1", 53))
    s.sendto(b"\0\7\1\0\0\1\0\0\0\0\0\0\3web\4test\0\0\1\0\3", ("198.51.100.1", 53))
    assert s.recv(512)[3] & 15 == 5  # REFUSED: another class
    assert rig.dig("+time=1", "web.test", "A", address=BOX2) == (None, [])
    assert rig.call("GET", "/metrics").json["strangers"] >= 1


def test_tcp_clients_may_ask_often_and_not_break_the_rules(rig):
    rig.warden.bind("box1", network=OPEN)
    query = b"\1\1\1\0\0\1\0\0\0\0\0\0\3web\4test\0\0\1\0\1"
    with rig.connect("198.51.100.1", 53) as s:
        for _ in range(3):
            s.sendall(struct.pack(">H", len(query)) * 1 + query)
        for _ in range(3):
            size = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
            assert s.recv(size, socket.MSG_WAITALL).endswith(socket.inet_aton(WEB))
        s.sendall(b"\xff\xff")
        assert s.recv(1) == b""


# ---- the relay ----


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-out", "cert", "-days", "2", "-subj",
                    "/CN=web.test"], cwd=folder, check=True, capture_output=True)
    return folder


def tls_server(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert", certificate / "key")

    def serve(peer, seen):
        with context.wrap_socket(peer, server_side=True) as s:
            while data := s.recv(65536):
                seen.append(data)
                s.sendall(data)
    return serve


def tls_client(rig, address, name, source=BOX):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(rig.connect(address, 443, source), server_hostname=name)


WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def http_server(peer, seen):
    """Answers each request of a connection; agrees to any upgrade."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            piece = peer.recv(65536)
            if not piece:
                return
            data += piece
        head, data = data.split(b"\r\n\r\n", 1)
        seen.append(head)
        if b"Upgrade:" in head:
            agrees = b"/refuse" not in head
            words = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            accept = base64.b64encode(hashlib.sha1(words.get(b"Sec-WebSocket-Key", b"") + WEBSOCKET).digest())
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: " + words[b"Upgrade"] +
                         b"\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n" if agrees else
                         b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            while agrees and (piece := peer.recv(65536)):
                seen.append(piece)
                peer.sendall(piece)
            continue
        if b"Content-Length: 5" in head:
            while len(data) < 5:
                data += peer.recv(65536)
            data = data[5:]
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def is_cut(s):
    """The other side has ended it."""
    s.settimeout(5)
    try:
        return s.recv(100) == b""
    except ConnectionResetError:
        return True


def test_tls_reaches_what_was_resolved_and_nothing_else(rig, certificate):
    web = rig.web(WEB, 443, tls_server(certificate))
    rig.warden.bind("box1", policy=deny_all_but("web.test", "long.test"))
    rig.warden.bind("box2", BOX2, policy=deny_all_but("web.test"))
    # Not resolved yet by anybody.
    with pytest.raises((ConnectionResetError, ssl.SSLError)):
        tls_client(rig, WEB, "web.test")
    assert rig.addresses("web.test") == ("NOERROR", [WEB])
    with tls_client(rig, WEB, "web.test") as s:
        s.sendall(b"x" * 300000)
        got = 0
        while got < 300000:
            got += len(s.recv(65536))
    # By another sandbox; to another address; another name; a denied one; none at all.
    for name, address, source in (("web.test", WEB, BOX2), ("web.test", OTHER, BOX), ("long.test", WEB, BOX),
                                  ("denied.test", WEB, BOX), (None, WEB, BOX)):
        with pytest.raises((ConnectionResetError, ssl.SSLError)):
            tls_client(rig, address, name, source)
    # What is no TLS.
    with rig.connect(WEB, 443) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n")
        assert is_cut(s)
    assert sum(map(len, web.seen)) == 300000
    activity = rig.activity("box1")
    assert activity["counters"]["flowsDenied"] == 6 and activity["counters"]["relaySentBytes"] > 300000
    reasons = {row.get("reason") for row in activity["recent"] if row["kind"] == "tcp" and row["decision"] == "deny"}
    assert reasons == {"the name was not resolved to this address", "a denied name", "a hello without a name", "no TLS"}


def test_every_request_of_a_connection_is_looked_at(rig):
    web = rig.web(WEB, 80, http_server)
    rig.warden.bind("box1", policy=deny_all_but("web.test", "short.test"))
    rig.dig("web.test", "A")
    rig.dig("short.test", "A")
    with rig.connect(WEB, 80) as s:
        for host, body in (("web.test", b""), ("SHORT.test:80", b"Content-Length: 5\r\n"), ("web.test", b"")):
            s.sendall(b"POST / HTTP/1.1\r\nHost: " + host.encode() + b"\r\n" + body + b"\r\n" + (b"12345" if body else b""))
            assert s.recv(1000).endswith(b"ok")
        s.sendall(b"GET /secret HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        assert is_cut(s)
    for bad in (b"GET / HTTP/1.1\r\nHost: web.test:8080\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT web.test:80 HTTP/1.1\r\nHost: web.test\r\n\r\n",
                b"GET http://denied.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: 192.0.2.10\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: web.test\r\nHost: denied.test\r\n\r\n"):
        with rig.connect(WEB, 80) as s:
            s.sendall(bad)
            assert is_cut(s), bad
    # A body does not hide a second request.
    with rig.connect(WEB, 80) as s:
        s.sendall(b"POST / HTTP/1.1\r\nHost: web.test\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        assert is_cut(s)
    assert not any(b"secret" in head or b"denied" in head for head in web.seen)


def test_an_upgrade_is_opaque_only_once_the_server_agrees(rig):
    web = rig.web(WEB, 80, http_server)
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    rig.dig("web.test", "A")
    head = (b"GET %s HTTP/1.1\r\nHost: web.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    with rig.connect(WEB, 80) as s:
        s.sendall(head % b"/")
        assert s.recv(1000).startswith(b"HTTP/1.1 101")
        s.sendall(b"\0\1\2 anything")
        assert s.recv(100) == b"\0\1\2 anything"
    with rig.connect(WEB, 80) as s:  # whatever this is, whom it speaks with could not be told any more
        s.sendall(b"GET / HTTP/1.1\r\nHost: web.test\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nGET /secret HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        assert any(is_cut(s) for _ in range(5))  # the answer itself may come through
    with rig.connect(WEB, 80) as s:
        s.sendall(head % b"/refuse" + b"GET /secret HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        assert s.recv(1000).endswith(b"ok")
        assert is_cut(s)
    assert not any(b"secret" in piece for piece in web.seen)


def test_a_change_of_policy_ends_flows_and_forgets_what_was_learned(rig, certificate):
    rig.web(WEB, 443, tls_server(certificate))
    rig.web(OTHER, 443, tls_server(certificate))
    rig.warden.bind("box1", policy=deny_all_but("web.test", "other.test"))
    rig.dig("web.test", "A")
    rig.dig("other.test", "A")
    with tls_client(rig, WEB, "web.test") as gone, tls_client(rig, OTHER, "other.test") as stays:
        rig.warden.forget()
        assert rig.call("DELETE", "/sandboxes/box1/policy", ["web.test"]).status == 200
        began = time.monotonic()
        assert is_cut(gone) and time.monotonic() - began < 5
        stays.sendall(b"still here")
        assert stays.recv(100) == b"still here"
    told = [(row["call"], row["net"], row["ports"]) for row in rig.warden.told]
    assert told == [("rules", "0.0.0.0/0", []), ("forget", f"{WEB}/32", [22]), ("cut", f"{WEB}/32", [])]
    assert rig.activity("box1")["counters"]["flowsCut"] == 1


def test_flows_have_a_ceiling_and_a_time_to_say_their_name(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(rig.connect(WEB, 443))
        wait_for(lambda: rig.activity("box1")["openFlows"] == 40, what="they are open")
        s = rig.connect(WEB, 443)
        began = time.monotonic()
        s.settimeout(15)
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b""
        assert 8 < time.monotonic() - began < 13
        s.close()
        wait_for(lambda: rig.activity("box1")["openFlows"] == 0, what="all are over")


def test_W10_who_takes_all_flows_leaves_some_to_others():
    with own_rig(files=512 + 6 * 100) as rig, contextlib.ExitStack() as stack:
        for name, address in (("box1", BOX), ("box2", BOX2)):
            rig.warden.bind(name, address, policy=deny_all_but("web.test"))
        for _ in range(90):
            with contextlib.suppress(ConnectionError):
                stack.enter_context(rig.connect(WEB, 443))
        wait_for(lambda: rig.activity("box1")["counters"]["flowsDenied"] == 40, what="half of all are its own, the rest is refused")
        assert rig.activity("box1")["openFlows"] == 50
        for _ in range(40):
            with contextlib.suppress(ConnectionError):
                stack.enter_context(rig.connect(WEB, 443, BOX2))
        wait_for(lambda: rig.activity("box2")["openFlows"] == 25, what="of the other half, half")
        assert rig.activity("box1")["openFlows"] == 50


# ---- the API ----


def test_the_api_speaks_as_clients_know_it(rig):
    rig.warden.bind("box1", policy=deny_all_but("Example.COM"))
    url = "/sandboxes/box1/policy"
    ok = {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"}
    got = rig.call("GET", url)
    assert got.json == {**ok, "policy": {"egress": [{"action": "allow", "target": "Example.COM"}], "defaultAction": "deny"}}
    assert got.text.endswith("\n")
    patch = rig.call("PATCH", url, [{"action": "deny", "target": "example.com"}, {"action": "allow", "target": "*.b.test"}])
    assert (patch.status, patch.json) == (200, ok)
    assert rig.call("GET", url).json["policy"]["egress"] == [{"action": "deny", "target": "example.com"}, {"action": "allow", "target": "*.b.test"}]
    before = len(rig.warden.of("rules"))
    nothing = rig.call("DELETE", url, ["c.test"])
    assert (nothing.status, nothing.json) == (200, {**ok, "reason": "no matching targets found"})
    assert len(rig.warden.of("rules")) == before
    assert rig.call("DELETE", url, ["EXAMPLE.com"]).json == ok
    for method in ("POST", "PUT"):
        assert rig.call(method, url, {"defaultAction": "allow", "egress": [{"action": "deny", "target": "x.test"}] * 2}).json == ok
        assert len(rig.call("GET", url).json["policy"]["egress"]) == 2
        assert rig.call(method, url, " \n").json == {"status": "ok", "mode": "deny_all", "reason": "policy reset to default deny-all"}
        assert rig.call(method, url, "{}").json == {"status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft"}
        assert rig.call(method, url, "null").json == {"status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft"}
    assert rig.call("GET", url).json["policy"] == {"egress": [], "defaultAction": "deny"}
    reserved = rig.call("POST", url, deny_all_but("10.0.0.0/8", "203.0.113.7"))
    assert reserved.json == {**ok, "reason": "allowed, but not reachable from sandboxes: 10.0.0.0/8"}
    assert rig.warden.of("rules")[-1]["rules"] == ["allow 203.0.113.7/32"]


@pytest.mark.parametrize("method, body, status, text", [
    ("POST", "{", 400, "invalid policy: "),
    ("POST", '{"defaultAction":"block"}', 400, 'invalid policy: defaultAction: unsupported action "block"'),
    ("PUT", '{"egress":[{"action":"allow","target":"*"}]}', 400, "invalid policy: egress[0].target: "),
    ("PATCH", "", 400, "empty body"),
    ("PATCH", "[]", 400, "invalid patch rules: empty array"),
    ("PATCH", "null", 400, "invalid patch rules: empty array"),
    ("PATCH", '{"egress":[]}', 400, "invalid patch rules: an array is expected"),
    ("PATCH", "[1]", 400, "invalid patch rules: egress[0]: an object"),
    ("PATCH", '[{"action":"x","target":"a.test"}]', 400, "invalid merged policy: egress[0].action: unsupported action"),
    ("PATCH", '[{"action":"allow","target":""}]', 400, "invalid merged policy: egress[0].target: egress target cannot be empty"),
    ("DELETE", "", 400, "empty body"),
    ("DELETE", "[]", 400, "invalid delete targets: empty array"),
    ("DELETE", "nonsense", 400, "invalid delete targets: "),
    ("DELETE", "[1]", 400, "invalid delete targets: [0]: "),
    ("OPTIONS", None, 405, "method not allowed"),
])
def test_what_the_api_refuses_is_said_in_a_line_of_text(rig, method, body, status, text):
    rig.warden.bind("box1", policy=deny_all_but("a.test"))
    answer = rig.call(method, "/sandboxes/box1/policy", body)
    assert answer.status == status and answer.text.startswith(text) and answer.text.endswith("\n") and answer.text.count("\n") == 1
    assert answer.getheader("Content-Type") == "text/plain; charset=utf-8"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    if status == 405:
        assert answer.getheader("Allow") == "GET, POST, PUT, PATCH, DELETE"
    assert rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"] == [{"action": "allow", "target": "a.test"}]


def test_other_paths_and_sandboxes_are_not_there(rig):
    for path in ("/", "/policy", "/sandboxes/box9/policy", "/sandboxes/box9/healthz", "/sandboxes/box9/activity", "/sandboxes/../x"):
        assert rig.call("GET", path).status in (400, 404), path
    assert rig.call("GET", "/healthz").text == "ok"


def test_a_change_that_is_not_in_force_is_not_said_to_be(rig):  # E24
    rig.warden.bind("box1", policy=deny_all_but("a.test"))
    rig.warden.refuses.add("rules")
    failed = rig.call("PATCH", "/sandboxes/box1/policy", [{"action": "allow", "target": "b.test"}])
    assert failed.status == 500 and failed.text.startswith("failed to apply nftables policy: ")
    rig.warden.refuses.clear()
    assert rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"] == [{"action": "allow", "target": "a.test"}]
    assert "b.test" not in (rig.state / "box1.json").read_text()


@pytest.mark.parametrize("call", ["forget", "cut"])
def test_what_cannot_be_taken_back_is_said_and_taken_back_by_beginning_anew(call):
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test:8080"))
        rig.dig("web.test", "A")
        rig.warden.wait(lambda row: row["call"] == "learn")
        rig.warden.refuses.add(call)
        answer = rig.call("PUT", "/sandboxes/box1/policy", deny_all_but("other.test"))
        assert answer.status == 500 and answer.text.startswith("the new policy holds, but what it forbids may go on for a moment"), answer.text
        rig.warden.refuses.clear()
        rig.warden.forget()
        rig.warden.accept()  # whoever is greeted anew has let nothing through
        assert rig.warden.of("rules") and not rig.warden.of("learn")
        wait_for(lambda: rig.call("GET", "/sandboxes/box1/policy").status == 200, what="it is there")
        assert rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"] == deny_all_but("other.test")["egress"]
        assert "other.test" in (rig.state / "box1.json").read_text()


def test_a_change_that_cannot_be_written_down_changes_nothing(rig):  # E24
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    rig.warden.forget()
    mode = rig.state.stat().st_mode & 0o7777
    rig.state.chmod(0o500)
    try:
        failed = rig.call("PUT", "/sandboxes/box1/policy", deny_all_but("other.test", "203.0.113.7"))
        assert failed.status == 500 and failed.text.startswith("failed to persist policy: "), failed.text
        assert rig.warden.bind("box2", BOX2, policy=deny_all_but("other.test"))["failed"]
    finally:
        rig.state.chmod(mode)
    assert rig.warden.of("rules") == []
    assert rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"] == [{"action": "allow", "target": "web.test"}]
    assert rig.addresses("web.test") == ("NOERROR", [WEB]) and rig.dig("other.test", "A")[0] == "NXDOMAIN"
    rig.warden.refuses.add("rules")
    assert rig.call("PUT", "/sandboxes/box1/policy", deny_all_but("other.test")).status == 500
    rig.warden.refuses.clear()
    assert [p.name for p in rig.state.iterdir()] == ["box1.json"]


def test_changes_of_one_sandbox_come_one_after_the_other(rig):
    rig.warden.bind("box1", policy=deny_all_but("a.test"))
    rig.warden.delay = 0.05
    statuses = []

    def patch(i):
        statuses.append(rig.call("PATCH", "/sandboxes/box1/policy", [{"action": "allow", "target": f"n{i}.test"}]).status)

    threads = [threading.Thread(target=patch, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    rig.warden.delay = 0
    assert statuses == [200] * 8
    assert len(rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"]) == 9


def test_rules_have_a_ceiling():  # E29
    with own_rig("--max-rules", "3") as rig:
        rig.warden.bind("box1", policy=deny_all_but("a.test", "b.test"))
        url = "/sandboxes/box1/policy"
        over = rig.call("PATCH", url, [{"action": "allow", "target": f"{x}.test"} for x in "cd"])
        assert (over.status, over.text) == (413, "egress rule total count 4 exceeds limit 3\n")
        over = rig.call("POST", url, deny_all_but("a.test", "b.test", "c.test", "d.test"))
        assert (over.status, over.text) == (413, "egress rule total count 4 exceeds limit 3\n")
        assert len(rig.warden.of("rules")) == 1
        connection = rig.call("POST", url, " " * (1024 * 1024 + 1))
        assert connection.status == 413
        assert rig.call("GET", url).json["policy"]["egress"] == deny_all_but("a.test", "b.test")["egress"]


# ---- the operator's lists ----


def reload(rig):
    rig.process.send_signal(signal.SIGHUP)


def test_the_operators_lists_go_before_every_policy(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    assert rig.addresses("web.test") == ("NOERROR", [WEB])
    (rig.rules / "deny.always").write_text("# ours\nweb.test\n192.0.2.128/25\n")
    (rig.rules / "allow.always").write_text("other.test\n")
    reload(rig)
    wait_for(lambda: rig.dig("web.test", "A")[0] == "NXDOMAIN", what="the list holds")
    assert rig.addresses("other.test") == ("NOERROR", [OTHER])
    assert rig.warden.of("rules")[-1]["rules"] == ["deny 192.0.2.128/25"]
    assert rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"] == [{"action": "allow", "target": "web.test"}]
    (rig.rules / "deny.always").write_text("http://broken\n")
    reload(rig)
    wait_for(lambda: "line 1" in rig.log(), what="it is said")
    assert rig.dig("web.test", "A")[0] == "NXDOMAIN"  # the old one stays
    (rig.rules / "deny.always").unlink()
    reload(rig)
    wait_for(lambda: rig.addresses("web.test") == ("NOERROR", [WEB]), what="it holds no more")


def test_lists_are_read_without_being_told():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        (rig.rules / "deny.always").write_text("*.test\n")
        wait_for(lambda: rig.dig("web.test", "A")[0] == "NXDOMAIN", 30, what="the list holds")


# ---- faults ----


def test_a_new_process_has_the_same_policies():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.warden.bind("box2", BOX2, network=OPEN)
        assert rig.call("PATCH", "/sandboxes/box1/policy", [{"action": "allow", "target": "other.test"}]).status == 200
        (rig.state / "stale.json").write_text("{}")
        (rig.state / "box9.new").write_text("{")
        rig.kill()
        rig.warden.forget()
        rig.start()
        wait_for(lambda: sorted(p.name for p in rig.state.iterdir()) == ["box1.json"], what="what is nobody's is gone")
        assert [t["target"] for t in rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"]] == ["other.test", "web.test"]
        assert rig.call("GET", "/sandboxes/box2/policy").json["mode"] == "allow_all"
        assert rig.addresses("other.test") == ("NOERROR", [OTHER])
        assert rig.dig("denied.test", "A")[0] == "NXDOMAIN"


def test_what_was_said_to_hold_holds_after_any_kill():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("a0.test"))
        said = []

        def change(stop):
            i = 0
            while not stop.is_set():
                i += 1
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if rig.call("PUT", "/sandboxes/box1/policy", deny_all_but(f"a{i}.test", *[f"x{k}.test" for k in range(200)])).status == 200:
                        said.append(i)

        for _ in range(8):
            stop = threading.Event()
            thread = threading.Thread(target=change, args=(stop,))
            thread.start()
            time.sleep(0.15)
            rig.kill()
            stop.set()
            rig.start()
            thread.join()
            first = rig.call("GET", "/sandboxes/box1/policy").json["policy"]["egress"][0]["target"]
            # The last one that was said to hold, or one that came behind it and was not said any more.
            assert int(first[1:].split(".")[0]) >= (said[-1] if said else 0)
            said.clear()
        wait_for(lambda: sorted(p.name for p in rig.state.iterdir()) == ["box1.json"], what="what was cut off is gone")


def test_much_is_forgotten_at_once(rig):
    rig.warden.bind("box1", policy=deny_all_but("many.test", "web.test"))
    assert len(rig.addresses("many.test")[1]) == 120 and rig.addresses("web.test")[0] == "NOERROR"
    rig.warden.forget()
    assert rig.call("POST", "/sandboxes/box1/policy", "{}").status == 200
    assert len(rig.warden.of("forget")) == 121
    assert [row["net"] for row in rig.warden.of("cut")] == ["0.0.0.0/0"]


@pytest.mark.parametrize("text", [None, "", "{", '{"egress":[{"action":"x"}]}'])
def test_a_policy_that_is_lost_denies_everything(text):
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.kill()
        if text is None:
            (rig.state / "box1.json").unlink()
        else:
            (rig.state / "box1.json").write_text(text)
        rig.start()
        assert rig.call("GET", "/sandboxes/box1/policy").json["mode"] == "deny_all"
        assert rig.dig("web.test", "A")[0] == "NXDOMAIN"


def test_a_warden_that_comes_back_is_told_everything_again():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test", "203.0.113.7", "short.test"))
        rig.warden.bind("box2", BOX2, policy=deny_all_but("web.test"))
        rig.dig("other.test", "A", address=BOX2)
        rig.dig("short.test", "A")
        rig.warden.hang_up()
        wait_for(lambda: rig.call("GET", "/healthz").status == 503, what="it is noticed")
        assert rig.dig("web.test", "A")[0] == "SERVFAIL"  # nothing can be let through
        refused = rig.call("PATCH", "/sandboxes/box1/policy", [{"action": "allow", "target": "b.test"}])
        assert refused.status == 500 and "the warden is not connected" in refused.text
        rig.warden.forget()
        del rig.warden.known["box2"]
        rig.warden.accept()
        assert rig.warden.of("rules")[0]["rules"] == ["allow 203.0.113.7/32"]
        assert {(row["net"], *row["ports"]) for row in rig.warden.of("learn")} == {(f"{WEB}/32", 22)}  # of what was resolved before
        wait_for(lambda: rig.call("GET", "/sandboxes/box2/policy").status == 404, what="it was not told of again")
        assert rig.addresses("web.test") == ("NOERROR", [WEB])
        assert rig.call("GET", "/healthz").status == 200


def test_a_warden_that_does_not_answer_is_given_up():  # E31
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.warden.delay = 30
        began = time.monotonic()
        assert rig.dig("web.test", "A")[0] in ("SERVFAIL", None)
        assert time.monotonic() - began < 8
        wait_for(lambda: rig.call("GET", "/healthz").status == 503, what="it is given up")


@pytest.mark.alone("measures time")
def test_a_resolver_that_is_dead_delays_one_query_alone():
    with own_rig(upstreams=("203.0.113.99:53", "203.0.113.53:53")) as rig:
        rig.warden.bind("box1", network=OPEN)
        assert rig.addresses("web.test") == ("NOERROR", [WEB])
        began = time.monotonic()
        assert rig.addresses("other.test") == ("NOERROR", [OTHER])
        assert time.monotonic() - began < 1
        assert rig.call("GET", "/metrics").json["upstream"]["resolversHealthy"] == 1


def test_without_a_resolver_names_fail():
    with own_rig(upstreams=("203.0.113.53:54",)) as rig:
        rig.warden.bind("box1", network=OPEN)
        assert rig.dig("web.test", "A")[0] == "SERVFAIL"


def test_the_hosts_resolvers_are_asked_by_default():
    with own_rig(upstreams=()) as rig:
        with open("/etc/resolv.conf") as f:
            known = {line.split()[1] for line in f if line.startswith("nameserver ")}
        assert rig.call("GET", "/metrics").json["upstream"]["resolvers"] == len(known)


def read_event(peer):
    data = b""
    while b"}" not in data:
        data += peer.recv(65536)
    return data


def test_denied_names_are_told_to_the_webhook():  # E25
    seen = []

    def serve(peer, _):
        seen.append(read_event(peer))
        peer.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" if len(seen) == 1 else
                     b"HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n")

    with own_rig(webhook="http://web.test:8000/hook?x=1") as rig:
        rig.web(WEB, 8000, serve)
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.dig("Blocked.Example.org", "A")
        rig.dig("second.example.org", "A")
        wait_for(lambda: len(seen) == 3, what="both are told, the first one twice")
        assert seen[0].startswith(b"POST /hook?x=1 HTTP/1.1\r\n") and b"Content-Type: application/json" in seen[0]
        assert b'"hostname":"blocked.example.org"' in seen[1] and b'"sandboxId":"box1"' in seen[1] and b'"source":"opensandbox-egress"' in seen[1]
        assert b'"hostname":"second.example.org"' in seen[2]
        wait_for(lambda: rig.call("GET", "/metrics").json["webhookSent"] == 2, what="it is counted")


def test_a_receiver_that_answers_byte_by_byte_holds_up_one_delivery_for_a_while():
    seen = []

    def serve(peer, _):
        seen.append((time.monotonic(), read_event(peer)))
        if len(seen) > 1:
            peer.sendall(b"HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n")
            return
        peer.sendall(b"HTTP/1.1 200 Yes\r\nContent-Length: 1000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(60):
                peer.sendall(b".")
                time.sleep(0.3)

    with own_rig(webhook=f"http://{WEB}:8000/") as rig:
        rig.web(WEB, 8000, serve)
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.dig("first.example.org", "A")
        rig.dig("second.example.org", "A")
        wait_for(lambda: len(seen) == 3, 15, what="the first one again, and the second")
        assert 5 < seen[1][0] - seen[0][0] < 9
        assert [b"first.example.org" in data for _, data in seen] == [True, True, False]


# ---- what it is ----


def test_it_has_no_rights(rig):
    status = (lambda text: dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line))(
        open(f"/proc/{rig.process.pid}/status").read())
    assert status["Uid"].split() == ["61183"] * 4 and status["Groups"].split() == []
    assert status["CapEff"] == status["CapPrm"] == status["CapInh"] == "0" * 16
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


def test_what_a_sandbox_tried_is_remembered_within_bounds(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test"))
    rig.dig("web.test", "A")
    rig.dig("web.test", "A")
    rig.dig("evil.example", "A")
    recent = rig.activity("box1")["recent"]
    assert [(row["kind"], row["decision"], row["target"], row["count"]) for row in recent] == [
        ("dns", "deny", "evil.example", 1), ("dns", "allow", "web.test", 2)]
    assert recent[1]["address"] == WEB and recent[0]["first"].endswith("Z")


def test_the_log_is_not_filled_by_a_sandbox():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        s = in_namespace(rig.namespaces.box, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        s.bind((BOX, 0))
        s.settimeout(5)
        for i in range(180):
            s.sendto(b"\1\1\1\0\0\1\0\0\0\0\0\0\4n%03d\4evil\0\0\1\0\1" % i, ("198.51.100.1", 53))
            assert s.recv(512)[3] & 15 == 3
        assert rig.activity("box1")["counters"]["dnsDenied"] == 180
        assert rig.log().count("egress denied") == 120


def test_E28_what_is_allowed_is_told_once_and_counted(rig):
    rig.warden.bind("box1", policy=deny_all_but("web.test", "short.test"))
    before = rig.log().count("egress allowed")
    for _ in range(40):
        rig.dig("web.test", "A")
        rig.dig("short.test", "A")
    rows = {row["target"]: row["count"] for row in rig.activity("box1")["recent"]}
    assert rows == {"web.test": 40, "short.test": 40} and rig.activity("box1")["counters"]["dnsAllowed"] == 80
    assert rig.log().count("egress allowed") - before == 2


def test_it_says_what_is_wrong_with_its_options(tmp_path):
    from egress_rig import EGRESS
    for argv in (["--warden", "x"], ["--warden", "/x", "--rules-dir", "x"], ["--nonsense"]):
        done = subprocess.run([EGRESS, *argv], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("opensandbox-egress: "), argv
    assert "NETWORK" in subprocess.run([EGRESS, "--help"], capture_output=True, text=True, check=True).stdout


def test_a_policy_on_its_way_is_waited_for():
    with own_rig() as rig:
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.kill()
        rig.warden.delay = 0.5
        starter = threading.Thread(target=rig.start)
        starter.start()
        wait_for(lambda: rig.call("GET", "/sandboxes/box1/policy").status == 200, what="it is known")
        wait_for(lambda: rig.call("GET", "/sandboxes/box9/policy").status == 404, what="all are known")
        starter.join()
        rig.kill()
        rig.warden.refuses.add("rules")
        rig.start()
        rig.warden.delay = 0
        assert rig.call("GET", "/sandboxes/box1/policy").status == 503
        assert rig.call("PUT", "/sandboxes/box1/policy", "{}").status == 503


# ---- restarts ----


class Asker(threading.Thread):
    """Resolves NAME from a sandbox's address all the time; `codes` are (when asked, code or None for no answer in 4 s)."""

    def __init__(self, rig, name, address=BOX):
        super().__init__(daemon=True)
        self.query = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0\0\1\0\1"
        self.rig, self.address, self.codes, self.is_over = rig, address, [], threading.Event()

    def socket(self):
        s = in_namespace(self.rig.namespaces.box, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        s.bind((self.address, 0))
        s.settimeout(4)
        s.connect(("198.51.100.1", 53))
        return s

    def run(self):
        while not self.is_over.wait(0.03):
            began = time.monotonic()
            with self.socket() as s:
                s.send(b"\1\1\1\0\0\1\0\0\0\0\0\0" + self.query)
                try:
                    code = s.recv(4096)[3] & 15
                except (TimeoutError, ConnectionRefusedError):
                    code = None
            self.codes.append((began, code))

    def stop(self):
        self.is_over.set()
        self.join()
        return self.codes


def test_a_restart_denies_no_name_that_is_allowed():  # W9
    seen = []

    def serve(peer, _):
        seen.append(read_event(peer))
        peer.sendall(b"HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n")

    with own_rig(webhook=f"http://{WEB}:8000/") as rig:
        rig.web(WEB, 8000, serve)
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.warden.bind("box2", BOX2, policy=deny_all_but("web.test"))
        askers = [Asker(rig, "web.test"), Asker(rig, "web.test", BOX2)]
        for asker in askers:
            asker.start()
        time.sleep(0.2)
        rig.kill()
        died = time.monotonic()
        time.sleep(0.3)
        rig.warden.delay = 0.4  # each policy takes this long to be in force
        rig.start()
        rig.warden.delay = 0
        time.sleep(0.5)
        for codes in [asker.stop() for asker in askers]:
            assert {code for _, code in codes} <= {0, None}, codes  # what was read by the one that was killed is lost
            assert all(code == 0 for at, code in codes if at > died), codes
            assert [at for at, _ in codes if at > died]
        assert seen == [] and rig.dig("evil.example", "A")[0] == "NXDOMAIN"
        wait_for(lambda: len(seen) == 1, what="what is denied is told")


def test_without_a_policy_names_fail_and_are_not_denied():
    seen = []

    def serve(peer, _):
        seen.append(read_event(peer))
        peer.sendall(b"HTTP/1.1 204 Yes\r\nConnection: close\r\n\r\n")

    with own_rig(webhook=f"http://{WEB}:8000/") as rig:
        rig.web(WEB, 8000, serve)
        rig.warden.bind("box1", policy=deny_all_but("web.test"))
        rig.warden.bind("box2", BOX2, policy=deny_all_but("web.test"))
        rig.kill()
        rig.warden.refuses.add("rules")
        rig.start()
        assert rig.dig("web.test", "A")[0] == "SERVFAIL"
        assert rig.dig("evil.example", "A")[0] == "SERVFAIL"
        assert rig.activity("box1")["counters"]["dnsDenied"] == 0
        rig.warden.refuses.clear()
        rig.warden.bind("box2", BOX2)
        assert rig.dig("evil.example", "A", address=BOX2)[0] == "NXDOMAIN"
        wait_for(lambda: len(seen) == 1, what="what a policy denies is told")
        assert b'"sandboxId":"box2"' in seen[0]
