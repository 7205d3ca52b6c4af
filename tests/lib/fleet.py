# SPDX-License-Identifier: Apache-2.0
"""A client of the sandbox API that lives through restarts, and knows what it was told."""
import contextlib
import http.client
import json
import mmap
import struct
import time
import uuid

from conftest import KEY, Server

BODY = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}}
BROKEN = (OSError, http.client.HTTPException, ValueError)  # the answer never came, or not whole


class KillSwitch:
    """The file of base/kill_point.h."""

    def __init__(self, path):
        path.write_bytes(bytes(64))
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 64)

    @property
    def fd(self):
        return self.file.fileno()

    def arm(self, name, passes=1, alone=False):
        """ALONE: only the process that comes there dies, and not the program that it works for."""
        self.map[4:64] = (b"!" * alone + name.encode()).ljust(60, b"\0")
        self.map[0:4] = struct.pack("=I", passes)

    @property
    def left(self):
        return struct.unpack("=I", self.map[0:4])[0]

    def disarm(self):
        self.map[0:4] = bytes(4)

    def close(self):
        self.map.close()
        self.file.close()


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} took more than {seconds} s")
        time.sleep(0.02)


class Fleet:
    def __init__(self, server):
        self.server = server
        self.tokens = {}

    def ask(self, method, path, body=None, headers=None, timeout=30):
        """The answer, or None: the connection broke before it came."""
        return self.call(method, f"/v1/sandboxes{path}", body, headers, timeout)

    def call(self, method, path, body=None, headers=None, timeout=30):
        headers = {"Content-Type": "application/json", **(headers or {})} if body is not None else headers
        with contextlib.suppress(*BROKEN):
            return self.server.request(method, path, None if body is None else json.dumps(body), headers, timeout=timeout)
        return None

    def create(self, key=None, **more):
        return self.ask("POST", "", {**BODY, "timeout": 3600, **more}, {"Idempotency-Key": key} if key else {})

    def made(self, **more):
        """The id of a new one, which must work."""
        answer = self.create(**more)
        assert answer and answer.status == 202, (answer, self.server.stderr[-2000:])
        return answer.json["id"]

    def made_somehow(self, seconds=20, **more):
        """The same while the server is about to come back."""
        return until(lambda: (a := self.create(str(uuid.uuid4()), **more)) and a.status == 202 and a.json["id"], seconds, "a create")

    def get(self, name):
        return self.ask("GET", f"/{name}")

    def state(self, name):
        """As the server tells it; "none" for what is not there, None when it did not answer."""
        answer = self.get(name)
        if answer is None or answer.status >= 500:
            return None
        return "none" if answer.status == 404 else answer.json["status"]["state"]

    def ids(self):
        found, page = [], 1
        while True:
            answer = self.ask("GET", f"?pageSize=200&page={page}")
            if not answer or answer.status != 200:
                return None
            found += [row["id"] for row in answer.json["items"]]
            if not answer.json["pagination"]["hasNextPage"]:
                return set(found)
            page += 1

    def pause(self, name):
        return self.ask("POST", f"/{name}/pause")

    def resume(self, name):
        return self.ask("POST", f"/{name}/resume")

    def renew(self, name, when):
        return self.ask("POST", f"/{name}/renew-expiration", {"expiresAt": when})

    def patch(self, name, labels):
        with contextlib.suppress(*BROKEN):
            return self.server.request("PATCH", f"/v1/sandboxes/{name}/metadata", json.dumps(labels),
                                       {"Content-Type": "application/merge-patch+json"}, timeout=30)
        return None

    def delete(self, name):
        return self.ask("DELETE", f"/{name}")

    # ---- snapshots ----

    def snapshot_state(self, name):
        """As with sandboxes."""
        answer = self.call("GET", f"/v1/snapshots/{name}")
        if answer is None or answer.status >= 500:
            return None
        return "none" if answer.status == 404 else answer.json["status"]["state"]

    def snapshots(self):
        answer = self.call("GET", "/v1/snapshots?pageSize=200")
        return None if answer is None or answer.status != 200 else {row["id"] for row in answer.json["items"]}

    def settled_snapshots(self):
        """All that there are, once none is being taken any more, with the states that they are in."""
        def states():
            names = self.snapshots()
            found = {name: self.snapshot_state(name) for name in names or ()}
            return None if names is None or {None, "Creating", "none"} & {*found.values()} else (found,)
        return until(states, 10, "snapshots that are settled")[0]

    def taken(self, sandbox):
        """The id of a snapshot that is ready."""
        answer = self.ask("POST", f"/{sandbox}/snapshots")
        assert answer and answer.status == 202, answer
        name = answer.json["id"]
        until(lambda: self.snapshot_state(name) == "Ready", 10, "a snapshot")
        return name

    def remove_snapshot(self, name, seconds=15):
        def is_gone():
            answer = self.call("DELETE", f"/v1/snapshots/{name}")
            return answer and answer.status in (204, 404) and self.snapshot_state(name) == "none"
        until(is_gone, seconds, f"removing snapshot {name}")

    def token(self, name):
        """The headers that its execd wants, or None when they could not be had."""
        if name not in self.tokens:
            answer = self.ask("GET", f"/{name}/endpoints/44772")
            if answer is None or answer.status != 200:
                return None
            self.tokens[name] = answer.json["headers"]
        return self.tokens[name]

    def ping(self, name):
        """The status, or None."""
        token = self.token(name)
        answer = self.ask("GET", f"/{name}/proxy/44772/ping", headers=token) if token else None
        return answer and answer.status

    def command(self, name, line="echo fine", timeout=30):
        """What it printed, or None when it could not be asked."""
        token = self.token(name)
        if token is None:
            return None
        answer = self.ask("POST", f"/{name}/proxy/44772/command", {"command": line}, token, timeout)
        if answer is None or answer.status != 200:
            return None
        events = [json.loads(part) for part in answer.body.decode().split("\n\n") if part.strip()]
        if not events or events[-1]["type"] != "execution_complete":
            return None
        return "".join(e["text"] for e in events if e["type"] == "stdout")

    def works(self, name, seconds=10):
        until(lambda: self.command(name) == "fine", seconds, f"a command in {name} ({self.get(name)})")

    def remove(self, name, seconds=15):
        """Deletes it until it is known to be gone."""
        def is_gone():
            answer = self.delete(name)
            return answer and answer.status in (204, 404) and self.state(name) == "none"
        until(is_gone, seconds, f"removing {name}")

    def is_up(self):
        with contextlib.suppress(*BROKEN):
            return self.server.get("/health").status == 200 and self.server.children(True) and self.server.children(False)
        return False

    def wait_up(self, seconds=10):
        until(self.is_up, seconds, "the server's return")


@contextlib.contextmanager
def running(folder, home, clean=True, **more):
    """A server in HOME; with CLEAN all its sandboxes are deleted in the end, and it stops in order."""
    server = Server(folder, env={"OPENSANDBOX_SERVER_API_KEY": KEY, **more.pop("env", {})}, home=home, **more)
    fleet = Fleet(server)
    try:
        server.wait_ready()
        yield fleet
    finally:
        if clean and server.process.poll() is None:
            for name in until(lambda: None if (ids := fleet.ids()) is None else (ids,), 20, "a list")[0]:
                fleet.remove(name)
        if server.process.poll() is None:
            server.stop()
