# SPDX-License-Identifier: Apache-2.0
"""The execution API's checklist, point 13 (code), clause by clause, and the ways in which code goes wrong, with everything that runs code
here: the drivers that travel inside of execd, and real Jupyter kernels."""
import concurrent.futures
import os
import shutil
import time

import pytest

import kernels
from installing import Unavailable
from test_execd import EXECD, serve, texts
from test_execd_code import Context, ids, read_until, run

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
MEGABYTES = 50
BASE = "/usr/bin:/bin"
PYTHON = {
    "four": "2 + 2", "keep": "x = 41", "kept": "x + 1", "wrong": "undefined_name", "loop": "print('begun', flush=True)\nwhile True: pass",
    "exit": "import os\nos._exit(3)", "sleep": "import time\ntime.sleep(2)", "long": "for i in range(50): print('x' * 999_999)",
    "bytes": "import os, time\nos.write(1, b'\\xff\\xc3 ok\\n')\ntime.sleep(1)\nNone",
    "fork": "import os, time\nfor what in ('ends', 'stays'):\n    if os.fork() == 0:\n        what == 'ends' or time.sleep(1000)\n        os._exit(0)\n"
            "os.wait()\nprint('parent')",
}
JAVASCRIPT = {
    "four": "2 + 2", "keep": "let x = 41", "kept": "x + 1", "wrong": "undefinedName", "loop": "console.log('begun'); while (true) {}",
    "exit": "process.exit(3)", "sleep": "await new Promise((r) => setTimeout(r, 2000))",
    "long": "for (let i = 0; i < 50; i++) console.log('x'.repeat(999_999))", "bytes": "process.stdout.write(Buffer.from([255, 195, 32, 111, 107, 10])); null",
    "fork": "{ const c = require('child_process'); c.spawnSync('true'); c.spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' }).unref() }\n"
            "console.log('parent')",
}
BASH = {
    "four": "echo $((2 + 2))", "keep": "x=41", "kept": "echo $((x + 1))", "wrong": "no_such_command_here", "loop": "echo begun; while :; do :; done",
    "exit": "exit 3", "sleep": "sleep 2", "long": "for i in {1..50}; do head -c 999999 /dev/zero | tr '\\0' x; echo; done",
    "bytes": "printf '\\xff\\xc3 ok\\n'", "fork": "(exit 0) & wait; sleep 1000 & echo parent",
}
JAVA = {
    "four": "2 + 2", "keep": "int x = 41;", "kept": "x + 1", "wrong": "1 / 0", "loop": 'System.out.println("begun"); while (true) { Thread.sleep(10); }',
    "exit": "System.exit(3);", "sleep": "Thread.sleep(2000);",
    # With pauses: it publishes pieces of 8 KiB, and drops more than a thousand that were not read yet.
    "long": 'for (int i = 0; i < 50; i++) { System.out.println("x".repeat(999_999)); Thread.sleep(100); }',
    "bytes": "System.out.write(new byte[] { -1, -61, 32, 111, 107, 10 }); System.out.flush();",
    "fork": 'new ProcessBuilder("true").start().waitFor(); new ProcessBuilder("sleep", "1000").start(); System.out.println("parent");',
}


class Engine:
    """What runs a language: without a KERNEL the driver of execd, or whatever the language has. SAYS: name and value of the error that its
    wrong code ends with."""

    def __init__(self, name, language, codes, says, kernel=None, needs=None, **more):
        self.name, self.language, self.codes, self.says, self.kernel, self.needs = name, language, codes, says, kernel, needs
        self.more = {"interrupted": "", **more}

    def env(self):
        """Where it is found. What cannot be installed is a reason to skip."""
        if self.needs == "node" and not shutil.which("node"):
            pytest.skip("needs node")
        found = {"PATH": f"{BASE}:{os.path.dirname(shutil.which('node') or '/bin/x')}"}
        if self.needs == "python":
            found["PATH"] = f"{kernels.python()}/bin:{BASE}"
        elif self.needs in ("javascript", "java"):
            found["JUPYTER_PATH"] = str(getattr(kernels, self.needs)())
        return found

    @property
    def spec(self):
        return {"kernel": self.kernel} if self.kernel else {}


