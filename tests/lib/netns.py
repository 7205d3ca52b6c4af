# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for tests: made by name, entered by threads, gone when they are left."""
import contextlib
import ctypes
import json
import os
import socket
import subprocess
import uuid

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
FOLDER = "/run/netns"
PREFIX = "osbt-"


def set_netns(fd):
    if LIBC.setns(fd, CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "setns")


def run(*words, text=None):
    return subprocess.run(words, check=True, input=text, capture_output=True, text=True).stdout


class Netns:
    """A network namespace. Sockets that are made within `entered()` belong to it for good, whoever uses them later."""

    def __init__(self, what):
        self.name = f"{PREFIX}{uuid.uuid4().hex[:6]}-{what}"
        run("ip", "netns", "add", self.name)
        self.path = f"{FOLDER}/{self.name}"
        self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self.ip("link", "set", "lo", "up")

    def remove(self):
        os.close(self.fd)
        run("ip", "netns", "del", self.name)

    def ip(self, *words):
        return run("ip", "-n", self.name, *words)

    def nft(self, text):
        """Like `nft -f -`."""
        return self.run("nft", "-j", "-f", "-", text=text)

    def run(self, *words, text=None):
        """A program in it. Unlike `ip netns exec`, this leaves /sys as it is: control groups are mounted there."""
        return run("nsenter", f"--net={self.path}", *words, text=text)

    def sysctl(self, **values):
        with self.entered():
            for key, value in values.items():
                with open(f"/proc/sys/net/{key.replace('__', '/')}", "w") as f:
                    f.write(str(value))

    @contextlib.contextmanager
    def entered(self):
        """This thread alone is in it."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        set_netns(self.fd)
        try:
            yield
        finally:
            set_netns(own)
            os.close(own)

    def enter(self):
        """For preexec_fn of subprocess.Popen."""
        set_netns(self.fd)

    def make_socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM, proto=0):
        with self.entered():
            return socket.socket(family, kind, proto)

    def connect(self, address, timeout=10, source_address=None):
        """As socket.create_connection() does."""
        s = self.make_socket()
        s.settimeout(timeout)
        try:
            if source_address:
                s.bind(source_address)
            s.connect(address)
        except BaseException:
            s.close()
            raise
        return s

    def listen(self, address, port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        s = self.make_socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(128)
        return s

    def links(self):
        return [link["ifname"] for link in json.loads(self.ip("-j", "link", "show"))]

    def tables(self):
        """Of nf_tables, as "family name"."""
        found = json.loads(self.run("nft", "-j", "list", "tables"))["nftables"]
        return [f"{t['table']['family']} {t['table']['name']}" for t in found if "table" in t]


def pair(a, a_name, b, b_name):
    """A veth pair between two of them, both ends up."""
    a.ip("link", "add", a_name, "type", "veth", "peer", "name", b_name, "netns", b.name)
    a.ip("link", "set", a_name, "up")
    b.ip("link", "set", b_name, "up")


def left_over():
    """Namespaces of this kind that nobody has removed."""
    return [n for n in os.listdir(FOLDER) if n.startswith(PREFIX)] if os.path.isdir(FOLDER) else []
