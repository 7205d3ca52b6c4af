# SPDX-License-Identifier: Apache-2.0
"""The runtimes that tests/conformance holds to one contract, and how to look at each from outside of the server.

A runtime that is added gets a class with what class Runtime has, and a place in RUNTIMES. Its tests are those of this folder; none
of them knows which runtime it has but by CAPABILITIES, and what it cannot do it must refuse by name."""
import contextlib
import os
import signal
import struct
import subprocess
import time

import pytest

import census
import network
import registry
from api import Api, wait_for
from conftest import EXECD, KEY, SERVER, Home, Server

ALL = frozenset({"pause", "snapshots", "fork", "rollback", "export", "images", "image_archives", "volumes", "host_paths", "logs", "stats",
                 "disk_limit", "pids_limit", "network_policy"})


class Runtime:
    """What a test may ask of a runtime beyond the API."""

    NAME = PREFIX = None
    CAPABILITIES = ALL
    IMAGE = "host"  # one that needs no registry, with a shell and Python

    @classmethod
    def why_not(cls):
        """Why it cannot be tested here, or None."""

    def start(self, folder, env=None):
        """A server on it, that is ready; in the same home each time."""

    def boxes(self, server):
        """How many sandboxes there are, running or not, as the runtime's host sees it."""

    def settled(self, server):
        """What must be the same before and after sandboxes have come and gone."""

    def make_foreign(self):
        """Makes something beside the sandboxes that is none of ours. Returns a function that says whether it is as it was, and
        one that removes it."""

    def close(self):
        """Nothing of it is left."""


class Native(Runtime):
    NAME, PREFIX = "native", "NATIVE"

    def __init__(self):
        self.home = Home()

    @classmethod
    def why_not(cls):
        if os.geteuid() != 0:
            return "needs root"
        return None if SERVER.exists() and EXECD.exists() else "the server or execd is not built"

    def start(self, folder, env=None):
        server = Server(folder, env={"OPENSANDBOX_SERVER_API_KEY": KEY, **(env or {})}, home=self.home)
        server.wait_ready()
        return server

    def boxes(self, server):
        files = [path.read_bytes() for path in server.home.state.glob("boxes/*/box")]
        return sum(len(data) > 8 and struct.unpack_from("=H", data, 6)[0] in (2, 3) for data in files)  # running or over (warden/box_file.h)

    def settled(self, server):
        return {**census.settled(server), "descriptors": 0}

    def make_foreign(self):
        group = census.CGROUPS / ("pids" if (census.CGROUPS / "pids").is_dir() else "") / f"other-{self.home.prefix}"
        group.mkdir()
        process = subprocess.Popen(["sleep", "1000"])
        (group / "cgroup.procs").write_text(str(process.pid))

        def is_there():
            return process.poll() is None and str(process.pid) in (group / "cgroup.procs").read_text().split()

        def remove():
            process.kill()
            process.wait()
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    return
                time.sleep(0.02)

        return is_there, remove

    def close(self):
        self.home.remove()


RUNTIMES = [Native]


class Running:
    """A server on a runtime, and clients of it."""

    def __init__(self, runtime, spec, folder, env=None):
        self.runtime, self.spec, self.folder, self.env = runtime, spec, folder, env
        self.start()

    def start(self):
        self.server = self.runtime.start(self.folder, self.env)
        self.api = Api(self.server, self.spec)

    def restart(self):
        self.server.stop()
        self.start()

    def kill(self):
        """The supervisor and all that it started, as a crash of the machine's service would."""
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.start()

    def can(self, capability):
        return capability in self.runtime.CAPABILITIES

    def stop(self):
        for sandbox in self.api.get("/sandboxes?pageSize=200").json["items"]:
            self.api.delete(sandbox["id"])
        for snapshot in self.api.get("/snapshots").json["items"]:
            self.api.delete_snapshot(snapshot["id"])
        self.server.stop()


@contextlib.contextmanager
def running(kind, spec, folder, env=None):
    runtime = kind()
    try:
        r = Running(runtime, spec, folder, env)
        try:
            yield r
        finally:
            r.stop()
    finally:
        runtime.close()


@pytest.fixture(scope="module", params=RUNTIMES, ids=lambda kind: kind.NAME)
def kind(request):
    why = request.param.why_not()
    if why:
        pytest.skip(why)
    return request.param


@pytest.fixture(scope="module")
def one(kind, spec, tmp_path_factory):
    """A server that the tests of a module share."""
    with running(kind, spec, tmp_path_factory.mktemp(kind.NAME)) as r:
        yield r


@pytest.fixture
def own(kind, spec, tmp_path):
    """A server of a test's own, to stop and start."""
    with running(kind, spec, tmp_path) as r:
        yield r


@pytest.fixture
def box(one):
    """box(...) makes a sandbox; it goes with the test."""
    made = []

    def make(**changes):
        made.append(one.api.create(**{"image": {"uri": one.runtime.IMAGE}, **changes})["id"])
        return made[-1]

    yield make
    for sandbox in made:
        assert one.api.delete(sandbox).status in (204, 404)


def need(r, capability, answer):
    """True: R has it, and the test goes on. Else ANSWER() must be the error that says so by name."""
    if r.can(capability):
        return True
    a = answer()
    assert a.status in (400, 501), a
    assert a.json["code"] in MISSING.get(capability, {f"{r.runtime.PREFIX}::CAPABILITY_UNSUPPORTED"}), a.json
    return False


MISSING = {  # where clients of the published servers know a code
    "snapshots": {"SNAPSHOT::NOT_IMPLEMENTED"},
    "export": {"SNAPSHOT::NOT_IMPLEMENTED"},
    "volumes": {"VOLUME::UNSUPPORTED_BACKEND"},
    "host_paths": {"VOLUME::UNSUPPORTED_BACKEND"},
    "pids_limit": {"SANDBOX::INVALID_PARAMETER"},
    "network_policy": {"SANDBOX::INVALID_PARAMETER"},
    "disk_limit": {"NATIVE::DISK_LIMIT_UNSUPPORTED", "DOCKER::DISK_LIMIT_UNSUPPORTED", "KUBERNETES::DISK_LIMIT_UNSUPPORTED"},
}

__all__ = ["box", "kind", "need", "network", "one", "own", "registry", "running", "wait_for"]
