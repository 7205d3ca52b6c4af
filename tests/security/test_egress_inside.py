# SPDX-License-Identifier: Apache-2.0
"""Every way around a network policy that is known (docs/threat-model.md: W1 to W11; G5), tried from inside. What counts is what
leaves: nothing forbidden may be seen on the outside interface, where each packet is written down."""
import base64
import os
import signal
import socket
import struct
import time

import pytest

from internet import BAD, FOREIGN, GOOD, HOST, OTHER, PRIVATE, RESOLVER, SHARED, WEB6
from nameserver import put_name
from network import MISSING, PRELUDE, Net, addresses_in, net, rules, until_true  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]
DENIED = ("timeout", "ECONNRESET", "ECONNREFUSED", "EPERM", "EACCES", "EHOSTUNREACH", "ENETUNREACH", "closed", "TLS UNEXPECTED_EOF_WHILE_READING",
          "EOPNOTSUPP", "EAFNOSUPPORT", "EADDRNOTAVAIL", "EPIPE", "EINVAL")  # fmt: skip


@pytest.fixture(scope="module")
def guarded(net):
    """May reach good.test and everything below wild.test, and one address."""
    return net.box(rules("+good.test", "+*.wild.test", f"+{OTHER}"))


@pytest.fixture(scope="module")
def loose(net):
    return net.box(rules("-bad.test", f"-{BAD}", default="allow"))


@pytest.fixture(scope="module")
def open_box(net):
    return net.box()


@pytest.fixture(scope="module", params=["guarded", "loose", "open_box"])
def each(request):
    return request.getfixturevalue(request.param)


class Watch:
    """What leaves meanwhile."""

    def __init__(self, net):
        self.net = net

    def __enter__(self):
        self.moment = self.net.internet.mark()
        return self

    def __exit__(self, kind, *_):
        self.packets = self.net.internet.packets(self.moment)

    def to(self, *targets):
        return [p for p in self.packets if p.target in targets]

    def only_to(self, *targets):
        """Those that went anywhere else."""
        return [p for p in self.packets if p.target not in targets]


@pytest.fixture
def watch(net):
    return lambda: Watch(net)


def denied(found):
    found = found if isinstance(found, list) else [found]
    assert all(f in DENIED for f in found), found


# ---- W1, W2: what is put on the wire ----


def test_W1_no_way_to_a_raw_frame(each, watch):  # E3
    with watch() as w:
        found = each.py(f"""
def packet(source):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind(('eth0', 0))
    payload = bytes.fromhex('4500001c00004000401100000a000001') + socket.inet_aton({BAD!r}) + struct.pack('!HHHH', 9, 9000, 8, 0)
    for kind in (0x0800, 0x86dd, 0x0806, 0x8100, 0x88cc):
        s.send(b'\\xff' * 6 + b'\\x02' * 6 + struct.pack('!H', kind) + payload)
    return 'sent'
def raw(proto, source):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, proto)
    if proto == 255:
        payload = bytes.fromhex('4500001c000040004011000000000000') [:12] + socket.inet_aton(source) + socket.inet_aton({BAD!r})
        s.sendto(payload + struct.pack('!HHHH', 9, 9000, 8, 0), ({BAD!r}, 0))
    else:
        s.sendto(b'x' * 64, ({BAD!r}, 0))
    return 'sent'
RESULT = all_of((packet, 1), (raw, 255, '192.0.2.77'), (raw, 255, '127.0.0.1'), (raw, 47, ''), (raw, 50, ''), (raw, 4, ''), (raw, 41, ''), (raw, 132, ''))
""")
    assert all(f in ("EPERM", "EACCES", "EAFNOSUPPORT", "sent") for f in found), found
    assert not w.packets, w.packets[:3]


def test_W1_no_address_of_its_own_choice(net, each, watch):
    with watch() as w:
        found = each.run("ip addr add 192.0.2.78/24 dev eth0 2>&1; ip link set eth0 address 02:00:00:00:00:99 2>&1; "
                         "ip route add 203.0.113.0/24 via 127.0.0.1 2>&1; ip link add x0 type dummy 2>&1; echo done")  # fmt: skip
        each.py(f"""
def bound(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, 15, 1)
    s.bind((address, 0))
    s.sendto(b'x', ({BAD!r}, 9000))
    return 'sent'
RESULT = all_of((bound, '192.0.2.78'), (bound, '203.0.113.1'), (bound, '127.0.0.1'), (bound, {HOST!r}))
""")
    assert found[-1] == "done" and sum("not permitted" in line or "denied" in line or "not found" in line for line in found) >= 1, found
    assert not w.packets, w.packets[:3]


