# SPDX-License-Identifier: Apache-2.0
"""Clients of other languages: a program of their own (the scenario) calls everything that the client has and writes one
line of JSON per step: {"name": ..., "ok": ..., "detail": ...}. Each step is a test here.

A client that cannot be installed is skipped, but for automated runs (CI in the environment): there that is a failure, unless
the registry answers that it does not offer the client (403, 404), which is nothing that we could mend."""
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import KEY, ROOT, clean_environment

HERE = ROOT / "tests/compat"
INSTALL_SECONDS = 600
RUN_SECONDS = 180
OUTPUT_MAX = 2000
STEP = re.compile(r'^\s*(?:await )?step\("([^"]+)"', re.M)
MODES = ("direct", "by-server")


def steps_of(source):
    """The names of the steps in a scenario, in order."""
    names = STEP.findall((HERE / source).read_text())
    assert names and len(names) == len(set(names)), "a step has no name of its own"
    return names


NOT_OFFERED = re.compile(r"\b40[34]\b")


def unavailable(why):
    if os.environ.get("CI") and not NOT_OFFERED.search(why):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def run(command, folder):
    """Status and output of a program that may not be there at all."""
    try:
        done = subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        unavailable(f"the client cannot be installed: {e}")
    return done.returncode, done.stdout[-OUTPUT_MAX:]


def build(command, folder):
    """Compiles a scenario. A mistake in it is never a reason to skip."""
    status, output = run(command, folder)
    assert status == 0, output


def installed(language, files, *commands):
    """build/compat-LANGUAGE, where COMMANDS have run once for these FILES of tests/compat/LANGUAGE."""
    folder, source = ROOT / f"build/compat-{language}", HERE / language
    wanted = hashlib.sha256(b"\0".join((source / f).read_bytes() for f in files) + repr(commands).encode()).hexdigest()
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for f in files:
        shutil.copy(source / f, folder)
    for command in commands:
        status, output = run(command, folder)
        if status != 0:
            unavailable(f"the client cannot be installed: {' '.join(command)}: {output}")
    stamp.write_text(wanted)
    return folder


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
        self.errors = errors.decode(errors="replace")[-OUTPUT_MAX:]
        entries = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
        self.steps = {entry["name"]: entry for entry in entries}

    def check(self, name):
        step = self.steps.get(name)
        assert step, f"the scenario never came there: status {self.status}\n{self.errors}"
        assert step["ok"], step["detail"]

    def check_end(self, names):
        assert self.status == 0, f"status {self.status}\n{self.errors}"
        assert list(self.steps) == names
