# SPDX-License-Identifier: Apache-2.0
"""Snapshots: what is in them, who may stand on them, and how they live through restarts."""
import os
import signal
import subprocess
import time

import pytest

from api import Api, nulls, seen, wait_for, when
from conftest import AUTH, BIN, ROOT
from fleet import KillSwitch

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def sh(api, sandbox_id, script):
    """The output of a script that must succeed."""
    out = api.run(sandbox_id, "set -e\n" + script + "\necho done")
    assert out and out[-1] == "done", out
    return out[:-1]


@pytest.fixture
def kept(api):
    """Ids of snapshots that go with the test, after its sandboxes."""
    ids = []
    yield ids
    for sandbox in api.get("/sandboxes?pageSize=200").json["items"]:
        assert api.delete(sandbox["id"]).status in (204, 404)
    for snapshot_id in ids:
        assert api.delete_snapshot(snapshot_id).status in (204, 404)
    assert api.get("/snapshots").json["items"] == []
    wait_for(lambda: layers(api.server) == [], what="layers that go")


def layers(server):
    """The names of the snapshots that the warden has."""
    def look():
        store = f"/proc/{server.warden_pid}/root{server.home.state}/store/layers"
        if not os.path.isdir(store):
            store = server.home.state / "layers"
        return sorted(name for name in os.listdir(store) if name.startswith(("snap-", "part-")))
    return seen(look)


# ---- what clients are told ----


def test_the_first_answer_is_what_clients_expect(api, kept):
    sandbox = api.create()["id"]
    a = api.post(f"/sandboxes/{sandbox}/snapshots", {"name": "before-import"})
    first = a.json
    assert a.status == 202 and a.headers["Location"] == f"/v1/snapshots/{first['id']}"
    kept.append(first["id"])
    assert first["name"] == "before-import" and first["sandboxId"] == sandbox and len(first["id"]) == 36
    assert first["status"]["state"] == "Creating" and first["status"]["reason"] == "snapshot_accepted"
    assert first["status"]["message"] == "Snapshot creation accepted."
    assert when(first["status"]["lastTransitionAt"]) >= when(first["createdAt"])
    ready = api.snapshot_ready(first["id"])
    assert ready["reason"] == "snapshot_runtime_ready" and ready["message"]
    assert when(ready["lastTransitionAt"]) >= when(first["status"]["lastTransitionAt"])
    assert api.read_snapshot(first["id"])["createdAt"] == first["createdAt"]


@pytest.mark.parametrize("body", [None, b"", b"null", b" {} ", b'{"name":null}', b'{"more":1}'])
def test_a_body_is_not_needed(api, kept, body):
    a = api.post(f"/sandboxes/{api.create()['id']}/snapshots", body)
    assert a.status == 202 and "name" not in a.json and not list(nulls(a.json))
    kept.append(a.json["id"])
    api.snapshot_ready(a.json["id"])


@pytest.mark.parametrize("body", [b'{"name":""}', b'{"name":5}', b"[]", b"{", b'{"name":"' + b"a" * 256 + b'"}'])
def test_a_bad_body_is_422(api, box, body):
    assert api.post(f"/sandboxes/{box()['id']}/snapshots", body).status == 422


def test_what_is_not_there_is_404(api):
    api.refused(api.post("/sandboxes/nothing/snapshots"), 404, "NATIVE::SANDBOX_NOT_FOUND")
    api.refused(api.get("/snapshots/nothing"), 404, "SNAPSHOT::NOT_FOUND")
    api.refused(api.delete_snapshot("nothing"), 404, "SNAPSHOT::NOT_FOUND")
    api.refused(api.try_create(image=..., snapshotId="nothing"), 404, "SNAPSHOT::NOT_FOUND", "nothing")


