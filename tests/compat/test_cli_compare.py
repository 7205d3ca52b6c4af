# SPDX-License-Identifier: Apache-2.0
"""One script, run with the published command line and with osb against the same server: the same exit codes, the same output
but for ids and times, and errors of the same class. What is meant to differ says so, with its reason, and must differ."""
import json
import os
import re
import runpy
import subprocess
import sys

import pytest

from conftest import BIN, KEY, ROOT, assert_clean

pytest.importorskip("opensandbox_cli", reason="needs the packages of tests/compat/requirements.txt")

import opensandbox.sync.manager  # noqa: E402, F401 (what takes long to load is loaded once, see run_published)
import opensandbox.sync.sandbox  # noqa: E402, F401
import rich.console  # noqa: E402, F401

SECONDS = 60
OWN_STATUS = "the status is the command's own, not 1"
OWN_ERRORS = "standard error is the command's alone: its failure is told by the status"
LINES = "lines keep their ends, where the published tool joins them"
LAYOUT = "help is laid out like a manual page"
NOTATION = "lists and maps in tables are JSON, not Python's notation"
PARSED = "what cannot be read is an error of the command, not a traceback"
TYPE = "each entry says what it is (entry_type), which the published client leaves out"
NO_HALF = "a file that could not be downloaded leaves nothing behind"
MISSING = "what is missing is '-' in every table, not None"


class Step:
    def __init__(self, *words, env=None, stdin="", save=None, **differs):
        self.words, self.env, self.stdin, self.save, self.differs = words, env or {}, stdin, save, differs

    def __repr__(self):
        return "osb " + " ".join(self.words)


BROKEN = {"HOME": "{tmp}/broken"}
OTHER = {"HOME": "{tmp}/other"}

