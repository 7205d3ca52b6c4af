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
SECOND_TRIES_MAX = 12  # files
# Tests wait more than they compute.
AT_ONCE = int(os.environ.get("TESTS_AT_ONCE") or 3 * (os.cpu_count() or 2))


def limit_s(file):
    return TIMEOUT_S + (LONG_FORMS_S.get(str(file.relative_to(TESTS)), 0) if os.environ.get("SOAK") else 0)


def cases_of(report):
    """Its tests. One that was cut off has no name."""
    return [case for case in ET.parse(report).iter("testcase") if case.get("name")] if report.exists() else []


class Attempt:
    """One process of pytest, over, and what its report says."""

    def __init__(self, name, done, cases):
        self.done, self.counts, self.failures, self.seconds = done, [0, 0, 0], [], []
        for case in cases:
            title = f"{name}::{case.get('name')}"[:NAME_MAX]
            bad = case.find("failure") is not None or case.find("error") is not None
            self.counts[1 if bad else 2 if case.find("skipped") is not None else 0] += 1
            self.failures += [title] if bad else []
            self.seconds.append((title, float(case.get("time", 0))))
        if not self.counts[1] and (done.status != 0 or not cases):
            self.counts[1] = 1

    @property
    def has_failed(self):
        return self.counts[1] > 0


class Part:
    """What one process of pytest runs: the tests of FILE that EXPRESSION, of marks, selects."""

    def __init__(self, file, expression, python=PYTHON):
        self.file, self.expression, self.python = file, expression, python
        self.name = str(file.relative_to(ROOT).with_suffix(""))
        self.first = None  # Attempt; None: nothing was selected
        self.cache = tempfile.TemporaryDirectory(prefix="osb-check-cache-")

    def attempt(self, *options):
        with tempfile.TemporaryDirectory(prefix="osb-check-", ignore_cleanup_errors=True) as folder:
            report = Path(folder) / "report.xml"
            done = run([self.python, "-m", "pytest", "-q", "-o", f"cache_dir={self.cache.name}", "--rootdir=.", "--tb=short", "-rs",
                        f"--junitxml={report}", f"--basetemp={folder}/t", "-m", self.expression, *options, str(self.file)],
                       limit_s(self.file), {"PYTHONDONTWRITEBYTECODE": "1"})
            return None if done.status == NOTHING_SELECTED else Attempt(self.name, done, cases_of(report))

    def run(self, tally):
        """False: some of it failed, and it is counted only after again() or give_up()."""
        self.first = self.attempt()
        if self.first and not self.first.has_failed:
            self.count(tally, self.first)
        return not self.first or not self.first.has_failed

    def again(self, tally):
        """Those tests that failed, when nothing else runs. What passes now is told as unsteady."""
        second = self.attempt("--last-failed") or self.first
        if self.first.failures and second is not self.first:  # else all of the file was run again
            second.counts = [self.first.counts[0] + second.counts[0], second.counts[1], self.first.counts[2] + second.counts[2]]
        if not second.has_failed:
            tally.unsteady += self.first.failures or [self.name]
            print(f"passed only at the second try, by itself:\n{self.first.done.output}", flush=True)
        self.count(tally, second)

    def give_up(self, tally):
        self.count(tally, self.first)

    def count(self, tally, attempt):
        done = attempt.done
        for title, seconds in attempt.seconds:
            tally.took(title, seconds)
        tally.add(self.name, *attempt.counts, done.output, [line for line in done.output.splitlines() if line.startswith("SKIPPED")],
                  attempt.failures, f" ({done.seconds:.0f} s, {done.computed:.0f} s of processors)")


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
    """Those parts that failed, which are still to be counted."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        running = [(part, pool.submit(part.run, tally)) for part in todo]
        return [part for part, done in running if not done.result()]
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, too, which has reached those that run


def one_by_one(tally, todo):
    return [part for part in todo if not part.run(tally)]


def second_tries(tally, failed):
    """A test that fails beside others and passes by itself is unsteady, which is told. Many that fail are no chance."""
    for part in failed:
        part.again(tally) if len(failed) <= SECOND_TRIES_MAX else part.give_up(tally)
