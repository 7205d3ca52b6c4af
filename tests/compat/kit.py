# SPDX-License-Identifier: Apache-2.0
"""The published Python client in its two forms, each by the endpoint proxy's port and by the server's own."""
import asyncio
import datetime
import inspect

import pytest

from conftest import KEY

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from opensandbox import Sandbox, SandboxManager, SandboxManagerSync, SandboxSync  # noqa: E402
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.models.execd import ExecutionHandlers  # noqa: E402
from opensandbox.models.execd_sync import ExecutionHandlersSync  # noqa: E402


class Kit:
    """One form of the client. wait() gives what a call of either form gives."""

    def __init__(self, server, is_async, by_server):
        self.loop = asyncio.new_event_loop() if is_async else None
        self.server, self.by_server, self.config_class = server, by_server, ConnectionConfig if is_async else ConnectionConfigSync
        self.Sandbox, self.Manager = (Sandbox, SandboxManager) if is_async else (SandboxSync, SandboxManagerSync)
        self.open = []

    def config(self, **more):
        more.setdefault("api_key", KEY)
        return self.config_class(domain=f"{self.server.host}:{self.server.port}", use_server_proxy=self.by_server, **more)

    def wait(self, value):
        return self.loop.run_until_complete(value) if inspect.isawaitable(value) else value

    def handlers(self, **functions):
        """Callbacks of this form, from functions."""
        if not self.loop:
            return ExecutionHandlersSync(**functions)

        def later(function):
            async def call(value):
                found = function(value)
                return await found if inspect.isawaitable(found) else found

            return call

        return ExecutionHandlers(**{name: later(f) for name, f in functions.items()})

    def pieces(self, stream):
        """All that a stream of this form gives."""
        if not self.loop:
            return list(stream)

        async def collect():
            return [piece async for piece in await stream]

        return self.loop.run_until_complete(collect())

    def keep(self, value):
        """What must be closed at the end: sandboxes and managers."""
        self.open.append(self.wait(value))
        return self.open[-1]

    def create(self, image="host", **more):
        return self.keep(self.Sandbox.create(image, connection_config=self.config(), **more))

    def manager(self, **more):
        return self.keep(self.Manager.create(connection_config=self.config(**more)))

    def close(self):
        for thing in reversed(self.open):
            self.wait(thing.close())
        if self.loop:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["sync-direct", "sync-by-server", "async-direct", "async-by-server"])
def kit(request, api):
    k = Kit(api.server, "async" in request.param, "by-server" in request.param)
    yield k
    k.close()
    for sandbox in api.get("/sandboxes?pageSize=200").json["items"]:
        assert api.delete(sandbox["id"]).status == 204


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc)