SCRIPT = [
    # ---- the program itself ----
    Step("--version"),
    Step("-h", stdout=LAYOUT),
    Step(stdout="help nobody asked for goes to standard error"),
    Step("sandbox", stdout=LAYOUT),
    Step("command", "session", "--help", stdout=LAYOUT),
    Step("sandboxes"),
    Step("sandbox", "lst"),
    Step("--nonsense", "sandbox", "list"),
    Step("--protocol", "gopher", "sandbox", "list"),
    Step("--request-timeout", "soon", "sandbox", "list"),
    # ---- settings ----
    Step("config", "show", "-o", "json", env=OTHER),
    Step("config", "set", "connection.domain", "x:1", env=OTHER),
    Step("config", "init", env=OTHER),
    Step("config", "init", env=OTHER),
    Step("config", "init", "-o", "json", env=OTHER),
    Step("config", "init", "--force", "-o", "yaml", env=OTHER),
    Step("config", "set", "nodot", "1", env=OTHER),
    Step("config", "set", "connection.domain", "example.org:81", env=OTHER),
    Step("config", "set", "connection.api_key", "abcdefgh", "-o", "json", env=OTHER),
    Step("config", "set", "connection.request_timeout", "7", env=OTHER),
    Step("config", "set", "connection.use_server_proxy", "TRUE", env=OTHER),
    Step("config", "set", "defaults.image", "host", env=OTHER),
    Step("config", "set", "defaults.timeout", "90s", env=OTHER),
    Step("config", "show", "-o", "json", env={**OTHER, "OPEN_SANDBOX_DOMAIN": "", "OPEN_SANDBOX_API_KEY": ""}),
    Step("config", "show", "-o", "yaml", env=OTHER),
    Step("--domain", "flag:1", "--no-use-server-proxy", "config", "show", "-o", "json", env=OTHER),
    Step("config", "show", env=OTHER, stdout="true and false in tables are JSON's"),
    Step("config", "show", "-o", "raw"),
    Step("sandbox", "list", env=BROKEN, kind=PARSED),
    Step("config", "show", env=BROKEN, kind=PARSED),
    # ---- making sandboxes ----
    Step("sandbox", "create"),
    Step("sandbox", "create", "-i", "host", "-t", "soon"),
    Step("sandbox", "create", "-i", "host", "-e", "NOSIGN"),
    Step("sandbox", "create", "-i", "host", "--image-auth-username", "me"),
    Step("sandbox", "create", "-i", "host", "--network-policy-file", "{tmp}/nothing.json"),
    Step("sandbox", "create", "-i", "host", "--volumes-file", "{tmp}/object.json"),
    Step("sandbox", "create", "-i", "no/such:image", "-o", "json"),
    Step("sandbox", "create", "-i", "host", "-o", "json", "-m", "tool={tool}", "-e", "A=b=c", "--resource", "cpu=1", "--resource",
         "memory=256Mi", save=("id", "id")),
    Step("sandbox", "create", "--image", "host", "-t", "none", "--skip-health-check", "-o", "yaml", "-m", "tool={tool}"),
    Step("--no-color", "sandbox", "create", "-i", "host", "-t", "1h30m", "--entrypoint", "sleep", "--entrypoint", "600", "-m",
         "tool={tool}", "--ready-timeout", "20s"),
    Step("sandbox", "create", "-t", "25h", "-m", "tool={tool}", env={"HOME": "{tmp}/other"}),
    # ---- looking at them ----
    Step("sandbox", "list", "-m", "tool={tool}", "-s", "RUNNING", "-o", "json"),
    Step("sandbox", "list", "-m", "tool={tool}", "-o", "YAML", "--page", "2", "--page-size", "2"),
    Step("sandbox", "list", "-m", "tool={tool}", stdout=MISSING),
    Step("--no-color", "sandbox", "list", "-m", "tool=nobody"),
    Step("sandbox", "list", "-m", "tool=nobody", "-o", "json"),
    Step("sandbox", "list", "-s", "Sleeping"),
    Step("sandbox", "list", "-m", "nosign"),
    Step("sandbox", "list", "--page", "0"),
    Step("sandbox", "list", "-o", "raw"),
    Step("sandbox", "get", "{id}", "-o", "json"),
    Step("sandbox", "get", "{id}", "-o", "yaml"),
    Step("sandbox", "get", "{id}", stdout=NOTATION),
    Step("sandbox", "create", "-i", "host", "-o", "json", save=("bare", "id")),
    Step("sandbox", "get", "{bare}", "-o", "json"),
    Step("sandbox", "kill", "{bare}", "-o", "json"),
    Step("sandbox", "get", "nobody"),
    Step("--no-color", "sandbox", "get", "nobody", "-o", "json"),
    Step("sandbox", "get"),
    Step("--api-key", "wrong", "sandbox", "list", "-o", "json"),
    Step("--domain", "127.0.0.1:1", "sandbox", "list"),
    Step("sandbox", "health", "{id}"),
    Step("sandbox", "health", "{id}", "-o", "json"),
    Step("sandbox", "endpoint", "{id}", "-p", "8080", "-o", "json"),
    Step("--use-server-proxy", "sandbox", "endpoint", "{id}", "--port", "80"),
    Step("sandbox", "endpoint", "{id}", "--port", "70000"),
    Step("sandbox", "endpoint", "{id}"),
    Step("sandbox", "metrics", "{id}", "-o", "json"),
    Step("sandbox", "renew", "{id}", "-t", "30m", "-o", "json"),
    Step("--no-color", "sandbox", "renew", "{id}", "-t", "1800"),
    Step("sandbox", "renew", "{id}", "-t", "1d"),
    Step("sandbox", "pause", "{id}"),
    Step("sandbox", "pause", "{id}"),
    Step("sandbox", "resume", "{id}", "--resume-timeout", "20s", "-o", "json"),
    # ---- commands ----
    Step("command", "run", "{id}", "--", "echo", "hello", "it's"),
    Step("command", "run", "{id}", "echo", "-w", "/tmp", "hello", "-o", "raw"),
    Step("command", "run", "{id}", "--", "sh", "-c", "echo one; echo; echo two", stdout=LINES),
    Step("command", "run", "{id}", "--", "sh", "-c", "echo out; echo err >&2; exit 7", status=OWN_STATUS, kind=OWN_ERRORS),
    Step("command", "run", "{id}", "-w", "/nowhere", "--", "true"),
    Step("command", "run", "{id}", "-o", "json", "--", "true"),
    Step("command", "run", "{id}"),
    Step("command", "run", "{id}", "-t", "soon", "--", "true"),
    Step("command", "run", "{id}", "-d", "-o", "raw", "--", "true"),
    Step("command", "run", "{id}", "-d", "-o", "json", "--", "sh", "-c", "echo in the back; sleep 300", save=("exec", "execution_id")),
    Step("command", "status", "{id}", "{exec}", "-o", "json"),
    Step("command", "status", "{id}", "nobody"),
    Step("command", "logs", "{id}", "{exec}", "-o", "raw"),
    Step("command", "logs", "{id}", "{exec}", "-o", "json"),
    Step("--no-color", "command", "logs", "{id}", "{exec}", "--cursor", "0"),
    Step("command", "interrupt", "{id}", "{exec}"),
    Step("command", "session", "create", "{id}", "-w", "/tmp", "-o", "json", save=("session", "session_id")),
    Step("command", "session", "run", "{id}", "{session}", "--", "export", "KEPT=yes"),
    Step("command", "session", "run", "{id}", "{session}", "--", "pwd"),
    Step("command", "session", "run", "{id}", "{session}", "-o", "json", "--", "true"),
    Step("command", "session", "run", "{id}", "{session}", "--", "sh", "-c", "exit 3", status=OWN_STATUS, kind=OWN_ERRORS),
    Step("command", "session", "delete", "{id}", "{session}"),
    Step("command", "session", "run", "{id}", "{session}", "--", "true"),
    # ---- files ----
    Step("file", "write", "{id}", "/tmp/a.txt", "-c", "hello\nthere\n"),
    Step("file", "write", "{id}", "/tmp/b.txt", "--mode", "0640", "-o", "json", stdin="from a pipe é\n"),
    Step("file", "write", "{id}", "/tmp/c.txt", "-c", "x", "--mode", "rwx"),
    Step("file", "cat", "{id}", "/tmp/a.txt"),
    Step("file", "cat", "{id}", "/tmp/b.txt", "-o", "RAW"),
    Step("file", "cat", "{id}", "/tmp/b.txt", "-o", "json"),
    Step("file", "cat", "{id}", "/tmp/nothing"),
    Step("file", "upload", "{id}", "{tmp}/local.bin", "/tmp/up.bin"),
    Step("file", "upload", "{id}", "{tmp}/nothing", "/tmp/up.bin"),
    Step("file", "download", "{id}", "/tmp/up.bin", "{tmp}/new/folder/down.bin", "-o", "yaml"),
    Step("file", "download", "{id}", "/tmp/nothing", "{tmp}/half.bin"),
    Step("file", "info", "{id}", "/tmp/a.txt", "-o", "json", stdout=TYPE),
    Step("file", "info", "{id}", "/tmp/a.txt", "/tmp"),
    Step("file", "info", "{id}", "/tmp/nothing"),
    Step("file", "search", "{id}", "/tmp", "-p", "*.txt", "-o", "yaml", stdout=TYPE),
    Step("file", "search", "{id}", "/tmp", "-p", "a.*"),
    Step("file", "search", "{id}", "/tmp", "--pattern", "nothing*"),
    Step("file", "search", "{id}", "/tmp", "--pattern", "nothing*", "-o", "json"),
    Step("file", "search", "{id}", "/tmp"),
    Step("file", "chmod", "{id}", "/tmp/a.txt", "--mode", "600"),
    Step("file", "chmod", "{id}", "/tmp/a.txt"),
    Step("file", "replace", "{id}", "/tmp/a.txt", "--old", "there", "--new", "world"),
    Step("file", "cat", "{id}", "/tmp/a.txt"),
    Step("file", "mv", "{id}", "/tmp/a.txt", "/tmp/moved.txt", "-o", "json"),
    Step("file", "mv", "{id}", "/tmp/a.txt", "/tmp/moved.txt"),
    Step("file", "mkdir", "{id}", "/tmp/d1", "/tmp/d2/d3", "--mode", "700", "-o", "json"),
    Step("file", "rmdir", "{id}", "/tmp/d1", "/tmp/d2"),
    Step("file", "rm", "{id}", "/tmp/moved.txt", "/tmp/b.txt", "-o", "yaml"),
    Step("file", "rm", "{id}"),
    # ---- the network, diagnostics ----
    Step("egress", "get", "{id}", "-o", "json"),
    Step("egress", "patch", "{id}", "--rule", "allow=packages.example.org"),
    Step("egress", "patch", "{id}", "--rule", "packages.example.org"),
    Step("egress", "patch", "{id}", "--rule", "drop=packages.example.org"),
    Step("egress", "patch", "{id}"),
    Step("diagnostics", "logs", "{id}", "-s", "container"),
    Step("diagnostics", "events", "{id}", "--scope", "runtime", "-o", "json"),
    Step("diagnostics", "logs", "{id}"),
    Step("diagnostics", "logs", "nobody", "-s", "all"),
    Step("devops", "inspect", "nobody"),
    Step("devops", "logs", "{id}", "-n", "5"),
    Step("devops", "events", "{id}", "-o", "json"),
    # ---- their end ----
    Step("sandbox", "kill", "{id}", "nobody"),
    Step("sandbox", "kill", "{id}"),
    Step("sandbox", "kill"),
]

