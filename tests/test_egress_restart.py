# SPDX-License-Identifier: Apache-2.0
"""What an egress that was killed had let through (G5): the next one can take it back."""
import os
import signal

import pytest

from api import wait_for
from internet import OTHER
from network import MISSING, net, rules  # noqa: F401

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def test_what_an_earlier_process_had_let_through_is_forgotten(net):
    box = net.box(rules("+other.test:8080"))
    there = f"tried(http, {OTHER!r}, 'other.test', 8080)"
    assert isinstance(box.py(f"[resolve('other.test'), {there}]")[1], dict)
    assert isinstance(box.py(there), dict)  # the address alone is enough, as long as it is known
    old = net.server.egress_pid
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: isinstance(box.py("tried(resolve, 'other.test')"), list), what="names again")
    assert net.server.egress_pid != old
    assert isinstance(box.py(there), dict)  # asked for again, let through again
    box.change("PUT", {})
    assert not isinstance(box.py(there), dict)


def test_a_change_after_a_kill_leaves_nothing_open(net):
    box = net.box(rules("+other.test:8080"))
    there = f"tried(http, {OTHER!r}, 'other.test', 8080)"
    assert isinstance(box.py(f"[resolve('other.test'), {there}]")[1], dict)
    os.kill(net.server.egress_pid, signal.SIGKILL)
    wait_for(lambda: box.call("PUT", "/policy", {}).status == 200, what="a change")
    assert not isinstance(box.py(there), dict)
