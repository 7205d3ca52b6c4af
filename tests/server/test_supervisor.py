# SPDX-License-Identifier: Apache-2.0
"""The process that starts the others: what it does when they die, hang or never come up, and when it dies itself."""
import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

import census
from conftest import BIN, EXECD, KEY, Server, assert_clean, children_of, clean_environment, free_port
from fleet import Fleet, until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ENV = {"OPENSANDBOX_SERVER_API_KEY": KEY}


@pytest.fixture
def fleet(start_server):
    return Fleet(start_server())


def is_running(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.alone("measures time")
def test_who_dies_is_replaced_within_a_second(fleet):
    server = fleet.server
    fleet.remove(fleet.made())
    for who in ("pid", "warden_pid"):
        old, other = getattr(server, who), getattr(server, {"pid": "warden_pid", "warden_pid": "pid"}[who])
        began = time.monotonic()
        os.kill(old, signal.SIGKILL)
        until(lambda: server.children(who == "warden_pid") not in ([], [old]), 1, "a new process")
        fleet.remove(fleet.made_somehow())
        assert time.monotonic() - began < 5  # G8
        assert getattr(server, who) != old and other in (server.pid, server.warden_pid)


def test_requests_wait_while_nobody_serves(fleet):
    os.kill(fleet.server.pid, signal.SIGKILL)
    assert fleet.server.get("/health").status == 200


def test_who_gives_no_sign_of_life_is_replaced(fleet):
    """Stopped, as by a debugger that was forgotten, or stuck: neither can be seen from outside but by silence."""
    server = fleet.server
    fleet.remove(fleet.made())
    old = [server.pid, server.warden_pid]
    for pid in old:
        os.kill(pid, signal.SIGSTOP)
    until(lambda: not any(map(is_running, old)), 25, "both are gone")
    fleet.remove(fleet.made_somehow())
    assert server.pid not in old and server.warden_pid not in old
    assert set(re.findall(r"gives no sign of life, killing it name=(\w+)", server.stderr)) == {"server", "warden"}


def test_who_is_slow_for_a_moment_is_left_alone(fleet):
    """So is everybody when the supervisor itself was stopped: it counts what it has seen, not the time."""
    server = fleet.server
    old = [server.pid, server.warden_pid]
    os.kill(server.process.pid, signal.SIGSTOP)
    for pid in old:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)
    for pid in (server.process.pid, *old):
        os.kill(pid, signal.SIGCONT)
    time.sleep(2.5)
    assert [server.pid, server.warden_pid] == old and "sign of life" not in server.stderr
    fleet.remove(fleet.made())


def test_one_that_keeps_dying_is_started_with_pauses(fleet):
    server = fleet.server
    for _ in range(7):
        pid = until(lambda: server.children(True), 3, "a warden")[0]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in server.children(True), 3, "its end")
    pauses = [int(ms) for ms in re.findall(r"starting it again name=warden signal=9 in_ms=(\d+)", server.stderr)]
    assert len(pauses) == 7 and pauses == sorted(pauses) and pauses[0] <= 100 and 400 <= pauses[-1] <= 1000
    fleet.remove(fleet.made_somehow())
    time.sleep(0.6)
    os.kill(server.warden_pid, signal.SIGKILL)  # it had settled
    until(lambda: server.stderr.count("name=warden signal=9") == 8, 3, "its end")
    assert re.findall(r"in_ms=(\d+)", server.stderr)[-1] == "50"
    fleet.remove(fleet.made_somehow())


def test_its_children_end_when_it_dies(tmp_path, home):
    server = Server(tmp_path, env=ENV, home=home)
    try:
        server.wait_ready()
        slot = until(lambda: census.processes(home.prefix), 5, "a slot")
        pids = server.children(True) + server.children(False)
    finally:
        server.process.kill()
        server.process.wait()
    until(lambda: not any(is_running(pid) for pid in [*pids, *slot]), 10, "the end of its children")
    assert_clean(server.stderr)
    until(lambda: not [p for p in census.groups(home.prefix) if p.endswith("#")], 5, "the end of the slots")


