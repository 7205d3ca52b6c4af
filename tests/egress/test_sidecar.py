# SPDX-License-Identifier: Apache-2.0
"""opensandbox-egress as a sidecar: its environment, its API at a port of its own, what it keeps and what it gives up. The ways around
it are in security/test_sidecar_inside.py."""
import json
import re
import stat
import threading

import pytest

from api import wait_for
from internet import BAD, FOREIGN, GOOD, OTHER, RESOLVER
from network import rules
from sidecar import EGRESS, MISSING, TOKEN, net  # noqa: F401

pytestmark = [pytest.mark.skipif(bool(MISSING), reason=MISSING)]
VARIABLE = "OPENSANDBOX_EGRESS_"


def status_of(pid):
    return dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)


# ---- the API ----


@pytest.mark.smoke
def test_the_api_speaks_as_clients_know_it(net):
    p = net.box(rules("+good.test"))
    assert p.call("GET", "/healthz", token="").text == "ok"
    found = p.call("GET", "/policy")
    assert found.status == 200 and found.text.endswith("}\n") and found.headers["Content-Type"].startswith("application/json")
    assert json.loads(found.text) == {"status": "ok", "mode": "enforcing", "enforcementMode": "dns+nft", "policy":
                                      {"egress": rules("+good.test")["egress"], "defaultAction": "deny"}}
    assert p.change("PATCH", [{"action": "allow", "target": "other.test"}])["mode"] == "enforcing"
    assert p.change("DELETE", ["nothing.test"])["reason"] == "no matching targets found"
    assert p.change("POST", b"") == {"status": "ok", "mode": "deny_all", "reason": "policy reset to default deny-all"}
    assert p.policy()["policy"]["egress"] == []
    for method, body, status in (("POST", b"{", 400), ("PATCH", b"", 400), ("DELETE", [], 400), ("OPTIONS", None, 405)):
        answer = p.call(method, "/policy", body)
        assert answer.status == status and answer.headers["Content-Type"] == "text/plain; charset=utf-8", answer.text
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.text.endswith("\n")
    assert p.call("GET", "/sandboxes/pod-1/policy").status == 404 and p.call("GET", "/").text == "404 page not found\n"
    p.delete()


@pytest.mark.parametrize("token", ["", "x", TOKEN + "x", TOKEN[:-1], TOKEN.upper()])
def test_only_its_token_opens_it(net, token):
    p = net.box(rules("+good.test"))
    for method, path in (("GET", "/policy"), ("PUT", "/policy"), ("GET", "/activity"), ("GET", "/metrics"), ("GET", "/")):
        assert p.call(method, path, rules(default="allow") if method == "PUT" else None, token=token).status == 401
    assert p.policy()["policy"] == rules("+good.test")
    p.delete()


def test_without_a_token_nobody_changes_anything(net):
    """Whoever is in the sandbox reaches the port, too."""
    p = net.box(rules("+good.test"), OPENSANDBOX_EGRESS_TOKEN=None)
    assert p.call("GET", "/policy").status == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert p.call(method, "/policy", [{"action": "allow", "target": "*.test"}]).status == 403
    assert p.py("http('127.0.0.1', 'x', 18080, raw=b'PUT /policy HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n')") == \
        "HTTP/1.1 403 Forbidden"
    p.delete()


# ---- the environment ----


def test_without_rules_everything_is_denied(net):
    p = net.pod().start()
    assert p.policy()["mode"] == "deny_all"
    assert p.py(f"[tried(resolve, 'good.test'), tried(tcp, {GOOD!r}, 22)]")[0] == "NXDOMAIN"
    p.delete()


