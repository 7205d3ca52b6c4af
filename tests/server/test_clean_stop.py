# SPDX-License-Identifier: Apache-2.0
"""An orderly stop that leaves no sandbox leaves nothing of ours in the kernel, whatever happened before (G10)."""
import os
import signal

import pytest

import census
import network_left
from conftest import Home
from fleet import Fleet, until
from network import MISSING, network

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "")


def many_deleted(fleet):
    for name in [fleet.made() for _ in range(8)]:
        assert fleet.delete(name).status == 204


def ended(fleet):
    """Its record stays until somebody deletes it, and needs nothing of the kernel."""
    name = fleet.made(entrypoint=["true"])
    until(lambda: fleet.state(name) in ("Terminated", "Failed"), 10, "its end")


def killed_warden(fleet):
    os.kill(fleet.server.warden_pid, signal.SIGKILL)
    fleet.remove(fleet.made_somehow())


@pytest.mark.parametrize("before", [many_deleted, ended, killed_warden], ids=lambda f: f.__name__)
def test_an_orderly_stop_leaves_nothing_in_the_kernel(spec, before):
    home = Home()
    try:
        with network(spec, home=home) as net:
            before(Fleet(net.server))
            net.server.stop()
            left = network_left.left(home.prefix, net.internet.host.name)
            assert not left and not census.groups(home.prefix), (left, census.groups(home.prefix))
    finally:
        home.remove()


@pytest.mark.smoke
def test_a_stop_leaves_sandboxes_that_run(spec):
    home = Home()
    try:
        with network(spec, home=home) as net:
            name = Fleet(net.server).made()
            net.server.stop()
            assert {"table", "address", "rule", "route"} <= {*network_left.left(home.prefix, net.internet.host.name)}
            assert census.groups(home.prefix)
            net.start()
            fleet = Fleet(net.server)
            fleet.works(name)
            fleet.remove(name)
    finally:
        home.remove()