TIMES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32,64}\b"), "<id>"),
    (re.compile(r'("(?:cpu_used_percentage|memory_used_in_mib|timestamp|cursor)": )[\d.]+'), r"\1<number>"),
    (re.compile(r"version \d+\.\d+\.\d+"), "version <version>"),
]


def cells(line):
    """A line of a table is its cells: how wide they are is not compared."""
    if line.startswith(("╭", "├", "╰")):
        return None
    if line.startswith("│"):
        return " | ".join(cell.strip() for cell in line.strip("│").split("│"))
    return line.strip() if line.startswith("  ") and not line.startswith("   ") else line.rstrip()


def error_kind(stderr):
    """What sort of an error it is: a usage error, a panel with its title, a message, or none."""
    panel = re.search(r"^  ([A-Z]\w*(?: \w+)*)\n  ─+$", stderr, re.M) or re.search(r"^ERROR \[(.+?)\]", stderr, re.M)
    if "Usage: " in stderr and "Error: " in stderr:
        return "usage"
    if panel:
        return panel[1]
    if re.search(r"^Error: ", stderr, re.M):
        return "message"
    return "traceback" if "Traceback" in stderr else "none"


def play_published(words, env, files, folder):
    """In a child: the published tool as `python -m opensandbox_cli` runs it."""
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, mode, encoding="utf-8") for n, mode in enumerate("rww"))
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["osb", *words]
        for name in [name for name in sys.modules if name.startswith("opensandbox_cli")]:
            del sys.modules[name]  # it looks at HOME when it is loaded
        runpy.run_module("opensandbox_cli", run_name="__main__")
        status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run_published(words, env, stdin, folder):
    """Starting Python and loading the client takes a second each time: a copy of this process has done that already."""
    names = [folder / name for name in ("stdin", "stdout", "stderr")]
    names[0].write_bytes(stdin)
    files = [open(name, mode) for name, mode in zip(names, ("rb", "wb", "wb"))]
    pid = os.fork()
    if pid == 0:
        play_published(words, env, files, folder)
    for file in files:
        file.close()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, names[1].read_text(), names[2].read_text()


