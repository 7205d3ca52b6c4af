# SPDX-License-Identifier: Apache-2.0
"""Snapshots as archives: what others read in them is what the sandbox had, and what is imported is what was exported."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

import pytest

import oci
import registry
from api import Api, wait_for
from conftest import KEY, SERVER, Server, assert_clean, clean_environment
from oci import folder, member
from registry import Image, plain  # noqa: F401
from test_image_pull import entry
from test_image_sandboxes import BASE, create, tar
from test_images import BUSYBOX

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
    pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
]

LOWER = [folder("d/"), member("d/gone", data=b"1"), member("d/stays", data=b"2"), folder("o/"), member("o/hidden", data=b"3"),
         member("o/again", data=b"old"), folder("r/"), folder("r/s/"), member("r/s/f", data=b"x"),
         member("mine", data=b"m", uid=1000, gid=1000, mode=0o640), member("attr", data=b"a", xattrs={"user.low": "l"})]
CONFIG = {"Env": ["FROM=image", "PATH=/bin"], "WorkingDir": "/work", "Labels": {"a": "b"}}

# Every kind of change that an upper can hold.
CHANGES = r"""
rm /d/gone; rm -r /o; mkdir /o; echo new >/o/again; rm -r /r
mkdir -p /deep/a/b; echo one >/deep/a/one; ln /deep/a/one /deep/a/b/two; ln /deep/a/one /three
ln -s /etc/passwd /link; ln -s "$(printf '%0300d' 7)" /long-link
mkfifo /fifo; chmod 640 /fifo
echo s >/suid; chmod 6755 /suid; mkdir -m 1777 /sticky; echo secret >/none; chmod 000 /none
chown 1234:100 /deep; touch -d '2001-02-03 04:05:06' /deep/a/one; touch -d '1965-01-01 00:00:00' /old
n=$(printf '%0240d' 1); mkdir -p /names/$n/$n; echo far >/names/$n/$n/$n
echo odd >"/names/$(printf 'a\377b')"; echo x >"/names/ sp  ace"; echo x >"/names/ümlaut"
dd if=/dev/zero of=/sparse bs=1 count=1 seek=300000000 2>/dev/null; echo tail >>/sparse
"""
LIST = (r"find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /opt/opensandbox \) -prune -o -print0 | sort -z | "
        r"xargs -0 stat -c '%n %a %u %g %Y %F %h %N'; "
        r"find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /opt/opensandbox \) -prune -o -type f -print0 | sort -z | "
        r"xargs -0 md5sum")


@pytest.fixture(scope="module")
def made(tmp_path_factory, plain):
    s = Server(tmp_path_factory.mktemp("server"), entry(plain.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A server that knows nothing, and no registry."""
    s = Server(tmp_path_factory.mktemp("other"), "", env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


def cleaned(server, spec):
    api = Api(server, spec, "/v1")
    yield api
    for row in api.get("/sandboxes").json["items"]:
        api.delete(row["id"])
    for row in api.get("/snapshots").json["items"]:
        api.delete_snapshot(row["id"])


@pytest.fixture
def api(made, spec):
    yield from cleaned(made, spec)


@pytest.fixture
def far(other, spec):
    yield from cleaned(other, spec)


def export(api, snapshot):
    answer = api.server.request("GET", f"/v1/snapshots/{snapshot}/archive", timeout=120)
    assert answer.status == 200, answer
    return answer.body


def load(api, archive, name=None, status=201):
    answer = api.server.request("POST", "/v1/snapshots/import" + (f"?name={name}" if name else ""), body=archive, timeout=120)
    assert answer.status == status, answer
    if status == 201:
        api.spec.check_answer("POST", "/snapshots/import", answer)
    return answer.json


def command(server, *args, status=0):
    env = clean_environment(server.folder, OPENSANDBOX_SERVER_PORT=server.port, OPENSANDBOX_SERVER_API_KEY=KEY)
    done = subprocess.run([SERVER, "--config", server.folder / f"config.{server.port}.toml", "snapshot", *args], env=env,
                          capture_output=True, timeout=120, check=False, text=True)
    assert_clean(done.stderr)
    assert done.returncode == status, done
    return done


def changed(api, plain, name):
    uri = plain.push(name, "v1", Image([BASE, tar(LOWER)], CONFIG))
    sandbox = create(api, uri, resourceLimits={"disk": "2Gi"})["id"]
    api.run(sandbox, CHANGES)
    return uri, sandbox


def seen(api, sandbox):
    lines = api.run(sandbox, LIST)
    assert len(lines) > 60, lines
    return [line for line in lines if not line.startswith(("/ ", "/etc/resolv", "/etc/hosts", "/etc/hostname"))]


@pytest.mark.smoke
def test_a_round_trip_to_a_server_that_knows_nothing(api, far, plain):
    _, sandbox = changed(api, plain, "round/trip")
    want = seen(api, sandbox)
    snapshot = api.snapshot(sandbox, "round")
    archive = export(api, snapshot)
    assert len(archive) > 300000000, "holes are bytes in a tar"
    imported = load(far, archive, "from-afar")
    assert imported["name"] == "from-afar" and imported["status"]["state"] == "Ready" and imported["sandboxId"] == imported["id"]
    restored = far.restore(imported["id"], resourceLimits={"disk": "2Gi"})
    assert seen(far, restored) == want
    assert far.run(restored, "echo $FROM; pwd") == ["image", "/work"]
    assert far.read(restored)["snapshotId"] == imported["id"]
    assert far.run(restored, "cat /o/again; ls /o; ls /d; ls /r 2>&1; stat -c %i /three /deep/a/one | uniq | busybox wc -l") == [
        "new", "again", "stays", "ls: /r: No such file or directory", "1"]


def layers_of(archive):
    """The names in each layer of an archive, the lowest first."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        for layer in json.load(outer.extractfile("manifest.json"))[0]["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(outer.extractfile(layer).read())) as inner:
                yield inner.getnames()


@pytest.mark.parametrize("change", ["echo 10.0.0.7 source >/etc/hosts; echo nameserver 10.0.0.1 >/etc/resolv.conf",
                                    "rm /etc/hosts /etc/resolv.conf", "ln -sf /d/stays /etc/hosts; rm /etc/resolv.conf; mkdir /etc/resolv.conf"])
def test_files_for_names_stay_with_their_sandbox(api, far, plain, change):
    own = [member("etc/hosts", data=b"of the image\n"), member("etc/resolv.conf", data=b"too\n")]
    uri = plain.push("names/stay", "v1", Image([BASE, tar(LOWER), tar(own)]))
    sandbox = create(api, uri)["id"]
    api.run(sandbox, f"{change}; echo x >/etc/other; mkdir -p /d/etc; echo mine >/d/etc/hosts")
    archive = export(api, api.snapshot(sandbox))
    *_, image, last = layers_of(archive)
    assert {"etc/hosts", "etc/resolv.conf"} <= set(image), "those of the image are its own"
    assert {"etc", "etc/other", "d/etc/hosts"} <= set(last)
    assert not [name for name in last if name.startswith("etc/") and ("hosts" in name or "resolv" in name)]
    restored = far.restore(load(far, archive)["id"])
    assert far.run(restored, "cat /etc/hosts /etc/resolv.conf /etc/other /d/etc/hosts") == ["of the image", "too", "x", "mine"]


def test_what_others_read_is_the_same_tree(api, plain, tmp_path):
    _, sandbox = changed(api, plain, "read/by-others")
    snapshot = api.snapshot(sandbox)
    (tmp_path / "a.tar").write_bytes(export(api, snapshot))
    with tarfile.open(tmp_path / "a.tar") as archive:
        names = archive.getnames()
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        last = tarfile.open(fileobj=io.BytesIO(archive.extractfile(manifest["Layers"][-1]).read()))
    assert names[:3] == ["oci-layout", "index.json", "manifest.json"] and len(manifest["Layers"]) == 3
    entries = {m.name: m for m in last.getmembers()}
    assert "d/.wh.gone" in entries and ".wh.r" in entries and "o/.wh..wh..opq" in entries
    assert entries["deep"].uid == 1234 and entries["deep"].gid == 100 and entries["d"].uid == 0
    assert {entries[n].type for n in ("deep/a/one", "deep/a/b/two", "three")} == {tarfile.REGTYPE, tarfile.LNKTYPE}
    assert entries["suid"].mode == 0o6755 and entries["old"].mtime < 0 and entries["fifo"].isfifo()
    for tool in ("skopeo", "umoci"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    subprocess.run(["skopeo", "copy", "-q", f"oci-archive:{tmp_path}/a.tar", f"oci:{tmp_path}/layout:x"], check=True, timeout=120)
    subprocess.run(["umoci", "raw", "unpack", "--image", f"{tmp_path}/layout:x", tmp_path / "root"], check=True, timeout=300,
                   capture_output=True)
    root = tmp_path / "root"
    assert (root / "o/again").read_text() == "new\n" and sorted(os.listdir(root / "o")) == ["again"]
    assert not (root / "d/gone").exists() and not (root / "r").exists() and (root / "d/stays").read_text() == "2"
    assert os.stat(root / "three").st_ino == os.stat(root / "deep/a/b/two").st_ino
    assert os.stat(root / "none").st_mode & 0o7777 == 0 and os.readlink(root / "link") == "/etc/passwd"
    assert os.stat(root / "mine").st_uid == 1000


def test_a_snapshot_on_snapshots_has_all_of_them(api, far, plain):
    uri = plain.push("on/top", "v1", Image([BASE]))
    first = create(api, uri)["id"]
    api.run(first, "echo 1 >/one; echo 1 >/both")
    second = api.restore(api.snapshot(first))
    api.run(second, "rm /one; echo 2 >/both; echo 2 >/two")
    archive = export(api, api.snapshot(second, "top"))
    restored = far.restore(load(far, archive)["id"])
    assert far.run(restored, "cat /both /two; ls /one 2>&1") == ["2", "2", "ls: /one: No such file or directory"]
    again = far.snapshot(restored)
    far.run(restored, "echo 3 >/both")
    assert far.fork(restored, count=1)
    third = far.restore(load(far, export(far, again))["id"])
    assert far.run(third, "cat /both") == ["2"], "what was imported is exported again"


def root_of(number):
    """The root of the sandbox whose program sleeps that long, as the host sees it."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.joinpath("cmdline").read_bytes().split(b"\0")[-2:-1] == [str(number).encode()]:
                return process / "root"
    return None


def sleeping(number):
    return {"entrypoint": ["/bin/busybox", "sleep", str(number)]}


def test_who_asks_for_the_head_alone_or_goes_away_leaves_nothing(api, plain):
    sandbox = create(api, plain.push("gone/away", "v1", Image([BASE])))["id"]
    api.run(sandbox, "head -c 30000000 /dev/urandom >/big")
    path = f"/v1/snapshots/{api.snapshot(sandbox)}/archive"
    before = len(os.listdir(f"/proc/{api.server.pid}/fd"))
    head = api.server.request("HEAD", path, timeout=60)
    assert (head.status == 200 and int(head.headers["Content-Length"]) > 30000000 and not head.body) or head.status == 405
    for wait in (0, 0.05, 0.3):  # while it is packed, or sent
        with api.server.connect() as c:
            c.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: {KEY}\r\n\r\n".encode())
            time.sleep(wait)
    wait_for(lambda: len(os.listdir(f"/proc/{api.server.pid}/fd")) <= before, 20)
    for _ in range(3):  # none of them counts any more
        assert api.server.request("GET", path, timeout=60).status == 200


def test_attributes_come_along(api, far, plain):
    uri = plain.push("with/attrs", "v1", Image([BASE, tar(LOWER)]))
    sandbox = create(api, uri, **sleeping(31415926))["id"]
    api.run(sandbox, "mkdir /dir; echo x >/file")
    for path, value in (("file", b"\x00bin=\xff\n"), ("dir", b"d"), ("attr", b"changed")):
        os.setxattr(root_of(31415926) / path, "user.up", value)
    snapshot = load(far, export(api, api.snapshot(sandbox)))["id"]
    far.create(image=..., snapshotId=snapshot, **sleeping(27182818))
    there = root_of(27182818)
    assert os.getxattr(there / "file", "user.up") == b"\x00bin=\xff\n" and os.getxattr(there / "dir", "user.up") == b"d"
    assert os.getxattr(there / "attr", "user.low") == b"l" and os.getxattr(there / "attr", "user.up") == b"changed"


def test_by_the_command(api, far, plain, tmp_path):
    uri = plain.push("by/command", "v1", Image([BASE]))
    sandbox = create(api, uri)["id"]
    api.run(sandbox, "echo hello >/hello")
    snapshot = api.snapshot(sandbox, "named")
    for path in (f"{tmp_path}/a.tar", f"{tmp_path}/layout/"):
        command(api.server, "export", "named", path)
        imported = command(far.server, "import", "--name", "back", path).stdout.split()
        assert imported[1:] == ["Ready", "back"]
        assert far.run(far.restore(imported[0]), "cat /hello") == ["hello"]
    assert snapshot in command(api.server, "list").stdout
    assert "there is no snapshot 'nobody'" in command(api.server, "export", "nobody", f"{tmp_path}/x", status=1).stderr
    api.snapshot(sandbox, "named")
    assert "several snapshots" in command(api.server, "export", "named", f"{tmp_path}/x", status=1).stderr
    command(api.server, "export", snapshot, f"{tmp_path}/by-id")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar", "by-id", "layout"]
    answer = far.server.request("POST", "/v1/images/load", body=(tmp_path / "a.tar").read_bytes())
    assert [i["uri"] for i in answer.json["items"]] == [f"localhost/snapshot:{snapshot}"]


def test_what_was_imported_is_kept_and_goes_with_its_last_user(api, far, plain):
    uri = plain.push("kept/import", "v1", Image([BASE, tar([member("own", data=os.urandom(100))])]))
    archive = export(api, api.snapshot(create(api, uri)["id"]))
    imported = load(far, archive)["id"]
    image = far.get("/images").json["items"][-1]
    assert image["kept"] and image["uri"].startswith("localhost/snapshot@sha256:")
    far.refused(far.call("DELETE", f"/images?uri={image['digest']}"), 409, "IMAGES::IN_USE")
    sandbox = far.restore(imported)
    far.refused(far.delete_snapshot(imported), 409, "SNAPSHOT::DELETE_CONFLICT")
    os.kill(far.server.pid, 9)
    far.server.wait_ready()
    assert far.read_snapshot(imported)["status"]["state"] == "Deleting"
    assert far.delete(sandbox).status == 204
    assert far.delete_snapshot(imported).status == 204
    wait_for(lambda: image["digest"] not in [i["digest"] for i in far.get("/images").json["items"]], 30)


def test_what_cannot_be_exported_says_why(api, plain):
    host = api.create()["id"]
    snapshot = api.snapshot(host)
    api.refused(api.get(f"/snapshots/{snapshot}/archive"), 409, "SNAPSHOT::NOT_EXPORTABLE", "not one of a registry")
    api.refused(api.get("/snapshots/00000000-0000-4000-8000-000000000000/archive"), 404, "SNAPSHOT::NOT_FOUND")
    sandbox = create(api, plain.push("odd/names", "v1", Image([BASE])))["id"]
    api.run(sandbox, "echo x >/.wh.x")
    answer = api.get(f"/snapshots/{api.snapshot(sandbox)}/archive")
    api.refused(answer, 409, "NATIVE::SNAPSHOT_EXPORT_FAILED", "/.wh.x", "whiteout")
    api.run(sandbox, "rm /.wh.x; d=; for i in $(busybox seq 300); do d=$d/d; done; mkdir -p $d")
    answer = api.get(f"/snapshots/{api.snapshot(sandbox)}/archive")
    api.refused(answer, 409, "NATIVE::SNAPSHOT_EXPORT_FAILED", "too deep")
    api.run(sandbox, "rm -r /d; busybox truncate -s 30G /huge")
    answer = api.get(f"/snapshots/{api.snapshot(sandbox)}/archive")
    api.refused(answer, 507, "NATIVE::SNAPSHOT_EXPORT_FAILED", "a layer of more than")


def archive_of(layers, **more):
    """An OCI layout with these tars as layers."""
    image = Image(layers, compress="", **more)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [image.descriptor()]}).encode())
        for digest, data in {**image.blobs, image.digest: image.manifest}.items():
            add("blobs/" + digest.replace(":", "/"), data)
    return out.getvalue()


@pytest.mark.parametrize("layer, why", [
    (oci.layer([member("../x")], "plain").tar, "a name with '..'"),
    (oci.layer([member("x", xattrs={"trusted.overlay.opaque": "y"})], "plain").tar, "trusted.overlay.opaque"),
    (oci.layer([member("x", kind=tarfile.CHRTYPE)], "plain").tar, "a whiteout of an overlay"),
])
def test_hostile_archives_make_no_sandbox(far, layer, why):
    imported = load(far, archive_of([BASE, layer]))["id"]
    answer = far.try_create(image=..., snapshotId=imported, entrypoint=...)
    far.refused(answer, 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", why)
    assert far.delete_snapshot(imported).status == 204


@pytest.mark.parametrize("archive", [b"", b"no tar at all" * 100, BASE[:5000]], ids=["nothing", "text", "short"])
def test_what_is_no_archive_is_no_snapshot(far, archive):
    before = len(far.get("/snapshots").json["items"])
    assert load(far, archive, status=400)["code"] == "IMAGES::BAD_ARCHIVE"
    assert len(far.get("/snapshots").json["items"]) == before
