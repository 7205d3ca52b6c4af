# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unchanged: the lives of sandboxes."""
import asyncio
import datetime
import uuid

import pytest

from conftest import KEY

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from kit import kit, utc_now  # noqa: E402, F401
from opensandbox import Sandbox  # noqa: E402
from opensandbox.config import ConnectionConfig  # noqa: E402
from opensandbox.exceptions import SandboxApiException, SandboxException, SandboxReadyTimeoutException  # noqa: E402
from opensandbox.models.execd import RunCommandOpts  # noqa: E402
from opensandbox.models.sandboxes import PlatformSpec, SandboxFilter, SandboxImageSpec  # noqa: E402

NO_ID = "00000000-0000-4000-8000-000000000000"
MINUTE = datetime.timedelta(minutes=1)
STAY = ["tail", "-f", "/dev/null"]


# ---- lifecycle ----


def test_create_info_and_kill(kit):
    metadata = {"team": "infra", "run": uuid.uuid4().hex}
    sb = kit.create(timeout=5 * MINUTE, metadata=metadata, platform=PlatformSpec(os="linux", arch="amd64"))
    info = kit.wait(sb.get_info())
    assert info.id == sb.id and info.status.state == "Running"
    assert info.expires_at - info.created_at == 5 * MINUTE
    assert abs(info.created_at - utc_now()) < MINUTE
    assert info.entrypoint == STAY and info.metadata == metadata
    assert info.image.image == "host" and (info.platform.os, info.platform.arch) == ("linux", "amd64")
    assert info.status.last_transition_at is not None and info.snapshot_id is None
    assert kit.wait(sb.is_healthy())
    kit.wait(sb.kill())
    assert not kit.wait(sb.is_healthy())
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.get_info())
    assert e.value.status_code == 404


def test_the_defaults_of_the_client(kit):
    info = kit.wait(kit.create().get_info())
    assert info.expires_at - info.created_at == 10 * MINUTE
    assert info.metadata in (None, {}) and info.platform is None


def test_manual_cleanup_has_no_expiry(kit):
    sb = kit.create(timeout=None)
    assert kit.wait(sb.get_info()).expires_at is None
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.renew(MINUTE))
    assert (e.value.status_code, e.value.error.code) == (409, "NATIVE::INVALID_EXPIRATION")


def test_renew(kit):
    sb = kit.create(timeout=2 * MINUTE)
    before = kit.wait(sb.get_info()).expires_at
    reply = kit.wait(sb.renew(20 * MINUTE))
    assert reply.expires_at > before and abs(reply.expires_at - utc_now() - 20 * MINUTE) < MINUTE
    assert kit.wait(sb.get_info()).expires_at == reply.expires_at


def test_patch_metadata(kit):
    sb = kit.create(metadata={"a": "1", "b": "2"})
    info = kit.wait(sb.patch_metadata({"a": None, "b": "x", "c": "3"}))
    assert info.metadata == {"b": "x", "c": "3"}
    assert kit.wait(sb.get_info()).metadata == info.metadata
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.patch_metadata({"not a label": "x"}))
    assert (e.value.status_code, e.value.error.code) == (400, "SANDBOX::INVALID_METADATA_LABEL")


def test_connect_is_the_same_sandbox(kit):
    sb = kit.create()
    kit.wait(sb.commands.run("echo kept >/tmp/file"))
    other = kit.keep(kit.Sandbox.connect(sb.id, connection_config=kit.config()))
    assert other.id == sb.id and kit.wait(other.is_healthy())
    assert kit.wait(other.commands.run("cat /tmp/file")).text == "kept"


def test_pause_and_resume(kit):
    sb = kit.create()
    kit.wait(sb.commands.run("echo kept >/tmp/file"))
    kit.wait(sb.pause())
    assert kit.wait(sb.get_info()).status.state == "Paused"
    assert not kit.wait(sb.is_healthy())
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.pause())
    assert e.value.status_code == 409
    again = kit.keep(kit.Sandbox.resume(sb.id, connection_config=kit.config()))
    assert kit.wait(again.get_info()).status.state == "Running"
    assert kit.wait(again.commands.run("cat /tmp/file")).text == "kept"
    with pytest.raises(SandboxApiException) as e:
        kit.wait(kit.Sandbox.resume(sb.id, connection_config=kit.config()))
    assert e.value.status_code == 409


