# SPDX-License-Identifier: Apache-2.0
"""What every runtime keeps: volumes, snapshots and images, sandboxes over restarts of the server, and what is not its own."""
import io
import json
import tarfile

import pytest

from api import BODY, STAY, wait_for
from registry import Image, tar_of
from runtimes import box, kind, need, one, own, running  # noqa: F401

PVC = {"name": "v", "mountPath": "/data", "pvc": {"claimName": "conformance"}}


# ---- volumes ----


def test_a_named_volume_outlives_its_sandbox(one, box):
    if not need(one, "volumes", lambda: one.api.try_create(volumes=[PVC])):
        return
    first = box(volumes=[PVC])
    one.api.run(first, "echo kept >/data/file")
    assert one.api.delete(first).status == 204
    second = box(volumes=[{**PVC, "mountPath": "/other", "readOnly": True}])
    assert one.api.run(second, "cat /other/file; touch /other/x 2>/dev/null || echo read-only") == ["kept", "read-only"]
    assert one.api.call("DELETE", "/volumes/conformance").status == 409
    assert one.api.delete(second).status == 204
    assert one.api.call("DELETE", "/volumes/conformance").status == 204
    assert one.api.get("/volumes").json["items"] == []


def test_a_folder_that_is_not_listed_is_refused(one):
    volume = {"name": "v", "mountPath": "/data", "host": {"path": "/etc"}}
    if need(one, "host_paths", lambda: one.api.try_create(volumes=[volume])):
        one.api.refused(one.api.try_create(volumes=[volume]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED")


def test_a_listed_folder_is_mounted(kind, spec, tmp_path_factory):
    if "host_paths" not in kind.CAPABILITIES:
        pytest.skip("refused in another test")
    folder = tmp_path_factory.mktemp("listed")
    (folder / "sub").mkdir()
    (folder / "sub/file").write_text("of the host")
    for path in (folder, folder / "sub", folder / "sub/file", *list(folder.parents)[:-2]):
        path.chmod(path.stat().st_mode | 0o555)
    env = {"OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": json.dumps([str(folder)])}
    with running(kind, spec, tmp_path_factory.mktemp("server"), env) as r:
        name = r.api.create(volumes=[{"name": "v", "mountPath": "/data", "subPath": "sub", "host": {"path": str(folder)}}])["id"]
        assert r.api.run(name, "cat /data/file") == ["of the host"]


# ---- snapshots ----


def test_a_snapshot_keeps_files_and_is_restored(one, box):
    source = box()
    if not need(one, "snapshots", lambda: one.api.post(f"/sandboxes/{source}/snapshots")):
        return
    one.api.run(source, "echo before >/root/file")
    snapshot = one.api.snapshot(source)
    one.api.run(source, "echo after >/root/file")
    copy = one.api.restore(snapshot)
    assert one.api.run(copy, "cat /root/file") == ["before"]
    assert one.api.run(source, "cat /root/file") == ["after"]
    one.api.refused(one.api.delete_snapshot(snapshot), 409, "SNAPSHOT::DELETE_CONFLICT")
    assert one.api.delete(copy).status == 204
    assert one.api.delete_snapshot(snapshot).status == 204
    one.api.refused(one.api.get(f"/snapshots/{snapshot}"), 404, "SNAPSHOT::NOT_FOUND")


def test_a_snapshot_of_a_restored_sandbox_outlives_the_first(one, box):
    source = box()
    if not one.can("snapshots"):
        return
    one.api.run(source, "echo one >/root/one")
    first = one.api.snapshot(source)
    copy = one.api.restore(first)
    one.api.run(copy, "echo two >/root/two")
    second = one.api.snapshot(copy)
    assert one.api.delete(copy).status == 204
    assert one.api.delete_snapshot(first).status == 204
    again = one.api.restore(second)
    assert one.api.run(again, "cat /root/one /root/two") == ["one", "two"]
    assert one.api.delete(again).status == 204
    assert one.api.delete_snapshot(second).status == 204


def test_forks_have_the_files_of_their_source(one, box):
    source = box()
    if not need(one, "fork", lambda: one.api.post(f"/sandboxes/{source}/fork", {})):
        return
    one.api.run(source, "echo kept >/root/file")
    forks = one.api.fork(source, count=2)
    for fork in forks:
        assert one.api.run(fork, "cat /root/file") == ["kept"]
    one.api.run(forks[0], "echo other >/root/file")
    assert one.api.run(forks[1], "cat /root/file") == ["kept"]
    for fork in forks:
        assert one.api.delete(fork).status == 204


def test_a_rollback_brings_the_files_back(one, box):
    source = box()
    if not need(one, "rollback", lambda: one.api.post(f"/sandboxes/{source}/rollback", {"snapshotId": "x"})):
        return
    one.api.run(source, "echo before >/root/file")
    snapshot = one.api.snapshot(source)
    one.api.run(source, "echo after >/root/file")
    assert one.api.rollback(source, snapshot)["id"] == source
    assert one.api.run(source, "cat /root/file") == ["before"]
    assert one.api.delete(source).status == 204
    assert one.api.delete_snapshot(snapshot).status == 204


# ---- images ----


def layout(name, image):
    """An OCI layout with one image, as a tar."""
    descriptor = {**image.descriptor(), "annotations": {"io.containerd.image.name": name}}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "blobs": None,
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode()}
    for data in [image.manifest, *image.blobs.values()]:
        files["blobs/" + image.digest_of(data).replace(":", "/")] = data
    return tar_of(files)


def load(r, archive):
    return r.server.request("POST", "/v1/images/load", body=archive, timeout=60)


def test_images_are_listed_and_what_is_not_there_is_404(one):
    if not need(one, "images", lambda: one.api.get("/images")):
        return
    assert isinstance(one.api.get("/images").json["items"], list)
    assert one.api.call("DELETE", "/images?uri=no.test/such:image").json["code"] == "IMAGES::NOT_FOUND"


def test_an_image_is_loaded_saved_and_removed(one):
    archive = layout("conf.test/a:v1", Image([tar_of({"etc": None, "etc/file": b"there"})]))
    if not need(one, "image_archives", lambda: load(one, archive)):
        return
    a = load(one, archive)
    assert a.status == 200, a
    assert [item["uri"] for item in a.json["items"]] == ["conf.test/a:v1"]
    assert "conf.test/a:v1" in [item["uri"] for item in one.api.get("/images").json["items"]]
    saved = one.server.request("POST", "/v1/images/save", body=json.dumps({"uri": "conf.test/a:v1"}),
                               headers={"Content-Type": "application/json"}, timeout=60)
    assert saved.status == 200, saved
    with tarfile.open(fileobj=io.BytesIO(saved.body)) as tar:
        assert "index.json" in tar.getnames()
    assert one.api.call("DELETE", "/images?uri=conf.test/a:v1").status == 204
    assert "conf.test/a:v1" not in [item["uri"] for item in one.api.get("/images").json["items"]]


def test_a_pull_that_fails_says_why(one):
    body = json.dumps({"uri": "localhost:1/no/such:image"})
    pull = lambda: one.server.request("POST", "/v1/images/pull", body=body, headers={"Content-Type": "application/json"},  # noqa: E731
                                      timeout=60)
    if need(one, "images", pull):
        last = [json.loads(line[6:]) for line in pull().body.decode().splitlines() if line.startswith("data: ")][-1]
        assert last["type"] == "error" and last["message"], last


def test_an_image_that_somebody_stands_on_cannot_go(one):
    """Nor does a snapshot as an archive come from an image that the runtime does not keep."""
    name = one.api.create(image={"uri": one.runtime.IMAGE})["id"]
    if one.can("snapshots"):
        snapshot = one.api.snapshot(name)
        a = one.api.get(f"/snapshots/{snapshot}/archive", timeout=60)
        assert a.status in (200, 409, 501), a
        if a.status != 200:
            assert a.json["code"] in ("SNAPSHOT::NOT_EXPORTABLE", "SNAPSHOT::NOT_IMPLEMENTED"), a
        assert one.api.delete_snapshot(snapshot).status == 204
    assert one.api.delete(name).status == 204


# ---- networks ----


def test_a_policy_is_held_or_refused(one):
    """Whether one is held is for the tests of networks; a runtime never leaves it out in silence."""
    a = one.api.try_create(networkPolicy={"defaultAction": "deny", "egress": []})
    if a.status == 202:
        assert one.api.run(a.json["id"], "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)' 2>/dev/null || echo no") == ["no"]
        assert one.api.delete(a.json["id"]).status == 204
    else:
        one.api.refused(a, 400, "SANDBOX::INVALID_PARAMETER", "networkPolicy")


# ---- restarts ----


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_sandboxes_live_through_the_server(own, how):
    running_one = own.api.create(entrypoint=STAY, metadata={"k": "v"}, env={"A": "b"})["id"]
    own.api.run(running_one, "echo $$ >/root/file; sleep 1000 >/dev/null 2>&1 &")
    paused = own.api.create(entrypoint=STAY)["id"]
    if own.can("pause"):
        own.api.pause(paused)
        own.api.wait_state(paused, "Paused")
    ending = own.api.create(entrypoint=["sh", "-c", "while [ ! -e /tmp/end ]; do sleep 0.1; done; sleep 1; exit 7"])["id"]
    own.api.run(ending, "touch /tmp/end")
    getattr(own, how)()
    assert own.api.read(running_one)["metadata"] == {"k": "v"} and own.api.state(running_one) == "Running"
    assert own.api.run(running_one, "test -s /root/file && pgrep -c sleep || true") not in ([], ["0"])
    assert own.api.state(paused) == ("Paused" if own.can("pause") else "Running")
    assert own.api.wait_state(ending, "Failed", "Terminated")["state"] == "Failed"
    for name in (running_one, paused, ending):
        assert own.api.delete(name).status == 204
    wait_for(lambda: own.runtime.boxes(own.server) == 0, what="sandboxes that go")


def test_snapshots_and_volumes_live_through_the_server(own):
    name = own.api.create(entrypoint=STAY, **({"volumes": [PVC]} if own.can("volumes") else {}))["id"]
    own.api.run(name, "echo kept >/root/file; [ ! -d /data ] || echo kept >/data/file")
    snapshot = own.api.snapshot(name) if own.can("snapshots") else None
    assert own.api.delete(name).status == 204
    own.restart()
    if snapshot:
        copy = own.api.restore(snapshot)
        assert own.api.run(copy, "cat /root/file") == ["kept"]
        assert own.api.delete(copy).status == 204
        assert own.api.delete_snapshot(snapshot).status == 204
    if own.can("volumes"):
        copy = own.api.create(entrypoint=STAY, volumes=[PVC])["id"]
        assert own.api.run(copy, "cat /data/file") == ["kept"]
        assert own.api.delete(copy).status == 204
        assert own.api.call("DELETE", "/volumes/conformance").status == 204


def test_what_is_not_its_own_is_not_touched(own, kind, spec, tmp_path_factory):
    """Neither of others nor of another server."""
    is_there, remove = own.runtime.make_foreign()
    try:
        with running(kind, spec, tmp_path_factory.mktemp("second")) as second:
            theirs = second.api.create(entrypoint=STAY)["id"]
            mine = own.api.create(entrypoint=STAY)["id"]
            own.restart()
            assert own.api.get(f"/sandboxes/{theirs}").status == 404
            assert own.api.delete(mine).status == 204
            assert second.api.run(theirs, "echo alive") == ["alive"]
            assert second.api.delete(theirs).status == 204
        assert is_there()
    finally:
        remove()


def test_what_is_asked_for_wrongly_leaves_nothing(own):
    before = own.runtime.boxes(own.server)
    for body in ({**BODY, "image": {"uri": "no such image"}}, {**BODY, "entrypoint": ["/no/such"]}, {**BODY, "timeout": -1}):
        assert own.api.post("/sandboxes", body).status >= 400
    assert own.runtime.boxes(own.server) == before
    assert own.api.get("/sandboxes").json["items"] == []
