# SPDX-License-Identifier: Apache-2.0
"""Layers of OCI images, through the warden: unpacked once, stacked by an overlay, and nothing of them before all is there."""
import contextlib
import gzip
import hashlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tarfile
import time

import pytest

import oci
from oci import folder, hardlink, layer, member, symlink
from test_images import BUSYBOX, PLAIN, UNPACK, busybox_members, layers_of, wait_for
from test_warden import (CONFLICT, CREATE, DENIED, INVALID, LAYER_ADD, LAYER_DROP, LAYERS, LIMIT, NO_IMAGE, NOT_FOUND, REMOVE,  # noqa: F401
                         RUNNING, UNAVAILABLE, Failed, guest, pytestmark as warden_marks, warden)  # noqa: F401

pytestmark = [*warden_marks, pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
              pytest.mark.skipif(not UNPACK.exists(), reason=f"{UNPACK} is not built")]


@pytest.fixture(scope="module")
def base():
    return layer(busybox_members())


def name_of(digest):
    """What a blob is called here, by the digest that its image knows it by."""
    return digest if len(digest) == 32 else hashlib.sha256(f"sha512:{digest.hex()}".encode()).digest()


def send_add(peer, one, fd=None, digest=None, diff_id=None):
    """FD: None for the layer's own blob, in a file without a name."""
    own = os.memfd_create("blob") if fd is None else None
    if own is not None:
        write_all(own, one.blob)
    try:
        digest = digest or one.digest
        return peer.send(LAYER_ADD, fds=[own if fd is None else fd], layers=[name_of(digest)], blob=digest,
                         diff_id=diff_id or one.diff_id)
    finally:
        if own is not None:
            os.close(own)


def write_all(fd, data):
    at = 0
    while at < len(data):
        at += os.write(fd, data[at:at + (1 << 24)])


def add(peer, *layers, **more):
    for one in layers:
        peer.wait(send_add(peer, one, **more))


def refused(peer, one, code=INVALID, **more):
    with pytest.raises(Failed) as e:
        add(peer, one, **more)
    assert e.value.code == code, e.value
    assert "/tmp" not in e.value.message and "/layers" not in e.value.message and "new-blob" not in e.value.message
    return e.value.message


def listed(peer):
    serial = peer.send(LAYERS)
    found = set()
    while True:
        reply = peer.receive()
        if reply.serial == serial and reply.layer_kind == 0:
            assert not reply.failed
            return found
        if reply.serial == serial:
            found.add(reply.layer)


def drop(peer, one):
    peer.call(LAYER_DROP, layers=[one.digest])


def create(peer, *layers, **more):
    """Lowest first, as images have them."""
    return peer.create(image=NO_IMAGE, layers=[one.digest for one in reversed(layers)], **more)


def names(warden):
    return sorted(p.name for p in layers_of(warden).iterdir() if not p.name.startswith(("host-", "new-host")))


# ---- stacks -----------------------------------------------------------------------------------------------------


def test_a_stack_of_layers_is_a_root(warden, base):
    peer = warden.start().peer()
    lower = layer([folder("d/"), member("d/a", data=b"a1"), member("d/b", data=b"b1"), folder("e/"), member("e/x", data=b"x1"),
                   folder("f/"), member("f/y", data=b"y1"), member("both", data=b"one")])
    upper = layer([folder("d/"), member("d/.wh.a"), folder("e/"), member("e/.wh..wh..opq"), member("e/new", data=b"n2"),
                   member(".wh.f"), member("both", data=b"two"), hardlink("again", "both")], "zstd")
    add(peer, base, lower, upper)
    assert listed(peer) == {base.digest, lower.digest, upper.digest}
    name = create(peer, base, lower, upper)
    assert peer.shell(name, "ls -A /d /e; ls -d /f 2>&1; cat /both /again; stat -c %h /both; echo w >/d/a; cat /d/a").split() == [
        "/d:", "b", "/e:", "new", "ls:", "/f:", "No", "such", "file", "or", "directory", "twotwo2", "w"]
    below = create(peer, base, lower)
    assert peer.shell(below, "ls -A /d /e /f; cat /both; cat /d/a").split() == [
        "/d:", "a", "b", "/e:", "x", "/f:", "y", "onea1"], "the same layers without the upper one"
    for one in (name, below):
        peer.call(REMOVE, one)


