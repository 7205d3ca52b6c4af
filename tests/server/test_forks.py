# SPDX-License-Identifier: Apache-2.0
"""Forks of a sandbox, and its way back to one of its snapshots."""
import concurrent.futures
import os
import signal

import pytest

import census
from api import Api, wait_for, when
from test_snapshots import CHANGES, LOOK, SEEN, is_up, kept, layers, sh  # noqa: F401 (kept is a fixture)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# ---- forks ----


@pytest.mark.smoke
def test_each_fork_begins_with_the_same_files_and_is_its_own(api, kept):  # noqa: F811
    source = api.create(metadata={"a": "b"}, env={"SECRET": "x"}, timeout=600, resourceLimits={"memory": "128Mi", "pids": "77"})["id"]
    sh(api, source, CHANGES)
    a = api.post(f"/sandboxes/{source}/fork", {"count": 3, "timeout": 300, "metadata": {"c": "d"}, "env": {"OWN": "y"}})
    assert a.status == 202
    ids = [s["id"] for s in a.json["items"]]
    assert len({*ids, source}) == 4
    for fork in a.json["items"]:
        assert fork["metadata"] == {"c": "d"} and fork["status"]["state"] == "Running"
        assert 299 <= (when(fork["expiresAt"]) - when(fork["createdAt"])).total_seconds() <= 301
        shown = api.read(fork["id"])
        assert shown["image"] == {"uri": "host"} and "snapshotId" not in shown
    for i, fork in enumerate(ids):
        assert sh(api, fork, LOOK + "echo ${SECRET:-none} $OWN") == [*SEEN, "none y"]
        sh(api, fork, f"echo {i} > /root/mine; rm -rf /data")
    assert [sh(api, f, "cat /root/mine") for f in ids] == [["0"], ["1"], ["2"]]
    assert sh(api, source, LOOK + "test ! -e /root/mine") == SEEN
    assert api.get("/snapshots").json["items"] == []
    assert len(layers(api.server)) == 1
    for fork in ids[:2]:
        assert api.delete(fork).status == 204
    assert sh(api, ids[2], "cat /root/mine") == ["2"] and len(layers(api.server)) == 1
    assert api.delete(ids[2]).status == 204
    wait_for(lambda: layers(api.server) == [], what="the layer of the forks going")


def test_limits_are_those_of_the_source_unless_named(api, kept):  # noqa: F811
    source = api.create(resourceLimits={"pids": "40", "disk": "30Mi"})["id"]
    fork, = api.fork(source)
    out = api.run(fork, "head -c 100M /dev/zero > /root/more; stat -c %s /root/more")
    assert int(out[0]) <= 30 << 20
    fork, = api.fork(source, resourceLimits={"disk": "60Mi"})
    out = api.run(fork, "head -c 100M /dev/zero > /root/more; stat -c %s /root/more")
    assert 30 << 20 < int(out[0]) <= 60 << 20


def test_a_fork_of_a_fork_stands_on_both(api, kept):  # noqa: F811
    source = api.create()["id"]
    sh(api, source, "echo 1 > /root/1; echo x > /usr/local/x")
    one, = api.fork(source)
    sh(api, one, "echo 2 > /root/2; rm /usr/local/x")
    two, = api.fork(one)
    assert [api.delete(s).status for s in (source, one)] == [204, 204]
    assert sh(api, two, "cat /root/1 /root/2; test ! -e /usr/local/x") == ["1", "2"]
    kept.append(api.snapshot(two))
    assert api.delete(two).status == 204
    assert sh(api, api.restore(kept[0]), "cat /root/1 /root/2; test ! -e /usr/local/x") == ["1", "2"]


def test_a_fork_with_a_name_leaves_a_snapshot(api, kept):  # noqa: F811
    source = api.create()["id"]
    sh(api, source, "echo 1 > /root/1")
    forks = api.fork(source, count=2, name="point")
    snapshot, = api.get("/snapshots").json["items"]
    kept.append(snapshot["id"])
    assert snapshot["name"] == "point" and snapshot["sandboxId"] == source and snapshot["status"]["state"] == "Ready"
    assert {api.read(f)["snapshotId"] for f in forks} == {snapshot["id"]} and len(layers(api.server)) == 1
    for fork in forks:
        assert sh(api, fork, "cat /root/1") == ["1"] and api.delete(fork).status == 204
    sh(api, source, "rm /root/1")
    api.rollback(source, snapshot["id"])
    assert sh(api, source, "cat /root/1") == ["1"]


