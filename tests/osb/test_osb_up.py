# SPDX-License-Identifier: Apache-2.0
"""osb up, osb down, osb doctor: a server on this machine, in the background."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import stat
import subprocess

import pytest

from api import wait_for
from conftest import Home, free_port, open_way
from osb_kit import OSB, Osb

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


class Local(Osb):
    """osb whose `up` starts a server in folders of the test's own."""

    def __init__(self, folder):
        self.home, self.port = Home(), free_port()
        super().__init__(folder, OPENSANDBOX_SERVER_PORT=str(self.port), **self.home.env)

    @property
    def record(self):
        return self.folder / ".opensandbox/server.run"

    @property
    def pid(self):
        return int(self.record.read_text().splitlines()[1].split()[0])

    def close(self):
        with contextlib.suppress(OSError):
            self("down", status=None)
            os.kill(self.pid, signal.SIGKILL)
        self.home.remove()


@pytest.fixture
def local(tmp_path):
    open_way(tmp_path)
    osb = Local(tmp_path)
    yield osb
    osb.close()


def is_alive(pid):
    """One that has ended may wait for whoever collects it."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@needs_root
@pytest.mark.smoke
def test_up_starts_a_server_and_points_the_settings_at_it(local):
    up = local.json("up")
    assert up["status"] == "started" and up["address"] == f"127.0.0.1:{local.port}" and int(up["pid"]) == local.pid
    config = local.folder / ".opensandbox/config.toml"
    assert up["settings"] == str(config) and stat.S_IMODE(config.stat().st_mode) == 0o600
    assert stat.S_IMODE((local.folder / ".opensandbox").stat().st_mode) == 0o700
    assert local.text("run", "host", "--", "echo", "it works") == "it works\n"
    again = local.json("up")
    assert again["status"] == "running" and again["pid"] == up["pid"]
    assert "The server has ended, and 0 sandboxes" in local.text("down")
    assert not is_alive(int(up["pid"])) and not local.record.exists()
    assert b"No server" in local("down").stdout
    assert b"osb up" in local("run", "host", "--", "true", status=125).stderr


@needs_root
def test_down_ends_sandboxes_or_keeps_them(local):
    local("up")
    kept = local.text("run", "-d", "host", "--", "sleep", "600").strip()
    assert "sandboxes go on" in local.text("down", "--keep")
    local("up")
    assert local.sandboxes() == [kept]
    assert "and 1 sandbox with it" in local.text("down")
    local("up")
    assert local.sandboxes() == []


@needs_root
def test_the_terminal_that_started_it_may_go(local):
    """It has a session of its own, and none of our descriptors."""
    local("up")
    stat_line = pathlib.Path(f"/proc/{local.pid}/stat").read_text().rsplit(")", 1)[1].split()
    assert int(stat_line[3]) == local.pid  # session
    links = {os.readlink(f"/proc/{local.pid}/fd/{n}") for n in (0, 1)}
    assert links == {"/dev/null"}
    assert os.readlink(f"/proc/{local.pid}/fd/2") == str(local.folder / ".opensandbox/server.log")


@needs_root
def test_settings_that_name_another_server_stay(local):
    local("config", "init")
    local("config", "set", "connection.domain", "sandboxes.example:9000")
    done = local("up")
    assert b"sandboxes.example:9000" in done.stderr
    assert "sandboxes.example:9000" in (local.folder / ".opensandbox/config.toml").read_text()
    assert local.json("up", "--force")["settings"]
    assert f'domain = "127.0.0.1:{local.port}"' in (local.folder / ".opensandbox/config.toml").read_text()


@needs_root
def test_a_port_that_is_taken_is_told_and_leaves_nothing(local):
    with socket.socket() as s:
        s.bind(("127.0.0.1", local.port))
        s.listen()
        done = local("up", status=1)
    assert b"Address already in use" in done.stderr and b"the server has ended" in done.stderr
    assert b"No server" in local("down").stdout


@needs_root
def test_somebody_else_with_its_number_is_left_alone(local):
    """The record of a server that is gone, whose number another process has by now."""
    local("up")
    text = local.record.read_text()
    local("down")
    with subprocess.Popen(["sleep", "60"]) as other:
        head, line = text.splitlines()
        words = line.split()
        words[0] = str(other.pid)
        local.record.write_text(f"{head}\n{' '.join(words)}\n")
        assert b"No server" in local("down").stdout
        assert other.poll() is None
        other.kill()


@needs_root
def test_a_killed_up_leaves_a_server_that_down_finds(local):
    for delay in (0.0, 0.02, 0.05, 0.1, 0.3):
        running = local.start("up")
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(delay)
        running.kill()
        running.communicate()
        local("down", "--keep")
        wait_for(lambda: not local.record.exists())
        with socket.socket() as s:  # nobody serves there
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", local.port))


@needs_root
def test_two_at_once_start_one(local):
    both = [local.start("up", "-o", "json") for _ in range(2)]
    ends = [(p.communicate(timeout=60), p.returncode) for p in both]
    started = [json.loads(out) for (out, _), code in ends if code == 0]
    assert started and all(s["pid"] == str(local.pid) for s in started)
    for (_, err), code in ends:
        assert code == 0, err


@needs_root
def test_others_are_told_what_they_can_do(tmp_path):
    open_way(tmp_path)
    tmp_path.chmod(0o777)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", OSB, "up"], env={**Osb(tmp_path).env, "ASAN_OPTIONS": "detect_leaks=0"},
                          capture_output=True, timeout=60, check=False)
    if b"libasan" in done.stderr or done.returncode in (126, 127):
        pytest.skip("the program cannot be reached by others here")
    assert done.returncode == 1 and b"sudo osb up" in done.stderr


# ---- doctor ----


@needs_root
def test_the_doctor_finds_what_is_wrong(local):
    ill = local.json("doctor", status=1)
    outcomes = {c["check"]: c["outcome"] for c in ill["checks"]}
    assert outcomes["server"] == "failed" and outcomes["key"] == "warning"
    assert any("osb up" in (c["to_do"] or "") for c in ill["checks"])
    local("up")
    well = local.json("doctor")
    outcomes = {c["check"]: c["outcome"] for c in well["checks"]}
    assert set(outcomes.values()) == {"ok"} and outcomes.keys() >= {"settings", "key", "server", "access", "osb up"}
    assert well["host"]["can_run"] is True
    page = local.text("doctor")
    assert "the way to the server" in page and "control groups" in page
    wrong = local.json("doctor", status=1, OPEN_SANDBOX_API_KEY="wrong")
    assert {c["check"]: c["outcome"] for c in wrong["checks"]}["access"] == "failed"


def test_the_doctor_reads_a_broken_file(tmp_path):
    (tmp_path / ".opensandbox").mkdir()
    (tmp_path / ".opensandbox/config.toml").write_text("[connection\n")
    checks = Osb(tmp_path).json("doctor", status=None)["checks"]
    assert checks[0]["check"] == "settings" and checks[0]["outcome"] == "failed" and "osb config init" in checks[0]["to_do"]
