# SPDX-License-Identifier: Apache-2.0
"""What an egress that was killed had let through (G5): the next one can take it back."""
import concurrent.futures
import contextlib
import os
import signal
import time

import pytest

from api import wait_for
from internet import OTHER
from network import MISSING, net, rules  # noqa: F401

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def is_another(net, old):
    with contextlib.suppress(IndexError):  # there is none at the moment
        return net.server.egress_pid != old


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


def test_an_allowed_name_is_never_denied_while_egress_is_killed(net):  # W9
    """Names and connections wait, or fail for a moment; they are not answered by a process that does not know the policy yet."""
    box = net.box(rules("+good.test"))
    box.run("rm -f /tmp/stop /tmp/begun")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(box.py, """
import concurrent.futures
import contextlib
import os
codes, pages = [], []
open('/tmp/begun', 'w').close()
until = time.monotonic() + 30
while not os.path.exists('/tmp/stop') and time.monotonic() < until:
    codes.append(tried(ask, 'good.test', timeout=4))
    pages.append(isinstance(tried(web, 'good.test', timeout=4), dict))
codes = [code if isinstance(code, str) else code[0] for code in codes]
RESULT = [sorted({str(code) for code in codes}), codes.count('timeout'), len(codes), any(pages), pages[-1]]
""")
        wait_for(lambda: "yes" in box.run("test -e /tmp/begun && echo yes || true"), what="the loop")
        for _ in range(3):
            old = net.server.egress_pid
            os.kill(old, signal.SIGKILL)
            wait_for(lambda: is_another(net, old), what="another egress")
            time.sleep(0.3)
        time.sleep(0.5)
        box.run("touch /tmp/stop")
        codes, lost, n, some, last = found.result()
    assert set(codes) <= {"0", "timeout"} and lost <= 3 and n > 10 and some and last, (codes, lost, n)
    assert box.activity()["counters"]["dnsDenied"] == 0


# ---- one that is stopped ----


def test_a_stopped_egress_is_replaced_and_who_waits_is_answered(net):
    """A change and a create that meet it are done with the next one, or refused as what can be tried again; within 10 s."""
    box = net.box(rules("+good.test"))
    assert box.call("GET", "/policy").status == 200
    old = net.server.egress_pid
    os.kill(old, signal.SIGSTOP)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        first = pool.submit(box.call, "PATCH", "/policy", [{"action": "allow", "target": "other.test"}])
        made = pool.submit(net.api.try_create, networkPolicy=rules("+good.test"))
        plain = pool.submit(net.api.try_create)
        change = first.result()
        assert time.monotonic() - began < 10
        for answer in made.result(), plain.result():
            if answer.status == 202:
                net.adopt(answer.json["id"])
            else:
                assert answer.status == 503 and answer.headers["Retry-After"], answer
                assert answer.json["code"].endswith("::NETWORK_UNAVAILABLE"), answer
    targets = [rule["target"] for rule in box.policy()["policy"]["egress"]]
    if change.status == 200:
        assert targets == ["other.test", "good.test"]
    else:
        assert change.status == 503 and change.headers["Retry-After"] and targets == ["good.test"], (change.status, change.text, targets)
    assert net.server.egress_pid != old
    wait_for(lambda: isinstance(box.py("tried(web, 'good.test')"), dict), 10, "the network")
    assert "gives no sign of life, killing it name=egress" in net.server.stderr
