# SPDX-License-Identifier: Apache-2.0
"""The official Python library of MCP clients, unchanged: with osb mcp over both transports, and with the published MCP server, whose
tools are compared with ours. All three work on our server."""
import asyncio
import contextlib
import datetime
import json
import sys

import pytest

pytest.importorskip("mcp.client.stdio", reason="needs the packages of tests/compat/requirements.txt")

from mcp import ClientSession, StdioServerParameters, types  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from api import wait_for  # noqa: E402
from conftest import KEY  # noqa: E402
from mcp_client import OSB, HttpServer, environment  # noqa: E402

PUBLISHED = [sys.executable, "-m", "opensandbox_mcp"]
SECONDS = datetime.timedelta(seconds=60)


class Kit:
    """One server, and sessions with it."""

    def __init__(self, kind, server, folder):
        self.kind, self.server, self.folder = kind, server, folder
        self.http = HttpServer(server, folder) if kind == "osb-http" else None

    @contextlib.asynccontextmanager
    async def streams(self):
        if self.http:
            async with streamable_http_client(self.http.url) as (read, write, session_id):
                yield read, write
            return
        domain = f"{self.server.host}:{self.server.port}"
        command = [*PUBLISHED, "--api-key", KEY, "--domain", domain] if self.kind == "published" else [str(OSB), "mcp"]
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment(self.server, self.folder), cwd=self.folder)
        with open(self.folder / "stderr", "w") as stderr:
            async with stdio_client(parameters, errlog=stderr) as (read, write):
                yield read, write

    @contextlib.asynccontextmanager
    async def session(self, **more):
        async with self.streams() as (read, write), ClientSession(read, write, read_timeout_seconds=SECONDS, **more) as session:
            self.welcome = await session.initialize()
            yield session

    def run(self, function):
        """FUNCTION, an async one, with a session."""

        async def inside():
            async with self.session() as session:
                return await function(session)

        return asyncio.run(inside())

    def close(self):
        if self.http:
            self.http.stop()


@pytest.fixture(params=["osb-stdio", "osb-http", "published"])
def kit(request, server, api, tmp_path):
    k = Kit(request.param, server, tmp_path)
    yield k
    k.close()


@pytest.fixture
def ours(kit):
    if kit.kind == "published":
        pytest.skip("the published server does not offer this")
    return kit


async def data(session, name, /, **arguments):
    result = await session.call_tool(name, arguments)  # the library holds it to the tool's output schema
    assert not result.isError, (name, result.content)
    return result.structuredContent


async def error(session, name, /, **arguments):
    result = await session.call_tool(name, arguments)
    assert result.isError and len(result.content) == 1
    return result.content[0].text


# ---- the list


