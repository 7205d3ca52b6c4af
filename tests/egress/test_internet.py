# SPDX-License-Identifier: Apache-2.0
"""The tests' own Internet answers: what a sandbox cannot reach there is not for want of somebody who would answer."""
import contextlib
import json
import os
import socket
import ssl

import pytest

import nameserver
import netns
from internet import BAD, FOREIGN, GOOD, HOST, PRIVATE, RESOLVER, WEB6, Internet

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture(scope="module")
def internet():
    net = Internet()
    yield net
    net.close()
    assert not [n for n in netns.left_over() if n in (net.host.name, net.world.name)]


def ask(internet, name, kind="A", resolver=RESOLVER, **more):
    with internet.host.make_socket(kind=socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(nameserver.query(name, nameserver.TYPES[kind], **more), (resolver, 53))
        return nameserver.Message(s.recv(65535))


def ask_tcp(internet, name):
    with internet.host.connect((RESOLVER, 53)) as s:
        data = nameserver.query(name)
        s.sendall(len(data).to_bytes(2, "big") + data)
        size = int.from_bytes(s.recv(2, socket.MSG_WAITALL), "big")
        return nameserver.Message(s.recv(size, socket.MSG_WAITALL))


def get(internet, address, port, name="x.test", tls=None):
    with internet.host.connect((address, port)) as s:
        s = tls.wrap_socket(s, server_hostname=name) if tls else s
        s.sendall(f"GET /who HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        data = b"".join(iter(lambda: s.recv(65536), b""))
        return json.loads(data.split(b"\r\n\r\n", 1)[1])


def test_names_of_all_kinds(internet):
    assert ask(internet, "good.test").addresses() == [GOOD]
    chain = ask(internet, "chain.test")
    assert [row[1] for row in chain.answers] == [nameserver.CNAME, nameserver.CNAME, nameserver.A] and chain.addresses() == [GOOD]
    assert ask(internet, "a.b.wild.test").addresses() == [GOOD]
    assert ask(internet, "six.test", "AAAA").addresses() == [WEB6]
    assert ask(internet, "nobody.test").rcode == nameserver.NXDOMAIN
    assert ask(internet, "good.test", "TXT").rcode == nameserver.NOERROR
    assert ask(internet, "many.test").is_cut and len(ask_tcp(internet, "many.test").addresses()) == 80
    assert len(ask(internet, "many.test", edns=4096).addresses()) == 80
    assert {q[1] for q in internet.dns.asked("many.test")} == {"udp", "tcp"}


def test_addresses_that_change(internet):
    answers = iter([[GOOD], [PRIVATE[0]]] * 2)
    internet.zone.set("turns.test", "A", lambda: next(answers), ttl=1)
    assert [ask(internet, "turns.test").addresses() for _ in range(2)] == [[GOOD], [PRIVATE[0]]]


def test_the_web_with_and_without_tls(internet):
    tls = ssl.create_default_context(cadata=internet.authority.pem)
    for address in (GOOD, BAD, PRIVATE[3]):
        assert get(internet, address, 80)["address"] == address
        assert get(internet, address, 443, "www.good.test", tls)["sni"] == "www.good.test"
    assert internet.requests[-1]["peer"] == HOST
    with internet.host.make_socket(socket.AF_INET6) as s:
        s.settimeout(5)
        s.connect((WEB6, 80))


def test_every_packet_is_seen(internet):
    moment, counter = internet.mark(), internet.count(f"ip daddr {BAD} udp dport 9000")
    with internet.host.make_socket(kind=socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        for _ in range(10):
            s.sendto(b"abc", (BAD, 9000))
            assert s.recv(100) == b"abc"
    assert len(internet.packets(moment, target=BAD, is_udp=True, port=9000)) == 10 and counter.packets == 10
    assert not internet.packets(moment, target=GOOD)
    with internet.host.make_socket(kind=socket.SOCK_DGRAM) as s, contextlib.suppress(OSError):
        s.sendto(b"x", (PRIVATE[0], 4444))  # nobody listens there, and it is seen all the same
    assert internet.packets(moment, target=PRIVATE[0], port=4444)


def test_other_resolvers_answer_as_well(internet):
    assert ask(internet, "bad.test", resolver=FOREIGN).addresses() == [BAD]
    assert internet.foreign_dns.asked("bad.test") and not internet.dns.asked("bad.test")
