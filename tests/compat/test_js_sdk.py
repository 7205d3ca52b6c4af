# SPDX-License-Identifier: Apache-2.0
"""The published JavaScript client, unchanged: by the endpoint proxy's port and by the server's own."""
import shutil

import pytest
from scenario import HERE, MODES, Report, installed, steps_of

STEPS = steps_of("js/scenario.mjs")


@pytest.fixture(scope="module")
def client():
    folder = installed("js", ["package.json", "package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
    shutil.copy(HERE / "js/scenario.mjs", folder)
    return folder


@pytest.fixture(scope="module", params=MODES)
def report(request, client, api):
    return Report(["node", "scenario.mjs"], client, api.server, request.param)


@pytest.mark.parametrize("name", STEPS)
def test_step(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
