# SPDX-License-Identifier: Apache-2.0
"""Lives that use extends: by requests, by long streams, and by what gateways put into a queue in Redis."""
import datetime
import json
import shutil
import socket
import subprocess
import time

import pytest

from api import Api, wait_for, when

EXTENDS = {"access.renew.extend.seconds": "3600"}
CONFIG = "[renew_intent]\nenabled = true\nmin_interval_seconds = 1\n"
QUEUE = "opensandbox:renew:intent"


class Redis:
    """Debian's redis-server on a socket in a folder."""

    def __init__(self, folder):
        self.path = folder / "redis.sock"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--unixsocketperm", "777", "--save", "", "--dir", folder,
             "--requirepass", "hush"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        wait_for(self.path.exists, what="redis")
        self.dsn = f"unix://:hush@{self.path}?db=2"

    def call(self, *words):
        """The reply of one command, as it comes."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(self.path))
            for command in (("AUTH", "hush"), ("SELECT", "2"), words):
                s.sendall(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w.encode()), w.encode()) for w in command))
                reply = s.recv(1 << 16)
            return reply

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("needs redis-server")
    tmp_path.chmod(0o755)
    r = Redis(tmp_path)
    yield r
    r.stop()


def expires(api, sandbox_id):
    return when(api.read(sandbox_id)["expiresAt"])


def intent(sandbox_id, age=0):
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=age)
    return json.dumps({"sandbox_id": sandbox_id, "observed_at": at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z", "port": 8080})


@pytest.mark.smoke
def test_a_queue_extends_lives(start_server, spec, redis):
    api = Api(start_server(f'{CONFIG}[renew_intent.redis]\nenabled = true\ndsn = "{redis.dsn}"\n'), spec)
    asked, silent = (api.create(timeout=600, extensions=x)["id"] for x in (EXTENDS, ...))
    first = expires(api, asked)
    for text in ("junk", "{}", intent("none"), intent(asked, age=301), intent(silent)):
        redis.call("LPUSH", QUEUE, text)
    wait_for(lambda: redis.call("LLEN", QUEUE) == b":0\r\n", what="an empty queue")
    time.sleep(0.3)
    assert expires(api, asked) == first
    redis.call("LPUSH", QUEUE, intent(asked))
    wait_for(lambda: expires(api, asked) > first + datetime.timedelta(seconds=2900), what="a longer life")
    assert expires(api, silent) <= first + datetime.timedelta(seconds=30)
    for i in (asked, silent):
        assert api.delete(i).status == 204


def test_a_server_does_without_redis(start_server, spec, tmp_path):
    server = start_server(f'{CONFIG}[renew_intent.redis]\nenabled = true\ndsn = "unix://{tmp_path}/none.sock"\n')
    api = Api(server, spec)
    sandbox_id = api.create(timeout=600, extensions=EXTENDS)["id"]
    first = expires(api, sandbox_id)
    wait_for(lambda: "the queue of renewals cannot be read" in server.stderr, what="a word about it")
    server.get(f"/sandboxes/{sandbox_id}/proxy/8080/")
    wait_for(lambda: expires(api, sandbox_id) > first, what="a longer life")
    assert api.delete(sandbox_id).status == 204
    assert server.stderr.count("the queue of renewals cannot be read") == 1


def test_a_dsn_that_cannot_be_read_is_refused(run_server, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text(f'{CONFIG}[renew_intent.redis]\nenabled = true\ndsn = "http://u:hush@x"\n[server]\nunsafe_no_auth = true\n')
    done = run_server("--config", str(config))
    assert done.returncode == 1 and "renew_intent.redis.dsn" in done.stderr and "hush" not in done.stderr
