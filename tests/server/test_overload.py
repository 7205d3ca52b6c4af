# SPDX-License-Identifier: Apache-2.0
"""G12b: more calls into one sandbox than it can take are answered 429 or 503 with Retry-After, and do not harm it."""
import asyncio
import json
import time

import pytest

from api import EXECD

AT_ONCE = 500
COMMAND = "sleep 0.5; echo $((6*7))"


@pytest.fixture(scope="module")
def sandbox(api):
    made = api.create(resourceLimits={"cpu": "2", "memory": "512Mi", "pids": "2048"})["id"]
    yield made
    assert api.delete(made).status == 204


async def call(way, method, path, headers, body):
    reader, writer = await asyncio.open_connection(*way)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n".encode())
        writer.write("".join(f"{k}: {v}\r\n" for k, v in headers.items()).encode() + b"\r\n" + body)
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
    return int(head.split()[1]), fields, rest


def flood(api, sandbox, method, path, body=b""):
    endpoint = api.endpoint(sandbox, EXECD)
    host, prefix = endpoint["endpoint"].split("/", 1)
    name, port = host.rsplit(":", 1)

    async def all_of_them():
        calls = (call((name, int(port)), method, f"/{prefix}{path}", endpoint["headers"], body) for _ in range(AT_ONCE))
        return await asyncio.gather(*calls)

    return asyncio.run(all_of_them())


def assert_told(answers):
    """The bodies of those that were done. No other is without a time to come again."""
    done = [body for status, _, body in answers if status == 200]
    for status, fields, body in answers:
        assert status in (200, 429, 503), (status, body)
        if status == 200:
            assert "transfer-encoding" not in fields or body.endswith(b"0\r\n\r\n"), body
        else:
            assert int(fields["retry-after"]) > 0, (status, fields)
            assert set(json.loads(body)) >= {"code", "message"}
    assert len(done) >= 64
    return done


def assert_works(api, sandbox):
    began = time.monotonic()
    assert api.run(sandbox, "echo $((6*7))") == ["42"]
    assert time.monotonic() - began < 5


def test_g12_500_commands_at_once_are_run_or_told_to_come_again(api, sandbox):
    done = assert_told(flood(api, sandbox, "POST", "/command", json.dumps({"command": COMMAND}).encode()))
    assert all(b'"text":"42"' in body and b"execution_complete" in body for body in done)
    assert_works(api, sandbox)


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/command", {"command": "sleep 1", "background": True}),
    ("POST", "/session", {}),
    ("GET", "/files/search?path=/etc&pattern=*.conf", None),
    ("GET", "/directories/list?path=/usr/share", None),
    ("POST", "/directories", {"/made": {}}),
    ("GET", "/metrics", None),
    ("GET", "/ping", None),
])
def test_g12_500_calls_of_any_kind_at_once(api, sandbox, method, path, body):
    assert_told(flood(api, sandbox, method, path, json.dumps(body).encode() if body is not None else b""))
    assert_works(api, sandbox)
