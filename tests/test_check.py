# SPDX-License-Identifier: Apache-2.0
"""What runs all tests and counts them (tools/check): no result is lost, and the limits of time fit what the tests do."""
import importlib
import pathlib
import re

import pytest

from conftest import ROOT

SETS = re.compile(r"^(\w*SECONDS|SILENCE_S) = .*?\b(\d+) if (?:SOAK|os\.environ\.get\(\"SOAK\"\)) else", re.M)


@pytest.fixture
def pytests(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools/lib"))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.delenv("SOAK", raising=False)
    return importlib.import_module("pytests")


class Named(pathlib.PosixPath):
    """A file that may lie anywhere."""

    def relative_to(self, *_):
        return self


def counted(pytests, monkeypatch, folder, second, limit_s=60):
    path = folder / "test_some.py"
    path.write_text(f"import pathlib\nimport time\n\n\ndef test_first():\n    pass\n\n\ndef test_second():\n    {second}\n")
    monkeypatch.setattr(pytests, "limit_s", lambda _: limit_s)
    tally = importlib.import_module("tally").Tally()
    pytests.second_tries(tally, pytests.side_by_side(tally, [pytests.Part(Named(path), "not alone")]))
    return tally.passed, tally.failed, len(tally.unsteady)


def test_results_are_those_of_pytest(pytests, monkeypatch, tmp_path):
    assert counted(pytests, monkeypatch, tmp_path, "pass") == (2, 0, 0)
    assert counted(pytests, monkeypatch, tmp_path, "assert False") == (1, 1, 0)


def test_what_passes_at_the_second_try_is_told(pytests, monkeypatch, tmp_path):
    once = f"p = pathlib.Path('{tmp_path}/once')\n    there = p.exists()\n    p.touch()\n    assert there"
    assert counted(pytests, monkeypatch, tmp_path, once) == (2, 0, 1)


def test_a_run_that_is_not_done_in_time_has_failed_and_keeps_its_results(pytests, monkeypatch, tmp_path, capfd):
    assert counted(pytests, monkeypatch, tmp_path, "time.sleep(60)", 10) == (1, 1, 0)
    assert "timed out after 10 s" in capfd.readouterr().out


def test_a_soak_has_time_for_all_that_its_tests_wait(pytests, monkeypatch):
    """Tests that take a number of seconds by themselves say so where SOAK chooses it."""
    waits = {(path, name): int(seconds) for path in pytests.black_box_files() for name, seconds in SETS.findall(path.read_text())}
    assert {("test_crash.py", "KILL_SECONDS"), ("test_proxy_scale.py", "SILENCE_S")} <= {(path.name, name) for path, name in waits}
    monkeypatch.setenv("SOAK", "1")
    for (path, name), seconds in waits.items():
        assert pytests.limit_s(path) - pytests.TIMEOUT_S >= seconds, f"{path}: {name} is {seconds}"
    assert [name for name in pytests.LONG_FORMS_S if not (pytests.TESTS / name).exists()] == []
