# SPDX-License-Identifier: Apache-2.0
"""Pools on the client's side: the C library's beside the published Python one, on the same keys of one Redis."""
import concurrent.futures
import datetime
import json
import os
import subprocess
import uuid

import pytest

from api import wait_for
from conftest import BIN, KEY, assert_clean, clean_environment
from test_renewals import redis  # noqa: F401

MEMBER = BIN.parent / "client/pool_member"
pytestmark = [pytest.mark.skipif(os.geteuid() != 0 or not MEMBER.exists(), reason="needs root, and tests/client built")]

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")
client_of_redis = pytest.importorskip("redis", reason="needs the packages of tests/compat/requirements.txt")

from opensandbox.config import ConnectionConfigSync  # noqa: E402
from opensandbox.exceptions import PoolEmptyException  # noqa: E402
from opensandbox.pool import AcquirePolicy, PoolCreationSpec, SandboxPoolSync  # noqa: E402
from opensandbox.pool_redis import RedisPoolStateStore  # noqa: E402

TICK = datetime.timedelta(milliseconds=100)


class Member:
    """The one in C."""

    def __init__(self, server, dsn, name, max_idle):
        self.process = subprocess.Popen([MEMBER, f"127.0.0.1:{server.port}", KEY, dsn, name, str(max_idle)], text=True,
                                        env=clean_environment("/nonexistent"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)  # fmt: skip

    def say(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.rstrip("\n")

    def snapshot(self):
        return json.loads(self.say("snapshot"))

    def acquire(self):
        return self.say("acquire")

    def close(self):
        _, stderr = self.process.communicate(timeout=60)
        assert_clean(stderr)
        assert self.process.returncode == 0, stderr


class World:
    def __init__(self, server, redis_at):
        self.server, self.redis_at, self.name = server, redis_at, f"pool/{uuid.uuid4()} é"
        self.store = RedisPoolStateStore(client_of_redis.Redis.from_url(redis_at.dsn))
        self.open = []

    def python(self, max_idle):
        pool = SandboxPoolSync(pool_name=self.name, max_idle=max_idle, state_store=self.store, warmup_concurrency=2,
                               connection_config=ConnectionConfigSync(domain=f"127.0.0.1:{self.server.port}", api_key=KEY),
                               creation_spec=PoolCreationSpec(image="host"), reconcile_interval=TICK, drain_timeout=10 * TICK,
                               idle_timeout=datetime.timedelta(seconds=600))  # fmt: skip
        self.open.append(lambda: pool.shutdown(graceful=False))
        pool.start()
        return pool

    def c(self, max_idle):
        member = Member(self.server, self.redis_at.dsn, self.name, max_idle)
        self.open.append(member.close)
        return member

    def idle(self):
        return [entry.sandbox_id for entry in self.store.snapshot_idle_entries(self.name)]

    def until_idle(self, n):
        wait_for(lambda: len(self.idle()) == n, timeout=60, what=f"{n} idle")
        return self.idle()

    def close(self):
        while self.open:
            self.open.pop()()
        for sandbox in self.server.get("/v1/sandboxes?pageSize=200").json["items"]:
            self.server.request("DELETE", f"/v1/sandboxes/{sandbox['id']}")


@pytest.fixture
def world(server, redis):  # noqa: F811
    w = World(server, redis)
    yield w
    w.close()


def test_what_python_puts_there_c_takes(world):
    python = world.python(3)
    ids = world.until_idle(3)
    c = world.c(3)
    seen = c.snapshot()
    assert seen["lifecycle_state"] == "RUNNING" and seen["max_idle"] == 3
    assert [e["sandbox_id"] for e in seen["idle"]] == world.idle()
    assert c.acquire() in ids
    python.shutdown(graceful=True)
    world.until_idle(3)  # the lock was given back: now C fills it


def test_what_c_puts_there_python_takes(world):
    c = world.c(2)
    ids = world.until_idle(2)
    python = world.python(2)
    assert python.snapshot().idle_count == 2
    sandbox = python.acquire(sandbox_timeout=datetime.timedelta(seconds=200), policy=AcquirePolicy.FAIL_FAST)
    assert sandbox.id == ids[0] and sandbox.is_healthy()  # the oldest
    sandbox.kill()
    python.resize(0)
    world.until_idle(0)
    assert c.acquire() == "failed POOL_EMPTY" and c.snapshot()["max_idle"] == 0
    with pytest.raises(PoolEmptyException):
        python.acquire(policy=AcquirePolicy.FAIL_FAST)
    assert c.say("resize 1") == "0"
    world.until_idle(1)
    assert python.snapshot().max_idle == 1
    assert c.say("shutdown") == "0"
    world.idle()
    python.release_all_idle()
    world.until_idle(1)  # by Python, who has the lock now


def test_nobody_gets_what_another_has(world):
    python, c = world.python(6), world.c(6)
    world.until_idle(6)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        taken = [threads.submit(python.acquire) for _ in range(6)]
        mine = [c.acquire() for _ in range(6)]
        theirs = [f.result().id for f in taken]
    got = [i for i in mine if not i.startswith("failed")] + theirs
    assert len(set(got)) == len(got) and len(got) >= 6
    assert not set(got) & set(world.until_idle(6))
