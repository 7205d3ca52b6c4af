# SPDX-License-Identifier: Apache-2.0
"""The published Go client, unchanged: by the endpoint proxy's port and by the server's own."""
import shutil

import pytest
from scenario import HERE, MODES, Report, build, installed, steps_of

SOURCE = "go/main.go"
STEPS = steps_of(SOURCE)


@pytest.fixture(scope="module")
def client():
    folder = installed("go", ["go.mod"], ["go", "mod", "download"])
    shutil.copy(HERE / SOURCE, folder)
    build(["go", "build", "-mod=mod", "-o", "scenario", "."], folder)
    return folder


@pytest.fixture(scope="module", params=MODES)
def report(request, client, api):
    return Report(["./scenario"], client, api.server, request.param)


@pytest.mark.parametrize("name", STEPS)
def test_step(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
