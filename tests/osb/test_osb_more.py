# SPDX-License-Identifier: Apache-2.0
"""What osb has beyond the published CLI: logs, top, images, snapshots, forks, pools, volumes, metadata, network, code."""
import json
import os
import signal
import struct
import tarfile
import time
import zlib

import pytest

import registry
from api import wait_for
from conftest import KEY, Server, assert_clean
from osb_kit import Osb, standing
from registry import Image, Registry, tar_of
from test_image_pull import entry

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

PEOPLE = ("-o", "table")


@pytest.fixture(scope="module")
def osb(server, tmp_path_factory):
    return Osb(tmp_path_factory.mktemp("osb"), server)


@pytest.fixture
def sandbox(osb):
    with standing(osb) as sandbox:
        yield sandbox


def inside(osb, sandbox, script):
    return osb.text("shell", sandbox, "--", "sh", "-c", script)


# ---- short forms ----


def test_ps_and_rm_are_list_and_kill(osb, sandbox):
    assert osb.json("ps") == osb.json("sandbox", "list")
    assert osb.json("rm", sandbox) == [{"sandbox_id": sandbox, "status": "terminated"}]
    assert osb.json("ps")["items"] == []
    assert b"osb sandbox list" in osb("rm", sandbox, status=1).stderr


# ---- logs ----


@pytest.fixture
def talker(osb):
    """A sandbox whose first program writes a line now and then."""
    sandbox = osb.text("run", "-d", "host", "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done").strip()
    yield sandbox
    osb("rm", sandbox, status=None)


def test_logs_are_shown_with_or_without_times(osb, talker):
    wait_for(lambda: b"line 3" in osb("logs", talker).stdout)
    lines = osb.text("logs", talker).splitlines()
    assert lines[:3] == ["line 1", "line 2", "line 3"]
    stamped = osb.text("logs", "-t", talker).splitlines()
    assert stamped[0].endswith("Z line 1") and stamped[0][:2] == "20"
    assert len(osb.text("logs", "-n", "2", talker).splitlines()) == 2


def test_logs_are_followed_without_loss_or_repetition_until_the_sandbox_ends(osb, talker):
    with osb.start("logs", "-f", talker) as running:
        time.sleep(3)
        osb("rm", talker)
        out, err = running.communicate(timeout=30)
    assert_clean(err.decode())
    lines = out.decode().splitlines()
    assert running.returncode == 0 and len(lines) > 8
    assert lines == [f"line {i}" for i in range(1, len(lines) + 1)]


def test_ctrl_c_ends_following(osb, talker):
    with osb.start("logs", "-f", talker) as running:
        assert running.stdout.read(7) == b"line 1\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0


# ---- top ----


def test_top_shows_all_sandboxes_once(osb, sandbox):
    inside(osb, sandbox, "true")
    (row,) = osb.json("top")
    assert row["id"] == sandbox and row["state"] == "Running" and row["image"] == "host"
    assert 0 < row["memory_used_bytes"] < row["memory_total_bytes"] and row["age_seconds"] < 60 and row["cpu_used_percentage"] >= 0
    lines = osb.text("top", "--once").splitlines()
    assert lines[0].startswith("1 sandbox, 1 running   cpu ") and lines[2].split() == ["ID", "STATE", "CPU", "MEMORY", "AGE", "IMAGE"]
    assert lines[3].startswith(sandbox) and lines[3].endswith("host")


def test_top_of_nothing_and_of_a_paused_one(osb, sandbox):
    osb("sandbox", "pause", sandbox)
    wait_for(lambda: osb.json("top")[0]["state"] == "Paused")
    assert osb.json("top")[0]["cpu_used_percentage"] is None
    osb("rm", sandbox)
    assert osb.json("top") == [] and osb.text("top").startswith("0 sandboxes, 0 running")


# ---- metadata, network ----


