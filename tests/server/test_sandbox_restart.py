# SPDX-License-Identifier: Apache-2.0
"""What clients were told holds after the server was stopped and started, and sandboxes do not notice."""
import datetime
import time

import pytest

from api import EXECD, Api, wait_for, when
from conftest import Home


@pytest.fixture
def home():
    h = Home()
    yield h
    h.remove()


@pytest.mark.smoke
def test_everything_that_was_said_survives(home, start_server, spec):
    first = start_server(home=home)
    api = Api(first, spec)
    running = api.create(timeout=600, metadata={"a": "1", "b": "2"}, platform={"os": "linux", "arch": "amd64"}, env={"E": "kept"},
                         headers={"Idempotency-Key": "again"})["id"]  # fmt: skip
    manual, paused, over = api.create()["id"], api.create()["id"], api.create(entrypoint=["/bin/sh", "-c", "echo last words; exit 9"])["id"]
    assert api.call("PATCH", f"/sandboxes/{running}/metadata", {"a": None, "c": "3"}).status == 200
    assert api.post(f"/sandboxes/{running}/renew-expiration", {"expiresAt": "2099-01-02T03:04:05Z"}).status == 200
    api.pause(paused)
    api.wait_state(over, "Failed")
    api.run(running, "sleep 1000 & echo $! >/tmp/pid")
    before = {i: (api.read(i), api.endpoint(i, EXECD)["headers"]) for i in (running, manual, paused, over)}
    logs = api.get(f"/sandboxes/{over}/diagnostics/logs").body
    listed = [s["id"] for s in api.get("/sandboxes").json["items"]]
    assert b"last words" in logs
    first.stop()

    api = Api(start_server(home=home), spec)
    assert {i: (api.read(i), api.endpoint(i, EXECD)["headers"]) for i in before} == before
    assert [s["id"] for s in api.get("/sandboxes").json["items"]] == listed
    assert api.read(running)["metadata"] == {"b": "2", "c": "3"} and api.read(running)["expiresAt"] == "2099-01-02T03:04:05Z"
    assert api.run(running, "kill -0 $(cat /tmp/pid) && echo $E") == ["kept"]
    assert api.get(f"/sandboxes/{over}/diagnostics/logs").body == logs
    assert "MetadataChanged" in api.events(running) and "Adopted" in api.events(running)
    again = api.try_create(headers={"Idempotency-Key": "again"}, timeout=600, metadata={"a": "1", "b": "2"},
                           platform={"os": "linux", "arch": "amd64"}, env={"E": "kept"})  # fmt: skip
    assert (again.status, again.json["id"]) == (202, running)
    api.resume(paused)
    assert api.run(paused, "echo awake") == ["awake"]
    for sandbox_id in before:
        assert api.delete(sandbox_id).status == 204
    assert api.get("/sandboxes").json["items"] == []


def test_what_expires_while_the_server_is_away_goes_when_it_is_back(home, start_server, spec):
    first = start_server(home=home)
    api = Api(first, spec)
    sandbox_id = api.create(timeout=60)["id"]
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.5)
    assert api.post(f"/sandboxes/{sandbox_id}/renew-expiration", {"expiresAt": end.isoformat()}).status == 200
    first.stop()
    time.sleep(max(0, (when(end.isoformat()) - datetime.datetime.now(datetime.timezone.utc)).total_seconds()))
    api = Api(start_server(home=home), spec)
    wait_for(lambda: api.get(f"/sandboxes/{sandbox_id}").status == 404, timeout=5, what="the end")


def test_an_entrypoint_that_ends_while_the_server_is_away(home, start_server, spec):
    first = start_server(home=home)
    api = Api(first, spec)
    sandbox_id = api.create(entrypoint=["/bin/sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; done; exit 5"])["id"]
    api.run(sandbox_id, "(sleep 1; touch /tmp/go) >/dev/null 2>&1 &")
    first.stop()
    time.sleep(1.2)  # it ends now
    api = Api(start_server(home=home), spec)
    status = api.wait_state(sandbox_id, "Failed")
    assert status["message"] == "Sandbox container exited with code 5."
    assert api.delete(sandbox_id).status == 204
