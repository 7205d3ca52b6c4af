# SPDX-License-Identifier: Apache-2.0
"""osb against a server that lies, and with streams that are not there."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from api import wait_for
from osb import PROGRAM, Osb

ESCAPE = "\x1b]0;owned\x07\x1b[2J"


class Liar:
    """answers[(method, path without its query)] = (status, headers, bytes), or a callable that gets the handler."""

    def __init__(self):
        self.answers = {}
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = liar.answers.get((self.command, self.path.partition("?")[0]), (404, {}, b"{}"))
                if callable(found):
                    found(self)
                    return
                status, headers, body = found
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.host, self.port = self.http.server_address
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def says(self, path, answer, status=200, method="GET", **headers):
        self.answers[method, path] = (status, headers, answer if isinstance(answer, bytes) else json.dumps(answer).encode())


@pytest.fixture
def liar():
    s = Liar()
    yield s
    s.http.shutdown()
    s.http.server_close()


@pytest.fixture
def osb(liar, tmp_path):
    return Osb(liar, tmp_path)


def sandbox(sandbox_id, **more):
    return {"id": sandbox_id, "status": {"state": "Running"}, "createdAt": "2026-01-01T00:00:00Z", "entrypoint": ["x"], **more}


def listing(*ids):
    return {"items": [sandbox(i) for i in ids],
            "pagination": {"page": 1, "pageSize": 200, "totalItems": len(ids), "totalPages": 1, "hasNextPage": False}}


# ---- what a server says ----


def test_a_shell_is_offered_no_id_that_it_could_run(liar, osb, tmp_path):
    liar.says("/v1/sandboxes", listing("good-1", f"$(touch {tmp_path}/ran)", "`id`", "a b", "x\ny", "-rf", ESCAPE, ""))
    assert osb.ok("completion", "sandboxes").stdout.split("\n") == ["good-1", ""]
    script = 'eval "$(osb completion bash)"; COMP_WORDS=(osb rm ""); COMP_CWORD=2; _osb; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], env=osb.full_env({"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}), capture_output=True,
                          text=True, check=True, timeout=60)
    assert done.stdout.split() == ["good-1"]
    assert not (tmp_path / "ran").exists()


def test_no_error_writes_to_the_terminal_what_a_server_made_up(liar, osb):
    liar.says("/v1/sandboxes/x", {"code": ESCAPE, "message": ESCAPE}, status=400, **{"X-Request-ID": "\x1b[2J"})
    for words in (["sandbox", "get", "x"], ["-v", "sandbox", "get", "x"], ["--no-color", "-v", "sandbox", "get", "x"]):
        done = osb(*words)
        assert done.status == 1 and done.stderr
        assert "\x1b" not in done.stderr and "\x07" not in done.stderr, done


def test_no_log_of_a_command_gives_the_terminal_orders(liar, osb):
    liar.says("/v1/sandboxes/x", sandbox("x"))
    for port in (44772, 18080):
        liar.says(f"/v1/sandboxes/x/endpoints/{port}", {"endpoint": f"{liar.host}:{liar.port}/in"})
    liar.says("/in/command/c1/logs", ("one\ttwo\n" + ESCAPE + '"\\').encode() + b"\xff\n")
    shown = '\\u001b]0;owned\\u0007\\u001b[2J"\\\\xff\n'
    assert osb.ok("--no-color", "command", "logs", "x", "c1").stdout == f"--- Command Logs ---\none\ttwo\n{shown}\n"
    assert "\x1b" not in osb.ok("command", "logs", "x", "c1").stdout


def test_no_word_of_the_command_line_reaches_the_terminal_as_an_order(osb):
    for words in (["cp", "a/" + ESCAPE, "b/c"], ["file", "upload", "x", ESCAPE, "/y"], ["config", "set", "a" + ESCAPE, "b"], [ESCAPE]):
        done = osb(*words)
        assert done.status in (1, 2) and "\x1b" not in done.stderr + done.stdout, done


# ---- streams ----


LOGS = "/v1/sandboxes/x/diagnostics/logs"


def run_shell(osb, line, timeout=30):
    return subprocess.run(["bash", "-c", f'exec "$0" {line}', PROGRAM], env=osb.full_env(None), cwd=osb.home, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, check=False)


@pytest.mark.parametrize("line", ["sandbox list", "sandbox list -o json", "completion sandboxes", "completion bash", "--help", "--version",
                                  "config show", "top --once", "logs x", "man run"])
def test_output_that_cannot_be_written_is_a_failure(liar, osb, line):
    liar.says("/v1/sandboxes", listing("a"))
    liar.says("/v1/sandboxes/a", sandbox("a"))
    liar.says(LOGS, b"2026-01-01T00:00:00Z hello\n")
    for out in (">/dev/full", ">&-"):
        done = run_shell(osb, f"{line} {out}")
        assert done.returncode == 1 and "standard output" in done.stderr, (out, done)


def test_who_follows_a_log_ends_with_its_reader(liar, osb):
    count = [0]

    def log(handler):
        count[0] += 1
        body = f"2026-01-01T00:00:{count[0] % 60:02}Z line {count[0]}\n".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    liar.answers["GET", LOGS] = log
    liar.says("/v1/sandboxes/x", sandbox("x"))
    done = run_shell(osb, "logs -f x >/dev/full")
    assert done.returncode == 1 and "standard output" in done.stderr
    p = osb.start("logs", "-f", "x")
    assert p.stdout.readline() == b"line %d\n" % count[0]
    p.stdout.close()
    assert p.wait(30) == 1
    p.stderr.close()


def test_closed_streams_are_not_taken_for_connections(liar, osb):
    seen, more = [], []

    def take(handler):
        seen.append(handler.requestline)
        handler.send_response(200)
        body = json.dumps(listing("a")).encode()
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        more.append(handler.rfile.read())  # to the end of the connection
        handler.close_connection = True

    liar.answers["GET", "/v1/sandboxes"] = take
    for closed in ("<&-", "<&- >&-", "<&- >&- 2>&-", ">&- 2>&-", "2>&-"):
        seen.clear()
        more.clear()
        done = run_shell(osb, f"sandbox list {closed}")
        assert done.returncode == (1 if " >&-" in " " + closed else 0), (closed, done)
        assert len(seen) == 1 and seen[0].startswith("GET /v1/sandboxes"), (closed, seen)
        wait_for(lambda: more)
        assert more == [b""], closed
    done = run_shell(osb, "code run x - <&-")
    assert done.returncode == 1 and "standard input" in done.stderr


# ---- signals ----


def be_sandbox(liar):
    """The server is the sandbox 'x' as well."""
    liar.says("/v1/sandboxes/x", sandbox("x"))
    for port in (44772, 18080):
        liar.says(f"/v1/sandboxes/x/endpoints/{port}", {"endpoint": f"{liar.host}:{liar.port}", "headers": {}})


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_download_that_is_ended_leaves_nothing(liar, osb, tmp_path, signo):
    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        try:
            for _ in range(600):
                handler.wfile.write(b"x" * 10)
                time.sleep(.1)
        except OSError:
            pass
        handler.close_connection = True

    folder = tmp_path / "here"
    folder.mkdir()
    be_sandbox(liar)
    liar.answers["GET", "/files/download"] = trickle
    p = osb.start("file", "download", "x", "/f", folder / "f")
    wait_for(lambda: any(f.stat().st_size for f in folder.iterdir()))
    p.send_signal(signo)
    assert p.wait(30) == 1
    p.communicate()
    assert list(folder.iterdir()) == []


def test_an_end_is_not_waited_for(liar, osb, tmp_path):
    """Not even by an upload that reads from a pipe which nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    be_sandbox(liar)
    liar.answers["POST", "/files/upload"] = lambda handler: time.sleep(20)
    p = osb.start("file", "upload", "x", tmp_path / "pipe", "/f")
    fd = os.open(tmp_path / "pipe", os.O_WRONLY)
    time.sleep(1)
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)
    assert p.wait(15) != 0
    p.communicate()
    os.close(fd)
