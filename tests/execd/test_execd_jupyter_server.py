# SPDX-License-Identifier: Apache-2.0
"""Code by way of a real Jupyter server, as in images that run one: JUPYTER_HOST and JUPYTER_TOKEN."""
import base64
import concurrent.futures
import http.client
import json
import subprocess
import time

import pytest

import kernels
from conftest import free_port
from test_execd import EXECD, error_of, serve, texts, wait_for
from test_execd_code import Context

pytestmark = pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
TOKEN = "server-token"
START_SECONDS = 60


class Jupyter:
    def __init__(self, folder, port):
        self.port = port
        self.prefix = kernels.python()
        with open(folder / "jupyter.log", "wb") as log:
            self.process = subprocess.Popen(
                [self.prefix / "bin/jupyter-server", "--allow-root", "--ip=127.0.0.1", f"--port={port}", f"--IdentityProvider.token={TOKEN}",
                 f"--ServerApp.root_dir={folder}", "--ServerApp.port_retries=0", "--ServerApp.iopub_data_rate_limit=1000000000"],
                cwd=folder, env={"HOME": str(folder), "PATH": f"{self.prefix}/bin:/usr/bin:/bin"}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request("GET", path, headers={"Authorization": f"token {TOKEN}"})
        return json.loads(c.getresponse().read())

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def port():
    return free_port()


@pytest.fixture(scope="module")
def execd(tmp_path_factory, port):
    yield from serve(tmp_path_factory.mktemp("execd"), env={"JUPYTER_HOST": f"http://127.0.0.1:{port}/", "JUPYTER_TOKEN": TOKEN,
                                                            "EXECD_CODE_WARM": "off", "PATH": "/usr/bin:/bin"})


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory, port):
    kernels.python()
    folder = tmp_path_factory.mktemp("jupyter")
    j = Jupyter(folder, port)
    yield j
    j.stop()


@pytest.fixture(scope="module")
def python(execd, jupyter):
    """Made while the server is still on its way."""
    return Context(execd)


def test_the_kernel_is_the_servers(python, jupyter):
    assert python.value("import sys\nsys.prefix") == repr(str(jupyter.prefix))
    assert len(jupyter.get("/api/sessions")) == 1


def test_values_output_and_state(python):
    python.run("x = 20")
    events = python.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert "".join(texts(events)) == "out\n" and "".join(texts(events, "stderr")) == "err\n"
    assert [e["results"]["text"] for e in events if e["type"] == "result"] == ["21"]
    assert python.error("nosuch")["ename"] == "NameError"


def test_what_is_shown_arrives(python):
    events = python.run("from IPython.display import display, HTML\ndisplay(HTML('<b>1</b>'))\nimport matplotlib.pyplot as plt\n"
                        "plt.plot([1, 2])\nplt.show()", timeout=120)
    results = [e["results"] for e in events if e["type"] == "result"]
    assert results[0]["text/html"] == "<b>1</b>"
    assert base64.b64decode(results[1]["image/png"]).startswith(b"\x89PNG")


def test_long_output_arrives_whole(python):
    assert python.out("print('x' * 900_000)") == "x" * 900_000 + "\n"


def test_an_interrupt_ends_the_run_alone(python):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(python.error, "while True:\n    pass")
        time.sleep(1)
        assert python.interrupt().status == 200
        assert running.result(60)["ename"] == "KeyboardInterrupt"
    assert python.value("1 + 1") == "2"


def test_a_kernel_that_dies_ends_its_stream_and_the_context_begins_anew(execd, jupyter):
    context = Context(execd)
    assert "the kernel has ended" in json.dumps(error_of(context.run("import os\nos._exit(3)")))
    assert context.value("5") == "5"
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200


def test_another_language_of_the_server(execd, jupyter):
    bash = Context(execd, "bash")
    assert bash.out("echo hi") == "hi\n"
    assert execd.request("DELETE", f"/code/contexts/{bash.id}").status == 200


def test_a_deleted_context_ends_its_session(execd, jupyter, python):
    context = Context(execd)
    assert len(jupyter.get("/api/sessions")) > 1
    assert execd.request("DELETE", f"/code/contexts/{context.id}").status == 200
    wait_for(lambda: len(jupyter.get("/api/sessions")) == 1, START_SECONDS)


def test_a_wrong_token_leaves_the_drivers_of_our_own(tmp_path, port, jupyter):
    for d in serve(tmp_path, env={"JUPYTER_HOST": f"http://127.0.0.1:{port}", "JUPYTER_TOKEN": "wrong", "EXECD_CODE_WARM": "off"}):
        assert Context(d).value("3") == "3"
        answer = d.request("POST", "/code/context", json.dumps({"language": "cobol"}), timeout=START_SECONDS)
        assert answer.status >= 400 and "403" in answer.json["message"], answer.body


def test_what_is_not_supported_is_said(tmp_path):
    for d in serve(tmp_path, env={"JUPYTER_HOST": "https://127.0.0.1:1"}):
        answer = d.request("POST", "/code/context", json.dumps({"language": "cobol"}), timeout=START_SECONDS)
        assert answer.status >= 400 and "only http:// is supported" in answer.json["message"], answer.body
