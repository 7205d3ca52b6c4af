# SPDX-License-Identifier: Apache-2.0
"""Code in contexts, by the drivers that travel inside of execd: what every context can rely on, and python."""
import base64
import concurrent.futures
import json
import os
import re
import signal
import socket
import struct
import time
import zlib

import pytest

from test_execd import EXECD, HEADER, TOKEN, rss_kib, serve, texts, wait_for

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MIB = 1024 * 1024
START_SECONDS = 90  # a kernel on a machine that has much to do: execd itself gives up after 60


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("execd"), env={"GREETING": "hello", "EXECD_CODE_WARM": "off", "PATH": "/usr/bin:/bin"})


def events_of(body):
    text = body.decode()
    assert text.endswith("\n\n")
    events = [json.loads(line) for line in text[:-2].split("\n\n")]
    assert events[0]["type"] == "init" and re.fullmatch(UUID, events[0]["text"])
    assert events[1]["type"] == "ping" and events[1]["text"] == "pong"
    for e in events:
        assert isinstance(e["timestamp"], int) and abs(e["timestamp"] / 1000 - time.time()) < 180
    events = [e for e in events if e["type"] != "ping"]
    ends = [e for e in events if e["type"] in ("error", "execution_complete")]
    assert len(ends) == 1 and events[-1] is ends[0], events
    return events


def run(execd, code, language="python", timeout=60, **context):
    answer = execd.request("POST", "/code", json.dumps({"code": code, "context": {"language": language, **context}}), timeout=timeout)
    assert answer.status == 200, answer.body
    return events_of(answer.body)


class Context:
    def __init__(self, execd, language="python", **more):
        self.execd, self.language = execd, language
        answer = execd.request("POST", "/code/context", json.dumps({"language": language, **more}), timeout=START_SECONDS)
        assert answer.status == 200, answer.body
        self.made = answer.json
        self.id = answer.json["id"]
        assert re.fullmatch(UUID, self.id) and answer.json["language"] == language

    def run(self, code, **more):
        events = run(self.execd, code, self.language, id=self.id, **more)
        assert events[0]["text"] == self.id
        return events

    def value(self, code):
        """What the last expression gives, as text."""
        events = self.run(code)
        assert events[-1]["type"] == "execution_complete", events
        found = [e["results"] for e in events if e["type"] == "result"]
        assert len(found) == 1 and found[0]["text"] == found[0]["text/plain"], events
        return found[0]["text"]

    def out(self, code, kind="stdout"):
        events = self.run(code)
        assert events[-1]["type"] == "execution_complete", events
        return "".join(texts(events, kind))

    def error(self, code):
        events = self.run(code)
        assert events[-1]["type"] == "error", events
        return events[-1]["error"]

    def interrupt(self):
        return self.execd.request("DELETE", f"/code?id={self.id}")

    def delete(self):
        return self.execd.request("DELETE", f"/code/contexts/{self.id}")

    def stream(self, code):
        """The run as a socket from which nothing has been read."""
        body = json.dumps({"code": code, "context": {"id": self.id, "language": self.language}}).encode()
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(str(self.execd.path))
        s.sendall(b"POST /code HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s"
                  % (HEADER.encode(), TOKEN.encode(), len(body), body))
        return s


@pytest.fixture
def python(execd):
    c = Context(execd)
    yield c
    c.delete()


def spoken(events):
    """What was said by turns: how a stream is cut into events is a matter of time."""
    said = []
    for e in events[1:-1]:
        if said and said[-1][0] == e["type"]:
            said[-1] = (e["type"], said[-1][1] + e["text"])
        else:
            said.append((e["type"], e["text"]))
    return said


def read_until(s, mark, got=b""):
    while mark not in got:
        piece = s.recv(65536)
        assert piece, got
        got += piece
    return got


# ---- values and state ----


@pytest.mark.smoke
def test_the_last_expression_is_the_result(python):
    events = python.run("x = 2\nx * 2")
    assert [e["type"] for e in events] == ["init", "execution_count", "result", "execution_complete"]
    assert events[1]["execution_count"] == 1
    assert events[2]["results"] == {"text": "4", "text/plain": "4"}
    assert isinstance(events[3]["execution_time"], int)