def resolved(schema, root):
    """Without references, descriptions and titles of objects: what a call may look like."""
    if isinstance(schema, list):
        return [resolved(s, root) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        return resolved({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, root)
    return {k: resolved(v, root) for k, v in schema.items() if not (k == "description" and isinstance(v, str)) and k != "$defs"}


def test_our_tools_take_what_the_published_ones_take(server, tmp_path):
    async def tools(session):
        return {t.name: t for t in (await session.list_tools()).tools}

    published, ours = (Kit(kind, server, tmp_path).run(tools) for kind in ("published", "osb-stdio"))
    assert len(published) == 19 and set(published) < set(ours)
    for name, tool in published.items():
        theirs, mine = resolved(tool.inputSchema, tool.inputSchema), resolved(ours[name].inputSchema, ours[name].inputSchema)
        assert mine == theirs, name
        theirs, mine = tool.outputSchema, ours[name].outputSchema
        if name != "file_replace_contents":  # of a later version than the one that can be installed
            assert set(theirs["properties"]) <= set(mine["properties"]) and theirs.get("required") == mine.get("required"), name


def test_the_welcome(kit):
    kit.run(lambda session: session.list_tools())
    welcome = kit.welcome
    assert welcome.protocolVersion == types.LATEST_PROTOCOL_VERSION and welcome.serverInfo.name == "OpenSandbox Sandbox"
    assert welcome.capabilities.tools.listChanged is False and welcome.instructions


# ---- calls


def test_every_published_tool(kit):
    async def inside(session):
        made = await data(session, "sandbox_create", image="host", timeout_seconds=300, metadata={"by": "mcp"}, env={"A": "b"})
        box = made["sandbox_id"]
        assert made["info"]["status"]["state"] == "Running" and made["info"]["metadata"] == {"by": "mcp"}
        assert made["info"]["image"]["image"] == "host"
        assert (await data(session, "sandbox_connect", sandbox_id=box))["sandbox_id"] == box
        assert (await data(session, "sandbox_get_info", sandbox_id=box))["id"] == box
        listed = await data(session, "sandbox_list", filter={"states": ["Running"], "metadata": {"by": "mcp"}, "page_size": 5})
        assert [s["id"] for s in listed["sandbox_infos"]] == [box] and listed["pagination"]["total_items"] == 1
        assert (await data(session, "sandbox_renew", sandbox_id=box, timeout_seconds=600))["expires_at"] > made["info"]["expires_at"]
        assert (await data(session, "sandbox_get_metrics", sandbox_id=box))["cpu_count"] > 0
        assert await data(session, "sandbox_healthcheck", sandbox_id=box) == {"sandbox_id": box, "healthy": True}
        assert "8080" in (await data(session, "sandbox_get_endpoint", sandbox_id=box, port=8080))["endpoint"]
        ran = await data(session, "command_run", sandbox_id=box, command="echo $A; echo no >&2; exit 3", working_directory="/tmp")
        assert ran["exit_code"] == 3 and ran["error"]["name"] == "CommandExecError" and ran["error"]["value"] == "3"
        assert [m["text"] for m in ran["logs"]["stdout"]] == ["b"] and [m["text"] for m in ran["logs"]["stderr"]] == ["no"]
        background = await data(session, "command_run", sandbox_id=box, command="sleep 100", background=True)
        assert background["exit_code"] is None
        assert await data(session, "command_interrupt", sandbox_id=box, execution_id=background["id"]) == {"status": "interrupted"}
        assert await data(session, "file_create_directories", sandbox_id=box, entries=[{"path": "/tmp/d"}]) == {"status": "created"}
        assert await data(session, "file_write", sandbox_id=box, path="/tmp/d/a.txt", content="one två\n", mode=644) == {"status": "written"}
        assert (await data(session, "file_read", sandbox_id=box, path="/tmp/d/a.txt"))["content"] == "one två\n"
        assert (await data(session, "file_read", sandbox_id=box, path="/tmp/d/a.txt", range_header="bytes=0-2"))["content"] == "one"
        await data(session, "file_replace_contents", sandbox_id=box, entries=[{"path": "/tmp/d/a.txt", "old_content": "one", "new_content": "1"}])
        assert await data(session, "file_move", sandbox_id=box, entries=[{"source": "/tmp/d/a.txt", "destination": "/tmp/d/b.txt"}]) == {"status": "moved"}
        found = (await data(session, "file_search", sandbox_id=box, path="/tmp/d", pattern="*.txt"))["result"]
        assert [(f["path"], f["mode"], f["size"]) for f in found] == [("/tmp/d/b.txt", 644, 7)]
        assert await data(session, "file_delete", sandbox_id=box, paths=["/tmp/d/b.txt"]) == {"status": "deleted"}
        assert await data(session, "file_delete_directories", sandbox_id=box, paths=["/tmp/d"]) == {"status": "deleted"}
        assert await data(session, "sandbox_kill", sandbox_id=box) == {"status": "killed"}

    kit.run(inside)


def test_errors(kit):
    async def inside(session):
        assert await error(session, "nope") == "Unknown tool: nope"
        assert (await error(session, "sandbox_get_info")).startswith("Error executing tool sandbox_get_info: ")
        assert "Field required" in await error(session, "sandbox_get_info")
        missing = await error(session, "command_run", sandbox_id="x", command="y")
        assert missing.startswith("Error executing tool command_run: Sandbox not found in local registry.")
        assert "sandbox_get_info: " in await error(session, "sandbox_get_info", sandbox_id="none-like-this")
        assert "sandbox_create: " in await error(session, "sandbox_create", image="host", auth_username="half")

    kit.run(inside)


def test_progress(kit):
    async def inside(session):
        seen = []

        async def note(progress, total, message):
            seen.append((progress, total, message))

        made = await session.call_tool("sandbox_create", {"image": "host"}, progress_callback=note)
        assert [s[2] for s in seen] == ["Validating input", "Creating sandbox", "Fetching sandbox info", "Done"]
        assert [s[0] for s in seen] == [0.1, 0.3, 0.8, 1.0] and {s[1] for s in seen} == {1.0}
        await data(session, "sandbox_kill", sandbox_id=made.structuredContent["sandbox_id"])

    kit.run(inside)


def test_progress_of_output(ours):
    async def inside(session):
        seen = []

        async def note(progress, total, message):
            seen.append(message)

        box = (await data(session, "sandbox_create", image="host"))["sandbox_id"]
        await session.call_tool("command_run", {"sandbox_id": box, "command": "for i in 1 2 3 4 5; do echo n$i; sleep 0.5; done"}, progress_callback=note)
        assert 2 <= len(seen) <= 5 and "n1" in seen[0] and "n3" in seen[-1]
        await data(session, "sandbox_kill", sandbox_id=box)

    ours.run(inside)


def test_cancelling(ours):
    async def inside(session):
        box = (await data(session, "sandbox_create", image="host"))["sandbox_id"]

        async def count():
            ran = await data(session, "command_run", sandbox_id=box, command="pgrep -fc '[s]leep 3210'")
            return int(ran["logs"]["stdout"][0]["text"])

        long = asyncio.create_task(session.call_tool("command_run", {"sandbox_id": box, "command": "exec sleep 3210"}))
        while not await count():
            await asyncio.sleep(0.05)
        id = min(session._response_streams)  # of the request that waits
        long.cancel()
        note = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=id, reason="enough"))
        await session.send_notification(types.ClientNotification(note))
        for _ in range(100):
            if not await count():
                break
            await asyncio.sleep(0.05)
        assert await count() == 0
        await data(session, "sandbox_kill", sandbox_id=box)

    ours.run(inside)


