# SPDX-License-Identifier: Apache-2.0
"""Warm pools: sandboxes that wait, who gets them, and what is left of a pool after a kill or a delete."""
import concurrent.futures
import contextlib
import os
import signal
import sqlite3
import threading
import time

import pytest

import census
from api import BODY, Api, wait_for, when
from fleet import until

ENV = {"GREETING": "hello"}
TEMPLATE = {**BODY, "env": ENV}
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
    {"name": "c", "image": "host", "command": ["/bin/sh"], "args": ["-c", "echo up; sleep 1000"],
     "env": [{"name": "GREETING", "value": "hello"}], "resources": {"limits": {"cpu": "1", "memory": "256Mi"}}},
    {"name": "other", "image": "nowhere"}]}}  # fmt: skip

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def sizes(buffer_min, buffer_max, pool_min=0, pool_max=100):
    return {"bufferMin": buffer_min, "bufferMax": buffer_max, "poolMin": pool_min, "poolMax": pool_max}


class Pools(Api):
    """The API with the pools; all of them, and all sandboxes, are gone when it is left."""

    def make(self, name, capacity, template=None):
        a = self.post("/pools", {"name": name, "template": template or TEMPLATE, "capacitySpec": capacity})
        assert a.status == 201, a
        return a.json

    def status(self, name):
        a = self.get(f"/pools/{name}")
        assert a.status == 200, a
        return a.json["status"]

    def wait_available(self, name, n):
        return wait_for(lambda: (s := self.status(name))["available"] == n and s["total"] - s["allocated"] == n and s,
                        what=f"{n} that wait")

    def resize(self, name, capacity):
        a = self.call("PUT", f"/pools/{name}", {"capacitySpec": capacity})
        assert a.status == 200, a
        return a.json

    def try_take(self, name, headers=None, **body):
        body.setdefault("extensions", {})
        return self.post("/sandboxes", {**body, "extensions": {"poolRef": name, **body["extensions"]}}, headers=headers)

    def take(self, name, **body):
        a = self.try_take(name, **body)
        assert a.status == 202, a
        return a.json

    def drop(self, name):
        a = self.call("DELETE", f"/pools/{name}")
        assert a.status == 204, a

    def idle(self):
        """The ids of those that wait, from the records."""
        with contextlib.closing(sqlite3.connect(f"file:{self.server.home.state}/server/db.sqlite?mode=ro", uri=True)) as db:
            return {row[0] for row in db.execute("SELECT sandbox_id FROM pool_members WHERE is_idle = 1")}

    def listed(self):
        return {s["id"] for s in self.get("/sandboxes?pageSize=200").json["items"]}

    def clean(self):
        for pool in self.get("/pools").json["items"]:
            self.drop(pool["name"])
        for sandbox_id in self.listed():  # a warden that was killed may not be back yet
            wait_for(lambda: self.server.request("DELETE", f"/sandboxes/{sandbox_id}").status in (204, 404))  # noqa: B023
        quiet = [0]

        def is_over():  # one that was just begun has no record yet
            quiet[0] = 0 if self.idle() else quiet[0] + 1
            return quiet[0] > 20

        wait_for(is_over, what="the end of those that waited")


@pytest.fixture(scope="module")
def pools(server, spec):
    p = Pools(server, spec)
    yield p
    p.clean()


@pytest.fixture
def own(home, start_server, spec):
    """own() starts a server in the same place as the last one."""
    started = []

    def start():
        started.append(Pools(start_server(home=home), spec))
        return started[-1]

    yield start
    started[-1].clean()


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# ---- the resource ---------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_pool_from_its_making_to_its_end(pools):
    made = pools.make("life", sizes(2, 2))
    assert made["capacitySpec"] == sizes(2, 2) and made["status"]["allocated"] == 0
    assert pools.get("/v1/pools/life").json["createdAt"] == made["createdAt"]
    pools.refused(pools.post("/pools", {"name": "life", "template": TEMPLATE, "capacitySpec": sizes(0, 0)}), 409,
                  "NATIVE::POOL_ALREADY_EXISTS", "life")
    pools.wait_available("life", 2)
    assert [p["name"] for p in pools.get("/pools").json["items"]] == ["life"]
    assert pools.resize("life", sizes(0, 1))["capacitySpec"] == sizes(0, 1)
    pools.wait_available("life", 1)
    pools.drop("life")
    pools.refused(pools.get("/pools/life"), 404, "NATIVE::POOL_NOT_FOUND", "life")
    pools.refused(pools.try_take("life"), 404, "NATIVE::POOL_NOT_FOUND", "life")
    wait_for(lambda: not pools.idle(), what="draining")


