# SPDX-License-Identifier: Apache-2.0
"""osb as a user starts it: a home of its own, and nothing of our environment."""
import json
import os
import pty
import select
import subprocess
import time

import yaml

from conftest import BIN, KEY, Running, assert_clean, clean_environment

PROGRAM = BIN / "osb"
SECONDS = 60


class Done:
    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    @property
    def json(self):
        return json.loads(self.stdout)

    @property
    def yaml(self):
        return yaml.safe_load(self.stdout)

    def __repr__(self):
        return f"<{self.status} {self.stdout!r} {self.stderr!r}>"


class Osb:
    """osb(*words) -> Done. SERVER may be None: then there is none to be reached."""

    def __init__(self, server, home):
        self.home = home
        self.env = {k: v for k, v in clean_environment(home).items() if not k.startswith("OPEN_SANDBOX_") and k not in ("COLUMNS", "NO_COLOR")}
        self.env["OPEN_SANDBOX_DOMAIN"] = f"{server.host}:{server.port}" if server else "127.0.0.1:1"
        self.env["OPEN_SANDBOX_API_KEY"] = KEY

    def full_env(self, env):
        return {k: v for k, v in {**self.env, **(env or {})}.items() if v is not None}

    def start(self, *words, env=None, **popen):
        return Running([PROGRAM, *map(str, words)], env=self.full_env(env), cwd=self.home,
                       **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen})

    def __call__(self, *words, env=None, stdin=b"", binary=False, timeout=SECONDS):
        done = subprocess.run([PROGRAM, *map(str, words)], env=self.full_env(env), input=stdin, timeout=timeout, capture_output=True,
                              check=False, cwd=self.home)
        stderr = done.stderr.decode()
        assert_clean(stderr)
        return Done(done.returncode, done.stdout if binary else done.stdout.decode(), stderr)

    def ok(self, *words, **more):
        done = self(*words, **more)
        assert done.status == 0, done
        return done

    def on_terminal(self, *words, env=None, seconds=SECONDS):
        """With a terminal for all three streams: status and all that was written to it."""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.execve(PROGRAM, [str(PROGRAM), *map(str, words)], self.full_env({"TERM": "xterm", **(env or {})}))
        text, deadline = b"", time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([fd], [], [], 0.1)[0]:
                try:
                    piece = os.read(fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(fd)
        return status, text.decode()
