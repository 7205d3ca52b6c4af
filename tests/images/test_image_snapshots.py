# SPDX-License-Identifier: Apache-2.0
"""Snapshots of sandboxes from images: they stand on the layers that their source stood on, whatever became of its name."""
import os
import signal

import pytest

import registry
from api import Api, wait_for
from conftest import KEY, Server
from oci import folder, member
from registry import Image, guarded, plain  # noqa: F401
from test_image_pull import entry
from test_image_sandboxes import BASE, blob_names, create, layers, tar
from test_images import BUSYBOX

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
    pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory, plain, guarded):
    s = Server(tmp_path_factory.mktemp("server"), entry(plain.host) + entry(guarded.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture
def api(made, spec):
    api = Api(made, spec, "/v1")
    yield api
    for row in api.get("/sandboxes").json["items"]:
        api.delete(row["id"])
    for row in api.get("/snapshots").json["items"]:
        api.delete_snapshot(row["id"])


def version(number):
    return Image([BASE, tar([member("version", data=f"v{number}\n".encode()), member(f"own{number}", data=os.urandom(64))])])


def pull(api, uri):
    events = api.server.request("POST", "/v1/images/pull", f'{{"uri": "{uri}"}}', timeout=60).body.decode()
    assert '"done"' in events, events


def images(api, name):
    return {(i["digest"], i["kept"]) for i in api.get("/images").json["items"] if f"/{name}" in i["uri"]}


def own(image):
    return (blob_names(image) - blob_names(Image([BASE]))).pop()


def see(api, sandbox_id):
    return api.run(sandbox_id, "cat /version; cat /upper 2>/dev/null; ls / | grep own")


def moved(api, host, name, **more):
    """A sandbox and a snapshot of v1, after v2 was pulled under the same tag."""
    one, two = version(1), version(2)
    uri = host.push(name, "latest", one)
    sandbox = create(api, uri, **more)["id"]
    assert api.run(sandbox, "echo upper >/upper") == []
    snapshot = api.snapshot(sandbox)
    host.push(name, "latest", two)
    return one, two, uri, sandbox, snapshot


def restart(api):
    os.kill(api.server.pid, signal.SIGKILL)
    api.server.wait_ready()


@pytest.mark.smoke
def test_a_tag_that_moves_leaves_what_stands_on_the_old_image_alone(api, plain):
    one, two, uri, sandbox, snapshot = moved(api, plain, "moved/tag")
    pull(api, uri)
    assert images(api, "moved/tag") == {(one.digest, True), (two.digest, False)}
    new = create(api, uri)["id"]
    assert see(api, new) == ["v2", "own2"]
    for again in (False, True):
        restored, fork = api.restore(snapshot), api.fork(sandbox, count=1)[0]
        assert see(api, restored) == see(api, fork) == ["v1", "upper", "own1"]
        assert api.run(sandbox, "rm /upper; rm -f /version") == []
        api.rollback(sandbox, snapshot)
        assert see(api, sandbox) == ["v1", "upper", "own1"]
        for one_of in (restored, fork):
            assert api.delete(one_of).status == 204
        if not again:
            restart(api)
    assert images(api, "moved/tag") == {(one.digest, True), (two.digest, False)}


@pytest.mark.parametrize("with_restart", [False, True], ids=["", "restarted"])
def test_a_removed_image_stays_as_long_as_something_stands_on_it(api, plain, with_restart):
    name = f"removed/r{with_restart}".lower()
    one, two, uri, sandbox, snapshot = moved(api, plain, name)
    pull(api, uri)
    assert api.delete(sandbox).status == 204
    assert api.call("DELETE", f"/images?uri={uri}").status == 204
    assert images(api, name) == {(one.digest, True)}
    for what in (one.digest, f"{plain.host}/{name}@{one.digest}"):
        api.refused(api.call("DELETE", f"/images?uri={what}"), 409, "IMAGES::IN_USE", "stand on image")
    if with_restart:
        restart(api)
    wait_for(lambda: own(two) not in layers(api.server), 30, "the layer of v2 to go")
    assert own(one) in layers(api.server)
    plain.process.send_signal(signal.SIGSTOP)
    try:
        restored = api.restore(snapshot)
    finally:
        plain.process.send_signal(signal.SIGCONT)
    assert see(api, restored) == ["v1", "upper", "own1"]
    assert api.delete(restored).status == 204
    assert api.delete_snapshot(snapshot).status == 204
    wait_for(lambda: own(one) not in layers(api.server), 40, "the layer of v1 to go")
    assert images(api, name) == set()


def test_an_image_without_users_goes_at_once(api, plain):
    one = version(1)
    uri = plain.push("nobodys/image", "v1", one)
    pull(api, uri)
    plain.push("nobodys/image", "v1", two := version(2))
    pull(api, uri)
    assert images(api, "nobodys/image") == {(two.digest, False)}
    assert api.call("DELETE", f"/images?uri={two.digest}").status == 204
    assert images(api, "nobodys/image") == set()


def test_the_layers_of_an_old_image_that_were_lost_are_pulled_by_digest(api, plain, made):
    one, two, uri, sandbox, snapshot = moved(api, plain, "lost/layers")
    pull(api, uri)
    assert api.delete(sandbox).status == 204
    wait_for(lambda: not api.get("/sandboxes").json["items"])
    store = f"/proc/{made.warden_pid}/root{made.home.state}/store/layers/{own(one)}"
    os.rename(store, store.replace("blob-", "gone-"))
    os.kill(made.warden_pid, signal.SIGKILL)
    wait_for(lambda: made.children(True))
    made.wait_ready()
    restored = wait_for(lambda: (a := api.try_create(image=..., snapshotId=snapshot, entrypoint=...)).status == 202 and a.json["id"], 20)
    assert see(api, restored) == ["v1", "upper", "own1"]
    assert (two.digest, False) in images(api, "lost/layers") and (one.digest, True) in images(api, "lost/layers")


def test_a_private_image_of_old_is_not_for_others(api, guarded):
    auth = {"auth": {"username": registry.USER, "password": registry.PASSWORD}}
    one, _, uri, sandbox, snapshot = moved(api, guarded, "private/moved", image=auth)
    assert api.call("DELETE", f"/images?uri={uri}").status == 204
    assert images(api, "private/moved") == {(one.digest, True)}
    answer = api.try_create(image={"uri": f"{guarded.host}/private/moved@{one.digest}"})
    api.refused(answer, 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED")
    assert see(api, api.restore(snapshot)) == ["v1", "upper", "own1"], "who has the snapshot has it already"


def test_records_of_before_go_by_the_name(api, plain, made):
    import sqlite3

    one, two, uri, sandbox, snapshot = moved(api, plain, "records/before")
    made_state = made.home.state / "server" / "db.sqlite"
    os.kill(made.pid, signal.SIGSTOP)
    try:
        with sqlite3.connect(made_state, timeout=10) as db:
            for table in ("sandboxes", "snapshots"):
                changed = db.execute(f"UPDATE {table} SET spec = json_remove(spec, '$.digest')").rowcount
                assert changed > 0
        db.close()
        made_state.with_name("copy.sqlite").unlink()  # or they would be restored from there
    finally:
        os.kill(made.pid, signal.SIGKILL)
        made.wait_ready()
    assert see(api, api.restore(snapshot)) == ["v1", "upper", "own1"]
    pull(api, uri)
    assert see(api, api.restore(snapshot)) == ["v2", "upper", "own2"]


# ---- as many layers as an image may have (I2) --------------------------------------------------------------------


def most_layers():
    """128 of them: the empty one at three places, one that is there again above its own whiteout, the others distinct."""
    empty, again = tar([]), tar([folder("d/"), member("d/again", data=b"again\n")])
    stack = [BASE, empty, again, tar([folder("d/"), member("d/.wh.again"), member("d/other", data=b"other\n")]), empty, again]
    stack += [tar([member("n", data=f"{i}\n".encode()), member(f"f{i}")]) for i in range(128 - len(stack) - 1)]
    return Image([*stack, empty])


def test_an_image_of_128_layers_some_of_them_twice_and_snapshots_of_it(api, plain):
    image = most_layers()
    assert len(image.layers) == 128
    sandbox = create(api, plain.push("most/layers", "v1", image))["id"]
    look = "cat /n /d/again /d/other; ls / | grep -c '^f[0-9]'"
    assert api.run(sandbox, look) == ["120", "again", "other", "121"]
    api.run(sandbox, "echo 1 >/n; rm /d/other; echo mine >/mine")
    snapshot = api.snapshot(sandbox)
    for number in (2, 3):
        restored = api.restore(snapshot)
        assert api.run(restored, "cat /n /mine /d/again; ls /d") == [str(number - 1), "mine", "again", "again"]
        api.run(restored, f"echo {number} >/n")
        snapshot = api.snapshot(restored)
    fork = api.fork(restored, count=1)[0]
    assert api.run(fork, "cat /n /mine; ls /d") == ["3", "mine", "again"]
    api.run(restored, "rm /mine")
    api.rollback(restored, snapshot)
    assert api.run(restored, "cat /n /mine; ls /d") == ["3", "mine", "again"]
    answer = api.call("GET", f"/snapshots/{snapshot}/archive")
    assert answer.status == 409 and "more layers than an image may have" in answer.json["message"], answer.json