def test_W1_marks_open_nothing(guarded, watch):  # E2
    with watch() as w:
        found = guarded.py(f"""
def marked(mark):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(T)
    s.setsockopt(socket.SOL_SOCKET, 36, struct.pack('=I', mark))
    s.connect(({BAD!r}, 80))
    return 'connected'
RESULT = all_of(*[(marked, 1 << i) for i in range(0, 32)], (marked, 0xffffffff), (marked, 0x07000000), (marked, 0x03000000))
""")
    denied(found)
    assert not w.packets, w.packets[:3]


def test_W2_rules_that_somebody_removes_open_nothing_and_come_back(net, watch):
    b = net.box(rules("+good.test"))
    assert b.py("web('good.test')")
    with watch() as w:
        for table in net.internet.host.tables():
            net.internet.host.run("nft", f"delete table {table}")
        found = b.py(f"all_of(*[(tcp, a, p) for a in ({BAD!r}, {PRIVATE[0]!r}, {HOST!r}) for p in (22, 80, 443)], (udp, {BAD!r}, 9000))")
    denied(found)
    assert not w.to(BAD, PRIVATE[0]), w.packets[:3]
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 30, "rules of ours")
    b.delete()


# ---- W3: the host, and each other ----


def test_W3_nothing_of_the_host_but_its_resolver(net, each):
    listener = net.internet.host.listen("0.0.0.0", 9999)
    gateway = addresses_in(" ".join(each.run("cat /etc/resolv.conf")))[0]
    ports = (9999, net.server.port, net.server.port + 1, 22, 8080, 10053, 10080)
    denied(each.py(f"all_of(*[(tcp, a, p) for a in ({HOST!r}, {gateway!r}) for p in {ports!r}])"))
    listener.settimeout(0.2)
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.close()
    assert each.py(f"ask('good.test', server={gateway!r})")[1] == [GOOD]


def test_W3_sandboxes_never_meet(net, guarded, loose, open_box):  # E20
    boxes = [guarded, loose, open_box]
    own = [b.py("(lambda s: (s.connect(('198.51.100.10', 9)), s.getsockname()[0])[1])(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))")
           for b in boxes]  # fmt: skip
    assert len(set(own)) == 3
    for b in boxes:
        b.run("(python3 -m http.server 7777 >/dev/null 2>&1 &) ; sleep 0.5")
        assert b.py(f"tried(connect, {own[boxes.index(b)]!r}, 7777).__class__.__name__") == "socket"  # it would answer
    for b in boxes:
        others = [a for a in own if a != own[boxes.index(b)]]
        denied(b.py(f"all_of(*[(tcp, a, 7777) for a in {others!r}], *[(udp, a, 7777) for a in {others!r}])"))


def test_W3_the_policy_is_not_reached_from_inside(net, guarded):
    gateway = addresses_in(" ".join(guarded.run("cat /etc/resolv.conf")))[0]
    denied(guarded.py(f"all_of(*[(http, a, 'x', 18080, '/policy') for a in ({gateway!r}, {HOST!r}, '127.0.0.1')])"))


# ---- W4: addresses that are never reached ----


def test_W4_private_addresses_whatever_the_policy_says(net, watch):
    targets = [*PRIVATE, "10.0.0.1", "192.0.0.9", "240.0.0.1", "0.0.0.9", "255.255.255.255", "239.1.2.3", HOST]
    b = net.box(rules(*[f"+{a}" for a in targets if a not in ("255.255.255.255",)], "+10.0.0.0/8", "+0.0.0.0/0", default="allow"))
    with watch() as w:
        found = b.py(f"all_of(*[(tcp, a, p) for a in {targets!r} for p in (22, 80, 443)], *[(udp, a, 9000) for a in {targets!r}])")
    denied(found)
    assert not w.to(*targets), w.packets[:3]
    assert "no effect" in b.policy()["reason"] or b.policy()["reason"]
    b.delete()


