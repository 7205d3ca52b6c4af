# SPDX-License-Identifier: Apache-2.0
"""The official TypeScript library of MCP clients, unchanged, with osb mcp over both transports."""
import shutil

import pytest
from scenario import HERE, Report, installed, steps_of

from mcp_client import OSB, HttpServer

STEPS = steps_of("mcp_js/scenario.mjs")


@pytest.fixture(scope="module")
def client():
    folder = installed("mcp_js", ["package.json", "package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
    shutil.copy(HERE / "mcp_js/scenario.mjs", folder)
    return folder


@pytest.fixture(scope="module")
def served(server, tmp_path_factory):
    s = HttpServer(server, tmp_path_factory.mktemp("mcp"))
    yield s
    s.stop()


@pytest.fixture(scope="module", params=["stdio", "http"])
def report(request, client, api, served):
    return Report(["node", "scenario.mjs", request.param, str(OSB)], client, api.server, served.url)


@pytest.mark.parametrize("name", STEPS)
def test_step(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
