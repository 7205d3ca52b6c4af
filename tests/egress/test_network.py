# SPDX-License-Identifier: Apache-2.0
"""Networks of sandboxes as clients have them: what is reached, and the policy API (contract: network.md 1.4, 1.5, 3.1, 8)."""
import json
import time

import pytest

from internet import BAD, GOOD, HOST, OTHER, PRIVATE, RESOLVER, SHARED
from network import AUTH_HEADER, MISSING, box, net, network, rules, until_true  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def open_box(net):
    return net.box()


@pytest.fixture
def guarded(net):
    """One for all tests that set a policy of their own."""
    if not hasattr(net, "guarded"):
        net.guarded = net.box({})
    net.guarded.change("PUT", {})
    return net.guarded


# ---- without a policy ----


def test_the_internet_by_name_and_by_address(net, open_box):
    assert open_box.py("resolve('good.test')") == [GOOD]
    assert open_box.py("web('www.good.test')")["host"] == "www.good.test"
    assert open_box.py("web_tls('www.good.test')")["sni"] == "www.good.test"
    assert open_box.py(f"http({BAD!r}, 'x')")["address"] == BAD
    assert open_box.py(f"udp({OTHER!r}, 9000, b'abc')") == "abc"
    assert open_box.py(f"tcp({OTHER!r}, 22)") == "hello\n"
    assert net.internet.requests[-1]["peer"] == HOST  # by NAT


def test_programs_find_the_resolver(net, open_box):
    assert open_box.run("getent hosts good.test | cut -d' ' -f1") == [GOOD]
    assert open_box.run("getent hosts nobody.test; echo $?") == ["2"]
    assert [row[2] for row in net.internet.dns.asked("good.test")]


def test_a_sandbox_knows_its_own_name_and_address(net, open_box):
    name, = open_box.run("uname -n")
    address, = open_box.run("getent ahostsv4 $(uname -n) | head -n1 | cut -d' ' -f1")
    assert name == open_box.id and not address.startswith("127.")
    assert open_box.run("tail -n1 /etc/hosts") == [f"{address}\t{name}"]
    assert address in open_box.py("[row.split()[-1] for row in open('/proc/net/fib_trie') if '|--' in row]")


def test_neither_the_host_nor_private_addresses(net, open_box):
    moment = net.internet.mark()
    targets = [*PRIVATE, HOST, "127.0.0.53", "255.255.255.255", "224.0.0.1"]
    found = open_box.py(f"all_of(*[(tcp, a, 80) for a in {targets!r}])")
    assert all("hello" not in f and "{" not in f for f in found) and len(found) == len(targets), found
    assert not [p for p in net.internet.packets(moment) if p.target in targets]


def test_the_policy_of_an_open_sandbox_allows_everything_and_can_be_changed(net, box):
    b = box()
    status = b.policy()
    assert status["mode"] == "allow_all" and status["policy"] == {"egress": [], "defaultAction": "allow"}
    assert b.change("PATCH", [{"action": "deny", "target": BAD}])["mode"] == "enforcing"
    assert b.py(f"tried(http, {BAD!r}, 'x')") == "timeout" and b.py(f"http({GOOD!r}, 'x')")
    b.change("PUT", {})
    assert not isinstance(b.py(f"tried(http, {GOOD!r}, 'x')"), dict) and b.py("tried(resolve, 'good.test')") == "NXDOMAIN"


def test_none_is_loopback_alone(net, box):
    b = box(extensions={"network.mode": "none"})
    moment = net.internet.mark()
    assert b.run("ip route | wc -l; ip -6 route | grep -vw lo | wc -l") == ["0"] * 2
    assert b.py(f"all_of((tcp, {GOOD!r}, 80), (udp, {GOOD!r}, 9000), (ask, 'good.test'))") == ["ENETUNREACH"] * 3
    assert not net.internet.packets(moment)
    assert b.activity()["network"] == "none"
    assert b.call("GET", "/healthz").status == 200


# ---- with one ----


