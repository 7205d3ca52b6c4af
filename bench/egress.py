# SPDX-License-Identifier: Apache-2.0
"""What network policies cost: names next to dnsmasq, bytes next to a plain veth with NAT, creates next to those without one. All in one
run, in the tests' own Internet; what is compared takes turns."""
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/lib"))
from house import House, median, need_root, percentile, report  # noqa: E402
from internet import GOOD, OTHER, RESOLVER, Internet  # noqa: E402
from netns import Netns, pair  # noqa: E402

NAMES = 120       # new ones in one go: less than the burst that a sandbox may have
NAME_ROUNDS = 5
BIG = 768 << 20   # bytes of one download
BYTE_ROUNDS = 7
CREATES = 60
PLAIN, PLAIN_HOST = "172.30.7.2", "172.30.7.1"
STAY = ["tail", "-f", "/dev/null"]

ASKER = pathlib.Path(__file__).parents[1].joinpath("tests/lib/nameserver.py").read_text() + f"""
import sys
server, mark = sys.argv[1], sys.argv[2]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect((server, 53))
for i in range({NAMES}):
    began = time.perf_counter()
    s.send(query(f"n{{i}}-{{mark}}.wild.test", ident=i))
    assert Message(s.recv(4096)).addresses(), i
    print((time.perf_counter() - began) * 1e3)
"""


class Scene:
    """The Internet with a web server that is fast, a server of ours, and beside its sandboxes a namespace that has a veth and NAT."""

    def __init__(self, stack):
        self.net = Internet(is_quiet=True)
        stack.callback(self.net.close)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-bench-"))
        self.folder.chmod(0o755)
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.processes = stack.enter_context(contextlib.ExitStack())
        self.start_nginx()
        self.plain = Netns("plain")
        stack.callback(self.plain.remove)
        self.plumb()
        config = f"[egress]\nupstreams = [\"{RESOLVER}\"]\nrules_dir = \"{self.folder}\"\n[native]\nnetwork = \"default\"\n"
        self.house = stack.enter_context(House(config, self.net.host))

    def start(self, netns, *words):
        process = subprocess.Popen(["nsenter", f"--net={netns.path}", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.processes.callback(process.wait)
        self.processes.callback(process.terminate)

    def start_nginx(self):
        with open(self.folder / "big", "wb") as f:
            f.truncate(BIG)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.folder / "key", "-out", self.folder / "crt",
                        "-days", "2", "-subj", "/CN=good.test"], check=True, capture_output=True)
        (self.folder / "nginx.conf").write_text(
            f"daemon off; worker_processes 1; pid {self.folder}/pid; error_log stderr; user root;\n"
            f"events {{}}\nhttp {{ access_log off; sendfile on; server {{ listen 80; listen 443 ssl; root {self.folder};\n"
            f"ssl_certificate {self.folder}/crt; ssl_certificate_key {self.folder}/key; }} }}\n")
        self.start(self.net.world, "nginx", "-c", str(self.folder / "nginx.conf"), "-p", str(self.folder))

    def plumb(self):
        host, plain = self.net.host, self.plain
        pair(host, "plain0", plain, "eth0")
        host.ip("addr", "add", f"{PLAIN_HOST}/24", "dev", "plain0")
        plain.ip("addr", "add", f"{PLAIN}/24", "dev", "eth0")
        plain.ip("route", "add", "default", "via", PLAIN_HOST)
        host.sysctl(ipv4__ip_forward=1)
        host.run("nft", "add table ip plain; add chain ip plain nat { type nat hook postrouting priority 100; }; "
                        f"add rule ip plain nat ip saddr {PLAIN} masquerade")
        self.start(host, "dnsmasq", "--no-daemon", "--no-resolv", "--no-hosts", f"--server={RESOLVER}", f"--listen-address={PLAIN_HOST}",
                   "--bind-interfaces", "--conf-file=/dev/null", f"--pid-file={self.folder}/dnsmasq", "--cache-size=10000")

    # ---- what runs beside, and inside ----

    def run_plain(self, *words):
        return subprocess.run(["nsenter", f"--net={self.plain.path}", *words], check=True, capture_output=True, text=True).stdout

    def run_inside(self, sandbox, command):
        with self.house.open_command(sandbox, command) as answer:
            events = [json.loads(line) for line in answer.read().split(b"\n\n") if line]
        text = "\n".join(e["text"] for e in events if e["type"] == "stdout")
        if events[-1]["type"] != "execution_complete":
            raise SystemExit(f"bench: {command}: {events}")
        return text

    def box(self, *allowed):
        policy = {"egress": [{"action": "allow", "target": t} for t in allowed]}
        return json.loads(self.house.ask("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": STAY, "timeout": 3600, "resourceLimits": {"cpu": "2", "memory": "1Gi"},
            "networkPolicy": policy}))["id"]


