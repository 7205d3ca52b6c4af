# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/code-interpreter, built, loaded and used: a small form of it, with python and bash alone. SOAK: all languages."""
import base64
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import KEY, ROOT, SERVER, assert_clean, clean_environment
from installing import unavailable
from test_code import Box

SOAK = bool(os.environ.get("SOAK"))
RECIPE, TARGET = ROOT / "deploy/code-interpreter", ROOT / "build/code-interpreter"
IMAGE = "opensandbox/code-interpreter:latest"
BUILD_SECONDS = 3600 if SOAK else 900
LOAD_SECONDS = 600
LIMITS = {"cpu": "1", "memory": "512Mi"}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def archive():
    """Made once for what the recipe says."""
    if not shutil.which("mmdebstrap"):
        unavailable("needs mmdebstrap")
    options = [] if SOAK else ["-l", "python bash", "-p", ""]
    parts = [(RECIPE / f).read_bytes() for f in ("build", "pack", "code-interpreter.sh")]
    name = hashlib.sha256(b"\0".join(parts) + repr(options).encode()).hexdigest()[:16]
    path = TARGET / f"{name}.tar"
    if path.exists():
        return path
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    try:
        done = subprocess.run([RECIPE / "build", *options, path], timeout=BUILD_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired as e:
        unavailable(f"the image cannot be built: {e}")
    if done.returncode != 0:
        unavailable(f"the image cannot be built: {done.stdout[-1000:]}")
    return path


@pytest.fixture(scope="module")
def image(archive, api):
    server = api.server
    done = subprocess.run([SERVER, "--config", server.folder / f"config.{server.port}.toml", "image", "load", archive],
                          env=clean_environment(server.folder, OPENSANDBOX_SERVER_PORT=server.port, OPENSANDBOX_SERVER_API_KEY=KEY),
                          capture_output=True, timeout=LOAD_SECONDS, check=False)
    assert_clean(done.stderr.decode())
    assert done.returncode == 0, done
    assert re.fullmatch(r".*opensandbox/code-interpreter:latest  sha256:[0-9a-f]{64}\n", done.stdout.decode()), done
    return IMAGE


@pytest.fixture
def inside(api, box, image):
    """As clients of code interpreters make one: with the entrypoint that they name."""
    def make(**changes):
        return Box(api, box(image={"uri": image}, entrypoint=["/opt/code-interpreter/code-interpreter.sh"],
                            **{"resourceLimits": LIMITS, **changes})["id"])

    return make


def error_of(events):
    assert events[-1]["type"] == "error", events
    return events[-1]["error"]


def out(events):
    return "".join(e["text"] for e in events if e["type"] == "stdout")


def test_python_by_its_kernel_and_by_the_driver_of_execd(inside):
    b = inside()
    kernel = b.context(kernel="python3")
    assert b.value("x = 20\nx + 1", context=kernel) == "21"
    assert b.value("type(get_ipython()).__name__", context=kernel) == "'ZMQInteractiveShell'"
    assert b.value("import sys\nsys.prefix") == "'/opt/python'"
    assert error_of(b.run("nosuch", context=kernel))["ename"] == "NameError"
    assert b.value("import os\nos.getcwd(), os.getuid()", context=kernel) == "('/workspace', 0)"


def test_a_kernel_lives_with_the_programs_of_the_sandbox(inside):
    b = inside()
    kernel = b.context(kernel="python3")
    mine = b.value("open('/proc/self/cgroup').read()", context=kernel)
    assert mine == b.value("open('/proc/self/cgroup').read()")
    assert b.value("import os\nos.getppid()", context=kernel) == "1"
    assert b.value("import os\n[f for f in os.listdir('/tmp') if 'kernel' in f]", context=kernel) == "[]"


def test_a_kernel_that_eats_all_memory_is_told_to_be_gone(inside):
    b = inside()
    kernel = b.context(kernel="python3")
    events = b.run("print('before', flush=True)\nimport time\ntime.sleep(0.5)\nx = []\nwhile True:\n    x.append(bytearray(1 << 20))", context=kernel)
    assert out(events) == "before\n" and "oom_killed" in error_of(events)["traceback"]
    assert b.value("1 + 1", context=kernel) == "2"


def test_a_pause_does_not_kill_a_kernel(api, inside):
    b = inside()
    kernel = b.context(kernel="python3")
    b.run("x = 5", context=kernel)
    api.pause(b.id)
    api.wait_state(b.id, "Paused")
    time.sleep(1)
    api.call("POST", f"/sandboxes/{b.id}/resume")
    api.wait_state(b.id, "Running")
    assert b.value("x", context=kernel) == "5"


def test_bash_by_its_kernel(inside):
    b = inside()
    kernel = b.context("bash", kernel="bash")
    assert out(b.run("y=3; echo $((y * 2))", "bash", kernel)) == "6\n"


@pytest.mark.skipif(not SOAK, reason="the small image has python and bash alone")
def test_all_languages_at_the_same_time(inside):
    """Each by the kernel that the image has; what could not be installed into it is not asked for."""
    b = inside(resourceLimits={"cpu": "2", "memory": "2Gi"})
    rows = {"java": ("int x = 5;", "System.out.println(x + 1);"), "javascript": ("let x = 5", "console.log(x + 1)"),
            "typescript": ("let x: number = 5", "console.log(x + 1)"), "go": ("x := 5", "%%\nfmt.Println(x + 1)")}
    found = json.loads(b.value("import glob, json\njson.dumps([json.load(open(f))['language'] for f in "
                               "glob.glob('/usr/local/share/jupyter/kernels/*/kernel.json')])").strip("'"))
    assert {"java", "javascript", "typescript"} <= set(found)

    def use(language):
        context = b.context(language)
        b.run(rows[language][0], language, context)
        return out(b.run(rows[language][1], language, context))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(use, found)) == ["6\n"] * len(found)


@pytest.mark.skipif(not SOAK, reason="the small image has no libraries")
def test_a_plot_of_a_data_frame(inside):
    b = inside()
    events = b.run("import pandas as pd, numpy as np\ndf = pd.DataFrame({'x': np.arange(10), 'y': np.arange(10) ** 2})\n"
                   "_ = df.plot(x='x', y='y')", context=b.context(kernel="python3"))
    (png,) = [e["results"]["image/png"] for e in events if e["type"] == "result"]
    assert base64.b64decode(png).startswith(b"\x89PNG")
