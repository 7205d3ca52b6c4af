# SPDX-License-Identifier: Apache-2.0
"""A create that is asked for again, and one whose client went away."""
import concurrent.futures
import http.client
import json
import uuid

import pytest

from api import BODY, wait_for
from conftest import KEY


def keyed(api, key, **changes):
    return api.try_create(headers={"Idempotency-Key": key}, **changes)


@pytest.mark.smoke
def test_the_same_key_and_body_is_the_same_sandbox(api):
    key = uuid.uuid4().hex
    first = keyed(api, key, metadata={"a": "b"})
    again = keyed(api, key, metadata={"a": "b"})
    assert first.status == again.status == 202
    assert first.json["id"] == again.json["id"]
    assert again.headers["Location"] == first.headers["Location"]
    assert again.json["entrypoint"] == first.json["entrypoint"]
    other = keyed(api, key, metadata={"a": "c"})
    api.refused(other, 409, "SANDBOX::IDEMPOTENCY_KEY_REUSED", "Idempotency-Key", "another request")
    assert api.delete(first.json["id"]).status == 204
    api.refused(keyed(api, key, metadata={"a": "b"}), 409, "SANDBOX::IDEMPOTENCY_KEY_REUSED", "deleted")


def test_parallel_requests_with_one_key_make_one_sandbox(api):
    key = uuid.uuid4().hex
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: keyed(api, key), range(8)))
    assert {a.status for a in answers} == {202}
    (sandbox_id,) = {a.json["id"] for a in answers}
    assert {a.json["status"]["state"] for a in answers} == {"Running"}
    assert api.delete(sandbox_id).status == 204


def test_a_failed_create_gives_its_key_back(api):
    key = uuid.uuid4().hex
    assert keyed(api, key, entrypoint=["/nowhere"]).status == 500
    assert keyed(api, key, entrypoint=["/nowhere"]).status == 500
    a = keyed(api, key)
    assert a.status == 202
    assert api.delete(a.json["id"]).status == 204


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\tb"])
def test_keys_that_cannot_be(api, key):
    api.refused(keyed(api, key), 400, "SANDBOX::INVALID_PARAMETER", "Idempotency-Key", "255")


def test_without_a_key_every_request_makes_its_own(api, box):
    assert box()["id"] != box()["id"]


def test_a_create_goes_on_when_its_client_hangs_up(api):
    name = uuid.uuid4().hex
    body = json.dumps({**BODY, "metadata": {"name": name}}).encode()
    c = http.client.HTTPConnection(api.server.host, api.server.port)
    c.request("POST", "/sandboxes", body, {"OPEN-SANDBOX-API-KEY": KEY})
    c.close()
    found = lambda: api.get(f"/sandboxes?metadata=name%3D{name}&state=Running").json["items"]  # noqa: E731
    (sandbox,) = wait_for(found, what="the sandbox of the client that went away")
    assert api.delete(sandbox["id"]).status == 204
