# SPDX-License-Identifier: Apache-2.0
"""What every runtime does with one sandbox: from its create to its removal, over HTTP alone."""
import datetime
import http.client

import pytest

from api import STAY, TIMEOUT_S, wait_for, when
from runtimes import box, kind, need, one, own  # noqa: F401
from way import ENTRYPOINT, Way

PATIENCE_S = 60


def test_a_created_sandbox_runs_and_is_read(one, box):
    name = box(metadata={"team": "a.b"}, timeout=600)
    read = one.api.read(name)
    assert read["status"]["state"] == "Running" and read["metadata"] == {"team": "a.b"}
    assert read["id"] == name and when(read["createdAt"]) and when(read["expiresAt"]) > when(read["createdAt"])
    assert name in [row["id"] for row in one.api.get("/sandboxes?metadata=team%3Da.b").json["items"]]
    assert name not in [row["id"] for row in one.api.get("/sandboxes?metadata=team%3Dother").json["items"]]


def test_what_is_not_there_is_404(one):
    for answer in (one.api.get("/sandboxes/nothing"), one.api.delete("nothing"), one.api.post("/sandboxes/nothing/pause")):
        one.api.refused(answer, 404, f"{one.runtime.PREFIX}::SANDBOX_NOT_FOUND")


def test_it_answers_execd_as_soon_as_it_is_told(one, box):
    """Readiness is a fact."""
    assert one.api.run(box(), "echo there") == ["there"]


def test_the_entrypoint_has_its_arguments_and_environment(one, box):
    name = box(entrypoint=["sh", "-c", 'printf "%s|%s|%s" "$0" "$1" "$K" >/tmp/said; exec tail -f /dev/null', "a b", "$K"],
               env={"K": "v'\"\n"})
    said = wait_for(lambda: one.api.run(name, "cat /tmp/said 2>/dev/null"), what="the entrypoint")
    assert "\n".join(said).rstrip("\n") == "a b|$K|v'\"" or "\n".join(said) == "a b|$K|v'\"\n"
    assert one.api.run(name, 'printf "%s" "$K" | wc -c') == ["4"]


def test_an_entrypoint_that_is_not_there_fails_the_create(one):
    a = one.api.try_create(image={"uri": one.runtime.IMAGE}, entrypoint=["/no/such/program"])
    assert a.status >= 400 and a.json["code"] == f"{one.runtime.PREFIX}::SANDBOX_START_FAILED", a


def test_an_image_that_cannot_be_had_fails_the_create(one):
    a = one.api.try_create(image={"uri": "localhost:1/no/such:image"}, timeout=60)
    if a.status == 202:  # it is pulled while the sandbox is Pending
        assert one.api.wait_state(a.json["id"], "Failed")["reason"]
        assert one.api.delete(a.json["id"]).status == 204
    else:
        assert "::" in a.json["code"], a


@pytest.mark.parametrize("script, state", [("exit 0", "Terminated"), ("exit 3", "Failed"), ("kill -9 $$", "Failed")])
def test_the_end_of_the_entrypoint_is_told(one, box, script, state):
    name = box(entrypoint=["sh", "-c", f"while [ ! -e /tmp/end ]; do sleep 0.1; done; {script}"])
    one.api.run(name, "touch /tmp/end")
    assert one.api.wait_state(name, "Terminated", "Failed")["state"] == state
    assert one.api.delete(name).status == 204


# ---- limits ----


def test_memory_is_limited(one, box):
    name = box(resourceLimits={"memory": "64Mi"})
    eat = "python3 -c 'b = bytearray(512 << 20); print(len(b))' 2>/dev/null; echo $?"
    lines = one.api.run(name, eat)
    assert lines and str(512 << 20) not in lines and lines[-1] != "0", lines
    assert one.api.run(name, "echo alive") == ["alive"], "only what took too much has ended"


def test_processes_are_limited(one, box):
    if not need(one, "pids_limit", lambda: one.api.try_create(resourceLimits={"pids": "50"})):
        return
    name = box(resourceLimits={"pids": "50"})
    fork = ("import os\nn = 0\ntry:\n while n < 200:\n  if os.fork() == 0:\n   import time; time.sleep(5); os._exit(0)\n  n += 1\n"
            "except OSError:\n pass\nprint(n)")
    lines = one.api.run(name, f"python3 -c '{fork}'")
    assert lines and int(lines[-1]) < 50, lines


def test_the_processor_is_limited(one, box):
    name = box(resourceLimits={"cpu": "300m"})
    burn = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    assert float(one.api.run(name, f"python3 -c '{burn}'")[-1]) < 1.8


