# SPDX-License-Identifier: Apache-2.0
"""The kernel side of the sandboxes' network: a warden in a network namespace that stands for the host, and another one that
stands for the rest of the world, with addresses of the documentation ranges. What reaches that one is counted there."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
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
from fleet import KillSwitch
from test_warden import CREATE, REMOVE, RUNNING, STATS, WARDEN, Failed, Warden, guest, pytestmark, sealed  # noqa: F401

NONE, OPEN, POLICY = range(3)
ENETDOWN = 100
OUTSIDE, NEIGHBOUR, HOST = "203.0.113.9", "198.51.100.7", "203.0.113.1"
PRIVATE = ["10.9.8.7", "169.254.169.254", "192.168.7.7", "100.64.1.1", "172.16.5.5", "168.63.129.16", "198.18.0.1"]
MORE = [NEIGHBOUR, *PRIVATE]

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
for at in ((address, int(port)) for address in sys.argv[1].split(",") for port in sys.argv[2].split(",")):
    t = socket.socket(); t.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); t.bind(at); t.listen(64)
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(at)
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
        for more in MORE:
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
        self.serve(self.outside, ",".join([OUTSIDE, *MORE]), 53, 80, 443, 853, 5353, 8080, 22)
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


def dial(peer, name, host, port, kind="tcp", text="hello", seconds=5.0):
    return script(peer, name, CLIENT, kind, host, port, text, seconds).strip()


def closed(peer, name, host, port, kind="tcp"):
    return dial(peer, name, host, port, kind, seconds=0.4).startswith("failed")


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
    assert peer.shell(name, "ls /sys/class/net/eth0/queues").split() == ["rx-0", "tx-0"]  # not one for each processor
    peer.call(REMOVE, name)


def test_a_box_without_a_network_has_its_loopback_alone(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=NONE)
    assert dial(peer, name, OUTSIDE, 8080) == "failed OSError"  # unreachable, at once
    assert "LOOPBACK" in peer.shell(name, "ip -o link show lo") and "state DOWN" in peer.shell(name, "ip -o link show eth0")
    assert world.seen() == {}
    peer.call(REMOVE, name)


def test_boxes_are_what_was_ordered_whatever_the_last_one_was(warden):
    """Slots are made for a box like the last one."""
    peer = warden.start().peer()
    for network in (OPEN, OPEN, NONE, NONE, NONE, OPEN, NONE, OPEN, OPEN, OPEN):
        name = peer.create(network=network)
        hosts = peer.shell(name, "cat /etc/hosts /etc/resolv.conf; test -e /etc/passwd && stat -c %a:%u /etc /dev; ls /usr/bin/env")
        assert (f"\t{name}\n" in hosts) == ("nameserver" in hosts) == (network == OPEN), hosts
        assert hosts.endswith("755:0\n755:0\n/usr/bin/env\n")
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


# ---- with egress ---------------------------------------------------------------------------------------------

MESSAGE = struct.Struct("=IIQ64s4sIII16H4sBBHIii496sI")
RULE = struct.Struct("=4sBBH")
HELLO, BIND, SYNCED, UNBIND, DONE, BOUND, RULES, LEARN, FORGET, CUT = range(1, 11)


def packed(net, allowed=0):
    address, _, prefix = net.partition("/")
    return RULE.pack(socket.inet_aton(address), int(prefix or 32), allowed, 0)


class Told:
    def __init__(self, data, fds=()):
        (self.version, self.call, self.serial, name, address, self.network, *_) = MESSAGE.unpack(data[:MESSAGE.size])
        fields = MESSAGE.unpack(data[:MESSAGE.size])
        self.id = name.split(b"\0")[0].decode()
        self.address = socket.inet_ntoa(address)
        self.failed, self.code, self.errno, message = fields[-5:-1]
        self.message = message.split(b"\0")[0].decode()
        self.fds = list(fds)


class Egress:
    """A scripted opensandbox-egress: it answers every BIND with the rules of its own choice, and notes what it was told."""

    def __init__(self, path, policy=None):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10)
        self.sock.connect(str(path))
        self.policy = policy or (lambda told: (1, []))  # allows, rules
        self.lock = threading.Condition()
        self.told, self.done, self.serial = [], {}, 0
        self.sockets = []
        self.is_silent = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def message(self, call, address="0.0.0.0", serial=0, name="", allows=0, seconds=0, ports=(), net="0.0.0.0/0", failed=0, code=0,
                text="", rules=()):
        at, _, prefix = net.partition("/")
        head = MESSAGE.pack(1, call, serial, name.encode(), socket.inet_aton(address), 0, allows, seconds,
                            *([*ports] + [0] * 16)[:16], socket.inet_aton(at), int(prefix or 32), 0, 0, failed, code, 0,
                            text.encode(), len(rules))
        return head + b"".join(rules)

    def run(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
            except OSError:
                return
            if not data:
                return
            told = Told(data, fds)
            with self.lock:
                if told.call == DONE:
                    self.done[told.serial] = told
                else:
                    self.told.append(told)
                if told.call == HELLO:
                    self.sockets = fds
                self.lock.notify_all()
            if told.call == BIND and not self.is_silent:
                allows, rules = self.policy(told)
                with contextlib.suppress(OSError):
                    self.sock.send(self.message(RULES, told.address, allows=allows, rules=rules))
                    self.sock.send(self.message(BOUND, serial=told.serial, name=told.id))

    def wait(self, call, name=None, seconds=5):
        with self.lock:
            assert self.lock.wait_for(lambda: any(t.call == call and name in (None, t.id) for t in self.told), seconds), (call, name)
            return [t for t in self.told if t.call == call and name in (None, t.id)][-1]

    def ask(self, call, address, **more):
        self.serial += 1
        serial = self.serial
        self.sock.send(self.message(call, address, serial=serial, **more))
        with self.lock:
            assert self.lock.wait_for(lambda: serial in self.done, 30)
        return self.done[serial]

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.sock.close()
        for fd in self.sockets:
            os.close(fd)


class Watched:
    """A warden that has a socket for egress."""

    def __init__(self, warden):
        self.warden = warden
        self.path = warden.folder / "egress.sock"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(self.path))
        self.listener.listen(4)

    def start(self, *more, **options):
        fd = self.listener.fileno()
        self.warden.start("--egress-fd", str(fd), *more, pass_fds=[fd], **options)
        return self


@pytest.fixture
def watched(warden):
    w = Watched(warden)
    yield w
    w.listener.close()


def create(peer, network=POLICY, policy=b"{}"):
    name = str(uuid.uuid4())
    fds = [sealed({"id": name})] + ([sealed(policy)] if network == POLICY else [])
    try:
        peer.call(CREATE, name, fds, network=network)
    finally:
        for fd in fds:
            os.close(fd)
    return name


def test_egress_is_told_of_a_box_with_its_policy_before_it_runs(watched, warden):
    watched.start()
    egress, peer = Egress(watched.path), warden.peer()
    egress.wait(SYNCED)
    assert len(egress.wait(HELLO).fds) == 3
    name = create(peer, policy=b'{"defaultAction":"allow"}')
    told = egress.wait(BIND, name)
    assert told.network == POLICY and told.address == address_of(peer, name)
    assert os.pread(told.fds[0], 100, 0) == b'{"defaultAction":"allow"}'
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    other = create(peer, OPEN)
    assert egress.wait(BIND, other).fds == [] and egress.wait(BIND, other).network == OPEN
    peer.call(REMOVE, name)
    assert egress.wait(UNBIND, name).address == told.address
    peer.call(REMOVE, other)
    egress.close()


def test_a_create_waits_for_egress_and_fails_without_it_by_name(watched, warden):
    peer = watched.start().warden.peer()
    began = time.monotonic()
    with pytest.raises(Failed) as refused:
        create(peer)
    assert refused.value.errno == ENETDOWN and 8 < time.monotonic() - began < 14
    threading.Timer(1, lambda: watchers.append(Egress(watched.path))).start()
    watchers = []
    name = create(peer)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    peer.call(REMOVE, name)
    watchers[0].close()
    warden.settle()


def test_a_box_that_egress_cannot_bind_never_starts(watched, warden):
    watched.start()
    egress, peer = Egress(watched.path), warden.peer()
    egress.is_silent = True
    errors = []

    def run():
        try:
            create(peer)
        except Failed as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    told = egress.wait(BIND)
    egress.sock.send(egress.message(BOUND, serial=told.serial, name=told.id, failed=1, code=1, text="egress[0].target: no name"))
    thread.join()
    assert errors[0].code == 1 and errors[0].message == "egress[0].target: no name"
    egress.close()


def test_rules_hold_from_the_first_packet_on_and_change_in_one_step(watched, warden, world):
    watched.start()
    egress, peer = Egress(watched.path, lambda told: (0, [packed(f"{NEIGHBOUR}/32", 1)])), warden.peer()
    name = create(peer)
    address = address_of(peer, name)
    assert dial(peer, name, NEIGHBOUR, 8080) == f"got {HOST} hello"
    assert dial(peer, name, NEIGHBOUR, 443) == f"got {HOST} hello"  # an address that a rule allows is not relayed
    assert dial(peer, name, NEIGHBOUR, 443, "udp") == f"got {HOST} hello"
    for port in 8080, 22, 443:
        assert closed(peer, name, OUTSIDE, port)
        assert closed(peer, name, OUTSIDE, port, "udp")
    assert not any(to == OUTSIDE for to, *_ in world.seen())
    # default allow, but for one network
    assert egress.ask(RULES, address, allows=1, rules=[packed("198.51.100.0/24")]).failed == 0
    assert closed(peer, name, NEIGHBOUR, 8080)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    # a deny goes before every allow
    rules = [packed("0.0.0.0/0", 1), packed("198.51.100.0/24", 1), packed(f"{NEIGHBOUR}/32"), packed("198.51.100.0/25", 1)]
    assert egress.ask(RULES, address, allows=0, rules=rules).failed == 0
    assert closed(peer, name, NEIGHBOUR, 8080)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    assert egress.ask(RULES, address, allows=0, rules=[]).failed == 0
    assert closed(peer, name, OUTSIDE, 8080)
    assert egress.ask(RULES, "192.0.2.1", allows=1).failed == 1
    peer.call(REMOVE, name)
    egress.close()


STREAM = r"""
import socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
s.settimeout(1)
last, end = time.time(), time.time() + float(sys.argv[3])
count = 0
while time.time() < end:
    try:
        s.sendall(b"x")
        if not s.recv(100):
            break
        count += 1
        last = time.time()
    except OSError:
        pass
    time.sleep(0.02)
