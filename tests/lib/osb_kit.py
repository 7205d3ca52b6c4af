# SPDX-License-Identifier: Apache-2.0
"""osb as its users have it: a home of its own, pointed at a server by the environment."""
import contextlib
import json
import subprocess

from conftest import BIN, KEY, Running, assert_clean, clean_environment

OSB = BIN / "osb"
SECONDS = 60


class Osb:
    """osb(*words) -> its CompletedProcess, in bytes; it must end with STATUS and nothing from a sanitizer."""

    def __init__(self, folder, server=None, **env):
        self.folder = folder
        inherited = {k: v for k, v in clean_environment(folder).items() if not k.startswith("OPEN_SANDBOX_")}
        self.env = {**inherited, "TERM": "dumb", **env}
        if server:
            self.env.update(OPEN_SANDBOX_DOMAIN=f"{server.host}:{server.port}", OPEN_SANDBOX_API_KEY=KEY)

    def __call__(self, *words, stdin=b"", status=0, cwd=None, timeout=SECONDS, **env):
        done = subprocess.run([OSB, *map(str, words)], input=stdin, env={**self.env, **env}, cwd=cwd or self.folder, capture_output=True,
                              timeout=timeout, check=False)
        assert_clean(done.stderr.decode(errors="replace"))
        assert status is None or done.returncode == status, done
        return done

    def text(self, *words, **more):
        return self(*words, **more).stdout.decode()

    def json(self, *words, **more):
        return json.loads(self(*words, "-o", "json", **more).stdout)

    def start(self, *words, **popen):
        """A Popen; its streams are pipes unless POPEN says otherwise."""
        return Running([OSB, *map(str, words)], env=self.env, cwd=self.folder, bufsize=0,
                       **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen})

    def sandboxes(self):
        return [s["id"] for s in self.json("ps")["items"]]


@contextlib.contextmanager
def standing(osb):
    """A sandbox that does nothing by itself."""
    sandbox = osb.text("run", "-d", "host", "--", "tail", "-f", "/dev/null").strip()
    yield sandbox
    osb("rm", sandbox, status=None)
