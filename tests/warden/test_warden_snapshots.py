# SPDX-License-Identifier: Apache-2.0
"""Snapshots, as the warden makes them: whole, of one moment, and never at the price of a box that stands still."""
import os
import signal
import uuid

import pytest

from test_warden import CONFLICT, INVALID, NOT_FOUND, PAUSE, RECORD_GET, RECORD_SET, REMOVE, RESUME, RUNNING, PAUSED, SNAPSHOT, SNAPSHOT_REMOVE, \
    SNAPSHOTS, Failed, guest, sealed, pytestmark, warden  # noqa: F401 (fixtures, and what to skip)


def names(peer):
    serial = peer.send(SNAPSHOTS)
    found = set()
    while (reply := peer.receive()).serial != serial or any(reply.snapshot):
        if reply.serial == serial:
            found.add(reply.snapshot)
    return found


@pytest.fixture
def peer(warden):  # noqa: F811
    return warden.start().peer()


def new():
    return uuid.uuid4().bytes


def refused(peer, code, *args, **more):
    with pytest.raises(Failed) as e:
        peer.call(*args, **more)
    assert e.value.code == code, e.value


@pytest.mark.smoke
def test_taken_listed_stood_on_and_removed(peer):
    box, layer = peer.create(), new()
    peer.shell(box, "echo one > /file")
    reply = peer.call(SNAPSHOT, box, layers=[layer])
    assert reply.snapshot == layer and 0 < reply.frozen_us < 10_000_000
    peer.shell(box, "echo two > /file")
    assert names(peer) == {layer}
    copy = peer.create(layers=[layer])
    assert peer.shell(copy, "cat /file") == "one\n" and peer.shell(box, "cat /file") == "two\n"
    refused(peer, CONFLICT, SNAPSHOT_REMOVE, layers=[layer])
    refused(peer, CONFLICT, SNAPSHOT, box, layers=[layer])
    peer.call(REMOVE, copy)
    peer.call(SNAPSHOT_REMOVE, layers=[layer])
    peer.call(SNAPSHOT_REMOVE, layers=[layer])  # what is not there is removed
    assert names(peer) == set()
    refused(peer, NOT_FOUND, SNAPSHOT, "nothing", layers=[layer])
    with pytest.raises(Failed) as e:
        peer.create(layers=[layer])
    assert e.value.code == NOT_FOUND
    peer.call(REMOVE, box)


def test_a_paused_box_stays_paused_and_is_not_frozen_for_it(peer):
    box, layer = peer.create(), new()
    peer.call(PAUSE, box)
    assert peer.call(SNAPSHOT, box, layers=[layer]).frozen_us == 0
    assert peer.list()[box].state == PAUSED
    peer.call(RESUME, box)
    assert peer.shell(box, "echo fine") == "fine\n"
    peer.call(REMOVE, box)
    peer.call(SNAPSHOT_REMOVE, layers=[layer])


def test_what_froze_a_box_decides_whether_a_new_warden_thaws_it(warden):  # noqa: F811
    peer = warden.start().peer()
    paused, cut = peer.create(), peer.create()
    folder, = [p.parent for p in warden.state.glob("boxes/*/box") if cut.encode() in p.read_bytes()]
    for box in (paused, cut):
        peer.call(PAUSE, box)
    warden.stop(signal.SIGKILL)
    (folder / "snapshot").write_bytes(b"")  # as a warden leaves it that is killed in the middle
    warden.start(check=False)
    peer = warden.peer()
    rows = peer.list()
    assert rows[paused].state == PAUSED and rows[cut].state == RUNNING
    assert not (folder / "snapshot").exists() and peer.shell(cut, "echo fine") == "fine\n"
    for box in (paused, cut):
        peer.call(REMOVE, box)


def record_of(peer, layer):
    fd, = peer.call(RECORD_GET, "ab", layers=[layer]).fds
    with open(fd, "rb") as f:
        return f.read()


def set_record(peer, layer, text):
    fd = sealed(text)
    try:
        peer.call(RECORD_SET, "ab", [fd], layers=[layer])
    finally:
        os.close(fd)


def with_records(peer):
    serial, found = peer.send(SNAPSHOTS), {}
    while any((reply := peer.receive()).snapshot):
        assert reply.serial == serial
        found[reply.snapshot] = reply.has_record
    return found


def test_a_record_lies_beside_its_layer_and_goes_with_it(warden):  # noqa: F811
    peer = warden.start().peer()
    box, layer, other = peer.create(), new(), new()
    with pytest.raises(Failed) as e:
        set_record(peer, layer, b"of nothing")
    assert e.value.code == NOT_FOUND
    for name in (layer, other):
        peer.call(SNAPSHOT, box, layers=[name])
    refused(peer, NOT_FOUND, RECORD_GET, "ab", layers=[layer])
    for text in (b"one", b"another\n" * 9999):
        set_record(peer, layer, text)
        assert record_of(peer, layer) == text
    assert with_records(peer) == {layer: 1, other: 0}
    warden.stop(signal.SIGKILL)
    peer = warden.start(check=False).peer()
    layers = f"/proc/{warden.process.pid}/root{warden.state}/store/layers"
    assert record_of(peer, layer) == b"another\n" * 9999
    for _ in range(2):
        set_record(peer, layer, b"")
    assert with_records(peer) == {layer: 0, other: 0}
    set_record(peer, other, b"kept")
    peer.call(REMOVE, box)
    for name in (layer, other):
        peer.call(SNAPSHOT_REMOVE, layers=[name])
    assert not [name for name in os.listdir(layers) if "record" in name]


def test_half_of_a_layer_is_swept(warden):  # noqa: F811
    warden.start()
    folder = f"/proc/{warden.process.pid}/root{warden.state}/store/layers"
    os.mkdir(f"{folder}/part-snap-1")
    warden.stop(signal.SIGKILL)
    warden.start()
    assert not [n for n in os.listdir(f"/proc/{warden.process.pid}/root{warden.state}/store/layers") if n.startswith("part-")]


def test_names_that_are_none_are_refused(warden):  # noqa: F811
    warden.start()
    for layers in ([], [b"x" * 32], [new(), new()]):
        refused(warden.peer(), INVALID, SNAPSHOT, "ab", layers=layers)