def test_several_at_a_time(ours):
    async def inside(session):
        box = (await data(session, "sandbox_create", image="host", resource={"cpu": "2"}))["sandbox_id"]
        calls = [data(session, "command_run", sandbox_id=box, command=f"sleep 0.5; echo {i}") for i in range(10)]
        found = await asyncio.wait_for(asyncio.gather(*calls), 20)
        assert [f["logs"]["stdout"][0]["text"] for f in found] == [str(i) for i in range(10)]
        await data(session, "sandbox_kill", sandbox_id=box)

    ours.run(inside)


def test_our_other_tools(ours):
    async def inside(session):
        box = (await data(session, "sandbox_create", image="host"))["sandbox_id"]
        ran = await data(session, "code_run", sandbox_id=box, code="x = 6\nprint('p')\nx * 7")
        assert ran["result"][0]["text"] == "42" and ran["logs"]["stdout"][0]["text"] == "p\n"
        background = await data(session, "command_run", sandbox_id=box, command="echo made; exit 4", background=True)
        for _ in range(100):
            status = await data(session, "command_status", sandbox_id=box, execution_id=background["id"])
            if not status["running"]:
                break
            await asyncio.sleep(0.05)
        assert status["exit_code"] == 4
        assert (await data(session, "command_logs", sandbox_id=box, execution_id=background["id"]))["content"] == "made\n"
        snapshot = await data(session, "snapshot_create", sandbox_id=box, name="s")
        forks = (await data(session, "sandbox_fork", sandbox_id=box, count=2))["sandbox_infos"]
        assert len({f["id"] for f in forks}) == 2
        for id in [box, *(f["id"] for f in forks)]:
            await data(session, "sandbox_kill", sandbox_id=id)
        assert await data(session, "snapshot_delete", snapshot_id=snapshot["id"]) == {"status": "deleted"}

    ours.run(inside)


