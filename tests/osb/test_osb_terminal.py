# SPDX-License-Identifier: Apache-2.0
"""osb in a real terminal: tmux holds it, types, and reads what a person would see."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import types
import uuid

import pytest

import registry
from api import wait_for
from conftest import BIN, children_of, program_of
from liar import Liar, hang_up, reply
from osb_kit import Osb, standing
from registry import Image, Registry, tar_of
from test_image_pull import entry

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
]

SECONDS = 20


class Screen:
    """A terminal with a shell in it."""

    def __init__(self, folder, env, columns=100, rows=30):
        self.name = f"osb-{uuid.uuid4().hex[:8]}"
        self.env = {**env, "TERM": "xterm-256color", "TMUX_TMPDIR": str(folder), "PATH": f"{BIN}:{os.environ['PATH']}", "PS1": "$ ", "HISTFILE": ""}
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "bash", "--norc", "--noprofile")
        self.wait(r"^\$$")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.name, "-f", "/dev/null", *words], env=self.env, capture_output=True, text=True, timeout=SECONDS,
                              check=True).stdout

    def close(self):
        self.tmux("kill-server")

    def type(self, text, enter=True):
        self.tmux("send-keys", "-l", "--", text)
        if enter:
            self.key("Enter")

    def key(self, *names):
        self.tmux("send-keys", *names)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p", "-J").rstrip("\n").splitlines())

    def wait(self, pattern):
        """The first match of PATTERN in what is on the screen."""
        try:
            return wait_for(lambda: re.search(pattern, self.text, re.M), SECONDS)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{self.text}") from None

    def run(self, line, pattern):
        """A line for the shell, on a clean screen; waits until PATTERN is there."""
        self.type("clear")
        self.wait(r"\A\$\n*\Z")
        self.type(line)
        return self.wait(pattern)

    @property
    def osb(self):
        """The process that runs in front."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        return wait_for(lambda: [c for c in children_of(shell) if program_of(c) == "osb"], SECONDS)[0]

    def check_sane(self):
        """The terminal is as it was: what is typed is seen, lines are lines, and Ctrl-C interrupts."""
        self.run("stty -a | tr ';' '\\n' | grep -w -o -e '-\\?icanon' -e '-\\?echo' -e '-\\?isig' -e '-\\?opost' | sort | xargs", r"^echo icanon isig opost$")


@pytest.fixture(scope="module")
def osb(server, tmp_path_factory):
    return Osb(tmp_path_factory.mktemp("osb"), server)


@pytest.fixture
def sandbox(osb):
    with standing(osb) as sandbox:
        yield sandbox


@pytest.fixture
def screen(osb, tmp_path):
    s = Screen(tmp_path, osb.env)
    yield s
    s.close()


# ---- shell ----


