# SPDX-License-Identifier: Apache-2.0
"""Images that the operator named, through the warden: directories in place, tars unpacked once."""
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import tarfile
import time
import uuid

import pytest

from test_warden import (BIN, CONFLICT, CREATE, EXECD, INVALID, NOT_FOUND, REMOVE, RUNNING, STARTING, STATS, UNAVAILABLE, Failed,
                         guest, pytestmark as warden_marks, sealed, warden)  # noqa: F401

BUSYBOX = pathlib.Path("/bin/busybox")
UNPACK = BIN / "opensandbox-unpack"
HOST_FILES = ("/etc/hostname", "/etc/passwd", "/etc/resolv.conf")

pytestmark = [*warden_marks, pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
              pytest.mark.skipif(not UNPACK.exists(), reason=f"{UNPACK} is not built")]

APPLETS = ("sh", "ls", "cat", "id", "echo", "stat", "mkdir", "ln", "sleep", "test", "readlink", "mount", "find")


def fill(folder):
    """A minimal root: no /etc, no /proc, nothing but busybox."""
    (folder / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "bin/busybox")
    for name in APPLETS:
        (folder / "bin" / name).symlink_to("busybox")
    return folder


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "image")


def member(name, kind=tarfile.REGTYPE, data=b"", **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def link(name, to, kind=tarfile.SYMTYPE):
    return member(name, kind, linkname=to)


def write_tar(path, members, base=True, mode="w", form=tarfile.PAX_FORMAT):
    """A tar of these members, with busybox before them."""
    with tarfile.open(path, mode, format=form) as tar:
        if base:
            for info, data in busybox_members():
                tar.addfile(info, io.BytesIO(data))
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def busybox_members():
    yield member("./", tarfile.DIRTYPE)
    yield member("./bin/", tarfile.DIRTYPE)
    yield member("bin/busybox", data=BUSYBOX.read_bytes(), mode=0o755)
    for name in APPLETS:
        yield link(f"bin/{name}", "busybox")


PLAIN = "--unsafe-no-disk-limit"  # layers can be looked at also when no warden runs


def layers_of(warden):
    plain = warden.state / "layers"
    return plain if plain.exists() else warden.store / "layers"


def layers(warden, prefix="sha256-"):
    return sorted(p.name for p in layers_of(warden).iterdir() if p.name.startswith(prefix))


def images(*paths):
    return [word for path in paths for word in ("--image", str(path))]


def wait_for(check, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if check():
            return
        time.sleep(0.02)
    raise AssertionError("did not come true")


def refused(peer, code=INVALID, **more):
    with pytest.raises(Failed) as e:
        peer.create(**more)
    assert e.value.code == code, e.value
    assert "/tmp" not in e.value.message and "/layers" not in e.value.message, "no path of the host for clients"
    return e.value.message


# ---- directories ----------------------------------------------------------------------------------------------


def test_a_directory_is_used_in_place_and_never_written(warden, folder):
    os.chown(folder / "bin/busybox", 7, 8)
    before = sorted((p.name, p.lstat().st_mtime_ns, p.lstat().st_uid) for p in folder.rglob("*"))
    peer = warden.start(*images(folder)).peer()
    name = peer.create(image=1)
    out = peer.shell(name, "id -u; ls /; stat -c '%u %g' /bin/busybox; echo x >/bin/new; echo y >/bin/ls; cat /bin/new; ls -A /etc 2>&1")
    lines = out.splitlines()
    assert lines[0] == "0" and "7 8" in lines and "x" in lines
    assert {"bin", "dev", "proc", "sys"} <= set(lines) and "usr" not in lines
    assert peer.shell(name, "mount -t proc x /proc 2>&1; echo $?").splitlines()[-1] != "0"
    assert sorted((p.name, p.lstat().st_mtime_ns, p.lstat().st_uid) for p in folder.rglob("*")) == before
    assert peer.shell(peer.create(), "ls /usr | head -1") != "", "the host's image is still there"
    peer.call(REMOVE, name)
    assert not layers(warden)


@pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
@pytest.mark.parametrize("form", ["directory", "tar"])
def test_execd_runs_in_an_image_without_any_files_but_a_shell(warden, folder, form, tmp_path):
    warden.execd = EXECD
    path = folder if form == "directory" else write_tar(tmp_path / "i.tar", [])
    peer = warden.start(*images(path)).peer()
    name = str(uuid.uuid4())
    peer.create({"id": name, "entrypoint": ["sleep", "1000"], "env": {"PATH": "/bin"}}, name, image=1)
    http_ = http.client.HTTPConnection("sandbox")
    http_.sock = peer.dial(name)
    http_.request("POST", "/command", json.dumps({"command": "echo $((6*7)); id -u"}), {"Content-Type": "application/json"})
    response = http_.getresponse()
    body = response.read()
    assert response.status == 200 and b"42" in body
    peer.call(REMOVE, name)


@pytest.mark.skipif(not EXECD.exists(), reason=f"{EXECD} is not built")
def test_an_image_without_the_entrypoint_says_so(warden, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    warden.execd = EXECD
    peer = warden.start(*images(empty)).peer()
    assert "cannot be started" in refused(peer, image=1, spec={"id": "x", "entrypoint": ["/bin/sh"]})
    name = str(uuid.uuid4())
    peer.create({"id": name, "entrypoint": []}, name, image=1)  # execd itself needs nothing of the image
    assert peer.list()[name].state == RUNNING


def test_directories_that_cannot_be_used_fail_their_own_creates_alone(warden, folder, tmp_path):
    bad = tmp_path / "link"
    bad.symlink_to("/etc")
    late = tmp_path / "late"
    (tmp_path / "fifo").touch()
    os.remove(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo")
    peer = warden.start(*images(bad, late, "/proc/self", tmp_path / "fifo", "/proc/sys", folder)).peer()
    for path in (bad, late, "/proc/self", tmp_path / "fifo", "/proc/sys"):
        assert f"path={path} " in warden.stderr().replace('"', ""), path
    assert "neither a directory nor a file" in refused(peer, image=1)
    assert "not there" in refused(peer, image=2)
    assert "neither" in refused(peer, image=3)
    assert "neither" in refused(peer, image=4)
    assert "ids of the box" in refused(peer, image=5)  # /proc cannot be id-mapped
    assert refused(peer, NOT_FOUND, image=7)
    assert peer.shell(peer.create(image=6), "echo fine") == "fine\n"
    fill(late)
    assert peer.shell(peer.create(image=2), "echo now") == "now\n"


def test_mounts_below_a_directory_are_not_part_of_it(warden, folder):
    (folder / "below").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", folder / "below"], check=True)
    try:
        (folder / "below/secret").touch()
        peer = warden.start(*images(folder)).peer()
        assert peer.shell(peer.create(image=1), "ls -A /below") == ""
    finally:
        subprocess.run(["umount", folder / "below"], check=True)


def test_a_directory_mounted_over_after_a_slot_was_made_is_not_mistaken(warden, folder):
    base = folder.parent / "shared"
    image = shutil.copytree(folder, base / "image", symlinks=True)
    subprocess.run(["mount", "--bind", base, base], check=True)
    try:
        subprocess.run(["mount", "--make-shared", base], check=True)  # as everything is on most hosts
        peer = warden.start(*images(image)).peer()
        subprocess.run(["mount", "-t", "tmpfs", "none", image], check=True)
        with pytest.raises(Failed) as e:
            peer.create(image=1)
        assert "a moment ago" in e.value.message
    finally:
        subprocess.run(["umount", "-R", base], check=True)


BENT = [("proc", "/etc"), ("sys", "../../../etc"), ("dev", "/tmp"), ("etc", "/"), ("tmp", "..")]


@pytest.mark.parametrize("form", ["directory", "tar"])
@pytest.mark.parametrize("bend", ["symlinks", "files", "fifos"])
def test_an_image_that_bends_what_we_touch_reaches_nothing_of_the_host(warden, folder, tmp_path, form, bend):
    before = {p: os.stat(p).st_mtime_ns for p in HOST_FILES if os.path.exists(p)}
    if form == "directory":
        for name, to in BENT:
            path = folder / name
            path.symlink_to(to) if bend == "symlinks" else os.mkfifo(path) if bend == "fifos" else path.write_text("x")
        if bend == "files":
            (folder / "etc").unlink()
            (folder / "etc").mkdir()
            (folder / "etc/resolv.conf").symlink_to("/etc/passwd")
        path = folder
    else:
        kinds = {"symlinks": lambda n, t: link(n, t), "files": lambda n, t: member(n, data=b"x"),
                 "fifos": lambda n, t: member(n, tarfile.FIFOTYPE)}
        path = write_tar(tmp_path / "i.tar", [kinds[bend](n, t) for n, t in BENT])
    peer = warden.start(*images(path)).peer()
    name = peer.create(image=1)
    out = peer.shell(name, "cat /proc/1/comm; ls /dev/null /sys/kernel >/dev/null && echo mine; test -L /proc || echo real")
    assert out.splitlines()[-2:] == ["mine", "real"]
    peer.call(REMOVE, name)
    assert {p: os.stat(p).st_mtime_ns for p in before} == before


# ---- tars -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["plain", "gz", "xz", "zst", "gnu", "two gzip members"])
def test_a_tar_becomes_a_layer(warden, tmp_path, how):
    plain = write_tar(tmp_path / "i.tar", [member("etc/motd", data=b"hello\n", uid=5, gid=70000, mode=0o4755, mtime=1000000000),
                                           link("etc/again", "etc/motd", tarfile.LNKTYPE), member("d/e/f", data=b"deep")],
                      form=tarfile.GNU_FORMAT if how == "gnu" else tarfile.PAX_FORMAT)
    path = tmp_path / f"i.tar.{how[:3]}"
    if how in ("plain", "gnu"):
        path = plain
    elif how == "zst":
        if not shutil.which("zstd"):
            pytest.skip("needs zstd")
        subprocess.run(["zstd", "-q", plain, "-o", path], check=True)
    elif how == "two gzip members":
        data = plain.read_bytes()
        path.write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))
    else:
        with open(path, "wb") as out:
            subprocess.run(["gzip" if how == "gz" else "xz", "-c", plain], check=True, stdout=out)
    peer = warden.start(*images(path)).peer()
    before = warden.census()
    name = peer.create(image=1)
    out = peer.shell(name, "stat -c '%u %g %a %Y %h' /etc/motd; cat /etc/again /d/e/f; stat -c '%u %a' /d")
    assert out == "5 65534 4755 1000000000 2\nhello\ndeep0 755\n"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert layers(warden) == [f"sha256-{digest}"]
    made = layers_of(warden) / f"sha256-{digest}"
    st = (made / "etc/motd").stat()
    assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (5, 65534, 0o4755)
    assert (made / "bin").lstat().st_uid == 0 and made.stat().st_uid == 0
    second = peer.create(image=1)
    assert layers(warden) == [f"sha256-{digest}"] and not layers(warden, "new-") and not layers(warden, "gone-")
    for box in (name, second):
        peer.call(REMOVE, box)
    warden.settle()
    after = warden.census()
    assert {k: after[k] for k in ("children", "fds", "folders", "groups")} == {k: before[k] for k in ("children", "fds", "folders", "groups")}


def test_first_uses_at_the_same_time_wait_for_one_unpacking(warden, tmp_path):
    big = [member(f"data/{i}", data=os.urandom(2 << 20)) for i in range(20)]
    paths = [write_tar(tmp_path / f"{i}.tar", big + [member("which", data=b"%d" % i)]) for i in range(5)]
    shutil.copy(paths[0], tmp_path / "same.tar")
    peer = warden.start(*images(*paths, tmp_path / "same.tar")).peer()
    names = [(str(uuid.uuid4()), i % 6 + 1) for i in range(18)]
    fd = sealed({"id": "x"})
    serials = [peer.send(CREATE, n, [fd], image=i) for n, i in names]
    rows = peer.list()
    assert {rows[n].state for n, _ in names} == {STARTING}
    with pytest.raises(Failed) as e:
        peer.call(STATS, names[0][0])
    assert e.value.code == CONFLICT
    with pytest.raises(Failed) as e:
        peer.create(name=names[0][0], image=1)
    assert e.value.code == CONFLICT
    for serial in serials:
        peer.wait(serial)
    assert len(layers(warden)) == 5 and len(layers(warden, "tar-")) == 6 and not layers(warden, "new-")
    assert warden.stderr().count("image unpacked") == 6
    for n, i in names[:6]:
        assert peer.shell(n, "cat /which") == str((i - 1) % 5)
    os.close(fd)


def test_a_create_that_waits_can_be_removed(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [member(f"{i}", data=os.urandom(4 << 20)) for i in range(20)])
    peer = warden.start(*images(path)).peer()
    fd = sealed({"id": "x"})
    create = peer.send(CREATE, "waits", [fd], image=1)
    peer.call(REMOVE, "waits")
    with pytest.raises(Failed) as e:
        peer.wait(create)
    assert e.value.code == CONFLICT and "waits" not in peer.list()
    assert peer.shell(peer.create(name="waits", image=1), "echo again") == "again\n"
    os.close(fd)


def test_the_unpacker_has_no_rights(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [member(f"{i}", data=os.urandom(8 << 20)) for i in range(30)])
    peer = warden.start(*images(path)).peer()
    fd = sealed({"id": "x"})
    create = peer.send(CREATE, "box", [fd], image=1)
    seen = {}
    until = time.monotonic() + 60
    while not seen and time.monotonic() < until:
        for worker in warden.children():
            with contextlib.suppress(OSError, IndexError):
                pid = int(warden.children(worker)[0])
                text = pathlib.Path(f"/proc/{pid}/status").read_text()
                if "Name:\topensandbox-unp" in text and "Seccomp:\t2" in text:
                    seen = {"status": text, "mounts": pathlib.Path(f"/proc/{pid}/mountinfo").read_text(),
                            "environ": pathlib.Path(f"/proc/{pid}/environ").read_bytes(),
                            "fds": sorted(map(int, os.listdir(f"/proc/{pid}/fd"))),
                            "net": pathlib.Path(f"/proc/{pid}/net/dev").read_text(),
                            "ns": {n: os.readlink(f"/proc/{pid}/ns/{n}") for n in ("net", "mnt", "user", "ipc", "uts", "cgroup")}}
                    break
        time.sleep(0.001)
    status = dict(line.split(":\t", 1) for line in seen["status"].splitlines())
    assert all(int(word) >= 1 << 20 for word in status["Uid"].split() + status["Gid"].split())
    assert status["Groups"].strip() == "" and status["NoNewPrivs"] == "1"
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == 0x1b
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert len(seen["mounts"].splitlines()) == 1 and "idmapped" in seen["mounts"] and "nosuid,nodev,noexec" in seen["mounts"]
    assert seen["environ"] == b"" and set(seen["net"].split("lo:")[0].split("\n")[2].split()) <= {""} | set()
    assert {3, 6} <= set(seen["fds"]) and len(seen["fds"]) <= 9
    assert all(seen["ns"][n] != os.readlink(f"/proc/self/ns/{n}") for n in seen["ns"])
    peer.wait(create)
    os.close(fd)


DEVICE = member("dev/sda", tarfile.BLKTYPE, devmajor=8, devminor=0)
HOSTILE = [
    ("absolute name", [member("/etc/x")], "absolute"),
    ("dots", [member("a/../../x")], "'..'"),
    ("dots at the end", [member("a/..", tarfile.DIRTYPE)], "'..'"),
    ("the root is a file", [member(".")], "not a directory"),
    ("the root is a symlink", [link(".", "/etc")], "not a directory"),
    ("a whiteout", [member("a/.wh.b")], "whiteout"),
    ("an opaque mark", [member("a/.wh..wh..opq")], "whiteout"),
    ("an overlay's whiteout", [member("gone", tarfile.CHRTYPE)], "whiteout of an overlay"),
    ("a trusted attribute", [member("x", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"})], "attribute"),
    ("an overlay attribute", [member("x", pax_headers={"SCHILY.xattr.user.overlay.redirect": "/etc"})], "attribute"),
    ("a hard link outside", [link("x", "/etc/passwd", tarfile.LNKTYPE)], "absolute"),
    ("a hard link above", [link("x", "../../etc/passwd", tarfile.LNKTYPE)], "'..'"),
    ("a hard link through a symlink", [link("s", "bin"), link("x", "s/busybox", tarfile.LNKTYPE)], "hard link"),
    ("a hard link to a symlink", [link("s", "/etc/passwd"), link("x", "s", tarfile.LNKTYPE)], "no regular file"),
    ("a hard link to a directory", [link("x", "bin", tarfile.LNKTYPE)], "no regular file"),
    ("a hard link to nothing", [link("x", "nothing", tarfile.LNKTYPE)], "hard link"),
    ("a symlink for a directory", [link("bin", "/etc")], "place of a directory"),
    ("a file for a directory", [member("bin")], "place of a directory"),
    ("through a dangling symlink", [link("s", "/nothing"), member("s/x")], "s/x"),
    ("through a symlink that is a loop", [link("s", "s"), member("s/x")], "s/x"),
    ("through a file", [member("f", data=b"1"), member("f/x")], "f/x"),
    ("too deep", [member("/".join(["d"] * 257))], "too deep"),
    ("a long component", [member("c" * 300)], "longer than 255"),
    ("a long path", [member("/".join(["c" * 200] * 21))], "longer than 4095"),
    ("an unknown kind", [member("x", b"Z"), member("y", b"\x01")], None),
]


@pytest.mark.parametrize("members, word", [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_a_hostile_tar_is_refused_and_leaves_nothing(warden, tmp_path, members, word):
    path = write_tar(tmp_path / "i.tar", members)
    peer = warden.start(*images(path)).peer()
    if word is None:  # what a reader does not know it must take for a file
        peer.create(image=1)
        return
    assert word in refused(peer, image=1)
    wait_for(lambda: not layers(warden, "new-"))
    assert not layers(warden) and not layers(warden, "tar-")


def test_symlinks_lead_anywhere_within_the_image_and_nowhere_else(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [
        link("abs", "/etc"), link("up", "../../../../etc"), member("etc", tarfile.DIRTYPE), member("abs/one", data=b"1"),
        member("up/two", data=b"2"), link("etc/final", "/bin/ls"), member("etc/final", data=b"3"), link("again", "x"),
        member("again", tarfile.DIRTYPE), member("again/four", data=b"4"), link("self", "."), member("self/self", data=b"5"), DEVICE,
        member("dup", data=b"first"), member("dup", data=b"last"), member("etc", tarfile.DIRTYPE, mode=0o700),
        member("user", pax_headers={"SCHILY.xattr.user.mine": "kept", "SCHILY.xattr.security.capability": "x"})])
    host = set(os.listdir("/etc"))
    peer = warden.start(*images(path)).peer()
    name = peer.create(image=1)
    assert peer.shell(name, "cd /etc; cat one two final ../again/four ../self ../dup; test -e /dev/sda; echo $?; stat -c %a /etc; "
                      "test -L /bin/ls && echo kept") == "12345last1\n700\nkept\n"
    assert set(os.listdir("/etc")) == host
    made = layers_of(warden) / layers(warden)[0]
    assert not (made / "dev").exists()
    assert os.listxattr(made / "user") == ["user.mine"] and os.getxattr(made / "user", "user.mine") == b"kept"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_are_bytes(warden, tmp_path, form):
    names = ["caf\u00e9", "\u65e5\u672c/\u8a9e", "latin-\udce9", "tab\t\nline", "%s \\ '\"", "n" * 200 + "/" + "m" * 255]
    path = write_tar(tmp_path / "i.tar", [member(f"names/{n}", data=b"x") for n in names] + [link("names/l", names[2])], form=form)
    peer = warden.start(*images(path)).peer()
    peer.create(image=1)
    made = layers_of(warden) / layers(warden)[0] / "names"
    assert all((made / n).read_bytes() == b"x" for n in names)
    assert os.readlink(made / "l") == names[2]


def test_a_directory_around_our_own_state_is_refused(warden):
    alias = warden.folder / "alias"
    alias.mkdir()
    warden.state.mkdir()
    # Private first: a mount that shows a folder in itself would otherwise appear in every other server that runs here.
    subprocess.run(["mount", "--bind", warden.folder, warden.folder], check=True)
    try:
        subprocess.run(["mount", "--make-private", warden.folder], check=True)
        subprocess.run(["mount", "--bind", warden.folder, alias], check=True)
        peer = warden.start(*images(warden.folder, "/", alias, warden.state, warden.state / "boxes", warden.state / "store")).peer()
        for image in range(1, 7):
            assert "holds the state" in refused(peer, image=image)
    finally:
        subprocess.run(["umount", "--lazy", warden.folder], check=True)  # the warden still has its log in there


@pytest.mark.parametrize("name, damage", [
    ("cut inside a file", lambda d: d[:len(d) // 2]),
    ("cut between two entries", lambda d: d[:d.index(b"bin/sh") & ~511]),
    ("cut in a header", lambda d: d[:d.index(b"bin/sh") + 200]),
    ("without its end", lambda d: d[:len(d) - trailing(d)]),
    ("a size that lies", lambda d: resize(d, b"bin/busybox", 1 << 33)),
    ("a size below 0", lambda d: resize(d, b"bin/busybox", -1)),
    ("no tar", lambda d: b"#!/bin/sh\n" * 500),
    ("empty", lambda d: b""),
    ("a bad checksum", lambda d: d.replace(b"bin/busybox", b"bin/busybex", 1)),
    ("too many bytes", lambda d: resize(d, b"bin/busybox", (50 << 30) + 1)),
])
def test_a_damaged_tar_is_refused(warden, tmp_path, name, damage):
    path = write_tar(tmp_path / "i.tar", [member("last", data=b"x" * 600)], form=tarfile.GNU_FORMAT)
    path.write_bytes(damage(path.read_bytes()))
    peer = warden.start(*images(path)).peer()
    refused(peer, image=1)
    wait_for(lambda: not layers(warden, "new-"))
    assert not layers(warden)


def test_a_window_that_is_too_large_is_refused(warden, tmp_path):
    if not shutil.which("zstd"):
        pytest.skip("needs zstd")
    plain, path = write_tar(tmp_path / "i.tar", []), tmp_path / "i.tar.zst"
    with open(plain, "rb") as data, open(path, "wb") as out:
        subprocess.run(["zstd", "-q", "-c", "--long=28"], stdin=data, stdout=out, check=True)  # 256 MiB
    peer = warden.start(*images(path)).peer()
    assert "cannot be unpacked" in refused(peer, image=1)


def trailing(data):
    """Bytes of zero records at the end."""
    n = 0
    while data[len(data) - n - 512:len(data) - n] == bytes(512):
        n += 512
    return n


def resize(data, name, size):
    """The header of NAME with another size, in base 256 where it needs that, and its checksum made right."""
    at = data.index(name) & ~511
    head = bytearray(data[at:at + 512])
    head[124:136] = struct.pack(">Iq", 0x80000000 if size >= 0 else 0xffffffff, size)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return data[:at] + bytes(head) + data[at + 512:]


def test_a_changed_file_is_another_layer_and_old_ones_are_swept(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [member("version", data=b"one")])
    peer = warden.start(*images(path)).peer()
    old = peer.create(image=1)
    write_tar(path, [member("version", data=b"two")])
    new = peer.create(image=1)
    assert peer.shell(old, "cat /version") == "one" and peer.shell(new, "cat /version") == "two"
    assert len(layers(warden)) == 2
    os.utime(path)  # other numbers, the same content: read again, not unpacked again
    third = peer.create(image=1)
    assert len(layers(warden)) == 2
    peer.call(REMOVE, new)
    peer.call(REMOVE, third)
    warden.stop(signal.SIGKILL)
    warden.start(*images(path), check=False)
    peer = warden.peer()
    assert peer.shell(old, "cat /version") == "one" and len(layers(warden)) == 2
    peer.call(REMOVE, old)
    write_tar(path, [member("version", data=b"three")])
    assert peer.shell(peer.create(image=1), "cat /version") == "three"
    wait_for(lambda: len(layers(warden)) == 1 and len(layers(warden, "tar-")) == 1 and not layers(warden, "gone-"))


def test_an_image_that_is_not_listed_any_more_is_swept_at_start(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [])
    peer = warden.start(PLAIN, *images(path)).peer()
    peer.call(REMOVE, peer.create(image=1))
    assert warden.stop() == 0
    for name in ("new-tar-0123456789abcdef", "gone-0123456789abcdef"):
        (layers_of(warden) / name / "deep/er").mkdir(parents=True)
    (layers_of(warden) / "notes").mkdir()
    warden.start(PLAIN)
    wait_for(lambda: not any(layers(warden, p) for p in ("sha256-", "tar-", "new-", "gone-")))
    assert (layers_of(warden) / "notes").exists(), "what is not ours stays"


def test_without_the_unpacker_directories_still_work(warden, folder, tmp_path):
    peer = warden.start("--unpack", "/nothing/there", *images(write_tar(tmp_path / "i.tar", []), folder)).peer()
    assert "tars cannot be unpacked" in warden.stderr()
    assert "at the moment" in refused(peer, UNAVAILABLE, image=1)
    assert peer.shell(peer.create(image=2), "echo fine") == "fine\n"


def test_a_file_that_vanishes_fails_creates_and_keeps_boxes(warden, tmp_path):
    path = write_tar(tmp_path / "i.tar", [])
    peer = warden.start(*images(path)).peer()
    name = peer.create(image=1)
    os.rename(path, tmp_path / "away")
    assert "not there" in refused(peer, image=1)
    assert peer.shell(name, "echo here") == "here\n"
    os.rename(tmp_path / "away", path)
    assert peer.shell(peer.create(image=1), "echo back") == "back\n"


@pytest.mark.parametrize("who", ["warden", "unpacker"])
def test_kills_in_the_middle_leave_no_half_layer(warden, tmp_path, who):
    path = write_tar(tmp_path / "i.tar", [member(f"d{i}/{j}", data=os.urandom(1 << 16)) for i in range(20) for j in range(20)])
    want = 400
    for delay in (0, 0.05, 0.15, 0.3, 0.45):
        warden.start(PLAIN, *images(path), check=False)
        peer = warden.peer()
        fd = sealed({"id": "x"})
        create = peer.send(CREATE, str(uuid.uuid4()), [fd], image=1)
        os.close(fd)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: layers(warden, "new-") or layers(warden), 30)
        time.sleep(delay)
        if who == "unpacker":
            for worker in warden.children():
                for pid in warden.children(worker):
                    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                        if "opensandbox-unp" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                            os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(Failed):
                peer.wait(create)
        warden.stop(signal.SIGKILL)
        for name in layers(warden):
            made = layers_of(warden) / name
            assert sum(1 for p in made.rglob("*") if p.parent.name.startswith("d") and p.is_file()) == want, "half a layer"
            shutil.rmtree(made)
    warden.start(PLAIN, *images(path), check=False)
    peer = warden.peer()
    name = peer.create(image=1)
    assert peer.shell(name, "find / -xdev -path '/d*/*' -type f | busybox wc -l; ls -d /d19").splitlines() == [str(want), "/d19"]
    wait_for(lambda: not layers(warden, "new-") and not layers(warden, "gone-"))
    assert len(layers(warden)) == 1
