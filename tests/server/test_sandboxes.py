# SPDX-License-Identifier: Apache-2.0
"""The life of a sandbox by its routes: made, read, paused, resumed, renewed, deleted."""
import concurrent.futures
import datetime
import re
import time
import uuid

import pytest

from api import BODY, EGRESS, EXECD, STAY, Api, nulls, wait_for, when

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
UTC = datetime.timezone.utc
NO_ID = "00000000-0000-4000-8000-000000000000"


def in_seconds(s):
    return (datetime.datetime.now(UTC) + datetime.timedelta(seconds=s)).isoformat()


def calls(sandbox_id):
    """Every route of one sandbox that answers with an object or nothing: method, path, body."""
    at = f"/sandboxes/{sandbox_id}"
    return [
        ("GET", at, None), ("DELETE", at, None), ("PATCH", f"{at}/metadata", {"a": "b"}), ("POST", f"{at}/pause", None),
        ("POST", f"{at}/resume", None), ("POST", f"{at}/renew-expiration", {"expiresAt": in_seconds(600)}),
        ("GET", f"{at}/endpoints/8080", None), ("GET", f"{at}/diagnostics/logs", None),
        ("GET", f"{at}/diagnostics/events", None), ("GET", f"{at}/diagnostics/inspect", None),
        ("GET", f"{at}/diagnostics/summary", None), ("GET", f"{at}/diagnostics/logs?scope=container", None),
    ]  # fmt: skip


# ---- the list of rules that clients break without ----


def test_optional_members_are_left_out_never_null(api, box):
    created = box(timeout=None, metadata=None, env=None, platform=None)
    sandbox = api.read(created["id"])
    (item,) = [i for i in api.get("/sandboxes?pageSize=200").json["items"] if i["id"] == created["id"]]
    patched = api.call("PATCH", f"/sandboxes/{created['id']}/metadata", {"a": None}).json
    for answer in (created, sandbox, item, patched, api.endpoint(created["id"], 8080)):
        assert not list(nulls(answer))
    for name in ("expiresAt", "metadata", "platform", "snapshotId"):
        assert name not in created and name not in sandbox and name not in item and name not in patched
    assert "image" not in created
    assert api.endpoint(created["id"], 8080).keys() == {"endpoint"}


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_statuses_are_exactly_those_that_clients_know(server, spec, prefix):
    api = Api(server, spec, prefix)
    made = api.post("/sandboxes", {**BODY, "timeout": 60})
    at = f"/sandboxes/{made.json['id']}"
    assert made.status == 202 and made.headers["Location"] == f"/v1{at}"
    assert api.get(at).status == api.get("/sandboxes").status == 200
    for turn in ("pause", "resume"):
        a = api.post(f"{at}/{turn}")
        assert (a.status, a.body, a.headers["Content-Length"]) == (202, b"", "0")
        assert "Transfer-Encoding" not in a.headers
    assert api.call("PATCH", f"{at}/metadata", {"a": "b"}).status == 200
    assert api.post(f"{at}/renew-expiration", {"expiresAt": in_seconds(90)}).status == 200
    assert api.get(f"{at}/endpoints/8080").status == 200
    for kind in ("logs", "events", "inspect", "summary"):
        assert api.get(f"{at}/diagnostics/{kind}").status == 200
    gone = api.call("DELETE", at)
    assert (gone.status, gone.body) == (204, b"")
    assert "Content-Length" not in gone.headers and "Transfer-Encoding" not in gone.headers


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_every_error_is_an_object_with_code_and_message(server, spec, prefix):
    api = Api(server, spec, prefix)
    for method, path, body in [("POST", "/sandboxes", {}), ("GET", "/sandboxes?page=0", None), *calls(NO_ID)]:
        a = api.call(method, path, body)
        assert a.status in (404, 422) and a.headers["Content-Type"] == "application/json"
        assert a.json["code"] and a.json["message"]


