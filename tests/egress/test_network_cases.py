# SPDX-License-Identifier: Apache-2.0
"""What clients and operators meet when a policy is bent, edited, refused or told about (contract: network.md 1.5, 1.6, 1.10, 5.1, 8)."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from api import Api
from conftest import BIN, KEY, Server
from internet import BAD, FOREIGN, GOOD, HOST, OTHER, SHARED, WEB6, Internet
from network import MISSING, Net, box, net, network, rules, until_true  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def nothing(found):
    """No answer of a server is among them."""
    assert not [f for f in found if isinstance(f, (dict, list)) or f == "hello\n"], found


# ---- DNS over HTTPS (E1, E18) ----

DOH = """
def doh(address, name, wanted):
    "what a resolver behind TLS says: its addresses"
    context = ssl.create_default_context(cadata=CA)
    context.check_hostname = False
    data = query(wanted)
    with connect(address, 443) as s, context.wrap_socket(s, server_hostname=name) as t:
        t.sendall(f"POST /dns-query HTTP/1.1\\r\\nHost: {name or address}\\r\\nConnection: close\\r\\n"
                  f"Content-Type: application/dns-message\\r\\nContent-Length: {len(data)}\\r\\n\\r\\n".encode() + data)
        got = b""
        while piece := t.recv(65536):
            got += piece
    return Message(got.partition(b"\\r\\n\\r\\n")[2]).addresses() if got.startswith(b"HTTP/1.1 200") else "refused"
"""


def test_a_resolver_behind_tls_that_is_not_allowed_is_not_reached(net, box):
    b = box(rules("+good.test", "+*.wild.test"))
    moment, asked = net.internet.mark(), len(net.internet.foreign_dns.queries)
    found = b.py(DOH + f"""
RESULT = [tried(resolve, 'doh.test'), resolve('good.test')] + all_of(
    (doh, {FOREIGN!r}, 'doh.test', 'bad.test'), (doh, {FOREIGN!r}, None, 'bad.test'), (doh, {FOREIGN!r}, 'good.test', 'bad.test'),
    (doh, {GOOD!r}, 'doh.test', 'bad.test'), (udp, {FOREIGN!r}, 443), (udp, {GOOD!r}, 443))
""")
    assert found[:2] == ["NXDOMAIN", [GOOD]]
    nothing(found[2:])
    assert len(net.internet.foreign_dns.queries) == asked
    assert not net.internet.packets(moment, target=FOREIGN)
    assert not net.internet.packets(moment, target=GOOD)


@pytest.mark.parametrize("policy, name", [(rules("+doh.test"), "doh.test"), (rules(f"+{FOREIGN}"), None)])
def test_what_an_allowed_resolver_behind_tls_says_opens_nothing(net, box, policy, name):
    b = box(policy)
    moment = net.internet.mark()
    told = b.py(DOH + f"""
address = resolve('doh.test')[0] if {name!r} else {FOREIGN!r}
RESULT = [doh(address, {name!r}, 'bad.test'), tried(resolve, 'bad.test')] + all_of(
    (http, {BAD!r}, 'bad.test'), (tls, {BAD!r}, 'bad.test'), (tls, {BAD!r}, 'doh.test'), (tls, {FOREIGN!r}, 'bad.test')
    if {name!r} else (tls, {BAD!r}, None), (tcp, {BAD!r}, 22), (udp, {BAD!r}, 9000))
