# SPDX-License-Identifier: Apache-2.0
"""The tour of the README, as it is printed there: each command is run, in order, against one server."""
import os
import re
import subprocess
import time

import pytest

from conftest import BIN, EXECD, KEY, ROOT, clean_environment, free_port

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
    "osb image": "needs a registry (tests/images/test_image_command.py)",
    "deploy/": "needs the Internet (tests/execd/test_code_interpreter.py)",
    "osb snapshot export": "needs an image (tests/images/test_snapshot_archives.py)",
    "opensandbox-ingress": "stays in the foreground (tests/ingress/test_gateway.py)",
    "curl -s http://127.0.0.1:28888/": "of that gateway",
}
TOKEN = "65dc..."
PLACEHOLDER = re.compile(r"[0-9a-f]{8}-\.\.\.")


def tour():
    """[(command, what is printed behind it)]. A command goes on while a quote is open, or after a backslash."""
    text = (ROOT / "README.md").read_text().split("## A short tour", 1)[1].split("\n    $ make\n", 1)[0]
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ") or not line]
    found = []
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            if found and line and not line.startswith(("[", "sandbox", "print", "await", "osb_", "puts")):
                found[-1][1].append(line)
            continue
        command = re.sub(r" +# .*$", "", line[2:])
        while command.count("'") % 2 or command.endswith("\\"):
            command += "\n" + lines.pop(0)
        found.append((command, []))
    return found


def test_the_tour_has_what_this_test_expects():
    commands = [c for c, _ in tour()]
    assert len(commands) > 30 and any(c.startswith("curl") for c in commands)
    for start in SKIPPED:
        assert any(c.startswith(start) for c in commands), f"{start}: the tour does not do that any more"


class Tourist:
    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.env = clean_environment(folder, PATH=f"{BIN}:{os.environ['PATH']}", OPEN_SANDBOX_API_KEY=KEY,
                                     OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{server.port}")
        self.known = {"127.0.0.1:8080": f"127.0.0.1:{server.port}", "127.0.0.1:8081": f"127.0.0.1:{server.port + 1}"}

    def do(self, command, printed):
        text = command
        for word, meant in self.known.items():
            text = text.replace(word, meant)
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
        assert re.split(r"[0-9a-f]{8}-\.\.\.|\.\.\.|127\.0\.0\.1", line)[0].strip() in out, (line, out)


@pytest.fixture
def tourist(start_server, tmp_path):
    folder = tmp_path / "tour"
    folder.mkdir()
    (folder / "Makefile").write_text("all:\n\t@echo made\n")
    (folder / "data.csv").write_text("a,b\n")
    server = start_server(ACCESS, env={"OPENSANDBOX_NATIVE_NETWORK": "default"})
    yield Tourist(server, folder)
    for pool in server.get("/v1/pools").json["items"]:
        server.request("DELETE", f"/v1/pools/{pool['name']}")
    for sandbox in server.get("/v1/sandboxes?pageSize=100").json["items"]:
        server.request("DELETE", f"/v1/sandboxes/{sandbox['id']}")


def test_every_command_of_the_tour_works_as_printed(tourist):
    for command, printed in tour():
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
