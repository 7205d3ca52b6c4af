# SPDX-License-Identifier: Apache-2.0
"""The warden by itself: volumes (box/volume.h), over its socket."""
import os
import pathlib
import signal
import socket
import struct
import time
import uuid

import pytest

from test_warden import CONFLICT, CREATE, INTERNAL, INVALID, REMOVE, VOLUME_MAKE, VOLUME_REMOVE, Failed, guest, pid1, pytestmark, with_record, \
    request, sealed, warden  # noqa: F401

HOST, NAMED = 1, 2
NO_HOST_PATH, NO_HOST_MADE, NO_IDS, NO_SUB_PATH, NO_VOLUME, NO_MOUNT_PATH = range(4097, 4103)


def volume(kind, mount_path, path="", prefix=0, name="", read_only=0):
    return struct.pack("=III64s1024s1024s", kind, prefix, read_only, name.encode(), path.encode(), mount_path.encode())


def create_with(peer, *volumes):
    """The id, or the failure."""
    name = str(uuid.uuid4())
    fd = sealed({"id": name})
    try:
        peer.serial += 1
        socket.send_fds(peer.sock, [request(CREATE, peer.serial, name) + b"".join(volumes)], with_record([fd]))
        peer.wait(peer.serial)
    finally:
        os.close(fd)
    return name


def test_named_volumes_are_made_shared_and_removed(warden):
    peer = warden.start().peer()
    disks = warden.store / "disks"
    with pytest.raises(Failed) as e:
        create_with(peer, volume(NAMED, "/data", name="v-1"))
    assert e.value.code == INVALID
    for _ in range(2):  # once it is there, nothing happens
        peer.call(VOLUME_MAKE, "v-1", limits=(0, 0, 0, 8 << 20, 0))
    assert (disks / "vol-v-1/data").is_dir()
    (disks / "vol-v-1/data/mark").write_text("here")
    one = create_with(peer, volume(NAMED, "/data", name="v-1"))
    two = create_with(peer, volume(NAMED, "/srv/deep/data", name="v-1", read_only=1), volume(NAMED, "/srv/deep/data2", "sub/x", name="v-1"))
    roots = [pathlib.Path(f"/proc/{pid1(warden, name)}/root") for name in (one, two)]
    assert (roots[0] / "data/mark").read_text() == (roots[1] / "srv/deep/data/mark").read_text() == "here"
    bases = {int(pathlib.Path(f"/proc/{pid1(warden, n)}/uid_map").read_text().split()[1]) for n in (one, two)}
    assert {(roots[0] / "data/mark").stat().st_uid, (roots[1] / "srv/deep/data/mark").stat().st_uid} == bases
    assert (disks / "vol-v-1/data/sub/x").is_dir() and (disks / "vol-v-1/data/mark").stat().st_uid == 0
    with pytest.raises(OSError):
        (roots[1] / "srv/deep/data/new").write_text("x")
    for name in (one, two):
        peer.call(REMOVE, name)
    peer.call(VOLUME_REMOVE, "v-1")
    peer.call(VOLUME_REMOVE, "v-1")
    assert not list(disks.glob("*vol-*"))


def test_volumes_of_the_host_are_those_that_are_listed(warden):
    prefix = warden.folder / "shared"
    prefix.mkdir()
    (prefix / "link").symlink_to("/etc")
    peer = warden.start("--volume-prefix", prefix).peer()
    name = create_with(peer, volume(HOST, "/mnt/new", "made/here"), volume(HOST, "/mnt/new/in", "other"))
    root = pathlib.Path(f"/proc/{pid1(warden, name)}/root")
    (prefix / "made/here/f").write_text("x")
    assert (root / "mnt/new/f").exists() and (root / "mnt/new/in").is_dir() and (prefix / "other").is_dir()
    for code, errno, bad in [
            (INVALID, NO_HOST_PATH, volume(HOST, "/a", "link")), (INVALID, NO_HOST_PATH, volume(HOST, "/a", "link/ssh")),
            (INVALID, 0, volume(HOST, "/a", prefix=1)), (INVALID, 0, volume(HOST, "/proc/x")), (INVALID, 0, volume(HOST, "/a", "..")),
            (INVALID, 0, volume(3, "/a")), (INVALID, NO_VOLUME, volume(NAMED, "/a", name="none"))]:
        serial = peer.serial
        with pytest.raises(Failed) as e:
            create_with(peer, bad)
        assert e.value.code == code and peer.serial == serial + 1, bad[:80]
        assert errno == 0 or e.value.errno == errno, (e.value, e.value.errno)
    peer.call(REMOVE, name)
    assert (prefix / "made/here/f").read_text() == "x"


def test_what_is_left_of_volumes_is_swept(warden):
    warden.start().peer().call(VOLUME_MAKE, "v-1", limits=(0, 0, 0, 8 << 20, 0))
    disks = warden.store / "disks"
    (disks / "new-vol-1").mkdir()
    (disks / "gone-vol-2/data").mkdir(parents=True)
    warden.stop(signal.SIGKILL)
    warden.start()
    disks = warden.store / "disks"
    deadline = time.monotonic() + 10
    while sorted(p.name for p in disks.glob("*vol-*")) != ["vol-v-1"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_box_that_goes_while_its_volumes_are_opened_leaves_nothing(warden):
    prefix = warden.folder / "shared"
    prefix.mkdir()
    peer = warden.start("--volume-prefix", prefix).peer()
    before = warden.census()
    for i in range(10):
        name = str(uuid.uuid4())
        fd = sealed({"id": name})
        peer.serial += 1
        created = peer.serial
        socket.send_fds(peer.sock, [request(CREATE, created, name) + volume(HOST, "/a", f"f{i}") + volume(HOST, "/b", f"g{i}")], with_record([fd]))
        os.close(fd)
        time.sleep(0.001 * i)
        removed = peer.send(REMOVE, name)
        peer.wait(removed)
        try:
            peer.wait(created)
        except Failed as e:
            assert e.code in (CONFLICT, INTERNAL), e
    deadline = time.monotonic() + 20
    while warden.census() != before:
        assert time.monotonic() < deadline, (warden.census(), before)
        time.sleep(0.05)