def test_W4_names_that_lead_to_private_addresses(net, watch):
    b = net.box(rules(*[f"+private{i}.test" for i in range(len(PRIVATE))], "+mixed.test", "+host.test"))
    with watch() as w:
        found = b.py(f"[tried(resolve, f'private{{i}}.test') for i in range({len(PRIVATE)})] + [tried(resolve, 'host.test')]")
        assert b.py("resolve('mixed.test')") == [GOOD]  # the rest of the answer is good
        denied(b.py(f"all_of(*[(tls, a, f'private{{i}}.test') for i, a in enumerate({PRIVATE!r})], (http, {PRIVATE[0]!r}, 'mixed.test'))"))
    assert not [f for f in found if isinstance(f, list)], found
    assert not w.to(*PRIVATE, HOST)
    b.delete()


def test_W4_rebinding_to_a_private_address(net, watch):  # E8
    answers = iter([[GOOD]] + [[PRIVATE[3]]] * 100)
    net.internet.zone.set("turns.test", "A", lambda: next(answers), ttl=0)
    b = net.box(rules("+turns.test"))
    with watch() as w:
        assert b.py("web('turns.test')")["address"] == GOOD
        found = b.py(f"[tried(resolve, 'turns.test') for _ in range(3)] + [tried(http, {PRIVATE[3]!r}, 'turns.test')]")
    assert PRIVATE[3] not in str(found[:3]) and found[3] in DENIED, found
    assert not w.to(*PRIVATE)
    b.delete()


# ---- W5: IPv6, ICMP ----


def test_W5_no_ipv6(each, watch):  # E17
    with watch() as w:
        found = each.py(f"all_of((tcp, {WEB6!r}, 80), (tcp, '::ffff:{BAD}', 80), (tcp, 'fe80::1%eth0', 80), (tcp, '2002:c633:640a::1', 80))")
        assert each.run("cat /proc/net/if_inet6 2>/dev/null | grep -v ' lo$' | wc -l") == ["0"]
    found = [f for i, f in enumerate(found) if i != 1]
    denied(found)
    assert not [p for p in w.packets if ":" in p.target], w.packets[:3]


def test_W5_an_address_in_the_clothes_of_ipv6(guarded, watch):
    with watch() as w:
        denied(guarded.py(f"all_of((tcp, '::ffff:{BAD}', 80), (tcp, '::ffff:{PRIVATE[0]}', 80), (tcp, '::{BAD}', 80))"))
    assert not w.packets


PING = """
def ping(address, n=1):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.settimeout(T)
    got = 0
    for i in range(n):
        s.sendto(struct.pack('!BBHHH', 8, 0, 0, 0, i) + b'x' * 8, (address, 0))
    try:
        while got < n:
            s.recv(100)
            got += 1
    except socket.timeout:
        pass
    return got
"""


def test_W5_icmp_only_where_everything_is_allowed_and_slowly(guarded, open_box, watch):  # E19
    with watch() as w:
        found = guarded.py(PING + f"RESULT = all_of((ping, {GOOD!r}), (ping, {OTHER!r}), (ping, {BAD!r}))")
    assert all(f in (0, *DENIED) for f in found), found
    assert not [p for p in w.packets if p.proto == 1]
    with watch() as w:
        found = open_box.py(PING + f"RESULT = tried(ping, {GOOD!r}, 300)")
    assert found == "EACCES" or 1 <= found <= 40, found
    assert len([p for p in w.packets if p.proto == 1]) <= 40


# ---- W6: names ----


def test_W6_every_resolver_is_ours(net, each):  # E10
    before = len(net.internet.foreign_dns.queries)
    for over in ("udp", "tcp"):
        assert each.py(f"ask('good.test', server={FOREIGN!r}, over={over!r})")[1] == [GOOD]
        assert each.py(f"ask('good.test', server='8.8.8.8', over={over!r})")[1] == [GOOD]
        expected = [BAD] if each.policy()["mode"] == "allow_all" else []
        assert each.py(f"ask('bad.test', server={FOREIGN!r}, over={over!r})")[1] == expected
    assert len(net.internet.foreign_dns.queries) == before


