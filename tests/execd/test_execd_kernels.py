# SPDX-License-Identifier: Apache-2.0
"""Code in real Jupyter kernels, which execd starts and speaks with itself."""
import base64
import concurrent.futures
import glob
import json
import os
import signal
import struct
import subprocess
import time

import pytest

import kernels
from test_execd import EXECD, TOKEN, error_of, serve, texts, wait_for
from test_execd_code import START_SECONDS, Context

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")


def launch(tmp_path_factory, **env):
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "tmp").mkdir()
    # ipykernel does not collect the output of programs where it sees a test.
    yield from serve(folder, env={"TMPDIR": str(folder / "tmp"), "EXECD_CODE_WARM": "off", **env}, wrapper=["env", "-u", "PYTEST_CURRENT_TEST"])


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    """One whose image has ipykernel, a kernel of bash, and one that cannot start."""
    prefix = kernels.python()
    broken = tmp_path_factory.mktemp("data")
    kernels.write_spec(broken, "broken", argv=["/bin/sh", "-c", "echo no such luck >&2; exit 3"], language="broken")
    kernels.write_spec(broken, "missing", argv=["no-such-program"], language="missing")
    kernels.write_spec(broken, "silent", argv=["/bin/sh", "-c", "exec sleep 1000"], language="silent")
    yield from launch(tmp_path_factory, PATH=f"{prefix}/bin:/usr/bin:/bin", JUPYTER_PATH=str(broken))


@pytest.fixture(scope="module")
def python(execd):
    return Context(execd, kernel="python3")


def processes(execd):
    """What execd has started, by its command line."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f, open(path.replace("stat", "cmdline"), "rb") as line:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == execd.process.pid:
                    found[int(path.split("/")[2])] = line.read().replace(b"\0", b" ").decode()
        except (OSError, IndexError):
            pass
    return found


def of_kernel(execd, before):
    return [pid for pid in processes(execd) if pid not in before]


def test_a_value_an_output_and_the_state_that_stays(python):
    assert python.value("x = 20\nx + 1") == "21"
    assert python.value("x + 2") == "22"
    events = python.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx")
    assert "".join(texts(events)) == "out\n" and "".join(texts(events, "stderr")) == "err\n"
    counts = [e["execution_count"] for e in events if e["type"] == "execution_count"]
    assert len(counts) == 1 and counts[0] > 2


def test_code_without_a_value_has_no_result(python):
    assert [e["type"] for e in python.run("y = 1")] == ["init", "execution_complete"]


def test_an_exception_has_name_value_and_traceback(python):
    error = python.error("def f():\n    return nosuch\nf()")
    assert error["ename"] == "NameError" and "nosuch" in error["evalue"]
    assert any("return nosuch" in line or "nosuch" in line for line in error["traceback"])
    assert python.value("1 + 1") == "2"


def test_top_level_await(python):
    assert python.value("import asyncio\nawait asyncio.sleep(0.01)\n5") == "5"


def test_what_is_shown_and_changed_on_the_way_arrives(python):
    events = python.run("from IPython.display import display, HTML\nh = display(HTML('<b>1</b>'), display_id=True)\n"
                        "h.update(HTML('<b>2</b>'))\n'end'")
    results = [e["results"] for e in events if e["type"] == "result"]
    assert [r.get("text/html") for r in results] == ["<b>1</b>", "<b>2</b>", None]
    assert results[2]["text"] == "'end'"


def test_a_value_of_json_comes_as_text(python):
    events = python.run("from IPython.display import JSON, display\ndisplay(JSON({'a': [1, 2]}))")
    results = [e["results"] for e in events if e["type"] == "result"]
    assert json.loads(results[0]["application/json"]) == {"a": [1, 2]}


def test_a_figure_is_a_picture(python):
    events = python.run("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()", timeout=120)
    png = base64.b64decode([e["results"]["image/png"] for e in events if e["type"] == "result"][0])
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and png[12:16] == b"IHDR" and png[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 200 and height > 200


def test_who_asks_for_input_is_refused(python):
    assert python.error("input('name? ')")["ename"] == "StdinNotImplementedError"
    assert python.value("1") == "1"


def test_output_of_programs_and_bytes_that_are_no_text(python):
    """Which ipykernel collects beside the code that runs: what comes after its end is nobody's."""
    assert python.out("import os, time\n_ = os.system('echo from a child')\ntime.sleep(1)") == "from a child\n"
    assert python.out("_ = os.write(1, b'\\xff ok\\n')\ntime.sleep(1)") == "\ufffd ok\n"