""")
    assert told[:2] == [[BAD], "NXDOMAIN"]
    nothing(told[2:])
    assert not net.internet.packets(moment, target=BAD)


@pytest.fixture
def quad9(net):
    """Somebody is at the address of a resolver that everybody knows, and at the one that an operator knows."""
    for address in ("9.9.9.9", "198.51.100.99"):
        net.internet.world.ip("addr", "add", f"{address}/32", "dev", "lo")
    net.internet.zone.set("dns.quad9.net", "A", "9.9.9.9")
    net.internet.zone.set("doh.operator.test", "A", "198.51.100.99")
    yield "9.9.9.9"
    for address in ("9.9.9.9", "198.51.100.99"):
        net.internet.world.ip("addr", "del", f"{address}/32", "dev", "lo")


def test_E18_known_resolvers_are_denied_where_something_is_and_the_rest_is_allowed(net, box, quad9):
    tries = f"all_of((resolve, 'dns.quad9.net'), (tls, {quad9!r}, 'dns.quad9.net'), (udp, {quad9!r}, 443), (http, {quad9!r}, 'x'))"
    loose = box(rules("-bad.test", default="allow"))
    found = loose.py(tries)
    assert found[0] == "NXDOMAIN" and found[1] == found[2] == "timeout" and found[3]["address"] == quad9, found  # port 443 alone
    assert loose.py("web_tls('good.test')")["sni"] == "good.test"
    loose.change("PUT", rules(default="allow"))  # nothing is denied: there is nothing to hide
    found = loose.py(tries)
    assert found[0] == [quad9] and found[1]["sni"] == "dns.quad9.net", found
    loose.change("PUT", rules("-bad.test", "+dns.quad9.net", f"+{quad9}", default="allow"))
    found = loose.py(tries)
    assert found[0] == [quad9] and found[1]["sni"] == "dns.quad9.net", found


def test_E18_a_change_ends_connections_to_known_resolvers(net, box, quad9):
    b = box(rules(default="allow"))
    b.run(f"(timeout 20 python3 -c \"import socket, time\ns = socket.create_connection(({quad9!r}, 443))\ns.send(bytes([22, 3, 1, 1, 0]))\n"
          "for _ in range(100):\n  s.send(bytes(1))\n  time.sleep(0.1)\" >/dev/null 2>&1 &)")
    until_true(lambda: len(net.internet.packets(target=quad9)) > 8, 60, "a connection")
    b.change("PUT", rules("-bad.test", default="allow"))
    moment = net.internet.mark()
    time.sleep(1)
    assert not net.internet.packets(moment, target=quad9)


def test_E18_operators_add_to_the_resolvers_that_are_known(net, box, quad9):
    b = box(rules("-bad.test", default="allow"))
    assert b.py("resolve('doh.operator.test')") == ["198.51.100.99"]
    path = net.rules_dir / "doh.always"
    path.write_text("# ours\n*.operator.test\n")
    try:
        until_true(lambda: b.py("tried(resolve, 'doh.operator.test')") == "NXDOMAIN", 30, "the list")
        assert b.py("resolve('good.test')") == [GOOD]
    finally:
        path.unlink()


def test_a_resolver_behind_tls_can_be_denied_where_the_rest_is_allowed(net, box):
    b = box(rules("-doh.test", f"-{FOREIGN}", default="allow"))
    moment = net.internet.mark()
    found = b.py(DOH + f"RESULT = [tried(resolve, 'doh.test')] + all_of((doh, {FOREIGN!r}, 'doh.test', 'bad.test'), (udp, {FOREIGN!r}, 443))")
    assert found == ["NXDOMAIN", "timeout", "timeout"] and not net.internet.packets(moment, target=FOREIGN)
    assert b.py("web_tls('good.test')")["sni"] == "good.test"


# ---- encrypted hellos (W8, E9) ----

HELLO = """
def hello(outer, kind):
    "one of a client that has a second one in it, encrypted; OUTER is the name that can be seen"
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    o = context.wrap_bio(into, out, server_hostname=outer)
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    body = out.read()[9:]
    at = 34 + 1 + body[34]
    at += 2 + struct.unpack_from("!H", body, at)[0]
    at += 1 + body[at]
    sealed = b"\\x00\\x00\\x01\\x00\\x01\\x07\\x00\\x20" + b"k" * 32 + struct.pack("!H", 144) + b"s" * 144
    extensions = struct.pack("!HH", kind, len(sealed)) + sealed + body[at + 2:]
    body = body[:at] + struct.pack("!H", len(extensions)) + extensions
    return b"\\x16\\x03\\x01" + struct.pack("!H", len(body) + 4) + b"\\x01" + len(body).to_bytes(3, "big") + body
def greet(address, outer, kind=0xfe0d):
    "the kind of record that comes back"
    with connect(address, 443) as s:
        s.sendall(hello(outer, kind))
        got = s.recv(1)
        return got[0] if got else "closed"
