# SPDX-License-Identifier: Apache-2.0
"""The audit file: who did what to which sandbox, with which outcome, and nothing that is secret (A9)."""
import json
import re
import stat

import pytest

from api import BODY, EXECD, Api, wait_for
from conftest import KEY, user_of

MEMBERS = {"ts", "request_id", "peer", "method", "path", "route", "sandbox", "status", "bytes", "took_ms"}


@pytest.fixture
def lines(api):
    """lines(id): what the file has of the request with this id."""

    def find(request_id):
        path = api.server.home.state / "server/audit.jsonl"
        rows = lambda: [json.loads(x) for x in path.read_text().splitlines()]  # noqa: E731
        return wait_for(lambda: [r for r in rows() if r["request_id"] == request_id], timeout=10, what="an audit line")

    return find


@pytest.mark.smoke
def test_every_call_is_one_line(api, lines, box):
    sandbox_id = box(timeout=60)["id"]
    at = f"/sandboxes/{sandbox_id}"
    calls = [
        ("GET", "/sandboxes", None, "/sandboxes", 200), ("GET", at, None, "/sandboxes/:id", 200),
        ("PATCH", f"{at}/metadata", {"a": "b"}, "/sandboxes/:id/metadata", 200),
        ("POST", f"{at}/pause", None, "/sandboxes/:id/pause", 202), ("POST", f"{at}/pause", None, "/sandboxes/:id/pause", 409),
        ("POST", f"{at}/resume", None, "/sandboxes/:id/resume", 202),
        ("POST", f"{at}/renew-expiration", {"expiresAt": "2099-01-01T00:00:00Z"}, "/sandboxes/:id/renew-expiration", 200),
        ("GET", f"{at}/endpoints/8080", None, "/sandboxes/:id/endpoints/:port", 200),
        ("GET", f"{at}/diagnostics/logs", None, "/sandboxes/:id/diagnostics/logs", 200),
        ("DELETE", at, None, "/sandboxes/:id", 204), ("DELETE", at, None, "/sandboxes/:id", 404),
    ]  # fmt: skip
    for prefix in ("", "/v1"):
        for method, path, body, route, status in calls if not prefix else calls[:1]:
            a = Api(api.server, api.spec, prefix).call(method, path, body)
            assert a.status == status, a
            (row,) = lines(a.headers["X-Request-ID"])
            assert row.keys() == (MEMBERS if path.startswith(at) else MEMBERS - {"sandbox"})
            assert (row["method"], row["path"], row["route"], row["status"]) == (method, prefix + path, route, status)
            assert row.get("sandbox") == (sandbox_id if path.startswith(at) else None)
            assert row["peer"] == "127.0.0.1" and row["bytes"] == len(a.body) and 0 <= row["took_ms"] < 60000
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["ts"])


def test_the_line_of_a_create_names_the_sandbox(api, lines):
    a = api.try_create(headers={"Idempotency-Key": "audit-1"})
    again = api.try_create(headers={"Idempotency-Key": "audit-1"})
    for answer in (a, again):
        (row,) = lines(answer.headers["X-Request-ID"])
        assert (row["status"], row["sandbox"]) == (202, a.json["id"])
    assert api.delete(a.json["id"]).status == 204
    failed = api.try_create(entrypoint=["/nowhere"])
    (row,) = lines(failed.headers["X-Request-ID"])
    assert row["status"] == 500 and "sandbox" not in row


def test_what_is_refused_is_there_too(api, lines):
    for a, status, route in [
        (api.get("/sandboxes", auth=False), 401, ""), (api.post("/sandboxes", {}), 422, "/sandboxes"),
        (api.server.get("/nowhere"), 404, ""), (api.server.request("PUT", "/sandboxes"), 405, ""),
    ]:  # fmt: skip
        (row,) = lines(a.headers["X-Request-ID"])
        assert (row["status"], row["route"]) == (status, route) and "sandbox" not in row


def test_proxied_calls_are_there_without_what_is_the_sandboxs_affair(api, lines, shared):
    for extra in (0, 1):
        mine = f"proxied-{extra}"
        token = api.endpoint(shared, EXECD)["headers"]
        way = f"/sandboxes/{shared}/proxy/{EXECD}/ping?hush=hush-query"
        saved, api.server.port = api.server.port, api.server.port + extra
        try:
            a = api.server.get(way, auth=False, headers={**token, "X-Request-ID": mine})
        finally:
            api.server.port = saved
        assert a.status == 200
        (row,) = lines(mine)
        assert row["path"] == f"/sandboxes/{shared}/proxy/{EXECD}/" and row["sandbox"] == shared
        assert row["route"] == "/sandboxes/:id/proxy/:port/*"


def test_nothing_in_it_is_secret(api, lines, box):
    secrets = {"env": {"A": "hush-env"}, "image": {"uri": "host", "auth": {"username": "hush-user", "password": "hush-word"}},
               "metadata": {"m": "hush-meta"}, "entrypoint": ["sleep", "1000", "hush-arg"]}  # fmt: skip
    made = api.try_create(headers={"Idempotency-Key": "hush-key", "Authorization": "Bearer hush-bearer", "Cookie": "hush-cookie"},
                          **{k: v for k, v in secrets.items() if k != "entrypoint"})  # fmt: skip
    assert made.status == 202
    token = api.endpoint(made.json["id"], EXECD)["headers"]["X-EXECD-ACCESS-TOKEN"]
    last = api.get("/sandboxes?metadata=m%3Dhush-meta")
    assert lines(last.headers["X-Request-ID"])
    assert api.delete(made.json["id"]).status == 204
    text = (api.server.home.state / "server/audit.jsonl").read_text()
    for found in (text, api.server.stderr):
        assert "hush" not in found and KEY not in found and token not in found


def test_lines_cannot_be_forged(api, lines):
    odd = [("/sandboxes/%22%7D%0A%7B%22status%22:200", 400), ("/sandboxes/%22%7D,%7B%22a", 404), ('/sandboxes/"},{"', 404)]
    for path, status in odd:
        mine = f'a"}},{{"b {path[-5:]}'
        assert api.server.get(path, headers={"X-Request-ID": mine}).status == status
        (row,) = lines(mine)
        assert (row["path"], row["status"]) == (path, status) and "sandbox" not in row
    text = (api.server.home.state / "server/audit.jsonl").read_text()
    assert all(json.loads(line).keys() <= MEMBERS for line in text.splitlines())


def test_the_file_is_the_servers_alone(api, lines):
    assert lines(api.get("/sandboxes").headers["X-Request-ID"])
    st = (api.server.home.state / "server/audit.jsonl").stat()
    assert stat.S_IMODE(st.st_mode) == 0o600 and st.st_uid == user_of(api.server.pid) != 0


def test_a_client_that_goes_is_noted_once(api, lines):
    body = json.dumps({**BODY, "metadata": {"who": "gone"}}).encode()
    headers = ["Host: h", "X-Request-ID: gone-1", f"OPEN-SANDBOX-API-KEY: {KEY}", f"Content-Length: {len(body)}"]
    with api.server.connect() as s:
        s.sendall("\r\n".join(["POST /sandboxes HTTP/1.1", *headers, "", ""]).encode() + body)
    (row,) = lines("gone-1")
    (made,) = wait_for(lambda: api.get("/sandboxes?metadata=who%3Dgone&state=Running").json["items"], what="its sandbox")
    assert row["sandbox"] == made["id"]
    assert api.delete(made["id"]).status == 204
    assert lines("gone-1") == [row]
