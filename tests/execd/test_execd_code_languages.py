# SPDX-License-Identifier: Apache-2.0
"""javascript, typescript and bash in contexts, python contexts that are forked from one that waits, and idle ones."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest

import kernels
from test_execd import EXECD, TOKEN, guest, serve, texts, wait_for  # noqa: F401
from test_execd_code import Context, ids, read_until, run, spoken

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="needs node")


@pytest.fixture(scope="module")
def execd(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("execd"), env={"EXECD_CODE_WARM": "off", "PATH": os.environ["PATH"]})


@pytest.fixture
def node(execd):
    if not shutil.which("node"):
        pytest.skip("needs node")
    c = Context(execd, "javascript")
    yield c
    c.delete()


@pytest.fixture
def bash(execd):
    c = Context(execd, "bash")
    yield c
    c.delete()


def interrupt(context, code, want):
    """CODE says that it has begun; what ends it has WANT in it."""
    with context.stream(code) as s:
        got = read_until(s, b"begun")
        time.sleep(0.3)
        assert context.interrupt().status == 200
        assert want in read_until(s, b"\r\n0\r\n\r\n", got)


# ---- javascript ----


@pytest.mark.parametrize("code, want", [
    ("1 + 1", "2"), ("const x = 20; x * 2", "40"), ("'a' + 'b'", "'ab'"), ("({ a: 1, b: [2] })", "{ a: 1, b: [ 2 ] }"), ("let y = 1", None), ("undefined", None),
    ("await Promise.resolve(6)", "6"), ("10n ** 20n", "100000000000000000000n"), ("NaN", "NaN"), ("-0", "-0"), ("null", "null"), ("Symbol('s')", "Symbol(s)"),
    ("function f() { return 3 } f()", "3"), ("Promise.resolve(8)", "8"), ("(async () => { await null; return 9 })()", "9"), ("[1, 2].map((v) => v * 2)", "[ 2, 4 ]"),
    ("if (true) { 7 }", "7"), ("typeof require", "'function'"), ("require('path').join('a', 'b')", "'a/b'"), ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"),
    ("const os = await import('os'); os.EOL", "'\\n'"), ("import fs from 'fs'; typeof fs.readFileSync", "'function'"),
    ("import { join as j, sep } from 'node:path'; import * as p from 'path'\nj('a', 'b') + sep + (p.sep === sep)", "'a/b/true'"),
    ("'import(\"x\") and import a from \"b\"'", "'import(\"x\") and import a from \"b\"'"), ("var s = `import(${1 + 1})`; s", "'import(2)'"),
])
def test_javascript_has_values(node, code, want):
    events = node.run(code)
    assert events[-1]["type"] == "execution_complete", events
    assert [e["results"] for e in events if e["type"] == "result"] == ([{"text": want, "text/plain": want}] if want is not None else [])


def test_javascript_declares_again_and_keeps_its_state(execd, node):
    node.run("const a = 1; let b = 2; class C {}; function f() { return a }")
    assert node.value("const a = 10; let b = 20; class C { static x = 5 }; a + b + C.x") == "35"
    assert node.value("f()") in ("1", "10")
    other = Context(execd, "javascript")
    assert other.error("a")["ename"] == "ReferenceError"
    other.delete()


def test_javascript_streams_are_apart_and_in_order(node):
    events = node.run("console.log('a', 1); console.error('b'); process.stdout.write('c'); console.warn('d'); console.log('é\\u2028')")
    assert spoken(events) == [("stdout", "a 1\n"), ("stderr", "b\n"), ("stdout", "c"), ("stderr", "d\n"), ("stdout", "é\u2028\n")]
    assert node.out("require('child_process').execSync('echo from a child', { stdio: 'inherit' })") == "from a child\n"
    assert len(node.out("console.log('x'.repeat(5_000_000))")) == 5_000_001


def test_javascript_errors(node):
    error = node.error("function f() { throw new TypeError('no') }\nf()")
    assert error["ename"] == "TypeError" and error["evalue"] == "no" and error["traceback"][0] == "TypeError: no"
    assert "at f" in error["traceback"][1] and "inspector" not in "".join(error["traceback"])
    assert node.error("let = ")["ename"] == "SyntaxError"
    assert node.error("throw 5")["evalue"] == "5"
    assert node.error("await Promise.reject(new RangeError('r'))")["ename"] == "RangeError"
    assert node.error("(async () => { throw new RangeError('later') })()")["ename"] == "RangeError"
    assert "lost" in "".join(texts(node.run("Promise.reject(new Error('lost')); await new Promise((r) => setTimeout(r, 50))"), "stderr"))
    assert node.error("process.exit(3)")["evalue"] == "exit status 3"
    assert node.value("1 + 1") == "2"


@pytest.mark.parametrize("code", ["while (true) {}", "await new Promise(() => {})", "while (true) console.log('x')"])
def test_javascript_is_interrupted(node, code):
    node.run("var kept = 1")
    interrupt(node, f"console.log('begun'); {code}", b"KeyboardInterrupt")
    assert node.value("kept") == "1"


def test_javascript_shows_and_hides(node):
    events = node.run("display([1]); ({ [Symbol.for('Jupyter.display')]() { return { 'text/html': '<b/>', 'text/plain': 'p' } } })")
    assert [e["results"] for e in events if e["type"] == "result"] == [
        {"text": "[ 1 ]", "text/plain": "[ 1 ]"}, {"text/html": "<b/>", "text": "p", "text/plain": "p"}]
    out = node.out("console.log(require('child_process').execSync('ls /proc/self/fd').toString().split('\\n').join(' '))")
    assert out.split() == ["0", "1", "2", "3"]


# ---- typescript ----


@needs_node
def test_typescript_runs_where_node_can_and_says_so_where_not(execd):
    version = tuple(map(int, re.findall(r"\d+", subprocess.run(["node", "--version"], capture_output=True, text=True).stdout)[:2]))
    if version >= (22, 13):
        c = Context(execd, "typescript")
        assert c.value("const x: number = 5; x * 2") == "10"
        c.delete()
    else:
        answer = execd.request("POST", "/code/context", '{"language": "typescript"}')
        assert answer.status == 500 and "22.13" in answer.json["message"]
        assert "22.13" in run(execd, "1", "typescript")[-1]["error"]["evalue"]
        assert ids(execd, "?language=typescript") == []


@pytest.fixture(scope="module", params=[22, 24])
def modern(request, tmp_path_factory):
    """One whose node can, whatever this machine's is."""
    node = kernels.nodes()[request.param]
    yield from serve(tmp_path_factory.mktemp("modern"), env={"EXECD_CODE_WARM": "off", "PATH": f"{node.parent}:/usr/bin:/bin"})


