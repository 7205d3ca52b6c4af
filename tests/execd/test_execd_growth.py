# SPDX-License-Identifier: Apache-2.0
"""The execd that sandboxes run does not grow: many commands, as an ordinary process: 20,000, and 100,000 in
`make soak`."""
import concurrent.futures
import json
import os
import subprocess
import time

import pytest

from conftest import EXECD, clean_environment
from test_execd import HEADER, TOKEN, Connection, Execd, rss_kib, wait_for

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built: make musl")
COUNT = 100_000 if os.environ.get("SOAK") else 20_000
WARM = 2_000  # as many records as are kept, and then some
PARALLEL = 4
GROWTH_KIB_MAX = 64


@pytest.fixture
def execd(tmp_path):
    path = tmp_path / "execd.sock"
    with open(tmp_path / "stderr", "wb") as stderr:
        process = subprocess.Popen([EXECD, "--socket", path], cwd=tmp_path, stderr=stderr, stdin=subprocess.DEVNULL,
                                   env=clean_environment(tmp_path, EXECD_ACCESS_TOKEN=TOKEN))
    d = Execd(path, process, tmp_path / "stderr")
    yield d.wait_ready()
    d.stop()


def run_many(execd, count):
    connection = Connection(execd.path, 30)
    body = json.dumps({"command": "true"})
    for _ in range(count):
        connection.request("POST", "/command", body, {HEADER: TOKEN})
        answer = connection.getresponse().read()
        assert answer.endswith(b"\n\n") and b'"execution_complete"' in answer
    connection.close()


def run_all(execd, count):
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda _: run_many(execd, count // PARALLEL), range(PARALLEL)))
    wait_for(lambda: execd.request("GET", "/ping").status == 200)


def test_thousands_of_commands_leave_no_memory_behind(execd):
    run_all(execd, WARM)
    fds, before, began = len(os.listdir(f"/proc/{execd.process.pid}/fd")), rss_kib(execd.process.pid), time.monotonic()
    run_all(execd, COUNT)
    after = rss_kib(execd.process.pid)
    print(f"{COUNT} commands in {time.monotonic() - began:.0f} s, {before} KiB before and {after} KiB after")
    assert after - before <= GROWTH_KIB_MAX
    wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= fds + PARALLEL)