def test_metadata_is_set_removed_and_shown(osb, sandbox):
    assert b"No metadata" in osb("metadata", sandbox).stdout
    assert osb.json("metadata", sandbox, "a=1", "b=x.y") == {"a": "1", "b": "x.y"}
    assert osb.json("metadata", sandbox, "a-", "c=") == {"b": "x.y", "c": ""}
    assert osb.json("metadata", sandbox) == {"b": "x.y", "c": ""}
    for word in ("plain", "=x", "-"):
        assert b"neither KEY=VALUE nor KEY-" in osb("metadata", sandbox, word, status=2).stderr


def test_network_says_what_was_tried(osb, sandbox):
    activity = osb.json("network", sandbox)
    assert activity["sandbox_id"] == sandbox and activity["recent"] == [] and activity["network"] == "none"
    assert b"tried to reach nothing" in osb("network", sandbox).stdout


# ---- snapshots, forks ----


def test_snapshots_from_the_first_to_the_last(osb, sandbox):
    inside(osb, sandbox, "echo first > /root/f")
    taken = osb.json("snapshot", "create", sandbox, "--name", "one")
    assert taken["status"]["state"] == "Ready" and taken["name"] == "one"
    inside(osb, sandbox, "echo second > /root/f")
    assert [s["id"] for s in osb.json("snapshot", "ls", "--sandbox", sandbox)["items"]] == [taken["id"]]
    assert osb.json("snapshot", "get", taken["id"])["sandbox_id"] == sandbox
    assert osb.text("run", "--snapshot", taken["id"], "--", "cat", "/root/f") == "first\n"
    restored = osb.json("snapshot", "restore", taken["id"], "-t", "5m", "-e", "WHO=me")["id"]
    assert inside(osb, restored, "cat /root/f; echo $WHO") == "first\nme\n"
    osb("rollback", sandbox, taken["id"])
    assert inside(osb, sandbox, "cat /root/f") == "first\n"
    osb("rm", restored, sandbox)
    assert osb.json("snapshot", "rm", taken["id"]) == [{"snapshot_id": taken["id"], "status": "removed"}]
    assert osb.json("snapshot", "ls")["items"] == []
    assert osb("snapshot", "get", taken["id"], status=1).stdout == b""


def test_forks_begin_with_the_same_files(osb, sandbox):
    inside(osb, sandbox, "echo shared > /root/f")
    forks = [s["id"] for s in osb.json("fork", sandbox, "-n", "2", "-m", "try=x", "-t", "5m")["items"]]
    assert len(set(forks)) == 2 and sandbox not in forks
    for fork in forks:
        assert inside(osb, fork, "cat /root/f") == "shared\n"
        assert osb.json("metadata", fork) == {"try": "x"}
    osb("rm", *forks)


def test_the_tables_of_snapshots_are_for_people(osb, sandbox):
    page = osb.text("snapshot", "create", sandbox)
    assert "Snapshot taken" in page and "{" not in page
    table = osb.text("snapshot", "ls")
    assert "STATUS" in table and "Ready" in table
    osb("snapshot", "rm", osb.json("snapshot", "ls")["items"][0]["id"])
    assert b"No snapshots found" in osb("snapshot", "ls").stdout


# ---- pools, volumes ----


def test_pools_from_the_first_to_the_last(osb):
    made = osb.json("pool", "create", "warm", "-i", "host", "--min", "1", "--max", "2", "-e", "A=1")
    assert made["capacity_spec"] == {"buffer_min": 1, "buffer_max": 2, "pool_min": 0, "pool_max": 100}
    wait_for(lambda: osb.json("pool", "get", "warm")["status"]["available"] >= 1)
    assert osb.text("run", "--pool", "warm", "host", "--", "echo", "taken") == "taken\n"
    assert osb.json("pool", "resize", "warm", "--max", "1", "--pool-max", "7")["capacity_spec"] == {
        "buffer_min": 1, "buffer_max": 1, "pool_min": 0, "pool_max": 7}
    assert [p["name"] for p in osb.json("pool", "ls")["items"]] == ["warm"]
    assert "AVAILABLE" in osb.text("pool", "ls")
    assert b"says what changes" in osb("pool", "resize", "warm", status=2).stderr
    assert osb.json("pool", "resize", "warm", "--min", "0", "--max", "0")["capacity_spec"]["buffer_max"] == 0
    assert osb.json("pool", "rm", "warm") == [{"pool": "warm", "status": "removed"}]
    assert osb.json("pool", "ls") == {"items": []}


