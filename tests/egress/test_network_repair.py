# SPDX-License-Identifier: Apache-2.0
"""Changes that somebody else makes to the network of sandboxes are noticed and put right, while everything goes on."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import census
import network_left
from api import wait_for
from internet import OTHER
from network import MISSING, net, rules  # noqa: F401

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "")

REACHES = f"isinstance(tried(http, {OTHER!r}, 'other.test', 8080), dict)"


@pytest.fixture
def box(net):  # noqa: F811
    b = net.box(None)
    assert b.py(REACHES)
    yield b
    b.delete()


def links_of(net):  # noqa: F811
    """The host's ends that boxes have: parked slots, too."""
    return [n for n in net.internet.host.links() if n.startswith(net.server.home.prefix + "_")]


def route_table(net):  # noqa: F811
    there = network_left.range_of(net.server.home.prefix, net.internet.host.name)
    return [r["table"] for r in network_left.rows("rule", netns=net.internet.host.name) if f"{r.get('dst')}/{r.get('dstlen')}" == there][0]


def change_down(net, host):  # noqa: F811
    for link in links_of(net):
        host.ip("link", "set", link, "down")


def change_peer_down(net, host):  # noqa: F811
    for sandbox in net.api.get("/sandboxes").json["items"]:
        pid = census.init_of(net.server.home, sandbox["id"])
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "link", "set", "eth0", "down"], check=True)


def change_gone(net, host):  # noqa: F811
    for link in links_of(net):
        with contextlib.suppress(subprocess.CalledProcessError):  # of a slot that goes by itself
            host.ip("link", "del", link)


def change_routes(net, host):  # noqa: F811
    host.ip("route", "flush", "table", str(route_table(net)))


def change_rule(net, host):  # noqa: F811
    host.ip("rule", "del", "table", str(route_table(net)))


def change_gateway(net, host):  # noqa: F811
    host.ip("addr", "del", f"{network_left.gateway(net.server.home.prefix, host.name)}/32", "dev", "lo")


def change_elements(net, host):  # noqa: F811
    table = network_left.table(net.server.home.prefix)
    host.run("nft", "flush", "set", "inet", table, "pairs")
    host.run("nft", "flush", "map", "inet", table, "classes")


CHANGES = [change_down, change_peer_down, change_gone, change_routes, change_rule, change_gateway, change_elements]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_what_somebody_has_changed_is_put_right(net, box, change):  # noqa: F811
    change(net, net.internet.host)
    wait_for(lambda: box.py(REACHES), 15, what="its network coming back")
    other = net.box(None)  # of a slot that waited meanwhile, or of the next one
    wait_for(lambda: other.py(REACHES), 15, what="the network of a new one")
    other.delete()


def stopped_looker(net):  # noqa: F811
    """The worker that puts the rules back, in the midst of it: it has a child, which is nft."""
    for w in census.workers([net.server.warden_pid]):
        if any(census.name_of(c) == "nft" for c in census.workers([w])):
            os.kill(w, signal.SIGSTOP)
            return w
    return None


def test_creates_go_on_while_rules_are_put_back(net, box):  # noqa: F811
    """However long that takes."""
    net.internet.host.run("nft", "delete", "table", "inet", network_left.table(net.server.home.prefix))
    worker = wait_for(lambda: stopped_looker(net), 10, what="the worker")
    try:
        other = net.box(None)
        time.sleep(2.5)  # longer than the pause between two looks
        third = net.box(None)
    finally:
        os.kill(worker, signal.SIGCONT)
    for b in box, other, third:
        wait_for(lambda: b.py(REACHES), 15, what="its network")
    other.delete()
    third.delete()
    slow = [int(ms) for ms in re.findall(r"loop was held up by=\S+ took_ms=(\d+)", net.server.stderr)]
    assert max(slow, default=0) < 2000, slow


def test_what_nobody_has_is_removed_while_it_runs(net, box):  # noqa: F811
    """Elements, groups and a folder of a number that is free."""
    host, home, number = net.internet.host, net.server.home, 9000
    table, gateway = network_left.table(home.prefix), network_left.gateway(home.prefix, net.internet.host.name).split(".")
    address = f"{gateway[0]}.{gateway[1]}.{int(gateway[2]) + (number + 2) // 256}.{(number + 2) % 256}"
    host.run("nft", "-f", "-", text=f"""add element inet {table} pairs {{ "{home.prefix}_{number:x}" . {address} }}
        add element inet {table} classes {{ {address} : 0x03000000 }}
        add element inet {table} allowed {{ {address} . 192.0.2.1 }}
        add element inet {table} learned {{ {address} . 192.0.2.1 . 443 timeout 1h }}\n""")
    for top in census.tops(home.prefix):
        (top / f"b{number}").mkdir(exist_ok=True)
    (home.state / "boxes" / f"b{number}").mkdir()

    def left():
        groups = [t for t in census.tops(home.prefix) if (t / f"b{number}").exists()]
        return [address in host.run("nft", "list", "table", "inet", table), bool(groups), (home.state / "boxes" / f"b{number}").exists()]

    assert left() == [True, True, True]
    wait_for(lambda: not any(left()), 20, what="removing it")
    assert box.py(REACHES)