def test_lists_are_filtered_and_paged_the_newest_first(api, kept):
    one, two = api.create()["id"], api.create()["id"]
    kept += [api.snapshot(one), api.snapshot(two), api.snapshot(one, "last")]
    listed = lambda query="": [s["id"] for s in api.get(f"/snapshots{query}").json["items"]]  # noqa: E731
    assert listed() == kept[::-1]
    assert listed(f"?sandboxId={one}") == [kept[2], kept[0]]
    assert listed(f"?sandboxId={two}&state=Ready") == [kept[1]]
    assert listed("?state=Failed&state=Ready") == kept[::-1]
    assert listed("?state=ready") == [] == listed("?state=") == listed("?sandboxId=x")
    page = api.get("/snapshots?page=2&pageSize=2").json
    assert [s["id"] for s in page["items"]] == [kept[0]]
    assert page["pagination"] == {"page": 2, "pageSize": 2, "totalItems": 3, "totalPages": 2, "hasNextPage": False}
    assert api.get("/snapshots?page=0").status == 422 == api.get("/snapshots?pageSize=201").status


def test_only_what_runs_or_is_paused_can_be_taken(api, kept):
    sandbox = api.create(entrypoint=["/bin/sh", "-c", "exit 0"])["id"]
    api.wait_state(sandbox, "Terminated")
    api.refused(api.post(f"/sandboxes/{sandbox}/snapshots"), 409, "SNAPSHOT::INVALID_SOURCE_STATE", "Terminated")


def test_a_restored_sandbox_shows_its_snapshot_and_inherits_files_alone(api, kept):
    source = api.create(metadata={"a": "b"}, env={"SECRET": "x"}, timeout=600)["id"]
    sh(api, source, "echo hello > /root/file")
    kept.append(api.snapshot(source))
    made = api.create(image=..., entrypoint=..., snapshotId=f" {kept[0]} ")
    assert made["entrypoint"] == ["tail", "-f", "/dev/null"] and "expiresAt" not in made and "metadata" not in made
    shown = api.read(made["id"])
    assert shown["snapshotId"] == kept[0] and "image" not in shown and shown["entrypoint"] == made["entrypoint"]
    assert sh(api, made["id"], "cat /root/file; echo ${SECRET:-none}") == ["hello", "none"]
    api.refused(api.try_create(image=..., snapshotId=kept[0], resourceLimits={"gpu": "1"}), 400, "SANDBOX::INVALID_PARAMETER")


# ---- what is in it ----

CHANGES = """
mkdir -p /data/sub /data/old /opt/mine /srv/deep/er
for i in $(seq 1000); do echo $i > /data/sub/$i; done
echo one > /data/hard; ln /data/hard /data/hard2; ln -s nowhere /data/link
chmod 4750 /data/hard; touch -d '2001-02-03 04:05:06' /data/sub
chown 1000:100 /data/old; chown -h 33:44 /data/link
rm /etc/services /etc/ld.so.conf; rm -rf /usr/share/doc; mkdir /usr/share/doc; echo new > /usr/share/doc/only
echo usr > /usr/local/mine; rm -rf /opt/mine; mkdir /opt/mine
mkfifo /data/pipe; truncate -s 1G /data/sparse; printf 'end' >> /data/sparse
chmod 0711 /
"""
LOOK = """
cd /data; ls sub | wc -l; cat sub/77 hard2; stat -c '%a %u %g %h %i' hard > /tmp/h1; stat -c '%a %u %g %h %i' hard2 > /tmp/h2
cmp /tmp/h1 /tmp/h2; stat -c '%a %h' hard; readlink link; stat -c '%u %g' link old; stat -c %Y sub
test ! -e /etc/services -a ! -e /etc/ld.so.conf; ls -A /usr/share/doc; cat /usr/share/doc/only /usr/local/mine; ls -A /opt/mine | wc -l
test -p pipe; stat -c %s sparse; tail -c 3 sparse; echo; stat -c '%a %u' /; test -x /usr/bin/env
"""
SEEN = ["1000", "77", "one", "4750 2", "nowhere", "33 44", "1000 100", "981173106", "only", "new", "usr", "0", "1073741827", "end",
        "711 0"]


@pytest.mark.smoke
def test_everything_that_was_changed_is_there(api, kept):
    source = api.create()["id"]
    sh(api, source, CHANGES)
    assert sh(api, source, LOOK) == SEEN
    kept.append(api.snapshot(source))
    assert api.delete(source).status == 204
    first, second = api.restore(kept[0]), api.restore(kept[0])
    assert sh(api, first, LOOK) == SEEN
    sh(api, first, "rm -rf /data /usr/share/doc; echo mine > /only-here")
    assert sh(api, second, LOOK + "test ! -e /only-here") == SEEN


