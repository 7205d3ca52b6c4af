# SPDX-License-Identifier: Apache-2.0
"""What a create may say, what it may leave out, and what it hears when it asks for too much."""
import concurrent.futures
import json
import re

import pytest

from api import BODY, STAY, Api, when

HUGE = 1 << 20


def invalid(api, a, *words):
    return api.refused(a, 422, "SANDBOX::INVALID_PARAMETER", *words)


def refused(api, a, *words, code="SANDBOX::INVALID_PARAMETER", status=400):
    return api.refused(a, status, code, *words)


@pytest.fixture(autouse=True)
def nothing_is_left(api):
    """No refused create leaves a sandbox."""
    before = api.get("/sandboxes").json["pagination"]["totalItems"]
    yield
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == before


# ---- the shape ----


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"[]", b"null", b"1", b'"x"', b"{}x", b"{'a':1}", b'{"a":NaN}', b"\xef\xbb\xbf{}", b'{"a":"\xff"}',
        b'{"a":"\\ud800"}', b"[" * 100 + b"]" * 100, b'{"a":1,}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_object(api, body):
    a = invalid(api, api.post("/sandboxes", body))
    assert a.json["detail"][0]["loc"][0] == "body"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_no_body_at_all(server, spec, prefix):
    api = Api(server, spec, prefix)
    a = invalid(api, api.post("/sandboxes"), "body")
    assert a.json["detail"][0]["type"] == "missing"


def test_a_body_of_a_mebibyte_is_too_large(api):
    body = json.dumps({**BODY, "metadata": {"k": "x" * HUGE}}).encode()
    a = api.post("/sandboxes", body)
    assert a.status == 413 and a.json["code"] and "large" in a.json["message"]


@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded", ""])
def test_the_content_type_does_not_matter(api, kind):
    a = api.try_create(headers={"Content-Type": kind})
    assert a.status == 202
    assert api.delete(a.json["id"]).status == 204


RULES = [
    ({"image": ...}, "exactly one of image and snapshotId"),
    ({"image": None}, "exactly one of image and snapshotId"),
    ({"image": {"uri": ""}}, "exactly one of image and snapshotId"),
    ({"image": {"uri": "  "}}, "exactly one of image and snapshotId"),
    ({"image": ..., "snapshotId": " "}, "exactly one of image and snapshotId"),
    ({"snapshotId": "x"}, "exactly one of image and snapshotId"),
    ({"entrypoint": ...}, "entrypoint"),
    ({"entrypoint": None}, "entrypoint"),
    ({"resourceLimits": ...}, "resourceLimits"),
    ({"resourceLimits": None}, "resourceLimits"),
    ({"credentialProxy": {"enabled": True}}, "credentialProxy requires networkPolicy"),
    ({"extensions": {"poolRef": "p"}, "snapshotId": "x"}, "snapshotId cannot be used with extensions.poolRef"),
    ({"extensions": {"poolRef": "p"}, "credentialProxy": {"enabled": True}}, "credentialProxy cannot be used"),
]


@pytest.mark.parametrize("changes, says", RULES)
def test_rules_that_span_members(api, changes, says):
    a = invalid(api, api.try_create(**changes), says)
    assert a.json["message"].startswith("body: ")
    assert a.json["detail"][0]["loc"] == ["body"]
    assert a.json["detail"][0]["type"] == "value_error"