def measure_names(scene):
    ours, theirs = [], []
    (scene.folder / "ask.py").write_text(ASKER)
    asker = ASKER.encode().hex()
    for i in range(NAME_ROUNDS + 1):
        box = scene.box("*.wild.test")
        scene.run_inside(box, f"python3 -c \"open('/tmp/ask.py', 'wb').write(bytes.fromhex('{asker}'))\"")
        mine = scene.run_inside(box, f"python3 /tmp/ask.py 192.0.2.254 a{i}")
        other = scene.run_plain("python3", str(scene.folder / "ask.py"), PLAIN_HOST, f"b{i}")
        if i > 0:  # everybody has been there once
            ours += map(float, mine.split())
            theirs += map(float, other.split())
        scene.house.delete(box)
    added = percentile(ours, 50) - percentile(theirs, 50)
    report("egress.dns_ms", percentile(ours, 50), "ms", "dnsmasq", percentile(theirs, 50))
    report("egress.dns_added_ms", added, "ms", goal=0.3)


CURL = "curl -s -o /dev/null -w %{speed_download}"


def measure_bytes(scene):
    scene.net.zone.set("good.test", "A", GOOD)
    box, named = scene.box(OTHER), scene.box("good.test")
    tls = f"{CURL} -k --resolve good.test:443:{OTHER}".split()
    ways = {
        "plain": lambda: scene.run_plain(*CURL.split(), f"http://{OTHER}/big"),
        "rule": lambda: scene.run_inside(box, f"{CURL} http://{OTHER}/big"),
        "name": lambda: scene.run_inside(named, f"{CURL} http://good.test/big"),
        "plain tls": lambda: scene.run_plain(*tls, "https://good.test/big"),
        "tls": lambda: scene.run_inside(named, f"{CURL} -k https://good.test/big"),
    }
    got = {name: [] for name in ways}
    for i in range(BYTE_ROUNDS + 1):
        for name, way in ways.items():
            speed = float(way()) / 1e6
            if i > 0:
                got[name].append(speed)
    report("egress.throughput", median(got["rule"]), "MB/s", "veth + NAT", median(got["plain"]), 0.9)
    report("egress.named_throughput", median(got["name"]), "MB/s", "veth + NAT", median(got["plain"]), 0.75)
    report("egress.tls_throughput", median(got["tls"]), "MB/s", "veth + NAT, TLS", median(got["plain tls"]), 0.75)
    for b in (box, named):
        scene.house.delete(b)


def measure_creates(scene):
    body = {"image": {"uri": "host"}, "entrypoint": STAY, "timeout": 3600, "resourceLimits": {"cpu": "1", "memory": "512Mi"}}
    policy = {"networkPolicy": {"egress": [{"action": "allow", "target": t} for t in ("good.test", "*.wild.test", OTHER)]}}
    took = {"with": [], "without": []}
    for i in range(CREATES + 5):
        for name, more in (("with", policy), ("without", {})):
            began = time.perf_counter()
            sandbox = json.loads(scene.house.ask("POST", "/v1/sandboxes", {**body, **more}))["id"]
            if i >= 5:
                took[name].append((time.perf_counter() - began) * 1e3)
            scene.house.delete(sandbox)
            time.sleep(0.03)  # slots are made anew
    report("create.with_policy", percentile(took["with"], 50), "ms", "create without", percentile(took["without"], 50), 1.3)


def main():
    need_root("egress")
    with contextlib.ExitStack() as stack:
        scene = Scene(stack)
        measure_names(scene)
        measure_bytes(scene)
        measure_creates(scene)


main()
