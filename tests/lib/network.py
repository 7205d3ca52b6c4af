# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with networks, on a server of their own in the tests' own Internet, and what they try from inside."""
import base64
import contextlib
import json
import os
import pathlib
import re
import tempfile

import pytest

from api import EGRESS, TIMEOUT_S, Api, wait_for
from conftest import BIN, EXECD, KEY, Server
from internet import RESOLVER, Internet

AUTH_HEADER = "OPENSANDBOX-EGRESS-AUTH"
LIMITS = {"cpu": "1", "memory": "256Mi", "pids": "256"}
MISSING = next((f"{p.name} is not built" for p in (BIN / "opensandbox-server", BIN / "opensandbox-egress", EXECD) if not p.exists()),
               "" if os.geteuid() == 0 else "needs root")

# In front of every program in a sandbox. What fails is the name of the error; what is dropped is "timeout".
PRELUDE = (pathlib.Path(__file__).parent / "nameserver.py").read_text() + r"""
import concurrent.futures, errno, json, ssl, sys
T = 1.5
RESULT = None
def tried(f, *args, **more):
    try:
        return f(*args, **more)
    except (TimeoutError, socket.timeout):
        return "timeout"
    except ssl.SSLError as e:
        return f"TLS {e.reason}"
    except socket.gaierror as e:
        return {-2: "NXDOMAIN", -3: "EAI_AGAIN", -5: "NODATA"}.get(e.errno, str(e.errno))
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
def all_of(*tries):
    "many at once: [(f, args...)]"
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        return [f.result() for f in [pool.submit(tried, *t) for t in tries]]
def resolve(name, family=socket.AF_INET):
    return sorted({row[4][0] for row in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)})
def connect(address, port, timeout=T):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(timeout)
    s.connect((address, port))
    return s
def tcp(address, port, data=b"", timeout=T):
    "what comes back first; OK if nothing was asked"
    with connect(address, port, timeout) as s:
        s.sendall(data)
        got = s.recv(1000)
        return got.decode("latin-1") if got else "closed"
def udp(address, port, data=b"x", timeout=T):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect((address, port))
        s.send(data)
        return s.recv(4096).decode("latin-1")
def answer_of(s):
    data = b""
    while piece := s.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return head.split(b"\r\n")[0].decode() if head else "closed"
    return json.loads(body)
def http(address, name, port=80, path="/", raw=None, timeout=T):
    with connect(address, port, timeout) as s:
        s.sendall(raw or f"GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        return answer_of(s)
def tls(address, name, port=443, host=None, timeout=T, path="/"):
    context = ssl.create_default_context(cadata=CA)
    context.check_hostname = False
    with connect(address, port, timeout) as s, context.wrap_socket(s, server_hostname=name) as t:
        t.sendall(f"GET {path} HTTP/1.1\r\nHost: {host or name}\r\nConnection: close\r\n\r\n".encode())
        return answer_of(t)
def web(name, **more):
    "as a program does it: asks for the name, then the first address"
    return http(resolve(name)[0], name, **more)
def web_tls(name, **more):
    return tls(resolve(name)[0], name, **more)
def ask(name, kind="A", server="192.0.2.254", over="udp", timeout=T, data=None):
    "a message by hand: (rcode, addresses, is cut)"
    data = data or query(name, TYPES[kind])
    if over == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(timeout)
            s.connect((server, 53))
            s.send(data)
            m = Message(s.recv(65535))
    else:
        with connect(server, 53, timeout) as s:
            s.sendall(struct.pack("!H", len(data)) + data)
            n = struct.unpack("!H", s.recv(2, socket.MSG_WAITALL))[0]
            m = Message(s.recv(n, socket.MSG_WAITALL))
    return [m.rcode, m.addresses(), m.is_cut, len(m.answers)]
"""