"""


def test_an_encrypted_hello_is_judged_by_the_name_that_is_seen(net, box):
    b = box(rules("+one.shared.test", "+good.test"))
    b.py("[resolve('one.shared.test'), resolve('good.test')]")
    before, moment = len(net.internet.connections), net.internet.mark()
    found = b.py(HELLO + f"""
RESULT = all_of(*[(greet, a, n, k) for a in ({SHARED!r}, {BAD!r}) for n in ('cover.test', 'two.shared.test', 'good.test', None)
                  for k in (0xfe0d, 0xffce)])
""")
    nothing(found)
    assert all(isinstance(f, str) for f in found), found
    assert len(net.internet.connections) == before and not net.internet.packets(moment, target=BAD)
    assert b.py(HELLO + f"RESULT = greet({SHARED!r}, 'one.shared.test')") == 22  # many clients send one that says nothing


# ---- rules that others have, or would like to have (E21, E26) ----

NETFILTER = """
def netfilter(kind, flags, attributes=b''):
    "a message to nf_tables, in a batch when it changes something: the error that comes back"
    def message(number, flags, body, family):
        body = struct.pack('!BBH', family, 0, 0 if number > 255 else 10) + body
        return struct.pack('=IHHII', 16 + len(body), number, flags, 1, 0) + body
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.settimeout(T)
    one = message(10 << 8 | kind, flags, attributes, 1)
    s.send(one if flags & 0x300 else message(16, 1, b'', 0) + one + message(17, 1, b'', 0))
    number, code = struct.unpack_from('=HxxIIi', s.recv(65536), 4)[::3]
    return errno.errorcode[-code] if number == 2 and code else 'answered'
