# SPDX-License-Identifier: Apache-2.0
"""The C library's way into sandboxes, against a real server."""
import json
import os
import subprocess

import pytest

from conftest import BIN, KEY, assert_clean, clean_environment
from network import MISSING, net  # noqa: F401
from test_client import PROGRAMS, run
from test_http_basics import make_certificate
from test_renewals import redis  # noqa: F401

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
WAYS = pytest.mark.parametrize("proxy", [False, True], ids=["endpoints", "server-proxy"])


def call(program, server, proxy, **more):
    return run(PROGRAMS / program, f"127.0.0.1:{server.port}", KEY, env={"USE_SERVER_PROXY": "1"} if proxy else None, **more)


def shown_in(out):
    assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")
    return {k: json.loads(v) for k, v in (line.split(" ", 1) for line in out.splitlines() if not line.endswith(": ok"))}


@WAYS
@pytest.mark.smoke
def test_every_function_that_reaches_inside_works_waiting_and_not(server, proxy):
    shown = shown_in(call("inside", server, proxy))
    assert list(shown["execution"]) == ["id", "execution_count", "result", "error", "complete", "exit_code", "logs"]
    assert shown["execution"]["exit_code"] == 7 and shown["execution"]["complete"] is None
    assert list(shown["execution"]["error"]) == ["name", "value", "timestamp", "traceback"]
    assert [m["text"] for m in shown["execution"]["logs"]["stdout"]] == ["hello world", "\n", "/tmp"]
    assert shown["execution"]["logs"]["stderr"][0]["is_error"] is True
    assert list(shown["status"]) == ["id", "content", "running", "exit_code", "error", "started_at", "finished_at"]
    assert list(shown["logs"]) == ["content", "cursor"] and list(shown["session"]) == ["session_id"]
    assert list(shown["files"][0]) == ["path", "entry_type", "mode", "owner", "group", "size", "modified_at", "created_at"]
    assert list(shown["metrics"]) == ["cpu_count", "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib", "timestamp"]
    assert list(shown["code"]["result"][0]) == ["text", "timestamp", "extra_properties"] and shown["code"]["exit_code"] is None
    assert {r["path"]: r["replaced_count"] for r in shown["replaced"]} == {"/tmp/c-sdk/d/moved": 0, "/tmp/c-sdk/words": 3}


@WAYS
def test_every_function_that_is_inside_terminals_works_waiting_and_not(server, proxy):
    out = call("terminal", server, proxy)
    assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")


@pytest.mark.parametrize("program", ["inside", "terminal"])
def test_it_reaches_inside_by_tls(start_server, tmp_path, program):
    cert, key = make_certificate(tmp_path)
    server = start_server(f"[server]\ntls_cert = \"{cert}\"\ntls_key = \"{key}\"\n")
    out = run(PROGRAMS / program, f"https://127.0.0.1:{server.port}", KEY, env={"USE_SERVER_PROXY": "1", "CA_FILE": str(cert)})
    assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@WAYS
def test_every_function_about_policies_works_waiting_and_not(net, proxy):  # noqa: F811
    with net.internet.host.entered():
        shown = shown_in(call("egress", net.server, proxy))
    assert shown["policy"]["policy"] == {"default_action": "deny", "egress": [{"action": "allow", "target": "a.example.com"}]}


# ---- the pool ----


@pytest.mark.parametrize("shared", [False, True], ids=["memory", "redis"])
def test_the_pool_keeps_its_promises_and_leaves_nothing(server, redis, shared):  # noqa: F811
    out = run(PROGRAMS / "pool", f"127.0.0.1:{server.port}", KEY, env={"REDIS_URL": redis.dsn} if shared else None)
    assert "waiting: ok\n" in out and out.endswith("calling back: ok\n")
    assert server.get("/v1/sandboxes").json["items"] == []


def test_a_real_redis_keeps_the_rules_of_a_store(redis):  # noqa: F811
    done = subprocess.run([BIN.parent / "unit/client/pool_store_test"], capture_output=True, text=True, timeout=60, check=False,
                          env=clean_environment("/nonexistent", OPENSANDBOX_TEST_REDIS_URL=redis.dsn))  # fmt: skip
    assert_clean(done.stderr)
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, done.stdout + done.stderr
