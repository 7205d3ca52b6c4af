# SPDX-License-Identifier: Apache-2.0
"""WebSockets into sandboxes, through both ports."""
import asyncio
import concurrent.futures
import contextlib
import json
import os
import socket

import pytest
import websockets

from api import EXECD, TIMEOUT_S, wait_for
from conftest import KEY, read_all
from way import ENTRYPOINT, Way

WS_LIMITS = {"max_size": 64 << 20, "open_timeout": TIMEOUT_S, "close_timeout": TIMEOUT_S, "ping_interval": None}


@pytest.fixture(params=["api", "api-v1", "proxy"])
def way(request, api, inside):
    port = api.server.port + (request.param == "proxy")
    return Way(api, inside, port, "/v1" if request.param == "api-v1" else "")


def url(way, rest="/ws", port=8080):
    return f"ws://{way.host}:{way.port}{way.path(rest, port)}"


def talk(way, act, rest="/ws", port=8080, **more):
    """What ACT(socket, hello) gives; HELLO is what the backend tells of the request."""

    async def run():
        async with websockets.connect(url(way, rest, port), **WS_LIMITS, **more) as ws:
            return await act(ws, json.loads(await ws.recv()))

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def closed(way, rest="/ws", port=8080, **more):
    """Code and reason of a connection that is accepted only to be closed."""

    async def run():
        async with websockets.connect(url(way, rest, port), **WS_LIMITS, **more) as ws:
            with contextlib.suppress(websockets.ConnectionClosed):
                await ws.recv()
            await ws.wait_closed()
            return ws.close_code, ws.close_reason

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


async def echoed(ws, *messages):
    for m in messages:
        await ws.send(m)
        assert await ws.recv() == m


@pytest.mark.smoke
def test_messages_pass_both_ways(way):
    async def act(ws, hello):
        await echoed(ws, "text", b"\0\xff", "", b"", "é€😀", "x" * 125, b"y" * 126, "z" * 65535, b"w" * 65536, os.urandom(5 << 20))
        return ws.response_headers["X-Backend"]

    assert talk(way, act) == "yes"


def test_path_query_and_headers_arrive(way):
    async def act(ws, hello):
        return hello

    secrets = {"OPEN-SANDBOX-API-KEY": KEY, "Authorization": "Bearer hush", "Cookie": "a=hush", "X-EXECD-ACCESS-TOKEN": "hush"}
    hello = talk(way, act, "/ws?a=%2F&b", origin="https://a.example", extra_headers={**secrets, "X-Mine": "1"})
    assert hello["line"] == "GET /ws?a=%2F&b HTTP/1.1"
    assert "X-Mine: 1" in hello["headers"] and "Origin: https://a.example" in hello["headers"]
    assert "hush" not in json.dumps(hello) and KEY not in json.dumps(hello)


def test_the_backend_chooses_the_subprotocol(way):
    async def act(ws, hello):
        assert "Sec-WebSocket-Protocol: one, two" in hello["headers"]
        return ws.subprotocol

    assert talk(way, act, subprotocols=["one", "two"]) == "two"


def test_control_frames_pass(way):
    async def act(ws, hello):
        await asyncio.wait_for(await ws.ping(b"are you there"), TIMEOUT_S)
        await echoed(ws, "still here")

    talk(way, act)


@pytest.mark.parametrize("code", [1000, 1001, 1011, 3000, 4999])
def test_the_backends_close_reaches_the_client(way, code):
    async def act(ws, hello):
        await ws.send(f"close {code}")
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        return ws.close_code, ws.close_reason

    assert talk(way, act) == (code, "wegen €")


def test_the_clients_close_reaches_the_backend(way):
    async def act(ws, hello):
        await ws.close(4321, "bye")
        return ws.close_code

    assert talk(way, act) == 4321
    wait_for(lambda: way.state().get("close") == 4321, what="the code over there")


