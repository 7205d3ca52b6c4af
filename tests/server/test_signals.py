# SPDX-License-Identifier: Apache-2.0
"""Signals that a program has no use for: none of them ends it, whoever sends them."""
import os
import signal
import time

import pytest

import census
from conftest import children_of, program_of
from fleet import Fleet
from gateway import Gateway
from network import MISSING, net  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING or "")]

UNUSED = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGQUIT", "SIGPIPE", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGXFSZ", "SIGIO", "SIGPWR",
          "SIGSTKFLT", "SIGHUP", "SIGRTMIN", "SIGRTMAX"]  # fmt: skip
PROGRAMS = ["supervisor", "server", "warden", "maker", "egress", "execd", "gateway"]


@pytest.fixture(scope="module")
def world(net, tmp_path_factory):
    fleet = Fleet(net.server)
    gateway = Gateway(tmp_path_factory.mktemp("gateway"), [net.server], "uri")
    try:
        name = fleet.made()
        yield {"fleet": fleet, "name": name, "gateway": gateway}
        fleet.remove(name)
    finally:
        gateway.stop()


def pids_of(world, program):
    server = world["fleet"].server
    if program == "maker":
        return [c for c in children_of(server.warden_pid) if census.name_of(c) == "osb-maker"]
    if program == "execd":
        return [census.init_of(server.home, world["name"])]
    return [{"supervisor": server.process.pid, "server": server.pid, "warden": server.warden_pid, "egress": server.egress_pid,
             "gateway": world["gateway"].process.pid}[program]]


def test_the_table_has_every_program(world):
    """That runs all the time; what is started for a moment (unpack, fetch) begins in the same way."""
    server = world["fleet"].server
    running = {program_of(c) for c in [server.process.pid, *children_of(server.process.pid)]}
    assert running <= {"opensandbox-server", "opensandbox-warden", "opensandbox-egress", "opensandbox-fetch"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_signals_that_nobody_uses_end_nothing(world, program):
    fleet = world["fleet"]
    everybody = {p: pids_of(world, p) for p in PROGRAMS}
    for pid in everybody[program]:
        for name in UNUSED:
            os.kill(pid, getattr(signal, name))
            time.sleep(0.02)  # one after the other: the first that ends it is seen
            assert os.path.exists(f"/proc/{pid}/fd/0") or os.path.exists(f"/proc/{pid}/stat"), name
    time.sleep(0.3)
    assert {p: pids_of(world, p) for p in PROGRAMS} == everybody
    fleet.works(world["name"])
    assert "starting it again" not in fleet.server.stderr


def test_commands_have_the_defaults(world):
    """What execd ignores is nobody else's business."""
    mask = world["fleet"].command(world["name"], "grep SigIgn /proc/self/status")
    assert int(mask.split()[1], 16) == 0