"""


def test_E21_no_profile_and_no_right_of_a_sandbox_reaches_the_rules(net, box):
    answer = net.api.post("/sandboxes", {"image": {"uri": "host"}, "entrypoint": ["sleep", "9"], "resourceLimits": {"cpu": "1", "memory": "64Mi"},
                                         "platform": {"os": "windows", "arch": "amd64"}, "networkPolicy": rules("+good.test")})
    assert answer.status == 400 and "platform" in answer.json["message"], answer
    b = box(rules("+good.test"))
    before = net.internet.host.run("nft", "-t", "-s", "list", "ruleset")  # without what sets and counters hold: that comes and goes
    found = b.py(NETFILTER + "RESULT = all_of((netfilter, 1, 0x301), (netfilter, 2, 5), (netfilter, 0, 0x405, struct.pack('=HH4s', 8, 1, b'evil')))")
    assert b.run("id -u") == ["0"] and all(f in ("EPERM", "EPROTONOSUPPORT") for f in found), found
    moment = net.internet.mark()
    nothing(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22))"))
    assert net.internet.host.run("nft", "-t", "-s", "list", "ruleset") == before
    assert not net.internet.packets(moment, target=BAD)


@pytest.mark.parametrize("rule", [f"udp dport 53 dnat to {FOREIGN}:53", f"tcp dport {{ 80, 443 }} dnat to {BAD}", f"tcp dport 80 dnat to {HOST}:3128",
                                  "meta l4proto tcp redirect to :3128"])
def test_E26_redirects_of_others_open_nothing(net, box, rule):
    """Whoever translates before us sends it elsewhere: it is judged by where it goes then."""
    b, host = box(rules("+good.test")), net.internet.host
    assert b.py("web('good.test')")
    listener = host.listen("0.0.0.0", 3128)
    host.run("nft", f"add table ip mesh; add chain ip mesh in {{ type nat hook prerouting priority -150; }}; add rule ip mesh in {rule}")
    try:
        moment = net.internet.mark()
        b.py(f"all_of((web, 'good.test'), (resolve, 'bad.test'), (http, {GOOD!r}, 'good.test'), (http, {OTHER!r}, 'other.test'), (tls, {BAD!r}, 'bad.test'))")
        assert not [p for p in net.internet.packets(moment) if p.target in (BAD, FOREIGN, OTHER)]
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()
    finally:
        host.run("nft", "delete table ip mesh")
        listener.close()
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")


# ---- the mode (E30) ----


def test_E30_a_mode_that_is_none_stops_the_start(tmp_path):
    (tmp_path / "c.toml").write_text('[egress]\nmode = "nft"\n')
    done = subprocess.run([str(BIN / "opensandbox-server"), "--config", str(tmp_path / "c.toml")], capture_output=True, text=True, timeout=30,
                          env={"PATH": os.environ["PATH"]}, check=False)
    assert done.returncode in (1, 2) and "egress.mode" in done.stderr, done.stderr


def test_E30_whatever_the_mode_is_called_packets_are_judged(spec):
    with network(spec, env={"OPENSANDBOX_EGRESS_MODE": "dns"}) as n:
        b = n.box(rules("+good.test"))
        assert b.policy()["enforcementMode"] == "dns+nft"
        nothing(b.py(f"all_of((tcp, {BAD!r}, 22), (http, {BAD!r}, 'bad.test'))"))


# ---- IPv6 (W5, E17) ----


@pytest.mark.parametrize("policy", [..., rules("+six.test"), rules("+six.test", f"+{WEB6}", "+2001:db8::/32"), rules(f"-{BAD}", default="allow")])
def test_names_have_no_addresses_of_ipv6_and_a_host_there_is_not_reached(net, box, policy):
    b = box(policy)
    moment, asked = net.internet.mark(), len(net.internet.dns.queries)
    assert b.py("[ask('six.test', 'AAAA'), ask('six.test', 'AAAA', over='tcp'), ask('six.test')[1]]") == [[0, [], False, 0]] * 2 + [[GOOD]]
    assert b.py("tried(resolve, 'six.test', socket.AF_INET6)") in ("NODATA", "NXDOMAIN") and b.py("web('six.test')")["address"] == GOOD
    nothing(b.py(f"all_of((tcp, {WEB6!r}, 80), (http, {WEB6!r}, 'six.test'), (tls, {WEB6!r}, 'six.test'))"))
    assert not [q for q in net.internet.dns.queries[asked:] if q[3] == 28]
    assert not [p for p in net.internet.packets(moment) if ":" in p.target]


# ---- the operator's lists (E14, E22) ----


def test_lists_are_edited_while_it_runs(net, box):
    deny, allow = net.rules_dir / "deny.always", net.rules_dir / "allow.always"
    b = box(rules("+good.test", "+other.test"))
    reads = lambda: os.kill(net.server.egress_pid, signal.SIGHUP)  # noqa: E731

    def becomes(file, text, code, expected):
        file.write_text(text)
        reads()
        until_true(lambda: b.py(code) == expected, 65, text)

    try:
        becomes(deny, "*.test\n", "tried(resolve, 'good.test')", "NXDOMAIN")
        becomes(allow, f"bad.test\n{SHARED}\n", f"tried(lambda: http({SHARED!r}, 'x')['address'])", SHARED)
        assert b.py("tried(resolve, 'bad.test')") == "NXDOMAIN"  # what is denied always is denied
        becomes(deny, "good.test\n", "tried(resolve, 'other.test')", [OTHER])
        assert b.py("[web('bad.test')['host'], tried(resolve, 'good.test')]") == ["bad.test", "NXDOMAIN"]
        deny.write_text("good.test\nhttp://nonsense\n")
        allow.write_text("")
        reads()
        until_true(lambda: b.py("tried(resolve, 'bad.test')") == "NXDOMAIN", 65, "an empty list")
        assert b.py("tried(resolve, 'good.test')") == "NXDOMAIN"  # of one that cannot be read, the one before stays
        nothing([b.py(f"tried(http, {SHARED!r}, 'x')")])
        fresh = net.box(rules("+good.test", "+other.test"))
        assert fresh.py("[tried(resolve, 'good.test'), resolve('other.test')]") == ["NXDOMAIN", [OTHER]]
        fresh.delete()
        assert b.policy()["policy"] == rules("+good.test", "+other.test")
    finally:
        deny.unlink(missing_ok=True)
        allow.unlink(missing_ok=True)
        reads()
    until_true(lambda: b.py("tried(resolve, 'good.test')") == [GOOD], 65, "the end of the lists")
    assert b.py("tried(resolve, 'bad.test')") == "NXDOMAIN"


# ---- ceilings ----


def test_more_rules_than_there_may_be_make_no_sandbox(net):
    many = rules(*[f"+h{i}.test" for i in range(4097)])
    before = len(net.api.get("/sandboxes?pageSize=200").json["items"])
    a = net.api.try_create(networkPolicy=many)
    assert a.status in (400, 413) and "4096" in a.json["message"], a
    assert len(net.api.get("/sandboxes?pageSize=200").json["items"]) == before


def test_W10_one_sandbox_has_4096_connections_and_others_do_not_suffer(net, box):
    """Sent slower than the rate of new ones allows, so that the number alone ends it."""
    b, other = box(), box()
    counter = net.internet.count(f"ip daddr {OTHER} udp dport 123")
    sent = b.py(f"""
