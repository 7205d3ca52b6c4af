# SPDX-License-Identifier: Apache-2.0
"""Tests in Python: a process of pytest per file, several side by side, those that take long first (decision 71).

Marks of tests (tests/conftest.py): `alone` keeps one for the end, when nothing else runs; `smoke` is for `make check`."""
import os
import re
import tempfile
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tally import ROOT, run

TESTS = ROOT / "tests"
PYTHON = "/usr/bin/python3"
TIMEOUT_S = 3600
# What the long form (SOAK) of a file adds: beside other work on two processors, where a test takes two or three times as long.
LONG_FORMS_S = {
    "faults/test_kill_points.py": 21600,  # 25 rounds of each place
    "faults/test_damage.py": 5400,  # 200 rounds
    "faults/test_crash.py": 6300,  # kills of everything, of workers; 10,000 sandboxes that come and go, 1,000 found again
    "server/test_proxy_scale.py": 600,  # a silence of ten minutes
    "execd/test_execd_code_storm.py": 120,
    "execd/test_execd_growth.py": 600,  # 100,000 requests
    "execd/test_execd_kernels.py": 300,
    "server/test_pause_many.py": 300,  # 60 busy sandboxes
    "execd/test_code_interpreter.py": 2400,  # an image that is built twice
}
NAME_MAX = 160  # some have what they send in their names
NOTHING_SELECTED = 5  # pytest's status
# Tests wait more than they compute.
AT_ONCE = int(os.environ.get("TESTS_AT_ONCE") or 3 * (os.cpu_count() or 2))


def limit_s(file):
    return TIMEOUT_S + (LONG_FORMS_S.get(str(file.relative_to(TESTS)), 0) if os.environ.get("SOAK") else 0)


def cases_of(report):
    """Its tests. One that was cut off has no name."""
    return [case for case in ET.parse(report).iter("testcase") if case.get("name")] if report.exists() else []


class Part:
    """What one process of pytest runs: the tests of FILE that EXPRESSION, of marks, selects."""

    def __init__(self, file, expression, python=PYTHON):
        self.file, self.expression, self.python = file, expression, python
        self.name = str(file.relative_to(ROOT).with_suffix(""))

    def run(self, tally):
        with tempfile.TemporaryDirectory(prefix="osb-check-", ignore_cleanup_errors=True) as folder:
            report = Path(folder) / "report.xml"
            done = run([self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "--tb=short", "-rs",
                        f"--junitxml={report}", f"--basetemp={folder}/t", "-m", self.expression, str(self.file)],
                       limit_s(self.file), {"PYTHONDONTWRITEBYTECODE": "1"})
            if done.status != NOTHING_SELECTED:
                self.count(tally, done, cases_of(report))

    def count(self, tally, done, cases):
        counts, failures = [0, 0, 0], []
        for case in cases:
            title = f"{self.name}::{case.get('name')}"[:NAME_MAX]
            bad = case.find("failure") is not None or case.find("error") is not None
            counts[1 if bad else 2 if case.find("skipped") is not None else 0] += 1
            failures += [title] if bad else []
            tally.took(title, float(case.get("time", 0)))
        if not counts[1] and (done.status != 0 or not cases):
            counts[1] = 1
        tally.add(self.name, *counts, done.output, [line for line in done.output.splitlines() if line.startswith("SKIPPED")], failures,
                  f" ({done.seconds:.0f} s, {done.computed:.0f} s of processors)")


def longest_first(files):
    """By tests/slow.txt, then by size."""
    order = {name: i for i, name in enumerate((TESTS / "slow.txt").read_text().split())}
    return sorted(files, key=lambda f: (order.get(str(f.relative_to(TESTS)), len(order)), -f.stat().st_size))


def black_box_files():
    """Files of tests, and the python that runs each."""
    return {f: PYTHON for f in TESTS.rglob("test_*.py") if f.parent.name != "compat"}


def compatibility_files(python):
    return {f: python for f in (TESTS / "compat").glob("test_*.py")}


def parts(files, expression):
    """Of FILES, what EXPRESSION selects: "MARK" or "not MARK"."""
    mark = re.compile(rf"\bmark\.{expression}\b")
    wanted = [f for f in files if expression.startswith("not ") or mark.search(f.read_text())]
    return [Part(f, expression, files[f]) for f in longest_first(wanted)]


def side_by_side(tally, todo):
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for done in [pool.submit(part.run, tally) for part in todo]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, too, which has reached those that run


def one_by_one(tally, todo):
    for part in todo:
        part.run(tally)