@pytest.mark.smoke
def test_what_is_allowed_by_name_is_reached_and_nothing_else(net, box):  # E1
    b = box(rules("+www.good.test", "+*.wild.test"))
    moment = net.internet.mark()
    assert b.py("web('www.good.test')")["address"] == GOOD and b.py("web_tls('www.good.test')")["sni"] == "www.good.test"
    assert b.py("web('a.b.wild.test')")["host"] == "a.b.wild.test"
    assert b.py("tried(resolve, 'bad.test')") == b.py("tried(resolve, 'wild.test')") == "NXDOMAIN"
    assert b.py("tried(resolve, 'good.test')") == "NXDOMAIN"  # the apex is not below itself
    assert b.py(f"tried(http, {BAD!r}, 'www.good.test')") in ("timeout", "ECONNRESET", "closed", "ECONNREFUSED")
    assert not net.internet.packets(moment, target=BAD)
    assert not net.internet.dns.asked("bad.test")  # G5: a name outside of the policy never leaves


def test_what_is_allowed_by_address_is_reached_at_every_port(net, box):
    b = box(rules(f"+{OTHER}", "+198.51.100.28/30", f"-{SHARED}"))
    assert b.py(f"http({OTHER!r}, 'x')")["address"] == OTHER and b.py(f"tcp({OTHER!r}, 9000)") == "hello\n"
    assert b.py(f"udp({OTHER!r}, 9000, b'abc')") == "abc"
    assert b.py(f"tried(http, {SHARED!r}, 'x')") == "timeout"  # a deny goes before every allow
    assert b.py(f"tried(http, {GOOD!r}, 'x')") != "closed" and not isinstance(b.py(f"tried(http, {GOOD!r}, 'x')"), dict)


def test_networks_within_networks(net, guarded):  # E22
    inner = [f"+198.51.100.{i}" for i in range(16, 32)]
    guarded.change("PUT", rules("+198.51.100.0/24", *inner, "+198.51.100.16/28", "+100.64.0.0/10", "+100.64.9.9", f"-{SHARED}/32", "+198.51.100.0/25"))
    assert guarded.py(f"[http({OTHER!r}, 'x')['address'], http({GOOD!r}, 'x')['address']]") == [OTHER, GOOD]
    assert guarded.py(f"all_of((http, {SHARED!r}, 'x'), (tcp, '100.64.9.9', 22))") == ["timeout"] * 2
    guarded.change("DELETE", ["198.51.100.0/24", "198.51.100.0/25"])
    assert guarded.py(f"http({OTHER!r}, 'x')['address']") == OTHER and not isinstance(guarded.py(f"tried(http, {GOOD!r}, 'x')"), dict)


def test_with_allow_as_the_default_a_deny_holds(net, box):
    b = box(rules("-203.0.113.0/24", "-bad.test", default="allow"))
    moment = net.internet.mark()
    assert b.py(f"http({GOOD!r}, 'x')") and b.py("web('good.test')")
    assert b.py("tried(resolve, 'bad.test')") == "NXDOMAIN"
    assert b.py(f"all_of((http, {BAD!r}, 'x'), (tcp, {GOOD!r}, 853), (udp, {GOOD!r}, 853))") == ["timeout"] * 3
    assert not [p for p in net.internet.packets(moment) if p.target == BAD or p.port == 853]


def test_ports_of_names(net, box):
    b = box(rules("+good.test", "+other.test:9000"))
    assert b.py("tcp(resolve('good.test')[0], 22)") == "hello\n"
    assert b.py("tcp(resolve('other.test')[0], 9000)") == "hello\n"
    assert b.py("tried(tcp, resolve('other.test')[0], 22)") == "timeout"
    assert b.py("tried(tcp, resolve('good.test')[0], 9000)") == "timeout"
    assert b.py("tried(udp, resolve('good.test')[0], 9000)") == "timeout"


def test_the_first_rule_about_a_name_decides(guarded):
    guarded.change("PUT", rules("+*.good.test", "-api.good.test"))
    assert guarded.py("resolve('api.good.test')") == [GOOD]
    guarded.change("PUT", rules("-api.good.test", "+*.good.test"))
    assert guarded.py("[tried(resolve, 'api.good.test'), tried(resolve, 'www.good.test'), tried(resolve, 'good.test')]") == \
        ["NXDOMAIN", [GOOD], "NXDOMAIN"]


def test_it_holds_from_the_first_program_on(net, box):  # E4
    moment = net.internet.mark()
    b = box({}, entrypoint=["python3", "-c", f"""
import socket, time
for _ in range(200):
    for kind, port in ((socket.SOCK_STREAM, 80), (socket.SOCK_DGRAM, 9000)):
        s = socket.socket(socket.AF_INET, kind); s.setblocking(False)
        try: s.connect(({BAD!r}, port)); s.send(b'x')
        except OSError: pass
    time.sleep(0.01)
time.sleep(1000)"""])
    b.run("sleep 1")
    assert not net.internet.packets(moment, target=BAD)


