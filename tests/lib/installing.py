# SPDX-License-Identifier: Apache-2.0
"""What tests need from package registries: installed once, in the build folder.

What cannot be installed is a reason to skip, but for automated runs (CI in the environment): there that is a failure, unless
the registry answers that it does not offer it (403, 404), which is nothing that we could mend."""
import fcntl
import hashlib
import os
import re
import shutil
import subprocess

import pytest

INSTALL_SECONDS = 600
OUTPUT_MAX = 2000
NOT_OFFERED = re.compile(r"\b40[34]\b")
Unavailable = (pytest.skip.Exception, pytest.fail.Exception)  # what unavailable() raises


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
        unavailable(f"it cannot be installed: {e}")
    return done.returncode, done.stdout[-OUTPUT_MAX:]


def installed(folder, source, files, commands):
    """FOLDER, where COMMANDS have run once for these FILES of SOURCE. What was installed may know its place: a copy is none. Of tests
    that run side by side one installs, and the others wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return installed_alone(folder, source, files, commands)


def installed_alone(folder, source, files, commands):
    stamp = folder / "installed"
    wanted = hashlib.sha256(b"\0".join((source / f).read_bytes() for f in files) + repr((str(folder), commands)).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for f in files:
        shutil.copy(source / f, folder)
    for command in commands:
        status, output = run(command, folder)
        if status != 0:
            unavailable(f"it cannot be installed: {' '.join(map(str, command))}: {output}")
    stamp.write_text(wanted)
    return folder