class Box:
    """One sandbox, and what it sees."""

    def __init__(self, net, sandbox_id):
        self.net, self.id = net, sandbox_id

    @property
    def api(self):
        return self.net.api

    def run(self, command, **more):
        return self.api.run(self.id, command, **more)

    def py(self, code, prelude=True):
        """What RESULT is after CODE, or the value of CODE when that is one expression."""
        code = code.strip()
        with contextlib.suppress(SyntaxError):
            compile(code, "code", "eval")
            code = f"RESULT = {code}"
        whole = (PRELUDE + f"\nCA = {self.net.internet.authority.pem!r}\n" if prelude else "import json\n") + code + \
            "\nprint('RESULT', json.dumps(RESULT))\n"
        text = base64.b64encode(whole.encode()).decode()
        lines = self.run(f"echo {text} | base64 -d > /tmp/try.py && python3 /tmp/try.py 2>&1")
        found = [line.removeprefix("RESULT ") for line in lines if line.startswith("RESULT ")]
        assert found, "\n".join(lines)
        return json.loads(found[-1])

    # ---- its policy, as SDKs have it ----

    def call(self, method, path, body=None, token=None, **more):
        endpoint = self.api.endpoint(self.id, EGRESS)
        host, prefix = endpoint["endpoint"].split("/", 1)
        headers = {AUTH_HEADER: token if token is not None else endpoint["headers"][AUTH_HEADER]}
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        with contextlib.closing(self.net.server.http(host, timeout=TIMEOUT_S)) as c:
            c.request(method, f"/{prefix}{path}", data, headers)
            response = c.getresponse()
            response.text = response.read().decode()
            return response

    def policy(self):
        response = self.call("GET", "/policy")
        assert response.status == 200, response.text
        return json.loads(response.text)

    def change(self, method, body):
        response = self.call(method, "/policy", body)
        assert response.status == 200, response.text
        return json.loads(response.text)

    def activity(self):
        a = self.api.get(f"/sandboxes/{self.id}/diagnostics/network")
        assert a.status == 200, a
        return a.json

    def delete(self):
        assert self.api.delete(self.id).status in (204, 404)


def rules(*words, default="deny"):
    """rules("+good.test", "-192.0.2.0/24"): allow the first, deny the second."""
    return {"defaultAction": default, "egress": [{"action": "allow" if w[0] == "+" else "deny", "target": w[1:]} for w in words]}


class Net:
    """The Internet, a server in it, and its sandboxes."""

    def __init__(self, spec, folder, env=None, home=None):
        self.internet = Internet()
        self.rules_dir = folder / "rules"
        self.rules_dir.mkdir(mode=0o755)
        self.folder, self.env, self.home, self.spec = folder, env or {}, home, spec
        self.server = None
        self.boxes = []
        try:
            self.start()
        except BaseException:
            self.internet.close()
            raise

    def start(self):
        env = {"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_NATIVE_NETWORK": "default", "OPENSANDBOX_NATIVE_SLOTS": "2",
               "OPENSANDBOX_EGRESS_UPSTREAMS": json.dumps([RESOLVER]), "OPENSANDBOX_EGRESS_RULES_DIR": str(self.rules_dir), **self.env}
        self.server = Server(self.folder, env=env, netns=self.internet.host, home=self.home)
        self.server.wait_ready()
        self.api = Api(self.server, self.spec)

    def box(self, policy=..., **more):
        if policy is not ...:
            more["networkPolicy"] = policy
        b = Box(self, self.api.create(resourceLimits=LIMITS, **more)["id"])
        self.boxes.append(b)
        return b

    def adopt(self, sandbox_id):
        b = Box(self, sandbox_id)
        self.boxes.append(b)
        return b

    def drop_boxes(self):
        while self.boxes:
            self.boxes.pop().delete()

    def close(self):
        try:
            if self.server.process.poll() is None:
                for sandbox in self.api.get("/sandboxes?pageSize=200").json["items"]:
                    self.api.delete(sandbox["id"])
            self.server.stop()
            left = {"links": [n for n in self.internet.host.links() if n not in ("lo", "up0")], "tables": self.internet.host.tables()}
            assert left == {"links": [], "tables": []}, left
        finally:
            self.internet.close()


@contextlib.contextmanager
def network(spec, **more):
    """A Net in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="osb-test-") as folder:
        net = Net(spec, pathlib.Path(folder), **more)
        try:
            yield net
        finally:
            net.close()


def until_true(condition, timeout=5, what="it"):
    return wait_for(condition, timeout, what)


def addresses_in(text):
    return re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)


@pytest.fixture(scope="module")
def net(spec):
    with network(spec) as n:
        yield n


@pytest.fixture
def box(net):
    """box(policy, ...): a sandbox that goes after the test."""
    before = len(net.boxes)
    yield net.box
    while len(net.boxes) > before:
        net.boxes.pop().delete()