def test_a_backend_that_hangs_up(way):
    async def act(ws, hello):
        await ws.send("drop")
        with pytest.raises(websockets.ConnectionClosedError):
            await ws.recv()
        return ws.close_code

    assert talk(way, act) == 1006


def test_a_client_that_hangs_up(way):
    before = way.state()["closed"]

    async def act(ws, hello):
        ws.transport.abort()

    talk(way, act)
    wait_for(lambda: way.state()["closed"] == before + 1, what="the end over there")


def test_many_at_once(way):
    async def run():
        async def one(i):
            async with websockets.connect(url(way), **WS_LIMITS) as ws:
                await ws.recv()
                await echoed(ws, *(f"{i}-{n}" for n in range(20)))

        await asyncio.gather(*(one(i) for i in range(40)))

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


# ---- no ----


@pytest.mark.parametrize("extra", [0, 1])
def test_there_is_no_such_sandbox(api, extra):
    code, reason = closed(Way(api, "00000000-0000-4000-8000-000000000000", api.server.port + extra))
    assert code == 1011 and "not found" in reason


def test_nobody_listens(way):
    assert closed(way, port=9) == (1011, "Could not connect to the backend sandbox")


def test_the_backend_has_no_websocket_there(way):
    code, reason = closed(way, "/x")
    assert code == 1008 and "refused" in reason


def test_the_backends_answer_is_no_answer(way):
    assert closed(way, "/special?kind=garbage")[0] == 1011


@pytest.mark.parametrize("headers", [{}, {"X-EXECD-ACCESS-TOKEN": "wrong"}])
def test_the_token_of_execd_is_asked_for_before_anything_else(way, headers):
    with pytest.raises(websockets.InvalidStatusCode) as e:
        closed(way, "/pty/x/ws", port=EXECD, extra_headers=headers)
    assert e.value.status_code == 401


def test_a_paused_sandbox_says_so(api, box):
    sandbox_id = box()["id"]
    api.pause(sandbox_id)
    code, reason = closed(Way(api, sandbox_id, api.server.port))
    assert code == 1011 and "Paused" in reason


@pytest.mark.parametrize("version, key", [("8", "dGhlIHNhbXBsZSBub25jZQ=="), ("13", "short"), ("13", ""), ("", "dGhlIHNhbXBsZSBub25jZQ==")])
def test_handshakes_that_cannot_be(way, version, key):
    head = [f"GET {way.path('/ws')} HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"]
    head += [f"Sec-WebSocket-Version: {version}"] if version else []
    head += [f"Sec-WebSocket-Key: {key}"] if key else []
    with socket.create_connection((way.host, way.port), timeout=TIMEOUT_S) as s:
        s.sendall("\r\n".join([*head, "", ""]).encode())
        s.shutdown(socket.SHUT_WR)
        answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"code":"GENERAL::UNKNOWN_ERROR"' in answer


# ---- a sandbox that goes ----


def test_a_sandbox_that_is_deleted_takes_its_websockets_along(api):
    sandbox_id = api.create(entrypoint=ENTRYPOINT)["id"]
    way = Way(api, sandbox_id, api.server.port)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")

    async def act(ws, hello):
        await echoed(ws, "alive")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            gone = await asyncio.get_running_loop().run_in_executor(pool, api.delete, sandbox_id)
        with pytest.raises(websockets.ConnectionClosed):
            await ws.recv()
        return gone.status

    assert talk(way, act) == 204


def test_a_websocket_outlives_a_pause(api, box):
    sandbox_id = box(entrypoint=ENTRYPOINT)["id"]
    way = Way(api, sandbox_id, api.server.port + 1)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")

    async def act(ws, hello):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(pool, api.pause, sandbox_id)
            await ws.send("while it sleeps")
            await loop.run_in_executor(pool, api.resume, sandbox_id)
        return await ws.recv()

    assert talk(way, act) == "while it sleeps"
