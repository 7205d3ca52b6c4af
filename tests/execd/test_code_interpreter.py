# SPDX-License-Identifier: Apache-2.0
"""The image of deploy/code-interpreter, built, loaded and used without any network: all of it where it was built (`make soak` does that, and
WHOLE=1), otherwise a small form, with python and bash alone."""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from api import wait_for
from conftest import KEY, ROOT, SERVER, assert_clean, clean_environment
from installing import unavailable
from test_code import Box
from test_execd_code import png_pixels

RECIPE, TARGET = ROOT / "deploy/code-interpreter", ROOT / "build/code-interpreter"
IMAGE = "opensandbox/code-interpreter:latest"
SMALL = ["-l", "python bash", "-p", ""]
BUILD_SECONDS = 1800
LOAD_SECONDS = 600
LIMITS = {"cpu": "2", "memory": "512Mi"}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def path_of(options):
    """Where the archive is that the recipe, as it is, makes with these options."""
    parts = [p.read_bytes() for p in sorted(RECIPE.iterdir())]
    return TARGET / f"{hashlib.sha256(b'/'.join(parts) + repr(options).encode()).hexdigest()[:16]}.tar"


IS_WHOLE = bool(os.environ.get("SOAK") or os.environ.get("WHOLE") or path_of([]).exists())
whole = pytest.mark.skipif(not IS_WHOLE, reason="the small image has python and bash alone, without libraries; WHOLE=1 builds all of it")