WRONG = [  # members, where, type
    ({"image": "host"}, ["image"], None),
    ({"image": {}}, ["image", "uri"], "missing"),
    ({"image": {"uri": 1}}, ["image", "uri"], "string_type"),
    ({"image": {"uri": "host", "auth": {"password": "p"}}}, ["image", "auth", "username"], "missing"),
    ({"image": {"uri": "host", "auth": {"username": "u"}}}, ["image", "auth", "password"], "missing"),
    ({"image": {"uri": "host", "auth": {"username": "u", "password": 7}}}, ["image", "auth", "password"], "string_type"),
    ({"snapshotId": 5}, ["snapshotId"], "string_type"),
    ({"entrypoint": []}, ["entrypoint"], "too_short"),
    ({"entrypoint": "true"}, ["entrypoint"], None),
    ({"entrypoint": ["a", 1]}, ["entrypoint", 1], "string_type"),
    ({"entrypoint": ["a", None]}, ["entrypoint", 1], "string_type"),
    ({"entrypoint": ["a\0b"]}, ["entrypoint", 0], None),
    ({"resourceLimits": []}, ["resourceLimits"], None),
    ({"resourceLimits": {"cpu": 1}}, ["resourceLimits", "cpu"], "string_type"),
    ({"timeout": 59}, ["timeout"], "greater_than_equal"),
    ({"timeout": 0}, ["timeout"], "greater_than_equal"),
    ({"timeout": -1}, ["timeout"], "greater_than_equal"),
    ({"timeout": "10"}, ["timeout"], "greater_than_equal"),
    ({"timeout": "soon"}, ["timeout"], "int_parsing"),
    ({"timeout": ""}, ["timeout"], "int_parsing"),
    ({"timeout": 60.5}, ["timeout"], "int_from_float"),
    ({"timeout": []}, ["timeout"], None),
    ({"timeout": {}}, ["timeout"], None),
    ({"env": []}, ["env"], None),
    ({"env": {"A": 1}}, ["env", "A"], "string_type"),
    ({"env": {"A": True}}, ["env", "A"], "string_type"),
    ({"env": {"A": "x\0y"}}, ["env", "A"], None),
    ({"metadata": {"a": 1}}, ["metadata", "a"], "string_type"),
    ({"metadata": {"a": None}}, ["metadata", "a"], "string_type"),
    ({"resourceLimits": {"cpu": None}}, ["resourceLimits", "cpu"], "string_type"),
    ({"extensions": {"a": None}}, ["extensions", "a"], "string_type"),
    ({"metadata": "a"}, ["metadata"], None),
    ({"platform": {"arch": "amd64"}}, ["platform", "os"], "missing"),
    ({"platform": {"os": "linux"}}, ["platform", "arch"], "missing"),
    ({"platform": {"os": 1, "arch": "amd64"}}, ["platform", "os"], "string_type"),
    ({"platform": "linux/amd64"}, ["platform"], None),
    ({"secureAccess": "perhaps"}, ["secureAccess"], "bool_parsing"),
    ({"secureAccess": 2}, ["secureAccess"], "bool_parsing"),
    ({"networkPolicy": []}, ["networkPolicy"], None),
    ({"networkPolicy": {"egress": [{"action": "allow"}]}}, ["networkPolicy", "egress", 0, "target"], "missing"),
    ({"networkPolicy": {"egress": [{"action": "allow", "target": ""}]}}, ["networkPolicy", "egress", 0, "target"],
     "string_too_short"),
    ({"networkPolicy": {"defaultAction": 1}}, ["networkPolicy", "defaultAction"], "string_type"),
    ({"volumes": {}}, ["volumes"], None),
    ({"volumes": [{"name": "v", "mountPath": "/v"}]}, ["volumes", 0], "value_error"),
    ({"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/a"}, "pvc": {"claimName": "c"}}]}, ["volumes", 0],
     "value_error"),
    ({"volumes": [{"name": "v", "mountPath": "v", "host": {"path": "/a"}}]}, ["volumes", 0, "mountPath"],
     "string_pattern_mismatch"),
    ({"volumes": [{"mountPath": "/v", "host": {"path": "/a"}}]}, ["volumes", 0, "name"], "missing"),
    ({"extensions": {"a": 1}}, ["extensions", "a"], "string_type"),
]  # fmt: skip


@pytest.mark.parametrize("changes, where, kind", WRONG)
def test_a_member_of_the_wrong_form_is_422_and_named(api, changes, where, kind):
    a = invalid(api, api.try_create(**changes), str(where[0]))
    (problem,) = a.json["detail"]
    assert re.match(rf"{where[0]}[.:\[]", a.json["message"]) and "Value error" not in a.json["message"], a.body
    assert problem["loc"] == ["body", *where], a.body
    if kind:
        assert problem["type"] == kind, a.body