def assert_has(mine, theirs, where):
    """MINE is THEIRS, or has more."""
    if isinstance(theirs, dict):
        for key in set(theirs) - {"id"}:
            assert key in mine, (where, key)
            assert_has(mine[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs), where
        for a, b in zip(mine, theirs):
            assert_has(a, b, f"{where}[]")
    else:
        assert mine == theirs, where


def test_both_servers_answer_alike(server, api, tmp_path):
    """The same calls, on one sandbox: equal but for times, and for what ours adds."""
    calls = [
        ("sandbox_connect", {}), ("sandbox_get_info", {}), ("sandbox_healthcheck", {}), ("sandbox_get_endpoint", {"port": 1234}),
        ("command_run", {"command": "printf 'a\\n\\nb'; printf e >&2"}), ("command_run", {"command": "exit 9"}),
        ("command_run", {"command": "no-such-program"}),
        ("file_write", {"path": "/tmp/f", "content": "x"}), ("file_read", {"path": "/tmp/f"}), ("file_search", {"path": "/tmp", "pattern": "f"}),
        ("file_read", {"path": "/tmp/none"}), ("file_delete", {"paths": ["/tmp/f"]}), ("sandbox_renew", {"timeout_seconds": 500}),
    ]

    def plain(value):
        if isinstance(value, dict):
            skip = {"timestamp", "execution_time_in_millis", "expires_at", "created_at", "modified_at", "last_transition_at"}
            return {k: plain(v) for k, v in value.items() if k not in skip and v not in (None, {})}  # no metadata are none or empty ones
        return [plain(v) for v in value] if isinstance(value, list) else value

    async def answers(session, box):
        return [(name, await session.call_tool(name, {"sandbox_id": box, **arguments})) for name, arguments in calls]

    async def make(session):
        return (await data(session, "sandbox_create", image="host"))["sandbox_id"]

    ours, published = Kit("osb-stdio", server, tmp_path), Kit("published", server, tmp_path)
    box = ours.run(make)
    mine, theirs = (k.run(lambda session: answers(session, box)) for k in (ours, published))
    for (name, a), (_, b) in zip(mine, theirs):
        assert a.isError == b.isError, name
        if a.isError:
            continue
        assert_has(plain(a.structuredContent), plain(b.structuredContent), name)
    ours.run(lambda session: data(session, "sandbox_kill", sandbox_id=box))


def test_sessions_over_http_end(server, tmp_path):
    kit = Kit("osb-http", server, tmp_path)
    for _ in range(70):  # more than may be open at a time
        kit.run(lambda session: session.send_ping())
    kit.close()
    wait_for(lambda: kit.http.process.poll() is not None)


def test_logging_levels(ours):
    async def inside():
        seen = []

        async def note(params):
            seen.append((params.level, params.data["tool"]))

        async with ours.session(logging_callback=note) as session:
            await error(session, "sandbox_get_info", sandbox_id="nope")
            await session.set_logging_level("debug")
            await error(session, "sandbox_get_info", sandbox_id="nope")
            await data(session, "sandbox_list")
            await session.send_ping()
        assert seen == [("warning", "sandbox_get_info"), ("debug", "sandbox_list")]

    asyncio.run(inside())


def test_results_are_text_and_data(ours):
    async def inside(session):
        result = await session.call_tool("sandbox_list", {})
        assert json.loads(result.content[0].text) == result.structuredContent

    ours.run(inside)
