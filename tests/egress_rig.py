# SPDX-License-Identifier: Apache-2.0
"""opensandbox-egress between three network namespaces: a sandbox's, the host's and the Internet's, with this process in the warden's
place. What a warden would put into the kernel is written down; only the bending of ports 53, 80 and 443 is really there."""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import uuid

from conftest import BIN, assert_clean

EGRESS = BIN / "opensandbox-egress"
UID = 61183  # nobody's
BOX, BOX2, GATEWAY, HOST, OUTSIDE, RESOLVER = ("198.51.100.2", "198.51.100.3", "198.51.100.1", "203.0.113.1", "203.0.113.2",
                                               "203.0.113.53")
WEB, OTHER = "192.0.2.10", "192.0.2.20"
RELAY_PORT = 18443
HELLO, BIND, SYNCED, UNBIND, DONE, BOUND, RULES, LEARN, FORGET, CUT = range(1, 11)
CALLS = {RULES: "rules", LEARN: "learn", FORGET: "forget", CUT: "cut", BOUND: "bound"}
OPEN, POLICY = 1, 2
RULES_MAX = 4096


class Net(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint32), ("prefix", ctypes.c_uint8), ("is_allowed", ctypes.c_uint8), ("pad", ctypes.c_uint16)]

    def text(self):
        return f"{address_text(self.address)}/{self.prefix}"


class Err(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("sys", ctypes.c_int), ("msg", ctypes.c_char * 496)]


class Head(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("call", ctypes.c_uint32), ("serial", ctypes.c_uint64), ("id", ctypes.c_char * 64),
                ("address", ctypes.c_uint32), ("network", ctypes.c_uint32), ("allows", ctypes.c_uint32), ("seconds", ctypes.c_uint32),
                ("ports", ctypes.c_uint16 * 16), ("net", Net), ("failed", ctypes.c_uint32), ("err", Err), ("n_rules", ctypes.c_uint32)]


HEAD_SIZE = Head.n_rules.offset + 4


def address_number(text):
    return int.from_bytes(socket.inet_aton(text), "little")


def address_text(number):
    return socket.inet_ntoa(number.to_bytes(4, "little"))