def test_W6_no_other_ways_to_ask(each, watch):
    with watch() as w:
        found = each.py(f"all_of((tcp, {FOREIGN!r}, 853), (udp, {FOREIGN!r}, 853), (udp, {GOOD!r}, 5353), (udp, {GOOD!r}, 5355), (udp, {GOOD!r}, 137), "
                        f"(tcp, {FOREIGN!r}, 5353), (udp, '224.0.0.251', 5353), (udp, '224.0.0.252', 5355))")  # fmt: skip
    denied(found)
    assert not [p for p in w.packets if p.port in (853, 5353, 5355, 137)], w.packets[:3]


def test_W6_what_is_not_allowed_is_never_asked_for(net, guarded, watch):  # E11
    names = ["bad.test", "www.good.test", "wild.test", "xwild.test", "good.test.evil.test", "goodtest", "good.test.", "GOOD.test.bad.test"]
    secret = [f"{'a' * 60}{i}.{'b' * 60}.tunnel.bad.test" for i in range(50)]
    before = len(net.internet.dns.queries)
    found = guarded.py(f"[ask(n)[0] for n in {names!r}] + [ask(n, k)[0] for n in {secret!r} for k in ('A', 'TXT')]")
    asked = {q[2].lower() for q in net.internet.dns.queries[before:]}
    assert asked <= {"good.test"}, asked
    assert [f for i, f in enumerate(found) if i != 6] == [3] * (len(found) - 1), found


def test_W6_only_addresses_are_asked_for_under_a_policy(net, guarded):
    before = len(net.internet.dns.queries)
    found = guarded.py("[ask('good.test', k) for k in ('TXT', 'NULL', 'ANY', 'HTTPS', 'CNAME', 'NS')]")
    assert [f[3] for f in found] == [0] * 6 and all(f[0] in (0, 3, 4, 5) for f in found), found
    assert not [q for q in net.internet.dns.queries[before:] if q[3] not in (1, 28)]


def test_W6_some_types_are_empty_for_everybody(net, open_box):
    before = len(net.internet.dns.queries)
    assert [f[3] for f in open_box.py("[ask('good.test', k) for k in ('NULL', 'ANY', 'HTTPS')]")] == [0] * 3
    assert open_box.py("ask('text.test', 'TXT')")[3] == 1
    assert not [q for q in net.internet.dns.queries[before:] if q[3] in (10, 255, 65)]


def test_W6_questions_are_made_anew(net, guarded):
    raw = []
    net.internet.dns.mangle = lambda q, reply: raw.append(q.data) or reply
    try:
        found = guarded.py("""
hidden = b'\\0' + struct.pack('!HHIH', OPT, 4096, 0, 12) + struct.pack('!HH', 65001, 8) + b'SECRETS!'
message = struct.pack('!6H', 7, 0x0120, 1, 0, 0, 1) + put_name('x1.WiLd.TeSt') + struct.pack('!HH', A, 1) + hidden
RESULT = ask('', data=message)
""")
    finally:
        net.internet.dns.mangle = None
    assert found[1] == [GOOD] and raw
    assert all(b"SECRETS" not in data and b"\x04wild\x04test" in data for data in raw), raw


@pytest.mark.parametrize("message", [
    "b''", "b'x'", "b'\\0' * 12", "query('good.test') + query('bad.test')", "query('good.test')[:-1]",
    "struct.pack('!6H', 1, 0x0100, 2, 0, 0, 0) + (put_name('good.test') + struct.pack('!HH', 1, 1)) + put_name('bad.test') + struct.pack('!HH', 1, 1)",
    "struct.pack('!6H', 1, 0x8100, 1, 0, 0, 0) + put_name('bad.test') + struct.pack('!HH', 1, 1)",
    "struct.pack('!6H', 1, 0x0100, 1, 0, 0, 0) + b'\\xc0\\x0c' + struct.pack('!HH', 1, 1)",
    "struct.pack('!6H', 1, 0x0100, 1, 0, 0, 0) + put_name('bad.test') + struct.pack('!HH', 1, 3)",
    "struct.pack('!6H', 1, 0x2900, 1, 0, 0, 0) + put_name('good.test') + struct.pack('!HH', 1, 1)",
    "query('a' * 63 + '.' + 'b' * 63 + '.' + 'c' * 63 + '.' + 'd' * 63 + '.wild.test')", "query('a b.wild.test')", "query('a\\0.wild.test')",
])  # fmt: skip
def test_W6_what_is_no_question_goes_nowhere(net, guarded, message):
    before = len(net.internet.dns.queries)
    found = guarded.py(f"tried(lambda: ask('', data={message}, timeout=0.7))")
    assert found == "timeout" or found[0] != 0 or found[1] == [], found
    assert not [q for q in net.internet.dns.queries[before:] if q[2] != "good.test"]
    assert guarded.py("resolve('good.test')") == [GOOD]


