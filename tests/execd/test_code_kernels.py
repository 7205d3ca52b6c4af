# SPDX-License-Identifier: Apache-2.0
"""Real Jupyter kernels and a real Jupyter server inside of real sandboxes: what the tests have installed is a volume of theirs."""
import json
import os

import pytest

import kernels
from api import wait_for
from conftest import KEY, Server
from test_code import Box

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
TOKEN = "server-token"
PORT = 8899
COUNT = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o ipykernel_[l]auncher | wc -l"
LIMITS = {"cpu": "1", "memory": "384Mi"}
EAT = "print('before', flush=True)\nimport time\ntime.sleep(0.5)\nx = []\nwhile True:\n    x.append(bytearray(1 << 20))"


@pytest.fixture(scope="module")
def prefix():
    return kernels.python()


@pytest.fixture(scope="module")
def server(tmp_path_factory, prefix):
    s = Server(tmp_path_factory.mktemp("kernels"), env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": json.dumps([str(prefix)])})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture
def inside(api, box, prefix):
    """A sandbox that finds the kernels at the place that they were installed for."""
    def make(env=None, **changes):
        volume = {"name": "kernels", "mountPath": str(prefix), "host": {"path": str(prefix)}, "readOnly": True}
        return Box(api, box(volumes=[volume], env={"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": "/tmp", "EXECD_CODE_WARM": "off", **(env or {})},
                            **{"resourceLimits": LIMITS, **changes})["id"])

    return make


@pytest.fixture
def served(inside, prefix):
    """One as images with a Jupyter server are: it is the entrypoint, and execd is told of it."""
    command = [f"{prefix}/bin/jupyter-server", "--allow-root", "--ip=127.0.0.1", f"--port={PORT}", f"--IdentityProvider.token={TOKEN}",
               "--ServerApp.root_dir=/tmp", "--ServerApp.port_retries=0"]
    return inside({"JUPYTER_HOST": f"http://127.0.0.1:{PORT}", "JUPYTER_TOKEN": TOKEN}, entrypoint=command)


def out(events):
    return "".join(e["text"] for e in events if e["type"] == "stdout")


def test_a_kernel_of_a_sandbox_is_a_child_of_its_init(inside, prefix):
    b = inside()
    kernel = b.context(kernel="python3")
    assert b.value("import os, sys\nsys.prefix, os.getppid()", context=kernel) == repr((str(prefix), 1))
    assert b.value("open('/proc/self/cgroup').read()", context=kernel) == b.value("open('/proc/self/cgroup').read()")
    assert b.value("[f for f in os.listdir('/tmp') if 'kernel' in f]", context=kernel) == "[]"


def test_a_kernel_that_eats_all_memory_is_told_to_be_gone(inside):
    b = inside()
    kernel = b.context(kernel="python3")
    events = b.run(EAT, context=kernel)
    assert out(events) == "before\n"
    assert events[-1]["error"] == {"ename": "ContextDied", "evalue": "signal: killed", "traceback": ["signal: killed", "oom_killed"]}
    assert b.value("1 + 1", context=kernel) == "2"


def test_code_by_the_server_of_a_sandbox(api, served, prefix):
    b = served
    context = b.context()  # the server is still on its way
    assert b.value("import os, sys\nsys.prefix, os.getppid() != 1", context=context) == repr((str(prefix), True))
    events = b.run("import sys\nx = 5\nprint('out')\nprint('err', file=sys.stderr)\nx", context=context)
    assert out(events) == "out\n" and [e["results"]["text"] for e in events if e["type"] == "result"] == ["5"]
    assert b.run("nosuch", context=context)[-1]["error"]["ename"] == "NameError"
    api.pause(b.id)
    api.resume(b.id)
    assert b.value("x + 1", context=context) == "6" and api.run(b.id, COUNT) != ["0"]
    assert b.call("DELETE", f"/code/contexts/{context}")[0] == 200
    wait_for(lambda: api.run(b.id, COUNT) == ["0"])


def test_a_kernel_of_the_server_that_eats_all_memory_is_told_to_be_gone(served):
    b = served
    context = b.context()
    events = b.run(EAT, context=context)
    assert out(events) == "before\n"
    assert events[-1]["error"] == {"ename": "ContextDied", "evalue": "the kernel has ended", "traceback": ["the kernel has ended", "oom_killed"]}
    assert b.value("1 + 1", context=context) == "2"
