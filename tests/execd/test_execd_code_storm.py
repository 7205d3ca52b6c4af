# SPDX-License-Identifier: Apache-2.0
"""Everything that clients can do to contexts, at once and in any order: nobody hangs, nothing breaks, nothing stays. A minute of it in
`make soak`."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import time

import pytest

from test_execd import EXECD, HEADER, TOKEN, Connection, serve, wait_for
from test_execd_code import ids

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
SECONDS = 60 if os.environ.get("SOAK") else 8
CLIENTS = 6
CODES = {
    "python": ["1 + 1", "print('x' * 200_000)", "import os; os._exit(3)", "import time; time.sleep(0.2)", "while True: pass",
               "for i in range(2000): print(i)", "import os; os.write(250, b'garbage')", "import os; os.close(250)", "display('x' * 1_000_000)",
               "import subprocess; subprocess.Popen(['sleep', '1000'])", "raise ValueError", "import os; os.fork()", "import os; os.kill(os.getpid(), 9)"],
    "bash": ["echo hi", "exit 3", "sleep 0.2", "while :; do :; done", "yes | head -c 300000", "kill -9 $$", "sleep 1000 &"],
}


class Client:
    def __init__(self, execd, seed, until):
        self.execd, self.random, self.until = execd, random.Random(seed), until

    def call(self, method, path, body=None, leaves=False):
        """None when the client left, or was cut off: only then is an answer incomplete."""
        connection = Connection(self.execd.path, 60)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body else None, {HEADER: TOKEN})
            if leaves:
                connection.sock.settimeout(0.1)
                with contextlib.suppress(OSError):
                    connection.sock.recv(self.random.choice([1, 5000]))
                return None
            response = connection.getresponse()
            with contextlib.suppress(http.client.IncompleteRead):
                return response.status, response.read()
        return None

    def code(self, language, context_id=None):
        return {"code": self.random.choice(CODES[language]), "context": {"language": language, "id": context_id}}

    def turn(self):
        found = json.loads(self.call("GET", "/code/contexts")[1])
        what = self.random.choice(["run", "run", "run", "leave", "default", "create", "delete", "interrupt", "interrupt"])
        if what == "default":
            return self.call("POST", "/code", self.code(self.random.choice(list(CODES))))
        if what == "create" or not found:
            return self.call("POST", "/code/context", {"language": self.random.choice(list(CODES))})
        one = self.random.choice(found)
        if what == "delete":
            return self.call("DELETE", f"/code/contexts/{one['id']}")
        if what == "interrupt":
            return self.call("DELETE", f"/code?id={one['id']}")
        return self.call("POST", "/code", self.code(one["language"], one["id"]), what == "leave")

    def storm(self):
        turns = 0
        while time.monotonic() < self.until:
            answer = self.turn()
            assert answer is None or answer[0] in (200, 404, 429, 500, 503), answer
            assert answer is None or answer[0] != 500 or b"was deleted" in answer[1] or b"signal" in answer[1], answer
            turns += 1
        return turns


def calm(execd, running):
    """Endless code ends by interrupts or with its context, until all clients have their answers."""
    while not all(f.done() for f in running):
        for one in ids(execd):
            execd.request("DELETE", f"/code?id={one}")
        time.sleep(0.2)


def test_a_storm_leaves_nothing_behind(tmp_path):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    for execd in serve(tmp_path, env={"PATH": "/usr/bin:/bin"}):
        fds = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
        until = time.monotonic() + SECONDS
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            running = [pool.submit(Client(execd, seed + i, until).storm) for i in range(CLIENTS)]
            calm(execd, running)
            assert all(f.result() > 5 for f in running)
        for language in CODES:
            assert execd.request("DELETE", f"/code/contexts?language={language}").status == 200
        wait_for(lambda: ids(execd) == [])
        wait_for(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= fds + 4)  # what forks are made of, and this question
        assert execd.command("echo still here")[1]["text"] == "still here"