@pytest.mark.parametrize("name, value, says", [
    ("RULES", "{", "end of input"), ("RULES", '{"defaultAction":"block"}', "defaultAction"),
    ("RULES", '{"egress":[{"action":"permit","target":"a.test"}]}', "action"),
    ("MODE", "nft", "neither dns nor dns\\+nft"), ("MODE", "dns+ntf", "neither"), ("MODE", "off", "neither"),  # E30
    ("DNS_UPSTREAM", "resolver.test", "no address"), ("HTTP_ADDR", "localhost", "HTTP_ADDR"), ("POLICY_FILE", "policy.json", "absolute"),
    ("SANDBOX_ID", "../x", "no id"), ("MITMPROXY_TRANSPARENT", "Yes", "intercept"), ("ALLOW_PRIVATE", "ten", "no network"),
    ("POLICY_FILE", "/proc/self/no/such/folder/x", "No such file"),
])
def test_E30_what_is_not_understood_stops_the_start_by_name(net, name, value, says):
    p = net.pod(**{VARIABLE + name: value}).start(wait=False)
    assert p.end() == 1
    assert re.search(says, p.log()), p.log()
    p.delete()


def test_E30_whatever_the_mode_is_called_packets_are_judged(net):
    p = net.box(rules("+good.test"), **{VARIABLE + "MODE": " DNS "})
    assert p.policy()["enforcementMode"] == "dns+nft"
    assert p.py(f"tried(tcp, {BAD!r}, 22)") in ("timeout", "EPERM")
    p.delete()


def test_settings_that_are_taken(net):
    p = net.box(rules("+10.99.0.1"), **{VARIABLE + "MAX_RULES": "3", VARIABLE + "NAMESERVER_EXEMPT": FOREIGN,
                                         VARIABLE + "ALLOW_PRIVATE": "10.99.0.0/16", VARIABLE + "SANDBOX_ID": None})
    before = len(net.internet.foreign_dns.queries)
    assert p.call("PUT", "/policy", rules("+a.test", "+b.test", "+c.test", "+d.test")).status == 413
    assert p.py(f"ask('bad.test', server={FOREIGN!r})")[0] == 3  # no resolver is exempt
    assert len(net.internet.foreign_dns.queries) == before
    assert p.py("http('10.99.0.1', 'x')")["address"] == "10.99.0.1"  # the operator has opened it
    assert json.loads(p.call("GET", "/activity").text)["sandboxId"] == "sandbox"
    assert all(json.loads(line)["level"] for line in p.log().splitlines())
    p.delete()


def test_port_443_can_be_closed_to_resolvers_or_at_all(net):
    p = net.box(rules(f"-{BAD}", default="allow"), **{VARIABLE + "BLOCK_DOH_443": "true", VARIABLE + "DOH_BLOCKLIST": f"{FOREIGN}, nonsense"})
    assert p.py(f"[tried(tls, {FOREIGN!r}, 'doh.test'), tried(udp, {FOREIGN!r}, 443)]") == ["timeout", "EPERM"]
    assert p.py(f"tls({GOOD!r}, 'good.test')")["sni"] == "good.test" and p.py(f"http({FOREIGN!r}, 'x')")["address"] == FOREIGN
    p.delete()
    p = net.box(rules(f"-{BAD}", default="allow"), **{VARIABLE + "BLOCK_DOH_443": "1"})
    assert p.py(f"tried(tls, {GOOD!r}, 'good.test')") in ("timeout", "EPERM") and p.py("web('good.test')")["host"] == "good.test"
    p.delete()


# ---- the file of its policy ----


def test_a_file_goes_before_the_environment_and_is_rewritten_by_changes_alone(net):
    p = net.pod(rules("+good.test"))
    path = p.folder / "policy.json"
    p.env[VARIABLE + "POLICY_FILE"] = str(path)
    p.start()
    assert p.policy()["policy"] == rules("+good.test") and not path.exists()
    p.change("PATCH", [{"action": "allow", "target": "other.test"}])
    assert json.loads(path.read_text()) == rules("+other.test", "+good.test") and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    p.change("DELETE", ["good.test"])
    assert json.loads(path.read_text()) == rules("+other.test") and stat.S_IMODE(path.stat().st_mode) == 0o644
    restart(p)
    assert p.policy()["policy"] == rules("+other.test")
    for text in ("", "{", '{"egress":[{"action":"?","target":"x"}]}'):
        path.write_text(text)
        restart(p)
        assert p.policy()["policy"] == rules("+good.test"), text
    assert sorted(f.name for f in p.folder.iterdir()) == ["log", "policy.json", "resolv.conf", "tmp"]
    p.delete()


