# SPDX-License-Identifier: Apache-2.0
"""Volumes: folders of the host and named ones, from the request to the files (contract: lifecycle 2.6)."""
import concurrent.futures
import datetime
import fcntl
import os
import pathlib
import shutil
import struct
import tempfile

import pytest

import census
from api import Api, when, wait_for
from conftest import EXECD, KEY, SERVER, Server

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run sandboxes"),
    pytest.mark.skipif(not SERVER.exists() or not EXECD.exists(), reason="the server or execd is not built"),
]
NOBODY = 20480 * 65536  # on the disk of the host, the ids of a sandbox's users begin here


class Place:
    """Folders of the host, of which two are listed."""

    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="osb-volumes-"))
        self.top.chmod(0o755)
        for name in ("listed", "listed/deep", "other", "secret"):
            (self.top / name).mkdir()
            (self.top / name).chmod(0o755)
        (self.top / "secret/key").write_text("secret")
        self.env = {"OPENSANDBOX_SERVER_API_KEY": KEY,
                    "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": f'["{self.top}/listed", "{self.top}/other"]'}

    def __truediv__(self, name):
        return self.top / name


@pytest.fixture(scope="module")
def place():
    p = Place()
    yield p
    shutil.rmtree(p.top)


@pytest.fixture(scope="module")
def server(tmp_path_factory, place):
    s = Server(tmp_path_factory.mktemp("volumes"), env=place.env)
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture(autouse=True)
def no_volume_is_left(api):
    """Each test removes what it has made."""
    yield
    for v in names(api):
        assert api.call("DELETE", f"/volumes/{v}").status in (204, 409)
    assert names(api) == []


def names(api):
    return [v["name"] for v in api.get("/volumes").json["items"]]


def host(path, mount="/mnt", name="v", **more):
    return {"name": name, "mountPath": mount, "host": {"path": str(path)}, **more}


def pvc(claim, mount="/data", name="v", sub=None, ro=False, **more):
    return {"name": name, "mountPath": mount, "readOnly": ro, "pvc": {"claimName": claim, **more}, **({"subPath": sub} if sub else {})}


def sh(api, sandbox, line, **more):
    """What it writes, and then its status."""
    return api.run(sandbox["id"], f"{{ {line}; }} 2>&1; echo status $?", **more)


def disks(server):
    return pathlib.Path(f"/proc/{server.warden_pid}/root{server.home.state}/store/disks")


# ---- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change, loc", [
    ({"name": "Bad"}, "name"), ({"name": "-x"}, "name"), ({"name": "x" * 64}, "name"), ({"name": ""}, "name"), ({"name": 7}, "name"),
    ({"mountPath": "data"}, "mountPath"), ({"mountPath": None}, "mountPath"), ({"readOnly": "perhaps"}, "readOnly"),
    ({"pvc": None}, 0), ({"host": {"path": "/x"}}, 0), ({"pvc": {}}, "claimName"), ({"pvc": {"claimName": "A"}}, "claimName"),
    ({"pvc": {"claimName": "x" * 254}}, "claimName"), ({"pvc": {"claimName": "x", "storage": "1.5GB"}}, "storage"),
    ({"pvc": {"claimName": "x", "storage": "-1"}}, "storage"), ({"pvc": None, "host": {"path": "relative"}}, "path"),
    ({"pvc": None, "ossfs": {"bucket": "abc", "endpoint": "e"}}, "accessKeyId"),
    ({"pvc": None, "ossfs": {"bucket": "ab", "endpoint": "e", "accessKeyId": "k", "accessKeySecret": "s"}}, "bucket"),
    ({"pvc": None, "ossfs": {"bucket": "abc", "endpoint": "e", "accessKeyId": "k", "accessKeySecret": "s", "version": "3"}}, "version"),
])
def test_a_bad_shape_is_422(api, change, loc):
    a = api.try_create(volumes=[{**pvc("claim"), **change}])
    assert a.status == 422, a
    assert loc in a.json["detail"][0]["loc"], a.body
    assert b'"s"' not in a.body  # the secret