def test_endpoints(kit):
    sb = kit.create()
    for port in (44772, 18080, 8080):
        endpoint = kit.wait(sb.get_endpoint(port))
        assert endpoint.endpoint.endswith(f"/sandboxes/{sb.id}/proxy/{port}") and "://" not in endpoint.endpoint
        assert endpoint.endpoint.startswith(f"{kit.server.host}:{kit.server.port + (not kit.by_server)}/")
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.get_signed_endpoint(8080, 4102444800))
    assert e.value.status_code == 400


def test_diagnostics_with_a_scope(kit):
    sb = kit.create(entrypoint=["/bin/sh", "-c", "echo hello-log; exec sleep 1000"])
    deadline = utc_now() + MINUTE
    while "hello-log" not in (logs := kit.wait(sb.get_diagnostic_logs("container"))).content and utc_now() < deadline:
        pass
    assert "hello-log" in logs.content and logs.delivery == "inline" and not logs.truncated
    assert "Started" in kit.wait(sb.get_diagnostic_events("lifecycle")).content
    with pytest.raises(SandboxApiException) as e:
        kit.wait(sb.get_diagnostic_logs("process"))
    assert e.value.status_code == 501


# ---- commands ----


def test_commands(kit):
    sb = kit.create(env={"GREETING": "hello"})
    run = lambda *a, **k: kit.wait(sb.commands.run(*a, **k))  # noqa: E731
    done = run("echo $GREETING; echo; echo oops >&2")
    assert [m.text for m in done.logs.stdout] == ["hello", "\n"] and [m.text for m in done.logs.stderr] == ["oops"]
    assert done.id and done.exit_code == 0 and done.error is None and done.complete is not None
    failed = run("exit 7")
    assert (failed.exit_code, failed.error.name, failed.error.value) == (7, "CommandExecError", "7") and failed.complete is None
    assert run("no-such-program").exit_code == 127
    opts = RunCommandOpts(working_directory="/tmp", envs={"GREETING": "bye"})
    assert run("pwd; echo $GREETING", opts=opts).text == "/tmp\nbye"
    assert run("seq 1 5000").text.split() == [str(i) for i in range(1, 5001)]


def test_a_command_that_takes_too_long(kit):
    sb = kit.create()
    opts = RunCommandOpts(timeout=datetime.timedelta(seconds=1))
    began = utc_now()
    done = kit.wait(sb.commands.run("sleep 100", opts=opts))
    assert done.error is not None and utc_now() - began < MINUTE / 2


# ---- the manager ----


def test_the_manager_lists_by_state_and_metadata(kit):
    run = uuid.uuid4().hex
    boxes = [kit.create(metadata={"run": run, "n": str(i), "parity": str(i % 2)}) for i in range(4)]
    kit.wait(boxes[3].pause())
    m = kit.manager()

    def found(**filters):
        filters["metadata"] = {"run": run, **filters.get("metadata", {})}
        return kit.wait(m.list_sandbox_infos(SandboxFilter(**filters)))

    ids = lambda page: [s.id for s in page.sandbox_infos]  # noqa: E731
    assert ids(found()) == [b.id for b in boxes[::-1]]
    assert ids(found(metadata={"parity": "1"})) == [boxes[3].id, boxes[1].id]
    assert ids(found(states=["Paused"])) == [boxes[3].id]
    assert len(ids(found(states=["Running", "Allocated"]))) == 3
    assert len(ids(found(states=["Running", "Paused", "Allocated"]))) == 4
    assert ids(found(states=["Running"], metadata={"parity": "1"})) == [boxes[1].id]
    page = found(page=2, page_size=3)
    assert ids(page) == [boxes[0].id]
    p = page.pagination
    assert (p.page, p.page_size, p.total_items, p.total_pages, p.has_next_page) == (2, 3, 4, 2, False)
    with pytest.raises(SandboxException) as e:
        found(page=0)
    assert getattr(e.value, "status_code", 422) == 422


