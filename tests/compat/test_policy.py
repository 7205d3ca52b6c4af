# SPDX-License-Identifier: Apache-2.0
"""Network policies through the published Python and JavaScript clients, unchanged, on a server in the tests' own Internet."""
import shutil

import pytest
from scenario import HERE, MODES, Report, installed, steps_of

from network import MISSING, net  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]
STEPS = steps_of("js/policy.mjs")


# ---- Python ----


@pytest.fixture(params=["sync-direct", "sync-by-server", "async-direct", "async-by-server"])
def kit(request, net):
    from kit import Kit  # skips where the client is not installed

    with net.internet.host.entered():
        k = Kit(net.server, "async" in request.param, "by-server" in request.param)
        yield k
        k.close()
    for sandbox in net.api.get("/sandboxes?pageSize=200").json["items"]:
        assert net.api.delete(sandbox["id"]).status == 204


def test_python_reads_and_changes_policies(kit):
    from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule

    policy = lambda: kit.wait(sb.get_egress_policy())  # noqa: E731
    targets = lambda: [(r.action, r.target) for r in policy().egress]  # noqa: E731
    sb = kit.create(network_policy=NetworkPolicy(egress=[NetworkRule(action="allow", target="good.test")]))
    assert policy().default_action == "deny" and targets() == [("allow", "good.test")]
    kit.wait(sb.patch_egress_rules([NetworkRule(action="deny", target="bad.test"), NetworkRule(action="allow", target="other.test")]))
    assert targets() == [("deny", "bad.test"), ("allow", "other.test"), ("allow", "good.test")]
    kit.wait(sb.delete_egress_rules(["GOOD.test", "bad.test", "other.test"]))
    assert policy().egress == []  # never null: the client could not read that
    with pytest.raises(Exception, match="400"):
        kit.wait(sb.patch_egress_rules([NetworkRule(action="allow", target="https://good.test/")]))


def test_python_reads_the_policy_of_a_sandbox_that_has_none(kit):
    sb = kit.create()
    assert kit.wait(sb.get_egress_policy()).default_action == "allow"
    sb = kit.create(extensions={"network.mode": "none"})
    assert kit.wait(sb.get_egress_policy()).default_action == "deny"


# ---- JavaScript ----


@pytest.fixture(scope="module")
def client():
    folder = installed("js", ["package.json", "package-lock.json"],
                       ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"])
    shutil.copy(HERE / "js/policy.mjs", folder)
    return folder


@pytest.fixture(scope="module", params=MODES)
def report(request, client, net):
    return Report(["nsenter", f"--net={net.internet.host.path}", "node", "policy.mjs"], client, net.server, request.param)


@pytest.mark.parametrize("name", STEPS)
def test_javascript(report, name):
    report.check(name)


def test_the_scenario_comes_to_its_end(report):
    report.check_end(STEPS)