def test_ids_are_the_sandboxes_and_nothing_has_rights_outside(warden, base):
    peer = warden.start(PLAIN).peer()
    one = layer([member("suid", data=b"x", mode=0o4755, uid=1000, gid=2000), member("far", uid=100000, gid=70000)])
    add(peer, base, one)
    name = create(peer, base, one)
    assert peer.shell(name, "stat -c '%a %u %g' /suid /far").split("\n")[:2] == ["4755 1000 2000", "644 65534 65534"]
    path = layers_of(warden) / f"blob-{one.digest.hex()}"
    assert [(os.stat(path / n).st_uid, os.stat(path / n).st_gid) for n in ("suid", "far")] == [(1000, 2000), (65534, 65534)]
    peer.call(REMOVE, name)


def test_a_create_names_layers_that_are_there(warden, base):
    peer = warden.start().peer()
    add(peer, base)
    with pytest.raises(Failed) as e:
        create(peer, base, layer([member("none")]))
    assert e.value.code == NOT_FOUND
    assert peer.shell(create(peer, base), "echo fine") == "fine\n"


@pytest.mark.parametrize("count", [2, 255])
def test_many_layers(warden, base, count):
    peer = warden.start().peer()
    stack = [base, *(layer([member("n", data=str(i).encode()), member(f"f{i}")]) for i in range(1, count))]
    add(peer, *stack)
    name = create(peer, *stack)
    assert peer.shell(name, "cat /n; ls / | busybox grep -c '^f[0-9]'") == f"{count - 1}{count - 1}\n"
    peer.call(REMOVE, name)


def test_a_layer_that_is_there_again_counts_where_it_is_uppermost(warden, base):
    peer = warden.start().peer()
    empty = layer([])
    one = layer([folder("d/"), member("d/one", data=b"1"), member("both", data=b"one")])
    two = layer([folder("d/"), member("d/.wh.one"), member("d/two", data=b"2"), member("both", data=b"two")])
    add(peer, base, empty, one, two)
    for stack, want in (((empty, base, one, two, one, empty), "onetwo"), ((base, two, one, two, empty, empty), "two"),
                        ((one, base, one, base, two, base), "two"), ((base, one, two, two, one, one), "onetwo")):
        name = create(peer, *stack)
        assert peer.shell(name, "ls /d | tr -d '\\n'; cat /both") == want + ("one" if want == "onetwo" else "two"), stack
        peer.call(REMOVE, name)


# ---- the tree is what others make of it ---------------------------------------------------------------------------


def varied():
    """Three layers with all that images have."""
    first = [folder("./"), folder("etc/", mode=0o700, uid=3, mtime=oci.MTIME + 5), member("etc/passwd", data=b"root:x:0:0::/:/bin/sh\n"),
             folder("usr/"), folder("usr/bin/", mode=0o2755, gid=7), member("usr/bin/tool", data=b"#!" * 5000, mode=0o4755, uid=12, gid=13),
             hardlink("usr/bin/tool2", "usr/bin/tool", mode=0o4755, uid=12, gid=13), symlink("bin", "usr/bin"), symlink("etc/dangling", "/none/../x"),
             folder("var/"), folder("var/cache/"), *(member(f"var/cache/{i}", data=bytes([i]) * i) for i in range(50)),
             folder("opt/"), folder("opt/deep/"), folder("opt/deep/er/"), member("opt/deep/er/f", data=b"x"),
             member("attrs", data=b"a", xattrs={"user.mime_type": "text/plain", "user.empty": ""}), folder("xdir/", xattrs={"user.d": "1"}),
             member("pipe", tarfile.FIFOTYPE, mode=0o622), member("ö ü\n.txt", data=b"name"), member("old", data=b"o", mtime=1),
             folder("replaced/"), member("replaced/by", data=b"file"), member("turns", data=b"into a folder")]
    second = [folder("var/", mtime=oci.MTIME + 60), folder("var/cache/", mode=0o711, mtime=oci.MTIME + 61), *(member(f"var/cache/.wh.{i}") for i in range(25)),
              member("var/cache/30", data=b"changed", mode=0o600, uid=99), folder("opt/", mtime=3), folder("opt/deep/"), member("opt/deep/.wh..wh..opq"),
              member("opt/deep/only", data=b"this"), member(".wh.attrs"), folder("usr/"), folder("usr/bin/", mode=0o755),
              hardlink("usr/bin/alias", "usr/bin/other"), member("usr/bin/other", data=b"other")]
    second[-2], second[-1] = second[-1], second[-2]
    third = [folder("var/"), folder("var/cache/"), member("var/cache/3", data=b"back again"), member("attrs", data=b"without"), member(".wh.old"),
             member(".wh.replaced"), member("replaced", data=b"now a file"), member(".wh.turns"), folder("turns/"), member("turns/in", data=b"1")]
    return [layer(first), layer(second, "zstd"), layer(third, "plain")]