@pytest.mark.parametrize("code, want", [
    ("1 + 1", "2"), ("'a\\nb'", "'a\\nb'"), ("[1, 'x']", "[1, 'x']"), ("def f():\n    return 3\n\nf()  # a comment", "3"), ("\n\n5\n\n", "5"),
    ("if True:\n    7", None), ("x = 3", None), ("None", None), ("5;", None), ("# nothing", None), ("'\u2028é'", repr("\u2028é")),
    ("'\\ud800'", "'\\ud800'"), ("x = 1; x + 1", "2"), ("import sys; sys.version_info.major", "3"),
])
def test_what_has_a_value_and_what_has_none(python, code, want):
    results = [e["results"]["text"] for e in python.run(code) if e["type"] == "result"]
    assert results == ([want] if want is not None else [])


def test_state_stays_and_belongs_to_its_context(execd, python):
    python.run("import math\nx = 41\ndef f(): return x + 1\nclass A: pass")
    assert python.value("f() + int(math.sqrt(4))") == "44"
    assert python.value("_") == "44"
    other = Context(execd)
    assert other.error("x")["ename"] == "NameError"
    assert other.error("math")["ename"] == "NameError"
    other.delete()
    assert python.value("__name__") == "'__main__'"
    assert python.value("import pickle; type(pickle.loads(pickle.dumps(A()))) is A") == "True"


def test_top_level_await_and_what_it_leaves_running(python):
    assert python.value("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nawait f() + 1") == "6"
    python.run("t = asyncio.ensure_future(f())")
    assert python.value("await t") == "5"
    assert python.value("async def g():\n    yield 1\n    yield 2\n[x async for x in g()]") == "[1, 2]"
    assert python.error("await asyncio.wait_for(asyncio.sleep(5), 0.01)")["ename"] == "TimeoutError"


def test_contexts_have_their_own_directory_and_environment(execd, tmp_path):
    where = tmp_path / "made for it"
    c = Context(execd, cwd=str(where), envs={"ONLY": "here", "GREETING": "bye"})
    assert c.made["cwd"] == str(where) and where.is_dir()
    assert c.value("import os; os.getcwd(), os.environ['ONLY'], os.environ['GREETING']") == repr((str(where), "here", "bye"))
    (where / "mine.py").write_text("value = 12")
    assert c.value("import mine; mine.value") == "12"
    c.delete()
    other = Context(execd)
    assert other.value("import os; os.environ.get('ONLY'), os.environ['GREETING']") == "(None, 'hello')"
    assert "TOKEN" not in other.value("sorted(os.environ)")
    other.delete()


# ---- output ----


def test_output_keeps_its_order_and_its_streams(python):
    events = python.run("import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nprint('c', end='')\nprint('d', file=sys.stderr)\n"
                        "os.system('echo e; echo f >&2')\nprint('g')\nos.write(1, b'h')\nprint('i', file=sys.stderr)")
    assert spoken(events) == [
        ("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c"), ("stderr", "d\n"), ("stdout", "e\n"), ("stderr", "f\n"), ("stdout", "g\nh"),
        ("stderr", "i\n")]


def test_output_is_told_while_the_code_runs(python):
    with python.stream("import time\nprint('begun')\nprint('half a line', end='', flush=True)\ntime.sleep(30)") as s:
        began = time.monotonic()
        got = read_until(s, b"half a line")
        assert b"begun" in got and time.monotonic() - began < 10
    python.interrupt()


def test_bytes_that_are_no_text(python):
    events = python.run("import sys, os\nsys.stdout.buffer.write(b'\\xff\\xfeok\\n')\nos.write(1, b'raw \\xc3')\nNone")
    assert "".join(texts(events)) == "\ufffd\ufffdok\nraw \ufffd"
    assert python.out("print('\\x85\\u2028\\u2029\\x00\\x1b[1m')") == "\x85\u2028\u2029\x00\x1b[1m\n"
    assert python.out("print(os.fsdecode(b'name\\xff'))") == "name\ufffd\n"
    assert python.out("for b in 'é€😀'.encode(): os.write(1, bytes([b]))\nprint()") == "é€😀\n"


def test_fifty_megabytes_arrive_and_cost_no_memory(execd, python):
    python.run("1")
    before = rss_kib(execd.process.pid)
    answer = execd.request("POST", "/code", json.dumps({"code": "print('0123456789' * 5_000_000)", "context": {"id": python.id}}), timeout=120)
    events = events_of(answer.body)
    out = "".join(texts(events))
    assert len(out) == 50_000_001 and out == "0123456789" * 5_000_000 + "\n"
    assert max(len(json.dumps(e)) for e in events) < 4 * MIB - 1024
    assert rss_kib(execd.process.pid) - before < 8 * 1024