def test_all_problems_are_named_at_once(api):
    a = invalid(api, api.try_create(timeout=1, env=[], metadata=7))
    assert {p["loc"][1] for p in a.json["detail"]} == {"timeout", "env", "metadata"}


def test_secret_values_are_not_repeated(api):
    a = invalid(api, api.try_create(env={"A": ["hush-hush"]}))
    assert b"hush-hush" not in a.body
    auth = {"username": ["hush-hush"], "password": {"x": "hush-hush"}}
    a = invalid(api, api.try_create(image={"uri": "host", "auth": auth}))
    assert b"hush-hush" not in a.body


@pytest.mark.parametrize("body", ['{"timeout":60,"timeout":61', '{"resourceLimits":{},"resource_limits":{}',
                                  '{"env":{"A":"1","A":"2"}'])  # fmt: skip
def test_a_member_that_comes_twice_is_refused(api, body):
    invalid(api, api.post("/sandboxes", f'{body},{json.dumps(BODY)[1:]}'.encode()))


# ---- what is taken all the same ----


@pytest.mark.parametrize("timeout, seconds", [(60, 60), ("61", 61), (62.0, 62), (86400, 86400)])
def test_forms_of_a_number(box, timeout, seconds):
    made = box(timeout=timeout)
    assert (when(made["expiresAt"]) - when(made["createdAt"])).total_seconds() == seconds


def test_snake_case_names_are_taken(api, box):
    made = box(resourceLimits=..., resource_limits={"memory": "64Mi"}, secure_access=False, snapshot_id=None,
               network_policy=None, credential_proxy={"enabled": False})  # fmt: skip
    assert "memory 67108864" in api.get(f"/sandboxes/{made['id']}/diagnostics/inspect").body.decode()
    refused(api, api.try_create(network_policy={"default_action": "block"}), "networkPolicy.defaultAction")
    refused(api, api.try_create(image=..., snapshot_id="x"), "snapshotId", code="SNAPSHOT::NOT_FOUND", status=404)


def test_unknown_members_are_ignored_and_named_in_the_events(api, box):
    made = box(resourceRequests={"cpu": "1"}, x_new_thing=[1, {"a": None}], image={"uri": "host", "pullPolicy": "Always"})
    events = api.events(made["id"])
    for name in ("resourceRequests", "x_new_thing", "pullPolicy"):
        assert re.search(rf"IgnoredKeys .*{name}", events), events
    assert "IgnoredKeys" not in api.events(box()["id"])


def test_unknown_extensions_pass_silently(api, box):
    made = box(extensions={"opensandbox.extensions.x": "y", "other": "", "poolRef": " "})
    assert "extensions" not in made and "extensions" not in api.read(made["id"])


def test_empty_maps_and_lists_are_nothing(box):
    assert "metadata" not in box(env={}, metadata={}, extensions={}, volumes=[])


def test_secure_access_is_taken(box):
    assert box(secureAccess=True)["id"] and box(secure_access=True)["id"]


def test_false_is_not_asking(box):
    box(secureAccess=False, credentialProxy={"enabled": False})
    box(secureAccess=None, credentialProxy={"enabled": None})


def test_credentials_of_an_image_are_not_shown(api, box):
    made = box(image={"uri": "host", "auth": {"username": "hush-u", "password": "hush-p"}})
    assert api.read(made["id"])["image"] == {"uri": "host"}
    summary = api.get(f"/sandboxes/{made['id']}/diagnostics/summary").body
    assert b"hush" not in summary and "hush" not in api.server.stderr


# ---- what is refused ----