@pytest.mark.parametrize("volumes, code", [
    ([pvc("a"), pvc("b", "/other")], "VOLUME::DUPLICATE_NAME"),
    ([pvc("a"), pvc("b", "/data/", name="w")], "VOLUME::INVALID_MOUNT_PATH"),
    ([pvc("a", "/")], "VOLUME::INVALID_MOUNT_PATH"), ([pvc("a", "/proc")], "VOLUME::INVALID_MOUNT_PATH"),
    ([pvc("a", "//sys/./x")], "VOLUME::INVALID_MOUNT_PATH"), ([pvc("a", "/dev/shm")], "VOLUME::INVALID_MOUNT_PATH"),
    ([pvc("a", "/a/../proc")], "VOLUME::INVALID_MOUNT_PATH"), ([pvc("a", "/" + "x" * 1024)], "VOLUME::INVALID_MOUNT_PATH"),
    ([pvc("a", "/" + "x" * 300)], "VOLUME::INVALID_MOUNT_PATH"),
    ([pvc("a", sub="/x")], "VOLUME::INVALID_SUB_PATH"), ([pvc("a", sub="x/../..")], "VOLUME::INVALID_SUB_PATH"),
    ([pvc("a", sub="x" * 300)], "VOLUME::INVALID_SUB_PATH"), ([pvc("a", sub="x/" * 1024)], "VOLUME::INVALID_SUB_PATH"),
    ([pvc("none", createIfNotExists=False)], "VOLUME::PVC_NOT_FOUND"),
    ([pvc("a", storage="1Ki")], "SANDBOX::INVALID_PARAMETER"), ([pvc("a", storage="9Ei")], "SANDBOX::INVALID_PARAMETER"),
    ([pvc(f"a{i}", f"/m{i}", name=f"v{i}") for i in range(17)], "SANDBOX::INVALID_PARAMETER"),
])
def test_a_bad_value_is_400(api, volumes, code):
    api.refused(api.try_create(volumes=volumes), 400, code)
    assert names(api) == []


@pytest.mark.parametrize("path, code", [
    ("{}/listed/../secret", "INVALID_HOST_PATH"), ("{}/listed//x", "INVALID_HOST_PATH"), ("{}/listed/", "INVALID_HOST_PATH"),
    ("C:\\x", "INVALID_HOST_PATH"), ("{}/secret", "HOST_PATH_NOT_ALLOWED"), ("{}/listedx", "HOST_PATH_NOT_ALLOWED"),
    ("{}", "HOST_PATH_NOT_ALLOWED"), ("/etc", "HOST_PATH_NOT_ALLOWED"), ("{}/./secret", "HOST_PATH_NOT_ALLOWED"),
])
def test_a_bad_path_of_the_host_is_400(api, place, path, code):
    api.refused(api.try_create(volumes=[host(path.format(place.top))]), 400, f"VOLUME::{code}")


