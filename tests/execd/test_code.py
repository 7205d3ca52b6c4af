# SPDX-License-Identifier: Apache-2.0
"""Code in real sandboxes: through the proxies, within the limits of the sandbox, as its user."""
import base64
import contextlib
import json
import os
import pathlib
import shutil

import pytest

from api import EXECD, TIMEOUT_S

PNG = b"\x89PNG\r\n\x1a\n"
PLOT = """
import matplotlib.pyplot as plt
import math
x = [i / 10 for i in range(100)]
plt.plot(x, [math.sin(v) for v in x], label='sin')
plt.plot(x, [math.cos(v) for v in x], label='cos')
plt.title('Sine and cosine')
plt.legend()
plt.show()
"""


class Box:
    """A sandbox with contexts."""

    def __init__(self, api, sandbox_id, query=""):
        self.api, self.id, self.query = api, sandbox_id, query

    def call(self, method, path, body=None):
        endpoint = self.api.endpoint(self.id, EXECD, self.query)
        host, at = endpoint["endpoint"].split("/", 1)
        with contextlib.closing(self.api.server.http(host, timeout=TIMEOUT_S)) as c:
            c.request(method, f"/{at}{path}", json.dumps(body) if body is not None else None, endpoint["headers"])
            response = c.getresponse()
            return response.status, response.read()

    def context(self, language="python", **more):
        status, answer = self.call("POST", "/code/context", {"language": language, **more})
        assert status == 200, answer
        return json.loads(answer)["id"]

    def run(self, code, language="python", context=None):
        status, answer = self.call("POST", "/code", {"code": code, "context": {"language": language, "id": context}})
        assert status == 200, answer
        events = [json.loads(line) for line in answer.split(b"\n\n") if line]
        assert events[-1]["type"] in ("execution_complete", "error"), events
        return events

    def value(self, code, **more):
        (result,) = [e["results"] for e in self.run(code, **more) if e["type"] == "result"]
        return result["text"]


@pytest.fixture
def inside(api, box):
    return lambda query="", **changes: Box(api, box(**changes)["id"], query)


@pytest.mark.parametrize("query", ["", "?use_server_proxy=true"], ids=["direct", "by-server"])
@pytest.mark.smoke
def test_code_runs_in_a_sandbox(inside, query):
    b = inside(query)
    assert b.value("import os; os.getppid()") == "1"
    context = b.context(cwd="/tmp/made", envs={"A": "1"})
    assert b.value("import os; os.getcwd(), os.environ['A'], sorted(os.listdir('/proc/self/fd'))[:3]", context=context) == repr(
        ("/tmp/made", "1", ["0", "1", "2"]))
    assert "".join(e["text"] for e in b.run("echo $((6 * 7))", "bash") if e["type"] == "stdout") == "42\n"


EATERS = {"python": "print('before', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))",
          "javascript": "console.log('before'); const x = []; while (true) x.push(Buffer.alloc(1 << 20, 1))",
          "bash": "echo before; x=x; while :; do x=$x$x; done"}


@pytest.mark.parametrize("language", EATERS)
def test_a_context_that_eats_all_memory_is_told_to_be_gone(inside, language):
    if language == "javascript" and not shutil.which("node"):
        pytest.skip("needs node")
    b = inside(resourceLimits={"cpu": "1", "memory": "128Mi"})
    context = b.context(language)
    events = b.run(EATERS[language], language, context)
    assert [e["text"] for e in events if e["type"] == "stdout"] == ["before\n"]
    want = {"ename": "ContextDied", "evalue": "signal: killed", "traceback": ["signal: killed", "oom_killed"]}
    if language == "bash":  # a shell that ends is no end of its context
        want = {"ename": "CommandExecError", "evalue": "137", "traceback": ["signal: killed", "oom_killed"]}
    assert events[-1]["error"] == want
    after = b.run("echo 2" if language == "bash" else "1 + 1", language, context)
    assert after[-1]["type"] == "execution_complete" and "2" in json.dumps(after[1:])


def test_forks_of_a_prepared_python_in_a_sandbox(inside):
    b = inside(env={"EXECD_CODE_WARM": "fractions"})
    b.value("1")
    for _ in range(100):
        context = b.context()
        if b.value("import sys; 'fractions' in sys.modules", context=context) == "True":
            break
        assert b.call("DELETE", f"/code/contexts/{context}")[0] == 200
    assert b.value("import os; os.getppid(), os.getsid(0) == os.getpid()", context=context) == "(1, True)"
    assert b.run("os._exit(4)", context=context)[-1]["error"]["evalue"] == "exit status 4"


def test_a_plot_of_a_sandbox_is_a_picture(inside):
    events = inside().run(PLOT)
    if events[-1].get("error", {}).get("ename") == "ModuleNotFoundError":
        pytest.skip("needs matplotlib in the sandbox")
    (result,) = [e["results"] for e in events if e["type"] == "result"]
    picture = base64.b64decode(result["image/png"])
    assert picture.startswith(PNG) and len(picture) > 5000
    keep = os.environ.get("KEEP_PICTURES")
    if keep:
        (pathlib.Path(keep) / "plot.png").write_bytes(picture)


def test_contexts_stop_with_a_paused_sandbox_and_go_on(api, inside):
    b = inside()
    context = b.context()
    b.run("x = 5", context=context)
    api.pause(b.id)
    assert b.call("GET", "/code/contexts")[0] == 409
    api.resume(b.id)
    assert b.value("x", context=context) == "5"