print(count, round(end - last, 2))
"""


def stream(peer, name, host, port, seconds):
    """Runs beside us: the result is (answers, seconds of silence before the end)."""
    result = []

    def run():
        count, silence = script(peer, name, STREAM, host, port, seconds).split()
        result.extend([int(count), float(silence)])

    thread = threading.Thread(target=run)
    thread.start()
    return thread, result


def test_a_change_ends_the_flows_that_it_forbids_and_no_others(watched, warden):
    watched.start()
    allowed = [packed(f"{NEIGHBOUR}/32", 1), packed(f"{OUTSIDE}/32", 1)]
    egress, peer = Egress(watched.path, lambda told: (0, allowed)), warden.peer()
    name = create(peer)
    address = address_of(peer, name)
    dropped, kept = stream(warden.peer(), name, NEIGHBOUR, 8080, 4), stream(warden.peer(), name, OUTSIDE, 8080, 4)
    time.sleep(1.5)
    assert egress.ask(RULES, address, allows=0, rules=allowed[1:]).failed == 0
    for thread, _ in (dropped, kept):
        thread.join()
    assert dropped[1][0] > 5 and dropped[1][1] > 1, dropped
    assert kept[1][0] > 50 and kept[1][1] < 0.5, kept
    peer.call(REMOVE, name)
    egress.close()


def test_a_learned_address_is_open_at_its_ports_for_its_time(watched, warden, world):
    watched.start()
    egress, peer = Egress(watched.path, lambda told: (0, [])), warden.peer()
    name, other = create(peer), create(peer)
    address = address_of(peer, name)
    assert egress.ask(LEARN, address, net=OUTSIDE, ports=(22, 8080), seconds=5).failed == 0
    began = time.monotonic()
    running = stream(warden.peer(), name, OUTSIDE, 22, 8)
    assert dial(peer, name, OUTSIDE, 22) == f"got {HOST} hello" and dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    assert closed(peer, name, OUTSIDE, 22, "udp")
    assert closed(peer, other, OUTSIDE, 22)  # of this sandbox alone
    assert egress.ask(FORGET, address, net=OUTSIDE, ports=(8080,)).failed == 0
    assert closed(peer, name, OUTSIDE, 8080)
    time.sleep(max(0, began + 5.5 - time.monotonic()))
    assert closed(peer, name, OUTSIDE, 22)  # nothing new by now
    assert egress.ask(CUT, address, net=f"{OUTSIDE}/32").failed == 0
    running[0].join()
    assert running[1][0] > 100 and 0.5 < running[1][1] < 2.5, running  # it went on until it was cut
    for name in name, other:
        peer.call(REMOVE, name)
    egress.close()


def test_port_53_leads_to_egress_wherever_it_was_sent_and_web_ports_to_the_relay(watched, warden, world):
    watched.start()
    egress, peer = Egress(watched.path, lambda told: (0, [])), warden.peer()
    egress.wait(SYNCED)
    name = create(peer)
    udp, tcp, relay = (socket.socket(fileno=os.dup(fd)) for fd in egress.sockets)
    for s in udp, tcp, relay:
        s.settimeout(5)

    def answer(s):
        if s is udp:
            data, who = s.recvfrom(100)
            s.sendto(f"{who[0]} {data.decode()}".encode(), who)
            return
        c, who = s.accept()
        to = ""
        if s is relay:
            port, to = struct.unpack("!2xH4s8x", c.getsockopt(socket.SOL_IP, 80, 16))
            to = f" {socket.inet_ntoa(to)}:{port}"
        c.sendall(f"{who[0]} {c.recv(100).decode()}{to}".encode())
        c.close()

    def served(s, *where, **more):
        thread = threading.Thread(target=answer, args=(s,))
        thread.start()
        got = dial(peer, name, *where, seconds=3, **more)
        thread.join()
        return got

    address = address_of(peer, name)
    gateway = network_left.gateway(warden.prefix, world.host)
    for to in gateway, OUTSIDE, "10.1.2.3":
        assert served(udp, to, 53, kind="udp") == f"got {address} hello"
        assert served(tcp, to, 53) == f"got {address} hello"
    assert served(relay, OUTSIDE, 443) == f"got {address} hello {OUTSIDE}:443"
    assert served(relay, NEIGHBOUR, 80) == f"got {address} hello {NEIGHBOUR}:80"
    # nobody dials the relay itself
    for port in 10080, 10053, 22, 443:
        assert closed(peer, name, gateway, port)
    assert world.seen() == {}
    peer.call(REMOVE, name)
    egress.close()
    for s in udp, tcp, relay:
        s.close()


# ---- ways around ---------------------------------------------------------------------------------------------


def test_no_private_address_is_reached_unless_the_operator_opens_it(warden, world):
    peer = warden.start("--network-open", "192.168.7.0/24").peer()
    name = peer.create(network=OPEN)
    for to in PRIVATE:
        assert dial(peer, name, to, 8080, seconds=0.4) == ("failed TimeoutError" if to != "192.168.7.7" else f"got {HOST} hello")
        assert dial(peer, name, to, 80, "udp", seconds=0.4).startswith("failed" if to != "192.168.7.7" else "got")
    assert {to for to, *_ in world.seen()} == {"192.168.7.7"}
    peer.call(REMOVE, name)


def test_the_host_and_other_boxes_are_out_of_reach(warden, world):
    peer = warden.start().peer()
    name, other = peer.create(network=OPEN), peer.create(network=OPEN)
    gateway = network_left.gateway(warden.prefix, world.host)
    world.serve(world.host, ",".join([HOST, gateway]), 8080, 80)
    peer.shell(other, "(python3 -m http.server 8080 >/dev/null 2>&1 &)")
    assert dial(peer, other, address_of(peer, other), 8080, text="GET", seconds=3) != ""
    for to in HOST, gateway, address_of(peer, other), "255.255.255.255", "224.0.0.1":
        for port in 8080, 80, 10053, 10080:
            assert closed(peer, name, to, port), (to, port)
    assert world.seen() == {}
    for one in name, other:
        peer.call(REMOVE, one)


def test_ports_that_would_resolve_names_elsewhere_are_closed(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    for port in 853, 5353, 5355, 137:
        for kind in "tcp", "udp":
            assert closed(peer, name, OUTSIDE, port, kind)
    assert closed(peer, name, OUTSIDE, 53, "udp")  # nobody resolves here
    assert world.seen() == {}
    peer.call(REMOVE, name)


PING = r"""
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(0.05)
got = 0
for i in range(int(sys.argv[2])):
    s.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, i) + b"x" * 8, (sys.argv[1], 0))
    try:
        s.recv(100)
        got += 1
    except OSError:
        pass