@pytest.mark.parametrize("code", ["print('x' * 50_000_000)", "for i in range(50):\n    print('y' * 999_999)"])
def test_fifty_megabytes_arrive_whole(python, code):
    events = python.run(code, timeout=300)
    assert events[-1]["type"] == "execution_complete"
    assert sum(map(len, texts(events))) == 50_000_000 + ("x" in code)
    assert all(len(t) < 4 * 1024 * 1024 for t in texts(events))


def test_a_value_that_is_too_large_is_left_out_and_the_client_is_told(python):
    events = python.run("from IPython.display import display\ndisplay({'text/plain': 'small', 'text/html': 'x' * 4_000_000}, raw=True)")
    results = [e["results"] for e in events if e["type"] == "result"]
    assert len(results) == 1 and results[0]["text"] == "small" and "text/html" not in results[0]
    assert "too large" in "".join(texts(events, "stderr"))


def test_an_interrupt_ends_the_run_and_nothing_else(python):
    python.run("z = 7")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(python.error, "while True:\n    pass")
        time.sleep(1)
        assert python.interrupt().status == 200
        assert running.result(60)["ename"] == "KeyboardInterrupt"
    assert python.value("z") == "7"


def test_contexts_share_nothing_and_run_at_the_same_time(execd, python):
    other = Context(execd, kernel="python3")
    python.run("shared = 1")
    assert other.error("shared")["ename"] == "NameError"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        began = time.monotonic()
        list(pool.map(lambda c: c.run("import time\ntime.sleep(5)"), (python, other)))
        assert time.monotonic() - began < 9
    assert execd.request("DELETE", f"/code/contexts/{other.id}").status == 200


@pytest.mark.parametrize("code, how", [("import os, time\nprint('last words', flush=True)\ntime.sleep(1)\nos._exit(3)", "exit status 3"),
                                       ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "signal: killed")])
def test_a_kernel_that_dies_says_so_and_the_context_begins_anew(execd, code, how):
    context = Context(execd, kernel="python3")
    context.run("x = 1")
    events = context.run(code)
    assert how in json.dumps(error_of(events))
    assert "".join(texts(events)) == ("last words\n" if "last words" in code else "")
    assert context.error("x")["ename"] == "NameError"
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


def test_a_fork_that_outlives_its_kernel_does_not_hold_the_stream(execd):
    context = Context(execd, kernel="python3")
    began = time.monotonic()
    events = context.run("import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)\nos._exit(5)")
    assert "exit status 5" in json.dumps(error_of(events)) and time.monotonic() - began < 15
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


def test_nothing_of_a_kernel_stays(execd):
    before = processes(execd)
    context = Context(execd, kernel="python3")
    pids = of_kernel(execd, before)
    assert pids and os.listdir(execd.path.parent / "tmp") == []  # the file that named its ports is gone
    context.run("import subprocess\nsubprocess.Popen(['sleep', '1000'])")
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
    assert not of_kernel(execd, before)


def test_its_secrets_are_not_those_of_the_daemon(python):
    assert TOKEN not in python.value("import os\nstr(dict(os.environ))")


def test_a_kernel_runs_in_the_directory_and_with_the_environment_of_its_context(execd, tmp_path):
    context = Context(execd, kernel="python3", cwd=str(tmp_path))
    assert context.value("import os\nos.getcwd()") == repr(str(tmp_path))
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


@pytest.mark.parametrize("kernel, why", [("broken", "exit status 3: no such luck"), ("missing", "no-such-program"),
                                         ("nowhere", "there is no kernel 'nowhere'"), ("../x", "no name of a kernel")])
def test_a_kernel_that_cannot_start_is_an_answer(execd, kernel, why):
    before = processes(execd)
    answer = execd.request("POST", "/code/context", json.dumps({"language": "python", "kernel": kernel}), timeout=START_SECONDS)
    assert answer.status >= 400 and why in answer.json["message"], answer.body
    assert not of_kernel(execd, before) and os.listdir(execd.path.parent / "tmp") == []