# ---- the API of policies ----


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_an_empty_body_resets_it(guarded, body):
    guarded.change("PUT", rules("+good.test"))
    assert guarded.change("POST", body) == {"status": "ok", "mode": "deny_all", "reason": "policy reset to default deny-all"}
    assert guarded.policy()["policy"] == {"egress": [], "defaultAction": "deny"}


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"egress":null}', b'{"defaultAction":""}', b'{"more":1}'])
def test_no_rules_deny_everything(guarded, body):
    status = guarded.change("PUT", body)
    assert status == {"status": "ok", "mode": "deny_all", "enforcementMode": "dns+nft"}


def test_what_is_shown_is_what_came(guarded):
    policy = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "Example.COM"}, {"action": "deny", "target": "203.0.113.0/24"}]}
    assert guarded.change("POST", policy)["mode"] == "enforcing"
    response = guarded.call("GET", "/policy")
    assert json.loads(response.text) == {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft", "policy": policy}
    assert response.headers["Content-Type"] == "application/json" and response.text.endswith("\n")


@pytest.mark.parametrize("body, says", [
    (b"{", "invalid policy: "), (b"[]", "invalid policy: "), (b'{"defaultAction":"block"}', "invalid policy: "),
    (b'{"egress":[{"action":"permit","target":"a.test"}]}', "invalid policy: "),
    (b'{"egress":[{"action":"allow","target":" "}]}', "invalid policy: "),
    (b'{"egress":[{"action":"allow","target":"https://a.test"}]}', "invalid policy: "),
])  # fmt: skip
def test_a_bad_policy_is_refused_in_words(guarded, body, says):  # E7, E23
    guarded.change("PUT", rules("+good.test"))
    response = guarded.call("PUT", "/policy", body)
    assert response.status == 400 and response.text.startswith(says) and response.text.endswith("\n")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8" and response.headers["X-Content-Type-Options"] == "nosniff"
    assert guarded.policy()["policy"] == rules("+good.test")


def test_a_patch_goes_before_the_rest(guarded):
    guarded.change("PUT", rules("-Example.COM", "+good.test", default="allow"))
    status = guarded.change("PATCH", [{"action": "allow", "target": "example.com"}, {"action": "deny", "target": "new.test"},
                                      {"action": "deny", "target": "EXAMPLE.com"}])  # fmt: skip
    assert status == {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"}
    assert guarded.policy()["policy"] == rules("+example.com", "-new.test", "+good.test", default="allow")


@pytest.mark.parametrize("method, body, says", [
    ("PATCH", b"", "empty body"), ("PATCH", b"[]", "invalid patch rules: empty array"), ("PATCH", b"null", "invalid patch rules: empty array"),
    ("PATCH", b"{}", "invalid patch rules: "), ("PATCH", b"x", "invalid patch rules: "),
    ("PATCH", b'[{"action":"permit","target":"a.test"}]', "invalid merged policy: "),
    ("PATCH", b'[{"action":"allow","target":""}]', "invalid merged policy: "),
    ("DELETE", b"", "empty body"), ("DELETE", b"[]", "invalid delete targets: empty array"), ("DELETE", b"x", "invalid delete targets: "),
    ("DELETE", b"[1]", "invalid delete targets: "),
])  # fmt: skip
def test_bad_changes_are_refused_in_words(guarded, method, body, says):
    response = guarded.call(method, "/policy", body)
    assert response.status == 400 and response.text.startswith(says), response.text


def test_rules_are_deleted_by_their_target(guarded):
    guarded.change("PUT", rules("+A.test", "-a.test", "+b.test"))
    assert guarded.change("DELETE", [" a.TEST "]) == {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft"}
    assert guarded.policy()["policy"] == rules("+b.test")
    again = guarded.change("DELETE", ["a.test"])
    assert again["reason"] == "no matching targets found"
    assert guarded.change("DELETE", ["b.test"])["mode"] == "deny_all"


def test_there_is_a_ceiling(guarded):
    many = [{"action": "allow", "target": f"h{i}.test"} for i in range(4096)]
    assert guarded.change("PUT", {"egress": many})["mode"] == "enforcing"
    for method, body in (("PUT", {"egress": [*many, many[0]]}), ("PATCH", [{"action": "allow", "target": "more.test"}])):
        response = guarded.call(method, "/policy", body)
        assert response.status == 413 and response.text == "egress rule total count 4097 exceeds limit 4096\n", response.text
    assert len(guarded.policy()["policy"]["egress"]) == 4096


def test_other_methods_and_paths(guarded):
    response = guarded.call("PROPFIND", "/policy")
    assert response.status == 405 and response.text == "method not allowed\n"
    assert response.headers["Allow"] == "GET, POST, PUT, PATCH, DELETE"
    response = guarded.call("GET", "/nothing")
    assert response.status == 404 and response.text == "404 page not found\n"
    assert guarded.call("GET", "/healthz").text == "ok"


def test_only_its_own_token_opens_it(net, guarded, open_box):  # E29
    token = net.api.endpoint(open_box.id, 18080)["headers"][AUTH_HEADER]
    for wrong in ("", "x", token):
        assert guarded.call("GET", "/policy", token=wrong).status == 401
        assert guarded.call("PUT", "/policy", {"defaultAction": "allow"}, token=wrong).status == 401
    for path in (f"/../{open_box.id}/policy", f"/%2e%2e/{open_box.id}/policy", "/policy/../policy"):
        assert guarded.call("GET", path).status in (400, 404)
    assert guarded.policy()["mode"] == "deny_all"


def test_rules_about_private_networks_are_taken_and_named_as_without_effect(net, guarded):  # E8, E23
    guarded.change("PUT", rules(f"+{PRIVATE[0]}", "+10.0.0.0/8", f"+{GOOD}"))
    status = guarded.policy()
    assert PRIVATE[0] in status["reason"] or "10.0.0.0/8" in status["reason"], status
    moment = net.internet.mark()
    assert guarded.py(f"tried(tcp, {PRIVATE[0]!r}, 22)") == "timeout"
    assert not net.internet.packets(moment, target=PRIVATE[0])
    assert guarded.py(f"http({GOOD!r}, 'x')")


# ---- changes ----


def test_a_change_holds_at_once(guarded):
    guarded.change("PUT", rules("+good.test"))
    assert guarded.py("web('good.test')")
    guarded.change("PUT", rules("+other.test"))
    assert guarded.py(f"[tried(resolve, 'good.test'), web('other.test')['host']]") == ["NXDOMAIN", "other.test"]
    assert not isinstance(guarded.py(f"tried(http, {GOOD!r}, 'good.test')"), dict)  # what was learned is forgotten
    guarded.change("PATCH", [{"action": "allow", "target": "good.test"}])
    assert guarded.py("web('other.test')") and guarded.py("web('good.test')")


def test_a_change_keeps_what_is_still_allowed(guarded):  # E14
    guarded.change("PUT", rules("+good.test", "+other.test:9000"))
    assert guarded.py("[resolve('good.test'), resolve('other.test')]") == [[GOOD], [OTHER]]
    guarded.change("PATCH", [{"action": "deny", "target": "new.test"}])
    assert guarded.py(f"tcp({OTHER!r}, 9000)") == "hello\n" and guarded.py(f"http({GOOD!r}, 'good.test')")  # without asking again


# ---- made from others ----


def test_a_fork_may_reach_what_its_source_may(net, box):
    source = box(rules("+good.test"))
    source.change("PUT", rules("+other.test"))
    fork, = (net.adopt(i) for i in net.api.fork(source.id))
    assert fork.policy()["policy"] == rules("+other.test")
    assert fork.py("[tried(resolve, 'good.test'), web('other.test')['host']]") == ["NXDOMAIN", "other.test"]
    own, = (net.adopt(i) for i in net.api.fork(source.id, networkPolicy=rules("+bad.test")))
    assert own.policy()["policy"] == rules("+bad.test") and source.policy()["policy"] == rules("+other.test")


def test_a_rollback_keeps_the_policy(net, box):
    b = box(rules("+good.test"))
    snapshot = net.api.snapshot(b.id)
    b.change("PUT", rules("+other.test"))
    net.api.rollback(b.id, snapshot)
    assert b.policy()["policy"] == rules("+other.test") and b.py("web('other.test')")
    restored = net.adopt(net.api.restore(snapshot, networkPolicy=rules("+bad.test")))
    assert restored.policy()["policy"] == rules("+bad.test")
    b.delete()
    restored.delete()
    assert net.api.delete_snapshot(snapshot).status == 204


def test_files_for_names_are_never_those_of_a_snapshots_source(net, box):
    source = box()
    own = source.run("tail -n1 /etc/hosts")
    source.run("echo 192.0.2.7 added >>/etc/hosts")
    snapshot = net.api.snapshot(source.id)
    forked, = net.api.fork(source.id, count=1)
    for made in (net.adopt(forked), net.adopt(net.api.restore(snapshot)), net.adopt(net.api.restore(snapshot, networkPolicy=rules("+good.test")))):
        name, = made.run("uname -n")
        assert name == made.id and made.run("grep -vw localhost /etc/hosts | cut -f2") == [name]
        assert made.run("tail -n1 /etc/hosts") != own
    alone = net.adopt(net.api.restore(snapshot, extensions={"network.mode": "none"}))
    assert alone.run("grep -vw localhost /etc/hosts; cat /etc/resolv.conf; uname -n") == [alone.id]
    assert alone.run("getent hosts localhost | head -n1 | tr -s ' ' | cut -d' ' -f2") == ["localhost"]
    again = net.adopt(net.api.restore(net.api.snapshot(alone.id), extensions={"network.mode": "default"}))
    assert again.run("grep -vw localhost /etc/hosts | cut -f2; grep -c nameserver /etc/resolv.conf") == [again.id, "1"]


def test_who_is_made_from_a_snapshot_may_reach_what_its_source_could(net, box):
    source = box(rules("+good.test"))
    source.change("PATCH", [{"action": "allow", "target": "other.test"}])
    held = source.policy()["policy"]
    snapshot = net.api.snapshot(source.id)
    source.change("PUT", {})
    source.delete()
    restored = net.adopt(net.api.restore(snapshot))
    assert restored.policy()["policy"] == held == rules("+other.test", "+good.test")
    assert restored.py("[web('good.test')['host'], web('other.test')['host'], tried(resolve, 'bad.test')]") == ["good.test", "other.test", "NXDOMAIN"]
    again = net.adopt(net.api.restore(net.api.snapshot(restored.id)))
    assert again.policy()["policy"] == held
    opened = net.adopt(net.api.restore(snapshot, extensions={"network.mode": "default"}))  # who asks for it
    assert opened.policy()["mode"] == "allow_all"
    for b in restored, again, opened:
        b.delete()


def test_a_pool_has_the_network_of_its_template(net):  # E6
    template = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}, "networkPolicy": rules("+good.test")}
    sizes = {"bufferMin": 1, "bufferMax": 1, "poolMin": 0, "poolMax": 3}
    assert net.api.post("/pools", {"name": "guarded", "template": template, "capacitySpec": sizes}).status == 201
    taken = net.adopt(net.api.create(image=..., entrypoint=..., resourceLimits=..., extensions={"poolRef": "guarded"})["id"])
    assert taken.policy()["policy"] == rules("+good.test") and taken.py("tried(resolve, 'bad.test')") == "NXDOMAIN"
    for more in ({"networkPolicy": rules("+bad.test")}, {"extensions": {"poolRef": "guarded", "network.mode": "default"}}):
        body = {"extensions": {"poolRef": "guarded"}, **more}
        net.api.refused(net.api.try_create(image=..., entrypoint=..., resourceLimits=..., **body), 400, "SANDBOX::INVALID_PARAMETER", "guarded")
    taken.delete()
    assert net.api.call("DELETE", "/pools/guarded").status == 204


def test_pausing_changes_nothing(net, box):
    b = box(rules("+good.test"))
    net.api.pause(b.id)
    net.api.wait_state(b.id, "Paused")
    b.change("PATCH", [{"action": "allow", "target": "other.test"}])
    net.api.resume(b.id)
    net.api.wait_state(b.id, "Running")
    assert b.py("[web('good.test')['host'], web('other.test')['host'], tried(resolve, 'bad.test')]") == ["good.test", "other.test", "NXDOMAIN"]


# ---- what is told ----


def test_what_it_tried_to_reach(net, box):
    b = box(rules("+good.test"))
    b.py("[web('good.test'), web_tls('good.test'), tried(resolve, 'bad.test'), tried(resolve, 'bad.test')]")
    b.py(f"tried(tls, {GOOD!r}, 'www.bad.test')")
    seen = until_true(lambda: (a := b.activity())["recent"] and a, what="activity")
    rows = {(r["kind"], r["decision"], r.get("target")): r for r in seen["recent"]}
    assert rows["dns", "deny", "bad.test"]["count"] >= 2 and ("dns", "allow", "good.test") in rows
    assert rows["tcp", "allow", "good.test"]["address"] == GOOD and rows["tcp", "allow", "good.test"]["port"] in (80, 443)
    assert rows["tcp", "deny", "www.bad.test"]["reason"]
    assert seen["network"] == "policy" and seen["counters"]["dnsDenied"] >= 2
    events = net.api.get(f"/sandboxes/{b.id}/diagnostics/events?scope=network").json["content"]
    assert "deny dns bad.test" in events and "allow tcp good.test" in events
    assert "network: policy" in net.api.get(f"/sandboxes/{b.id}/diagnostics/inspect").body.decode()


def test_packets_that_were_refused_are_counted_for_who_sent_them(net, box):
    first, second = box(rules("+good.test")), box(rules(f"+{OTHER}"))
    refused = lambda b: b.activity()["traffic"]["refusedPackets"]  # noqa: E731
    assert refused(first) == refused(second) == 0
    assert second.py(f"http({OTHER!r}, 'x')") and first.py("web('good.test')")
    assert refused(first) == refused(second) == 0
    first.py(f"[tried(udp, {BAD!r}, 9000, b'x', 0.1) for _ in range(20)] + all_of((udp, {PRIVATE[0]!r}, 9000), (udp, {GOOD!r}, 853))")
    assert refused(first) == 22 and refused(second) == 0
    assert "of which 22 were refused" in net.api.get(f"/sandboxes/{first.id}/diagnostics/inspect").body.decode()
    address = first.activity()["address"]
    first.delete()
    until_true(lambda: address not in net.internet.host.run("nft", "list", "ruleset").split("set drops", 1)[1].split("}", 2)[0], 60, "its counter")


def test_denials_are_in_the_audit_log(net, box):  # E27
    b = box(rules("+good.test"))
    b.py(f"[tried(resolve, 'secret.bad.test'), tried(tls, {GOOD!r}, 'www.bad.test')]")
    path = net.server.home.state / "server/audit.jsonl"
    rows = lambda: [r for r in map(json.loads, path.read_text().splitlines())  # noqa: E731
                    if r.get("event") == "network.denied" and r["sandbox"] == b.id]  # fmt: skip
    until_true(lambda: len(rows()) >= 2, 60, "lines of the audit log")
    assert {(r["kind"], r["target"]) for r in rows()} == {("dns", "secret.bad.test"), ("tcp", "www.bad.test")}
    assert all(r["ts"].endswith("Z") for r in rows())
    time.sleep(2.5)
    assert len(rows()) == 2  # once
    b.change("PUT", {})
    until_true(lambda: [r for r in map(json.loads, path.read_text().splitlines())
                        if r.get("path", "").endswith(f"/{b.id}/proxy/18080/policy") and (r["method"], r["status"]) == ("PUT", 200)],
               what="the change in the audit log")


# ---- resolvers ----


def test_a_resolver_that_is_dead_delays_nobody_for_long(spec):
    dead = "203.0.113.250"
    with network(spec, env={"OPENSANDBOX_EGRESS_UPSTREAMS": json.dumps([dead, RESOLVER])}) as n:
        b = n.box(rules("+*.wild.test"))
        assert b.py("tried(lambda: ask('first.wild.test', timeout=20))")[1] == [GOOD]
        until_true(lambda: b.py("(lambda t: (ask(f'n{t}.wild.test', timeout=20), time.monotonic() - t)[1])(time.monotonic())") < 0.5, 30,
                   "an answer of the resolver that lives")
        b.delete()


# ---- operators' lists ----


def test_the_lists_of_the_operator_go_before_everything(net, box):  # E22
    b = box(rules("+good.test", "+other.test", f"+{SHARED}"))
    (net.rules_dir / "deny.always").write_text(f"# not for anybody\n\ngood.test\n{SHARED}\n")
    (net.rules_dir / "allow.always").write_text("bad.test\n")
    try:
        until_true(lambda: b.py("tried(resolve, 'good.test')") == "NXDOMAIN", 65, "the operator's list")
        assert b.py("web('bad.test')")["host"] == "bad.test" and b.py("web('other.test')")
        assert b.py(f"tried(http, {SHARED!r}, 'x')") == "timeout"
        assert b.policy()["policy"] == rules("+good.test", "+other.test", f"+{SHARED}")
    finally:
        (net.rules_dir / "deny.always").unlink()
        (net.rules_dir / "allow.always").unlink()
    until_true(lambda: b.py("tried(resolve, 'good.test')") == [GOOD], 65, "the end of the list")
    assert b.py("tried(resolve, 'bad.test')") == "NXDOMAIN"