REFUSED = [
    ({"networkPolicy": {"defaultAction": "block"}}, 400, "SANDBOX::INVALID_PARAMETER", "networkPolicy.defaultAction"),
    ({"networkPolicy": {"egress": [{"action": "allow", "target": "a.example"}, {"action": "permit", "target": "b.example"}]}}, 400,
     "SANDBOX::INVALID_PARAMETER", "networkPolicy.egress[1].action"),
    ({"networkPolicy": {"egress": [{"action": "allow", "target": "https://a.example"}]}}, 400, "SANDBOX::INVALID_PARAMETER",
     "networkPolicy.egress[0].target"),
    ({"networkPolicy": {}, "extensions": {"network.mode": "none"}}, 400, "SANDBOX::INVALID_PARAMETER", "networkPolicy"),
    ({"extensions": {"network.mode": "host"}}, 400, "SANDBOX::INVALID_PARAMETER", "extensions.network.mode"),
    ({"networkPolicy": {}, "credentialProxy": {"enabled": True}}, 400, "SANDBOX::INVALID_PARAMETER", "credentialProxy"),
    ({"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/srv"}}]}, 400, "VOLUME::HOST_PATH_NOT_ALLOWED", "volumes"),
    ({"volumes": [{"name": "v", "mountPath": "/sys", "pvc": {"claimName": "c"}, "host": None}]}, 400,
     "VOLUME::INVALID_MOUNT_PATH", "volumes"),
    ({"image": ..., "snapshotId": "x"}, 404, "SNAPSHOT::NOT_FOUND", "snapshotId"),
    ({"image": ..., "snapshotId": "x", "entrypoint": ...}, 404, "SNAPSHOT::NOT_FOUND", "snapshotId"),
    ({"extensions": {"poolRef": "p"}}, 404, "NATIVE::POOL_NOT_FOUND", "extensions.poolRef"),
    ({"extensions": {"poolRef": "p"}, "image": ..., "entrypoint": ..., "resourceLimits": ...}, 404,
     "NATIVE::POOL_NOT_FOUND", "extensions.poolRef"),
    ({"image": {"uri": "no such image"}}, 400, "SANDBOX::INVALID_PARAMETER", "image.uri"),
    ({"image": {"uri": "x" * 1025}}, 400, "SANDBOX::INVALID_PARAMETER", "image.uri"),
    ({"platform": {"os": "plan9", "arch": "amd64"}}, 400, "SANDBOX::INVALID_PARAMETER", "platform.os"),
    ({"platform": {"os": "linux", "arch": "vax"}}, 400, "SANDBOX::INVALID_PARAMETER", "platform.arch"),
    ({"platform": {"os": "", "arch": ""}}, 400, "SANDBOX::INVALID_PARAMETER", "platform.os"),
    ({"platform": {"os": "windows", "arch": "amd64"}}, 400, "SANDBOX::INVALID_PARAMETER", "platform"),
    ({"timeout": 10**15}, 400, "SANDBOX::INVALID_PARAMETER", "timeout"),
    ({"timeout": 2**62}, 400, "SANDBOX::INVALID_PARAMETER", "timeout"),
    ({"entrypoint": [""]}, 400, "NATIVE::INVALID_ENTRYPOINT", "entrypoint"),
    ({"entrypoint": ["   "]}, 400, "NATIVE::INVALID_ENTRYPOINT", "entrypoint"),
    ({"entrypoint": ["sh -c 'open"]}, 400, "NATIVE::INVALID_ENTRYPOINT", "entrypoint"),
    ({"entrypoint": ["x"] * 257}, 400, "SANDBOX::INVALID_PARAMETER", "entrypoint"),
    ({"entrypoint": ["echo", "x" * (128 << 10)]}, 400, "SANDBOX::INVALID_PARAMETER", "entrypoint"),
    ({"env": {f"K{i}": "" for i in range(257)}}, 400, "SANDBOX::INVALID_PARAMETER", "env"),
    ({"env": {"K": "x" * (128 << 10)}}, 400, "SANDBOX::INVALID_PARAMETER", "env"),
    ({"env": {"": "x"}}, 400, "SANDBOX::INVALID_PARAMETER", "env"),
    ({"env": {"A=B": "x"}}, 400, "SANDBOX::INVALID_PARAMETER", "env"),
]  # fmt: skip