def test_W6_there_is_a_budget(net, watch):  # E11
    b = net.box(rules("+*.wild.test"))
    before = len(net.internet.dns.queries)
    took = b.py("""
began = time.monotonic()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('192.0.2.254', 53))
for i in range(3000):
    tried(s.send, query(f'n{i}.wild.test'))  # where rules stand in the same network, what is dropped is told
RESULT = time.monotonic() - began
""")
    time.sleep(0.5)
    asked = len(net.internet.dns.queries) - before
    assert 1 <= asked <= 200 + 50 * (took + 2), (asked, took)
    until_true(lambda: isinstance(b.py("tried(resolve, 'later.wild.test')"), list), 60, "an answer")
    b.delete()


def test_W6_a_flood_of_one_sandbox_is_no_other_ones_trouble(net, guarded):
    b = net.box(rules("+*.wild.test"))
    b.run("(timeout 4 python3 -c \"import socket\ns = socket.socket(2, 2)\ns.connect(('192.0.2.254', 53))\nwhile True:\n  try: s.send(b'x' * 40)\n"
          "  except OSError: pass\" >/dev/null 2>&1 &); sleep 0.3")  # fmt: skip
    began = time.monotonic()
    assert guarded.py("[resolve('good.test') for _ in range(20)]") == [[GOOD]] * 20
    assert time.monotonic() - began < 5
    b.delete()


# ---- W7, W8: what was learned, and names of connections ----


def test_W7_learned_addresses_are_this_sandboxes_alone(net, watch):
    first, second = net.box(rules("+good.test", "+other.test:9000")), net.box(rules("+one.shared.test"))
    assert first.py("[resolve('good.test'), tcp(resolve('other.test')[0], 9000)]") == [[GOOD], "hello\n"]
    with watch() as w:
        denied(second.py(f"all_of((tcp, {GOOD!r}, 22), (tcp, {OTHER!r}, 9000), (http, {GOOD!r}, 'good.test'), (tls, {GOOD!r}, 'good.test'))"))
    assert not w.to(GOOD, OTHER)
    first.delete(), second.delete()


def test_W7_a_name_opens_tcp_at_few_ports(guarded, watch):  # E9, E19
    with watch() as w:
        assert guarded.py("resolve('good.test')") == [GOOD]
        denied(guarded.py(f"all_of(*[(tcp, {GOOD!r}, p) for p in (25, 853, 8080, 8443, 9000)], *[(udp, {GOOD!r}, p) for p in (443, 123, 7, 9000)])"))
    assert not [p for p in w.to(GOOD)], w.packets[:3]


def test_W8_the_name_of_a_connection_has_to_be_the_one_that_was_asked_for(net, watch):  # E9
    b = net.box(rules("+one.shared.test", "+good.test"))
    b.py("[resolve('one.shared.test'), resolve('good.test')]")
    with watch() as w:
        assert b.py(f"tls({SHARED!r}, 'one.shared.test')")["sni"] == "one.shared.test"
        found = b.py(f"""all_of(
            (tls, {SHARED!r}, 'two.shared.test'), (http, {SHARED!r}, 'two.shared.test'), (tls, {SHARED!r}, 'bad.test'),
            (tls, {SHARED!r}, 'good.test'), (http, {SHARED!r}, 'good.test'),
            (tls, {BAD!r}, 'one.shared.test'), (http, {BAD!r}, 'good.test'), (tls, {GOOD!r}, 'one.shared.test'),
            (tls, {GOOD!r}, 'xgood.test'), (tls, {GOOD!r}, 'good.test.bad.test'), (http, {GOOD!r}, 'bad.test#good.test'))""")
    denied(found)
    assert not w.to(BAD)
    assert not [r for r in net.internet.requests if r["host"] in ("two.shared.test", "bad.test#good.test")]
    b.delete()


