# SPDX-License-Identifier: Apache-2.0
"""What was tried and how it ended, counted and printed by any thread; and programs with a time limit."""
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SLOWEST = 20
LAST_WORDS_S = 60  # for a test run that is interrupted: it stops its servers

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures, self.unsteady, self.seconds = [], [], []
        self.lock = threading.Lock()

    def add(self, name, passed, failed, skipped=0, output="", notes=(), failures=(), cost=""):
        """NOTES are lines for the reader; FAILURES what failed in NAME, where that is known."""
        passed, failed = int(passed), int(failed)
        mark = "FAIL" if failed else "ok"
        extra = f", {skipped} skipped" if skipped else ""
        lines = [f"{mark:4} {name}: {passed} passed, {failed} failed{extra}{cost}", *(f"     {note}" for note in notes)]
        with self.lock:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            if failed:
                self.failures += failures or [name]
                lines.append(output)
            print("\n".join(lines), flush=True)

    def took(self, name, seconds):
        with self.lock:
            self.seconds.append((seconds, name))

    def close(self, began):
        """The end of the report; its last line has the counts."""
        if self.seconds:
            print("slowest:\n" + "\n".join(f"{s:7.1f} s  {name}" for s, name in sorted(self.seconds, reverse=True)[:SLOWEST]))
        if self.unsteady:
            print("unsteady, passed only at the second try: " + ", ".join(self.unsteady))
        if self.failures:
            print("failed: " + ", ".join(self.failures))
        used = os.times()
        print(f"took {time.monotonic() - began:.0f} s, and the processors {used.children_user + used.children_system:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0


class Done:
    """A program that has ended: its status, what it wrote, and what it took."""

    def __init__(self, status, output, began, used=None):
        self.status, self.output = status, output
        self.seconds, self.computed = time.monotonic() - began, used.ru_utime + used.ru_stime if used else 0

    def __iter__(self):
        return iter((self.status, self.output))


def run(args, timeout, env=None):
    """A timeout counts as a failure that says so."""
    full, began = {**os.environ, **SANITIZERS, **(env or {})}, time.monotonic()
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(args, cwd=ROOT, env=full, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        except OSError as e:
            return Done(127, str(e), began)
        late = not ends(process.pid, timeout)
        if late:
            process.send_signal(signal.SIGINT)
            if not ends(process.pid, LAST_WORDS_S):
                process.kill()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    return Done(124, f"{text}\ntimed out after {timeout} s", began, used) if late else Done(process.returncode, text, began, used)


def ends(pid, timeout):
    fd = os.pidfd_open(pid)
    try:
        return bool(select.select([fd], [], [], timeout)[0])
    finally:
        os.close(fd)


def unavailable(tally, name, why):
    """What cannot be had is skipped, but for automated runs (CI in the environment): there that is a failure."""
    is_ci = bool(os.environ.get("CI"))
    tally.add(name, 0, is_ci, int(not is_ci), why, () if is_ci else [why])