@pytest.mark.parametrize("changes, status, code, word", REFUSED)
def test_what_cannot_be_had_is_refused_by_name(api, changes, status, code, word):
    refused(api, api.try_create(**changes), word, code=code, status=status)


@pytest.mark.parametrize("value", ["", " ", "x", "299", "86401", "-300", "300.5", "0x200", "3e2"])
def test_seconds_of_renewal_that_cannot_be(api, value):
    a = api.try_create(extensions={"access.renew.extend.seconds": value})
    refused(api, a, "extensions.access.renew.extend.seconds", "300", "86400")


@pytest.mark.parametrize("value", ["300", " 86400 "])
def test_seconds_of_renewal(box, value):
    box(extensions={"access.renew.extend.seconds": value})


def test_the_first_of_several_refusals_is_the_one_that_clients_know(api):
    wrong = [  # in the order of the checks; each goes when it was seen
        ("extensions", {"access.renew.extend.seconds": "1", "poolRef": " "}, "access.renew", {}),
        ("entrypoint", [""], "entrypoint", STAY),
        ("metadata", {"-": ""}, "metadata", {}),
        ("platform", {"os": "x", "arch": "y"}, "platform", None),
        ("networkPolicy", {"defaultAction": "x"}, "networkPolicy", None),
        ("volumes", [{"name": "v", "mountPath": "/v", "host": {"path": "/srv"}}], "volumes", None),
        ("image", {"uri": "no such image"}, "image.uri", {"uri": "host"}),
    ]
    changes = {name: bad for name, bad, _, _ in wrong}
    for name, _, word, good in wrong:
        a = api.try_create(**changes)
        assert a.status == 400 and a.json["message"].startswith(word) or word in a.json["message"].split(":")[0], a.body
        changes[name] = good


def test_a_ceiling_of_the_timeout(start_server, spec):
    server = start_server("[server]\nmax_sandbox_timeout_seconds = 100\n")
    api = Api(server, spec)
    refused(api, api.try_create(timeout=101), "timeout", "100")
    for timeout in (100, None):
        assert api.delete(api.create(timeout=timeout)["id"]).status == 204


# ---- limits ----


def limits_of(api, sandbox_id):
    text = api.get(f"/sandboxes/{sandbox_id}/diagnostics/inspect").body.decode()
    return re.search(r"^limits: (.*)$", text, re.M)[1]


def group_values(api, name):
    """What the control groups of the module's sandboxes have in files of this name."""
    files = [g / name for g in api.server.home.groups()]
    return {f.read_text().strip() for f in files if f.exists()}


def test_limits_have_defaults(api, box):
    assert limits_of(api, box(resourceLimits={})["id"]).startswith("cpu 1000m, memory 536870912, pids 4096")


@pytest.mark.parametrize(
    "limits, want",
    [
        ({"cpu": "500m"}, "cpu 500m,"), ({"cpu": "2"}, "cpu 2000m,"), ({"cpu": "0.5"}, "cpu 500m,"), ({"cpu": "250M"}, "cpu 250m,"),
        ({"memory": "64Mi"}, "memory 67108864,"), ({"memory": "64m"}, "memory 64000000,"), ({"memory": " 1Gi "}, "memory 1073741824,"),
        ({"memory": "100000kb"}, "memory 100000000,"), ({"memory": "67108864"}, "memory 67108864,"), ({"memory": "67108864b"}, "memory 67108864,"),
        ({"pids": "64"}, "pids 64,"), ({"cpu": "100m", "memory": "32MI", "pids": "10"}, "cpu 100m, memory 33554432, pids 10,"),
    ],
)  # fmt: skip
def test_forms_of_limits(api, box, limits, want):
    assert want in limits_of(api, box(resourceLimits=limits)["id"])