def build(options, path):
    if not shutil.which("mmdebstrap"):
        unavailable("needs mmdebstrap")
    try:
        done = subprocess.run([RECIPE / "build", *options, path], timeout=BUILD_SECONDS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired as e:
        unavailable(f"the image cannot be built: {e}")
    if done.returncode != 0:
        unavailable(f"the image cannot be built: {done.stdout[-1000:]}")
    return done.stdout


@pytest.fixture(scope="module")
def archive():
    """Made once for what the recipe says."""
    options = [] if IS_WHOLE else SMALL
    path = path_of(options)
    if not path.exists():
        shutil.rmtree(TARGET, ignore_errors=True)
        TARGET.mkdir(parents=True)
        build(options, path)
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
        made = box(image={"uri": image}, entrypoint=["/opt/code-interpreter/code-interpreter.sh"], **{"resourceLimits": LIMITS, **changes})["id"]
        wait_for(lambda: api.state(made) == "Running", LOAD_SECONDS)  # the first of them unpacks the image
        return Box(api, made)

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


def test_the_recipe_says_what_it_cannot_do(tmp_path):
    for options, status, words in ((["-l", "cobol"], 2, "there is no kernel of 'cobol' here"), (["-x"], 2, "usage:"), ([], 2, "usage:"),
                                   (["-l", "bash", "/nonexistent/a.tar"], 1, "there is no folder for '/nonexistent/a.tar'")):
        arguments = options if len(options) == 3 else [*options, *([tmp_path / "a.tar"] if options else [])]
        done = subprocess.run([RECIPE / "build", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == status and f"build: {words}" in done.stderr, done
    assert not list(tmp_path.iterdir())


def test_the_image_says_what_it_has(inside):
    b = inside()
    lines = b.value("open('/opt/code-interpreter/versions').read()").strip("'").split("\\n")
    has = dict(line.rsplit(" ", 1) for line in lines if line)
    assert has["python ipykernel"] and has["python bash_kernel"] and has["debian python3"]
    pinned = dict(line.split("==") for line in (RECIPE / "constraints.txt").read_text().splitlines() if "==" in line)
    other = {n: v for n, v in has.items() if n.startswith("python ") and pinned.get(n[7:].replace("-", "_").lower(), v) != v}
    assert not other


@pytest.mark.skipif(not os.environ.get("SOAK"), reason="builds once more")
def test_the_same_recipe_gives_the_same_image(tmp_path):
    said = [build(SMALL, tmp_path / f"{i}.tar").splitlines()[-1].split()[-1] for i in range(2)]
    assert said[0].startswith("sha256:") and said[0] == said[1]
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()


def test_a_sandbox_of_it_has_no_network(inside):
    b = inside()
    assert b.value("import os\nos.listdir('/sys/class/net')") == "['lo']"


# ---- all of it ----

KERNELS = {  # what keeps a value, and what prints it
    "python3": ("python", "x = 5", "print(x + 1)"), "bash": ("bash", "x=5", "echo $((x + 1))"), "jslab": ("javascript", "let x = 5", "console.log(x + 1)"),
    "tslab": ("typescript", "let x: number = 5", "console.log(x + 1)"), "java": ("java", "int x = 5;", "System.out.println(x + 1);"),
    "gonb": ("go", "x := 5", "%%\nfmt.Println(x + 1)"),
}


def kernels_of(b):
    """Names of the kernels that could be installed into the image."""
    found = b.value("import glob, json\njson.dumps([f.split('/')[-2] for p in ('/usr/local', '/opt/python') for f in "
                    "glob.glob(p + '/share/jupyter/kernels/*/kernel.json')])")
    return json.loads(found.strip("'"))


@whole
def test_all_kernels_at_the_same_time(inside):
    """What could not be installed is not asked for."""
    b = inside(resourceLimits={"cpu": "2", "memory": "2Gi"})
    found = kernels_of(b)
    assert {"python3", "bash", "jslab", "tslab", "java"} <= set(found) <= set(KERNELS)

    def use(kernel):
        language, keep, show = KERNELS[kernel]
        context = b.context(language, kernel=kernel)
        b.run(keep, language, context)
        return out(b.run(show, language, context))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(use, found)) == ["6\n"] * len(found)


@whole
def test_all_languages_by_their_names_alone(inside):
    """As clients of code interpreters ask for them; the driver of execd where there is one, a kernel elsewhere."""
    b = inside(resourceLimits={"cpu": "2", "memory": "2Gi"})
    has = kernels_of(b)
    languages = {language: rest for kernel, (language, *rest) in KERNELS.items() if kernel in has}
    for language, (keep, show) in languages.items():
        b.run(keep, language)
        assert out(b.run(show, language)) == "6\n", language
        other = b.context(language)
        assert out(b.run(show, language, other)) != "6\n", language
        assert b.call("DELETE", f"/code/contexts?language={language}")[0] == 200
        assert json.loads(b.call("GET", f"/code/contexts?language={language}")[1]) == []
    assert error_of(b.run("1 / 0", "java"))["ename"] == "EvalException"


@whole
@pytest.mark.parametrize("command, want", [("node -e 'console.log(1 + 1)'", "2"), ("python -c 'import numpy; print(numpy.arange(3).sum())'", "3"),
                                           ("javac -version", "javac"), ("git --version", "git version")])
def test_its_programs_run_as_commands(api, inside, command, want):
    assert want in "".join(api.run(inside(resourceLimits={"cpu": "2", "memory": "1Gi"}).id, command))


@whole
def test_go_builds_and_runs_a_program(api, inside):
    b = inside(resourceLimits={"cpu": "2", "memory": "2Gi"})
    b.run("open('/tmp/a.go', 'w').write('package main\\nfunc main() { println(40 + 2) }\\n')")
    assert "42" in "".join(api.run(b.id, "go run /tmp/a.go 2>&1"))


FRAME = "import pandas as pd, numpy as np\ndf = pd.DataFrame({'x': np.arange(50), 'sine': np.sin(np.arange(50) / 5), 'square': (np.arange(50) - 25) ** 2 / 625})\n"


@whole
@pytest.mark.parametrize("kernel", [None, "python3"], ids=["driver", "ipykernel"])
def test_a_data_frame_is_a_table_and_a_picture(inside, kernel):
    b = inside()
    context = b.context(**({"kernel": kernel} if kernel else {}))
    (table,) = [e["results"] for e in b.run(FRAME + "df.head(3)", context=context) if e["type"] == "result"]
    assert "<table" in table["text/html"] and table["text/html"].count("<tr") == 4 and "sine" in table["text/html"]
    assert table["text"].split()[:3] == ["x", "sine", "square"]
    events = b.run("ax = df.plot(x='x', title='A frame', figsize=(6, 4))\nimport matplotlib.pyplot as plt\nplt.show()", context=context)
    (picture,) = [base64.b64decode(e["results"]["image/png"]) for e in events if e["type"] == "result"]
    width, height, rows = png_pixels(picture)
    assert width > 300 and height > 200 and len(set(rows)) > 50
    keep = os.environ.get("KEEP_PICTURES")
    if keep:
        (pathlib.Path(keep) / f"frame-{kernel}.png").write_bytes(picture)
        (pathlib.Path(keep) / f"frame-{kernel}.html").write_text(table["text/html"])
