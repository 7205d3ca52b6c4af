# SPDX-License-Identifier: Apache-2.0
"""Registries that lie: a clear error, and nothing is left (I1, I2, I4)."""
import json
import os
import time

import pytest

import liar
from api import wait_for
from liar import Liar, endless, hang_up, manifest_with, redirect, reply
from registry import Image, digest_of, tar_of
from test_image_pull import blobs, entry, pulled, refused

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

AUTH = {"username": "somebody", "password": "hush hush"}


@pytest.fixture
def lie(request):
    """lie(hook, image=): a liar and a server that trusts it as far as an operator can make it."""
    liars = []

    def make(hook=None, image=None):
        liars.append(Liar(image, hook))
        return liars[-1]

    yield make
    for one in liars:
        one.stop()


@pytest.fixture
def server_for(start_server):
    def make(*hosts, more="", **settings):
        limits = "[images]\nstall_seconds = 2\n" + more
        return start_server(limits + "".join(entry(h.host, **settings) for h in hosts))

    return make


def at_blobs(fn):
    return lambda h, path: "/blobs/" in path and fn(h, path)


def at_manifests(fn):
    return lambda h, path: "/manifests/" in path and fn(h, path)


def said(fn, *args, **more):
    """A hook that always answers."""
    def hook(h, path):
        fn(h, *args, **more)
        return True

    return hook


def test_it_works_when_it_does_not_lie(lie, server_for):
    one = lie()
    assert pulled(server_for(one), one.uri)["digest"] == one.image.digest


GOOD = Image([tar_of({"a": b"layer"})])


@pytest.mark.parametrize(
    "hook, words, code",
    [
        (at_manifests(said(reply, 200, b"", liar.MANIFEST)), "manifest", "invalid"),
        (at_manifests(said(reply, 200, b"{", liar.MANIFEST)), "manifest", "invalid"),
        (at_manifests(said(reply, 200, b"x" * (4 * 1024 * 1024 + 1), liar.MANIFEST)), "more than 4194304 bytes", "limit"),
        (at_manifests(said(endless, liar.MANIFEST)), "more than 4194304 bytes", "limit"),
        (at_manifests(said(reply, 200, GOOD.manifest, liar.INDEX)), "came as", "invalid"),
        (at_manifests(said(reply, 200, GOOD.manifest, "text/html")), "came as", "invalid"),
        (at_manifests(said(reply, 200, manifest_with(GOOD, manifests=[]), liar.MANIFEST)), "both 'manifests' and 'layers'", "invalid"),
        (at_manifests(said(reply, 200, manifest_with(GOOD, schemaVersion=1), liar.MANIFEST)), "schema version 1", "invalid"),
        (at_manifests(said(reply, 200, GOOD.manifest, liar.MANIFEST, Docker_Content_Digest="sha256:" + "0" * 64)),
         "not what its digest says", "invalid"),
        (at_manifests(said(reply, 403)), "gives no access", "denied"),
        (at_manifests(said(reply, 418)), "status 418", "unavailable"),
        (at_manifests(said(redirect, "ftp://127.0.0.1/x")), "URL", "invalid"),
        (at_manifests(said(redirect, "http://user:pw@127.0.0.1/x")), "user", "invalid"),
        (at_manifests(said(redirect, "http://example.test/x")), "without https", "denied"),
        (at_manifests(said(redirect, "https:///")), "URL", "invalid"),
        (at_manifests(said(reply, 307)), "without saying where", "invalid"),
        (at_manifests(said(redirect, "/v2/some/thing/manifests/v1")), "sends on more than 5 times", "invalid"),
        (at_blobs(said(reply, 404)), "no such", "not-found"),
        (at_blobs(said(reply, 200, b"other bytes")), "", "invalid"),
        (at_blobs(said(endless)), "", "limit"),
    ],
)
def test_a_lie_is_told_as_one_and_leaves_nothing(lie, server_for, hook, words, code):
    one = lie(hook)
    s = server_for(one)
    refused(s, one.uri, words, code=code)
    wait_for(lambda: blobs(s) == [])
    assert s.get("/v1/images").json["items"] == []


def layer_hook(image, fn):
    """FN for layers; the configuration is told as it is."""
    layers = set(image.layers)
    return lambda h, path: path.split("/")[-1] in layers and (fn(h, image.blobs[path.split("/")[-1]]) or True)


@pytest.mark.parametrize(
    "fn, words",
    [
        (lambda h, data: reply(h, 200, data[:-1] + b"!"), "not what its digest says"),
        (lambda h, data: reply(h, 200, data + b"!"), "more bytes came"),
        (lambda h, data: reply(h, 200, data[:-1]), "ended after"),
        (lambda h, data: endless(h), "more bytes came"),
        (lambda h, data: reply(h, 404), "does not have a layer"),
    ],
)
def test_layers_are_what_the_manifest_says(lie, server_for, fn, words):
    image = Image([tar_of({"a": os.urandom(20000)}), tar_of({"b": b"other"})])
    one = lie(layer_hook(image, fn), image)
    s = server_for(one)
    refused(s, one.uri, words)
    wait_for(lambda: blobs(s) == [])