ENGINES = [
    Engine("python", "python", PYTHON, ("NameError", "name 'undefined_name' is not defined"), interrupted="KeyboardInterrupt"),
    Engine("ipykernel", "python", PYTHON, ("NameError", "name 'undefined_name' is not defined"), "python3", "python", interrupted="KeyboardInterrupt"),
    Engine("node", "javascript", JAVASCRIPT, ("ReferenceError", "undefinedName is not defined"), None, "node", interrupted="KeyboardInterrupt"),
    Engine("jslab", "javascript", JAVASCRIPT, ("KernelError", ""), "jslab", "javascript"),
    Engine("tslab", "typescript", JAVASCRIPT, ("KernelError", ""), None, "javascript"),
    Engine("bash", "bash", BASH, ("CommandExecError", "127"), interrupted="CommandExecError"),
    Engine("bash_kernel", "bash", BASH, ("KernelError", "127"), "bash", "python"),
    Engine("ijava", "java", JAVA, ("EvalException", "by zero"), None, "java", interrupted="nterrupted"),
]


class Running:
    """An execd with an engine."""

    def __init__(self, execd, engine):
        self.execd, self.engine, self.codes = execd, engine, engine.codes

    def context(self):
        return Context(self.execd, self.engine.language, **self.engine.spec)

    def run(self, code, **more):
        """In the context of those who name none."""
        return run(self.execd, self.codes[code], self.engine.language, **self.engine.spec, **more)


def launch(folder, **env):
    (folder / "tmp").mkdir()
    # ipykernel does not collect the output of programs where it sees a test.
    yield from serve(folder, env={"TMPDIR": str(folder / "tmp"), "EXECD_CODE_WARM": "off", **env}, wrapper=["env", "-u", "PYTEST_CURRENT_TEST"])


@pytest.fixture(scope="module", params=ENGINES, ids=lambda e: e.name)
def r(request, tmp_path_factory):
    for execd in launch(tmp_path_factory.mktemp(request.param.name), **request.param.env()):
        yield Running(execd, request.param)


@pytest.fixture(scope="module")
def context(r):
    """One for all tests but those that need another: kernels take seconds to start."""
    return r.context()


def said(events):
    """The value of a run, or what it printed: some kernels print their values."""
    assert events[-1]["type"] == "execution_complete", events
    values = [e["results"]["text"] for e in events if e["type"] == "result"]
    return values[-1] if values else "".join(texts(events)).strip()


def error_of(events):
    assert events[-1]["type"] == "error", events
    error = events[-1]["error"]
    assert set(error) == {"ename", "evalue", "traceback"} and all(isinstance(line, str) for line in error["traceback"])
    return error


# ---- point 13 ----


def test_13_the_result_is_4(context, r):
    events = context.run(r.codes["four"])
    assert said(events) == "4"
    counts = [e["execution_count"] for e in events if e["type"] == "execution_count"]
    assert len(counts) == len([e for e in events if e["type"] == "result"]) and all(n > 0 for n in counts)


def test_13_state_persists_in_a_context_and_contexts_are_isolated(context, r):
    context.run(r.codes["keep"])
    assert said(context.run(r.codes["kept"])) == "42"
    other = r.context()
    events = other.run(r.codes["kept"])
    assert events[-1]["type"] == "error" or said(events) == "1"  # of bash: a name without a value is 0
    assert said(context.run(r.codes["kept"])) == "42"
    other.delete()


def test_13_an_error_has_its_name_and_the_context_goes_on(context, r):
    context.run(r.codes["keep"])
    error = error_of(context.run(r.codes["wrong"]))
    assert error["ename"] == r.engine.says[0] and r.engine.says[1] in error["evalue"] + "".join(error["traceback"])
    assert said(context.run(r.codes["kept"])) == "42"


def test_13_a_language_has_a_default_context(r):
    first = r.run("keep")[0]["text"]
    events = r.run("kept")
    assert events[0]["text"] == first and said(events) == "42"
    assert first in ids(r.execd, f"?language={r.engine.language}")
    assert r.execd.request("DELETE", f"/code/contexts/{first}").status == 200
    assert r.run("four")[0]["text"] != first


def test_13_an_endless_loop_is_interrupted_and_the_context_goes_on(context, r):
    context.run(r.codes["keep"])
    with context.stream(r.codes["loop"]) as s:
        got = read_until(s, b"begun")
        time.sleep(0.5)
        assert context.interrupt().status == 200
        got = read_until(s, b"\r\n0\r\n\r\n", got)
    assert got.count(b'"type":"error"') == 1 and b"execution_complete" not in got and r.engine.more["interrupted"].encode() in got, got
    assert said(context.run(r.codes["kept"])) == "42"