def test_the_entrypoint_is_in_every_answer(api, box):
    sandbox = box()
    patched = api.call("PATCH", f"/sandboxes/{sandbox['id']}/metadata", {"a": "b"}).json
    listed = api.get("/sandboxes").json["items"][0]
    for answer in (sandbox, api.read(sandbox["id"]), patched, listed):
        assert answer["entrypoint"] == STAY


def test_port_18080_has_an_endpoint_without_any_policy(api, shared):
    for query in ("", "?use_server_proxy=true", "?use_server_proxy=false"):
        assert api.get(f"/sandboxes/{shared}/endpoints/{EGRESS}{query}").status == 200


@pytest.mark.parametrize("port", [EXECD, EGRESS, 8080, 1, 65535])
@pytest.mark.parametrize("query", ["", "?use_server_proxy=true"])
def test_endpoints_have_no_scheme(api, shared, port, query):
    endpoint = api.endpoint(shared, port, query)["endpoint"]
    assert re.fullmatch(rf"127\.0\.0\.1:\d+/sandboxes/{shared}/proxy/{port}", endpoint)


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_the_proxy_needs_no_key(api, shared, prefix):
    token = api.endpoint(shared, EXECD)["headers"]
    a = api.server.get(f"{prefix}/sandboxes/{shared}/proxy/{EXECD}/ping", auth=False, headers=token)
    assert (a.status, a.body) == (200, b"")


@pytest.mark.smoke
def test_what_is_created_is_running_already(api, box):
    sandbox = box()
    assert sandbox["status"]["state"] == "Running"
    assert api.state(sandbox["id"]) == "Running"
    assert api.run(sandbox["id"], "echo hello") == ["hello"]


def test_a_create_is_far_from_the_timeout_of_clients(box):
    began = time.monotonic()
    box()
    assert time.monotonic() - began < 10  # clients wait for 30 s


def test_null_stands_for_absent(box):
    names = ("snapshotId", "platform", "timeout", "env", "metadata", "networkPolicy", "credentialProxy", "secureAccess",
             "volumes", "extensions")  # fmt: skip
    sandbox = box(**dict.fromkeys(names), image={"uri": "host", "auth": None})
    assert "expiresAt" not in sandbox


def test_times_have_an_offset(api, box):
    sandbox = box(timeout=60)
    renewed = api.post(f"/sandboxes/{sandbox['id']}/renew-expiration", {"expiresAt": in_seconds(90)}).json
    for time_ in (sandbox["createdAt"], sandbox["expiresAt"], sandbox["status"]["lastTransitionAt"], renewed["expiresAt"]):
        assert TIME.fullmatch(time_)


def test_every_answer_has_a_request_id(api, shared):
    for method, path, body in [("GET", "/sandboxes", None), ("POST", "/sandboxes", {}), *calls(NO_ID)]:
        assert re.fullmatch("[0-9a-f]{32}", api.call(method, path, body).headers["X-Request-ID"])
        mine = api.call(method, path, body, headers={"X-Request-ID": " mine-1 "})
        assert mine.headers["X-Request-ID"] == "mine-1"
    assert api.get(f"/sandboxes/{shared}", headers={"X-Request-ID": "mine-2"}).headers["X-Request-ID"] == "mine-2"


# ---- who may ----


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_every_route_needs_the_key(server, spec, shared, prefix):
    api = Api(server, spec, prefix)
    for method, path, body in [("POST", "/sandboxes", BODY), ("GET", "/sandboxes", None), *calls(shared)]:
        api.refused(api.call(method, path, body, auth=False), 401, "MISSING_API_KEY", "OPEN-SANDBOX-API-KEY")
        wrong = {"OPEN-SANDBOX-API-KEY": "0" * 32}
        api.refused(api.call(method, path, body, headers=wrong), 401, "INVALID_API_KEY")
    assert api.state(shared) == "Running"


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("name", [NO_ID, "x", "A", "-x", "x" * 64, "x" * 300, "a.b", "a%20b", "%C3%A9", "'", "*"])
def test_unknown_ids_are_not_found(server, spec, prefix, name):
    api = Api(server, spec, prefix)
    for method, path, body in calls(name):
        a = api.refused(api.call(method, path, body), 404, "NATIVE::SANDBOX_NOT_FOUND", "not found")
        assert set(a.json) == {"code", "message"}  # "detail" is for paths and methods that nobody knows


