# SPDX-License-Identifier: Apache-2.0
"""The published Python client, unchanged: volumes."""
import pathlib
import shutil
import tempfile
import uuid

import pytest

from conftest import KEY, Server

pytest.importorskip("opensandbox", reason="needs the packages of tests/compat/requirements.txt")

from kit import kit  # noqa: E402, F401
from opensandbox.exceptions import SandboxApiException  # noqa: E402
from opensandbox.models.sandboxes import PVC, Host, Volume  # noqa: E402


@pytest.fixture(scope="module")
def shared():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-compat-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory, shared):
    s = Server(tmp_path_factory.mktemp("volumes"), env={"OPENSANDBOX_SERVER_API_KEY": KEY,
                                                         "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": f'["{shared}"]'})
    s.wait_ready()
    yield s
    s.stop()


def run(kit, sandbox, line):
    execution = kit.wait(sandbox.commands.run(line))
    return " ".join(m.text for m in execution.logs.stdout).strip(), execution.error


def test_a_folder_of_the_host(kit, shared):
    (shared / "marker").write_text("marker\n")
    sandbox = kit.create(volumes=[Volume(name="work", host=Host(path=str(shared)), mountPath="/mnt/shared"),
                                  Volume(name="ro", host=Host(path=str(shared)), mountPath="/mnt/ro", readOnly=True)])
    name = uuid.uuid4().hex
    assert run(kit, sandbox, "cat /mnt/ro/marker")[0] == "marker"
    assert run(kit, sandbox, f"echo inside >/mnt/shared/{name}")[1] is None
    assert (shared / name).read_text() == "inside\n"
    assert run(kit, sandbox, "touch /mnt/ro/x")[1] is not None


def test_a_named_volume(kit):
    claim = f"c{uuid.uuid4().hex}"
    first = kit.create(volumes=[Volume(name="data", pvc=PVC(claimName=claim), mountPath="/data")])
    assert run(kit, first, "mkdir -p /data/sub && echo kept >/data/sub/f")[1] is None
    second = kit.create(volumes=[Volume(name="data", pvc=PVC(claimName=claim), mountPath="/data", readOnly=True),
                                 Volume(name="sub", pvc=PVC(claimName=claim), mountPath="/sub", subPath="sub")])
    assert run(kit, second, "cat /data/sub/f /sub/f")[0].split() == ["kept", "kept"]
    assert run(kit, second, "touch /data/x")[1] is not None and run(kit, second, "touch /sub/x")[1] is None


def test_what_is_not_allowed_is_told(kit):
    with pytest.raises(SandboxApiException) as e:
        kit.create(volumes=[Volume(name="v", host=Host(path="/etc"), mountPath="/x")])
    assert (e.value.status_code, e.value.error.code) == (400, "VOLUME::HOST_PATH_NOT_ALLOWED")