def run_ours(words, env, stdin, folder):
    done = subprocess.run([BIN / "osb", *words], env=env, input=stdin, timeout=SECONDS, capture_output=True, check=False, cwd=folder)
    assert_clean(done.stderr.decode())
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Tool:
    """One of the two, with a home of its own and what it has learnt so far."""

    def __init__(self, name, play, server, folder):
        self.name, self.play, self.known = name, play, {"tmp": str(folder), "tool": name}
        for home in ("home", "other", "broken/.opensandbox"):
            (folder / home).mkdir(parents=True)
        (folder / "broken/.opensandbox/config.toml").write_text("[connection\n")
        (folder / "object.json").write_text("{}")
        (folder / "local.bin").write_bytes(bytes(range(256)) * 300)
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OPEN_SANDBOX_", "OPENSANDBOX_"))}
        self.env |= {"HOME": str(folder / "home"), "COLUMNS": "1000", "OPEN_SANDBOX_DOMAIN": f"{server.host}:{server.port}",
                     "OPEN_SANDBOX_API_KEY": KEY, "PYTHONIOENCODING": "utf-8"}

    def fill(self, text):
        for name, value in self.known.items():
            text = text.replace("{" + name + "}", value)
        return text

    def normal(self, text):
        for name in ("id", "bare", "exec", "session", "tmp"):
            if name in self.known:
                text = text.replace(self.known[name], f"<{name}>")
        for pattern, stand_in in TIMES:
            text = pattern.sub(stand_in, text)
        text = text.replace(f"tool: {self.name}", "tool: <tool>").replace(f'"tool": "{self.name}"', '"tool": "<tool>"')
        return "\n".join(line for line in map(cells, text.splitlines()) if line is not None)

    def run(self, step):
        env = {**self.env, **{k: self.fill(v) for k, v in step.env.items()}}
        status, stdout, stderr = self.play([*map(self.fill, step.words)], env, step.stdin.encode(), self.folder)
        if step.save and status == 0:
            self.known[step.save[0]] = json.loads(stdout)[step.save[1]]
        return {"status": status, "stdout": self.normal(stdout), "kind": error_kind(stderr)}, stderr