def test_neither_mounts_nor_secrets_are_in_it(api, kept):
    """I7: what the platform put into the sandbox is not part of its disk."""
    source = api.create(env={"TOKEN": "very-secret-value"})["id"]
    token = api.endpoint(source, 44772)["headers"]["X-EXECD-ACCESS-TOKEN"]
    sh(api, source, "echo x > /dev/shm/shared; mkdir /keep")
    kept.append(api.snapshot(source))
    disk = f"/proc/{api.server.warden_pid}/root{api.server.home.state}/store/layers/{layers(api.server)[0]}"
    found = subprocess.run(["find", disk, "-mindepth", "1"], capture_output=True, text=True, check=True).stdout.split()
    assert f"{disk}/upper/.root/keep" in found
    for folder in ("proc", "sys", "dev"):
        assert not [f for f in found if f.startswith(f"{disk}/upper/.root/{folder}/")]
    nodes = subprocess.run(["find", disk, "-type", "b", "-o", "-type", "c"], capture_output=True, text=True, check=True).stdout
    assert nodes == ""
    for secret in (token, "very-secret-value"):
        assert subprocess.run(["grep", "-rqs", secret, disk], check=False).returncode == 1


def test_a_snapshot_of_a_restored_sandbox_stands_on_the_former(api, kept):
    one = api.create()["id"]
    sh(api, one, "echo 1 > /root/one; echo 1 > /root/both; echo 1 > /usr/local/one")
    kept.append(api.snapshot(one))
    two = api.restore(kept[0])
    sh(api, two, "rm /root/both; echo 2 > /root/two; rm /usr/local/one; echo 2 > /usr/local/two")
    kept.append(api.snapshot(two))
    assert [api.delete(s).status for s in (one, two)] == [204, 204]
    assert api.delete_snapshot(kept[0]).status == 204  # the second keeps what it needs of it
    three = api.restore(kept[1])
    assert sh(api, three, "ls /root /usr/local/one /usr/local/two 2>/dev/null | grep -v '^$' || true") == \
        ["/usr/local/two", "/root:", "one", "two"]
    assert len(layers(api.server)) == 2


def test_a_paused_sandbox_stays_paused(api, kept):
    source = api.create()["id"]
    sh(api, source, "echo hello > /root/file")
    api.pause(source)
    kept.append(api.snapshot(source))
    assert api.state(source) == "Paused"
    assert sh(api, api.restore(kept[0]), "cat /root/file") == ["hello"]
    api.resume(source)
    assert sh(api, source, "cat /root/file") == ["hello"]


WRITER = """
exec 3> /root/log
i=0
while :; do i=$((i+1)); echo $i > /root/new; mv /root/new /root/count; echo $i >&3; done
"""


def test_of_a_busy_writer_it_is_a_moment_in_between(api, kept):
    """Everything that was written before something that is there, is there: all of it was cloned at one time."""
    source = api.create(entrypoint=["/bin/sh", "-c", WRITER])["id"]
    wait_for(lambda: api.run(source, "cat /root/count 2>/dev/null"), what="the writer")
    for _ in range(3):
        kept.append(api.snapshot(source))
        copy = api.restore(kept[-1])
        count, lines, last, bad = sh(api, copy, "cat /root/count; wc -l < /root/log; tail -1 /root/log; "
                                     "awk '$1 != NR' /root/log | wc -l")
        assert int(bad) == 0 and int(last) == int(lines) and int(count) - int(last) in (0, 1)
    before = int(api.run(source, "cat /root/count")[0])
    wait_for(lambda: int(api.run(source, "cat /root/count")[0]) > before, what="the writer going on")