began, sent = time.monotonic(), 0
while sent < 4500:
    for _ in range(20):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(('', 20000 + sent))
            tried(s.sendto, b'x', ({OTHER!r}, 123))
        sent += 1
    time.sleep(max(0, began + sent / 420 - time.monotonic()))
RESULT = [sent, tried(http, {GOOD!r}, 'x'), time.monotonic() - began]
""")
    assert 3900 <= counter.packets <= 4097, (counter.packets, sent)
    assert sent[1] == "timeout", sent
    assert other.py(f"http({GOOD!r}, 'x')['address']") == GOOD


# ---- what cannot be put in force (E15, E24) ----


def refused(response):
    assert response.status == 500 and response.text.startswith("failed to apply nftables policy: "), (response.status, response.text)


def test_a_change_that_the_warden_never_hears_of_changes_nothing(net, box):
    """It is stopped, so that the change waits, and then killed."""
    b = box(rules("+good.test", f"+{OTHER}"))
    assert b.py("web('good.test')")
    warden = net.server.warden_pid
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        os.kill(warden, signal.SIGSTOP)
        try:
            answer = pool.submit(b.call, "PUT", "/policy", rules("+bad.test", f"+{BAD}", default="allow"))
            time.sleep(0.5)
            assert not answer.done()
        finally:
            os.kill(warden, signal.SIGKILL)
        refused(answer.result())
    moment = net.internet.mark()
    assert b.policy()["policy"] == rules("+good.test", f"+{OTHER}")
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")
    nothing(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22), (udp, {BAD!r}, 9000))"))
    assert b.py(f"[tried(resolve, 'bad.test'), http({OTHER!r}, 'x')['address']]") == ["NXDOMAIN", OTHER]
    assert not net.internet.packets(moment, target=BAD)
    assert b.change("PUT", rules("+bad.test"))["mode"] == "enforcing" and b.py("web('bad.test')")


def test_a_change_that_the_warden_hears_of_too_late_is_not_made(net, box):
    b = box(rules("+good.test", f"+{OTHER}"), entrypoint=["python3", "-c", f"""