def test_other_methods_are_named(api, shared):
    for method, path, allow in [
        ("PUT", "/sandboxes", "GET, HEAD, POST"), ("POST", f"/sandboxes/{shared}", "DELETE, GET, HEAD"),
        ("GET", f"/sandboxes/{shared}/pause", "POST"), ("PUT", f"/sandboxes/{shared}/metadata", "PATCH"),
    ]:  # fmt: skip
        a = api.server.request(method, path)
        assert (a.status, a.json["code"]) == (405, "METHOD_NOT_ALLOWED")
        assert sorted(a.headers["Allow"].split(", ")) == sorted(allow.split(", "))


def test_one_slash_too_many_is_redirected(api, shared):
    for method, path in (("POST", "/sandboxes/"), ("GET", f"/v1/sandboxes/{shared}/?a=b"), ("DELETE", f"/sandboxes/{shared}/")):
        a = api.server.request(method, path)
        assert (a.status, a.headers["Location"]) == (307, path.replace("/?", "?").removesuffix("/"))
    assert api.state(shared) == "Running"


# ---- reading ----


def test_what_a_sandbox_looks_like(api, box):
    asked = {"timeout": 300, "metadata": {"team": "infra", "a.b/c": ""}, "platform": {"os": " Linux", "arch": "AMD64 "}}
    created = box(**asked)
    assert str(uuid.UUID(created["id"], version=4)) == created["id"]
    assert created["metadata"] == asked["metadata"]
    assert created["platform"] == {"os": "linux", "arch": "amd64"}
    assert (when(created["expiresAt"]) - when(created["createdAt"])).total_seconds() == 300
    assert created["status"]["reason"] == "CONTAINER_RUNNING"
    assert created["status"]["message"] == "Sandbox container started successfully."
    sandbox = api.read(created["id"])
    assert sandbox.pop("image") == {"uri": "host"}
    assert sandbox["status"].pop("message") == "Sandbox container is running."
    del created["status"]["message"]
    assert sandbox == created
    assert abs((datetime.datetime.now(UTC) - when(created["createdAt"])).total_seconds()) < 60


def test_what_is_read_over_head_is_the_same_without_a_body(api, shared):
    get, head = api.get(f"/sandboxes/{shared}"), api.call("HEAD", f"/sandboxes/{shared}")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"]


# ---- pause and resume ----


def test_pause_freezes_and_resume_goes_on(api, box):
    sandbox_id = box(entrypoint=["/bin/sh", "-c", "while :; do echo tick; sleep 0.05; done"])["id"]
    at = f"/sandboxes/{sandbox_id}"
    lines = lambda: api.get(f"{at}/diagnostics/logs?tail=10000").body.count(b"tick")  # noqa: E731
    wait_for(lambda: lines() > 1, what="a tick")
    api.pause(sandbox_id)
    status = api.read(sandbox_id)["status"]
    assert (status["state"], status["reason"]) == ("Paused", "CONTAINER_PAUSED")
    assert status["message"] == "Sandbox container is paused."
    frozen = lines()
    time.sleep(0.3)  # six ticks, if it were not
    assert lines() == frozen
    api.resume(sandbox_id)
    status = api.read(sandbox_id)["status"]
    assert (status["state"], status["reason"]) == ("Running", "CONTAINER_RUNNING")
    wait_for(lambda: lines() > frozen, what="a tick after the pause")
    assert api.run(sandbox_id, "echo again") == ["again"]


