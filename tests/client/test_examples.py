# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/c do what they say, against a real server."""
import os
import subprocess

import pytest

from conftest import BIN, KEY, ROOT, assert_clean, clean_environment

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

# What each of them writes, in any order.
EXAMPLES = {
    "hello": ["hello from Linux"],
    "event_loop": [f"job {i}: {i * i}" for i in range(10)],
    "streaming": ["line: 1", "line: 2", "line: 3", "error: bad", "apple", "fig", "pear"],
    "files": ["hello sandbox", "67108864 bytes came back", "/tmp/example/note.txt 640 14", "/tmp/example/large 755 67108864"],
    "code": ["set", "= 42", "! NameError: name 'y' is not defined"],
    "pool": ["sandbox 0: hello", "sandbox 1: hello"],
}


def test_every_example_is_tried():
    assert {p.stem for p in (ROOT / "examples/c").glob("*.c")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_works(server, name, tmp_path):
    env = clean_environment(tmp_path, OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{server.port}", OPEN_SANDBOX_API_KEY=KEY)
    done = subprocess.run([BIN.parent / "examples" / name], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    assert_clean(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(EXAMPLES[name])
    assert server.get("/v1/sandboxes").json["items"] == []