def test_many_lines_are_gathered(python):
    events = python.run("for i in range(20000): print(i)", timeout=120)
    assert "".join(texts(events)).split() == [str(i) for i in range(20000)]
    assert len(texts(events)) < 5000


def test_a_slow_reader_makes_the_code_wait(execd, python, tmp_path):
    done = tmp_path / "done"
    before = rss_kib(execd.process.pid)
    with python.stream(f"for i in range(200): print('x' * 100_000)\nopen({str(done)!r}, 'w').close()") as s:
        got = read_until(s, b'"init"')
        time.sleep(1)
        assert not done.exists() and rss_kib(execd.process.pid) - before < 8 * 1024
        assert execd.request("GET", "/ping").status == 200
        got = read_until(s, b"execution_complete", got)
    assert got.count(b"x") >= 200 * 100_000 and done.exists()


def test_code_goes_on_when_its_reader_leaves(execd, python, tmp_path):
    done = tmp_path / "done"
    with python.stream(f"import time\nfor i in range(20): print('x' * 100_000); time.sleep(0.02)\nopen({str(done)!r}, 'w').close()\nkept = 1") as s:
        read_until(s, b'"init"')
    wait_for(done.exists)
    assert python.value("kept") == "1"


def test_what_a_thread_says_between_runs_disturbs_nobody(python):
    python.run("import threading, time\ndef f():\n    while True: print('noise'); time.sleep(0.001)\nthreading.Thread(target=f, daemon=True).start()")
    time.sleep(0.2)
    for _ in range(20):
        assert python.value("'value'") == "'value'"


# ---- errors ----


def test_an_exception_has_name_value_and_a_traceback_without_ours(python):
    error = python.error("def f(x):\n    return 1 / x\n\nf(0)")
    assert error["ename"] == "ZeroDivisionError" and error["evalue"] == "division by zero"
    text = "\n".join(error["traceback"])
    assert text.startswith("Traceback (most recent call last):") and text.endswith("ZeroDivisionError: division by zero")
    assert 'line 4, in <module>' in text and 'line 2, in f' in text and "return 1 / x" in text and "driver" not in text


@pytest.mark.parametrize("code, name, value", [
    ("x = ", "SyntaxError", "invalid syntax"), ("undefined", "NameError", "name 'undefined' is not defined"), ("raise KeyError('k')", "KeyError", "'k'"),
    ("import sys; sys.exit(3)", "SystemExit", "3"), ("exit()", "SystemExit", ""), ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    ("input()", "EOFError", "EOF when reading a line"), ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E", "cannot be had"),
    ("class V:\n    def __repr__(self): raise ValueError('no')\nV()", "ValueError", "no"), ("def f(): f()\nf()", "RecursionError", "recursion"),
    ("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('é') from e", "ValueError", "é"), ("assert 0, '\\ud800'", "AssertionError", ""),
    ("if 1:\n  a\n b", "IndentationError", "unindent"),
])
def test_errors_of_all_kinds_leave_a_context_that_works(python, code, name, value):
    error = python.error(code)
    assert error["ename"] == name and value in error["evalue"] and all(isinstance(t, str) for t in error["traceback"])
    assert "driver" not in "".join(error["traceback"])
    assert python.value("1 + 1") == "2"


def test_an_enormous_error_is_cut(python):
    error = python.error("raise ValueError('v' * 5_000_000)")
    assert error["ename"] == "ValueError" and 1000 <= len(error["evalue"]) <= 300_000
    assert python.value("2") == "2"


# ---- rich results ----