def test_memory_files_and_endpoints_outlive_a_pause(api, box):
    sandbox_id = box()["id"]
    before = [api.endpoint(sandbox_id, port) for port in (EXECD, EGRESS, 8080)]
    api.run(sandbox_id, "echo kept >/tmp/file; (sleep 1000 & echo $! >/tmp/pid)")
    api.pause(sandbox_id)
    api.resume(sandbox_id)
    assert api.run(sandbox_id, "cat /tmp/file; kill -0 $(cat /tmp/pid) && echo alive") == ["kept", "alive"]
    assert [api.endpoint(sandbox_id, port) for port in (EXECD, EGRESS, 8080)] == before


def test_turns_in_the_wrong_state_are_conflicts(api, box):
    sandbox_id = box()["id"]
    at = f"/sandboxes/{sandbox_id}"
    api.refused(api.post(f"{at}/resume"), 409, "NATIVE::SANDBOX_NOT_PAUSED", "Running")
    api.pause(sandbox_id)
    api.refused(api.post(f"{at}/pause"), 409, "NATIVE::SANDBOX_NOT_RUNNING", "Paused")
    assert api.state(sandbox_id) == "Paused"


def test_an_ended_sandbox_takes_no_turn(api, box):
    sandbox_id = box(entrypoint=["true"])["id"]
    api.wait_state(sandbox_id, "Terminated")
    at = f"/sandboxes/{sandbox_id}"
    api.refused(api.post(f"{at}/pause"), 409, "NATIVE::SANDBOX_NOT_RUNNING", "Terminated")
    api.refused(api.post(f"{at}/resume"), 409, "NATIVE::SANDBOX_NOT_PAUSED", "Terminated")


def test_bodies_of_calls_that_need_none_are_ignored(api, box):
    sandbox_id = box()["id"]
    at = f"/sandboxes/{sandbox_id}"
    assert api.post(f"{at}/pause", headers={"Content-Type": "application/json", "Content-Length": "0"}).status == 202
    assert api.post(f"{at}/resume", headers={"Content-Type": "application/json"}).status == 202
    assert api.post(f"{at}/pause", {}).status == 202
    assert api.post(f"{at}/resume", b"null").status == 202