import socket, time
while True:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b'x', ({BAD!r}, 9000))
    time.sleep(0.01)"""])
    moment, warden = net.internet.mark(), net.server.warden_pid
    os.kill(warden, signal.SIGSTOP)
    try:
        began = time.monotonic()
        refused(b.call("PUT", "/policy", rules("+bad.test", f"+{BAD}", default="allow")))
        assert time.monotonic() - began < 30
        assert b.policy()["policy"] == rules("+good.test", f"+{OTHER}")
    finally:
        os.kill(warden, signal.SIGCONT)
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")
    nothing(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22), (udp, {BAD!r}, 9000))"))
    assert not net.internet.packets(moment, target=BAD) and b.policy()["policy"] == rules("+good.test", f"+{OTHER}")


def test_a_change_while_the_rules_are_gone_is_in_force_or_not_said_to_be(net, box):
    b = box(rules("+good.test", f"+{OTHER}"))
    for table in net.internet.host.tables():
        net.internet.host.run("nft", f"delete table {table}")
    moment = net.internet.mark()
    response = b.call("PUT", "/policy", rules("+good.test", f"+{SHARED}"))
    if response.status != 200:
        refused(response)
    reached, closed = (SHARED, OTHER) if response.status == 200 else (OTHER, SHARED)
    assert b.policy()["policy"] == rules("+good.test", f"+{reached}")
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 30, "rules of ours")
    assert b.py(f"http({reached!r}, 'x')['address']") == reached
    nothing(b.py(f"all_of((http, {closed!r}, 'x'), (tcp, {closed!r}, 22), (http, {BAD!r}, 'x'))"))
    assert not [p for p in net.internet.packets(moment) if p.target in (closed, BAD)]


# ---- restarts ----


def test_a_policy_is_what_it_was_after_an_orderly_restart(spec, home, tmp_path):
    n = Net(spec, tmp_path, home=home)
    try:
        b = n.box(rules("+good.test"))
        b.change("PATCH", [{"action": "allow", "target": OTHER}])
        expected = b.policy()
        n.server.stop()
        n.start()
        n.api.wait_state(b.id, "Running")
        assert b.policy() == expected
        until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")
        assert b.py(f"[http({OTHER!r}, 'x')['address'], tried(resolve, 'bad.test')]") == [OTHER, "NXDOMAIN"]
        b.change("DELETE", ["good.test"])
        assert b.py("tried(resolve, 'good.test')") == "NXDOMAIN"
    finally:
        n.close()


def denied_rows(net, sandbox_id):
    rows = map(json.loads, (net.server.home.state / "server/audit.jsonl").read_text().splitlines())
    return [r for r in rows if r.get("event") == "network.denied" and r["sandbox"] == sandbox_id]


def test_what_is_denied_while_the_server_is_away_is_in_the_audit_log(net, box):
    """E27: once each, whoever wrote it."""
    b = box(rules("+good.test"))
    code = "import socket, time\nfor i in range(60):\n try: socket.gethostbyname(f'n{i}.evil.test')\n except OSError: pass\n time.sleep(0.05)\n"
    b.run(f"(python3 -c \"{code}\" >/dev/null 2>&1; touch /tmp/done) >/dev/null 2>&1 &")
    time.sleep(1)
    os.kill(net.server.pid, signal.SIGKILL)
    until_true(lambda: net.api.run_or_none(b.id, "test -e /tmp/done && echo done") == ["done"], 60, "the end of the questions")
    until_true(lambda: len({r["target"] for r in denied_rows(net, b.id)}) == 60, 60, "all of them")
    time.sleep(2.5)
    targets = [r["target"] for r in denied_rows(net, b.id)]
    assert sorted(targets) == sorted(f"n{i}.evil.test" for i in range(60))


# ---- the webhook (1.10, E25) ----


class Receiver:
    """Answers as it is told, one after the other: a status, or None for one that hangs."""

    def __init__(self, netns, answers):
        self.listener, self.answers, self.seen, self.open = netns.listen(OTHER, 9100), list(answers), [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.open:
            s.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                s, peer = self.listener.accept()
                s.settimeout(10)
                data = b""
                while b"}" not in data and (piece := s.recv(65536)):
                    data += piece
                self.seen.append((time.monotonic(), peer[0], data))
                answer = self.answers.pop(0) if self.answers else 204
                self.open.append(s)
                if answer:
                    s.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % answer)

    def bodies(self):
        return [json.loads(data.partition(b"\r\n\r\n")[2]) for _, _, data in self.seen]


def test_the_webhook_is_told_of_denied_names_and_waited_for_by_nobody(spec):
    with network(spec, env={"OPENSANDBOX_EGRESS_DENY_WEBHOOK": "http://hook.test:9100/denied?of=all"}) as n:
        receiver = Receiver(n.internet.world, [None, 503, 204, 404, 204])
        try:
            b = n.box(rules("+good.test"))
            began = time.monotonic()
            assert b.py("tried(resolve, 'First.Evil.TEST')") == "NXDOMAIN"
            until_true(lambda: receiver.seen, 60, "the webhook")
            assert b.py("""