@pytest.fixture(scope="module")
def tools(server, tmp_path_factory):
    return [Tool("published", run_published, server, tmp_path_factory.mktemp("published")),
            Tool("ours", run_ours, server, tmp_path_factory.mktemp("ours"))]


def test_the_same_script_gives_the_same_results(tools, api):
    assert len(SCRIPT) >= 60
    wrong = []
    for step in SCRIPT:
        (theirs, their_stderr), (ours, our_stderr) = (tool.run(step) for tool in tools)
        for what in ("status", "stdout", "kind"):
            if (theirs[what] == ours[what]) == (what in step.differs):
                wrong.append(f"{step}: {what}{' is meant to differ' if what in step.differs else ''}\n"
                             f"  published: {theirs[what]!r}\n  ours:      {ours[what]!r}\n  {their_stderr[-300:]!r}\n  {our_stderr[-300:]!r}")
    assert not wrong, "\n".join(wrong)


def test_what_the_script_left_behind_is_the_same_but_for_half_a_file(tools):
    theirs, ours = (tool.folder for tool in tools)
    for folder in (theirs, ours):
        assert (folder / "new/folder/down.bin").read_bytes() == (folder / "local.bin").read_bytes()
    assert (theirs / "half.bin").exists() and not (ours / "half.bin").exists(), NO_HALF


def test_every_difference_is_told(tools):
    """docs/osb.md has a table of them."""
    text = " ".join((ROOT / "docs/osb.md").read_text().split())
    reasons = {reason for step in SCRIPT for reason in step.differs.values()} | {NO_HALF}
    assert not [reason for reason in reasons if reason not in text]