def test_a_paused_source_stays_paused_and_its_forks_run(api, kept):  # noqa: F811
    source = api.create()["id"]
    sh(api, source, "echo 1 > /root/1")
    api.pause(source)
    fork, = api.fork(source)
    assert api.state(source) == "Paused" and sh(api, fork, "cat /root/1") == ["1"]
    api.resume(source)


@pytest.mark.parametrize("body, status, words", [
    ({"count": 0}, 422, "count"), ({"count": 101}, 422, "count"), ({"count": "x"}, 422, "count"), ({"timeout": 5}, 422, "timeout"),
    ({"metadata": {"a b": "c"}}, 400, "metadata"), ({"resourceLimits": {"x": "1"}}, 400, "resourceLimits.x"),
    ({"env": {"": "x"}}, 400, "env"), ({"timeout": 10**12}, 400, "timeout"),
])
def test_what_a_create_would_refuse_is_refused(api, box, body, status, words):
    a = api.post(f"/sandboxes/{box()['id']}/fork", body)
    assert a.status == status and words in str(a.json), a


def test_only_what_runs_or_is_paused_can_be_forked(api, box):
    api.refused(api.post("/sandboxes/nothing/fork", {}), 404, "NATIVE::SANDBOX_NOT_FOUND")
    sandbox = box(entrypoint=["/bin/sh", "-c", "exit 0"])["id"]
    api.wait_state(sandbox, "Terminated")
    api.refused(api.post(f"/sandboxes/{sandbox}/fork", {}), 409, "SNAPSHOT::INVALID_SOURCE_STATE")


def test_if_one_fork_cannot_start_there_is_none(api, kept):  # noqa: F811
    """Its entrypoint was there when it was made, and is not in the fork."""
    source = api.create()["id"]
    sh(api, source, "cp /usr/bin/sleep /root/stay")
    kept.append(api.snapshot(source))
    own = api.create(image=..., snapshotId=kept[0], entrypoint=["/root/stay", "1000"])["id"]
    sh(api, own, "rm /root/stay")
    a = api.post(f"/sandboxes/{own}/fork", {"count": 3})
    api.refused(a, 500, "NATIVE::SANDBOX_START_FAILED", "entrypoint")
    wait_for(lambda: {s["id"] for s in api.get("/sandboxes").json["items"]} == {source, own}, what="the forks going")
    wait_for(lambda: len(layers(api.server)) == 1, what="their layer going")


# ---- rollback ----


def test_a_rollback_keeps_all_but_the_files(api, kept):  # noqa: F811
    made = api.create(metadata={"a": "b"}, timeout=600, env={"X": "1"})
    source = made["id"]
    before = api.endpoint(source, 44772)
    sh(api, source, CHANGES)
    kept.append(api.snapshot(source))
    sh(api, source, "rm -rf /data /usr/share/doc; echo later > /root/later")
    shown = api.rollback(source, kept[0], env={"X": "2"})
    assert shown["id"] == source and shown["metadata"] == {"a": "b"} and shown["expiresAt"] == made["expiresAt"]
    assert shown["status"]["state"] == "Running" and shown["snapshotId"] == kept[0]
    assert api.endpoint(source, 44772) == before
    assert sh(api, source, LOOK + "test ! -e /root/later; echo $X") == [*SEEN, "2"]
    sh(api, source, "echo again > /root/later")
    kept.append(api.snapshot(source))  # stands on the first
    api.rollback(source, kept[0])
    assert sh(api, source, LOOK + "test ! -e /root/later") == SEEN
    api.rollback(source, kept[1])
    assert sh(api, source, LOOK + "cat /root/later") == [*SEEN, "again"]
    api.refused(api.delete_snapshot(kept[1]), 409, "SNAPSHOT::DELETE_CONFLICT")


