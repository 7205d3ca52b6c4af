# SPDX-License-Identifier: Apache-2.0
"""The tests' own Internet, out of network namespaces.

    host     where the server under test runs: up0, 192.0.2.2 and 2001:db8:1::2, everything by way of 192.0.2.1
    world    all of the rest, behind its end of that link: resolvers, web servers with and without TLS, echoes, on addresses of
             the documentation ranges, and on some that no sandbox may ever reach: private ones, a metadata service

Whatever leaves the host passes the world's end of the link, where every packet is written down (`packets`), and can be counted
by the kernel (`count`). Nothing outside of the two namespaces is touched."""
import contextlib
import dataclasses
import http.server
import json
import pathlib
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from nameserver import DnsServer, Zone
from netns import Netns, pair

HOST, GATEWAY = "192.0.2.2", "192.0.2.1"
HOST6, GATEWAY6, WEB6 = "2001:db8:1::2", "2001:db8:1::1", "2001:db8:2::80"
RESOLVER = "198.51.100.53"    # the one that egress asks
FOREIGN = "203.0.113.53"      # one that a sandbox may try: DNS, DoT, DoH
GOOD, OTHER, SHARED, BAD = "198.51.100.10", "198.51.100.20", "198.51.100.30", "203.0.113.66"
PRIVATE = ["10.99.0.1", "172.31.9.9", "192.168.99.1", "169.254.169.254", "100.64.9.9", "168.63.129.16", "198.18.0.9"]
WORLD = [RESOLVER, FOREIGN, GOOD, OTHER, SHARED, BAD, *PRIVATE]
TCP_PORTS = [22, 25, 80, 443, 853, 5353, 8080, 8443, 9000]
UDP_PORTS = [7, 123, 137, 443, 853, 5353, 5355, 9000]
BIG = 64 << 20
IP_PKTINFO = 8


@dataclasses.dataclass(frozen=True)
class Packet:
    """One that left the host. PROTO is a number of the IP header, or -1 for what is no IP at all."""

    at: float
    source: str
    target: str
    proto: int
    source_port: int
    port: int
    data: bytes

    @property
    def is_tcp(self):
        return self.proto == 6

    @property
    def is_udp(self):
        return self.proto == 17


class Sniffer:
    """Reads the world's end of the link. What the kernel could not hand over is counted: `lost` must stay 0."""

    def __init__(self, netns, link):
        with netns.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            self.socket.bind((link, 0))
        self.packets, self.lost = [], 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                frame, (_, _, kind, _, _) = self.socket.recvfrom(65535)
            except OSError:
                return
            if kind != socket.PACKET_OUTGOING:
                packet = self.parse(frame)
                if packet:
                    self.packets.append(packet)

    @staticmethod
    def parse(frame):
        ethertype = struct.unpack_from("!H", frame, 12)[0]
        now = time.monotonic()
        if ethertype == 0x0806:
            return None  # the two ends of the link find each other
        if ethertype == 0x0800:
            size = (frame[14] & 15) * 4
            proto, at = frame[23], 14 + size
            source, target = (socket.inet_ntop(socket.AF_INET, frame[i:i + 4]) for i in (26, 30))
        elif ethertype == 0x86DD:
            proto, at = frame[20], 54
            source, target = (socket.inet_ntop(socket.AF_INET6, frame[i:i + 16]) for i in (22, 38))
            if target.startswith(("ff", "fe80")) or (proto == 58 and frame[54] in range(133, 138)):
                return None  # neighbours find each other
        else:
            return Packet(now, "", "", -1, 0, 0, frame)
        ports = struct.unpack_from("!HH", frame, at) if proto in (6, 17) and len(frame) >= at + 4 else (0, 0)
        return Packet(now, source, target, proto, *ports, frame[at:at + 512])

    def check(self):
        """How many packets were lost since the last time."""
        self.lost += struct.unpack("=II", self.socket.getsockopt(263, 6, 8))[1]  # SOL_PACKET, PACKET_STATISTICS
        return self.lost


