# SPDX-License-Identifier: Apache-2.0
"""The API of sandboxes as a client has it. Every answer of the server itself is held to specs/server.yml."""
import contextlib
import datetime
import http.client
import json
import time

TIMEOUT_S = 60
POLL_S = 0.02
EXECD, EGRESS = 44772, 18080
STAY = ["tail", "-f", "/dev/null"]
BODY = {"image": {"uri": "host"}, "entrypoint": STAY, "resourceLimits": {}}


def wait_for(condition, timeout=TIMEOUT_S, what="it"):
    """The first true value of CONDITION(), or a failure."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise AssertionError(f"{what} did not come true within {timeout} s")


def seen(look, what="a warden"):
    """What LOOK() finds in a warden's mounts, once there is one: who was killed is replaced a moment later."""
    def found():
        with contextlib.suppress(OSError, IndexError):
            return [look()]
        return None
    return wait_for(found, what=what)[0]


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def nulls(value, path="$"):
    """Where VALUE has a null."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from nulls(member, f"{path}.{key}")
    elif isinstance(value, list):
        for i, member in enumerate(value):
            yield from nulls(member, f"{path}[{i}]")


class Api:
    """PREFIX is "" or "/v1"."""

    def __init__(self, server, spec, prefix=""):
        self.server, self.spec, self.prefix = server, spec, prefix

    def call(self, method, path, body=None, headers=None, **more):
        """One request; BODY is sent as JSON unless it is bytes. The answer is what the document says."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        more.setdefault("timeout", TIMEOUT_S)
        a = self.server.request(method, self.prefix + path, body=body, headers=headers, **more)
        self.spec.check_answer(method, self.prefix + path, a)
        return a

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, body, **more)

    def refused(self, answer, status, code, *words):
        """An error with this status and code, whose message has all WORDS. No handler says "detail", but of a bad schema."""
        assert (answer.status, answer.json["code"]) == (status, code), answer.body
        assert ("detail" in answer.json) == (status == 422 or code in ("NOT_FOUND", "METHOD_NOT_ALLOWED")), answer.body
        for word in words:
            assert word in answer.json["message"], answer.body
        return answer

    # ---- sandboxes ----

    def create(self, body=None, headers=None, **changes):
        """The object that a create answers. CHANGES are members of the body; one that is ... is left out."""
        whole = {**BODY, **(body or {}), **changes}
        a = self.post("/sandboxes", {k: v for k, v in whole.items() if v is not ...}, headers=headers)
        assert a.status == 202, a
        return a.json

    def try_create(self, headers=None, **changes):
        whole = {**BODY, **changes}
        return self.post("/sandboxes", {k: v for k, v in whole.items() if v is not ...}, headers=headers)

    def read(self, sandbox_id):
        a = self.get(f"/sandboxes/{sandbox_id}")
        assert a.status == 200, a
        return a.json

    def state(self, sandbox_id):
        return self.read(sandbox_id)["status"]["state"]

    def wait_state(self, sandbox_id, *states):
        return wait_for(lambda: (s := self.read(sandbox_id)["status"])["state"] in states and s, what=f"state {states}")

    def delete(self, sandbox_id):
        return self.call("DELETE", f"/sandboxes/{sandbox_id}")

    def pause(self, sandbox_id):
        a = self.post(f"/sandboxes/{sandbox_id}/pause")
        assert a.status == 202, a

    def resume(self, sandbox_id):
        a = self.post(f"/sandboxes/{sandbox_id}/resume")
        assert a.status == 202, a

    def events(self, sandbox_id):
        a = self.get(f"/sandboxes/{sandbox_id}/diagnostics/events?limit=500")
        assert a.status == 200, a
        return a.body.decode()

    # ---- snapshots ----

    def snapshot(self, sandbox_id, name=None):
        """The id of a new snapshot that is ready."""
        a = self.post(f"/sandboxes/{sandbox_id}/snapshots", {"name": name} if name else None)
        assert a.status == 202, a
        self.snapshot_ready(a.json["id"])
        return a.json["id"]

    def read_snapshot(self, snapshot_id):
        a = self.get(f"/snapshots/{snapshot_id}")
        assert a.status == 200, a
        return a.json

    def snapshot_ready(self, snapshot_id):
        status = wait_for(lambda: (s := self.read_snapshot(snapshot_id)["status"])["state"] != "Creating" and s, what="a snapshot")
        assert status["state"] == "Ready", status
        return status

    def restore(self, snapshot_id, **changes):
        return self.create(image=..., entrypoint=..., snapshotId=snapshot_id, **changes)["id"]

    def delete_snapshot(self, snapshot_id):
        return self.call("DELETE", f"/snapshots/{snapshot_id}")

    def fork(self, sandbox_id, **body):
        """The ids of the new sandboxes."""
        a = self.post(f"/sandboxes/{sandbox_id}/fork", body)
        assert a.status == 202, a
        return [s["id"] for s in a.json["items"]]

    def rollback(self, sandbox_id, snapshot_id, **more):
        a = self.post(f"/sandboxes/{sandbox_id}/rollback", {"snapshotId": snapshot_id, **more})
        assert a.status == 200, a
        return a.json

    # ---- ways in ----

    def endpoint(self, sandbox_id, port, query=""):
        a = self.get(f"/sandboxes/{sandbox_id}/endpoints/{port}{query}")
        assert a.status == 200, a
        return a.json

    def run_or_none(self, sandbox_id, command):
        """As run() does, while somebody may be away."""
        with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
            return self.run(sandbox_id, command)
        return None

    def run(self, sandbox_id, command, **more):
        """What a command writes to its standard output, one string per line."""
        endpoint = self.endpoint(sandbox_id, EXECD)
        host, path = endpoint["endpoint"].split("/", 1)
        with contextlib.closing(self.server.http(host, timeout=TIMEOUT_S)) as c:
            c.request("POST", f"/{path}/command", json.dumps({"command": command, **more}), endpoint["headers"])
            response = c.getresponse()
            body = response.read()
            assert response.status == 200, body
        events = [json.loads(line) for line in body.split(b"\n\n") if line]
        assert events[-1]["type"] in ("execution_complete", "error"), events
        return [e["text"] for e in events if e["type"] == "stdout"]