def test_W8_no_name_no_way(net, watch):
    b = net.box(rules("+good.test"))
    b.py("resolve('good.test')")
    before = len(net.internet.connections)
    with watch() as w:
        found = b.py(f"""all_of(
            (tls, {GOOD!r}, None), (tcp, {GOOD!r}, 443, b'hello'), (tcp, {GOOD!r}, 443, b'SSH-2.0-x\\r\\n'), (tcp, {GOOD!r}, 80, b'SSH-2.0-x\\r\\n'),
            (tcp, {GOOD!r}, 80, b'\\x16\\x03\\x01'), (tcp, {GOOD!r}, 443, b'GET / HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n'),
            (http, {GOOD!r}, '', 80, '/', b'GET / HTTP/1.1\\r\\n\\r\\n'), (http, {GOOD!r}, '', 80, '/', b'GET / HTTP/1.0\\r\\n\\r\\n'),
            (http, {GOOD!r}, '', 80, '/', b'GET / HTTP/1.1\\r\\nHost: good.test\\r\\nHost: bad.test\\r\\n\\r\\n'),
            (http, {GOOD!r}, '', 80, '/', b'GET http://bad.test/ HTTP/1.1\\r\\nHost: good.test\\r\\n\\r\\n'),
            (http, {GOOD!r}, '', 80, '/', b'CONNECT bad.test:443 HTTP/1.1\\r\\nHost: bad.test\\r\\n\\r\\n'),
            (tcp, {GOOD!r}, 80, b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'), (udp, {GOOD!r}, 443))""")
    denied([f for f in found if not str(f).startswith("HTTP/1.1 4")])
    assert len(net.internet.connections) == before, net.internet.connections[before:]
    assert not [p for p in w.packets if p.is_udp and p.port == 443]
    b.delete()


def test_W8_a_hello_in_small_pieces_and_a_slow_one(net):
    b = net.box(rules("+good.test"))
    assert b.py(f"""
resolve('good.test')
s = connect({GOOD!r}, 80)
s.settimeout(10)
for c in b'GET / HTTP/1.1\\r\\nHost: good.test\\r\\nConnection: close\\r\\n\\r\\n':
    s.send(bytes([c])); time.sleep(0.005)
RESULT = answer_of(s)
""")["host"] == "good.test"
    b.delete()


def test_W8_one_answer_to_many_names(net, watch):  # E12
    """An alias that is allowed and leads to a name that is denied; and one that leads to a name that nobody speaks of."""
    b = net.box(rules("-bad.test", "+alias.test", "+chain.test"))
    with watch() as w:
        found = b.py(f"[tried(resolve, 'alias.test'), tried(http, {BAD!r}, 'alias.test'), tried(tls, {BAD!r}, 'alias.test')]")
        assert b.py("web('chain.test')")["host"] == "chain.test"
    assert not isinstance(found[0], list) and not isinstance(found[1], dict) and not isinstance(found[2], dict), found
    assert not w.to(BAD)
    b.delete()


def test_W11_whole_labels(net):
    b = net.box(rules("+*.wild.test", "+Good.Test."))
    assert b.py("[tried(resolve, n) for n in ('a.wild.test', 'A.WILD.TEST', 'good.test', 'wild.test', 'xwild.test', 'a.xwild.test', 'www.good.test')]") == \
        [[GOOD], [GOOD], [GOOD], "NXDOMAIN", "NXDOMAIN", "NXDOMAIN", "NXDOMAIN"]
    b.delete()


# ---- answers of resolvers that lie or are away ----


def test_answers_that_were_not_asked_for_change_nothing(net, watch):
    b = net.box(rules("+good.test", "+*.wild.test"))

    def lie(q, reply):
        name, kind, _ = q.questions[0]
        extra = put_name(name) + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(GOOD)
        extra += put_name("evil.test") + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(BAD)
        return struct.pack("!6H", q.id, 0x8180, 1, 2, 0, 0) + put_name(name) + struct.pack("!HH", kind, 1) + extra

    net.internet.dns.mangle = lie
    try:
        with watch() as w:
            b.py("tried(resolve, 'lie.wild.test')")
            denied(b.py(f"all_of((tcp, {BAD!r}, 22), (http, {BAD!r}, 'lie.wild.test'), (tls, {BAD!r}, 'evil.test'))"))
        assert not w.to(BAD)
    finally:
        net.internet.dns.mangle = None
    b.delete()


