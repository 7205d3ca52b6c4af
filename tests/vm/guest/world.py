# SPDX-License-Identifier: Apache-2.0
"""The Internet of the machine: a network namespace with a resolver and a web server on addresses that sandboxes may reach.

Run as a program it is that namespace's server; start() makes the namespace, and the machine asks its resolver from then on."""
import http.server
import pathlib
import socket
import subprocess
import sys
import threading

HOST, GATEWAY = "192.0.2.2", "192.0.2.1"
RESOLVER, GOOD, BAD = "198.51.100.53", "198.51.100.10", "203.0.113.66"
NAMES = {"good.test": GOOD, "bad.test": BAD}

SETUP = f"""ip netns add world
ip link add world0 type veth peer name up0 netns world
ip addr add {HOST}/24 dev world0
ip link set world0 up
ip route add 198.51.100.0/24 via {GATEWAY}
ip route add 203.0.113.0/24 via {GATEWAY}
ip -n world link set lo up
ip -n world addr add {GATEWAY}/24 dev up0
ip -n world link set up0 up
ip -n world addr add {RESOLVER}/32 dev lo
ip -n world addr add {GOOD}/32 dev lo
ip -n world addr add {BAD}/32 dev lo"""


def start():
    for line in SETUP.splitlines():
        if line:
            subprocess.run(line.split(), check=True)
    subprocess.Popen(["ip", "netns", "exec", "world", sys.executable, __file__], stdout=subprocess.DEVNULL)
    pathlib.Path("/etc/resolv.conf").write_text(f"nameserver {RESOLVER}\n")


class Here:
    """The namespace that this program runs in, for nameserver.DnsServer."""

    @staticmethod
    def listen(address, port, kind=socket.SOCK_STREAM):
        s = socket.socket(socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        return s


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"from {self.request.getsockname()[0]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    import nameserver
    dns = nameserver.DnsServer(Here, RESOLVER)
    for name, address in NAMES.items():
        dns.zone.set(name, "A", address)
    for address in (GOOD, BAD):
        server = http.server.ThreadingHTTPServer((address, 80), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
