# SPDX-License-Identifier: Apache-2.0
"""Images from archives and into them: OCI layouts, docker's archives, root file systems."""
import gzip
import io
import json
import os
import subprocess
import tarfile
import urllib.parse

import pytest

import registry
from api import wait_for
from conftest import KEY, Server
from registry import Image, Registry, digest_of, tar_of, zstd
from test_image_pull import blobs, entry, names_of, pulled, refused

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("hub") / "r")
    yield r
    r.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory, hub):
    s = Server(tmp_path_factory.mktemp("server"), entry(hub.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


def load(server, archive, name=None, status=200, spec=None):
    query = "?" + urllib.parse.urlencode({"name": name}) if name else ""
    answer = server.request("POST", "/v1/images/load" + query, body=archive, timeout=60)
    if spec:
        spec.check_answer("POST", "/images/load", answer)
    assert answer.status == status, answer
    return answer.json["items"] if status == 200 else answer.json["message"]


def layout_of(*named, index=None, blobs_of=()):
    """A tar of an OCI layout: (name, image) pairs."""
    entries, files = [], {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "blobs": None}
    for name, image in named:
        notes = {"io.containerd.image.name": name} if name else {}
        entries.append({**image.descriptor(), "annotations": notes})
        for data in [image.manifest, *image.blobs.values()]:
            files["blobs/" + image.digest_of(data).replace(":", "/")] = data
    for data in blobs_of:
        files["blobs/sha256/" + digest_of(data).removeprefix("sha256:")] = data
    files["index.json"] = json.dumps(index or {"schemaVersion": 2, "manifests": entries}).encode()
    return tar_of(files)


def docker_archive(layers, tags, config=None, link=False):
    """As docker wrote them for years; with LINK the last layer is a symlink to the first."""
    text = json.dumps({"os": "linux", "architecture": "amd64", "config": config or {},
                       "rootfs": {"type": "layers", "diff_ids": [digest_of(t) for t in layers]}}).encode()
    files = {digest_of(text)[7:] + ".json": text}
    paths = []
    for i, tar in enumerate(layers):
        path = f"{i:064x}/layer.tar"
        files[f"{i:064x}"] = None
        files[f"{i:064x}/VERSION"] = b"1.0"
        if link and i == len(layers) - 1:
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, f"../{0:064x}/layer.tar"
            files[path] = info
        else:
            files[path] = tar
        paths.append(path)
    files["manifest.json"] = json.dumps([{"Config": digest_of(text)[7:] + ".json", "RepoTags": tags, "Layers": paths}]).encode()
    return tar_of(files)


# ---- in ----


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.smoke
def test_a_layout_becomes_its_images(server, spec, pack):
    one, two = Image([tar_of({"one": os.urandom(50)}), tar_of({"o": b"2"})]), Image([tar_of({"two": os.urandom(50)})], compress="zstd")
    items = load(server, pack(layout_of(("lay.test/one:v1", one), ("lay.test/two:v1", two))), spec=spec)
    assert [(i["uri"], i["digest"]) for i in items] == [("lay.test/one:v1", one.digest), ("lay.test/two:v1", two.digest)]
    assert set(names_of(one) + names_of(two)) <= set(blobs(server))
    assert pulled(server, "lay.test/one:v1", refresh=False)["layers"] == one.layers  # nobody asks a registry


def test_what_no_image_needs_does_not_stay(server):
    image, other = Image([tar_of({"mine": os.urandom(50)})]), Image([tar_of({"not": os.urandom(50)})], arch="arm64")
    items = load(server, layout_of(("plat.test/x:v1", other), ("plat.test/x:v1", image)))
    assert [i["digest"] for i in items] == [image.digest]
    wait_for(lambda: not set(names_of(other)) & set(blobs(server)))
    assert set(names_of(image)) <= set(blobs(server))
    assert not [b for b in blobs(server) if b.startswith("new-")]


def test_a_nested_index_leads_to_the_platform(server):
    image, other = Image([tar_of({"n": os.urandom(9)})]), Image([tar_of({"m": b"m"})], arch="arm64")
    inner = registry.index_of(other, image)
    index = {"schemaVersion": 2, "manifests": [{"mediaType": registry.OCI + "index.v1+json", "digest": digest_of(inner),
                                                "size": len(inner)}]}
    archive = layout_of((None, image), (None, other), index=index, blobs_of=[inner])
    assert load(server, archive, name="nest.test/x")[0]["digest"] == image.digest


@pytest.mark.parametrize("link", [False, True])
def test_an_archive_of_dockers_becomes_its_image(server, spec, link):
    first = tar_of({"a": os.urandom(30)})
    layers = [first, tar_of({"b": os.urandom(30)})] + ([first] if link else [])
    items = load(server, docker_archive(layers, ["dock.test/a:v1", "dock.test/a:v2"], {"Env": ["A=b"]}, link), spec=spec)
    assert [i["uri"] for i in items] == ["dock.test/a:v1", "dock.test/a:v2"]
    assert items[0]["layers"] == [digest_of(t) for t in layers]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_root_file_system_is_an_image_of_one_layer(server, spec, pack):
    archive = pack(tar_of({"etc": None, "etc/passwd": os.urandom(20), "manifest.json": b"not what it seems"}))
    items = load(server, archive, name="root.test/fs:v1", spec=spec)
    assert items[0]["uri"] == "root.test/fs:v1" and items[0]["layers"] == [digest_of(archive)]
    assert "give it one" in load(server, archive, status=400, spec=spec)


def bent_layout():
    image = Image([tar_of({"x": os.urandom(40)})])
    name = "blobs/sha256/" + image.layers[0].removeprefix("sha256:")
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layout_of(("bent.test/x:v1", image)))) as old, tarfile.open(fileobj=out, mode="w") as new:
        for m in old.getmembers():
            data = old.extractfile(m).read() if m.isfile() else b""
            new.addfile(m, io.BytesIO(data if m.name != name else b"!" * len(data)))
    return out.getvalue()


