# SPDX-License-Identifier: Apache-2.0
"""Files of boxes that are lost or damaged while the warden is away: nothing that runs ends for that, and nobody else's layer goes
(G8, S3). And the records that the warden keeps for the server."""
import contextlib
import os
import shutil
import signal
import socket

import pytest

from test_warden import (CONFLICT, INVALID, NOT_FOUND, RECORD, RECORD_GET, RECORD_SET, REMOVE, RUNNING,  # noqa: F401
                         SNAPSHOT, SNAPSHOT_REMOVE, Failed, guest, pid1, pytestmark, sealed, warden)
from test_warden_snapshots import new

COUNTER = "(setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >/tmp/t; sleep 0.05; done' &) >/dev/null 2>&1 </dev/null"


def folder_of(warden, name):  # noqa: F811
    return next(p.parent for p in (warden.state / "boxes").glob("*/box") if name.encode() in p.read_bytes())


def removed(path):
    path.unlink()


def halved(path):
    os.truncate(path, path.stat().st_size // 2)


def emptied(path):
    os.truncate(path, 0)


def zeroed(path):
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path, at=0.5):
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 4
    path.write_bytes(data)


def flipped_pid(path):
    data = bytearray(path.read_bytes())
    data[120] ^= 1
    path.write_bytes(data)


def grown(path):
    with open(path, "ab") as f:
        f.write(b"x" * 100000)


DAMAGES = [removed, halved, emptied, zeroed, flipped, flipped_pid, grown]


@contextlib.contextmanager
def away(warden):  # noqa: F811
    """What happens while the warden is dead."""
    warden.stop(signal.SIGKILL)
    yield
    warden.start(check=False)


def check_lives(warden, name, init):  # noqa: F811
    peer = warden.peer()
    assert peer.list()[name].state == RUNNING
    assert pid1(warden, name) == init
    first = peer.shell(name, "cat /tmp/t")
    assert peer.shell(name, "sleep 0.2; cat /tmp/t") != first
    return peer


class Victim:
    def __init__(self, warden, peer, files, damage, **more):  # noqa: F811
        self.files, self.damage = files, damage
        self.name = peer.create(**more)
        peer.shell(self.name, COUNTER)
        self.init, self.folder = pid1(warden, self.name), folder_of(warden, self.name)

    def __repr__(self):
        return f"{'+'.join(self.files)} {self.damage.__name__}"

    def strike(self):
        for file in self.files:
            self.damage(self.folder / file)


def test_boxes_whose_files_are_damaged_go_on(warden):  # noqa: F811
    peer = warden.start().peer()
    victims = [Victim(warden, peer, files, damage) for files in (("box",), ("record",), ("box", "record")) for damage in DAMAGES]
    other = peer.create()
    with away(warden):
        for victim in victims:
            victim.strike()
    for victim in victims:
        peer = check_lives(warden, victim.name, victim.init)
        if "record" not in victim.files:
            assert peer.record(victim.name) == RECORD, victim
        else:
            with pytest.raises(Failed) as e:
                peer.call(RECORD_GET, victim.name)
            assert e.value.code == (NOT_FOUND if victim.damage is removed else INVALID), victim
        peer.set_record(victim.name, b"anew")  # as a server does that finds it so
        if "box" in victim.files:
            assert f"id={victim.name}" in warden.stderr(), victim  # it is said
    with away(warden):
        pass
    for victim in victims:
        peer = check_lives(warden, victim.name, victim.init)  # what was made anew is whole
        assert peer.record(victim.name) == b"anew", victim
        peer.call(REMOVE, victim.name)
    peer.call(REMOVE, other)
    warden.settle()


def test_a_box_whose_folder_is_lost_is_left_alone(warden):  # noqa: F811
    peer = warden.start().peer()
    name = peer.create()
    peer.shell(name, COUNTER)
    init, folder = pid1(warden, name), folder_of(warden, name)
    with away(warden):
        shutil.rmtree(folder)
    assert name not in warden.peer().list()
    assert os.path.exists(f"/proc/{init}/ns/pid") and "left alone" in warden.stderr()


def test_layers_stay_while_nobody_knows_who_has_them(warden):  # noqa: F811
    peer = warden.start().peer()
    source = peer.create()
    kinds = [("stack",), ("record",), ("stack", "record"), ("box", "stack", "record")]
    layers, victims = [], []
    for files in kinds:
        for damage in (halved, flipped):
            layers.append(new())
            peer.shell(source, f"echo {len(layers)} >/root/f")
            peer.call(SNAPSHOT, source, layers=[layers[-1]])
            victims.append(Victim(warden, peer, files, damage, layers=[layers[-1]]))
    with away(warden):
        for victim in victims:
            victim.strike()
    for i, (victim, layer) in enumerate(zip(victims, layers)):
        peer = check_lives(warden, victim.name, victim.init)
        with pytest.raises(Failed) as e:
            peer.call(SNAPSHOT_REMOVE, layers=[layer])
        assert e.value.code == CONFLICT, victim
        assert peer.shell(victim.name, "cat /root/f") == f"{i + 1}\n", victim
    for victim in victims:
        peer.call(REMOVE, victim.name)
    peer.call(REMOVE, source)
    warden.settle()
    for layer in layers:
        peer.call(SNAPSHOT_REMOVE, layers=[layer])


def test_records_are_kept_unread_and_replaced_as_a_whole(warden):  # noqa: F811
    peer = warden.start().peer()
    name = peer.create()
    assert peer.record(name) == RECORD
    for record in (b"", b"\0\n\xff" * 1000, os.urandom(4 << 20)):
        peer.set_record(name, record)
        assert peer.record(name) == record
        with away(warden):
            pass
        peer = warden.peer()
        assert peer.record(name) == record
    large, plain = sealed(bytes((4 << 20) + 1)), os.memfd_create("plain")
    for fd, code in ((large, 5), (plain, INVALID)):
        with pytest.raises(Failed) as e:
            peer.call(RECORD_SET, name, [fd])
        assert e.value.code == code
        os.close(fd)
    assert peer.record(name) == record
    for call, fds in ((RECORD_GET, []), (RECORD_SET, [sealed(b"x")])):
        with pytest.raises(Failed) as e:
            peer.call(call, "nobody", fds)
        assert e.value.code == NOT_FOUND
    fd, = peer.call(RECORD_GET, name).fds
    with pytest.raises(OSError):
        os.write(fd, b"x")
    os.close(fd)
    peer.call(REMOVE, name)
    with pytest.raises(Failed):
        peer.call(RECORD_GET, name)