def test_bad_pools_are_refused(pools):
    def post(**changes):
        return pools.post("/pools", {"name": "bad", "template": TEMPLATE, "capacitySpec": sizes(0, 0), **changes})

    assert post(name="Bad").status == 422
    assert post(template=None).status == 422
    assert post(capacitySpec={"bufferMin": 0}).status == 422
    assert post(capacitySpec=sizes(-1, 1)).status == 422
    pools.refused(post(capacitySpec=sizes(2, 1)), 400, "SANDBOX::INVALID_PARAMETER", "bufferMin")
    pools.refused(post(capacitySpec=sizes(0, 0, 2, 1)), 400, "SANDBOX::INVALID_PARAMETER", "poolMin")
    pools.refused(post(template={**TEMPLATE, "timeout": 600}), 400, "SANDBOX::INVALID_PARAMETER", "template.timeout")
    pools.refused(post(template={**TEMPLATE, "image": {"uri": "no such image"}}), 400, "SANDBOX::INVALID_PARAMETER", "template.image.uri")
    assert pools.get("/pools/bad").status == 404


def test_a_pod_template_is_understood(pools):
    pools.make("pod", sizes(1, 1), POD)
    pools.wait_available("pod", 1)
    waiting = pools.idle()
    got = pools.take("pod")
    assert {got["id"]} == waiting and got["entrypoint"] == ["/bin/sh", "-c", "echo up; sleep 1000"]
    assert pools.run(got["id"], "echo $GREETING") == ["hello"]
    assert b"up" in pools.get(f"/sandboxes/{got['id']}/diagnostics/logs").body
    pools.drop("pod")
    assert pools.delete(got["id"]).status == 204


# ---- taking ---------------------------------------------------------------------------------------------------


def test_those_that_wait_are_nobodys(pools):
    pools.make("hidden", sizes(1, 1))
    pools.wait_available("hidden", 1)
    [waiting] = pools.idle()
    assert waiting not in pools.listed()
    assert pools.get(f"/sandboxes/{waiting}").status == 404
    assert pools.delete(waiting).status == 404
    assert pools.get(f"/sandboxes/{waiting}/endpoints/44772").status == 404
    assert pools.post(f"/sandboxes/{waiting}/pause").status == 404
    pools.drop("hidden")


def test_whoever_takes_one_owns_it(pools):
    pools.make("owned", sizes(1, 1, 0, 2))
    pools.wait_available("owned", 1)
    [waiting] = pools.idle()
    time.sleep(1.1)
    got = pools.take("owned", timeout=300, metadata={"team": "infra"}, extensions={"access.renew.extend.seconds": "600"})
    assert got["id"] == waiting and got["metadata"] == {"team": "infra"} and got["status"]["state"] == "Running"
    life = when(got["expiresAt"]) - when(got["createdAt"])
    assert life.total_seconds() == 300
    seen = pools.read(waiting)
    assert (seen["createdAt"], seen["expiresAt"], seen["metadata"]) == (got["createdAt"], got["expiresAt"], got["metadata"])
    assert pools.run(waiting, "echo $GREETING") == ["hello"]
    assert "HandedOut" in pools.events(waiting)
    pools.wait_available("owned", 1)
    assert pools.status("owned")["allocated"] == 1
    assert pools.delete(waiting).status == 204  # deleted as any other, not returned
    assert pools.status("owned")["allocated"] == 0 and waiting not in pools.idle()
    pools.drop("owned")


def test_what_it_cannot_have_any_more_is_refused_by_name(pools):
    pools.make("set", sizes(0, 0))
    for name, body in {
        "image.uri": {"image": {"uri": "other"}}, "entrypoint": {"entrypoint": ["/bin/true"]}, "env.MORE": {"env": {"MORE": "1"}},
        "env.GREETING": {"env": {"GREETING": "bye"}}, "resourceLimits.memory": {"resourceLimits": {"memory": "1Gi"}},
        "networkPolicy": {"networkPolicy": {"egress": []}},
    }.items():  # fmt: skip
        pools.refused(pools.try_take("set", **body), 400, "SANDBOX::INVALID_PARAMETER", name)
    volume = {"name": "v", "mountPath": "/v", "host": {"path": "/tmp"}}
    assert pools.try_take("set", volumes=[volume]).status == 400
    assert pools.status("set")["total"] == 0
    same = pools.take("set", **TEMPLATE)
    assert pools.delete(same["id"]).status == 204
    pools.drop("set")


def test_an_empty_pool_makes_new_ones_and_has_a_ceiling(pools):
    pools.make("small", sizes(0, 0, 0, 2))
    one, two = pools.take("small"), pools.take("small")
    assert pools.run(two["id"], "echo $GREETING") == ["hello"]
    refusal = pools.refused(pools.try_take("small"), 429, "NATIVE::POOL_EXHAUSTED", "small")
    assert refusal.headers["Retry-After"]
    assert pools.delete(one["id"]).status == 204
    three = pools.take("small")
    pools.drop("small")
    for left in (two, three):  # those that were handed out live on
        assert pools.run(left["id"], "echo here") == ["here"]
        assert pools.delete(left["id"]).status == 204


def test_no_two_get_the_same(pools):
    pools.make("busy", sizes(10, 20))
    pools.wait_available("busy", 15)
    taken, lock = [], threading.Lock()

    def cycle(_):
        got = pools.take("busy", metadata={"n": "1"})
        with lock:
            taken.append(got["id"])
        assert pools.delete(got["id"]).status == 204

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(cycle, range(200)))
    assert len(taken) == len(set(taken)) == 200
    wait_for(lambda: (s := pools.status("busy"))["available"] >= 10 and s["allocated"] == 0)
    assert not pools.idle() & set(taken)
    pools.drop("busy")