def test_the_limit_of_a_restored_sandbox_holds(api, kept):
    source = api.create(resourceLimits={"disk": "200Mi"})["id"]
    sh(api, source, "head -c 60M /dev/urandom > /root/big")
    kept.append(api.snapshot(source))
    copy = api.restore(kept[0], resourceLimits={"disk": "20Mi"})
    out = api.run(copy, "head -c 100M /dev/zero > /root/more; echo $?; stat -c %s /root/more /root/big")
    assert out[0] != "0" and int(out[1]) <= 20 << 20 and int(out[2]) == 60 << 20


def test_a_full_disk_can_be_kept(api, kept):
    source = api.create(resourceLimits={"disk": "8Mi"})["id"]
    api.run(source, "head -c 100M /dev/urandom > /root/big; sha256sum /root/big > /dev/shm/sum")
    sum_ = sh(api, source, "cut -c -64 /dev/shm/sum")
    kept.append(api.snapshot(source))
    assert sh(api, api.restore(kept[0]), "sha256sum /root/big | cut -c -64") == sum_
    assert sh(api, source, "echo goes on") == ["goes on"]


def test_what_cannot_be_copied_says_why(start_server, spec):
    server = start_server(env={"OPENSANDBOX_NATIVE_UNSAFE_NO_DISK_LIMIT": "true"})
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "cd /root; for i in $(seq 300); do mkdir d; cd d; done")
    taken = api.post(f"/sandboxes/{source}/snapshots").json["id"]
    status = wait_for(lambda: (s := api.read_snapshot(taken)["status"])["state"] == "Failed" and s, what="a failure")
    assert status["reason"] == "snapshot_runtime_failed" and "256 deep" in status["message"]
    assert sh(api, source, "echo goes on") == ["goes on"] and layers(server) == []
    assert api.delete(source).status == 204 == api.delete_snapshot(taken).status


# ---- who stands on it ----


def test_what_a_sandbox_stands_on_stays(api, kept):
    source = api.create()["id"]
    kept.append(api.snapshot(source))
    copy = api.restore(kept[0])
    api.refused(api.delete_snapshot(kept[0]), 409, "SNAPSHOT::DELETE_CONFLICT")
    status = api.read_snapshot(kept[0])["status"]
    assert (status["state"], status["reason"]) == ("Deleting", "snapshot_delete_requested")
    api.refused(api.try_create(image=..., snapshotId=kept[0]), 409, "SNAPSHOT::NOT_READY", "Deleting")
    assert sh(api, copy, "echo works") == ["works"]
    assert api.delete(copy).status == 204
    assert api.delete_snapshot(kept[0]).status == 204
    api.refused(api.get(f"/snapshots/{kept[0]}"), 404, "SNAPSHOT::NOT_FOUND")
    wait_for(lambda: layers(api.server) == [], what="a layer that goes")


# ---- restarts ----


def restart_server(server):
    os.kill(server.pid, signal.SIGKILL)


def restart_warden(server):
    os.kill(server.warden_pid, signal.SIGKILL)


def restart_both(server):
    for pid in (server.pid, server.warden_pid):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("restart", [restart_server, restart_warden, restart_both])
def test_it_survives_restarts(start_server, spec, restart):
    server = start_server()
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "echo hello > /root/file")
    taken = api.snapshot(source, "name")
    copy = api.restore(taken)
    before = api.read_snapshot(taken)
    old = (server.pid, server.warden_pid)
    restart(server)
    wait_for(lambda: len(server.children(True)) == 1 == len(server.children(False)) and (server.pid, server.warden_pid) != old)
    wait_for(lambda: is_up(server), what="the server coming back")
    assert api.read_snapshot(taken) == before and api.read(copy)["snapshotId"] == taken
    api.refused(api.delete_snapshot(taken), 409, "SNAPSHOT::DELETE_CONFLICT")
    for sandbox in (source, copy):
        assert sh(api, sandbox, "cat /root/file") == ["hello"]
        assert api.delete(sandbox).status == 204
    assert api.delete_snapshot(taken).status == 204
    wait_for(lambda: layers(server) == [], what="a layer that goes")


def is_up(server):
    try:
        return server.request("GET", "/v1/sandboxes", headers=AUTH, timeout=5).status == 200
    except OSError:
        return False


