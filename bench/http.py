# SPDX-License-Identifier: Apache-2.0
"""GET /health with keep-alive under wrk: ours against nginx with one worker and the same body, in turns."""
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROUNDS = 7
SECONDS = 2
CONNECTIONS = 64

NGINX = """
worker_processes 1; daemon off; pid {dir}/pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
  uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
  server {{
    listen 127.0.0.1:{port};
    location = /health {{ default_type application/json; return 200 '{{"status":"healthy"}}'; }}
  }}
}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as r:
                assert r.read() == b'{"status":"healthy"}'
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"bench: no answer on port {port}")


def requests_per_second(port):
    out = subprocess.run(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", f"http://127.0.0.1:{port}/health"],
                         check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def main():
    with tempfile.TemporaryDirectory() as d:
        theirs, ours = free_port(), free_port()
        with open(f"{d}/nginx.conf", "w", encoding="ascii") as f:
            f.write(NGINX.format(dir=d, port=theirs))
        env = {"PATH": os.environ["PATH"], "OPENSANDBOX_INSECURE_SERVER": "YES", "HOME": d}
        servers = [
            subprocess.Popen(["nginx", "-e", f"{d}/error.log", "-c", f"{d}/nginx.conf"], stderr=subprocess.DEVNULL),
            subprocess.Popen(["build/bin/opensandbox-server", "--port", str(ours)], env=env,
                             stderr=subprocess.DEVNULL),
        ]
        try:
            wait_for(theirs)
            wait_for(ours)
            pairs = [(requests_per_second(ours), requests_per_second(theirs)) for _ in range(ROUNDS)]
        finally:
            for s in servers:
                s.terminate()
            for s in servers:
                s.wait(15)
    # Pairs that ran next to each other shared the machine's mood; the median drops the outliers.
    ratio = statistics.median(a / b for a, b in pairs)
    print(json.dumps({"name": "http.rps", "value": round(statistics.median(a for a, _ in pairs)), "unit": "requests/s",
                      "baseline": "nginx", "baseline_value": round(statistics.median(b for _, b in pairs)),
                      "ratio": round(ratio, 3), "goal": 0.9}))


main()