def in_namespace(name, fn):
    """FN's sockets are of that namespace; the thread comes back."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as mine, open(f"/run/netns/{name}") as there:
        if libc.setns(there.fileno(), 0x40000000) < 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            return fn()
        finally:
            libc.setns(mine.fileno(), 0x40000000)


def run(*argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more)


class Namespaces:
    """box -- host -- out, with routes and what bends ports."""

    def __init__(self):
        tag = uuid.uuid4().hex[:6]
        self.box, self.host, self.out = (f"eg{tag}{x}" for x in "bho")
        self.made = []
        try:
            self.make()
        except BaseException:
            self.remove()
            raise

    def make(self):
        for name in (self.box, self.host, self.out):
            run("ip", "netns", "add", name)
            self.made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        self.link(self.box, "eth0", self.host, "box")
        self.link(self.host, "wan", self.out, "eth0")
        for address in (BOX, BOX2):
            run("ip", "-n", self.box, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", self.host, "addr", "add", f"{GATEWAY}/24", "dev", "box")
        run("ip", "-n", self.host, "addr", "add", f"{HOST}/24", "dev", "wan")
        for address in (OUTSIDE, RESOLVER):
            run("ip", "-n", self.out, "addr", "add", f"{address}/24", "dev", "eth0")
        for address in (WEB, OTHER):
            run("ip", "-n", self.out, "addr", "add", f"{address}/32", "dev", "lo")
        run("ip", "-n", self.box, "route", "add", "default", "via", GATEWAY)
        run("ip", "-n", self.host, "route", "add", "default", "via", OUTSIDE)
        run("ip", "netns", "exec", self.host, "nft", "-f", "-", input=f"""
            table ip t {{ chain c {{ type nat hook prerouting priority -100;
                iifname "box" udp dport 53 redirect to :53
                iifname "box" tcp dport 53 redirect to :53
                iifname "box" tcp dport {{ 80, 443 }} redirect to :{RELAY_PORT};
            }};
            }}""")

    @staticmethod
    def link(a, a_name, b, b_name):
        run("ip", "link", "add", "name", a_name, "netns", a, "type", "veth", "peer", "name", b_name, "netns", b)
        run("ip", "-n", a, "link", "set", a_name, "up")
        run("ip", "-n", b, "link", "set", b_name, "up")

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Dnsmasq:
    RECORDS = [f"--host-record=web.test,{WEB},60", f"--host-record=short.test,{WEB},10", f"--host-record=long.test,{WEB},9999",
               f"--host-record=other.test,{OTHER},60", "--host-record=private.test,10.1.2.3,60", f"--host-record=mixed.test,{WEB},60",
               "--host-record=mixed.test,169.254.169.254,60", "--host-record=own.test," + HOST, "--cname=alias.test,web.test",
               "--cname=bad.test,denied.test", f"--host-record=denied.test,{OTHER},60", "--txt-record=web.test,hello",
               "--mx-host=web.test,mail.test,10", *[f"--host-record=many.test,192.0.2.{i}" for i in range(100, 220)]]

    def __init__(self, namespaces, folder):
        self.log = folder / "dnsmasq.log"
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", namespaces.out, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--user=root", "--bind-interfaces", f"--listen-address={RESOLVER}", "--local=/test/", "--log-queries",
             f"--log-facility={self.log}", "--max-ttl=86400", *self.RECORDS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def queries(self):
        with contextlib.suppress(OSError):
            return [line.split("query", 1)[1].split()[:2] for line in self.log.read_text().splitlines() if ": query" in line]
        return []

    def stop(self):
        self.process.kill()
        self.process.wait()


class Web:
    """Whatever listens in the Internet: says its name and what it was told, once or for every line."""

    def __init__(self, namespaces, address, port, serve):
        self.socket = in_namespace(namespaces.out, lambda: socket.create_server((address, port)))
        self.serve = serve
        self.seen = []
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.one, args=(peer,), daemon=True).start()

    def one(self, peer):
        with contextlib.suppress(OSError, ssl.SSLError), peer:
            self.serve(peer, self.seen)

    def stop(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes whoever accepts
        self.socket.close()


class Warden:
    """In the warden's place: says yes to everything that `refuses` does not name, and keeps it."""

    def __init__(self, rig):
        self.rig = rig
        self.path = str(rig.folder / "warden.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        os.chown(self.path, UID, UID)
        os.chmod(self.path, 0o600)
        self.listener.listen()
        self.peer = None
        self.told = []
        self.refuses = set()
        self.delay = 0
        self.changed = threading.Condition()
        self.serial = 1000
        self.sockets = None
        self.known = {}  # id -> (address, network)

    def accept(self):
        self.listener.settimeout(15)
        peer, _ = self.listener.accept()
        self.peer = peer
        threading.Thread(target=self.loop, args=(peer,), daemon=True).start()
        self.send(Head(call=HELLO), [s.fileno() for s in self.make_sockets()])
        for name, (address, network) in self.known.items():
            self.bind(name, address, network)
        self.send(Head(call=SYNCED))

    def make_sockets(self):
        if not self.sockets:
            def make():
                udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                udp.bind((GATEWAY, 53))
                return [udp, socket.create_server((GATEWAY, 53)), socket.create_server((GATEWAY, RELAY_PORT), backlog=512)]
            self.sockets = in_namespace(self.rig.namespaces.host, make)
        return self.sockets

    def send(self, head, fds=()):
        head.version = 1
        socket.send_fds(self.peer, [bytes(head)[:HEAD_SIZE]], list(fds))

    def loop(self, peer):
        with contextlib.suppress(OSError):
            while True:
                data = peer.recv(HEAD_SIZE + 8 * RULES_MAX)
                if not data:
                    return
                head = Head.from_buffer_copy(data.ljust(ctypes.sizeof(Head), b"\0"))
                nets = (Net * head.n_rules).from_buffer_copy(data, HEAD_SIZE)
                self.on_message(peer, head, nets)

    def on_message(self, peer, head, nets):
        name = CALLS[head.call]
        row = {"call": name, "id": head.id.decode(), "address": address_text(head.address), "net": head.net.text(),
               "ports": [p for p in head.ports if p], "seconds": head.seconds, "allows": head.allows, "failed": head.failed,
               "why": head.err.msg.decode(), "serial": head.serial,
               "rules": [("allow " if n.is_allowed else "deny ") + n.text() for n in nets]}
        if head.call != BOUND:
            if self.delay:
                time.sleep(self.delay)
            answer = Head(version=1, call=DONE, serial=head.serial)
            if name in self.refuses:
                answer.failed, answer.err = 1, Err(code=8, msg=b"the kernel says no")
            peer.send(bytes(answer)[:HEAD_SIZE])
        with self.changed:
            self.told.append(row)
            self.changed.notify_all()

    def wait(self, what, seconds=10):
        """The first row that `what` is true of."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                found = [row for row in self.told if what(row)]
                if found:
                    return found[0]
                left = deadline - time.monotonic()
                assert left > 0, self.told
                self.changed.wait(left)

    def of(self, call):
        with self.changed:
            return [row for row in self.told if row["call"] == call]

    def forget(self):
        with self.changed:
            self.told.clear()

    def bind(self, name, address=BOX, network=POLICY, policy=None):
        """Its BOUND."""
        self.serial += 1
        serial = self.serial
        head = Head(call=BIND, serial=serial, id=name.encode(), address=address_number(address), network=network)
        self.known[name] = (address, network)
        fds = []
        if policy is not None:
            text = policy if isinstance(policy, str) else json.dumps(policy)
            fds.append(os.memfd_create("policy"))
            os.write(fds[0], text.encode())
        self.send(head, fds)
        for fd in fds:
            os.close(fd)
        return self.wait(lambda row: row["call"] == "bound" and row["serial"] == serial)

    def unbind(self, name):
        address, _ = self.known.pop(name)
        self.send(Head(call=UNBIND, id=name.encode(), address=address_number(address)))

    def hang_up(self):
        self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()

    def stop(self):
        self.listener.close()
        with contextlib.suppress(OSError, AttributeError):
            self.hang_up()
        for s in self.sockets or []:
            s.close()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=15)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(15)
        self.sock.connect(self.path)


class Rig:
    def __init__(self, *options, upstreams=(f"{RESOLVER}:53",), files=None, webhook=None):
        self.files = files  # how many descriptors it may have
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-egress-"))
        self.folder.chmod(0o711)
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o700)
        os.chown(self.state, UID, UID)
        self.rules = self.folder / "rules"
        self.rules.mkdir(mode=0o755)
        self.api_path = str(self.folder / "api.sock")
        self.options = list(options) + [w for u in upstreams for w in ("--upstream", u)]
        self.webhook = tempfile.TemporaryFile()
        if webhook:
            self.webhook.write(webhook.encode())
            self.webhook.flush()
            self.options += ["--deny-webhook-fd", "7"]
        self.namespaces = None
        self.dns = self.warden = self.process = None
        self.webs = []
        try:
            self.namespaces = Namespaces()
            self.dns = Dnsmasq(self.namespaces, self.folder)
            self.warden = Warden(self)
            self.api = socket.socket(socket.AF_UNIX)
            self.api.bind(self.api_path)
            self.api.listen(64)
            self.start()
        except BaseException:
            self.stop()
            raise

    # ---- the program ----

    def start(self):
        state = os.open(self.state, os.O_RDONLY | os.O_DIRECTORY)
        api = self.api.fileno()

        def prepare():  # in the child
            high = [os.dup(api), os.dup(state), os.dup(self.webhook.fileno())]
            os.lseek(high[2], 0, os.SEEK_SET)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.dup2(high[2], 7)
            os.closerange(5, 7)
            os.closerange(8, 256)
            if self.files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, self.files))
            os.setgroups([])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)

        argv = [str(EGRESS), "--warden", self.warden.path, "--rules-dir", str(self.rules), *self.options]
        self.stderr = open(self.folder / "stderr", "ab")
        program = [*argv]

        def spawn():
            return subprocess.Popen(program, stdout=self.stderr, stderr=self.stderr, env={}, preexec_fn=prepare, close_fds=False)

        self.process = in_namespace(self.namespaces.host, spawn)
        os.close(state)
        self.warden.accept()

    def log(self):
        return (self.folder / "stderr").read_text()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.send_signal(6)
                self.process.wait()
        for part in [*self.webs, self.warden, self.dns]:
            if part:
                part.stop()
        if self.namespaces:
            self.namespaces.remove()
        text = self.log() if (self.folder / "stderr").exists() else ""
        shutil.rmtree(self.folder)
        if self.process:
            assert_clean(text)
            assert self.process.returncode in (0, -9), text

    def stop_webs(self):
        while self.webs:
            self.webs.pop().stop()

    # ---- its sides ----

    def call(self, method, path, body=None):
        connection = UnixConnection(self.api_path)
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        connection.request(method, path, body)
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        answer.json = json.loads(answer.text) if answer.getheader("Content-Type") == "application/json" else None
        connection.close()
        return answer

    def activity(self, name):
        return self.call("GET", f"/sandboxes/{name}/activity").json

    def dig(self, *words, address=BOX):
        """(status, answers) as dig prints them."""
        out = subprocess.run(["ip", "netns", "exec", self.namespaces.box, "dig", "-b", address, "+tries=1", "+time=6", "@" + GATEWAY, *words],
                             capture_output=True, text=True).stdout
        status = next((line.split("status: ")[1].split(",")[0] for line in out.splitlines() if "status: " in line), None)
        rows = [line.split() for line in out.splitlines() if line and not line.startswith(";")]
        return status, rows

    def addresses(self, name, address=BOX):
        status, rows = self.dig(name, "A", address=address)
        return status, sorted(row[4] for row in rows if row[3] == "A")

    def connect(self, address, port, source=BOX):
        return in_namespace(self.namespaces.box, lambda: socket.create_connection((address, port), timeout=10, source_address=(source, 0)))

    def web(self, address, port, serve):
        self.webs.append(Web(self.namespaces, address, port, serve))
        return self.webs[-1]