@pytest.mark.parametrize("method, mime, value, want", [
    ("_repr_html_", "text/html", "'<b>x</b>'", "<b>x</b>"), ("_repr_markdown_", "text/markdown", "'*x*'", "*x*"),
    ("_repr_latex_", "text/latex", "'$x$'", "$x$"), ("_repr_svg_", "image/svg+xml", "'<svg/>'", "<svg/>"),
    ("_repr_png_", "image/png", "b'\\x89PNG'", base64.b64encode(b"\x89PNG").decode()),
    ("_repr_jpeg_", "image/jpeg", "(b'\\xff\\xd8', {'width': 5})", base64.b64encode(b"\xff\xd8").decode()),
    ("_repr_json_", "application/json", "{'a': [1, None]}", '{"a": [1, null]}'),
])
def test_methods_for_display_are_asked(python, method, mime, value, want):
    events = python.run(f"class A:\n    def {method}(self): return {value}\n    def __repr__(self): return 'plain'\nA()")
    assert [e["results"] for e in events if e["type"] == "result"] == [{mime: want, "text": "plain", "text/plain": "plain"}]


def test_bundles_and_methods_that_fail(python):
    events = python.run("class A:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'p', 'x/y': {'k': 1}}\n"
                        "    def _repr_html_(self): 1 / 0\n    def _repr_png_(self): return None\nA()")
    assert [e["results"] for e in events if e["type"] == "result"] == [{"text": "p", "text/plain": "p", "x/y": '{"k": 1}'}]
    assert python.value("from unittest.mock import MagicMock; type(MagicMock())").startswith("<class")


def test_display_is_a_result_without_a_count(python):
    events = python.run("display('a', 2)\nprint('between')\ndisplay([3])\n4")
    assert [(e["type"], e.get("results", {}).get("text")) for e in events[1:-1]] == [
        ("result", "'a'"), ("result", "2"), ("stdout", None), ("result", "[3]"), ("execution_count", None), ("result", "4")]


def test_display_of_ipython_shows_where_there_is_no_ipython_shell(execd, tmp_path):
    (tmp_path / "IPython").mkdir()
    (tmp_path / "IPython/__init__.py").write_text("")
    (tmp_path / "IPython/display.py").write_text("def display(*a): print('printed')\nclass HTML:\n"
                                                 "    def __init__(self, data): self.data = data\n    def _repr_html_(self): return self.data")
    c = Context(execd, cwd=str(tmp_path))
    events = c.run("from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))")
    assert [e["results"]["text/html"] for e in events if e["type"] == "result"] == ["<b>x</b>"] and texts(events) == []
    c.delete()


def test_what_is_too_large_is_left_out_by_name(python):
    events = python.run("class A:\n    def _repr_html_(self): return 'x' * 3_000_000\n    def _repr_latex_(self): return 'y' * 2_000_000\n"
                        "    def __repr__(self): return 'small'\nA()")
    (result,) = [e["results"] for e in events if e["type"] == "result"]
    assert result["text"] == "small" and len(result["text/latex"]) == 2_000_000 and "text/html" not in result
    assert "text/html" in "".join(texts(events, "stderr"))
    assert "left out" in "".join(texts(python.run("'z' * 4_000_000"), "stderr"))


