# SPDX-License-Identifier: Apache-2.0
"""The published Java and Kotlin client, unchanged. This version knows no way through the server."""
import pytest
from scenario import HERE, Report, build, installed, steps_of

SOURCE = "java/Scenario.java"
STEPS = steps_of(SOURCE)


@pytest.fixture(scope="module")
def client():
    folder = installed("java", ["pom.xml"], ["mvn", "-q", "-B", "-Dmaven.repo.local=repository",
                                             "dependency:copy-dependencies", "-DoutputDirectory=lib"])
    build(["javac", "-encoding", "UTF-8", "-cp", "lib/*", "-d", "classes", str(HERE / SOURCE)], folder)
    return folder


@pytest.fixture(scope="module")
def report(client, api):
    return Report(["java", "-Xmx256m", "-cp", "classes:lib/*", "Scenario"], client, api.server, "direct")


@pytest.mark.parametrize("name", STEPS)
def test_step(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