def test_a_pool_can_be_made_of_a_template(osb, tmp_path):
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"image": {"uri": "host"}, "entrypoint": ["sleep", "60"], "resourceLimits": {"memory": "128Mi"}}))
    assert osb.json("pool", "create", "tpl", "--template", template, "--min", "0", "--max", "0")["name"] == "tpl"
    osb("pool", "rm", "tpl")
    template.write_text("{nonsense")
    assert b"template.json" in osb("pool", "create", "tpl", "--template", template, status=2).stderr
    assert b"--image or --template" in osb("pool", "create", "tpl", status=2).stderr


def test_volumes_are_listed_and_removed(osb):
    assert b"No volumes found" in osb("volume", "ls").stdout
    osb("run", "-v", "more-a:/a", "-v", "more-b:/b", "host", "--", "true")
    wait_for(lambda: [(v["name"], v["sandboxes"]) for v in osb.json("volume", "ls")["items"]] == [("more-a", 0), ("more-b", 0)])
    assert "GiB" in osb.text("volume", "ls")
    done = osb("volume", "rm", "more-a", "no-such", "-o", "json", status=1)
    assert json.loads(done.stdout) == [{"volume": "more-a", "status": "removed"}] and b"no-such" in done.stderr
    osb("volume", "rm", "more-b")


# ---- code ----


def test_code_comes_from_words_a_file_or_standard_input(osb, sandbox, tmp_path):
    assert osb.text("code", "run", sandbox, "x = 6 * 7; print('hello'); x") == "hello\n42\n"
    assert osb.text("code", "run", sandbox, stdin=b"x + 1\n") == "43\n"  # the interpreter has stayed
    assert osb.text("code", "run", sandbox, "-", stdin=b"x + 2\n") == "44\n"
    assert osb.text("code", "run", sandbox, "--", "-", stdin=b"x + 3\n") == "45\n"
    assert osb.text("code", "run", sandbox, "-", "x") == "-42\n"
    program = tmp_path / "p.py"
    program.write_text("print(x)\nx + 2")
    assert osb.text("code", "run", sandbox, "--file", program) == "42\n44\n"
    assert osb.text("code", "run", sandbox, "-l", "bash", "echo $((1 + 2))") == "3\n"
    assert osb.json("code", "run", sandbox, "x")["result"][0]["text"] == "42"


@pytest.mark.parametrize("end", ["interrupt", "reader"])
def test_a_program_that_nobody_waits_for_goes_with_its_context(osb, sandbox, end):
    program = "import os, time\nprint(os.getpid(), flush=True)\nwhile True:\n    time.sleep(.1); print('.', flush=True)"
    p = osb.start("code", "run", "--new-context", sandbox, program)
    pid = int(p.stdout.readline())
    if end == "interrupt":
        p.send_signal(signal.SIGINT)
    else:
        p.stdout.close()
    assert p.wait(30) == 1
    assert (b"Aborted!" if end == "interrupt" else b"standard output") in p.stderr.read()
    wait_for(lambda: osb("command", "run", sandbox, "--", "test", "-d", f"/proc/{pid}", status=None).returncode == 1)


def test_a_program_that_fails_shows_why_and_the_status_says_so(osb, sandbox):
    done = osb("code", "run", sandbox, "print('before')\n1/0", status=1)
    assert done.stdout == b"before\n" and b"ZeroDivisionError: division by zero" in done.stderr
    assert b"is not defined" in osb("code", "run", "--new-context", sandbox, "x", status=1).stderr


def png(width, height):
    raw = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def test_pictures_are_saved_where_asked(osb, sandbox, tmp_path):
    picture = png(3, 2)
    program = f"""
class Picture:
    def __init__(self, data): self.data = data
    def _repr_png_(self): return self.data
    def __repr__(self): return 'a picture'
Picture({picture!r})
"""
    done = osb("code", "run", sandbox, "--save-dir", tmp_path / "pictures", stdin=program.encode())
    assert done.stdout == b"a picture\n" and b"saved result-1.png" in done.stderr
    assert [p.name for p in (tmp_path / "pictures").iterdir()] == ["result-1.png"]
    assert (tmp_path / "pictures/result-1.png").read_bytes() == picture