def test_limits_are_those_of_the_kernel(api, box):
    made = box(resourceLimits={"cpu": "700m", "memory": "123Mi", "pids": "77"})
    assert str(123 << 20) in group_values(api, "memory.limit_in_bytes") | group_values(api, "memory.max")
    assert "77" in group_values(api, "pids.max")
    assert "70000" in group_values(api, "cpu.cfs_quota_us") or "70000 100000" in group_values(api, "cpu.max")
    assert api.run(made["id"], "echo alive") == ["alive"]


def test_what_takes_more_memory_than_it_has_is_killed(api, box):
    made = box(entrypoint=["/usr/bin/python3", "-c", "x = bytearray(400 << 20); input()"], resourceLimits={"memory": "64Mi"})
    status = api.wait_state(made["id"], "Failed")
    assert status["reason"] == "CONTAINER_EXITED_ERROR"
    assert status["message"] == "Sandbox container exited with code 137. Memory ran out."
    assert "OutOfMemory" in api.events(made["id"])


@pytest.mark.parametrize(
    "limits, words",
    [
        ({"cpu": ""}, ["cpu"]), ({"cpu": "x"}, ["cpu"]), ({"cpu": "0"}, ["cpu"]), ({"cpu": "-1"}, ["cpu"]), ({"cpu": "1e9999"}, ["cpu"]),
        ({"cpu": "m"}, ["cpu"]), ({"cpu": "nan"}, ["cpu"]), ({"cpu": "inf"}, ["cpu"]), ({"cpu": "1,5"}, ["cpu"]),
        ({"cpu": "9" * 40}, ["cpu"]), ({"cpu": "99999999"}, ["cpu"]),
        ({"memory": ""}, ["memory"]), ({"memory": "x"}, ["memory"]), ({"memory": "1.5Gi"}, ["memory"]), ({"memory": "0"}, ["memory"]),
        ({"memory": "-1"}, ["memory"]), ({"memory": "1P"}, ["memory"]), ({"memory": "9" * 30}, ["memory"]),
        ({"memory": "15Mi"}, ["memory", "16Mi"]), ({"memory": "1"}, ["memory", "16Mi"]), ({"memory": "99999999Ti"}, ["memory"]),
        ({"pids": "0"}, ["pids"]), ({"pids": "-1"}, ["pids"]), ({"pids": "x"}, ["pids"]), ({"pids": "1.5"}, ["pids"]),
        ({"pids": "99999999"}, ["pids", "4194304"]), ({"gpu": "1"}, ["gpu"]), ({"gpu": "all"}, ["gpu"]),
        ({"network": "1"}, ["network"]), ({"CPU": "1"}, ["CPU"]), ({"": "1"}, ["resourceLimits"]),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_enforced_are_refused_by_name(api, limits, words):
    refused(api, api.try_create(resourceLimits=limits), "resourceLimits", *words)


@pytest.mark.parametrize("name", ["disk", "storage", "ephemeral-storage"])
def test_disk_limits_are_refused_where_they_cannot_be_enforced(api, name):
    a = api.try_create(resourceLimits={name: "1Gi"})
    if a.status == 202:  # a host that can
        assert api.delete(a.json["id"]).status == 204
    else:
        refused(api, a, f"resourceLimits.{name}", code="NATIVE::DISK_LIMIT_UNSUPPORTED")
    assert api.try_create(resourceLimits={name: "x"}).status == 400


def test_a_sandbox_cannot_start_with_too_few_processes_but_says_so(api):
    a = api.try_create(resourceLimits={"pids": "1"}, entrypoint=["sleep", "1000"])
    if a.status == 202:
        assert api.delete(a.json["id"]).status == 204
    else:
        assert a.status in (400, 500) and a.json["message"]


def test_a_burst_of_creates(api):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: api.try_create(metadata={"n": str(i)}), range(32)))
        assert {a.status for a in answers} == {202}
        assert len({a.json["id"] for a in answers}) == 32
        assert set(pool.map(lambda a: api.delete(a.json["id"]).status, answers)) == {204}


