# SPDX-License-Identifier: Apache-2.0
"""DNS for tests: messages, and an authoritative server that does what the test says and remembers what it was asked."""
import socket
import struct
import threading
import time

A, NS, CNAME, SOA, NULL, TXT, AAAA, OPT, HTTPS, ANY = 1, 2, 5, 6, 10, 16, 28, 41, 65, 255
TYPES = {"A": A, "NS": NS, "CNAME": CNAME, "TXT": TXT, "AAAA": AAAA, "HTTPS": HTTPS, "NULL": NULL, "ANY": ANY}
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
TC = 0x0200


def put_name(name):
    labels = [label.encode("latin-1") for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def get_name(message, at):
    """The name, and where what follows it begins."""
    labels, end, jumps = [], None, 0
    while True:
        n = message[at]
        if n >= 0xC0:
            end = end or at + 2
            at = struct.unpack_from("!H", message, at)[0] & 0x3FFF
            jumps += 1
            if jumps > 32:
                raise ValueError("a name that never ends")
        elif n == 0:
            return ".".join(labels), end or at + 1
        else:
            labels.append(message[at + 1:at + 1 + n].decode("latin-1"))
            at += 1 + n


def query(name, kind=A, ident=0x1234, edns=None, rd=True):
    flags = 0x0100 if rd else 0
    head = struct.pack("!6H", ident, flags, 1, 0, 0, 1 if edns else 0)
    extra = b"\0" + struct.pack("!HHIH", OPT, edns, 0, 0) if edns else b""
    return head + put_name(name) + struct.pack("!HH", kind, 1) + extra


class Message:
    def __init__(self, data):
        self.data = data
        self.id, self.flags, n_questions, n_answers, n_authority, n_more = struct.unpack_from("!6H", data)
        self.rcode, self.is_cut = self.flags & 15, bool(self.flags & TC)
        self.questions, self.answers, self.more = [], [], []
        at = 12
        for _ in range(n_questions):
            name, at = get_name(data, at)
            self.questions.append((name, *struct.unpack_from("!HH", data, at)))
            at += 4
        for i in range(n_answers + n_authority + n_more):
            name, at = get_name(data, at)
            kind, cls, ttl, n = struct.unpack_from("!HHIH", data, at)
            at += 10
            row = (name, kind, ttl, self.value(kind, at, n))
            (self.answers if i < n_answers else self.more).append(row)
            at += n

    def value(self, kind, at, n):
        data = self.data[at:at + n]
        if kind == A:
            return socket.inet_ntop(socket.AF_INET, data)
        if kind == AAAA:
            return socket.inet_ntop(socket.AF_INET6, data)
        return get_name(self.data, at)[0] if kind in (CNAME, NS) else data

    def addresses(self):
        return [value for _, kind, _, value in self.answers if kind in (A, AAAA)]


def put_value(kind, value):
    if kind == A:
        return socket.inet_pton(socket.AF_INET, value)
    if kind == AAAA:
        return socket.inet_pton(socket.AF_INET6, value)
    if kind in (CNAME, NS):
        return put_name(value)
    if kind == TXT:
        pieces = [value[i:i + 255] for i in range(0, len(value), 255)] or [b""]
        return b"".join(bytes([len(p)]) + p for p in pieces)
    return value


class Zone:
    """What there is. A value that is callable is called for each answer and gives a list of values: addresses that change."""

    def __init__(self):
        self.rows = {}
        self.lock = threading.Lock()

    def set(self, name, kind, *values, ttl=60):
        with self.lock:
            self.rows[name.lower(), TYPES[kind]] = (ttl, values)

    def drop(self, name):
        with self.lock:
            self.rows = {k: v for k, v in self.rows.items() if k[0] != name.lower()}

    def find(self, name, kind):
        """Rows (name, kind, ttl, value) of an answer, along CNAMEs; None: there is no such name."""
        found, seen = [], 0
        name = name.lower()
        while seen < 16:
            seen += 1
            at = self.at(name)
            if at is None:
                return found or None
            row = self.rows.get((at, kind)) or self.rows.get((at, CNAME))
            if not row:
                return found
            via = CNAME if (at, kind) not in self.rows else kind
            values = [v for value in row[1] for v in (value() if callable(value) else [value])]
            found += [(name, via, row[0], value) for value in values]
            if via == kind:
                return found
            name = values[0].lower()
        return found

    def at(self, name):
        """The name itself, or the wildcard that it falls under."""
        names = {n for n, _ in self.rows}
        if name in names:
            return name
        labels = name.split(".")
        return next((w for i in range(1, len(labels)) if (w := ".".join(["*", *labels[i:]])) in names), None)


class DnsServer:
    """UDP and TCP on one address. `queries` has (time, transport, name, type) of everything that came."""

    def __init__(self, netns, address, port=53, zone=None, delay=0):
        self.zone = zone or Zone()
        self.queries, self.delay, self.is_silent, self.cuts = [], delay, False, False
        self.rcode = None  # answers everything with this
        self.mangle = None  # (question, answer) -> answer, in bytes
        self.udp = netns.listen(address, port, kind=socket.SOCK_DGRAM)
        self.tcp = netns.listen(address, port)
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def close(self):
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def asked(self, name=None):
        return [q for q in list(self.queries) if name is None or q[2].lower() == name]

    def answer(self, data, transport):
        try:
            q = Message(data)
            name, kind, _ = q.questions[0]
        except (ValueError, IndexError, struct.error):
            self.queries.append((time.monotonic(), transport, "?", 0))
            return None
        self.queries.append((time.monotonic(), transport, name, kind))
        if self.is_silent:
            return None
        rows = self.zone.find(name, kind)
        rcode = NXDOMAIN if rows is None else NOERROR
        if self.rcode is not None:
            rows, rcode = [], self.rcode
        body = put_name(name) + struct.pack("!HH", kind, 1)
        for row_name, row_kind, ttl, value in rows or []:
            value = put_value(row_kind, value)
            body += put_name(row_name) + struct.pack("!HHIH", row_kind, 1, ttl, len(value)) + value
        room = next((cls for owner, k, cls in self.edns(data)), 512)
        if transport == "udp" and (len(body) + 12 > room or self.cuts):
            reply = struct.pack("!6H", q.id, 0x8180 | TC | rcode, 1, 0, 0, 0) + put_name(name) + struct.pack("!HH", kind, 1)
        else:
            reply = struct.pack("!6H", q.id, 0x8180 | rcode, 1, len(rows or []), 0, 0) + body
        return self.mangle(q, reply) if self.mangle else reply

    @staticmethod
    def edns(data):
        """(name, type, size) of the OPT row of a question, if it has one."""
        if struct.unpack_from("!H", data, 10)[0] == 0:
            return
        _, at = get_name(data, 12)
        at += 4
        if len(data) >= at + 11 and struct.unpack_from("!H", data, at + 1)[0] == OPT:
            yield "", OPT, struct.unpack_from("!H", data, at + 3)[0]

    def serve_udp(self):
        while True:
            try:
                data, peer = self.udp.recvfrom(65535)
            except OSError:
                return
            if not data:
                continue
            reply = self.answer(data, "udp")
            if reply is None:
                continue
            if self.delay:
                threading.Timer(self.delay, self.udp.sendto, (reply, peer)).start()
            else:
                self.udp.sendto(reply, peer)

    def serve_tcp(self):
        while True:
            try:
                s, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.serve_one, args=(s,), daemon=True).start()

    def serve_one(self, s):
        with s:
            s.settimeout(10)
            try:
                while head := s.recv(2, socket.MSG_WAITALL):
                    data = s.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL)
                    reply = self.answer(data, "tcp")
                    if reply is None:
                        return
                    s.sendall(struct.pack("!H", len(reply)) + reply)
            except (OSError, struct.error):
                return
