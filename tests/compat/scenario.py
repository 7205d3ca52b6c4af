# SPDX-License-Identifier: Apache-2.0
"""Clients of other languages: a program of their own (the scenario) calls everything that the client has and writes one
line of JSON per step: {"name": ..., "ok": ..., "detail": ...}. Each step is a test here.

A client that cannot be installed is skipped, see tests/lib/installing.py."""
import json
import re
import subprocess

import installing
from conftest import KEY, ROOT, clean_environment

HERE = ROOT / "tests/compat"
RUN_SECONDS = 180
STEP = re.compile(r'^\s*(?:await )?step\("([^"]+)"', re.M)
MODES = ("direct", "by-server")


def steps_of(source):
    """The names of the steps in a scenario, in order."""
    names = STEP.findall((HERE / source).read_text())
    assert names and len(names) == len(set(names)), "a step has no name of its own"
    return names


def build(command, folder):
    """Compiles a scenario. A mistake in it is never a reason to skip."""
    status, output = installing.run(command, folder)
    assert status == 0, output


def installed(language, files, *commands):
    """build/compat-LANGUAGE, where COMMANDS have run once for these FILES of tests/compat/LANGUAGE."""
    return installing.installed(ROOT / f"build/compat-{language}", HERE / language, files, commands)


class Report:
    """What a scenario said, run once against SERVER."""

    def __init__(self, command, folder, server, mode):
        env = clean_environment(server.folder, OPEN_SANDBOX_DOMAIN=f"{server.host}:{server.port}", OPEN_SANDBOX_API_KEY=KEY)
        try:
            done = subprocess.run([*command, mode], cwd=folder, env=env, timeout=RUN_SECONDS, stdin=subprocess.DEVNULL,
                                  capture_output=True, check=False)
            self.status, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as e:
            self.status, output, errors = f"none after {RUN_SECONDS} s", e.stdout or b"", e.stderr or b""
        self.errors = errors.decode(errors="replace")[-installing.OUTPUT_MAX:]
        entries = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
        self.steps = {entry["name"]: entry for entry in entries}

    def check(self, name):
        step = self.steps.get(name)
        assert step, f"the scenario never came there: status {self.status}\n{self.errors}"
        assert step["ok"], step["detail"]

    def check_end(self, names):
        assert self.status == 0, f"status {self.status}\n{self.errors}"
        assert list(self.steps) == names