def without(image, layer):
    del image.blobs[image.layers[layer]]
    return image


@pytest.mark.parametrize(
    "archive, words",
    [
        (lambda: b"", "empty"),
        (lambda: b"no tar at all" * 100, ""),
        (lambda: tar_of({"a": b"b"})[:600], ""),
        (lambda: tar_of({"../a": b"b"}), ".."),
        (lambda: layout_of((None, Image([tar_of({"a": b"b"})]))), "give it a name"),
        (lambda: layout_of(("latest", Image([tar_of({"a": b"b"})]))), "give it a name"),
        (lambda: layout_of(("Up/Per:x", Image([tar_of({"a": b"b"})]))), "small letters"),
        (lambda: layout_of(("a.test/x:y", without(Image([tar_of({"a": os.urandom(9)})]), 0))), "lacks layer 1"),
        (lambda: layout_of(("a.test/x:y", Image([tar_of({"a": b"b"})], arch="arm64"))), "no image for linux/amd64"),
        (lambda: layout_of(index={"schemaVersion": 2, "manifests": [], "layers": []}), "both"),
        (lambda: layout_of(index={"schemaVersion": 2, "manifests": [{"mediaType": registry.OCI + "manifest.v1+json",
                                                                    "digest": "sha256:" + "0" * 64, "size": 5}]}), "lacks a document"),
        (bent_layout, "not what its digest says"),
    ],
)
def test_a_bad_archive_is_refused_and_leaves_nothing(server, spec, archive, words):
    before = [i["uri"] for i in server.get("/v1/images").json["items"]]
    wait_for(lambda: not [b for b in blobs(server) if b.startswith("new-")])
    kept = blobs(server)
    message = load(server, archive(), status=400, spec=spec)
    assert words in message, message
    assert [i["uri"] for i in server.get("/v1/images").json["items"]] == before
    wait_for(lambda: blobs(server) == kept)


def test_an_upload_that_stops_leaves_nothing(server):
    wait_for(lambda: not [b for b in blobs(server) if b.startswith("new-")])
    kept = blobs(server)
    with server.connect() as c:
        c.sendall(b"POST /v1/images/load HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: " + KEY.encode() +
                  b"\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 3_000_000)
        wait_for(lambda: [b for b in blobs(server) if b.startswith("new-")])
    wait_for(lambda: blobs(server) == kept)


# ---- out ----


def save(server, uri, status=200, spec=None, **more):
    answer = server.request("POST", "/v1/images/save", body=json.dumps({"uri": uri, **more}), timeout=60,
                            headers={"Content-Type": "application/json"})
    if spec:
        spec.check_answer("POST", "/images/save", answer)
    assert answer.status == status, answer
    return answer.body


def test_what_is_saved_can_be_loaded_again(server, hub, spec, start_server):
    image = Image([tar_of({"s": os.urandom(200_000)}), tar_of({"t": b"t"})], {"Env": ["X=y"]}, docker=True)
    uri = hub.push("to/save", "v1", image)
    archive = save(server, uri, spec=spec)  # it was not even there
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        names = tar.getnames()
        assert {"oci-layout", "index.json", "manifest.json"} < set(names)
        for name in names:
            if name.startswith("blobs/"):
                assert digest_of(tar.extractfile(name).read())[7:] == name.split("/")[-1]
    other = start_server()
    items = load(other, archive)
    assert [(i["uri"], i["digest"], i["layers"]) for i in items] == [(uri, image.digest, image.layers)]
    assert save(other, uri) == archive
    assert b"has no such image" in save(server, f"{hub.host}/no/such", status=404, spec=spec)


@pytest.mark.skipif(not os.path.exists("/usr/bin/skopeo"), reason="skopeo is not installed")
@pytest.mark.parametrize("kind", ["oci-archive", "docker-archive"])
def test_others_read_what_is_saved_and_write_what_is_loaded(server, hub, tmp_path, kind):
    image = Image([tar_of({"usr": None, "usr/x": os.urandom(9000)}), tar_of({"y": b"y"})], {"Cmd": ["/x"]})
    uri = hub.push(f"skopeo/{kind.split('-')[0]}", "v1", image)
    (tmp_path / "ours.tar").write_bytes(save(server, uri))
    policy = tmp_path / "policy.json"
    policy.write_text('{"default":[{"type":"insecureAcceptAnything"}]}')

    def skopeo(*args):
        return subprocess.run(["skopeo", "--policy", policy, *args], check=True, capture_output=True, text=True).stdout

    theirs = tmp_path / "theirs.tar"
    skopeo("copy", f"{kind}:{tmp_path}/ours.tar", f"{kind}:{theirs}:skopeo.test/x:v2")
    items = load(server, theirs.read_bytes())
    assert [i["uri"] for i in items] == ["skopeo.test/x:v2"]
    assert len(items[0]["layers"]) == 2


def test_a_private_image_is_saved_for_who_could_pull_it(tmp_path, start_server):
    r = Registry(tmp_path / "r", with_password=True)
    try:
        s = start_server(entry(r.host))
        uri = r.push("my/own", "v1", Image([tar_of({"s": b"ecret"})]))
        auth = {"username": registry.USER, "password": registry.PASSWORD}
        pulled(s, uri, auth=auth)
        assert b"credentials" in save(s, uri, status=403)
        assert len(save(s, uri, auth=auth)) > 1024
        refused(s, uri, code="denied", refresh=False)
    finally:
        r.stop()