def test_the_disk_is_limited(one, box):
    if not need(one, "disk_limit", lambda: one.api.try_create(resourceLimits={"disk": "32Mi"})):
        return
    name = box(resourceLimits={"disk": "32Mi"})
    assert one.api.run(name, "head -c 100M /dev/zero >/var/tmp/big 2>/dev/null; echo $?") != ["0"]


@pytest.mark.parametrize("limits", [{"gpu": "1"}, {"bogus": "1"}])
def test_a_limit_that_cannot_be_held_is_refused_by_name(one, limits):
    a = one.api.try_create(resourceLimits=limits)
    if a.status == 202 and "gpu" in limits:  # this one has GPUs
        assert one.api.delete(a.json["id"]).status == 204
        return
    one.api.refused(a, 400, "SANDBOX::INVALID_PARAMETER", f"resourceLimits.{next(iter(limits))}")


def test_a_platform_that_is_not_there_is_refused(one):
    one.api.refused(one.api.try_create(platform={"os": "windows", "arch": "amd64"}), 400, "SANDBOX::INVALID_PARAMETER", "platform")


# ---- pausing ----


def test_a_paused_sandbox_stands_still_and_goes_on(one, box):
    name = box()
    if not need(one, "pause", lambda: one.api.post(f"/sandboxes/{name}/pause")):
        return
    one.api.run(name, "(while :; do date +%s%N >/tmp/t; sleep 0.05; done) >/dev/null 2>&1 &")
    one.api.pause(name)
    one.api.wait_state(name, "Paused")
    assert one.api.post(f"/sandboxes/{name}/pause").status == 409
    one.api.resume(name)
    one.api.wait_state(name, "Running")
    first = one.api.run(name, "cat /tmp/t")
    wait_for(lambda: one.api.run(name, "cat /tmp/t") not in (first, []), what="the program that goes on")


# ---- time ----


def test_a_renewed_sandbox_lives_longer_and_one_that_expires_goes(one, box):
    name = box(timeout=60)
    until = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).isoformat()
    assert one.api.post(f"/sandboxes/{name}/renew-expiration", {"expiresAt": until}).status == 200
    assert abs((when(one.api.read(name)["expiresAt"]) - when(until)).total_seconds()) < 2
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)).isoformat()
    assert one.api.post(f"/sandboxes/{name}/renew-expiration", {"expiresAt": soon}).status == 200
    wait_for(lambda: one.api.get(f"/sandboxes/{name}").status == 404, PATIENCE_S, "the end")


# ---- what it says ----


def test_its_output_is_kept(one, box):
    name = box(entrypoint=["sh", "-c", "echo first; echo second >&2; exec tail -f /dev/null"])
    path = f"/sandboxes/{name}/diagnostics/logs"
    if need(one, "logs", lambda: one.api.get(path)):
        wait_for(lambda: "first" in (text := one.api.get(path).body.decode()) and "second" in text, what="its output")


def test_it_can_be_looked_at(one, box):
    name = box()
    assert "Running" in one.api.get(f"/sandboxes/{name}/diagnostics/inspect").body.decode()
    assert one.api.events(name)


# ---- ways in ----


def test_its_ports_are_reached_through_the_server(one, box):
    name = box(entrypoint=ENTRYPOINT)
    way = Way(one.api, name, one.server.port)
    wait_for(lambda: way.request("GET", "/")[0].status == 200, what="the server in the sandbox")
    assert way.echo("POST", "/echo?x=1", b"body")["line"].startswith("POST /")
    endpoint = one.api.endpoint(name, 8080)["endpoint"]
    host, _, path = endpoint.partition("/")
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)
    connection.request("GET", f"/{path}/", headers={})
    assert connection.getresponse().status == 200
    connection.close()


def test_a_port_where_nobody_listens_is_502(one, box):
    assert Way(one.api, box(), one.server.port).request("GET", "/", port=4711)[0].status == 502


# ---- the end ----


def test_a_removed_sandbox_leaves_nothing(own):
    api = own.api
    api.delete(api.create(entrypoint=STAY)["id"])
    before = own.runtime.settled(own.server)
    names = [api.create(entrypoint=STAY)["id"] for _ in range(3)]
    assert own.runtime.boxes(own.server) == 3
    for name in names:
        api.run(name, "sleep 1000 >/dev/null 2>&1 &")
        assert api.delete(name).status == 204
    assert api.get("/sandboxes").json["items"] == []
    wait_for(lambda: own.runtime.boxes(own.server) == 0, what="sandboxes that go")
    wait_for(lambda: own.runtime.settled(own.server) == before, what="what they had")
