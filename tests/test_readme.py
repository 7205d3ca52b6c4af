# SPDX-License-Identifier: Apache-2.0
"""The tour of the README, as it is printed there: each command is run, in order, against one server."""
import os
import re
import shlex
import subprocess
import tarfile
import time

import pytest

from api import wait_for
from conftest import BIN, EXECD, KEY, ROOT, Running, assert_clean, clean_environment, free_port
from test_images import BUSYBOX, fill

OSB = BIN / "osb"
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not OSB.exists() or not EXECD.exists(), reason="osb or execd is not built"),
]

ACCESS = '[ingress.secure_access]\nactive_key = "a"\n[[ingress.secure_access.keys]]\nkey_id = "a"\nkey = "c2VjcmV0LW9mLWEtdGVzdA=="\n'
# What the tour cannot do here, and why.
SKIPPED = {
    "export PATH=": "the programs under test are on it already",
    "osb shell": "a terminal (tests/osb/test_osb_terminal.py)",
    "osb top": "goes on until it is stopped (tests/osb/test_osb_terminal.py)",
    "osb image pull": "needs a registry (tests/images/test_image_command.py)",
    "deploy/": "needs the Internet (tests/execd/test_code_interpreter.py)",
    "osb image load code-interpreter": "of what that builds",
}
TOKEN = "65dc..."
SIGNED = "tlq5ms/58d4200bk"
KEPT = "5b20c1d7-..."  # a snapshot of a sandbox of the image that has been pulled
PLACEHOLDER = re.compile(r"[0-9a-f]{8}-\.\.\.")


def tour():
    """[(command, what is printed behind it)]. A command goes on while a quote is open, or after a backslash. Text ends what is printed."""
    text = (ROOT / "README.md").read_text().split("## A short tour", 1)[1].split("\n    $ make\n", 1)[0]
    lines, found, is_behind = text.splitlines(), [], False
    while lines:
        line = lines.pop(0)
        if not line.startswith("    $ "):
            is_behind = is_behind and line.startswith("    ")
            if is_behind:
                found[-1][1].append(line[4:])
            continue
        command, is_behind = re.sub(r" +# .*$", "", line[6:]), True
        while command.count("'") % 2 or command.endswith("\\"):
            command += "\n" + lines.pop(0)[4:]
        found.append((command, []))
    return found


def test_the_tour_has_what_this_test_expects():
    commands = [c for c, _ in tour()]
    assert len(commands) > 30 and any(c.startswith("curl") for c in commands)
    for start in SKIPPED:
        assert any(c.startswith(start) for c in commands), f"{start}: the tour does not do that any more"