# ---- images ----


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    if not registry.is_installed():
        pytest.skip("docker-registry is not installed")
    r = Registry(tmp_path_factory.mktemp("hub") / "r", with_password=True)
    yield r
    r.stop()


@pytest.fixture(scope="module")
def puller(tmp_path_factory, hub):
    """osb with a server that may pull from the hub."""
    s = Server(tmp_path_factory.mktemp("puller"), entry(hub.host) + f'[server]\napi_key = "{KEY}"\n')
    s.wait_ready()
    yield Osb(tmp_path_factory.mktemp("osb"), s)
    s.stop()


LOGIN = ("-u", registry.USER, "--password-stdin")
PASSWORD = registry.PASSWORD.encode() + b"\n"


def test_images_are_pulled_listed_saved_loaded_and_removed(puller, hub, tmp_path):
    name = f"{hub.host}/osb/one:1"
    hub.push("osb/one", "1", Image([tar_of({"a": os.urandom(100_000)})]))
    assert puller.json("image", "pull", *LOGIN, name, stdin=PASSWORD) == {"status": "ok", "message": f"Pulled: {name}"}
    (image,) = puller.json("image", "ls")["items"]
    assert image["uri"] == name and image["digest"].startswith("sha256:") and "pulled_at" in image
    assert "KiB" in puller.text("image", "ls", **{"COLUMNS": "200"})
    puller("image", "save", *LOGIN, name, tmp_path / "image.tar", stdin=PASSWORD)
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert {"oci-layout", "index.json"} <= set(tar.getnames())
    assert puller.json("image", "rm", name) == [{"image": name, "status": "removed"}]
    assert puller.json("image", "ls") == {"items": []}
    (loaded,) = puller.json("image", "load", tmp_path / "image.tar")["items"]
    assert loaded["digest"] == image["digest"]
    puller("image", "rm", loaded["uri"])
    (loaded,) = puller.json("image", "load", "--name", "local/again:2", "-", stdin=(tmp_path / "image.tar").read_bytes())["items"]
    assert loaded["uri"].endswith("local/again:2")
    puller("image", "rm", loaded["uri"])


def test_an_image_that_cannot_be_had_leaves_no_file(puller, hub, tmp_path):
    done = puller("image", "save", f"{hub.host}/osb/none:1", tmp_path / "x.tar", status=1)
    assert done.stderr and list(tmp_path.iterdir()) == []
    assert b"go together" in puller("image", "pull", "-u", "x", "y", status=2).stderr
    assert puller("image", "pull", f"{hub.host}/osb/none:1", status=1).stdout == b""
    assert puller("image", "load", tmp_path / "none.tar", status=1).stdout == b""


def test_snapshots_of_images_travel_as_archives(puller, hub, tmp_path):
    name = f"{hub.host}/osb/box:1"
    hub.push("osb/box", "1", Image([tar_of({"etc": None, "etc/empty": b""})]))
    puller("image", "pull", *LOGIN, name, stdin=PASSWORD)
    sandbox = puller.json("sandbox", "create", "-i", name, "--image-auth-username", registry.USER, "--image-auth-password", registry.PASSWORD)["id"]
    puller("cp", "-", f"{sandbox}:/kept", stdin=b"kept")
    snapshot = puller.json("snapshot", "create", sandbox)["id"]
    puller("snapshot", "export", snapshot, tmp_path / "s.tar")
    imported = puller.json("snapshot", "import", tmp_path / "s.tar", "--name", "travelled")
    assert imported["name"] == "travelled"
    copy = puller.json("snapshot", "restore", imported["id"])["id"]
    assert puller("cp", f"{copy}:/kept", "-").stdout == b"kept"
    puller("rm", sandbox, copy)
    puller("snapshot", "rm", snapshot, imported["id"])