print(got)
"""


def test_pings_are_few_and_none_where_everything_else_is_denied(watched, warden, world):
    watched.start()
    egress, peer = Egress(watched.path, lambda told: (told.network == OPEN, [])), warden.peer()
    open_box, guarded = create(peer, OPEN), create(peer)
    assert 5 <= int(script(peer, open_box, PING, OUTSIDE, 100)) <= 70  # ten at once, and ten a second
    seen = world.seen()
    assert int(script(peer, guarded, PING, OUTSIDE, 5)) == 0
    assert world.seen() == seen and set(seen) == {(OUTSIDE, "icmp")}
    for one in open_box, guarded:
        peer.call(REMOVE, one)
    egress.close()


# Sent by the host's root in the box's network: more than anybody in the box can.
SPOOF = r"""
import socket, struct, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("eth0", 0))
mac = bytes.fromhex("020000000001")

def total(data):
    s = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff

def packet(source, to, proto=17, payload=struct.pack("!HHHH", 4000, 8080, 12, 0) + b"spy!"):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, proto, 0, socket.inet_aton(source), socket.inet_aton(to))
    return head[:10] + struct.pack("!H", total(head)) + head[12:] + payload

mine, to, other = sys.argv[1:]
ip, ip6, arp, vlan = b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00\x00\x05"
link.send(mac + mac + ip + packet("203.0.113.200", to))             # another's address
link.send(mac + mac + ip + packet(other, to))                       # another box's
link.send(mac + mac + ip + packet("10.255.255.1", to))
link.send(mac + bytes.fromhex("020000000099") + ip + packet(mine, to))  # another's hardware
link.send(b"\xff" * 6 + mac + arp + bytes(28))
link.send(mac + mac + vlan + ip + packet(mine, to))
link.send(mac + mac + ip6 + bytes.fromhex("6000000000083aff") + bytes(16) + bytes(15) + b"\1" + bytes(8))
link.send(mac + mac + ip + packet(mine, to, 47, bytes(16)))         # GRE
link.send(mac + mac + ip + packet(mine, to, 132, bytes(16)))        # SCTP
print("sent")
"""


def box_pid(warden, name):
    for path in (warden.state / "boxes").glob("*/box"):
        data = path.read_bytes()
        if data[8:72].split(b"\0")[0].decode() == name:
            return struct.unpack_from("=i", data, 120)[0]
    raise AssertionError(name)


def test_frames_that_are_not_the_boxes_own_go_nowhere(warden, world):
    peer = warden.start().peer()
    name, other = peer.create(network=OPEN), peer.create(network=OPEN)
    args = [address_of(peer, name), OUTSIDE, address_of(peer, other)]
    out = subprocess.run(["nsenter", "-t", str(box_pid(warden, name)), "-n", sys.executable, "-c", SPOOF, *args], check=True,
                         capture_output=True, text=True)
    assert out.stdout == "sent\n"
    time.sleep(0.3)
    assert world.seen() == {}
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"  # and it was no mistake of the way
    for one in name, other:
        peer.call(REMOVE, one)


def test_nobody_outside_reaches_a_box(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    address = address_of(peer, name)
    peer.shell(name, "(python3 -m http.server 8080 >/dev/null 2>&1 &)")
    ip("route", "add", address, "via", HOST, netns=world.outside)
    ip("route", "add", "192.0.2.0/24", "via", HOST, netns=world.outside)
    client = ["nsenter", f"--net=/run/netns/{world.outside}", sys.executable, "-c", CLIENT, "tcp"]
    for to in address, "192.0.2.77":
        out = subprocess.run([*client, to, "8080", "hi", "0.5"], capture_output=True, text=True, check=True).stdout
        assert out.startswith("failed")
    peer.call(REMOVE, name)


def test_the_host_forwards_for_boxes_alone(warden, world):
    third = f"{world.host}x"
    ip("netns", "add", third)
    try:
        ip("-n", world.host, "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", third)
        ip("addr", "add", "192.0.2.1/24", "dev", "lan0", netns=world.host)
        ip("link", "set", "lan0", "up", netns=world.host)
        ip("addr", "add", "192.0.2.2/24", "dev", "eth0", netns=third)
        ip("link", "set", "eth0", "up", netns=third)
        ip("route", "add", "default", "via", "192.0.2.1", netns=third)
        ip("route", "add", "192.0.2.0/24", "via", HOST, netns=world.outside)
        client = ["nsenter", f"--net=/run/netns/{third}", sys.executable, "-c", CLIENT, "tcp", OUTSIDE, "8080", "hi", "0.5"]
        peer = warden.start().peer()
        name = peer.create(network=OPEN)
        assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
        assert subprocess.run(client, capture_output=True, text=True, check=True).stdout.startswith("failed")
        # The operator makes it a router: that is none of our business.
        network_left.run("sysctl", "-w", "net.ipv4.ip_forward=1", netns=world.host, check=True)
        until = time.monotonic() + 10
        while not (out := subprocess.run(client, capture_output=True, text=True, check=True).stdout).startswith("got"):
            assert time.monotonic() < until, out
        network_left.run("sysctl", "-w", "net.ipv4.ip_forward=0", netns=world.host, check=True)
        peer.call(REMOVE, name)
        warden.settle()
        warden.stop()
        for link in "up0", "lan0":
            assert network_left.run("sysctl", "-n", f"net.ipv4.conf.{link}.forwarding", netns=world.host).stdout == "0\n"
    finally:
        network_left.run("ip", "netns", "del", third)


# ---- faults --------------------------------------------------------------------------------------------------


def test_rules_that_somebody_flushed_leave_boxes_closed_until_they_are_back(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    world.serve(world.host, HOST, 8080)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    os.kill(warden.process.pid, signal.SIGSTOP)  # whoever would put them back
    try:
        network_left.run("nft", "flush", "ruleset", netns=world.host, check=True)
        seen = world.seen()
        pid = str(box_pid(warden, name))
        for to in OUTSIDE, HOST, network_left.gateway(warden.prefix, world.host), "10.9.8.7":
            out = subprocess.run(["nsenter", "-t", pid, "-n", sys.executable, "-c", CLIENT, "udp", to, "8080", "x", "0.3"],
                                 capture_output=True, text=True, check=True).stdout
            assert out.startswith("failed"), to
        assert world.seen() == seen
    finally:
        os.kill(warden.process.pid, signal.SIGCONT)
    until = time.monotonic() + 8
    while dial(peer, name, OUTSIDE, 8080, seconds=1) != f"got {HOST} hello":
        assert time.monotonic() < until
    later = peer.create(network=OPEN)  # a slot that was made before
    assert dial(peer, later, OUTSIDE, 8080) == f"got {HOST} hello"
    for one in name, later:
        peer.call(REMOVE, one)


def test_a_warden_that_was_killed_finds_boxes_and_rules_as_they_were(watched, warden, world):
    watched.start()
    egress, peer = Egress(watched.path, lambda told: (0, [packed(f"{OUTSIDE}/32", 1)])), warden.peer()
    name = create(peer)
    address = address_of(peer, name)
    assert egress.ask(LEARN, address, net=NEIGHBOUR, ports=(22,), seconds=300).failed == 0
    running = stream(warden.peer(), name, OUTSIDE, 8080, 5)
    time.sleep(0.5)
    warden.stop(signal.SIGKILL)
    egress.close()
    peer = watched.start(check=False).warden.peer()
    assert peer.list()[name].state == RUNNING
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello" and dial(peer, name, NEIGHBOUR, 22) == f"got {HOST} hello"
    assert closed(peer, name, NEIGHBOUR, 8080)
    running[0].join()
    assert running[1][0] > 100 and running[1][1] < 0.5
    egress = Egress(watched.path, lambda told: (0, [packed(f"{NEIGHBOUR}/32", 1)]))
    told = egress.wait(BIND, name)
    assert told.address == address and told.fds == [] and told.network == POLICY
    egress.wait(SYNCED)
    until = time.monotonic() + 3
    while dial(peer, name, NEIGHBOUR, 8080, seconds=1) != f"got {HOST} hello":
        assert time.monotonic() < until
    assert closed(peer, name, OUTSIDE, 8080)
    out = network_left.run("nft", "list", "set", "inet", network_left.table(warden.prefix), "allowed", netns=world.host).stdout
    assert OUTSIDE not in out and NEIGHBOUR in out
    peer.call(REMOVE, name)
    warden.settle()
    for kept in "allowed", "learned", "denied":
        out = network_left.run("nft", "list", "set", "inet", network_left.table(warden.prefix), kept, netns=world.host).stdout
        assert "elements" not in out, out
    assert warden.stop() == 0
    assert network_left.left(warden.prefix, world.host) == []
    egress.close()


def test_links_of_slots_that_a_killed_warden_left_are_removed(warden, world):
    warden.start()
    before = [n for n in network_left.left(warden.prefix, world.host) if "_" in n]
    assert len(before) == 2
    warden.stop(signal.SIGKILL)
    warden.start()
    until = time.monotonic() + 5
    while len([n for n in network_left.left(warden.prefix, world.host) if "_" in n]) != 2:
        assert time.monotonic() < until
    assert warden.stop() == 0
    assert network_left.left(warden.prefix, world.host) == []


def test_two_wardens_on_one_host_have_networks_of_their_own(warden, world, tmp_path, guest):
    (tmp_path / "second").mkdir()
    second = Warden(tmp_path / "second", f"t{uuid.uuid4().hex[:7]}", guest)
    second.netns = world.host
    try:
        a, b = warden.start().peer(), second.start().peer()
        assert network_left.range_of(warden.prefix, world.host) != network_left.range_of(second.prefix, world.host)
        one, two = a.create(network=OPEN), b.create(network=OPEN)
        assert dial(a, one, OUTSIDE, 8080) == f"got {HOST} hello" and dial(b, two, OUTSIDE, 8080) == f"got {HOST} hello"
        b.shell(two, "(python3 -m http.server 8080 >/dev/null 2>&1 &)")
        assert closed(a, one, address_of(b, two), 8080)
        a.call(REMOVE, one)
        warden.settle()
        warden.stop()
        assert dial(b, two, OUTSIDE, 8080) == f"got {HOST} hello"
        b.call(REMOVE, two)
        second.settle()
        second.stop()
        assert network_left.left(second.prefix, world.host) == []
    finally:
        second.clean()


FLOOD = r"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[2])):
    s2 = s if i % 1000 else socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s2.sendto(b"x", (sys.argv[1], 10000 + i % 50000))
print("sent")
"""