@pytest.mark.smoke
def test_sighup_reaches_the_server(tmp_path, home):
    log = tmp_path / "logs/server.log"
    server = Server(tmp_path, env={**ENV, "OPENSANDBOX_LOG_FILE_ENABLED": "true", "OPENSANDBOX_LOG_FILE_PATH": str(log)}, home=home)
    try:
        server.wait_ready()
        log.rename(tmp_path / "logs/old")
        log.touch()
        os.chown(log, *[os.stat(tmp_path / "logs/old").st_uid] * 2)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.get("/v1/sandboxes").status == 200 and "/sandboxes" in log.read_text(), 5, "a new log")
    finally:
        server.stop()


def test_a_second_server_changes_nothing(start_server, run_server, home):
    first = start_server()
    fleet = Fleet(first)
    name = fleet.made()
    before = census.settled(first)
    for env in (first.home.env, {**home.env, "OPENSANDBOX_NATIVE_RUN_DIR": str(first.home.run)}):
        for command in ([], ["recover"]):
            done = run_server(*command, env={**ENV, **env, "OPENSANDBOX_SERVER_PORT": str(free_port())})
            assert done.returncode == 4 and "another server runs" in done.stderr, done
    census.check(first, before)
    fleet.works(name)
    os.kill(first.pid, signal.SIGKILL)  # the new one finds the way to its own warden
    fleet.works(name)
    fleet.remove(name)


# ---- who never comes up ---------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path):
    """The server alone in a folder, where its warden belongs too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(BIN / "opensandbox-server", folder)
    return folder


def start_installed(folder, home, tmp_path, **more):
    env = clean_environment(tmp_path, **{**home.env, **ENV, "OPENSANDBOX_SERVER_PORT": free_port(), **more})
    return subprocess.Popen([folder / "opensandbox-server"], env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def end_of(process, seconds=20):
    try:
        return process.communicate(timeout=seconds)[1]
    finally:
        process.kill()


def put_warden(folder, script):
    path = folder / "opensandbox-warden"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("script,status,text", [
    (None, 1, "cannot start a process name=warden"),
    ("echo no such luck >&2; exit 1", 1, "no such luck"),
    ("exit 2", 2, ""),
])
@pytest.mark.alone("measures time")
def test_a_warden_that_never_comes_up_ends_it(installed, home, tmp_path, script, status, text):
    if script:
        put_warden(installed, script)
    began = time.monotonic()
    process = start_installed(installed, home, tmp_path)
    stderr = end_of(process)
    assert process.returncode == status and text in stderr, (process.returncode, stderr)
    assert time.monotonic() - began < 5
    assert_clean(stderr)


def test_it_can_be_stopped_while_it_waits_for_the_warden(installed, home, tmp_path):
    put_warden(installed, "exec sleep 1000")
    process = start_installed(installed, home, tmp_path)
    until(lambda: len(children_of(process.pid)) == 2, 5, "both children")
    time.sleep(0.3)
    pids = children_of(process.pid)
    process.terminate()
    stderr = end_of(process, 5)
    assert process.returncode == 0, stderr
    assert not any(is_running(pid) for pid in pids)


def test_who_does_not_stop_is_killed(tmp_path, home):
    server = Server(tmp_path, env={**ENV, "OPENSANDBOX_LIMITS_DRAIN_SECONDS": "1"}, home=home)
    server.wait_ready()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    server.process.terminate()
    assert server.process.wait(12) == 1
    assert "does not end, killing it name=server" in server.stderr and not is_running(pid)


def test_a_missing_execd_is_named(installed, home, tmp_path):
    shutil.copy(BIN / "opensandbox-warden", installed)
    process = start_installed(installed, home, tmp_path, OPENSANDBOX_NATIVE_EXECD=str(tmp_path / "none"))
    stderr = end_of(process)
    assert process.returncode == 1 and str(tmp_path / "none") in stderr and EXECD.exists()