began = time.monotonic()
codes = [ask(f'n{i}.evil.test')[0] for i in range(20)]
RESULT = [codes, time.monotonic() - began < 4, web('good.test')['host']]
""") == [[3] * 20, True, "good.test"]  # while the receiver hangs
            until_true(lambda: len(receiver.seen) >= 23, 60, "all of them")
            time.sleep(0.5)
            names = [body["hostname"] for body in receiver.bodies()]
            assert names == ["first.evil.test"] * 3 + [f"n{i}.evil.test" for i in range(20)]  # a 404 is the last word
            at = [row[0] - receiver.seen[0][0] for row in receiver.seen]
            assert 5.5 < at[1] < 9 and 1.8 < at[2] - at[1] < 4, (began, at)
            head = receiver.seen[0][2].partition(b"\r\n\r\n")[0].decode().split("\r\n")
            assert head[0] == "POST /denied?of=all HTTP/1.1" and "Content-Type: application/json" in head
            for body in receiver.bodies():
                assert set(body) == {"hostname", "timestamp", "source", "sandboxId"}
                assert body["source"] == "opensandbox-egress" and body["sandboxId"] == b.id
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["timestamp"])
            assert {row[1] for row in receiver.seen} == {HOST}
            assert b.activity()["counters"]["dnsDenied"] == 21  # its own name is nobody's question
        finally:
            receiver.close()


def arguments_below(pid):
    """The command lines of a process and all of its descendants, those of sandboxes included."""
    found = []
    with contextlib.suppress(OSError):
        found = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")]
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += arguments_below(child)
    return found


def test_no_secret_is_in_the_arguments_of_any_process(spec):  # A9: everybody on the host can read them
    hook, value = "key-of-the-hook-5f1c", "value-of-the-sandbox-9d2e"
    with network(spec, env={"OPENSANDBOX_EGRESS_DENY_WEBHOOK": f"http://hook.test:9100/{hook}?token={hook}"}) as n:
        receiver = Receiver(n.internet.world, [204])
        try:
            b = n.box(rules("+good.test"), env={"SECRET": value})
            assert b.py("tried(resolve, 'evil.test')") == "NXDOMAIN"
            until_true(lambda: receiver.seen, 60, "the webhook")
            assert f"/{hook}?token={hook}".encode() in receiver.seen[0][2]  # it was understood
            lines = arguments_below(n.server.process.pid)
            assert any("opensandbox-egress" in line for line in lines) and any("opensandbox-warden" in line for line in lines)
            assert not [line for line in lines if hook in line or value in line or KEY in line or "hook.test" in line]
        finally:
            receiver.close()


# ---- a host that lacks something ----


@pytest.fixture
def bare(spec, tmp_path):
    """A server on a host without nft."""
    script = tmp_path / "without-nft"
    hide = "for p in /usr/sbin/nft /usr/bin/nft /usr/local/sbin/nft; do if test -e $p; then mount --bind /dev/null $p || exit 1; fi; done"
    script.write_text(f"#!/bin/sh\nexec unshare -m sh -c '{hide}; exec \"$0\" \"$@\"' {BIN}/opensandbox-server \"$@\"\n")
    script.chmod(0o755)
    internet = Internet()
    try:
        server = Server(tmp_path, env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_NATIVE_NETWORK": "default"},
                        netns=internet.host, program=script)
        try:
            server.wait_ready()
            yield Api(server, spec)
        finally:
            server.stop()
    finally:
        internet.close()


def test_a_host_without_nft_says_so(bare):
    health = bare.get("/health", headers={})
    assert health.status == 200 and health.json == {"status": "healthy", "warnings": ["the program 'nft' is not installed"]}
    for more in {}, {"networkPolicy": rules("+good.test")}:
        answer = bare.try_create(**more)
        assert answer.status == 503 and answer.headers["Retry-After"], answer
        assert answer.json["code"] == "NATIVE::NETWORK_UNAVAILABLE" and "'nft' is not installed" in answer.json["message"], answer
    made = bare.create(extensions={"network.mode": "none"})["id"]  # what needs no network is made
    assert bare.run(made, "echo hello") == ["hello"]
    assert bare.delete(made).status == 204
    assert "the program 'nft' is not installed: no sandbox with a network can be made" in bare.server.stderr
