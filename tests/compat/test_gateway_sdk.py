# SPDX-License-Identifier: Apache-2.0
"""The published Python and JavaScript clients, unchanged, with a gateway between them and the sandboxes: its endpoints are what the
server tells them, and nothing else changes."""
import io

import pytest
from scenario import Report, steps_of
from test_js_sdk import client  # noqa: F401

from api import Api
from conftest import KEY, Server, free_port
from gateway import KEYS, Gateway
from test_secure_access import CONFIG, HEADER

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from kit import Kit  # noqa: E402
from opensandbox.exceptions import SandboxException  # noqa: E402
from opensandbox.models.filesystem import WriteEntry  # noqa: E402

STEPS = steps_of("js/scenario.mjs")
BIG = 32 << 20


class Pair:
    """A server, and the gateway that it sends its clients to."""

    def __init__(self, folder, mode):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        config = f'[ingress]\nmode = "gateway"\n[ingress.gateway]\naddress = "127.0.0.1:{port}"\nroute = {{ mode = "{mode}" }}\n{CONFIG}'
        self.server = Server(folder, config, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
        self.server.wait_ready()
        self.gateway = Gateway(folder, [self.server], mode, "--listen", f"127.0.0.1:{port}", keys=KEYS)

    def stop(self):
        self.gateway.stop()
        self.server.stop()


@pytest.fixture(scope="module", params=["uri", "header"])
def pair(request, tmp_path_factory):
    p = Pair(tmp_path_factory.mktemp("pair"), request.param)
    yield p
    p.stop()


@pytest.fixture(params=["sync", "async"])
def kit(request, pair, spec):
    k = Kit(pair.server, request.param == "async", False)
    yield k
    k.close()
    api = Api(pair.server, spec)
    for sandbox in api.get("/sandboxes?pageSize=200").json["items"]:
        assert api.delete(sandbox["id"]).status == 204


@pytest.mark.parametrize("is_secure", [False, True])
def test_commands_and_files_go_through_the_gateway(pair, kit, is_secure):
    before = pair.gateway.metrics()["ingress_proxy_http_requests_total"]
    sb = kit.create(env={"GREETING": "hello"}, secure_access=is_secure)
    endpoint = kit.wait(sb.get_endpoint(8080))
    assert (HEADER in endpoint.headers) == is_secure and endpoint.endpoint.startswith(pair.address)
    seen = []
    done = kit.wait(sb.commands.run("echo one; sleep 0.5; echo $GREETING", handlers=kit.handlers(on_stdout=lambda m: seen.append(m.text))))
    assert seen == ["one", "hello"] and done.error is None
    kit.wait(sb.files.write_files([WriteEntry(path="/tmp/a", data="some text é"), WriteEntry(path="/tmp/big", data=io.BytesIO(b"x" * BIG))]))
    assert kit.wait(sb.files.read_file("/tmp/a")) == "some text é"
    assert len(kit.wait(sb.files.read_bytes("/tmp/big"))) == BIG
    assert sum(map(len, kit.pieces(sb.files.read_bytes_stream("/tmp/big")))) == BIG
    assert kit.wait(sb.get_metrics()).memory_total_in_mib > 0
    assert pair.gateway.metrics()["ingress_proxy_http_requests_total"] > before + 5
    kit.wait(sb.kill())
    with pytest.raises(SandboxException):
        kit.wait(sb.commands.run("true"))


@pytest.fixture(scope="module")
def report(client, pair):  # noqa: F811
    return Report(["node", "scenario.mjs"], client, pair.server, "gateway")


@pytest.mark.parametrize("name", STEPS)
def test_step(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
