# SPDX-License-Identifier: Apache-2.0
"""Requests into a sandbox under wrk, through the server's own proxy and through the gateway before it, against nginx proxy_pass to the
same backend, in turns. The backend is nginx in the sandbox; the one that is compared with has one worker, keeps connections, runs in
the sandbox's network and was given a socket that listens outside: its bytes go the very way that ours go."""
import json
import pathlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import ROOT, House, free_port, median, need_root, report  # noqa: E402

ROUNDS = 5
SECONDS = 2
CONNECTIONS = 64
GATEWAY = ROOT / "build/bin/opensandbox-ingress"
NGINX = """
worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  {more}
}}
"""
BACKEND = "server { listen 127.0.0.1:8080; location / { default_type text/plain; return 200 'a small answer of no great interest'; } }"
PROXY = """upstream backend {{ server 127.0.0.1:8080; keepalive 128; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Forwarded-Proto $scheme; }} }}"""


def wrk(url, inside=(), connections=CONNECTIONS):
    """Requests per second, and the median latency in microseconds."""
    out = subprocess.run([*inside, "wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency", url], check=True, capture_output=True,
                         text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"bench: {url}: {out}")
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def start_backend(house):
    config = NGINX.format(dir="/tmp", more=BACKEND)
    script = f"cat >/tmp/nginx.conf <<'END'\n{config}\nEND\nexec nginx -e /tmp/error.log -c /tmp/nginx.conf"
    body = {"image": {"uri": "host"}, "entrypoint": ["sh", "-c", script], "timeout": 3600, "resourceLimits": {"cpu": "4", "memory": "512Mi"}}
    return json.loads(house.ask("POST", "/v1/sandboxes", body))["id"]


def wait_for(url):
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1) as r:
                return r.read()
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.05)
    raise SystemExit(f"bench: no answer of {url}")


def network_of(house):
    """How to enter the network of the one sandbox that there is."""
    for procs in pathlib.Path("/sys/fs/cgroup/pids").glob(f"{house.prefix}/**/cgroup.procs"):
        for pid in procs.read_text().split():
            if "nginx" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                return ["nsenter", f"--net=/proc/{pid}/ns/net"]
    raise SystemExit("bench: the backend does not run")


def main():
    need_root("proxy")
    house = House()
    socket_path = house.folder / "gateway.sock"
    house.config = f'[ingress]\ngateway_socket = "{socket_path}"\n'
    with house:
        sandbox = start_backend(house)
        ours = f"http://127.0.0.1:{house.port + 1}/sandboxes/{sandbox}/proxy/8080/"
        wait_for(ours)
        inside = network_of(house)
        port = free_port()
        (house.folder / "nginx").mkdir()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        theirs = listener.getsockname()[1]
        (house.folder / "nginx.conf").write_text(NGINX.format(dir=house.folder / "nginx", more=PROXY.format(port=theirs)))
        gateway = f"http://127.0.0.1:{port}/{sandbox}/8080/"
        others = [
            subprocess.Popen([*inside, "nginx", "-e", house.folder / "nginx/error.log", "-c", house.folder / "nginx.conf"],
                             stderr=subprocess.DEVNULL, pass_fds=[listener.fileno()], env={**os.environ, "NGINX": f"{listener.fileno()};"}),
            subprocess.Popen([GATEWAY, "--listen", f"127.0.0.1:{port}", "--mode", "uri", "--log-level", "warn", "--server",
                              f"http://127.0.0.1:{house.port}", "--gateway-socket", socket_path]),
        ]
        try:
            wait_for(gateway)
            ways = {"proxy": (ours,), "gateway": (gateway,), "nginx": (f"http://127.0.0.1:{theirs}/",)}
            wait_for(*ways["nginx"])
            rates = {name: [] for name in ways}
            waits = {name: [] for name in [*ways, "none"]}
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    rates[name].append(wrk(*way)[0])
                for name, way in {**ways, "none": ("http://127.0.0.1:8080/", inside)}.items():
                    waits[name].append(wrk(*way, connections=1)[1])
        finally:
            for p in others:
                p.terminate()
            for p in others:
                p.wait(15)
        house.delete(sandbox)
    for name in ("proxy", "gateway"):
        # Those that ran next to each other shared the machine's mood.
        ratio = median(a / b for a, b in zip(rates[name], rates["nginx"], strict=True))
        theirs = median(rates["nginx"])
        report(f"{name}.rps", ratio * theirs, "requests/s", "nginx proxy_pass", theirs, 0.8)
    for name in ("proxy", "gateway"):
        report(f"{name}.added_us", median(waits[name]) - median(waits["none"]), "us at p50", "nginx proxy_pass",
               max(median(waits["nginx"]) - median(waits["none"]), 1))


main()