def test_a_key_gets_the_same_one_again(pools):
    pools.make("keyed", sizes(2, 2))
    pools.wait_available("keyed", 2)
    headers = {"Idempotency-Key": "pool-key"}
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: pools.try_take("keyed", headers=headers), range(4)))
    assert {a.status for a in answers} == {202} and len({a.json["id"] for a in answers}) == 1
    assert pools.status("keyed")["allocated"] == 1
    pools.refused(pools.try_take("keyed", headers=headers, timeout=60), 409, "SANDBOX::IDEMPOTENCY_KEY_REUSED")
    assert pools.delete(answers[0].json["id"]).status == 204
    pools.drop("keyed")


# ---- those that are not well ----------------------------------------------------------------------------------


def test_one_whose_init_died_is_replaced(pools):
    pools.make("dead", sizes(1, 1))
    pools.wait_available("dead", 1)
    [waiting] = pools.idle()
    kill(census.init_of(pools.server.home, waiting))
    wait_for(lambda: (s := pools.idle()) and waiting not in s, what="its replacement")
    pools.wait_available("dead", 1)
    assert pools.take("dead")["id"] != waiting
    pools.clean()


def test_one_that_does_not_answer_is_never_handed_out(pools):
    pools.make("hung", sizes(1, 1))
    pools.wait_available("hung", 1)
    [waiting] = pools.idle()
    os.kill(census.init_of(pools.server.home, waiting), signal.SIGSTOP)
    got = pools.take("hung")  # a new one, after the other had its chance
    assert got["id"] != waiting
    assert pools.run(got["id"], "echo well") == ["well"]
    wait_for(lambda: waiting not in pools.idle(), what="the end of the one that hung")
    pools.clean()


# ---- restarts and kills ---------------------------------------------------------------------------------------


def test_a_restart_finds_those_that_waited(own):
    p = own()
    p.make("kept", sizes(3, 3), POD)
    p.wait_available("kept", 3)
    mine = p.take("kept", timeout=600, metadata={"a": "b"})
    p.wait_available("kept", 3)
    before, pool = p.idle(), p.get("/pools/kept").json
    p.server.stop()
    p = own()
    assert p.get("/pools/kept").json == pool and p.idle() == before
    assert p.read(mine["id"])["expiresAt"] == mine["expiresAt"] and p.listed() == {mine["id"]}
    again = p.take("kept")
    assert again["id"] in before and again["id"] != mine["id"]
    assert p.run(again["id"], "echo $GREETING") == ["hello"]


@pytest.mark.parametrize("who", ["server", "warden", "both"])
def test_a_kill_loses_none_of_those_that_wait(own, who):
    p = own()
    p.make("hard", sizes(3, 3))
    p.wait_available("hard", 3)
    before = p.idle()
    pids = {"server": [p.server.pid], "warden": [p.server.warden_pid], "both": [p.server.pid, p.server.warden_pid]}[who]
    for pid in pids:
        kill(pid)
    got = until(lambda: still(lambda: (a := p.try_take("hard")).status == 202 and a.json["id"]), 20, "taking one")
    assert got in before
    assert p.run(got, "echo fine") == ["fine"]


def still(ask):
    """What ASK gives, or None while the server is away."""
    with contextlib.suppress(OSError):
        return ask()
    return None


def test_kills_during_refill_and_acquire_hand_nothing_out_twice(own):
    p = own()
    p.make("storm", sizes(4, 6, 0, 1000))
    told, stop, lock = [], threading.Event(), threading.Lock()

    def client(_):
        while not stop.is_set():
            with contextlib.suppress(OSError, ValueError, AssertionError):
                a = p.server.request("POST", "/sandboxes", body=b'{"extensions":{"poolRef":"storm"},"timeout":600}', timeout=10)
                if a.status == 202:
                    with lock:
                        told.append(a.json["id"])
                    if len(told) % 6 != 0:
                        p.server.request("DELETE", f"/sandboxes/{a.json['id']}", timeout=10)
            time.sleep(0.02)

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        clients = [threads.submit(client, i) for i in range(4)]
        for who in (False, True, False, True, False):
            time.sleep(0.7)
            for pid in p.server.children(who)[:1]:
                kill(pid)
        time.sleep(1)
        stop.set()
        concurrent.futures.wait(clients)
    until(lambda: still(lambda: p.get("/health").status == 200), 20, "the server's return")
    assert len(told) == len(set(told)) > 10
    wait_for(lambda: (s := p.status("storm"))["available"] >= 4 and s["total"] == s["available"] + s["allocated"],
             what="peace")
    listed, idle = p.listed(), p.idle()
    assert not idle & set(told) and not idle & listed
    assert p.status("storm")["allocated"] == len(listed)
    for sandbox_id in listed & set(told):
        assert p.run(sandbox_id, "echo fine") == ["fine"]