def test_one_box_cannot_fill_the_hosts_table_of_connections(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    began = time.monotonic()
    for _ in range(3):
        assert script(peer, name, FLOOD, OUTSIDE, 8000) == "sent\n"
    took = time.monotonic() - began
    flows = int(network_left.run("sysctl", "-n", "net.netfilter.nf_conntrack_count", netns=world.host).stdout)
    assert flows <= min(4096, 500 + 500 * took + 200) + 50, (flows, took)
    peer.call(REMOVE, name)
    until = time.monotonic() + 8  # those of boxes that are gone end a moment later, all together
    while int(network_left.run("sysctl", "-n", "net.netfilter.nf_conntrack_count", netns=world.host).stdout) >= 50:
        assert time.monotonic() < until


def test_docker_lets_boxes_by_also_after_it_made_its_rules_anew(warden, world):
    def docker():
        for args in ("-N", "DOCKER-USER"), ("-P", "FORWARD", "DROP"), ("-A", "FORWARD", "-j", "DOCKER-USER"):
            network_left.run("iptables", *args, netns=world.host, check=True)

    docker()
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    network_left.run("iptables", "-F", netns=world.host, check=True)
    network_left.run("iptables", "-A", "FORWARD", "-j", "DOCKER-USER", netns=world.host, check=True)
    until = time.monotonic() + 8
    while dial(peer, name, OUTSIDE, 8080, seconds=1) != f"got {HOST} hello":
        assert time.monotonic() < until
    peer.call(REMOVE, name)
    warden.settle()
    assert warden.stop() == 0
    assert "opensandbox" not in network_left.run("iptables", "-S", netns=world.host).stdout


# ---- SIGKILL at every named place (base/kill_point.h) ----------------------------------------------------------

PLACES = [
    ("start", "warden.network.claimed"), ("start", "warden.network.table"), ("start", "warden.network.routes"),
    ("start", "warden.slot.pair"), ("start", "warden.slot.link"), ("create", "warden.bind.asked"), ("create", "warden.rules.set"),
    ("create", "warden.bind.bound"), ("remove", "warden.release.closed"),
    ("stop", "warden.network.unrouted"), ("stop", "warden.network.untabled"),
]


@pytest.mark.skipif(b"warden.network.table" not in WARDEN.read_bytes() if WARDEN.exists() else True, reason="only the test build has kill points")
@pytest.mark.parametrize("when, place", PLACES)
def test_a_warden_that_dies_there_leaves_nothing_that_the_next_one_does_not_clear(watched, warden, world, tmp_path, when, place):
    switch = KillSwitch(tmp_path / "switch")

    def start(armed):
        if armed:
            switch.arm(place)
        fd = watched.listener.fileno()
        warden.start("--egress-fd", str(fd), pass_fds=[fd, switch.fd], env={"OPENSANDBOX_KILL_POINT_FD": str(switch.fd)}, check=False)

    try:
        start(when == "start")
        if when != "start":
            warden.settle()
            egress, peer = Egress(watched.path), warden.peer()
            name = create(peer, OPEN) if when == "remove" else None
            switch.arm(place)
            with contextlib.suppress(EOFError, OSError):
                if when == "create":
                    create(peer)
                if when == "remove":
                    peer.call(REMOVE, name)
                    time.sleep(1)
                if when == "stop":
                    warden.process.send_signal(signal.SIGTERM)
            egress.close()
        assert warden.process.wait(20) == -signal.SIGKILL
        start(False)
        egress, peer = Egress(watched.path), warden.peer()
        warden.settle()
        assert peer.list() == {}
        name = create(peer, OPEN)
        assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
        peer.call(REMOVE, name)
        warden.settle()
        assert warden.stop() == 0
        egress.close()
        assert network_left.left(warden.prefix, world.host) == []
    finally:
        switch.close()


# ---- files for names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bend", ["resolv.conf", "hosts", "etc", "file", "closed"])
def test_an_image_that_bends_the_files_for_names_reaches_nothing_of_the_host(warden, tmp_path, bend):  # R2
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", image / "bin/busybox")
    (image / "bin/sh").symlink_to("busybox")
    if bend == "etc":
        (image / "etc").symlink_to("/tmp")
    elif bend == "file":
        (image / "etc").write_text("x")
    else:
        (image / "etc").mkdir()
        (image / "etc/kept").write_text("kept\n")
        if bend == "closed":
            (image / "etc").chmod(0o750)
        else:
            (image / "etc" / bend).symlink_to("/../../../../../../etc/passwd")
    before = {p: os.stat(p).st_mtime_ns for p in ("/etc/passwd", "/etc", "/etc/resolv.conf", "/etc/hosts", "/tmp/resolv.conf") if os.path.exists(p)}
    peer = warden.start("--image", str(image)).peer()
    name = peer.create(image=1, network=OPEN)
    box = "/bin/busybox"
    out = peer.shell(name, f"{box} cat /etc/resolv.conf /etc/hosts; {box} test -L /etc/resolv.conf || echo real; {box} stat -c %a /etc; {box} ls /etc")
    gateway = network_left.gateway(warden.prefix, warden.netns)
    assert f"nameserver {gateway}\n" in out and f"\t{name}\n" in out and "real\n" in out
    assert ("kept\n" in out) == (bend not in ("etc", "file"))
    assert ("\n750\n" if bend == "closed" else "\n755\n") in out
    assert peer.shell(name, f"echo mine >/etc/resolv.conf; {box} cat /etc/resolv.conf") == "mine\n"
    peer.call(REMOVE, name)
    assert {p: os.stat(p).st_mtime_ns for p in before} == before


def test_boxes_of_an_earlier_start_keep_their_network_when_it_is_turned_off(warden, world):
    peer = warden.start().peer()
    name = peer.create(network=OPEN)
    warden.stop()
    peer = warden.start("--no-network", check=False).peer()
    assert dial(peer, name, OUTSIDE, 8080) == f"got {HOST} hello"
    with pytest.raises(Failed) as refused:
        peer.create(network=OPEN)
    assert refused.value.errno == ENETDOWN
    peer.call(REMOVE, name)
    warden.settle()
    warden.stop()
    assert network_left.left(warden.prefix, world.host) == []