def test_large_answers_come_over_tcp(net):  # E16
    b = net.box(rules("+many.test"))
    found = b.py("[ask('many.test', over='tcp'), ask('many.test')]")
    assert len(found[0][1]) == 80 and (found[1][2] or len(found[1][1]) == 80), found
    assert "tcp" in {q[1] for q in net.internet.dns.asked("many.test")}
    b.delete()


def test_short_lives_of_answers_do_not_cut_off(net):  # E13
    b = net.box(rules("+short.test"))
    assert b.py("""
address = resolve('short.test')[0]
time.sleep(3)
RESULT = [http(address, 'short.test')['host'], tcp(address, 22)]
""") == ["short.test", "hello\n"]
    b.delete()


def test_a_resolver_that_is_silent_gives_no_answer_and_no_way(net, watch):
    b = net.box(rules("+*.wild.test"))
    net.internet.dns.is_silent = True
    try:
        with watch() as w:
            found = b.py(f"[tried(lambda: ask('q.wild.test', timeout=8)), tried(http, {GOOD!r}, 'q.wild.test')]")
        assert found[0] == "timeout" or found[0][0] == 2, found
        denied(found[1])
    finally:
        net.internet.dns.is_silent = False
    assert not w.to(GOOD)
    until_true(lambda: isinstance(b.py("tried(resolve, 'r.wild.test')"), list), 60, "an answer")
    b.delete()


# ---- W10: ceilings ----


def test_W10_new_connections_have_a_rate(net, open_box, watch):
    counter = net.internet.count(f"ip daddr {OTHER} udp dport 9000")
    took = open_box.py(f"""
began = time.monotonic()
for i in range(6000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        tried(s.sendto, b'x', ({OTHER!r}, 9000))
RESULT = time.monotonic() - began
""")
    assert counter.packets <= 500 * (took + 2) and counter.packets <= 4096 + 200, (counter.packets, took)
    until_true(lambda: isinstance(open_box.py(f"tried(http, {GOOD!r}, 'x')"), dict), 60, "a connection")


# ---- W9: changes during a transfer, and who is killed ----

DRIP = """
import os
s = connect({address!r}, {port})
s.settimeout(10)
s.sendall(b'GET /drip HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n')
got, end = 0, None
began = time.monotonic()
print('begun', flush=True)
try:
    while time.monotonic() - began < {seconds}:
        piece = s.recv(1000)
        if not piece:
            end = 'closed'
            break
        got += len(piece)
        with open('/tmp/now', 'w') as f:
            f.write(str(time.time()))
        os.replace('/tmp/now', '/tmp/last')  # who looks meanwhile sees no empty one
except socket.timeout:
    end = 'silent'
except OSError as e:
    end = errno.errorcode[e.errno]
RESULT = [got, end]
"""


def drip(box, address, port, name, seconds=6):
    """Starts a transfer that lasts, in the background; gives a function that tells when the last byte came."""
    code = PRELUDE + DRIP.format(address=address, port=port, name=name, seconds=seconds)
    text = base64.b64encode(code.encode()).decode()
    box.run(f"rm -f /tmp/last; echo {text} | base64 -d > /tmp/drip.py; (python3 /tmp/drip.py >/tmp/drip.out 2>&1 &); sleep 1.5")
    last = lambda: float((box.run("cat /tmp/last") or ["0"])[0])  # noqa: E731
    assert time.time() - last() < 1, box.run("cat /tmp/drip.out")
    return last


@pytest.mark.parametrize("policy, address, port, name", [
    (rules("+good.test"), GOOD, 80, "good.test"),        # through the relay
    (rules("+other.test:8080"), OTHER, 8080, "other.test"),  # learned
    (rules(f"+{SHARED}"), SHARED, 80, "x.test"),         # by address
    (rules(default="allow"), SHARED, 80, "x.test"),
])
def test_W9_a_change_reaches_open_connections_within_a_second(net, policy, address, port, name):  # E14
    b = net.box(policy)
    b.py(f"tried(resolve, {name!r})")
    last = drip(b, address, port, name, 8)
    b.change("PUT", {})
    changed = time.time()
    time.sleep(2.5)
    assert last() - changed < 1, last() - changed
    b.delete()


