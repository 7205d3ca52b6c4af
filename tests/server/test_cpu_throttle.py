# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that compute all the time get low CPU priority (G6)."""
import concurrent.futures
import os
import pathlib
import signal
import time

import pytest

import census
from fleet import running, until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"), pytest.mark.alone("wants the processors to be had")]
BUSY = "(setsid sh -c 'while [ ! -e /tmp/calm ]; do :; done' >/dev/null 2>&1 </dev/null &); echo fine"
# It has to grow for some samples: at full speed its memory is used up within half a second.
BOMB = ("(setsid sh -c 'i=0; while [ $i -lt 4000 ]; do (read x < /tmp/never) & j=0; while [ $j -lt 500 ]; do j=$((j+1)); done; i=$((i+1)); done' "
        ">/dev/null 2>&1 </dev/null &); echo fine")
CALM = "touch /tmp/calm; echo fine"
SHORT = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; echo fine"
RELAY = """cat > /tmp/relay <<'END'
i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; [ -e /tmp/calm ] || sh /tmp/relay &
END
(sh /tmp/relay >/dev/null 2>&1 </dev/null &); echo fine"""


def idle_file(home, name):
    """Of the sandbox's group, which is its PID 1's as far as processors go."""
    lines = pathlib.Path(f"/proc/{census.init_of(home, name)}/cgroup").read_text().splitlines()
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    for controllers, path in paths.items():
        if "cpu" in controllers.split(","):
            file = pathlib.Path(f"/sys/fs/cgroup/{controllers}{path}/cpu.idle")
            break
    else:
        file = pathlib.Path(f"/sys/fs/cgroup{paths['']}").parent / "cpu.idle"  # v2: of the group above both leaves
    if not file.exists():
        pytest.skip("this kernel has no idle groups")
    return file


def quota(home, name):
    """Of processor time in a second, in milliseconds."""
    group = idle_file(home, name).parent
    if (group / "cpu.max").exists():
        most, period = (group / "cpu.max").read_text().split()
    else:
        most, period = ((group / f"cpu.cfs_{what}_us").read_text() for what in ("quota", "period"))
    return round(1000 * int(most) / int(period))


def ended_s(home, name):
    """Processor time of commands that have ended: its PID 1 has collected them."""
    words = pathlib.Path(f"/proc/{census.init_of(home, name)}/stat").read_text().rpartition(")")[2].split()
    return (int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")


def has_low_priority(home, name):
    return idle_file(home, name).read_text() == "1\n"


def test_a_busy_sandbox_has_low_priority_until_it_is_calm(tmp_path, home):
    with running(tmp_path, home) as fleet:
        busy, other = fleet.made(), fleet.made()
        fleet.works(other)
        assert not has_low_priority(home, busy)
        assert fleet.command(busy, BUSY)
        until(lambda: has_low_priority(home, busy), 30, "low priority")
        assert not has_low_priority(home, other)
        fleet.works(busy)
        assert fleet.command(busy, CALM)
        until(lambda: not has_low_priority(home, busy), 20, "normal priority")


def test_short_commands_one_after_the_other_keep_normal_priority(tmp_path, home):
    with running(tmp_path, home) as fleet, concurrent.futures.ThreadPoolExecutor(4) as clients:
        some, until_when = fleet.made(), time.monotonic() + 3

        def give_commands():
            while time.monotonic() < until_when:
                assert fleet.command(some, SHORT)

        began, ended = time.monotonic(), ended_s(home, some)
        waiting = [clients.submit(give_commands) for _ in range(4)]
        while not all(client.done() for client in waiting):
            assert not has_low_priority(home, some)
            time.sleep(0.02)
        for client in waiting:
            client.result()
        if ended_s(home, some) - ended < 0.8 * (time.monotonic() - began):
            pytest.skip("this host is too busy for a busy sandbox")


def test_a_busy_chain_of_short_processes_gets_low_priority_later(tmp_path, home):
    with running(tmp_path, home) as fleet:
        relay = fleet.made()
        assert fleet.command(relay, RELAY)
        until(lambda: has_low_priority(home, relay), 30, "low priority")
        assert fleet.command(relay, CALM)
        until(lambda: not has_low_priority(home, relay), 20, "normal priority")


def test_low_priority_ends_after_the_warden_was_killed(tmp_path, home):
    with running(tmp_path, home) as fleet:
        busy = fleet.made()
        assert fleet.command(busy, BUSY)
        until(lambda: has_low_priority(home, busy), 30, "low priority")
        os.kill(fleet.server.warden_pid, signal.SIGKILL)
        assert until(lambda: fleet.command(busy, CALM), 20, "a command")
        until(lambda: not has_low_priority(home, busy), 20, "normal priority")


def test_a_busy_sandbox_can_be_paused_and_removed(tmp_path, home):
    with running(tmp_path, home) as fleet:
        busy, other = fleet.made(), fleet.made()
        for name in (busy, other):
            assert fleet.command(name, BUSY)
        until(lambda: has_low_priority(home, busy) and has_low_priority(home, other), 20, "low priority")
        assert fleet.pause(busy).status == 202
        fleet.remove(busy)
        fleet.works(other)


def test_a_fork_bomb_is_capped_while_it_grows_and_its_limit_comes_back(tmp_path, home):
    with running(tmp_path, home) as fleet:
        bomb = fleet.made()
        assert fleet.command(bomb, "mkfifo /tmp/never; echo fine")
        assert quota(home, bomb) == 1000
        assert fleet.command(bomb, BOMB)
        until(lambda: quota(home, bomb) == 100, 30, "the CPU cap")
        os.kill(fleet.server.warden_pid, signal.SIGKILL)  # whoever comes next undoes it
        until(lambda: quota(home, bomb) == 1000, 60, "all of its limit")
        fleet.remove(bomb)


def test_starting_many_programs_is_no_bomb(tmp_path, home):
    with running(tmp_path, home) as fleet:
        some = fleet.made()
        assert "fine" in fleet.command(some, "for i in $(seq 100); do sleep 2 & done; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo fine")
        assert quota(home, some) == 1000