@pytest.mark.smoke
def test_a_shell_is_a_real_terminal(screen, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    screen.type("stty size; tty; echo $TERM")
    screen.wait(r"^30 100\n/dev/pts/\d+\nxterm")
    screen.resize(91, 33)
    screen.type("stty size")
    screen.wait(r"^33 91$")
    screen.type("sleep 1000; echo status $?")
    screen.wait("sleep 1000")
    screen.key("C-c")
    screen.wait(r"\^C\n.*#$")  # the job, and not the shell
    screen.type("cat")
    screen.type("typed")
    screen.wait(r"^typed\ntyped$")
    screen.key("C-d")
    screen.type("exit 7")
    screen.wait(r"^exit\n\$$")
    screen.type("echo status=$?")
    screen.wait("^status=7$")
    screen.check_sane()


def test_programs_that_paint_the_screen_work(screen, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    screen.type("seq 200 | less")
    screen.wait(r"\A1\n2\n3\n")
    screen.key("G")
    screen.wait(r"^200$")
    screen.key("q")
    screen.type("exit")
    screen.wait(r"\$$")
    screen.check_sane()


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(screen, osb, sandbox, signo):
    screen.run(f"osb shell {sandbox}", r"#$")
    screen.type("printf '\\033[?1049h\\033[?25l'; sleep 1000")
    os.kill(screen.osb, signo)
    screen.wait(r"\$$")
    screen.run("echo status=$?", r"^status=\d+$")
    screen.check_sane()
    assert screen.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split() == ["0", "1"]
    wait_for(lambda: "sleep 1000" not in osb.text("shell", sandbox, "--", "ps", "-ef"))  # what ran in it does not stay


def test_stopped_and_continued_it_is_as_before(screen, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    os.kill(screen.osb, signal.SIGTSTP)
    screen.wait("Stopped")
    screen.check_sane()
    screen.type("fg")
    screen.wait("osb shell")
    screen.type("echo ba''ck")
    screen.wait("^back$")
    screen.type("exit")
    screen.wait(r"^exit\n\$$")
    screen.check_sane()


def test_a_sandbox_that_ends_gives_the_terminal_back(screen, osb, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    osb("rm", sandbox)
    screen.wait(r"\$$")
    screen.type("echo status=$?")
    screen.wait(r"^status=(125|137|143)$")
    screen.check_sane()


def test_keys_leave_a_shell(screen, osb, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    screen.type("~?", enter=False)
    screen.wait("leave it running")
    screen.key("Enter")
    screen.type("echo ~root")  # not at the beginning of a line
    screen.wait("^/root$")
    screen.type("~.", enter=False)
    screen.wait(r"\$$")
    screen.check_sane()


def test_a_shell_that_was_left_can_be_come_back_to(screen, sandbox):
    screen.run(f"osb shell {sandbox}", r"#$")
    screen.type("mark=here")
    screen.type("~d", enter=False)
    session = screen.wait(r"--session ([0-9a-f-]+)").group(1)
    screen.wait(r"\$$")
    screen.run(f"osb shell --session {session} {sandbox}", r"#$")
    screen.type("echo I am $mark")
    screen.wait("^I am here$")
    screen.type("exit")
    screen.wait(r"^exit\n\$$")


# ---- run ----


def test_run_with_a_terminal(screen, osb):
    screen.run("osb run -it host -- bash --norc", r"#$")
    screen.type("stty size; exit 3")
    screen.wait(r"^30 100$")
    screen.wait(r"\$$")
    screen.type("echo status=$?")
    screen.wait("^status=3$")
    screen.check_sane()
    assert osb.sandboxes() == []


def test_run_without_a_command_is_a_shell(screen, osb):
    screen.run("osb run host", r"#$")
    screen.type("tty; exit")
    screen.wait("^/dev/pts/")
    screen.wait(r"\$$")
    assert osb.sandboxes() == []


def test_ctrl_c_ends_a_run_and_its_sandbox(screen, osb):
    screen.run("osb run host -- sh -c 'echo sta''rted; sleep 1000'", "^started$")
    screen.key("C-c")
    screen.wait(r"^\^C(\n)?\$$")
    screen.type("echo status=$?")
    screen.wait("^status=130$")
    assert osb.sandboxes() == []


def test_lines_that_are_typed_reach_a_run(screen):
    screen.run("osb run host -- sh -c 'read a; echo got $a'", "osb run")
    screen.type("a line")
    screen.wait("^got a line$")


# ---- bars, top ----


def test_a_bar_says_how_far_it_is_and_goes(screen, osb, sandbox):
    osb("shell", sandbox, "--", "truncate", "-s", "4G", "/tmp/huge")
    screen.run(f"osb cp {sandbox}:/tmp/huge - >/dev/null", r"^huge  #+\.+ +\d+%  \d[\d.]* [KMG]iB of 4\.0 GiB  [\d.]+ [KMG]iB/s  \d+\w* left$")
    screen.key("C-c")
    screen.wait(r"Aborted!\n\$$")
    assert "huge  #" not in screen.text


def test_a_bar_fits_a_small_screen(screen, osb, sandbox):
    osb("shell", sandbox, "--", "truncate", "-s", "4G", "/tmp/huge")
    screen.resize(40, 10)
    screen.run(f"osb cp {sandbox}:/tmp/huge - >/dev/null", r"^huge +\d+%  ")
    assert len([line for line in screen.text.splitlines() if line.startswith("huge")]) == 1
    screen.key("C-c")
    screen.wait("Aborted!")


@pytest.fixture
def hub(tmp_path):
    if not registry.is_installed():
        pytest.skip("docker-registry is not installed")
    r = Registry(tmp_path / "hub")
    yield r
    r.stop()


def test_pulls_show_how_far_they_are(start_server, hub, tmp_path):
    hub.push("big", "1", Image([tar_of({"noise": os.urandom(200_000_000)})]))
    screen = Screen(tmp_path, Osb(tmp_path, start_server(entry(hub.host))).env)
    try:
        name = f"{hub.host}/big:1"
        screen.run(f"osb run {name} -- true", rf"^{name}  (#+\.+ +\d+%  [\d.]+ [KM]iB of 191 MiB  [\d.]+ MiB/s|unpacking)")
        screen.wait("Commands are run by a shell, and the image has none")
        screen.run("osb image ls", rf"^│ {name} +│ sha256:[0-9a-f]{{12}} │ \w+ │ 191 MiB │$")
        screen.run(f"osb image rm {name} >/dev/null; osb image pull {name}", rf"^{name}  #+\.+ +\d+%  [\d.]+ [KM]iB of 191 MiB  [\d.]+ MiB/s")
        screen.wait(rf"^  ✅ Pulled: {name}\n\$$")
    finally:
        screen.close()


def test_top_is_live_and_takes_keys(screen, osb, sandbox):
    screen.run("osb top -d 1", rf"\A1 sandbox, 1 running .* q quit  c cpu  m memory  a age\n\nID +STATE +CPU +MEMORY +AGE +IMAGE\n{sandbox}  Running .* host\n*\Z")
    screen.wait(rf"^{sandbox}  Running +[\d.]+%")
    second = osb.text("run", "-d", "host", "--", "tail", "-f", "/dev/null").strip()
    screen.wait(rf"^{second}  Running")
    screen.key("m")
    osb("rm", second)
    screen.wait(r"\A1 sandbox,")
    screen.resize(60, 8)
    screen.wait(rf"^{sandbox[:7]}")
    assert len(screen.text.splitlines()) <= 8
    screen.key("q")
    screen.wait(r"^\$ osb top -d 1\n\$$")
    screen.check_sane()


def test_ctrl_c_and_signals_end_top(screen, sandbox):
    for end in (lambda: screen.key("C-c"), lambda: os.kill(screen.osb, signal.SIGTERM)):
        screen.run("osb top", sandbox)
        end()
        screen.wait(r"^\$ osb top\n\$$")
        screen.check_sane()


NO_SANDBOXES = json.dumps({"items": [], "pagination": {"page": 1, "pageSize": 200, "totalItems": 0, "totalPages": 0, "hasNextPage": False}})


@pytest.mark.parametrize("answers", [0, 1])
def test_top_hears_keys_while_the_server_hangs(tmp_path, answers):
    over = threading.Event()

    def hook(h, path):
        if len(liar.requests) > answers:
            over.wait()
            hang_up(h)
        else:
            reply(h, 200, NO_SANDBOXES.encode(), "application/json")
        return True

    liar = Liar(hook=hook)
    screen = Screen(tmp_path, Osb(tmp_path, types.SimpleNamespace(host="127.0.0.1", port=liar.port)).env)
    try:
        screen.run("osb top -d 1", r"\A0 sandboxes, 0 running" if answers else "osb top")
        wait_for(lambda: len(liar.requests) > answers)
        began = time.monotonic()
        screen.key("q")
        screen.wait(r"^\$ osb top -d 1\n\$$")
        assert time.monotonic() - began < 5
        screen.check_sane()
    finally:
        over.set()
        screen.close()
        liar.stop()


def test_top_tells_of_a_server_that_is_not_there(tmp_path):
    screen = Screen(tmp_path, Osb(tmp_path, types.SimpleNamespace(host="127.0.0.1", port=1)).env)
    try:
        screen.run("osb top; echo status $?", r"^  Sandbox Error$[\s\S]*^status 1$")
        screen.check_sane()
    finally:
        screen.close()


# ---- completion ----


def test_words_are_completed(screen, sandbox):
    screen.run('eval "$(osb completion bash)"; echo rea""dy', r"^ready\n\$$")
    screen.type("osb snapsh\tres\t", enter=False)
    screen.wait(r"^\$ osb snapshot restore ?$")
    screen.key("C-u")
    screen.type("osb run --netw\t", enter=False)
    screen.wait(r"^\$ osb run --network-policy-file ?$")
    screen.key("C-u")
    screen.type(f"osb shell {sandbox[:6]}\t", enter=False)
    screen.wait(rf"^\$ osb shell {sandbox} ?$")
