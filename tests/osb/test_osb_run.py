# SPDX-License-Identifier: Apache-2.0
"""osb run: a sandbox for one command."""
import hashlib
import http.server
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from api import wait_for
from conftest import assert_clean
from osb_kit import OSB, Osb

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def osb(server, tmp_path):
    osb = Osb(tmp_path, server)
    yield osb
    for sandbox in osb.sandboxes():
        osb("rm", sandbox)


@pytest.mark.smoke
def test_the_output_is_the_commands_and_nothing_is_left(osb):
    done = osb("run", "host", "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert osb.sandboxes() == []


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_the_status_is_the_commands(osb, script, status):
    osb("run", "host", "--", "sh", "-c", script, status=status)


def test_a_command_that_does_not_exist_is_127(osb):
    assert b"no-such-program" in osb("run", "host", "--", "no-such-program", status=127).stderr


def test_words_reach_the_command_as_they_are(osb):
    words = ["a b", "", "$HOME", "it's", '"', "*", "-x", "--", "\\", "new\nline", "ü"]
    script = "import sys,json; print(json.dumps(sys.argv[1:]))"
    assert json.loads(osb.text("run", "host", "--", "python3", "-c", script, *words)) == words


def test_options_end_at_the_image(osb):
    assert osb.text("run", "host", "echo", "-n", "x") == "x"
    assert osb.text("run", "-e", "A=b", "host", "printenv", "A") == "b\n"


def test_output_without_a_line_end_and_with_any_byte_is_exact(osb):
    assert osb("run", "host", "--", "printf", "no end").stdout == b"no end"
    everything = bytes(range(256)) * 400
    assert osb("run", "host", "--", "cat", stdin=everything).stdout == everything


def test_much_goes_through_both_ways(osb):
    data = os.urandom(24 * 1024 * 1024)
    done = osb("run", "host", "--", "cat", stdin=data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_the_end_of_the_input_is_told(osb):
    assert osb.text("run", "host", "--", "wc", "-c", stdin=b"12345") == "5\n"
    assert osb.text("run", "-n", "host", "--", "wc", "-c", stdin=b"12345") == "0\n"


def test_a_command_that_reads_nothing_ends_all_the_same(osb):
    running = osb.start("run", "host", "--", "true")  # its input stays open
    assert running.wait(30) == 0
    running.communicate()


def test_the_environment_and_the_folder_are_set(osb):
    script = "echo $A $B; pwd"
    assert osb.text("run", "-e", "A=1", "-e", "B=x=y", "-w", "/tmp/made/here", "host", "--", "sh", "-c", script) == "1 x=y\n/tmp/made/here\n"


def test_limits_are_those_that_were_asked_for(osb):
    text = osb.text("run", "--resource", "memory=96Mi", "--resource", "cpu=1", "host", "--", "python3", "-c",
                    "a = bytearray(300 << 20)", status=137)
    assert text == ""


def test_metadata_and_a_name_are_noted(osb):
    osb("run", "--keep", "--name", "probe", "-m", "team=x", "host", "--", "true")
    (item,) = osb.json("ps", "-m", "name=probe")["items"]
    assert item["metadata"] == {"name": "probe", "team": "x"}


def test_keep_leaves_it_and_says_so(osb):
    done = osb("run", "--keep", "host", "--", "sh", "-c", "echo kept > /tmp/f; exit 3", status=3)
    (sandbox,) = osb.sandboxes()
    assert f"kept {sandbox}".encode() in done.stderr
    assert osb.text("shell", sandbox, "--", "cat", "/tmp/f") == "kept\n"
    assert osb("run", "--keep", "-q", "host", "--", "true").stderr == b""


def test_detached_it_prints_the_id_and_its_output_is_the_log(osb):
    sandbox = osb.text("run", "-d", "host", "--", "sh", "-c", "echo one; echo two; sleep 60").strip()
    assert osb.sandboxes() == [sandbox]
    wait_for(lambda: osb.text("logs", sandbox) == "one\ntwo\n")


def test_it_ends_after_its_timeout(osb):
    before = time.monotonic()
    done = osb("run", "--timeout", "1s", "host", "--", "sleep", "60", status=124)
    assert time.monotonic() - before < 20 and b"longer than 1s" in done.stderr
    assert osb.sandboxes() == []


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_and_deletes_the_sandbox(osb, signo):
    running = osb.start("run", "host", "--", "sh", "-c", "echo started; sleep 60")
    assert running.stdout.read(8) == b"started\n"
    running.send_signal(signo)
    assert running.wait(30) == 128 + signo
    assert_clean(running.communicate()[1].decode())
    assert osb.sandboxes() == []


def test_a_signal_while_it_is_being_made_leaves_nothing(osb):
    for delay in (0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08):
        running = osb.start("run", "host", "--", "sleep", "60")
        time.sleep(delay)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) in (143, -signal.SIGTERM)
        assert_clean(running.communicate()[1].decode())
    wait_for(lambda: osb.sandboxes() == [])


def test_a_signal_before_anything_is_made_ends_it_like_every_program(osb, tmp_path):
    os.mkfifo(tmp_path / "policy")
    running = osb.start("run", "--network-policy-file", tmp_path / "policy", "host", "--", "true")
    with open(tmp_path / "policy", "wb"):  # it is there, and reads
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == -signal.SIGTERM
    running.communicate()
    assert osb.sandboxes() == []


def test_killed_it_leaves_a_sandbox_that_ends_by_itself(osb):
    running = osb.start("run", "host", "--", "sh", "-c", "echo started; sleep 60")
    assert running.stdout.read(8) == b"started\n"
    running.kill()
    running.communicate()
    (item,) = osb.json("ps")["items"]
    assert item["expires_at"] is not None


def test_a_reader_that_goes_away_ends_it(osb):
    with osb.start("run", "host", "--", "yes") as running:
        running.stdout.read(10)
        running.stdout.close()
        assert running.wait(30) == 128 + signal.SIGPIPE
    assert osb.sandboxes() == []


def test_a_slow_reader_slows_the_command(osb):
    with osb.start("run", "host", "--", "sh", "-c", "seq 1000000; echo done >&2") as running:
        first = running.stdout.read(7)
        time.sleep(1)
        rest, err = running.communicate(timeout=60)
    assert err == b"done\n" and (first + rest) == b"".join(b"%d\n" % i for i in range(1, 1000001))


def test_volumes_are_shown_where_asked(osb):
    osb("run", "-v", "run-data:/data", "host", "--", "sh", "-c", "echo hello > /data/f")
    assert osb.text("run", "-v", "run-data:/d:ro", "host", "--", "cat", "/d/f") == "hello\n"
    osb("run", "-v", "run-data:/d:ro", "host", "--", "touch", "/d/g", status=1)
    osb("volume", "rm", "run-data")


@pytest.mark.parametrize("words", [["-v", "x", "host", "true"], ["-v", "x:relative", "host", "true"], ["-v", "x:/y:zz", "host", "true"],
                                   ["--timeout", "soon", "host", "true"], ["-e", "NOVALUE", "host", "true"], ["--nonsense", "host"], [], ["host"],
                                   ["--image-auth-username", "u", "host", "true"]])
def test_wrong_words_are_told_as_such(osb, words):
    done = osb("run", *words, status=2)
    assert b"Error: " in done.stderr and b"Usage: osb run" in done.stderr and done.stdout == b""


def test_no_such_image_is_a_failure_of_osb_and_not_of_the_command(osb):
    done = osb("run", "no.such.host.invalid/image", "--", "true", status=125)
    assert b"no.such.host.invalid" in done.stderr and osb.sandboxes() == []


def test_without_a_server_it_says_what_to_do(tmp_path):
    done = Osb(tmp_path, OPEN_SANDBOX_DOMAIN="127.0.0.1:1")("run", "host", "--", "true", status=125)
    assert b"osb up" in done.stderr


class Deaf(http.server.BaseHTTPRequestHandler):
    """A server that tells where a sandbox is, and a sandbox that takes every request and never answers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = json.dumps({"endpoint": f"127.0.0.1:{self.server.server_port}/inside"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.asked.set()
        self.server.over.wait(60)
        self.close_connection = True

    def log_message(self, *_):
        pass


def test_a_sandbox_that_does_not_answer_makes_nobody_deaf(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    server.asked, server.over = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    running = Osb(tmp_path, OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{server.server_port}").start("shell", "box", "--", "true")
    assert server.asked.wait(20)
    running.send_signal(signal.SIGTERM)
    assert running.wait(10) == 143
    assert_clean(running.communicate()[1].decode())
    server.over.set()
    server.shutdown()
    server.server_close()


def test_a_terminal_is_not_made_of_a_pipe(osb):
    assert b"no terminal" in osb("run", "-t", "host", "--", "true", status=1).stderr
    assert osb.sandboxes() == []


def test_commands_run_one_after_the_other_without_being_held_up(osb):
    """The input of a loop's own stays its own."""
    script = f"{OSB} run -n host -- true; cat"
    done = subprocess.run(["sh", "-c", script], input=b"for cat", env=osb.env, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"for cat"
