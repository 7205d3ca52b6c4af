# SPDX-License-Identifier: Apache-2.0
"""opensandbox-egress as a container beside a sandbox has it: each "pod" is a network namespace behind the host of the tests' own
Internet, with a sidecar and programs that have the rights of a sandbox's, and share nothing but the network."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from api import wait_for
from conftest import BIN, assert_clean
from internet import RESOLVER, Internet
from netns import Netns, pair
from network import AUTH_HEADER, Box

EGRESS = BIN / "opensandbox-egress"
MISSING = "opensandbox-egress is not built" if not EGRESS.exists() else "" if os.geteuid() == 0 else "needs root"
TOKEN = "the-token-of-this-test"
RESOLVER_OF_PODS = "192.0.2.254"  # in their resolv.conf: nobody has it, and every query is answered all the same
RIGHTS = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+sys_chroot"
INSIDE = 'mount --bind "$0/resolv.conf" /etc/resolv.conf && mount --bind "$0/tmp" /tmp && cd / && exec setpriv --bounding-set ' + RIGHTS + \
    ' --inh-caps -all --no-new-privs bash -c "$1"'


class Pod(Box):
    """One network, its sidecar, and what runs beside that."""

    def __init__(self, net, number, policy, env):
        super().__init__(net, f"pod-{number}")
        self.address = f"10.200.{number}.2"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-sidecar-"))
        (self.folder / "tmp").mkdir()
        (self.folder / "resolv.conf").write_text(f"nameserver {RESOLVER_OF_PODS}\n")
        self.log_path = self.folder / "log"
        self.env = {"OPENSANDBOX_EGRESS_TOKEN": TOKEN, "OPENSANDBOX_EGRESS_DNS_UPSTREAM": RESOLVER, "OPENSANDBOX_EGRESS_SANDBOX_ID": self.id,
                    **({} if policy is ... else {"OPENSANDBOX_EGRESS_RULES": json.dumps(policy)}), **env}
        self.netns, self.process = Netns(f"pod{number}"), None
        gateway = f"10.200.{number}.1"
        pair(self.netns, "eth0", net.internet.host, f"pod{number}")
        self.netns.ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.netns.ip("-6", "addr", "add", f"2001:db8:200:{number}::2/64", "dev", "eth0", "nodad")
        net.internet.host.ip("addr", "add", f"{gateway}/24", "dev", f"pod{number}")
        net.internet.host.ip("-6", "addr", "add", f"2001:db8:200:{number}::1/64", "dev", f"pod{number}", "nodad")
        self.netns.ip("route", "add", "default", "via", gateway)
        self.netns.ip("-6", "route", "add", "default", "via", f"2001:db8:200:{number}::1")

    # ---- the sidecar ----

    def start(self, wait=True):
        log = open(self.log_path, "ab")
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **{k: v for k, v in self.env.items() if v is not None}}
        self.process = subprocess.Popen([str(EGRESS), "--sidecar"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        preexec_fn=self.netns.enter)
        log.close()
        if wait:
            wait_for(self.is_healthy, 15, "the sidecar")
        return self

    def is_healthy(self):
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.call("GET", "/healthz").status == 200
        return False

    def end(self):
        """How it ended."""
        return self.process.wait(15)

    def log(self):
        return self.log_path.read_text()

    def worker(self):
        """The process of egress, below the one that keeps the rules."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def table_or_none(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.netns.run("nft", "list", "table", "inet", "opensandbox")
        return ""

    # ---- as Box has it ----

    def run(self, command, check=False, **_):
        done = subprocess.run(["nsenter", f"--net={self.netns.path}", "unshare", "-m", "sh", "-c", INSIDE, str(self.folder), command],
                              capture_output=True, text=True, timeout=60, check=check)
        return (done.stdout + done.stderr).splitlines()

    def run_beside(self, command):
        """With the rights of a sandbox's programs, and the files of this machine."""
        done = subprocess.run(["nsenter", f"--net={self.netns.path}", "setpriv", "--bounding-set", RIGHTS, "--inh-caps", "-all", "sh", "-c", command],
                              capture_output=True, text=True, timeout=60, check=False)
        return (done.stdout + done.stderr).splitlines()

    def call(self, method, path, body=None, token=None, port=18080):
        c = http.client.HTTPConnection(self.address, port, timeout=20)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        c.sock = self.net.internet.host.connect((self.address, port))
        with contextlib.closing(c):
            c.request(method, path, data, {AUTH_HEADER: TOKEN if token is None else token})
            response = c.getresponse()
            response.text = response.read().decode()
            return response

    def delete(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                assert self.end() == 0, self.log()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the sidecar does not end: {self.log()}")
        if self.netns:
            self.netns.remove()
            self.netns = None
            text = self.log() if self.log_path.exists() else ""
            shutil.rmtree(self.folder)
            assert_clean(text)


class SidecarNet:
    """The Internet, and pods behind its host, which forwards for them as hosts of containers do."""

    def __init__(self):
        self.internet, self.boxes, self.number = Internet(), [], 0
        host = self.internet.host
        host.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1)
        host.run("nft", 'add table ip pods; add chain ip pods out { type nat hook postrouting priority 100; }; '
                        'add rule ip pods out oifname "up0" masquerade')
        self.internet.world.ip("-6", "route", "add", "2001:db8:200::/48", "via", "2001:db8:1::2")

    def pod(self, policy=..., **env):
        self.number += 1
        p = Pod(self, self.number, policy, env)
        self.boxes.append(p)
        return p

    def box(self, policy=None, **env):
        return self.pod({"defaultAction": "allow"} if policy is None else policy, **env).start()

    def close(self):
        try:
            while self.boxes:
                self.boxes.pop().delete()
        finally:
            self.internet.close()


@pytest.fixture(scope="module")
def net():
    n = SidecarNet()
    yield n
    n.close()