@pytest.fixture
def typescript(modern):
    c = Context(modern, "typescript")
    yield c
    c.delete()


@pytest.mark.parametrize("code, want", [
    ("1 + 1", "2"), ("const x: number = 5; x * 2", "10"), ("let y: string | undefined", None), ("interface A { a: string }", None),
    ("type T = { [k: string]: number }; ({ a: 1 } as T)", "{ a: 1 }"), ("enum E { P = 2, Q }; E.P + E.Q", "5"), ("enum E { P }\nE[0]", "'P'"),
    ("function f<T>(v: T): T[] { return [v] }\nf<number>(3)", "[ 3 ]"), ("const g = (a: number, b?: string): number => a; g(4)!", "4"),
    ("class C { constructor(private readonly n: number) {} twice(): number { return this.n * 2 } }\nnew C(4).twice()", "8"),
    ("abstract class S { abstract n(): number }\nclass D extends S { n() { return 1 } }\nnew D().n()", "1"),
    ("namespace N { export const v = 7 }\nN.v", "7"), ("({ a: 1 } satisfies { a: number })", "{ a: 1 }"), ("const t = <T,>(v: T) => v; t('é😀')", "'é😀'"),
    ("await Promise.resolve<number>(6)", "6"), ("(async (): Promise<number> => { await null; return 9 })()", "9"),
    ("import { join } from 'node:path'; import type { Stats } from 'node:fs'\nconst s: Stats | null = null; join('a', 'b')", "'a/b'"),
    ("import * as p from 'path'; import { type Stats, readFileSync } from 'fs'\nimport os from 'os'\n[p.sep, typeof readFileSync, typeof os.EOL] as const",
     "[ '/', 'function', 'string' ]"),
    ("const os = await import('os'); typeof os.EOL as string", "'string'"), ("require('path').sep", "'/'"), ("if (true as boolean) { 7 }", "7"),
])
def test_typescript_has_values(typescript, code, want):
    events = typescript.run(code)
    assert events[-1]["type"] == "execution_complete", events
    assert [e["results"] for e in events if e["type"] == "result"] == ([{"text": want, "text/plain": want}] if want is not None else [])
    assert not texts(events, "stderr")


def test_typescript_keeps_its_state_and_shares_none(modern, typescript):
    typescript.run("import { join } from 'path'\nimport fs from 'fs'")
    typescript.run("const a: number = 1; enum E { P = 3 }; class C<T> { v?: T }; type T = number; interface I { i: number }")
    assert typescript.value("const i: I = { i: 1 }; const t: T = 2; [a, E.P, new C<number>(), join('x', 'y'), typeof fs.readFileSync, i.i + t]"
                            ) == "[ 1, 3, C { v: undefined }, 'x/y', 'function', 3 ]"
    assert typescript.value("const a: string = 'again'; a") == "'again'"
    other = Context(modern, "typescript")
    assert other.error("a")["ename"] == "ReferenceError"
    other.delete()