def test_a_slow_registry_is_given_up(lie, server_for):
    image = Image([tar_of({"a": os.urandom(200_000)})])
    one = lie(layer_hook(image, lambda h, data: endless(h, pause=0.2, piece=b"x" * 10)), image)
    s = server_for(one)
    began = time.monotonic()
    refused(s, one.uri, "too slow", code="timeout")
    assert time.monotonic() - began < 20
    wait_for(lambda: blobs(s) == [])


def test_a_pull_has_its_time(lie, server_for):
    image = Image([tar_of({"a": os.urandom(10_000_000)})], compress="")
    one = lie(layer_hook(image, lambda h, data: drip(h, data)), image)
    s = server_for(one, more="pull_seconds = 3\n")
    began = time.monotonic()
    refused(s, one.uri, "longer than 3 seconds", code="timeout")
    assert time.monotonic() - began < 20
    wait_for(lambda: blobs(s) == [])


def drip(h, data):
    h.send_response(200)
    h.send_header("Content-Length", str(len(data)))
    h.end_headers()
    for i in range(0, len(data), 10_000):
        h.wfile.write(data[i:i + 10_000])
        time.sleep(0.1)


def cut(h, data, state, with_range):
    """Sends a third of what is left and hangs up, twice."""
    start = 0
    if with_range and h.headers.get("Range"):
        start = int(h.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    state.append(start)
    rest = data[start:]
    h.send_response(206 if start else 200)
    if start:
        h.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
    h.send_header("Content-Length", str(len(rest)))
    h.end_headers()
    if len(state) > 2:
        h.wfile.write(rest)
        return
    h.wfile.write(rest[:len(rest) // 3])
    hang_up(h)


@pytest.mark.parametrize("with_range", [True, False])
def test_a_cut_download_goes_on_where_it_was(lie, server_for, with_range):
    image = Image([tar_of({"a": os.urandom(3_000_000)})], compress="")
    state = []
    one = lie(layer_hook(image, lambda h, data: cut(h, data, state, with_range)), image)
    s = server_for(one)
    assert pulled(s, one.uri)["digest"] == image.digest
    ranges = [r[2].get("Range") for r in one.asked(image.layers[0])]
    assert ranges[0] is None and all(r.startswith("bytes=") for r in ranges[1:])
    assert (max(state) > 0) == with_range


def test_another_part_than_was_asked_for_is_refused(lie, server_for):
    image = Image([tar_of({"a": os.urandom(300_000)})], compress="")
    asked = []

    def fn(h, data):
        asked.append(h.headers.get("Range"))
        if len(asked) == 1:
            h.send_response(200)
            h.send_header("Content-Length", str(len(data)))
            h.end_headers()
            h.wfile.write(data[:100_000])
            hang_up(h)
        else:
            reply(h, 206, data, Content_Range=f"bytes 0-{len(data) - 1}/{len(data)}")

    one = lie(layer_hook(image, fn), image)
    refused(server_for(one), one.uri, "another part", code="invalid")


def test_an_index_that_never_ends_is_left(lie, server_for):
    """Three, one in another: the digests hold, only the depth does not."""
    documents = {}
    kind, text = liar.MANIFEST, GOOD.manifest
    for _ in range(3):
        documents[digest_of(text)] = (kind, text)
        entry_ = {"mediaType": kind, "digest": digest_of(text), "size": len(text), "platform": {"os": "linux", "architecture": "amd64"}}
        kind, text = liar.INDEX, json.dumps({"schemaVersion": 2, "manifests": [entry_]}).encode()
    documents["v1"] = (kind, text)

    def hook(h, path):
        if "/manifests/" not in path:
            return False
        found = documents[path.split("/")[-1]]
        reply(h, 200, found[1], found[0])
        return True

    one = lie(hook, GOOD)
    refused(server_for(one), one.uri, "indexes one in another", code="invalid")


# ---- credentials ----


def token_hook(realm, seen=None):
    """A registry that wants a token from REALM."""
    def hook(h, path):
        if path.startswith("/token"):
            if seen is not None:
                seen.append((path, h.headers.get("Authorization")))
            reply(h, 200, b'{"token":"t0ken"}', "application/json")
            return True
        if h.headers.get("Authorization") == "Bearer t0ken":
            return False
        reply(h, 401, WWW_Authenticate=f'Bearer realm="{realm(h)}",service="srv",scope="repository:some/thing:pull"')
        return True

    return hook


def own(h):
    return f"http://{h.headers['Host']}/token"


def test_a_token_is_asked_for_with_and_without_credentials(lie, server_for):
    seen = []
    one = lie(token_hook(own, seen))
    s = server_for(one)
    assert pulled(s, one.uri)["private"] is False
    assert seen[-1][1] is None and "scope=repository%3Asome%2Fthing%3Apull" in seen[-1][0] and "service=srv" in seen[-1][0]
    assert pulled(s, one.uri, auth=AUTH)["private"] is True
    assert seen[-1][1].startswith("Basic ")
    assert all(r[2].get("Authorization") in (None, "Bearer t0ken") for r in one.asked("/v2/"))


def test_credentials_are_not_sent_to_another_host_unless_the_operator_says_so(lie, start_server):
    thief = lie(token_hook(own))
    one = lie(token_hook(lambda h: f"http://localhost:{thief.port}/token"))
    s = start_server(entry(one.host) + entry(f"localhost:{thief.port}"))
    refused(s, one.uri, "wants its credentials to be sent to 'localhost'", code="denied", auth=AUTH)
    assert thief.requests == []
    s = start_server(entry(one.host, auth_host="localhost") + entry(f"localhost:{thief.port}"))
    assert pulled(s, one.uri, auth=AUTH)["private"] is True
    assert thief.requests[0][2]["Authorization"].startswith("Basic ")


def test_a_realm_without_https_or_public_address_is_refused(lie, server_for):
    thief = lie()
    one = lie(token_hook(lambda h: f"http://localhost:{thief.port}/token"))
    refused(server_for(one), one.uri, "without https", code="denied")
    assert thief.requests == []


@pytest.mark.parametrize("challenge", ['Bearer realm="x\x01y"', "Bearer", 'Bearer realm="not a url"', "Bearer realm=\"" + "x" * 3000 + '"',
                                       "Negotiate", 'Bearer realm="https://u:p@a.test/t"'])
def test_a_challenge_that_is_none_is_refused(lie, server_for, challenge):
    one = lie(said(reply, 401, WWW_Authenticate=challenge))
    last = refused(server_for(one), one.uri)
    assert last["code"] in ("invalid", "unavailable", "denied")


@pytest.mark.parametrize("answer", [b"{}", b"x", b'{"token":"a b"}', b'{"token":"a\\r\\nX: y"}', b'{"token":1}', b"{" + b" " * 70000 + b"}"])
def test_a_token_that_is_none_is_refused(lie, server_for, answer):
    def hook(h, path):
        if path.startswith("/token"):
            reply(h, 200, answer, "application/json")
        else:
            reply(h, 401, WWW_Authenticate=f'Bearer realm="{own(h)}"')
        return True

    one = lie(hook)
    last = refused(server_for(one), one.uri)
    assert last["code"] in ("invalid", "limit") and "a b" not in last["message"]


def test_neither_token_nor_credentials_go_where_a_redirect_leads(lie, server_for):
    image = Image([tar_of({"a": b"elsewhere"})])
    store = lie(lambda h, path: "/elsewhere/" in path and (reply(h, 200, image.blobs[path.split("/")[-1]]) or True))
    tokens = token_hook(own)

    def hook(h, path):
        if tokens(h, path):
            return True
        if "/blobs/" not in path:
            return False
        redirect(h, f"http://{store.host}/elsewhere/" + path.split("/")[-1])
        return True

    one = lie(hook, image)
    s = server_for(one, store)
    assert pulled(s, one.uri, auth=AUTH)["digest"] == image.digest
    assert store.requests and not [r for r in store.requests if "Authorization" in r[2]]


def test_a_redirect_to_a_private_address_is_refused(lie, server_for, start_server):
    """The liar's own host is allowed by an entry of its own; where it leads is not."""
    one = lie(at_blobs(said(redirect, "https://127.0.0.2:1/x")))
    s = start_server(entry(one.host, private=False) + entry("127.0.0.9"))
    refused(s, one.uri, "private address", code="denied")


# ---- mirrors ----


def test_a_mirror_is_asked_first_and_replaced_when_it_fails(lie, start_server):
    image = Image([tar_of({"a": b"mirrored"})])
    good, home = lie(image=image), lie(image=image)
    s = start_server(entry(home.host, mirror=good.host) + entry(good.host))
    assert pulled(s, home.uri)["digest"] == image.digest
    assert good.requests and not home.requests
    bad = lie(layer_hook(image, lambda h, data: reply(h, 200, data[:-1] + b"!")), image)
    s = start_server(entry(home.host, mirror=bad.host) + entry(bad.host))
    assert pulled(s, home.uri)["digest"] == image.digest
    assert bad.requests and home.requests


def test_credentials_are_none_of_a_mirrors_business(lie, start_server):
    image = Image([tar_of({"a": b"mirrored"})])
    mirror, home = lie(image=image), lie(image=image)
    s = start_server(entry(home.host, mirror=mirror.host) + entry(mirror.host))
    pulled(s, home.uri, auth=AUTH)
    assert not mirror.requests and home.requests