def restart(p):
    p.process.terminate()
    assert p.end() == 0
    p.start()


def test_a_file_that_cannot_be_read_stops_the_start(net):
    p = net.pod(rules("+good.test"))
    p.env[VARIABLE + "POLICY_FILE"] = str(p.folder / "loop")
    (p.folder / "loop").symlink_to("loop")
    p.start(wait=False)
    assert p.end() == 1
    p.delete()


# ---- what it tells others ----


def test_E25_its_own_traffic_is_not_the_sandboxes(net):
    """The webhook's name is not in the policy, and that it is asked for is no denial."""
    seen, listener = [], net.internet.world.listen(OTHER, 8088)

    def serve():
        for _ in range(2):
            peer, _ = listener.accept()
            seen.append(peer.recv(65536).decode())
            peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            peer.close()

    threading.Thread(target=serve, daemon=True).start()
    p = net.box(rules("+good.test"), **{VARIABLE + "DENY_WEBHOOK": "http://hook.test:8088/deny"})
    assert p.py("[tried(resolve, 'bad.test'), tried(resolve, 'worse.test')]") == ["NXDOMAIN"] * 2
    wait_for(lambda: len(seen) == 2, 10, "the webhook")
    assert '"hostname":"bad.test"' in seen[0] and f'"sandboxId":"{p.id}"' in seen[0] and '"hostname":"worse.test"' in seen[1]
    assert json.loads(p.call("GET", "/metrics").text)["dnsDenied"] in (2, 4)  # with or without the search for another family
    assert p.py(f"tried(tcp, {OTHER!r}, 8088)") in ("timeout", "EPERM")
    listener.close()
    p.delete()


def test_only_the_sidecar_reaches_the_resolver_behind_it(net):
    p = net.box(rules(f"+{GOOD}"))
    assert p.py(f"[tried(tcp, {RESOLVER!r}, 80), tried(udp, {RESOLVER!r}, 9000)]") == ["timeout", "EPERM"]
    assert p.py(f"ask('bad.test', server={RESOLVER!r})")[0] == 3
    p.delete()


# ---- what it keeps of its rights ----


def test_one_process_has_one_right_and_the_other_none(net):
    p = net.box(rules("+good.test"))
    keeper, worker = status_of(p.process.pid), status_of(p.worker())
    assert keeper["CapPrm"] == keeper["CapEff"] == keeper["CapBnd"] == f"{1 << 12:016x}" and keeper["CapAmb"] == "0" * 16
    assert worker["CapPrm"] == worker["CapEff"] == worker["CapInh"] == worker["CapAmb"] == "0" * 16
    assert worker["NoNewPrivs"] == "1" and worker["Seccomp"] == "2"
    p.delete()


def test_without_the_right_to_make_rules_it_does_not_start(net):
    p = net.pod(rules("+good.test"))
    found = p.run_beside(f"{EGRESS} --sidecar; echo $?")
    assert found[-1] == "1" and "CAP_NET_ADMIN" in " ".join(found), found
    p.delete()


def test_a_long_life_of_connections_and_many_at_once(net):
    """More than the sockets that are made ahead."""
    p = net.box(rules("+good.test", "+*.wild.test"))
    found = p.py("resolve('good.test') and all_of(*[(http, '198.51.100.10', 'good.test', 80, '/', None, 20) for _ in range(200)])")
    assert [f["host"] for f in found] == ["good.test"] * 200
    assert p.py("[f for f in all_of(*[(resolve, f'n{i}.wild.test') for i in range(100)])]") == [[GOOD]] * 100
    p.delete()
