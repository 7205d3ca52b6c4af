# SPDX-License-Identifier: Apache-2.0
"""The kernel side of the sandboxes' network: a warden in a network namespace that stands for the host, and another one that
stands for the rest of the world, with addresses of the documentation ranges. What reaches that one is counted there."""
import base64
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

import pytest

import network_left
from test_warden import (CREATE, REMOVE, RUNNING, STATS, UNAVAILABLE, Failed, Warden, guest, pytestmark, sealed)  # noqa: F401

NONE, OPEN, POLICY = range(3)
ENETDOWN = 100
OUTSIDE, NEIGHBOUR, HOST = "203.0.113.9", "198.51.100.7", "203.0.113.1"

pytestmark = [*pytestmark, pytest.mark.skipif(not network_left.HAS_NFT, reason="needs nft")]

CLIENT = r"""
import socket, sys
kind, host, port, text = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[5]))
try:
    s.connect((host, port))
    s.sendall(text.encode())
    print("got " + s.recv(4096).decode())
except Exception as e:
    print("failed " + type(e).__name__)
"""

SERVER = r"""
import selectors, socket, sys
sel = selectors.DefaultSelector()
for port in map(int, sys.argv[2].split(",")):
    t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind((sys.argv[1], port)); t.listen(64)
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((sys.argv[1], port))
    sel.register(t, selectors.EVENT_READ, "listen"); sel.register(u, selectors.EVENT_READ, "udp")
print("ready", flush=True)
while True:
    for key, _ in sel.select():
        if key.data == "listen":
            c, _ = key.fileobj.accept()
            sel.register(c, selectors.EVENT_READ, "tcp")
        elif key.data == "tcp":
            try:
                data = key.fileobj.recv(65536)
                if data:
                    key.fileobj.sendall(("%s %s" % (key.fileobj.getpeername()[0], data.decode())).encode())
            except OSError:
                data = b""
            if not data:
                sel.unregister(key.fileobj); key.fileobj.close()
        else:
            data, who = key.fileobj.recvfrom(65536)
            key.fileobj.sendto(("%s %s" % (who[0], data.decode())).encode(), who)
"""


def ip(*args, netns=None):
    return network_left.run("ip", *args, netns=netns, check=True).stdout


class World:
    """A host and what is behind its uplink."""

    def __init__(self):
        tag = uuid.uuid4().hex[:6]
        self.host, self.outside = f"osb-h{tag}", f"osb-o{tag}"
        self.servers = []

    def build(self):
        for name in self.host, self.outside:
            ip("netns", "add", name)
            ip("link", "set", "lo", "up", netns=name)
        ip("-n", self.host, "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", self.outside)
        ip("addr", "add", f"{HOST}/24", "dev", "up0", netns=self.host)
        ip("link", "set", "up0", "up", netns=self.host)
        ip("addr", "add", f"{OUTSIDE}/24", "dev", "eth0", netns=self.outside)
        ip("link", "set", "eth0", "up", netns=self.outside)
        for more in NEIGHBOUR, "10.9.8.7", "169.254.169.254", "192.168.7.7":
            ip("addr", "add", f"{more}/32", "dev", "lo", netns=self.outside)
        ip("route", "add", "default", "via", OUTSIDE, netns=self.host)
        subprocess.run(["nsenter", f"--net=/run/netns/{self.outside}", "/usr/sbin/nft", "-f", "-"], check=True, text=True, input="""
            table inet count {
                set seen { type ipv4_addr . inet_proto . inet_service; flags dynamic; counter; }
                set others { type ipv4_addr . inet_proto; flags dynamic; counter; }
                chain in {
                    type filter hook prerouting priority -400
                    iifname "eth0" meta l4proto { tcp, udp } add @seen { ip daddr . meta l4proto . th dport } accept
                    iifname "eth0" add @others { ip daddr . meta l4proto }
                }
            }
            """)
        self.serve(self.outside, "0.0.0.0", 53, 80, 443, 853, 5353, 8080, 22)
        return self

    def serve(self, netns, address, *ports):
        p = subprocess.Popen(["nsenter", f"--net=/run/netns/{netns}", sys.executable, "-c", SERVER, address, ",".join(map(str, ports))],
                             stdout=subprocess.PIPE, text=True)
        self.servers.append(p)
        assert p.stdout.readline() == "ready\n"

    def seen(self):
        """Packets that reached the outside, by address, protocol and port."""
        out = network_left.run("nft", "-j", "list", "table", "inet", "count", netns=self.outside, check=True).stdout
        found = {}
        for item in json.loads(out)["nftables"]:
            for e in item.get("set", {}).get("elem", []):
                found[tuple(e["elem"]["val"]["concat"])] = e["elem"]["counter"]["packets"]
        return found

    def close(self):
        for p in self.servers:
            p.kill()
            p.wait()
        for name in self.host, self.outside:
            network_left.run("ip", "netns", "del", name)