def test_the_manager_does_everything_by_id(kit):
    sb = kit.create(timeout=2 * MINUTE)
    m = kit.manager()
    assert kit.wait(m.get_sandbox_info(sb.id)).id == sb.id
    kit.wait(m.pause_sandbox(sb.id))
    assert kit.wait(m.get_sandbox_info(sb.id)).status.state == "Paused"
    kit.wait(m.resume_sandbox(sb.id))
    assert kit.wait(m.get_sandbox_info(sb.id)).status.state == "Running"
    assert kit.wait(m.renew_sandbox(sb.id, 9 * MINUTE)).expires_at > utc_now() + 8 * MINUTE
    assert kit.wait(m.patch_sandbox_metadata(sb.id, {"a": "b"})).metadata == {"a": "b"}
    kit.wait(m.kill_sandbox(sb.id))
    with pytest.raises(SandboxApiException) as e:
        kit.wait(m.kill_sandbox(sb.id))
    assert e.value.status_code == 404


# ---- errors ----


def test_a_missing_sandbox_raises_404_with_the_request_id(kit):
    m = kit.manager(headers={"X-Request-ID": "my-request-1"})
    for call in (
        lambda: m.get_sandbox_info(NO_ID), lambda: m.kill_sandbox(NO_ID), lambda: m.pause_sandbox(NO_ID),
        lambda: m.resume_sandbox(NO_ID), lambda: m.renew_sandbox(NO_ID, MINUTE), lambda: m.patch_sandbox_metadata(NO_ID, {"a": "b"}),
    ):  # fmt: skip
        with pytest.raises(SandboxApiException) as e:
            kit.wait(call())
        assert (e.value.status_code, e.value.request_id) == (404, "my-request-1")
        assert e.value.error.code == "NATIVE::SANDBOX_NOT_FOUND" and NO_ID in str(e.value)
    with pytest.raises(SandboxApiException) as e:
        kit.wait(kit.Sandbox.connect(NO_ID, connection_config=kit.config()))
    assert e.value.status_code == 404 and e.value.request_id


def test_a_wrong_key_raises_401(kit):
    for key, code in (("0" * 32, "INVALID_API_KEY"), ("", "MISSING_API_KEY")):
        m = kit.manager(api_key=key)
        with pytest.raises(SandboxApiException) as e:
            kit.wait(m.get_sandbox_info(NO_ID))
        assert (e.value.status_code, e.value.error.code) == (401, code)


@pytest.mark.parametrize(
    "more, status, code, word",
    [
        ({"entrypoint": ["/nowhere"]}, 500, "NATIVE::SANDBOX_START_FAILED", "/nowhere"),
        ({"resource": {"memory": "nonsense"}}, 400, "SANDBOX::INVALID_PARAMETER", "resourceLimits.memory"),
        ({"image": SandboxImageSpec(image="no such image")}, 400, "SANDBOX::INVALID_PARAMETER", "image.uri"),
    ],
)
def test_a_create_that_is_refused_says_why(kit, api, more, status, code, word):
    with pytest.raises(SandboxApiException) as e:
        kit.create(**more)
    assert (e.value.status_code, e.value.error.code) == (status, code) and word in str(e.value)
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == 0


def test_a_create_that_never_becomes_ready_leaves_nothing(kit, api):
    async def never(_):
        return False

    check = never if kit.loop else lambda _: False
    with pytest.raises(SandboxReadyTimeoutException):
        kit.create(health_check=check, ready_timeout=datetime.timedelta(seconds=1))
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == 0


# ---- many ----


def test_parallel_creates_and_commands(api):
    async def one(config, i):
        sb = await Sandbox.create("host", connection_config=config)
        text = (await sb.commands.run(f"echo {i}")).text
        await sb.kill()
        await sb.close()
        return text

    async def run():
        config = ConnectionConfig(domain=f"{api.server.host}:{api.server.port}", api_key=KEY)
        return await asyncio.gather(*(one(config, i) for i in range(16)))

    assert asyncio.run(run()) == [str(i) for i in range(16)]