class Authority:
    """A certificate authority, and one certificate for every name under .test."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-test-ca-"))
        names = ["*.test", "*.good.test", "*.bad.test", "*.shared.test", "*.wild.test", "*.deep.wild.test"]
        (self.folder / "ext").write_text("subjectAltName=" + ",".join(f"DNS:{n}" for n in names) + f",IP:{FOREIGN},IP:{GOOD},IP:{BAD}\n")
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=Tests")
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=test")
        self.openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "leaf.pem",
                     "-days", "2", "-extfile", "ext")

    def openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    @property
    def pem(self):
        return (self.folder / "ca.pem").read_text()

    def context(self, seen):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "leaf.pem", self.folder / "leaf.key")
        context.sni_callback = lambda s, name, _: seen(s, name)
        return context

    def close(self):
        shutil.rmtree(self.folder)


class Web(http.server.BaseHTTPRequestHandler):
    """GET / tells who asked for what; /big sends BIG bytes, /drip one byte every 50 ms; POST counts what it gets, and one to
    /dns-query is a question of DNS over HTTPS (RFC 8484)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, more=None):
        seen = {"host": self.headers.get("Host"), "path": self.path, "address": self.connection.getsockname()[0],
                "port": self.connection.getsockname()[1], "sni": getattr(self.connection, "asked_name", None), **(more or {})}
        self.server.internet.requests.append({**seen, "peer": self.client_address[0]})
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", str(BIG))
            self.end_headers()
            piece = b"x" * (1 << 20)
            for _ in range(BIG // len(piece)):
                self.wfile.write(piece)
        elif self.path == "/drip":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(100000):
                    self.wfile.write(b".")
                    self.wfile.flush()
                    time.sleep(0.05)
        else:
            self.tell()

    def answer_name(self):
        reply = self.server.internet.foreign_dns.answer(self.rfile.read(int(self.headers["Content-Length"])), "https")
        self.send_response(200)
        self.send_header("Content-Type", "application/dns-message")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def do_POST(self):
        if self.path == "/dns-query":
            self.answer_name()
            return
        left = int(self.headers.get("Content-Length", 0))
        got = 0
        while got < left and (piece := self.rfile.read(min(left - got, 1 << 20))):
            got += len(piece)
        self.tell({"got": got})


class WebServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def __init__(self, internet, listener, context=None):
        self.internet, self.context = internet, context
        super().__init__(("", 0), Web, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def get_request(self):
        s, peer = self.socket.accept()
        self.internet.connections.append((s.getsockname()[:2], peer[0]))
        return s, peer

    def process_request_thread(self, request, address):
        if self.context:
            try:
                request.settimeout(20)
                request = self.context.wrap_socket(request, server_side=True)
                request.settimeout(None)
            except OSError:
                request.close()
                return
        super().process_request_thread(request, address)

    def handle_error(self, request, address):
        pass


class Echo:
    """Sends back what it gets, and notes it."""

    def __init__(self, internet, listener, is_stream):
        self.internet, self.socket = internet, listener
        threading.Thread(target=self.streams if is_stream else self.datagrams, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def datagrams(self):
        self.socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)  # the answer comes from the address that was asked
        with contextlib.suppress(OSError):
            while True:
                data, more, _, peer = self.socket.recvmsg(65535, 64)
                if not more:
                    return
                info = more[0][2]
                self.internet.datagrams.append((socket.inet_ntoa(info[8:12]), self.socket.getsockname()[1], peer[0], data))
                with contextlib.suppress(OSError):
                    self.socket.sendmsg([data], [(socket.IPPROTO_IP, IP_PKTINFO, bytes(4) + info[8:12] + bytes(4))], 0, peer)

    def streams(self):
        with contextlib.suppress(OSError):
            while True:
                s, peer = self.socket.accept()
                self.internet.connections.append((s.getsockname()[:2], peer[0]))
                threading.Thread(target=self.stream, args=(s,), daemon=True).start()

    @staticmethod
    def stream(s):
        with s, contextlib.suppress(OSError):
            s.sendall(b"hello\n")
            while data := s.recv(65536):
                s.sendall(data)


class Counter:
    """What passed the world's end of the link and fits an expression of nft, counted by the kernel."""

    def __init__(self, world, what):
        self.world, self.name = world, f"c{time.monotonic_ns()}"
        world.run("nft", f"add counter inet tests {self.name}; add rule inet tests in {what} counter name {self.name}")

    @property
    def packets(self):
        found = json.loads(self.world.run("nft", "-j", "list", "counter", "inet", "tests", self.name))["nftables"]
        return next(c["counter"]["packets"] for c in found if "counter" in c)


class Internet:
    """IS_QUIET: nobody listens but the resolvers, and packets are not written down: for measurements."""

    def __init__(self, is_quiet=False):
        self.requests, self.connections, self.datagrams = [], [], []
        self.is_quiet = is_quiet
        self.zone = Zone()
        with contextlib.ExitStack() as stack:
            self.host, self.world = Netns("host"), None
            stack.callback(self.host.remove)
            self.world = Netns("world")
            stack.callback(self.world.remove)
            self.plumb()
            self.authority = Authority()
            stack.callback(self.authority.close)
            self.serve_names(stack)
            if not is_quiet:
                self.sniffer = Sniffer(self.world, "down0")
                stack.callback(self.sniffer.socket.close)
                self.serve(stack)
            self.stack = stack.pop_all()
        self.names()

    def close(self):
        self.stack.close()

    def plumb(self):
        host, world = self.host, self.world
        pair(host, "up0", world, "down0")
        host.ip("addr", "add", f"{HOST}/24", "dev", "up0")
        world.ip("addr", "add", f"{GATEWAY}/24", "dev", "down0")
        host.ip("-6", "addr", "add", f"{HOST6}/64", "dev", "up0", "nodad")
        world.ip("-6", "addr", "add", f"{GATEWAY6}/64", "dev", "down0", "nodad")
        world.ip("-6", "addr", "add", f"{WEB6}/128", "dev", "lo", "nodad")
        for address in WORLD:
            world.ip("addr", "add", f"{address}/32", "dev", "lo")
        host.ip("route", "add", "default", "via", GATEWAY)
        host.ip("-6", "route", "add", "default", "via", GATEWAY6)
        # What a sandbox sends with a source of its own would be seen, not dropped: the tests have to see it.
        world.sysctl(ipv4__conf__all__rp_filter=0, ipv4__conf__down0__rp_filter=0)
        world.run("nft", "add table inet tests; add chain inet tests in { type filter hook prerouting priority -500; }")

    def serve_names(self, stack):
        self.dns = DnsServer(self.world, RESOLVER, zone=self.zone)
        self.foreign_dns = DnsServer(self.world, FOREIGN, zone=self.zone)
        stack.callback(self.dns.close)
        stack.callback(self.foreign_dns.close)

    def serve(self, stack):
        tls = self.authority.context(self.note_name)
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for port, context in ((80, None), (443, tls), (8080, None), (8443, tls)):
                web = WebServer(self, self.world.listen(address, port, family), context)
                stack.callback(web.server_close)
                stack.callback(web.shutdown)
        for port in set(TCP_PORTS) - {80, 443, 8080, 8443}:
            stack.callback(Echo(self, self.world.listen("0.0.0.0", port), True).close)
        for port in UDP_PORTS:
            stack.callback(Echo(self, self.world.listen("0.0.0.0", port, kind=socket.SOCK_DGRAM), False).close)

    @staticmethod
    def note_name(s, name):
        s.asked_name = name

    def names(self):
        z = self.zone
        z.set("good.test", "A", GOOD)
        z.set("www.good.test", "A", GOOD)
        z.set("api.good.test", "A", GOOD)
        z.set("other.test", "A", OTHER)
        z.set("bad.test", "A", BAD)
        z.set("www.bad.test", "A", BAD)
        for name in ("one.shared.test", "two.shared.test"):
            z.set(name, "A", SHARED)
        z.set("six.test", "A", GOOD)
        z.set("six.test", "AAAA", WEB6)
        z.set("alias.good.test", "CNAME", "good.test")
        z.set("alias.test", "CNAME", "bad.test")  # an allowed name that leads to a denied one
        z.set("chain.test", "CNAME", "alias.good.test")
        z.set("*.wild.test", "A", GOOD)
        z.set("text.test", "TXT", b"words")
        z.set("text.test", "A", GOOD)
        z.set("short.test", "A", GOOD, ttl=1)
        z.set("many.test", "A", *[f"198.51.100.{i}" for i in range(100, 180)])
        for i, address in enumerate(PRIVATE):
            z.set(f"private{i}.test", "A", address)
        z.set("mixed.test", "A", PRIVATE[0], GOOD)
        z.set("host.test", "A", HOST)
        z.set("doh.test", "A", FOREIGN)
        z.set("hook.test", "A", OTHER)

    # ---- what left the host ----

    def mark(self):
        """A moment: what comes later is what packets() gives."""
        self.settle()
        return len(self.sniffer.packets)

    def settle(self):
        """What is on its way arrives."""
        last = -1
        while last != len(self.sniffer.packets):
            last = len(self.sniffer.packets)
            time.sleep(0.05)

    def packets(self, since=0, **fields):
        """Those that left since then and have these FIELDS. None was lost."""
        self.settle()
        assert self.sniffer.check() == 0, "packets were lost: the count means nothing"
        return [p for p in self.sniffer.packets[since:] if all(getattr(p, k) == v for k, v in fields.items())]

    def count(self, what):
        return Counter(self.world, what)