def test_without_a_list_no_folder_of_the_host_is_allowed(start_server, spec, place):
    bare = Api(start_server(), spec)
    bare.refused(bare.try_create(volumes=[host(place / "listed")]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED")


def ossfs(**more):
    return {"name": "v", "mountPath": "/o", "ossfs": {"bucket": "abc", "endpoint": "oss.test", "accessKeyId": "AKID",
                                                      "accessKeySecret": "s3cr3t", **more}}


@pytest.mark.parametrize("change, code, word", [
    ({}, "UNSUPPORTED_BACKEND", "'ossfs2'"), ({"version": "1.0"}, "UNSUPPORTED_BACKEND", "'ossfs'"),
    ({"bucket": "a;b"}, "INVALID_OSSFS_BUCKET", "bucket"), ({"endpoint": "x y"}, "INVALID_OSSFS_ENDPOINT", "endpoint"),
    ({"options": ["-o"]}, "INVALID_OSSFS_OPTION", "options"), ({"options": [" "]}, "INVALID_OSSFS_OPTION", "options"),
    ({"accessKeyId": " "}, "INVALID_OSSFS_CREDENTIALS", "keys"),
])
def test_ossfs_is_refused_by_name(api, change, code, word):
    a = api.refused(api.try_create(volumes=[ossfs(**change)]), 400, f"VOLUME::{code}", word)
    assert b"s3cr3t" not in a.body and "s3cr3t" not in api.server.stderr


# ---- of the host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uid, gid", [(0, 0), (1000, 100)])
def test_a_folder_of_the_host_belongs_to_the_sandboxes_root(api, box, place, uid, gid):
    folder = place / f"listed/owned{uid}"
    folder.mkdir()
    os.chown(folder, uid, gid)
    (folder / "mark").write_text("from the host\n")
    os.chown(folder / "mark", uid, gid)
    (folder / "foreign").write_text("of another")
    os.chown(folder / "foreign", 33, 33)
    sandbox = box(volumes=[host(folder)])
    assert sh(api, sandbox, "stat -c '%u:%g' /mnt /mnt/mark /mnt/foreign && cat /mnt/mark && echo inside >/mnt/new") == [
        "0:0", "0:0", "65534:65534", "from the host", "status 0"]
    assert (folder / "new").read_text() == "inside\n"
    assert ((st := (folder / "new").stat()).st_uid, st.st_gid) == (uid, gid)
    # Other users of the sandbox are nobody of the host, and the same ones in the next sandbox.
    folder.chmod(0o777)
    assert sh(api, sandbox, "echo x >/mnt/others", uid=1234)[-1] == "status 0"
    assert (folder / "others").stat().st_uid == NOBODY + 1234
    again = box(volumes=[host(folder, "/again")])
    assert sh(api, again, "stat -c %u /again/others")[0] == "1234"
    assert sh(api, sandbox, "chown 33:33 /mnt/new && stat -c %u /mnt/new")[0] == "33"
    assert (folder / "new").stat().st_uid == NOBODY + 33


def test_what_is_missing_is_made_and_files_are_taken(api, box, place):
    os.chown(place / "other", 1000, 1000)
    (place / "other/one.conf").write_text("conf\n")
    sandbox = box(volumes=[host(place / "other", "/a", name="a", subPath="made/here"), host(place / "other/one.conf", "/etc/one.conf", name="b"),
                           host(place / "other/by/path", "/c/d/e", name="c")])
    assert (place / "other/made/here").stat().st_uid == 1000 and (place / "other/by/path").is_dir()
    assert sh(api, sandbox, "cat /etc/one.conf; stat -c '%u %a' /a /c /c/d /c/d/e") == [
        "conf", "0 755", "0 755", "0 755", "0 755", "status 0"]
    os.chown(place / "other", 0, 0)


@pytest.mark.smoke
def test_read_only_is_read_only(api, box, place):
    (place / "listed/ro").mkdir()
    (place / "listed/ro/f").write_text("x")
    sandbox = box(volumes=[host(place / "listed/ro", readOnly=True)])
    for line in ("echo y >/mnt/f", "touch /mnt/new", "rm /mnt/f", "mount -o remount,rw /mnt"):
        assert sh(api, sandbox, line)[-1] != "status 0", line
    assert (place / "listed/ro/f").read_text() == "x"
    assert "volume: v, host" in (text := api.get(f"/sandboxes/{sandbox['id']}/diagnostics/inspect").body.decode())
    assert "at /mnt, read-only" in text


def test_symlinks_on_the_way_are_refused(api, place):
    (place / "listed/link").symlink_to(place / "secret")
    (place / "listed/deep/up").symlink_to("../../secret")
    for volume in (host(place / "listed/link"), host(place / "listed/link/key"), host(place / "listed", subPath="link"),
                   host(place / "listed", subPath="deep/up/key")):
        a = api.refused(api.try_create(volumes=[volume]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED", "symlink")
        assert str(place.top) not in a.json["message"]
    os.mkfifo(place / "listed/fifo")
    api.refused(api.try_create(volumes=[host(place / "listed/fifo")]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED")
    (place / "listed/file").write_text("x")
    api.refused(api.try_create(volumes=[host(place / "listed/file/x")]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED")
    api.refused(api.try_create(volumes=[host(place / "listed/file", "/tmp")]), 400, "VOLUME::INVALID_MOUNT_PATH", "/tmp")


def test_a_prefix_that_is_gone_is_named(api, place):
    (place / "other").rename(place / "away")
    try:
        api.refused(api.try_create(volumes=[host(place / "other/x")]), 500, "VOLUME::HOST_PATH_CREATE_FAILED")
    finally:
        (place / "away").rename(place / "other")


def test_the_servers_own_files_are_no_volume(home, start_server, spec):
    env = {"OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": f'["{home.folder}", "/"]'}
    api = Api(start_server(env=env, home=home), spec)
    for path in (home.folder, home.state, home.state / "server", home.state / "server/db.sqlite", home.state / "new", "/tmp"):
        api.refused(api.try_create(volumes=[host(path)]), 400, "VOLUME::HOST_PATH_NOT_ALLOWED", "the server's own files")
    assert not (home.state / "new").exists()


# ---- named ---------------------------------------------------------------------------------------------------------------


def test_named_volumes_are_shared_and_outlive_sandboxes(api, box):
    first = box(volumes=[pvc("shared")])
    assert sh(api, first, "echo one >/data/f && chmod 700 /data/f && chown 7:8 /data/f")[-1] == "status 0"
    second = box(volumes=[pvc("shared", "/deep/er/place"), pvc("shared", "/ro", name="w", ro=True)])
    assert sh(api, second, "cat /deep/er/place/f; stat -c '%u:%g %a' /ro/f; echo two >>/deep/er/place/f") == ["one", "7:8 700", "status 0"]
    assert sh(api, second, "echo x >/ro/f")[-1] != "status 0"
    assert sh(api, first, "cat /data/f") == ["one", "two", "status 0"]
    item, = api.get("/volumes").json["items"]
    assert item["name"] == "shared" and item["state"] == "Ready" and item["sandboxes"] == 2 and item["sizeBytes"] == 1 << 30
    assert when(item["createdAt"])
    api.refused(api.call("DELETE", "/volumes/shared"), 409, "VOLUME::IN_USE")
    for sandbox in (first, second):
        assert api.delete(sandbox["id"]).status == 204
    third = box(volumes=[pvc("shared", createIfNotExists=False)])
    assert sh(api, third, "cat /data/f")[:2] == ["one", "two"]
    assert api.delete(third["id"]).status == 204
    assert api.call("DELETE", "/volumes/shared").status == 204
    assert names(api) == [] and not list(disks(api.server).glob("*vol-*"))
    api.refused(api.call("DELETE", "/volumes/shared"), 404, "VOLUME::NOT_FOUND")


def test_a_sub_path_is_made_and_is_all_that_is_seen(api, box):
    sandbox = box(volumes=[pvc("tree", "/all", name="a"), pvc("tree", "/part", name="b", sub="x/./y//z")])
    assert sh(api, sandbox, "echo in >/part/f; cat /all/x/y/z/f; echo $(ls -a /part); stat -c %u /all/x/y") == [
        "in", ". .. f", "0", "status 0"]
    assert sh(api, sandbox, "ln -s /etc /all/etc && ln -s ../../.. /all/x/up")[-1] == "status 0"
    for sub in ("etc", "etc/ssl", "x/up", "x/up/etc"):
        api.refused(api.try_create(volumes=[pvc("tree", sub=sub)]), 400, "VOLUME::INVALID_SUB_PATH", "symlink")


def test_places_in_places(api, box, place):
    """Whatever the order of the request; by whatever symlink of the image."""
    sandbox = box(volumes=[pvc("inner", "/outer/in/deep", name="a"), pvc("outer", "/outer", name="b"), pvc("bin", "/bin/own", name="c"),
                           host(place / "listed/deep", "/outer/in", name="d")])
    assert sh(api, sandbox, "grep -c ' /outer' /proc/self/mountinfo; stat -c %u /outer/in/deep /usr/bin/own") == ["3", "0", "0", "status 0"]
    assert (place / "listed/deep/deep").is_dir()  # the place for the innermost
    hidden = api.try_create(volumes=[pvc("outer", "/outer", name="b", ro=True), pvc("inner", "/outer/none/x", name="a")])
    api.refused(hidden, 400, "VOLUME::INVALID_MOUNT_PATH", "read-only")


def test_a_quota_holds(api, box):
    sandbox = box(volumes=[pvc("small", storage="8Mi")])
    out = sh(api, sandbox, "dd if=/dev/zero of=/data/f bs=1M count=64 conv=fsync")
    assert any("quota" in line.lower() for line in out) and out[-1] != "status 0"
    assert int(sh(api, sandbox, "stat -c %s /data/f")[0]) <= 8 << 20
    assert sh(api, sandbox, "dd if=/dev/zero of=/root/f bs=1M count=64")[-1] == "status 0"  # its own disk is another
    assert api.get("/volumes").json["items"][0]["sizeBytes"] == 8 << 20


def ask_store(folder, request, data):
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, request, bytearray(data))
    finally:
        os.close(fd)


def make_subvolume(folder, name):
    """As a sandbox could before its filter knew of them."""
    ask_store(folder, 0x5000940E, struct.pack("q", 0) + name.encode().ljust(4088, b"\0"))
    return folder / name


def test_L6_a_volume_goes_with_whatever_is_in_it(api, box, server):
    one = box(volumes=[pvc("nested", storage="64Mi")])
    path, = disks(server).glob("vol-*/data")
    outer = make_subvolume(path, "outer")
    (outer / "deep").mkdir()
    (make_subvolume(outer / "deep", "inner") / "f").write_text("x")
    ask_store(outer, 0x4008941A, struct.pack("Q", 2))  # read-only
    api.delete(one["id"])
    assert api.call("DELETE", "/volumes/nested").status == 204
    assert not list(disks(server).glob("*vol-*")) and names(api) == []


def test_without_limits_a_size_is_refused(start_server, spec):
    free = Api(start_server(env={"OPENSANDBOX_NATIVE_UNSAFE_NO_DISK_LIMIT": "true"}), spec)
    free.refused(free.try_create(volumes=[pvc("v", storage="1Gi")]), 400, "NATIVE::DISK_LIMIT_UNSUPPORTED")
    sandbox = free.create(volumes=[pvc("v", deleteOnSandboxTermination=True)])
    assert "sizeBytes" not in free.get("/volumes").json["items"][0]
    assert sh(free, sandbox, "echo x >/data/f && cat /data/f")[0] == "x"
    assert free.delete(sandbox["id"]).status == 204
    wait_for(lambda: names(free) == [])


# ---- their ends ----------------------------------------------------------------------------------------------------------


def test_it_goes_with_the_sandbox_that_made_it(api, box):
    sandbox = box(volumes=[pvc("temporary", deleteOnSandboxTermination=True), pvc("kept", "/kept", name="k")])
    other = box(volumes=[pvc("kept", deleteOnSandboxTermination=True)])
    assert "temporary" in api.get(f"/sandboxes/{sandbox['id']}/diagnostics/summary").body.decode()
    assert api.delete(other["id"]).status == 204  # it did not make it
    assert api.delete(sandbox["id"]).status == 204
    wait_for(lambda: names(api) == ["kept"])
    assert len(list(disks(api.server).glob("vol-*"))) == 1


def test_while_others_have_it_it_goes_with_the_last_of_them(api, box):
    maker = box(volumes=[pvc("common", deleteOnSandboxTermination=True)])
    other = box(volumes=[pvc("common")])
    sh(api, maker, "echo x >/data/f")
    assert api.delete(maker["id"]).status == 204
    assert sh(api, other, "cat /data/f")[0] == "x"
    later = box(volumes=[pvc("common")])
    assert api.delete(other["id"]).status == 204
    assert names(api) == ["common"] and sh(api, later, "cat /data/f")[0] == "x"
    assert api.delete(later["id"]).status == 204
    wait_for(lambda: names(api) == [])


def test_it_goes_when_the_sandbox_expires(api, box):
    sandbox = box(volumes=[pvc("brief", deleteOnSandboxTermination=True)], timeout=60)
    at = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)).isoformat()
    assert api.post(f"/sandboxes/{sandbox['id']}/renew-expiration", {"expiresAt": at}).status == 200
    wait_for(lambda: names(api) == [], 15)


@pytest.mark.parametrize("bad", [
    {"entrypoint": ["/does/not/exist"]}, {"volumes": [pvc("fresh"), pvc("fresh2", "/file", name="w"), host("/nowhere", name="h")]},
])
def test_a_create_that_fails_leaves_no_volume(api, place, bad):
    a = api.try_create(**{"volumes": [pvc("fresh"), pvc("fresh", "/twice", name="t")], **bad})
    assert a.status in (400, 500), a
    wait_for(lambda: names(api) == [])
    assert not list(disks(api.server).glob("*vol-*"))


def test_a_create_that_fails_keeps_what_was_there(api, box):
    keeper = box(volumes=[pvc("old")])
    sh(api, keeper, "echo x >/data/f")
    assert api.delete(keeper["id"]).status == 204
    assert api.try_create(volumes=[pvc("old", deleteOnSandboxTermination=True), pvc("new", "/n", name="n")], entrypoint=["/none"]).status == 500
    wait_for(lambda: names(api) == ["old"])
    assert sh(api, box(volumes=[pvc("old")]), "cat /data/f")[0] == "x"


def test_many_creates_of_one_new_volume_make_one(api, box):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: api.create(volumes=[pvc("burst")]), range(6)))
    assert names(api) == ["burst"] and len(list(disks(api.server).glob("vol-*"))) == 1
    sh(api, made[0], "echo x >/data/f")
    assert all(sh(api, sandbox, "cat /data/f")[0] == "x" for sandbox in made)
    for sandbox in made:
        assert api.delete(sandbox["id"]).status == 204


def test_snapshots_have_no_volumes_and_a_rollback_keeps_them(api, box, place):
    source = box(volumes=[pvc("own"), host(place / "listed/rolled", name="h")])
    assert sh(api, source, "echo old | tee /root/f /data/f /mnt/f")[-1] == "status 0"
    snapshot = api.snapshot(source["id"])
    assert sh(api, source, "echo new | tee /root/f /data/f /mnt/f")[-1] == "status 0"
    bare, other = {"id": api.restore(snapshot)}, {"id": api.restore(snapshot, volumes=[pvc("own", "/else", ro=True)])}
    fork = {"id": api.fork(source["id"])[0]}
    assert sh(api, bare, "cat /root/f; ls -A /data; ls -A /mnt") == ["old", "status 0"]
    assert sh(api, other, "cat /root/f /else/f; ls /data") == ["old", "new", "status 0"]
    assert sh(api, fork, "cat /root/f; ls /data") == ["new", "status 0"]
    assert api.get("/volumes").json["items"][0]["sandboxes"] == 2
    api.rollback(source["id"], snapshot)
    assert sh(api, source, "cat /root/f /data/f /mnt/f; echo more >>/data/f") == ["old", "new", "new", "status 0"]
    assert sh(api, other, "cat /else/f") == ["new", "more", "status 0"]
    for sandbox in (source, bare, other, fork):
        assert api.delete(sandbox["id"]).status == 204
    wait_for(lambda: api.delete_snapshot(snapshot).status in (204, 404))
    assert api.call("DELETE", "/volumes/own").status == 204


def test_forks_have_the_volumes_that_they_ask_for(api, box, place):
    source = box(volumes=[pvc("of-source")])
    assert sh(api, source, "echo mine >/data/f; echo kept >/root/f")[-1] == "status 0"
    volumes = [pvc("shared", "/data", storage="16Mi"), host(place / "listed/forked", name="h")]
    forks = [{"id": i} for i in api.fork(source["id"], count=3, volumes=volumes)]
    assert sh(api, forks[0], "cat /root/f; ls /data; echo one >/data/f; echo host >/mnt/f") == ["kept", "status 0"]
    assert all(sh(api, fork, "cat /data/f /mnt/f") == ["one", "host", "status 0"] for fork in forks[1:])
    assert (place / "listed/forked/f").read_text() == "host\n"
    assert {v["name"]: v["sandboxes"] for v in api.get("/volumes").json["items"]} == {"of-source": 1, "shared": 3}
    for bad, status in (([pvc("UPPER")], 422), ([{"name": "v"}], 422), ([pvc("none", createIfNotExists=False)], 400),
                        ([host("/etc")], 400)):
        answer = api.post(f"/sandboxes/{source['id']}/fork", {"volumes": bad})
        assert answer.status == status, answer
    assert names(api) == ["of-source", "shared"]
    for sandbox in (source, *forks):
        assert api.delete(sandbox["id"]).status == 204


def test_sandboxes_of_pools_have_no_volumes(api):
    template = {"image": {"uri": "host"}, "entrypoint": ["sleep", "1000"], "resourceLimits": {}, "volumes": [pvc("pooled")]}
    a = api.post("/pools", {"name": "p", "template": template, "capacitySpec": {"bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 1}})
    assert a.status == 400 and "volumes" in a.json["message"], a


# ---- restarts ------------------------------------------------------------------------------------------------------------


def test_nothing_is_lost_or_left_by_restarts(home, start_server, spec):
    first = start_server(home=home)
    api = Api(first, spec)
    before = census.settled(first)
    sandbox = api.create(volumes=[pvc("kept"), pvc("gone", "/gone", name="g", deleteOnSandboxTermination=True)])
    assert sh(api, sandbox, "echo x >/data/f; echo y >/gone/f")[-1] == "status 0"
    first.stop()
    api = Api(start_server(home=home), spec)
    assert names(api) == ["gone", "kept"] and sh(api, sandbox, "cat /data/f /gone/f")[:2] == ["x", "y"]
    api.refused(api.call("DELETE", "/volumes/kept"), 409, "VOLUME::IN_USE")
    assert api.delete(sandbox["id"]).status == 204
    wait_for(lambda: names(api) == ["kept"])
    assert api.call("DELETE", "/volumes/kept").status == 204
    after = census.settled(api.server)
    assert {**after, "descriptors": 0} == {**before, "descriptors": 0}, census.difference(before, after)
    assert not list(disks(api.server).glob("*vol-*"))


def test_what_a_lost_database_knew_is_found_again(home, start_server, spec):
    server = start_server(home=home, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    server.wait_ready()
    api = Api(server, spec, "/v1")
    sandbox = api.create(volumes=[pvc("precious")])
    assert sh(api, sandbox, "echo kept >/data/f")[-1] == "status 0"
    assert api.delete(sandbox["id"]).status == 204
    name, = [p.name for p in disks(server).glob("vol-*")]
    server.stop()
    for path in home.state.glob("server/*.sqlite*"):  # and its copy
        path.unlink()
    server = start_server(home=home, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    server.wait_ready()
    api = Api(server, spec, "/v1")
    lost = "lost-" + name.removeprefix("vol-")
    wait_for(lambda: names(api) == [lost])
    os.kill(server.pid, 9)  # and the record of it stays
    server.wait_ready()
    wait_for(lambda: names(api) == [lost])
    sandbox = api.create(volumes=[pvc(lost, createIfNotExists=False)])
    assert sh(api, sandbox, "cat /data/f")[0] == "kept"
    assert api.delete(sandbox["id"]).status == 204
    assert api.call("DELETE", f"/volumes/{lost}").status == 204
    wait_for(lambda: not list(disks(server).glob("*vol-*")))


def test_a_rollback_finds_folders_by_the_list_of_today(home, start_server, spec, place):
    def start(*listed):
        paths = ", ".join(f'"{place / name}"' for name in listed)
        return Api(start_server(home=home, env={"OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": f"[{paths}]"}), spec)
    api = start("listed", "other")
    sandbox = api.create(volumes=[host(place / "other", subPath="sub"), pvc("own", sub="deep", name="p")])
    assert sh(api, sandbox, "echo x >/mnt/f; echo y >/data/f")[-1] == "status 0"
    snapshot = api.snapshot(sandbox["id"])
    api.server.stop()
    api = start("other", "listed")
    api.rollback(sandbox["id"], snapshot)
    assert sh(api, sandbox, "ls /mnt /data; cat /mnt/f /data/f")[-3:] == ["x", "y", "status 0"]
    api.server.stop()
    api = start("listed")
    a = api.post(f"/sandboxes/{sandbox['id']}/rollback", {"snapshotId": snapshot})
    api.refused(a, 400, "VOLUME::HOST_PATH_NOT_ALLOWED")
    assert sh(api, sandbox, "cat /mnt/f") == ["x", "status 0"], "it is as it was"
    assert api.delete(sandbox["id"]).status == 204 and api.call("DELETE", "/volumes/own").status == 204
    wait_for(lambda: api.delete_snapshot(snapshot).status in (204, 404))
    assert sorted(p.name for p in (place / "other/sub").iterdir()) == ["f"]