def test_W9_a_change_cuts_nothing_that_is_allowed(net):
    b = net.box(rules("+good.test", f"+{SHARED}"))
    b.py("resolve('good.test')")
    last = drip(b, GOOD, 80, "good.test", 8)
    b.change("PUT", rules("+good.test", "+other.test"))
    time.sleep(2.5)
    assert time.time() - last() < 1
    b.delete()


@pytest.mark.parametrize("who", ["egress_pid", "warden_pid", "pid"])
def test_W9_who_is_killed_opens_nothing_and_comes_back_with_the_same_policy(net, watch, who):  # E5
    b = net.box(rules("+good.test", f"+{OTHER}"))
    b.change("PATCH", [{"action": "allow", "target": "one.shared.test"}])
    assert b.py("web('good.test')")
    old = getattr(net.server, who)
    with watch() as w:
        os.kill(old, signal.SIGKILL)
        began = time.monotonic()
        until_true(lambda: net.api.run_or_none(b.id, "echo up") == ["up"], 60, "the way into the sandbox")
        denied(b.py(f"all_of((http, {BAD!r}, 'bad.test'), (tcp, {BAD!r}, 22), (udp, {BAD!r}, 9000), (http, {PRIVATE[0]!r}, 'x'))"))
    assert not w.to(BAD, *PRIVATE), w.packets[:3]
    until_true(lambda: isinstance(b.py("tried(web, 'good.test')"), dict), 60, "the network")
    assert time.monotonic() - began < 10 and getattr(net.server, who) != old
    assert b.policy()["policy"] == rules("+one.shared.test", "+good.test", f"+{OTHER}")
    assert b.py(f"[web('one.shared.test')['host'], http({OTHER!r}, 'x')['address'], tried(resolve, 'bad.test')]") == \
        ["one.shared.test", OTHER, "NXDOMAIN"]
    fresh = net.box(rules("+good.test"))
    assert fresh.py("web('good.test')") and fresh.py("tried(resolve, 'bad.test')") == "NXDOMAIN"
    b.delete(), fresh.delete()


def test_W9_all_of_it_killed_leaves_sandboxes_closed(spec, home, tmp_path):  # E5
    """The supervisor and all that it started are gone: what runs goes on, under the same rules, until a server is back."""
    n = Net(spec, tmp_path, home=home)
    try:
        b = n.box(rules(f"+{OTHER}"), entrypoint=["python3", "-c", f"""
import socket, time
while True:
    for address in ({OTHER!r}, {BAD!r}, {PRIVATE[0]!r}):
        for kind, port in ((socket.SOCK_STREAM, 80), (socket.SOCK_DGRAM, 9000)):
            s = socket.socket(socket.AF_INET, kind); s.settimeout(0.1)
            try: s.connect((address, port)); s.send(b'x')
            except OSError: pass
            s.close()
    time.sleep(0.05)"""])
        until_true(lambda: n.internet.packets(target=OTHER), 60, "packets")
        moment = n.internet.mark()
        n.server.process.send_signal(signal.SIGKILL)
        n.server.process.wait()
        time.sleep(3)
        seen = {p.target for p in n.internet.packets(moment)}
        assert BAD not in seen and not seen & set(PRIVATE) and OTHER in seen, seen
        n.start()
        n.api.wait_state(b.id, "Running")
        assert b.policy()["policy"] == rules(f"+{OTHER}")
        assert not {p.target for p in n.internet.packets(moment)} & {BAD, *PRIVATE}
    finally:
        n.close()


def test_G5_the_resolver_was_asked_by_the_host_alone(net):
    """After all of the above: every packet to port 53 went to the one resolver, and came from the host itself."""
    assert not [p for p in net.internet.packets() if p.port == 53 and (p.target != RESOLVER or p.source != HOST)]
    assert not [p for p in net.internet.packets() if p.source != HOST and ":" not in p.source], "a source that is not ours"