def test_a_kernel_that_says_nothing_ends_with_its_creator(execd):
    before = processes(execd)
    s = subprocess.Popen(["curl", "-s", "--unix-socket", execd.path, "-H", f"X-EXECD-ACCESS-TOKEN: {TOKEN}", "-d", '{"language":"silent"}',
                          "http://x/code/context"], stdout=subprocess.DEVNULL)
    wait_for(lambda: of_kernel(execd, before))
    assert execd.request("DELETE", "/code/contexts?language=silent").status == 200
    wait_for(lambda: not of_kernel(execd, before))
    s.wait()
    assert os.listdir(execd.path.parent / "tmp") == []


def test_a_kernel_that_stops_and_goes_on_loses_nothing(execd):
    before = processes(execd)
    context = Context(execd, kernel="python3")
    pid, = of_kernel(execd, before)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        os.kill(pid, signal.SIGSTOP)
        running = pool.submit(context.value, "6 * 7")
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)
        assert running.result(60) == "42"
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


@pytest.mark.skipif(not os.environ.get("SOAK"), reason="takes two minutes")
def test_a_kernel_that_stops_for_good_is_given_up(execd):
    before = processes(execd)
    context = Context(execd, kernel="python3")
    pid, = of_kernel(execd, before)
    os.kill(pid, signal.SIGSTOP)
    assert "does not respond" in json.dumps(error_of(context.run("1", timeout=300)))
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    assert context.value("2") == "2"
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


def test_who_reads_slowly_gets_everything(execd):
    context = Context(execd, kernel="python3")
    body = json.dumps({"code": "for i in range(30000):\n    print(i, 'x' * 200)", "context": {"language": "python", "id": context.id}})
    curl = subprocess.Popen(["curl", "-sN", "--limit-rate", "1M", "--unix-socket", execd.path, "-H", f"X-EXECD-ACCESS-TOKEN: {TOKEN}",
                             "-d", body, "http://x/code"], stdout=subprocess.PIPE)
    events = [json.loads(line) for line in curl.stdout if line.strip()]
    text = "".join(e["text"] for e in events if e["type"] == "stdout")
    assert events[-1]["type"] == "execution_complete"
    assert text == "".join(f"{i} {'x' * 200}\n" for i in range(30000))
    assert curl.wait() == 0
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


# ---- other languages ----


def test_bash(execd):
    bash = Context(execd, "bash", kernel="bash")
    assert bash.out("x=5; echo $x") == "5\n"
    assert bash.error("nosuchcommand")["evalue"] == "127"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(bash.run, "sleep 100")
        time.sleep(2)
        assert bash.interrupt().status == 200
        running.result(60)
    assert bash.out("echo $x") == "5\n"
    assert execd.request("DELETE", "/code/contexts?language=bash").status == 200
    assert execd.request("GET", "/code/contexts?language=bash").json == []


@pytest.fixture(scope="module")
def node_execd(tmp_path_factory):
    folder = kernels.javascript()
    yield from launch(tmp_path_factory, JUPYTER_PATH=str(folder))


@pytest.mark.parametrize("language, kernel, declare", [("javascript", "jslab", "let x = 5"), ("typescript", "tslab", "let x: number = 5")])
def test_javascript(node_execd, language, kernel, declare):
    js = Context(node_execd, language, kernel=kernel)
    js.run(declare)
    assert js.out("x + 1") == "6\n"
    assert js.out("console.error('oops')", "stderr") == "oops\n"
    events = js.run("throw new TypeError('bad')")
    assert events[-1]["type"] == "error" and "TypeError: bad" in "".join(texts(events, "stderr"))
    assert js.out("await new Promise(r => setTimeout(r, 10)); x + 2") == "7\n"  # right behind an error


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    folder = kernels.java()
    for d in launch(tmp_path_factory, JUPYTER_PATH=str(folder)):
        yield Context(d, "java")


def test_java(java):
    java.run("int x = 5;", timeout=120)
    assert java.value("x + 1") == "6"
    assert java.out('System.out.println("hi " + x);') == "hi 5\n"
    assert java.error("1 / 0")["ename"] == "EvalException"


def test_java_is_interrupted_by_a_message(java):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(java.error, "while (true) { Thread.sleep(10); }")
        time.sleep(3)
        assert java.interrupt().status == 200
        assert "nterrupted" in running.result(60)["ename"]
    assert java.value("2") == "2"
