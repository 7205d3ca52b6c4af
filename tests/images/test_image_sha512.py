# SPDX-License-Identifier: Apache-2.0
"""Images that are known by sha512: as good as others, and as strict (I1)."""
import io
import json
import os
import signal
import tarfile

import pytest

from api import Api, wait_for
from conftest import Server, KEY
from liar import Liar, MANIFEST, reply
from registry import Image, digest_of, index_of, tar_of, OCI
from test_image_archives import layout_of, load, save
from test_image_liars import at_manifests, layer_hook, lie, server_for  # noqa: F401
from test_image_pull import blobs, entry, pulled, refused
from test_image_sandboxes import BASE, create, layers, tar, try_create
from test_images import BUSYBOX
from oci import member

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")]


def image_of(*tars, kind="sha512", **more):
    return Image(tars or [tar_of({"a": b"layer one" * 1000}), tar_of({"b": b"layer two" * 1000})], kind=kind, **more)


def name_of(digest):
    """What the house calls a blob."""
    return digest_of(digest.encode()).removeprefix("sha256:")


def of(one, digest):
    return f"{one.host}/some/thing@{digest}"


def test_all_digests_of_an_image_may_be_sha512(lie, server_for, spec):
    one = lie(None, image_of())
    s = server_for(one)
    uri = of(one, one.image.digest)
    got = pulled(s, uri)
    assert (got["uri"], got["digest"], got["layers"]) == (uri, one.image.digest, one.image.layers)
    assert blobs(s) == sorted("sha256-" + name_of(d) for d in one.image.layers)
    answer = s.get("/v1/images")
    spec.check_answer("GET", "/images", answer)
    assert [i["digest"] for i in answer.json["items"]] == [one.image.digest]
    assert pulled(s, uri)["digest"] == one.image.digest
    assert [len(one.asked(d)) for d in one.image.layers] == [1, 1]  # they were there
    assert s.request("DELETE", f"/v1/images?uri={one.image.digest}").status in (200, 204)
    wait_for(lambda: blobs(s) == [])


def test_a_tag_is_known_by_what_the_registry_calls_it(lie, server_for):
    image = image_of()
    one = lie(at_manifests(lambda h, path: reply(h, 200, image.manifest, MANIFEST, Docker_Content_Digest=image.digest) or True), image)
    assert pulled(server_for(one), one.uri)["digest"] == image.digest
    plain = lie(None, image)
    assert pulled(server_for(plain), plain.uri)["digest"] == digest_of(image.manifest)


def test_an_index_may_name_its_manifests_by_sha512(lie, server_for):
    image = image_of(kind="sha512")
    index = index_of(image)
    types = {digest_of(index, "sha512"): (index, OCI + "index.v1+json"), image.digest: (image.manifest, image.type)}
    one = lie(at_manifests(lambda h, path: reply(h, 200, *types[path.split("/")[-1]]) or True), image)
    assert pulled(server_for(one), of(one, digest_of(index, "sha512")))["digest"] == image.digest


def flipped(digest):
    return digest[:-1] + ("0" if digest[-1] != "0" else "1")


def test_a_manifest_is_held_to_all_of_its_digest(lie, server_for):
    one = lie(None, image_of())
    s = server_for(one)
    for digest in (flipped(one.image.digest), "sha512:" + "0" * 128, "sha256:" + one.image.digest[7:71]):
        refused(s, of(one, digest), "not what its digest says", code="invalid")
    bent = lie(at_manifests(lambda h, path: reply(h, 200, one.image.manifest, MANIFEST,
                                                 Docker_Content_Digest=flipped(one.image.digest)) or True), one.image)
    refused(server_for(bent), bent.uri, "not what its digest says", code="invalid")
    assert blobs(s) == [] and s.get("/v1/images").json["items"] == []


@pytest.mark.parametrize("fn, words", [
    (lambda h, data: reply(h, 200, data[:-1] + b"!"), "not what its digest says"),
    (lambda h, data: reply(h, 200, data + b"!"), "more bytes came"),
    (lambda h, data: reply(h, 200, data[:-1]), "ended after"),
])
def test_layers_are_held_to_their_sha512(lie, server_for, fn, words):
    image = image_of()
    one = lie(layer_hook(image, fn), image)
    s = server_for(one)
    refused(s, one.uri, words, code="invalid")
    wait_for(lambda: blobs(s) == [])
    assert s.get("/v1/images").json["items"] == []


def test_a_configuration_is_held_to_its_sha512(lie, server_for):
    image = image_of()
    image.blobs[image.digest_of(image.config)] = image.config.replace(b"linux", b"Linux")
    one = lie(None, image)
    refused(server_for(one), one.uri, "not what its digest says", code="invalid")


