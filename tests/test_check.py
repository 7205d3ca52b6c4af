# SPDX-License-Identifier: Apache-2.0
"""What runs all tests and counts them (tools/check): no result is lost, and the limits of time fit what the tests do."""
import importlib.machinery
import importlib.util
import pathlib
import re

import pytest

from conftest import ROOT

SETS = re.compile(r"^(\w*SECONDS|SILENCE_S) = .*?\b(\d+) if (?:SOAK|os\.environ\.get\(\"SOAK\"\)) else", re.M)


@pytest.fixture
def check(tmp_path, monkeypatch):
    path = str(ROOT / "tools/check")
    spec = importlib.util.spec_from_loader("check", importlib.machinery.SourceFileLoader("check", path))
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path)
    monkeypatch.delenv("SOAK", raising=False)
    return module


def some_tests(folder, second):
    path = folder / "test_some.py"
    path.write_text(f"import time\n\n\ndef test_first():\n    pass\n\n\ndef test_second():\n    {second}\n")
    return str(path)


def counted(check, tmp_path, second, limit_s=60):
    tally = check.Tally()
    check.pytest(tally, "some", "/usr/bin/python3", [some_tests(tmp_path, second)], limit_s)
    return tally.passed, tally.failed


def test_results_are_those_of_pytest(check, tmp_path):
    assert counted(check, tmp_path, "pass") == (2, 0)
    assert counted(check, tmp_path, "assert False") == (1, 1)


def test_a_run_that_is_not_done_in_time_has_failed_and_keeps_its_results(check, tmp_path, capfd):
    assert counted(check, tmp_path, "time.sleep(60)", 5) == (1, 1)
    assert "not done after 5 s" in capfd.readouterr().out


def test_a_soak_has_time_for_all_that_its_tests_wait(check, monkeypatch):
    """Tests that take a number of seconds by themselves say so where SOAK chooses it."""
    waits = {(path.name, name): int(seconds) for path in pathlib.Path(ROOT / "tests").glob("test_*.py")
             for name, seconds in SETS.findall(path.read_text())}
    assert ("test_crash.py", "KILL_SECONDS") in waits and ("test_proxy_scale.py", "SILENCE_S") in waits
    short = check.black_box_limit_s()
    monkeypatch.setenv("SOAK", "1")
    for (file, name), seconds in waits.items():
        assert any(file == f and s >= seconds for (f, _), s in check.LONG_FORMS_S.items()), f"{file}: {name} is {seconds}"
    assert check.black_box_limit_s() == short + sum(check.LONG_FORMS_S.values())