def sweeper(net):  # noqa: F811
    """The worker that looks for what nobody has, stopped once it is at the rules, which are the last that it looks at."""
    for w in census.workers([net.server.warden_pid]):
        with contextlib.suppress(OSError):
            if os.getpriority(os.PRIO_PROCESS, w) == 10 and census.name_of(w) == census.name_of(net.server.warden_pid):
                time.sleep(0.03)
                os.kill(w, signal.SIGSTOP)
                time.sleep(0.01)
                if pathlib.Path(f"/proc/{w}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    return w
    return None


def test_what_goes_while_somebody_looks_for_strays_is_none(net, box):  # noqa: F811
    """With many elements, which take a while to read."""
    before = net.server.stderr.count("removing leftovers of a removed box")
    host, table, other = net.internet.host, network_left.table(net.server.home.prefix), net.box(None)
    address = box.run("hostname -i")[0].split()[0]
    rows = ", ".join(f"{address} . 198.18.{i // 256 % 256}.{i % 256} . {1 + i // 65536} timeout 1h" for i in range(300000))
    host.run("nft", "-f", "-", text=f"add element inet {table} learned {{ {rows} }}\n")
    worker = wait_for(lambda: sweeper(net), 30, what="a worker")
    try:
        other.delete()
        time.sleep(3)  # until its number is free, a second after the rest of it is gone
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_for(lambda: not os.path.exists(f"/proc/{worker}"), 40, what="the end of the worker")
    host.run("nft", "flush", "set", "inet", table, "learned")
    assert net.server.stderr.count("removing leftovers of a removed box") == before
    assert box.py(REACHES)


def test_a_create_without_egress_is_told_to_come_back(net, box):  # noqa: F811
    """With its supervisor stopped as well, nobody replaces it."""
    pids = [net.server.process.pid, net.server.egress_pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        answers = [net.api.try_create(), net.api.try_create(networkPolicy=rules("+good.test"))]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    for a in answers:
        assert a.status == 503 and a.headers["Retry-After"] and a.json["code"] == "NATIVE::NETWORK_UNAVAILABLE", a
    wait_for(lambda: box.py(REACHES), 10, what="the network of others")


HEAVY = 22000  # elements of a set of intervals: to remove them takes the kernel some 15 s, in which nobody else changes rules


@pytest.fixture
def foreign(net):  # noqa: F811
    host = net.internet.host
    rows = ", ".join(f"{10 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24 . {1 + i}-65535" for i in range(HEAVY))
    host.run("nft", "-f", "-", text="add table inet foreign\nadd set inet foreign big { type ipv4_addr . inet_service; flags interval; }\n"
             f"add element inet foreign big {{ {rows} }}\n")
    yield "foreign"
    host.run("nft", "delete", "table", "inet", "foreign")


def test_the_warden_answers_while_somebody_changes_rules_for_long(net, box, foreign):  # noqa: F811
    host, warden, answers = net.internet.host, net.server.warden_pid, []
    other = net.box(None)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        change = pool.submit(host.run, "nft", "flush", "set", "inet", foreign, "big")
        time.sleep(0.5)
        creates = [pool.submit(net.api.try_create, networkPolicy=rules("+good.test")) for _ in range(4)]
        gone = pool.submit(net.api.delete, other.id)
        while not change.done():
            asked = time.monotonic()
            assert box.run("echo here") == ["here"]
            assert net.api.state(box.id) == "Running"
            answers.append(time.monotonic() - asked)
            time.sleep(0.2)
        took = time.monotonic() - began
        assert gone.result().status == 204
        for a in [c.result() for c in creates]:
            assert a.status == 202 or (a.status == 503 and a.headers["Retry-After"]), a
            if a.status == 202:
                net.adopt(a.json["id"]).delete()
    assert took > 5 and len(answers) > 5 and max(answers) < 3, (took, answers)
    slow = [int(ms) for ms in re.findall(r"loop was held up by=\S+ took_ms=(\d+)", net.server.stderr)]
    assert max(slow, default=0) < 2000, slow
    assert net.server.warden_pid == warden
    after = net.box(None)
    wait_for(lambda: after.py(REACHES), 15, what="the network of a new one")
    after.delete()