@pytest.fixture
def world():
    w = World()
    try:
        yield w.build()
    finally:
        w.close()


@pytest.fixture
def warden(tmp_path, guest, world):
    w = Warden(tmp_path, f"t{uuid.uuid4().hex[:7]}", guest)
    w.netns = world.host
    try:
        yield w
    finally:
        w.clean()
        print(w.stderr())
    assert "runtime error" not in w.stderr() and "Sanitizer" not in w.stderr()


def dial(peer, name, host, port, kind="tcp", text="hello", seconds=1.0):
    return script(peer, name, CLIENT, kind, host, port, text, seconds).strip()


def script(peer, name, code, *args):
    """What a Python program prints in the sandbox."""
    packed = base64.b64encode(code.encode()).decode()
    return peer.shell(name, f"python3 -c \"import base64; exec(base64.b64decode('{packed}'))\" {' '.join(map(str, args))}")


def address_of(peer, name):
    return peer.shell(name, "hostname -I").strip()


# ---- a box with a network ------------------------------------------------------------------------------------


def test_an_open_box_reaches_the_world_as_its_host(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    assert dial(peer, name, OUTSIDE, 8080, "udp") == f"got {HOST} hello"
    assert dial(peer, name, NEIGHBOUR, 443) == f"got {HOST} hello"
    stats = peer.call(STATS, name)
    assert stats.net_out_packets >= 10 and stats.net_in_packets >= 6 and stats.net_out_bytes > 400
    peer.call(REMOVE, name)
    warden.settle()
    assert warden.stop() == 0
    assert network_left.left(warden.prefix, world.host) == []


def test_what_a_box_sees_of_its_network(warden):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    out = peer.shell(name, "cat /etc/resolv.conf /etc/hosts; ip -o addr; ip route; cat /proc/net/if_inet6; ls -ld /etc")
    gateway = network_left.gateway(warden.prefix, warden.netns)
    mine = address_of(peer, name)
    assert f"nameserver {gateway}\n" in out and f"{mine}\t{name}\n" in out and "127.0.0.1\tlocalhost" in out
    assert f"default via {gateway} dev eth0" in out
    assert "eth0" not in [line.split()[-1] for line in out.splitlines() if len(line.split()) == 6 and line.endswith("eth0")]
    assert mine.rsplit(".", 2)[0] == gateway.rsplit(".", 2)[0]
    assert "drwxr-xr-x" in out
    peer.call(REMOVE, name)


def test_a_box_without_a_network_has_its_loopback_alone(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=NONE)
    assert dial(peer, name, OUTSIDE, 8080) == "failed OSError"  # unreachable, at once
    assert "LOOPBACK" in peer.shell(name, "ip -o link show lo") and "state DOWN" in peer.shell(name, "ip -o link show eth0")
    assert world.seen() == {}
    peer.call(REMOVE, name)


def test_a_host_without_networks_refuses_them_by_name(warden):
    peer = warden.start("--no-network").peer()
    with pytest.raises(Failed) as refused:
        peer.create(network=OPEN)
    assert refused.value.errno == ENETDOWN and "turned off" in refused.value.message
    name = peer.create()
    assert peer.shell(name, "ls /sys/class/net") == "lo\n"
    peer.call(REMOVE, name)


def test_policies_need_somebody_who_enforces_them(warden):
    peer = warden.start().peer()
    fds = [sealed({"id": "a"}), sealed({})]
    with pytest.raises(Failed) as refused:
        peer.call(CREATE, "a", fds, network=POLICY)
    assert refused.value.errno == ENETDOWN and "policy" in refused.value.message