def test_13_contexts_of_different_languages_run_in_parallel(tmp_path):
    """All that can be had here, at the same time."""
    usable, paths, data = [], [BASE], []
    for e in ENGINES:
        try:
            env = e.env()
        except Unavailable:
            continue
        usable.append(e)
        paths += [p for p in env["PATH"].split(":") if p not in paths]
        data += [env["JUPYTER_PATH"]] if "JUPYTER_PATH" in env else []
    for execd in launch(tmp_path, PATH=":".join(paths[::-1]), JUPYTER_PATH=":".join(data)):
        with concurrent.futures.ThreadPoolExecutor(len(usable)) as pool:
            contexts = list(pool.map(lambda e: Running(execd, e).context(), usable))
            for c, e in zip(contexts, usable):
                c.run(e.codes["four"])
            began = time.monotonic()
            ends = list(pool.map(lambda pair: pair[0].run(pair[1].codes["sleep"])[-1]["type"], zip(contexts, usable)))
            took = time.monotonic() - began
        assert ends == ["execution_complete"] * len(usable) and len(usable) >= 3 and took < 2 * len(usable) - 1


# ---- what goes wrong ----


def test_fifty_megabytes_arrive_whole(context, r):
    if r.engine.name == "bash_kernel":
        pytest.skip("this kernel reads its shell by a terminal, a megabyte in seconds")
    events = context.run(r.codes["long"], timeout=300)
    assert events[-1]["type"] == "execution_complete"
    pieces = texts(events)
    assert "".join(pieces) == ("x" * 999_999 + "\n") * MEGABYTES and max(map(len, pieces)) < 4_000_000
    assert said(context.run(r.codes["four"])) == "4"


def test_a_process_that_exits_with_3_says_so_and_the_next_run_has_a_new_one(context, r):
    context.run(r.codes["keep"])
    events = context.run(r.codes["exit"])
    if r.engine.name == "bash":  # a shell that exits costs that run alone
        assert error_of(events)["evalue"] == "3" and said(context.run(r.codes["kept"])) == "42"
    elif r.engine.name == "bash_kernel":  # which starts another shell, and says so itself
        assert "Restarting" in said(events) and said(context.run(r.codes["kept"])) == "1"
    else:
        assert error_of(events) == {"ename": "ContextDied", "evalue": "exit status 3", "traceback": ["exit status 3"]}
        assert context.run(r.codes["kept"])[-1]["type"] == "error"
    assert said(context.run(r.codes["four"])) == "4"


def test_processes_that_code_starts_end_no_run_and_hold_none(context, r):
    """A fork that ends, and one that stays behind."""
    began = time.monotonic()
    events = context.run(r.codes["fork"])
    assert events[-1]["type"] == "execution_complete" and "".join(texts(events)).count("parent\n") == 1
    assert time.monotonic() - began < 60 and said(context.run(r.codes["four"])) == "4"


def test_bytes_that_are_no_text_are_told_as_such(context, r):
    events = context.run(r.codes["bytes"])
    assert events[-1]["type"] == "execution_complete"
    assert "".join(texts(events)).startswith("\ufffd\ufffd ok\n")
    assert said(context.run(r.codes["four"])) == "4"


def test_13_contexts_are_listed_found_and_deleted_one_by_one_and_by_language(r):
    """Last, because it deletes all of them."""
    language = r.engine.language
    assert r.execd.request("DELETE", f"/code/contexts?language={language}").status == 200
    a, b = r.context(), r.context()
    assert sorted(ids(r.execd, f"?language={language}")) == sorted([a.id, b.id]) == sorted(ids(r.execd))
    assert r.execd.request("GET", f"/code/contexts/{a.id}").json["language"] == language
    assert a.delete().status == 200 and a.delete().status == 404
    assert r.execd.request("GET", f"/code/contexts/{a.id}").json["code"] == "CONTEXT_NOT_FOUND"
    assert ids(r.execd, f"?language={language}") == [b.id] and ids(r.execd, "?language=cobol") == []
    assert r.execd.request("DELETE", f"/code/contexts?language={language}").status == 200
    assert ids(r.execd) == []