def test_typescript_streams_and_errors(typescript):
    events = typescript.run("const s: string = 'a'\nconsole.log(s, 1 as number)\nconsole.error('b')")
    assert spoken(events) == [("stdout", "a 1\n"), ("stderr", "b\n")]
    error = typescript.error("function f(n: number): never {\n\tthrow new TypeError('no')\n}\nf(1)")
    assert error["ename"] == "TypeError" and error["evalue"] == "no" and "at f" in error["traceback"][1]
    for code in ("let = ", "const x: = 5", "interface {"):
        assert typescript.error(code)["ename"] == "SyntaxError"
    assert typescript.error("process.exit(3)")["evalue"] == "exit status 3"
    assert typescript.value("1 + 1") == "2"


@pytest.mark.parametrize("code", ["while (true) {}", "await new Promise<void>(() => {})", "while (true) console.log(1 as number)"])
def test_typescript_is_interrupted(typescript, code):
    typescript.run("var kept: number = 1")
    interrupt(typescript, f"console.log('begun' as string); {code}", b"KeyboardInterrupt")
    assert typescript.value("kept") == "1"


@pytest.mark.parametrize("code, want", [("const x = 20; x * 2", "40"), ("import fs from 'fs'; typeof fs.readFileSync", "'function'"),
                                        ("(async () => { await null; return 9 })()", "9")])
def test_javascript_runs_by_newer_nodes_too(modern, code, want):
    c = Context(modern, "javascript")
    assert c.value(code) == want and c.error("throw new RangeError('r')")["ename"] == "RangeError"
    assert c.out("console.log(require('child_process').execSync('ls /proc/self/fd').toString().split('\\n').join(' '))").split() == ["0", "1", "2", "3"]
    c.delete()


# ---- bash ----


def test_bash_keeps_what_runs_leave(bash, tmp_path):
    bash.run(f"cd {tmp_path}; A='one two'; export B=3; f() {{ echo in f $1; }}; set -f; C=(x 'y z')")
    assert bash.out('echo "$A|$B|${C[1]}"; f x; pwd; echo *') == f"one two|3|y z\nin f x\n{tmp_path}\n*\n"
    events = bash.run("echo out; echo err >&2; printf 'no newline'")
    assert "".join(texts(events)) == "out\nno newline" and "".join(texts(events, "stderr")) == "err\n"
    assert not [e for e in events if e["type"] in ("result", "execution_count")]


@pytest.mark.parametrize("code, value", [("false", "1"), ("exit 7", "7"), ("no_such_command_here", "127"), ("kill -9 $$", "137"), ("(exit 3)", "3"),
                                         ("set -e; false; echo never", "1"), ("exec false", "1"), ("if", "2")])
def test_bash_that_fails_or_ends_keeps_its_state(bash, code, value):
    bash.run("kept='a b'; g() { echo g; }")
    events = bash.run(code)
    assert events[-1]["error"]["ename"] == "CommandExecError" and events[-1]["error"]["evalue"] == value, events
    assert bash.out('echo "$kept"; g; set +e') == "a b\ng\n"
    assert bash.out("exit 0") == "" and bash.out("g") == "g\n"


@pytest.mark.parametrize("code", ["sleep 100", "while :; do :; done", "sleep 100 & wait", "(sleep 100; sleep 100)"])
def test_bash_is_interrupted(bash, code):
    bash.run("kept=1")
    interrupt(bash, f"echo begun; {code}", b'"evalue":"130"')
    assert bash.out("echo $kept") == "1\n"


def test_bash_gets_text_of_all_kinds_and_no_descriptor_of_ours(bash):
    assert bash.out("cat <<'EOF'\nhere $x `y`\n  \"doc\" 'é€😀'\nEOF") == "here $x `y`\n  \"doc\" 'é€😀'\n"
    assert bash.out("ls /proc/self/fd | tr '\\n' ' '") == "0 1 2 3 "
    assert bash.out("read -r x; echo \"[$x]\"") == "[]\n"
    assert len(bash.out("head -c 3000000 /dev/zero | tr '\\0' x")) == 3_000_000


# ---- warm starts ----


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    yield from serve(tmp_path_factory.mktemp("warm"), env={"EXECD_CODE_WARM": "json, no.such.module;fractions", "PATH": "/usr/bin:/bin"})


LOADED = "import sys; 'fractions' in sys.modules and 'no' not in sys.modules"


def forks(execd, **more):
    c = Context(execd, **more)
    if c.value(LOADED) == "True":
        return c
    c.delete()
    return None


@pytest.fixture
def forked(warm):
    """A context that was forked, with the time for the first one to have happened."""
    found = []
    wait_for(lambda: found.append(forks(warm)) or found[-1], 30)
    yield found[-1]
    found[-1].delete()