def test_parallel_turns_are_one_after_the_other(api, box):
    sandbox_id = box()["id"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        pauses = list(pool.map(lambda _: api.post(f"/sandboxes/{sandbox_id}/pause").status, range(8)))
        resumes = list(pool.map(lambda _: api.post(f"/sandboxes/{sandbox_id}/resume").status, range(8)))
    assert sorted(pauses) == sorted(resumes) == [202] + [409] * 7
    assert api.run(sandbox_id, "echo fine") == ["fine"]


def test_a_call_into_a_paused_sandbox_is_refused_at_once(api, box):
    sandbox_id = box()["id"]
    headers = api.endpoint(sandbox_id, EXECD)["headers"]
    api.pause(sandbox_id)
    for port in (EXECD, 8080):
        began = time.monotonic()
        a = api.get(f"/sandboxes/{sandbox_id}/proxy/{port}/ping", auth=False, headers=headers)
        api.refused(a, 409, "NATIVE::SANDBOX_NOT_RUNNING", sandbox_id, "Paused")
        assert time.monotonic() - began < 5  # nobody has waited for an answer


# ---- delete ----


@pytest.mark.parametrize("state", ["Running", "Paused", "Terminated", "Failed"])
def test_delete_works_in_every_state(api, state):
    entrypoint = {"Terminated": ["true"], "Failed": ["false"]}.get(state, STAY)
    sandbox_id = api.create(entrypoint=entrypoint)["id"]
    if state == "Paused":
        api.pause(sandbox_id)
    api.wait_state(sandbox_id, state)
    assert api.delete(sandbox_id).status == 204
    for method, path, body in calls(sandbox_id):
        api.refused(api.call(method, path, body), 404, "NATIVE::SANDBOX_NOT_FOUND", sandbox_id)
    assert sandbox_id not in [s["id"] for s in api.get("/sandboxes?pageSize=200").json["items"]]


def test_deletes_in_parallel_have_one_answer_or_404(api):
    sandbox_id = api.create()["id"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(lambda _: api.delete(sandbox_id).status, range(8)))
    assert 204 in statuses and statuses <= {204, 404}


def test_nothing_is_left_of_what_was_deleted(api):
    before = len(api.server.home.groups())
    made = [api.create()["id"] for _ in range(3)]
    for sandbox_id in made:
        assert api.delete(sandbox_id).status == 204
    names = lambda: " ".join(str(g) for g in api.server.home.groups())  # noqa: E731
    assert not [m for m in made if m in names()]
    wait_for(lambda: len(api.server.home.groups()) <= before, what="as many groups as before")


# ---- renew ----


def renew(api, sandbox_id, value):
    return api.post(f"/sandboxes/{sandbox_id}/renew-expiration", {"expiresAt": value})


def test_renewals_may_be_later_and_earlier(api, box):
    sandbox_id = box(timeout=600)["id"]
    for seconds in (1200, 300):
        want = (datetime.datetime.now(UTC) + datetime.timedelta(seconds=seconds)).replace(microsecond=123456)
        a = renew(api, sandbox_id, want.isoformat())
        assert a.status == 200 and when(a.json["expiresAt"]) == want
        assert api.read(sandbox_id)["expiresAt"] == a.json["expiresAt"]


@pytest.mark.parametrize(
    "text, want",
    [
        ("2099-01-01T10:15:30Z", "2099-01-01T10:15:30Z"),
        ("2099-01-01T10:15:30.5Z", "2099-01-01T10:15:30.500000Z"),
        ("2099-01-01T10:15:30.123456789Z", "2099-01-01T10:15:30.123456Z"),
        ("2099-01-01T10:15:30.1234567Z", "2099-01-01T10:15:30.123456Z"),
        ("2099-01-01T10:15:30.123Z", "2099-01-01T10:15:30.123000Z"),
        ("2099-01-01T10:15:30.000000+00:00", "2099-01-01T10:15:30Z"),
        ("2099-01-01T10:15:30+08:00", "2099-01-01T02:15:30Z"),
        ("2099-01-01T10:15+08:00", "2099-01-01T02:15:00Z"),
        ("2099-01-01T10:15:30", "2099-01-01T10:15:30Z"),
    ],
)
def test_every_form_of_time_that_clients_send(api, renewable, text, want):
    a = renew(api, renewable, text)
    assert (a.status, a.json["expiresAt"]) == (200, want)
    assert api.read(renewable)["expiresAt"] == want


@pytest.fixture(scope="module")
def renewable(api):
    sandbox_id = api.create(timeout=3600)["id"]
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204


@pytest.mark.parametrize(
    "value", ["", "soon", "2099-13-01T00:00:00Z", "2099-01-01", "2099-01-01T25:00:00Z", 4102444800, None, True, [], {}]
)
def test_what_is_no_time_is_422_and_names_the_member(api, renewable, value):
    before = api.read(renewable)["expiresAt"]
    a = api.refused(renew(api, renewable, value), 422, "SANDBOX::INVALID_PARAMETER", "expiresAt")
    assert a.json["detail"][0]["loc"] == ["body", "expiresAt"]
    assert api.read(renewable)["expiresAt"] == before


@pytest.mark.parametrize("body", [None, b"", b"{", b"[]", b"1", b"null", b'"x"', b"{}", b'{"expires":1}', b"\xff"])
def test_a_renewal_that_is_no_object_with_a_time(api, renewable, body):
    api.refused(api.post(f"/sandboxes/{renewable}/renew-expiration", body), 422, "SANDBOX::INVALID_PARAMETER")


def test_the_snake_case_name_is_taken(api, renewable):
    a = api.post(f"/sandboxes/{renewable}/renew-expiration", {"expires_at": "2098-01-01T00:00:00Z"})
    assert a.json["expiresAt"] == "2098-01-01T00:00:00Z"


def test_the_past_is_refused(api, renewable):
    for value in (in_seconds(-1), "1970-01-01T00:00:00Z", "2020-01-01T00:00:00+05:30"):
        api.refused(renew(api, renewable, value), 400, "NATIVE::INVALID_EXPIRATION", "expiresAt", "future")


def test_what_has_no_expiry_gets_none(api, shared):
    assert "expiresAt" not in api.read(shared)
    api.refused(renew(api, shared, in_seconds(600)), 409, "NATIVE::INVALID_EXPIRATION", "no expiry")
    api.refused(renew(api, shared, in_seconds(-600)), 400, "NATIVE::INVALID_EXPIRATION", "expiresAt")
    assert "expiresAt" not in api.read(shared)


def test_paused_and_ended_sandboxes_can_be_renewed(api, box):
    paused, ended = box(timeout=60)["id"], box(timeout=60, entrypoint=["true"])["id"]
    api.pause(paused)
    api.wait_state(ended, "Terminated")
    for sandbox_id in (paused, ended):
        assert renew(api, sandbox_id, "2099-01-01T00:00:00Z").status == 200
        assert api.read(sandbox_id)["expiresAt"] == "2099-01-01T00:00:00Z"


@pytest.mark.parametrize("state", ["Running", "Paused", "Terminated"])
def test_expiry_ends_it_within_five_seconds(api, state):
    sandbox_id = api.create(timeout=60, entrypoint=["true"] if state == "Terminated" else STAY)["id"]
    if state == "Paused":
        api.pause(sandbox_id)
    api.wait_state(sandbox_id, state)
    end = datetime.datetime.now(UTC) + datetime.timedelta(seconds=1)
    assert renew(api, sandbox_id, end.isoformat()).status == 200
    assert api.state(sandbox_id) in (state, "Stopping")
    wait_for(lambda: api.get(f"/sandboxes/{sandbox_id}").status == 404, timeout=6, what="the end")
    assert end <= datetime.datetime.now(UTC)
    assert not [g for g in api.server.home.groups() if sandbox_id in str(g)]


# ---- metadata ----


def patch(api, sandbox_id, changes):
    return api.call("PATCH", f"/sandboxes/{sandbox_id}/metadata", changes)


def test_a_patch_adds_replaces_and_deletes(api, box):
    sandbox_id = box(metadata={"a": "1", "b": "2", "c": "3"})["id"]
    a = patch(api, sandbox_id, {"a": "x", "b": None, "d": "4", "none": None, "e": ""})
    want = {"a": "x", "c": "3", "d": "4", "e": ""}
    assert (a.status, a.json["metadata"]) == (200, want)
    assert api.read(sandbox_id) == a.json
    assert [s["id"] for s in api.get("/sandboxes?metadata=a%3Dx%26d%3D4").json["items"]] == [sandbox_id]
    assert api.get("/sandboxes?metadata=b%3D2").json["items"] == []
    again = patch(api, sandbox_id, {"f": "5"})  # what was deleted does not come back
    assert again.json["metadata"] == {**want, "f": "5"}
    empty = patch(api, sandbox_id, dict.fromkeys(again.json["metadata"]))
    assert "metadata" not in empty.json and "metadata" not in api.read(sandbox_id)


def test_an_empty_patch_changes_nothing(api, shared):
    assert patch(api, shared, {}).json == api.read(shared)


@pytest.mark.parametrize("body", [None, b"", b"[]", b"1", b'"a"', b"null", b"{", b'{"a":"b"', b'{"a":"b"}x'])
def test_a_patch_that_is_no_object(api, shared, body):
    api.refused(patch(api, shared, body), 422, "SANDBOX::INVALID_PARAMETER")


@pytest.mark.parametrize("value", [1, True, 1.5, [], {}, ["a"]])
def test_a_value_that_is_no_string_is_named(api, shared, value):
    a = api.refused(patch(api, shared, {"good": "x", "bad-one": value}), 422, "SANDBOX::INVALID_PARAMETER", "bad-one")
    assert a.json["detail"][0]["loc"] == ["body", "bad-one"]
    assert "good" not in api.read(shared)["metadata"]


def test_a_key_that_comes_twice_is_refused(api, shared):
    api.refused(patch(api, shared, b'{"a":"1","a":"2"}'), 422, "SANDBOX::INVALID_PARAMETER", "a")


GOOD_LABELS = [("a", "b"), ("A9", "Z0"), ("a-b_c.d", "x-y_z.w"), ("x" * 63, "y" * 63), ("a.b-c/d", "e"), ("k", ""),
               ("a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 61 + "/k", "v")]  # fmt: skip
BAD_LABELS = [("", "b"), ("-a", "b"), ("a-", "b"), ("a b", "b"), ("é", "b"), ("x" * 64, "b"), ("a/", "b"), ("/a", "b"),
              ("A/b", "c"), ("a/b/c", "d"), ("a..b/c", "d"), ("-a/b", "c"), ("a" * 254 + "/k", "v"), ("k", "a b"), ("k", "-a"),
              ("k", "a-"), ("k", "é"), ("k", "x" * 64), ("k", "a/b"), ("k", "a\nb"), ("a\nb", "c")]  # fmt: skip


@pytest.mark.parametrize("key, value", GOOD_LABELS)
def test_labels_as_kubernetes_allows_them(api, labelled, key, value):
    assert patch(api, labelled, {key: value}).json["metadata"][key] == value


@pytest.fixture(scope="module")
def labelled(api):
    sandbox_id = api.create(metadata=dict(GOOD_LABELS))["id"]
    assert api.read(sandbox_id)["metadata"] == dict(GOOD_LABELS)
    yield sandbox_id
    assert api.delete(sandbox_id).status == 204


@pytest.mark.parametrize("key, value", BAD_LABELS)
def test_other_labels_are_refused_and_named(api, labelled, key, value):
    before = api.read(labelled)["metadata"]
    a = api.refused(patch(api, labelled, {key: value}), 400, "SANDBOX::INVALID_METADATA_LABEL")
    assert "name" in a.json["message"] or "prefix" in a.json["message"] or "value" in a.json["message"]
    a = api.refused(api.try_create(metadata={key: value}), 400, "SANDBOX::INVALID_METADATA_LABEL", "metadata")
    assert api.read(labelled)["metadata"] == before


def test_the_reserved_prefix_cannot_be_set_or_deleted(api, shared):
    for value in ("x", None):
        api.refused(patch(api, shared, {"opensandbox.io/id": value}), 400, "INVALID_METADATA_LABEL", "opensandbox.io/")
    a = api.try_create(metadata={"opensandbox.io/id": "x"})
    api.refused(a, 400, "SANDBOX::INVALID_METADATA_LABEL", "metadata", "opensandbox.io/")


def test_metadata_is_bounded(api, box):
    sandbox_id = box(metadata={f"k{i}": "v" for i in range(64)})["id"]
    api.refused(patch(api, sandbox_id, {"one-more": "v"}), 400, "SANDBOX::INVALID_METADATA_LABEL", "64")
    assert patch(api, sandbox_id, {"one-more": "v", "k0": None}).status == 200
    a = api.try_create(metadata={f"k{i}": "v" for i in range(65)})
    api.refused(a, 400, "SANDBOX::INVALID_PARAMETER", "metadata", "64")


# ---- how entrypoints end ----


@pytest.mark.parametrize(
    "entrypoint, state, reason, message",
    [
        (["true"], "Terminated", "CONTAINER_EXITED", "Sandbox container exited successfully."),
        (["false"], "Failed", "CONTAINER_EXITED_ERROR", "Sandbox container exited with code 1."),
        (["/bin/sh", "-c", "exit 77"], "Failed", "CONTAINER_EXITED_ERROR", "Sandbox container exited with code 77."),
        (["/bin/sh", "-c", "kill -9 $$"], "Failed", "CONTAINER_EXITED_ERROR", "Sandbox container exited with code 137."),
        (["/bin/sh", "-c", "kill -TERM $$"], "Failed", "CONTAINER_EXITED_ERROR", "Sandbox container exited with code 143."),
        (["sh -c 'exit 3'"], "Failed", "CONTAINER_EXITED_ERROR", "Sandbox container exited with code 3."),
    ],
)
def test_a_sandbox_ends_with_its_entrypoint(api, box, entrypoint, state, reason, message):
    sandbox = box(entrypoint=entrypoint, timeout=600)
    assert sandbox["entrypoint"] == entrypoint
    status = api.wait_state(sandbox["id"], "Terminated", "Failed")
    assert (status["state"], status["reason"], status["message"]) == (state, reason, message)
    assert when(status["lastTransitionAt"]) >= when(sandbox["createdAt"])
    assert message in api.events(sandbox["id"])
    ended = api.get(f"/sandboxes/{sandbox['id']}/proxy/8080/", auth=False)
    api.refused(ended, 409, "NATIVE::SANDBOX_NOT_RUNNING", state)


def test_a_line_of_words_is_split_as_a_shell_would(api, box):
    sandbox = box(entrypoint=["/bin/sh -c 'echo \"$0-$1\"; sleep 1000' 'a b' \"c\\\"d\""])
    assert sandbox["entrypoint"] == ["/bin/sh -c 'echo \"$0-$1\"; sleep 1000' 'a b' \"c\\\"d\""]
    words = api.read(sandbox["id"])["entrypoint"]
    assert words == ["/bin/sh", "-c", 'echo "$0-$1"; sleep 1000', "a b", 'c"d']
    logs = f"/sandboxes/{sandbox['id']}/diagnostics/logs"
    wait_for(lambda: b'a b-c"d' in api.get(logs).body, what="the words in the log")


@pytest.mark.parametrize(
    "entrypoint, says",
    [
        (["/nowhere/program"], "/nowhere/program"), (["no-such-program"], "no-such-program"), (["/etc"], "/etc"),
        (["/etc/passwd"], "/etc/passwd"),
    ],
)  # fmt: skip
def test_an_entrypoint_that_cannot_be_run_fails_the_create(api, entrypoint, says):
    before = api.get("/sandboxes").json["pagination"]["totalItems"]
    a = api.refused(api.try_create(entrypoint=entrypoint), 500, "NATIVE::SANDBOX_START_FAILED", says)
    assert re.search("No such file|Permission denied|not in PATH|Is a directory", a.json["message"]), a.body
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == before


def test_the_environment_reaches_the_entrypoint_and_commands(api, box):
    env = {"GREETING": "hello world", "EMPTY": "", "SKIPPED": None, "UNI": "é€😀", "PATH": "/usr/bin:/bin:/opt/x"}
    sandbox = box(entrypoint=["/bin/sh", "-c", 'env | sort; exec sleep 1000'], env=env)
    want = ["EMPTY=", "GREETING=hello world", "PATH=/usr/bin:/bin:/opt/x", "UNI=é€😀"]
    logs = f"/sandboxes/{sandbox['id']}/diagnostics/logs"
    text = wait_for(lambda: "UNI=" in (t := api.get(logs).body.decode()) and t, what="the environment in the log")
    command = "\n".join(api.run(sandbox["id"], "env"))
    for line in want:
        assert line in text and line in command
    for found in (text, command):
        assert "SKIPPED" not in found
        assert not re.search("TOKEN|API_KEY|OPENSANDBOX_SERVER|OPENSANDBOX_NATIVE", found)
