# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unchanged: snapshots."""
import pytest

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from api import wait_for  # noqa: E402
from kit import kit  # noqa: E402, F401
from opensandbox.exceptions import SandboxApiException  # noqa: E402
from opensandbox.models.sandboxes import SnapshotFilter  # noqa: E402


def text(kit, sandbox, command):  # noqa: F811
    return "".join(m.text for m in kit.wait(sandbox.commands.run(command)).logs.stdout)


def test_a_snapshot_is_taken_listed_restored_and_deleted(kit):  # noqa: F811
    source, manager = kit.create(), kit.manager()
    text(kit, source, "echo marker > /root/file")
    first = kit.wait(source.create_snapshot("before"))
    assert (first.sandbox_id, first.name, first.status.state) == (source.id, "before", "Creating")
    assert (first.status.reason, first.status.message) == ("snapshot_accepted", "Snapshot creation accepted.")
    assert first.status.last_transition_at >= first.created_at
    ready = wait_for(lambda: (s := kit.wait(manager.get_snapshot(first.id))).status.state == "Ready" and s, what="Ready")
    assert ready.created_at == first.created_at and ready.status.reason and ready.status.message
    assert ready.status.last_transition_at >= first.status.last_transition_at
    found = kit.wait(manager.list_snapshots(SnapshotFilter(sandbox_id=source.id, states=["Ready"])))
    assert [s.id for s in found.snapshot_infos] == [first.id] and found.pagination.total_items == 1
    copy = kit.create(None, snapshot_id=first.id)
    info = kit.wait(copy.get_info())
    assert info.snapshot_id == first.id and info.image is None
    assert text(kit, copy, "cat /root/file").strip() == "marker"
    with pytest.raises(SandboxApiException) as e:
        kit.wait(manager.delete_snapshot(first.id))
    assert (e.value.status_code, e.value.error.code) == (409, "SNAPSHOT::DELETE_CONFLICT")
    for sandbox in (copy, source):
        kit.wait(sandbox.kill())
    kit.wait(manager.delete_snapshot(first.id))
    with pytest.raises(SandboxApiException) as e:
        kit.wait(manager.get_snapshot(first.id))
    assert (e.value.status_code, e.value.error.code) == (404, "SNAPSHOT::NOT_FOUND")