def png_pixels(data):
    """Width, height and rows of an RGBA picture, read by hand."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        content = data[at + 8:at + 8 + size]
        assert zlib.crc32(kind + content) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
        found[kind] = found.get(kind, b"") + content
        at += 12 + size
    width, height, depth, color = struct.unpack(">IIBB", found[b"IHDR"][:10])
    assert depth == 8 and color == 6 and b"IEND" in found
    rows = zlib.decompress(found[b"IDAT"])
    assert len(rows) == height * (1 + 4 * width)
    return width, height, rows


def test_a_plot_arrives_as_a_picture(python):
    pytest.importorskip("matplotlib", reason="needs matplotlib for the system's python")
    events = python.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 4, 9])\nplt.show()\nprint('shown')")
    kinds = [e["type"] for e in events]
    assert kinds == ["init", "result", "stdout", "execution_complete"], kinds
    width, height, rows = png_pixels(base64.b64decode(events[1]["results"]["image/png"]))
    assert width > 300 and height > 200 and len(set(rows)) > 50
    events = python.run("plt.plot([3, 2, 1]); plt.figure(); plt.plot([1])\n'value'")
    assert [sorted(e["results"]) for e in events if e["type"] == "result"] == [
        ["text", "text/plain"], ["image/png", "text", "text/plain"], ["image/png", "text", "text/plain"]]
    assert python.value("plt.get_fignums()") == "[]"
    assert python.out("import subprocess, sys; r = subprocess.run([sys.executable, '-c', 'import matplotlib.pyplot as p; p.figure(); print(4)'], "
                      "capture_output=True, text=True); print(r.stdout.strip(), r.stderr)") == "4 \n"


def test_shell_lines_of_notebooks_work(python):
    events = python.run("%matplotlib inline\nx = 'py'\nif x:\n    !echo from a shell; exit 3\nx")
    assert texts(events) == ["from a shell\n"] and events[-2]["results"]["text"] == "'py'"
    assert python.value("'''\n!no shell\n'''") == repr("\n!no shell\n")
    assert python.error("%nonsense x")["ename"] == "SyntaxError"


# ---- interrupts ----


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(100)", "import asyncio; await asyncio.sleep(100)",
                                  "import os; os.system('sleep 100')", "import subprocess; subprocess.run(['sleep', '100'])",
                                  "while True: print('x')", "import threading; threading.Event().wait()"])
def test_an_interrupt_ends_the_run_and_not_the_context(python, code):
    python.run("kept = 1")
    with python.stream(f"print('begun', flush=True)\n{code}") as s:
        got = read_until(s, b"begun")
        time.sleep(0.3)
        began = time.monotonic()
        assert python.interrupt().status == 200
        got = read_until(s, b"\r\n0\r\n\r\n", got)
        assert time.monotonic() - began < 5
    if "os.system" not in code:  # where the shell is what was interrupted
        assert b'"ename":"KeyboardInterrupt"' in got and b"driver" not in got
    assert python.value("kept") == "1"


def test_an_interrupt_right_after_the_first_event_counts(execd):
    for _ in range(5):
        c = Context(execd)
        with c.stream("import time; time.sleep(100)") as s:
            got = read_until(s, b'"init"')
            assert c.interrupt().status == 200
            assert b"KeyboardInterrupt" in read_until(s, b"\r\n0\r\n\r\n", got)
        c.delete()


def test_an_interrupt_of_nothing_changes_nothing(execd, python):
    python.run("import signal\nx = 1")
    for _ in range(20):
        assert python.interrupt().status == 200
        assert python.value("x") == "1"
    assert execd.request("DELETE", "/code?id=no-such").status == 404
    assert execd.request("DELETE", "/code").json["code"] == "MISSING_QUERY"
    assert execd.request("DELETE", f"/command?id={python.id}").status == 200


# ---- the end of a process ----


@pytest.mark.parametrize("code, want", [("import os; os._exit(3)", "exit status 3"), ("import os, signal; os.kill(os.getpid(), 9)", "signal: killed"),
                                        ("import ctypes; ctypes.string_at(0)", "signal: segmentation fault")])
def test_a_context_that_dies_says_so_and_can_be_used_again(python, code, want):
    python.run("x = 1")
    events = python.run(f"print('before', flush=True)\n{code}")
    assert texts(events) == ["before\n"]
    assert events[-1]["error"]["ename"] == "ContextDied" and events[-1]["error"]["evalue"].startswith(want)
    assert python.error("x")["ename"] == "NameError"
    assert python.value("1 + 1") == "2"


def test_a_process_that_ends_between_runs_is_replaced_and_told(python):
    pid = int(python.value("import os; os.getpid()"))
    os.kill(pid, 9)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    time.sleep(0.1)
    events = python.run("1 + 1")
    assert "new one" in "".join(texts(events, "stderr")) and [e["results"]["text"] for e in events if e["type"] == "result"] == ["2"]


def test_a_fork_in_the_code_is_no_second_context(python):
    events = python.run("import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent', flush=True)\n"
                        "if pid: os.waitpid(pid, 0)\n'end'")
    assert sorted("".join(texts(events)).split()) == ["child", "parent"]
    assert [e["results"]["text"] for e in events if e["type"] == "result"] == ["'end'"]
    events = python.run("if os.fork() == 0: raise ValueError('in the child')\nos.wait()[1]")
    assert "in the child" in "".join(texts(events, "stderr")) and events[-2]["results"]["text"] == "256"
    assert python.value("import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: r = p.map(abs, [-1, -2])\nr") == "[1, 2]"


def test_programs_of_the_code_have_none_of_our_descriptors(python):
    code = "import subprocess\nprint(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout.split())"
    assert python.out(code) == "['0', '1', '2', '3']\n"
    assert python.out("import os; print(os.popen('ls /proc/self/fd').read().split())") == "['0', '1', '2', '3']\n"


@pytest.mark.parametrize("language, code", [("python", "import os; print(os.getpid())"), ("bash", "echo $$"), ("javascript", "console.log(process.pid)")])
def test_lists_of_processes_stay_readable(execd, language, code):
    c = Context(execd, language)
    with open(f"/proc/{int(c.out(code))}/cmdline", "rb") as f:
        assert len(f.read()) < 256
    c.delete()


def test_nothing_of_ours_is_left_in_the_files(execd, tmp_path):
    c = Context(execd, cwd=str(tmp_path))
    c.run("1 / 0")
    assert c.value("import os; os.listdir('.'), [f for f in os.listdir('/tmp') if 'driver' in f]") == "([], [])"
    c.delete()


def test_a_run_finds_its_streams_whatever_the_one_before_did(python):
    python.run("import sys, os; sys.stdout.close(); sys.stdin.close(); os.close(2)")
    assert python.out("print('still here')") == "still here\n"
    python.run("sys.stdout = sys.stderr = None")
    assert python.value("1 + 1") == "2"


# ---- hostile code ----


@pytest.mark.parametrize("bytes_", [b"garbage", b"R99999999999\\n", b"R10\\nabc", b"O-1\\n", b"R5\\nx 9\\ny", b"Q0\\n", b"X3\\nabc", b"\\0" * 50, b"B0\\n" * 9,
                                    b"H0\\n" * 9, b"Z0\\n" * 9, b"R0\\n", b"S1\\n9", b"O5\\nhello", b"N3\\nabc"])
def test_messages_of_hostile_code_harm_its_own_context_alone(execd, python, bytes_):
    other = Context(execd)
    other.run("x = 5")
    events = python.run(f"import os\nos.write(250, b'{bytes_.decode()}')\nos.write(250, b'x' * 10)\n1")
    assert events[-1]["type"] in ("error", "execution_complete")
    assert other.value("x") == "5"
    other.delete()
    python.run("1")
    assert python.value("1 + 1") == "2"


def test_code_that_closes_what_we_speak_by_loses_its_context(python):
    assert python.error("import os; os.close(250)\nimport time; time.sleep(100)")["ename"] == "ContextDied"
    assert python.value("1 + 1") == "2"


def test_a_message_that_never_ends_can_be_deleted(execd):
    c = Context(execd)
    with c.stream("import os\nos.write(250, b'R1000000\\nabc')\nprint('x')\nwhile True: os.write(250, b'y' * 1000)") as s:
        time.sleep(0.3)
        assert c.delete().status == 200
        assert b"ContextDied" in read_until(s, b"\r\n0\r\n\r\n")
    assert execd.request("GET", "/ping").status == 200


HALVES = [("python", "import os; os.write(250, b'R1000000\\nabc')"), ("python", "import os; os.write(250, b'O99\\nabc')"),
          ("python", "import os; os.write(250, b'O9'); import time; time.sleep(100)"),
          ("bash", "for n in {10..20}; do [[ $(readlink /proc/$$/fd/$n) != socket* ]] || printf 'E1000000\\nabc' >&$n; done; sleep 100")]


def test_a_message_that_does_not_go_on_ends_its_context(execd):
    contexts = [Context(execd, language) for language, _ in HALVES]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        began = time.monotonic()
        for error in pool.map(lambda c, row: c.error(row[1]), contexts, HALVES):
            assert error["ename"] == "ContextDied" and "does not end" in error["evalue"] and 5 < time.monotonic() - began < 40
    for c in contexts:
        assert c.run("true" if c.language == "bash" else "1 + 1")[-1]["type"] == "execution_complete"
        c.delete()


def test_a_message_waits_for_a_process_that_is_stopped(execd):
    c = Context(execd)
    pid = int(c.value("import os; os.getpid()"))
    with c.stream("os.write(250, b'O6\\nabc')\nos.kill(os.getpid(), 19)\nos.write(250, b'def')\nNone") as s:
        got = read_until(s, b"abc")
        time.sleep(13)
        os.kill(pid, signal.SIGCONT)
        got = read_until(s, b"\r\n0\r\n\r\n", got)
    assert b"execution_complete" in got and b"def" in got
    c.delete()


# ---- contexts ----


def ids(execd, query=""):
    answer = execd.request("GET", f"/code/contexts{query}")
    assert answer.status == 200
    return [c["id"] for c in answer.json]


def test_contexts_are_listed_found_and_deleted(execd):
    a, b = Context(execd), Context(execd, "bash")
    assert {a.id, b.id} <= set(ids(execd)) and a.id in ids(execd, "?language=python") and a.id not in ids(execd, "?language=bash")
    assert ids(execd, "?language=go") == []
    found = execd.request("GET", f"/code/contexts/{a.id}").json
    assert found["id"] == a.id and found["language"] == "python"
    for path in ("/code/contexts/none", f"/code/contexts/{b.id}x"):
        for method in ("GET", "DELETE"):
            answer = execd.request(method, path)
            assert answer.status == 404 and answer.json["code"] == "CONTEXT_NOT_FOUND"
    answer = a.delete()
    assert answer.status == 200 and answer.headers["Content-Length"] == "0"
    assert a.delete().status == 404 and a.id not in ids(execd)
    assert execd.request("DELETE", "/code/contexts").json["code"] == "MISSING_QUERY"
    assert execd.request("DELETE", "/code/contexts?language=bash").status == 200
    assert ids(execd, "?language=bash") == []
    assert execd.request("DELETE", "/code/contexts?language=bash").status == 200
    answer = execd.request("POST", "/code", json.dumps({"code": "1", "context": {"id": a.id, "language": "python"}}))
    assert answer.status == 404 and answer.json["code"] == "CONTEXT_NOT_FOUND"


def test_a_language_has_a_context_for_those_who_name_none(execd):
    execd.request("DELETE", "/code/contexts?language=python")
    first = run(execd, "shared = 7")[0]["text"]
    events = run(execd, "shared", id=None)
    assert events[0]["text"] == first and events[-2]["results"]["text"] == "7"
    assert first in ids(execd, "?language=python")
    assert execd.request("DELETE", f"/code/contexts/{first}").status == 200
    events = run(execd, "shared")
    assert events[0]["text"] != first and events[-1]["error"]["ename"] == "NameError"


def test_deleting_ends_what_runs_with_all_that_it_started(execd, tmp_path):
    c = Context(execd)
    with c.stream(f"import subprocess\np = subprocess.Popen(['sleep', '1000'])\nprint('pid', p.pid, flush=True)\nwhile True: pass") as s:
        pid = int(re.search(rb"pid (\d+)", read_until(s, b"pid ", b"") + s.recv(1000))[1])
        began = time.monotonic()
        assert c.delete().status == 200
        got = read_until(s, b"\r\n0\r\n\r\n")
        assert b"the context was deleted" in got and time.monotonic() - began < 3
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_contexts_run_at_the_same_time(execd):
    contexts = [Context(execd, language) for language in ("python", "python", "bash", "javascript")]
    codes = ["import time; time.sleep(4); 1", "import time; time.sleep(4); 2", "sleep 4; echo 3", "await new Promise((r) => setTimeout(r, 4000)); 4"]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda pair: pair[0].run(pair[1])[-1]["type"], zip(contexts, codes)))
    assert ends == ["execution_complete"] * 4 and time.monotonic() - began < 12
    for c in contexts:
        c.delete()


def test_runs_of_one_context_take_turns(python):
    python.run("import time\nlog = []")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: python.run(f"log.append('in')\ntime.sleep(0.05)\nlog.append('out')"), range(8)))
    assert python.value("log == ['in', 'out'] * 8") == "True"


def test_there_is_an_end_to_contexts_and_to_runs_that_wait(execd):
    execd.request("DELETE", "/code/contexts?language=bash")
    made, answer = [], None
    while len(made) < 40:
        answer = execd.request("POST", "/code/context", '{"language": "bash"}')
        if answer.status != 200:
            break
        made.append(answer.json["id"])
    assert answer.status == 429 and answer.headers["Retry-After"] == "1" and 20 <= len(made) <= 32
    c = Context.__new__(Context)
    c.execd, c.language, c.id = execd, "bash", made[0]
    with closing_all(c.stream("sleep 100") for _ in range(16)) as streams:
        for s in streams:
            read_until(s, b'"init"')
        answer = execd.request("POST", "/code", json.dumps({"code": "true", "context": {"id": c.id}}))
        assert answer.status == 429 and "session is busy" in answer.json["message"]
    assert execd.request("DELETE", "/code/contexts?language=bash").status == 200
    wait_for(lambda: not ids(execd, "?language=bash"))


class closing_all:
    """Closes all of what it was given."""

    def __init__(self, things):
        self.things = list(things)

    def __enter__(self):
        return self.things

    def __exit__(self, *_):
        for thing in self.things:
            thing.close()


def test_large_environments_are_paid_for(execd):
    body = json.dumps({"language": "bash", "envs": {f"V{i}": "x" * 8000 for i in range(16)}})
    execd.request("DELETE", "/code/contexts?language=bash")
    before = rss_kib(execd.process.pid)
    answers = [execd.request("POST", "/code/context", body) for _ in range(26)]
    assert {a.status for a in answers} <= {200, 429, 503} and answers[0].status == 200
    assert rss_kib(execd.process.pid) - before < 16 * 1024
    assert execd.request("DELETE", "/code/contexts?language=bash").status == 200
    wait_for(lambda: not ids(execd, "?language=bash"))
    assert execd.request("POST", "/code/context", body).status == 200
    execd.request("DELETE", "/code/contexts?language=bash")


def test_many_large_results_at_once_stay_within_the_budget(execd):
    """L2: what there is no memory for is left out by name, and everybody is answered."""
    contexts = [Context(execd) for _ in range(20)]
    code = "class A:\n    def _repr_html_(self): return 'x' * 2_000_000\n    def __repr__(self): return 'plain'\nfor i in range(3): display(A())\nprint('end')"
    before = rss_kib(execd.process.pid)
    with closing_all(c.stream(code) for c in contexts) as streams:
        time.sleep(3)
        assert rss_kib(execd.process.pid) - before < 24 * 1024
        assert execd.request("GET", "/ping").status == 200
        for s in streams:
            got = read_until(s, b"\r\n0\r\n\r\n")
            assert b"execution_complete" in got and got.count(b'"type":"result"') + got.count(b"left out") >= 3 and b"end\\n" in got
    for c in contexts:
        assert c.value("1 + 1") == "2"
        c.delete()


# ---- requests ----


@pytest.mark.parametrize("body, status", [
    ("", 400), ("{}", 400), ('{"code": ""}', 400), ('{"code": 5}', 400), ('{"code": "1", "context": "python"}', 400), ("[", 400),
    ('{"code": "1", "context": {"language": "cobol"}}', 400), ('{"code": "1", "context": {"language": "Python"}}', 400),
    ('{"code": "1", "context": {"language": "python", "kernel": "none-such"}}', 400),
])
def test_requests_that_make_no_sense(execd, body, status):
    answer = execd.request("POST", "/code", body)
    assert answer.status == status and answer.json["code"] and answer.json["message"]


def test_a_context_needs_a_language_that_something_runs(execd):
    for body in ("{}", '{"language": ""}', '{"language": "cobol"}', '{"language": null}', ""):
        answer = execd.request("POST", "/code/context", body)
        assert answer.status == 400 and answer.json["code"] == "INVALID_REQUEST_BODY"


def test_explicit_nulls_and_names_in_other_cases(execd):
    answer = execd.request("POST", "/code", '{"Code": "1+1", "CONTEXT": {"language": "python", "id": null, "cwd": null}}')
    assert b'"text":"2"' in answer.body


def test_no_language_is_a_shell_command(execd):
    for context in ({}, {"context": None}, {"context": {}}, {"context": {"language": "command"}}):
        answer = execd.request("POST", "/code", json.dumps({"code": "echo $GREETING; exit 4", **context}))
        events = [json.loads(line) for line in answer.body.decode().split("\n\n") if line]
        assert texts(events) == ["hello"] and events[-1]["error"]["evalue"] == "4"
    answer = execd.request("POST", "/code", json.dumps({"code": "sleep 0.1", "context": {"language": "background-command"}}))
    started = json.loads(answer.body.decode().split("\n\n")[0])["text"]
    assert execd.request("GET", f"/command/status/{started}").json["id"] == started


def test_two_mebibytes_of_code_and_not_a_byte_more(execd, python):
    head = "x = len('''"
    tail = "''')\nx"
    text = head + "y" * (2 * MIB - len(head) - len(tail)) + tail
    assert python.value(text) == str(2 * MIB - len(head) - len(tail))
    answer = execd.request("POST", "/code", json.dumps({"code": text + " ", "context": {"id": python.id}}))
    assert answer.status == 413
    assert python.value("1 + 1") == "2"