def test_a_fork_is_a_context_like_any_other(warm, forked, tmp_path):
    assert forked.value("import os; os.getppid()") == str(warm.process.pid)
    assert forked.value("os.getpid() == os.getpgid(0) == os.getsid(0)") == "True"
    assert forked.out("print('out'); print('err', file=sys.stderr); os.system('echo child')") == "out\nchild\n"
    error = forked.error("1 / 0")
    assert error["ename"] == "ZeroDivisionError" and "driver" not in "".join(error["traceback"])
    assert forked.out("import subprocess; print(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout.split())"
                      ) == "['0', '1', '2', '3']\n"
    c = Context(warm, cwd=str(tmp_path))
    assert c.value("import os; os.getcwd()") == repr(str(tmp_path)) and c.value(LOADED) == "True"
    c.delete()


def test_forks_share_nothing(warm, forked):
    forked.run("import fractions, random\nfractions.mark = 1\nx = 1")
    others = [Context(warm) for _ in range(3)]
    for c in others:
        assert c.value("import fractions; hasattr(fractions, 'mark'), 'x' in dir()") == "(False, False)"
    assert len({c.value("import random; random.random()") for c in [forked, *others]}) == 4
    for c in others:
        c.delete()


def test_a_fork_tells_how_it_ended(warm, forked):
    assert forked.error("import os; os._exit(3)")["evalue"] == "exit status 3"
    c = Context(warm)
    assert c.error("import os; os.kill(os.getpid(), 9)")["evalue"] == "signal: killed"
    pid = int(c.value("import os; os.getpid()"))
    c.delete()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_fork_is_interrupted(forked):
    with forked.stream("print('begun', flush=True)\nwhile True: pass") as s:
        got = read_until(s, b"begun")
        assert forked.interrupt().status == 200
        assert b"KeyboardInterrupt" in read_until(s, b"\r\n0\r\n\r\n", got)
    assert forked.value("1") == "1"


def test_another_environment_is_no_fork(warm, forked):
    c = Context(warm, envs={"OTHER": "1"})
    assert c.value(LOADED) == "False" and c.value("import os; os.environ['OTHER']") == "'1'"
    c.delete()


def test_contexts_start_without_what_they_are_forked_from(warm, forked):
    parents = [int(p) for p in os.listdir("/proc") if p.isdigit() and is_waiting(int(p), warm.process.pid)]
    assert parents
    for pid in parents:
        os.kill(pid, 9)
    for _ in range(3):
        c = Context(warm)
        assert c.value("1 + 1") == "2"
        c.delete()


def is_waiting(pid, parent):
    """A python of ours whose working directory is the root: no context of these tests has that."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            ppid = int(f.read().rpartition(")")[2].split()[1])
        return ppid == parent and os.readlink(f"/proc/{pid}/cwd") == "/"
    except OSError:
        return False


def test_contexts_run_as_the_user_of_the_sandbox(guest):  # noqa: F811
    g = guest({"id": "ab12", "entrypoint": ["tail", "-f", "/dev/null"], "token": TOKEN, "uid": 65534, "gid": 65534, "cwd": "/tmp",
               "env": {"EXECD_CODE_WARM": "fractions", "HOME": "/tmp"}})
    execd = g.wait_ready()
    first = Context(execd)
    assert first.value("import os; os.getuid(), os.getgid(), os.getppid(), os.getcwd()") == "(65534, 65534, 1, '/tmp')"
    found = []
    wait_for(lambda: found.append(forks(execd)) or found[-1], 30)
    assert found[-1].value("import os; os.getuid(), os.getgid(), os.getppid(), os.getcwd()") == "(65534, 65534, 1, '/tmp')"
    assert found[-1].error("os._exit(6)")["evalue"] == "exit status 6"
    bash = Context(execd, "bash")
    assert bash.out("A=1; id -u; exit 0") == "65534\n"
    assert bash.out("echo ${A:-lost}") == "lost\n"
    bash.run("B=2")
    assert bash.error("exit 3")["evalue"] == "3" and bash.out("echo $B") == "2\n"


# ---- idle time ----


def test_an_idle_context_is_deleted_and_a_busy_one_is_not(tmp_path):
    for execd in serve(tmp_path, env={"EXECD_CODE_IDLE": "700ms", "EXECD_CODE_WARM": "off", "PATH": "/usr/bin:/bin"}):
        idle, busy = Context(execd), Context(execd)
        pid = int(idle.value("import os; os.getpid()"))
        assert busy.value("import time; time.sleep(1.5); 1") == "1"
        assert ids(execd) == [busy.id]
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
        wait_for(lambda: ids(execd) == [])
        assert execd.request("POST", "/code", json.dumps({"code": "1", "context": {"id": idle.id}})).status == 404