class Tourist:
    def __init__(self, server, folder):
        self.server, self.folder, self.gateway = server, folder, None
        self.env = clean_environment(folder, PATH=f"{BIN}:{os.environ['PATH']}", OPEN_SANDBOX_API_KEY=KEY,
                                     OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{server.port}")
        self.known = {"127.0.0.1:8080": f"127.0.0.1:{server.port}", "127.0.0.1:8081": f"127.0.0.1:{server.port + 1}"}

    def meant(self, text):
        for word, meant in self.known.items():
            text = text.replace(word, meant)
        return text

    def osb(self, *words):
        done = subprocess.run(["osb", *words], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done)
        return done.stdout

    def pull(self):
        """What `osb image pull python:3.12` would have brought; there is no python in it."""
        fill(self.folder / "root")
        with tarfile.open(self.folder / "root.tar", "w") as tar:
            tar.add(self.folder / "root", ".")
        self.osb("image", "load", "--name", "python:3.12", "root.tar")

    def keep(self):
        sandbox = self.osb("run", "-d", "python:3.12", "--", "sleep", "1000").strip()
        self.known[KEPT] = re.search(r"id: ([0-9a-f-]{36})", self.osb("snapshot", "create", sandbox)).group(1)

    def serve(self, command):
        """A gateway in front of the server, with a listener in the sandbox that the next command asks."""
        (self.folder / "key").write_text(KEY)
        (self.folder / "keys").write_text("a=c2VjcmV0LW9mLWEtdGVzdA==\n")
        for name in ("key", "keys"):
            (self.folder / name).chmod(0o600)
        sandbox = self.known["c40d7e19-..."]
        self.osb("command", "run", "--background", sandbox, "--", "python3", "-m", "http.server", "8080")
        wait_for(lambda: self.server.get(f"/sandboxes/{sandbox}/proxy/8080/").status == 200, what="the listener")
        self.known["127.0.0.1:28888"] = f"127.0.0.1:{free_port()}"
        words = [*shlex.split(self.meant(command)), "--listen", self.known["127.0.0.1:28888"]]
        with open(self.folder / "gateway.err", "wb") as stderr:
            self.gateway = Running(words, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stderr=stderr)
        said = lambda: (self.folder / "gateway.err").read_text()  # noqa: E731
        wait_for(lambda: "listening" in said() or self.gateway.poll() is not None, what="the gateway")
        assert "listening" in said() and "needs a look" not in said(), said()

    def leave(self):
        if self.gateway:
            self.gateway.terminate()
            assert self.gateway.wait(30) == 0
            assert_clean((self.folder / "gateway.err").read_text())

    def do(self, command, printed):
        if command.startswith("opensandbox-ingress"):
            self.serve(command)
            return
        text = self.meant(command)
        if text.startswith("curl"):
            text = text.replace("curl -s", f"curl -sS --fail-with-body -H 'OPEN-SANDBOX-API-KEY: {KEY}'", 1)
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", text], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, text, done)
        assert not PLACEHOLDER.search(text), f"{text}: nothing before it has printed that"
        for line in printed:
            self.compare(line, done.stdout)

    def compare(self, line, out):
        """What was printed begins as the README says; the names in it are those that later commands use."""
        ours = re.search(r'id"?: ?"?([0-9a-f]{8}-\.\.\.)', line)
        if ours and ours.group(1) not in self.known:
            self.known[ours.group(1)] = re.search(r'id"?: ?"?([0-9a-f-]{36})', out).group(1)
        if TOKEN in line:
            self.known[TOKEN] = re.search(r'"X-EXECD-ACCESS-TOKEN":"(\w+)"', out).group(1)
        if SIGNED in line:
            self.known[SIGNED] = re.search(r'/8080/(\w+/\w+)"', out).group(1)
        assert re.split(r"[0-9a-f]{8}-\.\.\.|\.\.\.|127\.0\.0\.1", line)[0].strip() in out, (line, out)


@pytest.fixture
def tourist(start_server, tmp_path):
    folder = tmp_path / "tour"
    folder.mkdir()
    (folder / "Makefile").write_text("all:\n\t@echo made\n")
    (folder / "data.csv").write_text("a,b\n")
    server = start_server(ACCESS, env={"OPENSANDBOX_NATIVE_NETWORK": "default"})
    t = Tourist(server, folder)
    yield t
    t.leave()
    for pool in server.get("/v1/pools").json["items"]:
        server.request("DELETE", f"/v1/pools/{pool['name']}")
    for sandbox in server.get("/v1/sandboxes?pageSize=100").json["items"]:
        server.request("DELETE", f"/v1/sandboxes/{sandbox['id']}")


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static for an image")
def test_every_command_of_the_tour_works_as_printed(tourist):
    for command, printed in tour():
        if command.startswith("osb image pull"):
            tourist.pull()
        if command.startswith("osb snapshot export"):
            tourist.keep()
        if command.startswith(tuple(SKIPPED)):
            continue
        tourist.do(command, printed)


def test_a_server_of_ones_own_starts_as_printed(tmp_path):
    """The commands of the section behind the tour, without the building."""
    text = (ROOT / "README.md").read_text().split("\n    $ make\n", 1)[1].split("\n\n", 1)[0]
    commands = [re.sub(r" +# .*$", "", line[6:]) for line in text.splitlines()]
    assert [c.split()[0] for c in commands] == ["build/bin/opensandbox-server", "sudo", "export"]
    assert commands[1] == "sudo build/bin/opensandbox-server --config my.toml"
    script = f"{commands[0]}\n{commands[2]}\nopensandbox-server config --config my.toml\necho key $OPEN_SANDBOX_API_KEY".replace("build/bin/", "")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
                          env=clean_environment(tmp_path, PATH=f"{BIN}:{os.environ['PATH']}"))
    assert re.search(r"^key [0-9a-f]{64}$", done.stdout, re.M)


def test_the_example_of_a_mistake_is_what_is_said(tmp_path):
    said = re.search(r"^    (opensandbox-server: my\.toml:3: .*)$", (ROOT / "README.md").read_text(), re.M).group(1)
    (tmp_path / "my.toml").write_text("[server]\n\nport = 70000\n")
    done = subprocess.run([BIN / "opensandbox-server", "--config", "my.toml"], cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.stderr == said + "\n"


@pytest.mark.skipif(not (ROOT / "build/bin/opensandbox-server").exists(), reason="the release build is not there")
def test_make_run_listens_where_the_environment_says(home, tmp_path):
    port = free_port()
    env = clean_environment(tmp_path, OPENSANDBOX_SERVER_PORT=port, OPENSANDBOX_SERVER_HOST="127.0.0.2", **home.env)
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([ROOT / "tools/run"], env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while "A first sandbox said" not in (text := (tmp_path / "out").read_text()):
            assert process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.05)
        assert f"OpenSandbox answers on http://127.0.0.2:{port}: " in text and "said: hello from Linux, uid 0" in text
    finally:
        process.terminate()
        assert process.wait(60) == 0
