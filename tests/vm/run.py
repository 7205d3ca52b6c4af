#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [--full] [--only=TEXT] SUITE... - boots Debian machines (bookworm, trixie), runs the checks of guest/ in them, and closes with
"N passed, N failed, N skipped". The status is 1 if something failed. --only: checks with TEXT in their names; Docker and the reboot are in the full form alone.

What is tried is what `make install` installs; the machines are kept (debian.py). What cannot be had here is skipped with a reason, but
for automated runs (CI in the environment): there that is a failure."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]

import debian  # noqa: E402
import images  # noqa: E402
from machine import Machine  # noqa: E402

KNOWN = {"bookworm": "Debian 12", "trixie": "Debian 13"}
LIMIT_S = {"short": 1500, "full": 5400}
SILENCE_S = 600  # of one check: emulated, beside other work


class Results:
    """What the guest has said: "BEGIN name", then "PASS name" or "FAIL name TAB why" with the why in JSON, at last "END"."""

    def __init__(self, suite, out=sys.stdout):
        self.suite, self.out = suite, out
        self.passed = self.failed = 0
        self.current, self.ended = "starting the machine", False

    def say(self, text):
        print(text, file=self.out, flush=True)

    def take(self, line):
        word, _, rest = line.partition(" ")
        if word == "BEGIN":
            self.current = rest
        elif word == "PASS":
            self.passed += 1
            self.say(f"ok   {self.suite}: {rest}")
        elif word == "FAIL":
            name, _, why = rest.partition("\t")
            self.fail(name, json.loads(why))
        elif word == "NOTE":
            self.say(f"     {self.suite}: {rest}")
        elif word == "END":
            self.ended = True

    def fail(self, name, why):
        self.failed += 1
        self.say(f"FAIL {self.suite}: {name}\n{why}")


def follow(machine, results, limit_s, silence_s=SILENCE_S):
    """Until the machine is off. One that dies, hangs or stops talking has failed, with the end of its console."""
    end = time.monotonic() + limit_s
    try:
        while (line := machine.line(min(end, time.monotonic() + silence_s))) is not None:
            results.take(line)
        if not results.ended:
            raise RuntimeError("it ended early")
    except (TimeoutError, RuntimeError) as e:
        why = str(e) or "it has not said anything for too long"
        results.fail(results.current, f"the machine: {why}; its console:\n{machine.tail()}")


def install(root):
    """All that `make install` puts into a machine, below ROOT."""
    done = subprocess.run(["make", "-s", "-C", str(ROOT), "install", f"DESTDIR={root}", "PREFIX=/usr/local"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"make install: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def payload(path, plan):
    """A tar archive for the guest: what is installed, images and checks."""
    with tempfile.TemporaryDirectory(prefix="osb-vm-") as folder, tarfile.open(path, "w", dereference=False) as tar:
        folder = Path(folder)
        images.write(folder)
        (folder / "plan.json").write_text(json.dumps(plan))
        shutil.copy(HERE.parent / "lib/nameserver.py", folder)
        install(folder / "root")
        tar.add(HERE / "guest", "guest", filter=lambda m: None if "__pycache__" in m.name else m)
        for entry in sorted(folder.iterdir()):
            tar.add(entry, entry.name)
    with open(path, "r+b") as f:
        f.truncate(-(-path.stat().st_size // 512) * 512)  # a disk has whole sectors


def run(suite, plan):
    results = Results(suite)
    folder = debian.machine(suite)
    with tempfile.TemporaryDirectory(prefix="osb-vm-") as work:
        disk, console = Path(work) / "payload.tar", Path(work) / "console"
        payload(disk, plan)
        began = time.monotonic()
        machine = Machine(folder, disk, console)
        try:
            results.say(f"     {suite}: {KNOWN[suite]}, {'emulated' if machine.is_emulated else 'with KVM'}")
            follow(machine, results, LIMIT_S[plan["form"]])
        finally:
            machine.close()
        results.say(f"     {suite}: took {time.monotonic() - began:.0f} s")
    return results


def main(words):
    plan = {"form": "full" if "--full" in words else "short", "only": next((w[7:] for w in words if w.startswith("--only=")), "")}
    suites = [w for w in words if not w.startswith("--")]
    if not suites or not set(suites) <= set(KNOWN):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    passed = failed = skipped = 0
    for suite in suites:
        try:
            results = run(suite, plan)
            passed, failed = passed + results.passed, failed + results.failed
        except debian.Unavailable as e:
            is_ci = bool(os.environ.get("CI"))
            failed, skipped = failed + is_ci, skipped + (not is_ci)
            print(f"{'FAIL' if is_ci else 'skip'} {suite}: {e}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