def many(count):
    """Small files like those of a language's packages."""
    rng = random.Random(1)
    members, seen = [folder("lib/")], set()
    for i in range(count):
        above = f"lib/p{i // 97}/m{i % 7}"
        for part in (f"lib/p{i // 97}", above):
            if part not in seen:
                seen.add(part)
                members.append(folder(f"{part}/", mode=0o755 - (i % 2), mtime=oci.MTIME - i))
        members.append(member(f"{above}/f{i}.py", data=rng.randbytes(i % 400), mtime=oci.MTIME + i, mode=0o644 | (i % 5 == 0) * 0o111))
    return [layer(members)]


@contextlib.contextmanager
def overlay(folders, at):
    """As a box has it, seen with the host's ids."""
    at.mkdir()
    subprocess.run(["mount", "-t", "overlay", "none", "-o", "ro,lowerdir=" + ":".join(map(str, folders)), at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


@pytest.mark.skipif(not shutil.which("umoci"), reason="needs umoci")
@pytest.mark.parametrize("what", ["varied", "many"])
def test_the_tree_equals_umocis(warden, tmp_path, what):
    layers = varied() if what == "varied" else many(60000)
    peer = warden.start(PLAIN).peer()
    peer.sock.settimeout(300)
    add(peer, *layers)
    layout = oci.write_layout(tmp_path / "layout", [oci.Layer(one.tar) for one in layers])  # which knows no zstd
    try:
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:latest", tmp_path / "bundle"], check=True, capture_output=True)
        theirs = oci.tree(tmp_path / "bundle/rootfs")
    finally:
        shutil.rmtree(tmp_path / "bundle", ignore_errors=True)
    (tmp_path / "empty").mkdir()
    folders = [layers_of(warden) / f"blob-{one.digest.hex()}" for one in reversed(layers)]
    with overlay([*folders, tmp_path / "empty"], tmp_path / "merged") as merged:
        ours = oci.tree(merged)
    assert len(ours) > (40 if what == "varied" else 60000)
    assert {n: (ours.get(n), theirs.get(n)) for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n)} == {}


# ---- hostile blobs ------------------------------------------------------------------------------------------------

HOSTILE = {
    "dots": ([member("../x")], "a name with '..'"),
    "dots inside": ([member("a/../../x")], "a name with '..'"),
    "a deep path": ([member("d/" * 257 + "f")], "too deep"),
    "a long path": ([member(("c" * 200 + "/") * 25 + "f")], ""),
    "a root that is a file": ([member(".")], "the root is not a directory"),
    "a root that is a symlink": ([symlink(".", "/etc")], "the root is not a directory"),
    "a hard link to a directory": ([folder("d"), hardlink("h", "d")], "no regular file"),
    "a hard link to a symlink": ([member("f"), symlink("s", "f"), hardlink("h", "s")], "no regular file"),
    "a hard link through a symlink": ([folder("d"), member("d/f"), symlink("s", "d"), hardlink("h", "s/f")], "a hard link"),
    "a hard link out": ([hardlink("h", "../../etc/passwd")], "a name with '..'"),
    "a hard link to nothing": ([hardlink("h", "none")], "what it is a hard link to"),
    "an empty whiteout": ([member("d/.wh.")], "a whiteout of no name"),
    "a whiteout of .": ([member("d/.wh..")], "a whiteout of no name"),
    "a whiteout of ..": ([member("d/.wh...")], "a whiteout of no name"),
    "a whiteout on the way": ([member(".wh.d/x")], "a whiteout"),
    "a whiteout that is a directory": ([folder(".wh.d")], "a whiteout that is no file"),
    "a whiteout that is a symlink": ([symlink(".wh.d", "/")], "a whiteout that is no file"),
    "an opaque root": ([member(".wh..wh..opq")], "a root that hides"),
    "an overlay's whiteout": ([member("c", tarfile.CHRTYPE)], "a whiteout of an overlay"),
    "an overlay's mark": ([folder("d", xattrs={"trusted.overlay.opaque": "y"})], "is not an image's to set"),
    "an overlay's mark of users": ([member("d", xattrs={"user.overlay.whiteout": "y"})], "is not an image's to set"),
    "another trusted one": ([member("d", xattrs={"trusted.x": "y"})], "is not an image's to set"),
    "a file in place of a directory": ([folder("d"), member("d", data=b"x")], "takes the place of a directory"),
    "an opaque file": ([member("f"), member("f/.wh..wh..opq")], ""),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_breaks_a_rule_is_refused_and_leaves_nothing(warden, what):
    peer = warden.start(PLAIN, slots=1).peer()
    members, why = HOSTILE[what]
    message = refused(peer, layer([member("first", data=b"x"), *members]))
    assert why in message and message.startswith("a layer of the image cannot be unpacked: ")
    wait_for(lambda: not names(warden))
    assert not listed(peer)


def test_symlinks_lead_nowhere_outside(warden, base, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    peer = warden.start(PLAIN).peer()
    one = layer([symlink("abs", str(victim)), folder("in/"), symlink("up", "../../../../../../in"), member("up/x", data=b"x"),
                 symlink("w", "/in"), member("w/.wh.gone"), member("w/.wh..wh..opq")])
    add(peer, base, one)
    path = layers_of(warden) / f"blob-{one.digest.hex()}"
    assert (path / "in/x").read_bytes() == b"x" and not any(victim.iterdir())
    assert os.getxattr(path / "in", "trusted.overlay.opaque") == b"y" and (path / "in/gone").lstat().st_rdev == 0
    refused(peer, layer([symlink("abs", str(victim)), member("abs/x", data=b"x")]))
    assert not any(victim.iterdir())


def test_devices_are_left_out_and_capabilities_too(warden, base):
    peer = warden.start(PLAIN).peer()
    one = layer([member("null", tarfile.CHRTYPE, devmajor=1, devminor=3), member("sda", tarfile.BLKTYPE, devmajor=8), member("ping", data=b"x", xattrs={
        "security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "user.kept": "yes"})])
    add(peer, one)
    path = layers_of(warden) / f"blob-{one.digest.hex()}"
    assert os.listdir(path) == ["ping"] and os.listxattr(path / "ping") == ["user.kept"]


def test_whiteouts_of_old_layers_are_hard_links(warden, base):
    peer = warden.start().peer()
    lower = layer([member("a", data=b"1"), member("b", data=b"2")])
    add(peer, base, lower, upper := layer([member(".wh.a"), hardlink(".wh.b", ".wh.a")]))
    assert "a" not in peer.shell(create(peer, base, lower, upper), "ls /").split()


def cut(data):
    return data[:len(data) * 2 // 3]


def test_only_what_was_announced_is_unpacked(warden, base):
    peer = warden.start(PLAIN).peer()
    other = layer([member("other")])
    assert "the blob has another digest" in refused(peer, base, digest=other.digest)
    assert "its content has another digest" in refused(peer, base, diff_id=other.diff_id)
    broken = layer([member("f", data=os.urandom(100000))])
    for form in (cut, lambda data: data[:-20] + b"x" * 20):
        broken.blob = form(broken.blob)
        refused(peer, broken, digest=hashlib.sha256(broken.blob).digest())
    broken.blob = b"no tar at all" * 100
    refused(peer, broken, digest=hashlib.sha256(broken.blob).digest())
    broken.blob = b""
    refused(peer, broken, digest=hashlib.sha256(b"").digest())
    wait_for(lambda: not names(warden))
    add(peer, base)
    assert listed(peer) == {base.digest}


def by_sha512(one):
    one.digest, one.diff_id = hashlib.sha512(one.blob).digest(), hashlib.sha512(one.tar).digest()
    return one


def test_sha512_is_as_good_and_as_strict(warden):
    """I1: all of it counts, for what is stored and for what is in it; and neither kind stands for the other."""
    peer = warden.start(PLAIN).peer()
    base = by_sha512(layer(busybox_members()))
    last = bytes([*base.digest[:-1], base.digest[-1] ^ 1])
    assert "the blob has another digest" in refused(peer, base, digest=last)
    assert "the blob has another digest" in refused(peer, base, digest=base.digest[:32])
    assert "its content has another digest" in refused(peer, base, diff_id=bytes([*base.diff_id[:-1], base.diff_id[-1] ^ 1]))
    assert "its content has another digest" in refused(peer, base, diff_id=base.diff_id[:32])
    wait_for(lambda: not names(warden))
    upper = layer([member("hello", data=b"above")])
    add(peer, base, upper)
    assert listed(peer) == {name_of(base.digest), upper.digest}
    upper.digest, base.digest = upper.digest, name_of(base.digest)
    assert peer.shell(create(peer, base, upper), "cat /hello") == "above"


def test_descriptors_that_are_no_files_are_refused(warden, base, tmp_path):
    peer = warden.start().peer()
    rd, wr = os.pipe()
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    write_only = os.open(tmp_path / "w", os.O_WRONLY | os.O_CREAT)
    for fd in (rd, wr, directory):
        assert "not a file" in refused(peer, base, fd=fd)
    refused(peer, base, UNAVAILABLE, fd=write_only)
    for fd in (rd, wr, directory, write_only):
        os.close(fd)
    big = os.open(tmp_path / "big", os.O_RDWR | os.O_CREAT)
    os.truncate(big, (20 << 30) + 1)
    assert "larger than" in refused(peer, base, fd=big)
    os.close(big)
    assert not listed(peer)


def test_members_and_frames_are_one_stream(warden, base):
    peer = warden.start(PLAIN).peer()
    one = layer([member("a", data=b"a" * 5000), member("b", data=b"b" * 5000)], "plain")
    for join in (lambda x: gzip.compress(x, mtime=0), oci.zstd):
        blob = b"".join(join(one.tar[i:i + 3000]) for i in range(0, len(one.tar), 3000))
        some = layer([], "plain")
        some.blob, some.digest, some.diff_id = blob, hashlib.sha256(blob).digest(), one.diff_id
        add(peer, some)
        path = layers_of(warden) / f"blob-{some.digest.hex()}"
        assert (path / "b").read_bytes() == b"b" * 5000


def test_a_bomb_is_stopped_by_what_it_says(warden):
    """60 GiB that one member holds, and a window that nobody has."""
    peer = warden.start(PLAIN).peer()
    info, _ = member("huge")
    info.size = 60 << 30
    tar = info.tobuf(tarfile.PAX_FORMAT)
    one = layer([], "plain")
    one.blob = gzip.compress(tar + b"\0" * (1 << 20), mtime=0)
    assert "more bytes than an image may have" in refused(peer, one, digest=hashlib.sha256(one.blob).digest())
    info.size = 100
    one.blob = subprocess.run(["zstd", "-q", "--long=30", "--ultra", "-1"], input=info.tobuf(tarfile.PAX_FORMAT) + os.urandom(1 << 20) * 300,
                              capture_output=True, check=True).stdout
    refused(peer, one, digest=hashlib.sha256(one.blob).digest())
    wait_for(lambda: not names(warden))


# ---- adding and dropping ------------------------------------------------------------------------------------------


def test_many_adds_of_one_layer_are_one_unpacking(warden, base):
    peer = warden.start().peer()
    serials = [send_add(peer, base) for _ in range(20)]
    for serial in serials:
        peer.wait(serial)
    assert warden.stderr().count("layer unpacked") == 1
    add(peer, base)  # at once
    assert warden.stderr().count("layer unpacked") == 1
    several = [layer([member(f"f{i}", data=bytes(1000))]) for i in range(12)]
    for serial in [send_add(peer, one) for one in several]:
        peer.wait(serial)
    assert listed(peer) == {one.digest for one in (base, *several)}
    warden.settle()


def test_a_layer_goes_when_nobody_has_it(warden, base):
    peer = warden.start(PLAIN).peer()
    one = layer([member("x")])
    add(peer, base, one)
    name = create(peer, base, one)
    with pytest.raises(Failed) as e:
        drop(peer, one)
    assert e.value.code == CONFLICT
    warden.stop(signal.SIGKILL)
    peer = warden.start(PLAIN, check=False).peer()
    assert listed(peer) == {base.digest, one.digest} and peer.list()[name].state == RUNNING
    with pytest.raises(Failed) as e:
        drop(peer, one)
    assert e.value.code == CONFLICT, "a restart knows what boxes have"
    peer.call(REMOVE, name)
    wait_for(lambda: not warden.folders() or len(warden.folders()) <= 2)
    wait_for(lambda: can_drop(peer, one))
    drop(peer, one)  # not there is fine
    wait_for(lambda: names(warden) == [f"blob-{base.digest.hex()}"])
    assert listed(peer) == {base.digest}
    add(peer, one)
    assert peer.shell(create(peer, base, one), "ls /x") == "/x\n"


def can_drop(peer, one):
    try:
        drop(peer, one)
    except Failed as e:
        assert e.code == CONFLICT
        return False
    return True


def unpackers(warden):
    found = []
    for child in warden.children():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in warden.children(int(child)) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "opensandbox-unp\n"]
    return found


@pytest.mark.parametrize("who", ["warden", "worker", "unpacker"])
def test_kills_in_the_middle_leave_no_half_layer(warden, base, who):
    peer = warden.start(PLAIN).peer()
    slow = many(20000)[0]
    for delay in (0.02, 0.1, 0.4):
        serial = send_add(peer, slow)
        wait_for(lambda: unpackers(warden))
        time.sleep(delay)
        if who == "warden":
            warden.stop(signal.SIGKILL)
            peer = warden.start(PLAIN, check=False).peer()
        else:
            for pid in unpackers(warden):
                victim = pid if who == "unpacker" else int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                os.kill(victim, signal.SIGKILL)
            with pytest.raises(Failed):
                peer.wait(serial)
        assert not listed(peer)
        wait_for(lambda: not names(warden))
    peer.sock.settimeout(100)
    add(peer, slow)
    assert listed(peer) == {slow.digest}


def test_confinement_of_layers_is_that_of_tars(warden):
    """What reads the blob is in its own namespaces, without the host's ids."""
    peer = warden.start(PLAIN).peer()
    slow = many(20000)[0]
    serial = send_add(peer, slow)
    wait_for(lambda: unpackers(warden))
    pid = unpackers(warden)[0]
    wait_for(lambda: "Seccomp:\t2" in pathlib.Path(f"/proc/{pid}/status").read_text())
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["CapEff"] == "000000000000001b" and status["NoNewPrivs"] == "1" and int(status["Uid"].split()[0]) > 1 << 20
    for kind in ("user", "mnt", "net", "ipc", "uts"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    peer.sock.settimeout(100)
    peer.wait(serial)