# ---- the description ----


@pytest.mark.parametrize("changes", [w[0] for w in WRONG] + [r[0] for r in RULES])
def test_the_description_refuses_what_the_server_refuses(spec, changes):
    body = {k: v for k, v in {**BODY, **changes}.items() if v is not ...}
    assert list(spec.problems("CreateSandbox", body)), body


NOT_YET = [r[0] for r in REFUSED if r[3].split(".")[0] in ("networkPolicy", "credentialProxy", "volumes", "snapshotId", "extensions.poolRef")]


@pytest.mark.parametrize("changes", [{}, *NOT_YET])
def test_the_description_allows_what_is_only_not_there_yet(spec, changes):
    body = {k: v for k, v in {**BODY, **changes}.items() if v is not ...}
    assert not list(spec.problems("CreateSandbox", body)), body


@pytest.mark.parametrize("limits, says", [
    ({"cpu": "99999"}, "resourceLimits.cpu: must be at most 1024000m"), ({"cpu": "1024001m"}, "resourceLimits.cpu"),
    ({"memory": "1126t"}, "resourceLimits.memory: must be at most"), ({"memory": "8388607Ti"}, "resourceLimits.memory"),
    ({"disk": "1025Ti"}, "resourceLimits.disk: must be at most"), ({"storage": "8388607Ti"}, "resourceLimits.disk"),
    ({"inodes": "1000"}, "resourceLimits.inodes: cannot be enforced here"), ({"gpu": "1"}, "resourceLimits.gpu"),
])
def test_G4_a_limit_that_cannot_be_enforced_is_400_and_named(api, limits, says):
    api.refused(api.try_create(resourceLimits=limits), 400, "SANDBOX::INVALID_PARAMETER", says)


def test_as_much_as_can_be_enforced_is_given(api, box):
    made = box(resourceLimits={"cpu": "1024", "memory": "900Ti", "disk": "1024Ti"})
    assert api.run(made["id"], "echo runs") == ["runs"]
    text = api.call("GET", f"/sandboxes/{made['id']}/diagnostics/inspect").body.decode()
    assert "limits: cpu 1024000m" in text and "inodes" not in text


def test_G4_what_the_operator_allows_is_the_most_and_bounds_the_rest(start_server, spec):
    server = start_server(env={"OPENSANDBOX_NATIVE_MAX_CPU": "500m", "OPENSANDBOX_NATIVE_MAX_MEMORY": "128Mi",
                               "OPENSANDBOX_NATIVE_MAX_DISK": "64Mi"})
    api = Api(server, spec, "/v1")
    for limits, says in (({"cpu": "501m"}, "resourceLimits.cpu: must be at most 500m"),
                         ({"memory": "129Mi"}, "resourceLimits.memory: must be at most 134217728 bytes"),
                         ({"disk": "65Mi"}, "resourceLimits.disk: must be at most 67108864 bytes")):
        api.refused(api.try_create(resourceLimits=limits), 400, "SANDBOX::INVALID_PARAMETER", says)
    claim = {"name": "v", "mountPath": "/data", "pvc": {"claimName": "large", "storage": "65Mi"}}
    api.refused(api.try_create(volumes=[claim]), 400, "SANDBOX::INVALID_PARAMETER", "storage must be at most 67108864 bytes")
    made = api.create(resourceLimits={})
    text = api.call("GET", f"/sandboxes/{made['id']}/diagnostics/inspect").body.decode()
    assert "limits: cpu 500m, memory 134217728, pids 4096, disk 67108864" in text, text
    api.delete(made["id"])
    del claim["pvc"]["storage"]
    api.delete(api.create(resourceLimits={}, volumes=[claim])["id"])
    volume, = api.get("/volumes").json["items"]
    assert volume["sizeBytes"] == 64 << 20, volume  # and not the 1Gi of storage.volume_default_size
    assert api.call("DELETE", "/volumes/large").status == 204
