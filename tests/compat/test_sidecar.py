# SPDX-License-Identifier: Apache-2.0
"""The egress calls of the published Python client, unchanged, at the port of a sidecar."""
import asyncio

import pytest

from network import AUTH_HEADER, rules
from sidecar import MISSING, TOKEN, net  # noqa: F401

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from opensandbox.adapters.egress_adapter import EgressAdapter  # noqa: E402
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.models.sandboxes import NetworkRule, SandboxEndpoint  # noqa: E402
from opensandbox.sync.adapters.egress_adapter import EgressAdapterSync  # noqa: E402

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def adapter(pod, is_async, token=TOKEN):
    endpoint = SandboxEndpoint(endpoint=f"{pod.address}:18080", headers={AUTH_HEADER: token})
    return EgressAdapter(ConnectionConfig(), endpoint) if is_async else EgressAdapterSync(ConnectionConfigSync(), endpoint)


@pytest.mark.parametrize("is_async", [False, True])
def test_python_reads_and_changes_the_policy_of_a_sidecar(net, is_async):
    pod = net.box(rules("+good.test"))
    loop = asyncio.new_event_loop()
    wait = loop.run_until_complete if is_async else lambda value: value
    targets = lambda: [(r.action, r.target) for r in wait(a.get_policy()).egress]  # noqa: E731
    with net.internet.host.entered():
        a = adapter(pod, is_async)
        assert wait(a.get_policy()).default_action == "deny" and targets() == [("allow", "good.test")]
        wait(a.patch_rules([NetworkRule(action="deny", target="bad.test"), NetworkRule(action="allow", target="other.test")]))
        assert targets() == [("deny", "bad.test"), ("allow", "other.test"), ("allow", "good.test")]
        wait(a.delete_rules(["GOOD.test", "bad.test"]))
        assert targets() == [("allow", "other.test")]
        with pytest.raises(Exception, match="401"):
            wait(adapter(pod, is_async, "another").get_policy())
    loop.close()
    assert pod.py("[tried(web, 'other.test')['host'], tried(resolve, 'good.test')]") == ["other.test", "NXDOMAIN"]
    pod.delete()