def test_it_survives_an_orderly_restart_of_everything(home, start_server, spec):
    server = start_server(home=home)
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "echo hello > /root/file; echo usr > /usr/local/file")
    taken, other = api.snapshot(source), api.snapshot(source)
    copy = api.restore(other)
    api.refused(api.delete_snapshot(other), 409, "SNAPSHOT::DELETE_CONFLICT")
    for sandbox in (source, copy):
        assert api.delete(sandbox).status == 204
    server.stop()
    server = start_server(home=home)
    api = Api(server, spec)
    wait_for(lambda: [s["id"] for s in api.get("/snapshots").json["items"]] == [taken], what="the other going, as it was to")
    assert sh(api, copy := api.restore(taken), "cat /root/file /usr/local/file") == ["hello", "usr"]
    assert api.delete(copy).status == 204 == api.delete_snapshot(taken).status
    wait_for(lambda: layers(server) == [], what="layers that go")


def test_an_image_that_is_gone_is_told(home, start_server, spec, tmp_path):
    """I7: what may be used is decided when it is used. Files are kept on any image, here on an empty one, whose name could be no
    registry's."""
    (tmp_path / "image").mkdir()
    server = start_server(f'[native.images]\n"my..image" = "{tmp_path}/image"\n', home=home)
    api = Api(server, spec)
    source = api.create(image={"uri": "my..image"})["id"]
    taken = api.snapshot(source)
    assert "snapshotId" in api.read(copy := api.restore(taken))
    for sandbox in (source, copy):
        assert api.delete(sandbox).status == 204
    server.stop()
    api = Api(start_server(home=home), spec)
    assert api.read_snapshot(taken)["status"]["state"] == "Ready"
    api.refused(api.try_create(image=..., snapshotId=taken), 409, "SNAPSHOT::INVALID_RESTORE_CONFIG", "my..image")
    assert api.delete_snapshot(taken).status == 204


def test_plain_folders_are_copied(start_server, spec):
    """Where nothing can be limited nothing can be shared either, as a rule: it is the same, but slower."""
    server = start_server(env={"OPENSANDBOX_NATIVE_UNSAFE_NO_DISK_LIMIT": "true"})
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, CHANGES)
    taken = api.snapshot(source)
    assert sh(api, (copy := api.restore(taken)), LOOK) == SEEN
    for sandbox in (source, copy):
        assert api.delete(sandbox).status == 204
    assert api.delete_snapshot(taken).status == 204
    wait_for(lambda: layers(server) == [], what="a layer that goes")


@pytest.mark.skipif(BIN != ROOT / "build/asan/bin", reason="only the test build has kill points")
def test_a_copy_that_was_cut_off_leaves_nothing(start_server, spec, tmp_path):
    switch = KillSwitch(tmp_path / "switch")
    server = start_server(env={"OPENSANDBOX_NATIVE_UNSAFE_NO_DISK_LIMIT": "true", "OPENSANDBOX_KILL_POINT_FD": str(switch.fd)},
                          pass_fds=[switch.fd])
    api = Api(server, spec)
    source = api.create()["id"]
    sh(api, source, "mkdir /data; for i in $(seq 200); do echo $i > /data/$i; done")
    for place in ("frozen", "cloned", "let_go", "finished"):
        switch.arm(f"warden.snapshot.{place}")
        taken = api.post(f"/sandboxes/{source}/snapshots").json["id"]
        wait_for(lambda: switch.left == 0, what=place)
        state = wait_for(lambda: (s := api.read_snapshot(taken)["status"]["state"]) != "Creating" and s, what="an end")  # noqa: B023
        assert state == "Failed"
        wait_for(lambda: len(server.children(True)) == 1 and api.run_or_none(source, "echo fine") == ["fine"], what="the box going on")
        wait_for(lambda: layers(server) == [], what=f"what is left after {place}")
        assert api.delete_snapshot(taken).status == 204
    assert api.delete(source).status == 204
    switch.close()


def test_how_long_it_stood_still_is_in_its_events(api, kept):
    source = api.create()["id"]
    began = time.monotonic()
    kept.append(api.snapshot(source))
    assert time.monotonic() - began < 10
    assert "stood still for" in api.events(source)