def test_one_blob_under_two_digests_is_two(lie, server_for):
    """What was verified by one is not taken for the other."""
    tars = [tar_of({"a": b"the same"})]
    by256, by512 = lie(None, image_of(*tars, kind="sha256")), lie(None, image_of(*tars))
    s = server_for(by256, by512)
    pulled(s, by256.uri)
    pulled(s, by512.uri)
    assert blobs(s) == sorted(["sha256-" + by256.image.layers[0][7:], "sha256-" + name_of(by512.image.layers[0])])


def test_an_archive_may_have_them_and_is_written_with_them(lie, server_for, spec):
    s = server_for(lie())
    image = image_of()
    got = load(s, layout_of(("example.test/some/thing:v1", image)), spec=spec)
    assert [(i["digest"], i["layers"]) for i in got] == [(image.digest, image.layers)]
    archive = save(s, "example.test/some/thing:v1", spec=spec)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {n: tar.extractfile(n).read() for n in tar.getnames()}
    for name, data in found.items():
        if name.startswith("blobs/"):
            assert digest_of(data, name.split("/")[1]).split(":")[1] == name.split("/")[2]
    assert {"blobs/" + d.replace(":", "/") for d in (image.digest, *image.layers)} <= set(found)
    assert json.loads(found["index.json"])["manifests"][0]["digest"] == image.digest
    assert found[json.loads(found["manifest.json"])[0]["Config"]] == image.config
    other = server_for(lie())
    again = load(other, archive)
    assert [(i["digest"], i["layers"]) for i in again] == [(image.digest, image.layers)] and save(other, "example.test/some/thing:v1") == archive


def test_an_archive_is_held_to_its_sha512(lie, server_for, spec):
    s = server_for(lie())
    bent = image_of(tar_of({"c": b"c" * 1000}))
    archive = layout_of(("example.test/other/thing:v1", bent))
    blob = bent.blobs[bent.layers[0]]
    words = load(s, archive.replace(blob, blob[:-1] + bytes([blob[-1] ^ 1])), status=400, spec=spec)
    assert "not what its digest says" in words


@pytest.fixture
def made(tmp_path):
    """made(image): a liar, and an API whose server knows it."""
    started = []

    def make(image):
        one = Liar(image)
        folder = tmp_path / f"server{len(started)}"
        folder.mkdir()
        s = Server(folder, entry(one.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
        started.extend([s, one])
        s.wait_ready()
        return one, s

    yield make
    for it in started:
        it.stop()


def test_sandboxes_run_from_them(made, spec):
    image = image_of(BASE, tar([member("hello", data=b"by sha512")]))
    one, s = made(image)
    api = Api(s, spec, "/v1")
    sandbox = create(api, of(one, image.digest))
    assert api.run(sandbox["id"], "cat /hello") == ["by sha512"]
    assert api.read(sandbox["id"])["image"]["uri"] == of(one, image.digest)
    assert {f"blob-{name_of(d)}" for d in image.layers} <= set(layers(s))
    api.delete(sandbox["id"])


def test_snapshots_stand_on_that_digest_and_starts_know_it(made, spec):
    """Decision 22: what the name meant is asked for again by the digest that the registry knows."""
    image = image_of(BASE, tar([member("hello", data=b"the first")]))
    one, s = made(image)
    api = Api(s, spec, "/v1")
    first = create(api, of(one, image.digest))["id"]
    kept = api.snapshot(first)
    os.kill(s.pid, signal.SIGKILL)
    wait_for(lambda: api.get("/snapshots").status == 200, what="the server")
    assert [i["digest"] for i in s.get("/v1/images").json["items"]] == [image.digest]
    assert s.request("DELETE", f"/v1/images?uri={of(one, image.digest)}").status in (204, 409)
    asked = len(one.requests)
    second = api.restore(kept)
    assert api.run(second, "cat /hello") == ["the first"]
    assert len(one.requests) == asked
    for sandbox in (first, second):
        assert api.delete(sandbox).status == 204
    assert api.delete_snapshot(kept).status == 204


def test_what_is_in_a_layer_is_held_to_its_sha512(made, spec):
    image = image_of(BASE, tar([member("f", data=b"x")]))
    config = json.loads(image.config)
    config["rootfs"]["diff_ids"][1] = flipped(config["rootfs"]["diff_ids"][1])
    image.config = json.dumps(config).encode()
    image.add(image.config)
    manifest = json.loads(image.manifest)
    manifest["config"].update(digest=image.digest_of(image.config), size=len(image.config))
    image.manifest = json.dumps(manifest).encode()
    one, s = made(image)
    api = Api(s, spec, "/v1")
    api.refused(try_create(api, one.uri), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", "another digest")
    wait_for(lambda: not [n for n in layers(s) if n.startswith(("new-", "gone-"))])
