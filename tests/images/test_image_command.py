# SPDX-License-Identifier: Apache-2.0
"""opensandbox-server image: what an operator does with images on the command line."""
import json
import os
import pty
import subprocess
import tarfile

import pytest

import registry
from conftest import KEY, SERVER, Server, assert_clean, clean_environment
from registry import Image, Registry, tar_of
from test_image_archives import docker_archive, layout_of
from test_image_pull import entry

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("hub") / "r", with_password=True)
    yield r
    r.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory, hub):
    s = Server(tmp_path_factory.mktemp("server"), entry(hub.host) + f'[server]\napi_key = "{KEY}"\n')
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture
def image(server, tmp_path):
    """image("list", status=0) -> its output."""

    def run(*args, status=0, stdin=b"", err=None):
        env = clean_environment(tmp_path, OPENSANDBOX_SERVER_PORT=server.port)
        done = subprocess.run([SERVER, "--config", server.folder / f"config.{server.port}.toml", "image", *args], input=stdin,
                              env=env, capture_output=True, timeout=60, check=False)
        assert_clean(done.stderr.decode())
        assert done.returncode == status, done
        if err is not None:
            assert err in done.stderr.decode(), done
        return done.stdout.decode() if "-" not in args else done.stdout

    return run


LOGIN = ("--username", registry.USER, "--password-stdin")
PASSWORD = registry.PASSWORD.encode() + b"\n"


@pytest.mark.smoke
def test_pull_list_and_remove(image, hub):
    made = Image([tar_of({"a": os.urandom(1000)})])
    uri = hub.push("cli/one", "v1", made)
    image("pull", uri, status=1, err="gives no access without credentials")
    image("pull", *LOGIN, uri, status=1, stdin=b"wrong", err="credentials")
    assert image("pull", *LOGIN, uri, stdin=PASSWORD) == f"{uri}  {made.digest}\n"
    assert f"{uri}  {made.digest}\n" in image("list")
    assert uri in [i["uri"] for i in json.loads(image("list", "--json"))["items"]]
    assert image("remove", uri) == ""
    assert uri not in image("list")
    image("remove", uri, status=1, err=f"there is no image '{uri}' here")


def test_progress_is_shown_on_a_terminal(server, hub, tmp_path):
    uri = hub.push("cli/shown", "v1", Image([tar_of({"a": os.urandom(2_000_000)})]))
    ours, theirs = pty.openpty()
    with subprocess.Popen([SERVER, "--config", server.folder / f"config.{server.port}.toml", "image", "pull", *LOGIN, uri],
                          env=clean_environment(tmp_path, OPENSANDBOX_SERVER_PORT=server.port), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=theirs) as p:
        p.communicate(PASSWORD, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert p.returncode == 0 and "100 %  2.0 of 2.0 MB, layer 1 of 1" in shown


def test_layouts_go_in_and_out_as_tars_and_folders(image, tmp_path):
    made = Image([tar_of({"b": os.urandom(5000)}), tar_of({"c": b"c"})])
    (tmp_path / "in.tar").write_bytes(layout_of(("cli.test/x:v1", made)))
    assert image("load", tmp_path / "in.tar") == f"cli.test/x:v1  {made.digest}\n"
    assert image("save", "cli.test/x:v1", tmp_path / "out.tar") == ""
    assert image("save", "cli.test/x:v1", f"{tmp_path}/folder/") == ""
    with tarfile.open(tmp_path / "out.tar") as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    on_disk = {str(p.relative_to(tmp_path / "folder")): p.read_bytes() for p in (tmp_path / "folder").rglob("*") if p.is_file()}
    assert files == on_disk and len(files) == 7
    image("save", "cli.test/x:v1", f"{tmp_path}/folder", status=1, err="is not empty")
    image("remove", made.digest)
    assert image("load", "--name", "cli.test/y:v2", tmp_path / "folder") == f"cli.test/y:v2  {made.digest}\n"
    piped = image("save", "cli.test/y:v2", "-")
    assert image("load", "-", stdin=piped).decode() == f"cli.test/y:v2  {made.digest}\n"
    assert sorted(os.listdir(tmp_path)) == ["folder", "in.tar", "out.tar"]


def test_what_docker_saved_and_root_file_systems_are_taken(image, tmp_path):
    (tmp_path / "docker.tar").write_bytes(docker_archive([tar_of({"d": os.urandom(50)})], ["cli.test/docker:v1"]))
    assert image("load", tmp_path / "docker.tar").startswith("cli.test/docker:v1  sha256:")
    (tmp_path / "root.tar").write_bytes(tar_of({"bin": None, "bin/x": b"x"}))
    image("load", tmp_path / "root.tar", status=1, err="give it one")
    assert image("load", "--name", "cli.test/root", tmp_path / "root.tar").startswith("cli.test/root:latest  sha256:")


@pytest.mark.parametrize(
    "args, status, err",
    [
        (("pull",), 2, ""),
        (("push", "x"), 2, "unknown command"),
        (("pull", "Bad/Name"), 1, "small letters"),
        (("pull", "--platform", "amd64", "x"), 1, "--platform"),
        (("pull", "--platform", "linux/m68k", "x"), 1, "amd64 or arm64"),
        (("pull", "--username", "x", "y"), 1, "--password-stdin"),
        (("load", "/nonexistent"), 1, "No such file"),
        (("load", "/etc"), 1, "no OCI layout"),
        (("save", "x.test/none:v1", "/nonexistent/out.tar"), 1, "No such file"),
    ],
)
def test_what_is_wrong_is_said(image, args, status, err):
    image(*args, status=status, err=err)


def test_a_failed_save_leaves_no_file(image, tmp_path, hub):
    image("save", f"{hub.host}/no/such", tmp_path / "x.tar", status=1, err="credentials")
    assert os.listdir(tmp_path) == []


def test_a_server_that_does_not_run_is_said_so(run_server):
    done = run_server("image", "list", env={"OPENSANDBOX_SERVER_PORT": "1", "OPENSANDBOX_SERVER_API_KEY": KEY})
    assert done.returncode == 1 and "no server runs at 127.0.0.1:1" in done.stderr


def test_a_folder_may_have_blobs_by_sha512(image, tmp_path):
    """In and out, and in again: the same files."""
    uri, made = "example.test/by/sha512:v1", Image([tar_of({"a": os.urandom(70_000)}), tar_of({"b": b""})], kind="sha512")
    (tmp_path / "in.tar").write_bytes(layout_of((uri, made)))
    with tarfile.open(tmp_path / "in.tar") as tar:
        tar.extractall(tmp_path / "in")
    assert not (tmp_path / "in/blobs/sha256").exists()
    assert image("load", str(tmp_path / "in")) == f"{uri}  {made.digest}\n"
    image("save", uri, f"{tmp_path}/out/")
    image("save", uri, tmp_path / "out.tar")
    there = {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert there == {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    for path in (p for p in (tmp_path / "in/blobs").rglob("*") if p.is_file()):
        assert there[str(path.relative_to(tmp_path / "in"))] == path.read_bytes()
    image("remove", uri)
    assert image("load", f"{tmp_path}/out") == f"{uri}  {made.digest}\n"