def test_what_has_ended_or_is_paused_can_be_rolled_back(api, kept):  # noqa: F811
    source = api.create(entrypoint=["/bin/sh", "-c", "while [ ! -e /root/stop ]; do sleep 0.05; done"])["id"]
    kept.append(api.snapshot(source))
    sh(api, source, "touch /root/stop")
    api.wait_state(source, "Terminated")
    api.rollback(source, kept[0])
    assert api.state(source) == "Running" and sh(api, source, "test ! -e /root/stop") == []
    api.pause(source)
    api.rollback(source, kept[0])
    assert api.state(source) == "Running" and sh(api, source, "echo ok") == ["ok"]


def test_only_its_own_snapshots_will_do(api, kept):  # noqa: F811
    one, two = api.create()["id"], api.create()["id"]
    kept.append(api.snapshot(one))
    path = f"/sandboxes/{two}/rollback"
    api.refused(api.post(path, {"snapshotId": kept[0]}), 404, "SNAPSHOT::NOT_FOUND", two)
    api.refused(api.post(path, {"snapshotId": "x"}), 404, "SNAPSHOT::NOT_FOUND")
    api.refused(api.post("/sandboxes/x/rollback", {"snapshotId": kept[0]}), 404, "NATIVE::SANDBOX_NOT_FOUND")
    assert api.post(path, {}).status == 422 == api.post(path, {"snapshotId": ""}).status
    copy = api.restore(kept[0])
    api.refused(api.delete_snapshot(kept[0]), 409, "SNAPSHOT::DELETE_CONFLICT")
    api.refused(api.post(f"/sandboxes/{one}/rollback", {"snapshotId": kept[0]}), 409, "SNAPSHOT::NOT_READY")
    assert api.delete(copy).status == 204


# ---- all at once, and restarts ----


def test_many_snapshots_forks_and_changes_at_once(api, kept):  # noqa: F811
    source = api.create()["id"]
    sh(api, source, "echo 1 > /root/1")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        forks = [pool.submit(api.fork, source, count=2) for _ in range(4)]
        taken = [pool.submit(api.snapshot, source) for _ in range(4)]
        kept += [t.result() for t in taken]
        ids = [i for f in forks for i in f.result()]
    assert len(set(ids)) == 8 and len(set(kept)) == 4
    assert {tuple(sh(api, i, "cat /root/1")) for i in ids} == {("1",)}


def test_forks_and_rollbacks_survive_restarts(start_server, spec):
    server = start_server()
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "echo 1 > /root/1")
    taken = api.snapshot(source)
    fork, = api.fork(source)
    sh(api, source, "rm /root/1")
    api.rollback(source, taken)
    old = server.pid, server.warden_pid
    for pid in old:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(server.children(False)) == 1 and len(w := server.children(True)) == 1 and w != [old[1]])
    wait_for(lambda: is_up(server), what="the server coming back")
    for sandbox in (source, fork):
        assert sh(api, sandbox, "cat /root/1") == ["1"]
    assert api.read(source)["snapshotId"] == taken and len(layers(server)) == 2
    assert api.delete(fork).status == 204
    wait_for(lambda: len(layers(server)) == 1, what="the layer of the fork going")
    assert api.delete(source).status == 204 == api.delete_snapshot(taken).status


def workers_of(server):
    return [w for w in census.workers([server.warden_pid]) if w not in census.processes(server.home.prefix)]


def test_a_layer_that_is_made_for_a_server_that_was_killed_goes(start_server, spec):
    """Its successor has made a list of the layers before this one is there."""
    server = start_server()
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "head -c 30M /dev/urandom > /root/large")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(api.post, f"/sandboxes/{source}/fork", {"count": 1, "timeout": 300})
        worker, = wait_for(lambda: workers_of(server), what="the worker that takes the layer")
        os.kill(worker, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)
        asked.exception()  # the connection broke
        wait_for(lambda: is_up(server), what="the server coming back")
        os.kill(worker, signal.SIGCONT)
    wait_for(lambda: not workers_of(server), what="the end of the worker")
    wait_for(lambda: layers(server) == [], 20, what="the layer going")
    assert sh(api, source, "stat -c %s /root/large") == [str(30 << 20)]
    assert api.delete(source).status == 204
