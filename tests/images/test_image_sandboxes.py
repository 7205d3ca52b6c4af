# SPDX-License-Identifier: Apache-2.0
"""Sandboxes from images of a registry: the whole way, from a name to programs that run as their image says."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

import oci
import registry
from api import BODY, STAY, Api, seen, wait_for
from conftest import KEY, Server
from oci import folder, member, symlink
from registry import Image, guarded, plain  # noqa: F401
from test_image_pull import entry
from test_images import BUSYBOX, busybox_members

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
    pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
]

PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:1234:100::/home/app:/bin/sh\n"
GROUP = b"root:x:0:\nusers:x:100:\nstaff:x:50:app\n"


def tar(members, base=False):
    return oci.layer(members, "plain", busybox_members() if base else ()).tar


BASE = tar([folder("etc/"), member("etc/passwd", data=PASSWD), member("etc/group", data=GROUP), folder("tmp/", mode=0o1777),
            folder("home/"), folder("home/app/", uid=1234, gid=100)], base=True)


class Gate:
    """A TCP relay in front of a registry that lets nothing through from the SHUT-th connection on, until it is opened."""

    def __init__(self, port):
        self.to, self.is_open, self.seen = port, threading.Event(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.seen += 1
                far = socket.create_connection(("127.0.0.1", self.to))
                self.sockets += [near, far]
                threading.Thread(target=self.relay, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self.relay, args=(far, near, True), daemon=True).start()

    def relay(self, source, target, is_gated):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_gated:
                    while not self.is_open.is_set():
                        time.sleep(0.2)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self):
        self.is_open.set()
        for s in (self.listener, *self.sockets):
            with contextlib.suppress(OSError):
                s.close()


@pytest.fixture(scope="module")
def gate(plain):
    g = Gate(plain.port)
    yield g
    g.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory, plain, guarded, gate):
    config = entry(plain.host) + entry(guarded.host) + entry(gate.host)
    s = Server(tmp_path_factory.mktemp("server"), config, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


@pytest.fixture
def api(made, spec):
    api = Api(made, spec, "/v1")
    yield api
    for row in api.get("/sandboxes").json["items"]:
        api.delete(row["id"])


def create(api, uri, **more):
    return api.create(image={"uri": uri, **more.pop("image", {})}, **more)


def try_create(api, uri, **more):
    return api.try_create(image={"uri": uri, **more.pop("image", {})}, **more)


def layers(server):
    def look():
        path = pathlib.Path(f"/proc/{server.warden_pid}/root{server.home.state}/store/layers")
        return sorted(p.name for p in path.iterdir() if not p.name.startswith(("host-", "new-host")))
    return seen(look)


def blob_names(image):
    return {"blob-" + d.removeprefix("sha256:") for d in image.layers}


# ---- what runs --------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_an_image_becomes_a_sandbox(api, plain):
    lower = tar([folder("d/"), member("d/gone", data=b"1"), member("d/stays", data=b"2")])
    upper = tar([folder("d/"), member("d/.wh.gone"), member("d/new", data=b"3")])
    image = Image([BASE, lower, upper], compress="zstd")
    uri = plain.push("whole/way", "v1", image)
    sandbox = create(api, uri)
    assert sandbox["status"]["state"] == "Running"
    assert api.read(sandbox["id"])["image"] == {"uri": uri}
    assert api.run(sandbox["id"], "ls /d; cat /etc/passwd | head -1; echo x >/d/more && cat /d/more") == [
        "new", "stays", "root:x:0:0::/root:/bin/sh", "x"]
    assert blob_names(image) <= set(layers(api.server))
    again = create(api, uri)
    assert api.run(again["id"], "ls /d") == ["new", "stays"], "nothing of the first one"


def test_the_image_says_how_programs_run(api, plain):
    config = {"Env": ["FROM_IMAGE=image", "BOTH=image", "PATH=/bin", "EMPTY=", "TWICE=1", "TWICE=2"], "WorkingDir": "/made/for/it",
              "User": "app", "Entrypoint": ["/bin/nothing"], "Cmd": ["of this"]}
    uri = plain.push("config/all", "v1", Image([BASE], config))
    sandbox = create(api, uri, env={"BOTH": "request", "MORE": "m"}, entrypoint=["/bin/sh", "-c", "id; pwd; echo $BOTH; exec busybox sleep 1000"])
    assert api.run(sandbox["id"], "id -u; id -g; id -G; pwd; echo $FROM_IMAGE $BOTH $MORE $TWICE [$EMPTY] $HOME") == [
        "1234", "100", "100 50", "/made/for/it", "image request m 2 [] /home/app"]
    logs = wait_for(lambda: (t := api.get(f"/sandboxes/{sandbox['id']}/diagnostics/logs").body.decode()).count("request") and t)
    assert "uid=1234(app) gid=100(users)" in logs and "/made/for/it" in logs, logs
    assert api.run(sandbox["id"], "id -u", uid=0) == ["0"], "a command may say otherwise"


@pytest.mark.parametrize("user, want", [("1234", "1234 100 100 50"), ("1234:50", "1234 50 50"), ("app:staff", "1234 50 50"),
                                        ("4321", "4321 4321 4321"), ("", "0 0 0"), ("0:0", "0 0 0")])
def test_users_of_images(api, plain, user, want):
    uri = plain.push(f"users/u{user.replace(':', '-') or 'none'}", "v1", Image([BASE], {"User": user, "Env": ["PATH=/bin"]}))
    assert api.run(create(api, uri)["id"], "echo $(id -u) $(id -g) $(id -G)") == [want]


@pytest.mark.parametrize("config, words", [
    ({"User": "nobody-knows"}, ["USER", "'nobody-knows' is unknown"]),
    ({"User": "a b"}, ["USER", "'a b'"]),
    ({"User": ":0"}, ["USER", "':0'"]),
    ({"WorkingDir": "/etc/passwd/below"}, ["WORKDIR", "'/etc/passwd/below'", "Not a directory"]),
    ({"WorkingDir": "/etc/passwd"}, ["WORKDIR", "'/etc/passwd'", "Not a directory"]),
    ({"WorkingDir": "/dangling"}, ["WORKDIR", "'/dangling'", "No such file or directory"]),
    ({"WorkingDir": "/dangling/below"}, ["WORKDIR", "'/dangling'"]),
    ({"WorkingDir": "/loop"}, ["WORKDIR", "'/loop'"]),
    ({"WorkingDir": "/proc/nowhere"}, ["WORKDIR", "'/proc/nowhere'"]),
    ({"WorkingDir": "relative/way"}, ["WORKDIR", "'relative/way' of the image is no absolute path"]),
    ({"WorkingDir": "/line\nend"}, ["WORKDIR", "'/line\\nend' of the image is no absolute path"]),
    ({"WorkingDir": "/" + "x" * 256}, ["WORKDIR", "longer than 255"]),
    ({"WorkingDir": "/x" * 3000}, ["WORKDIR", "longer than"]),
])  # fmt: skip
def test_a_user_or_workdir_that_cannot_be_had_is_the_images_fault_I6(api, plain, config, words):
    links = tar([symlink("dangling", "nowhere/at/all"), symlink("loop", "loop")])
    image = Image([BASE, links], config)
    uri = plain.push(f"odd/{registry.digest_of(image.config)[-12:]}", "v1", image)
    api.refused(try_create(api, uri), 400, "NATIVE::SANDBOX_START_FAILED", *words)
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == 0
    boxes = pathlib.Path(f"/proc/{api.server.warden_pid}/root{api.server.home.state}/boxes")
    wait_for(lambda: len(list(boxes.iterdir())) <= 1, what="nothing but the slot for the next one")


def test_a_missing_workdir_is_made_I6(api, plain):
    image = Image([BASE, tar([folder("there/"), symlink("way", "there")])], {"WorkingDir": "/way/new/./x/..", "User": "app", "Env": ["PATH=/bin"]})
    sandbox = create(api, plain.push("made/workdir", "v1", image))["id"]
    assert api.run(sandbox, "pwd; stat -c '%u %g %a' .") == ["/there/new", "0 0 755"]


def test_execd_needs_nothing_of_an_image(api, plain):
    uri = plain.push("nothing/at-all", "v1", Image([tar([folder("./"), member("README", data=b"x")])]))
    sandbox = create(api, uri, entrypoint=STAY)
    assert api.state(sandbox["id"]) == "Running"


# ---- pulling ------------------------------------------------------------------------------------------------------


def test_many_creates_of_one_image_are_one_pull(api, plain):
    image = Image([BASE, tar([member("many", data=os.urandom(1 << 20))])])
    uri = plain.push("many/creates", "v1", image)
    before = api.server.stderr.count("layer unpacked")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: create(api, uri)["id"], range(8)))
    assert len(set(found)) == 8 and all(api.run(one, "ls /many") == ["/many"] for one in found)
    assert api.server.stderr.count("layer unpacked") - before <= 2
    events = [line for one in found for line in api.events(one).splitlines() if "Pulling" in line]
    assert events and all("The image is being pulled" in line for line in events)


def test_what_is_there_is_not_pulled_again(api, tmp_path_factory, plain):
    image = Image([BASE, tar([member("once", data=os.urandom(1000))])])
    uri = plain.push("pulled/once", "v1", image)
    create(api, uri)
    os.kill(plain.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        sandbox = create(api, uri)
        assert time.monotonic() - began < 3
        assert "Pulling" not in api.events(sandbox["id"])
    finally:
        os.kill(plain.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("uri", ["{plain}/no/such:v1", "{plain}/whole/way:none"])
def test_an_image_that_is_not_there(api, plain, uri):
    uri = uri.format(plain=plain.host)
    api.refused(try_create(api, uri), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", uri, "no such image")
    assert api.get("/sandboxes").json["pagination"]["totalItems"] == 0


@pytest.mark.parametrize("uri", ["UPPER/case", "a b", "x" * 300, "http://host/x", "name@sha256:abc", "/etc"])
def test_names_that_are_none_are_told_at_once(api, uri):
    api.refused(try_create(api, uri), 400, "SANDBOX::INVALID_PARAMETER", "image.uri")


def test_credentials_are_for_the_registry_alone(api, guarded):
    uri = guarded.push("private/image", "v1", Image([BASE, tar([member("secret", data=os.urandom(100))])]))
    good, bad = {"username": registry.USER, "password": registry.PASSWORD}, {"username": registry.USER, "password": "wrong"}
    for auth in (None, bad):
        api.refused(try_create(api, uri, image={"auth": auth} if auth else {}), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", uri)
    sandbox = create(api, uri, image={"auth": good})
    assert api.run(sandbox["id"], "ls /secret") == ["/secret"]
    api.refused(try_create(api, uri), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED")  # I5: also when it is there
    assert "auth" not in api.read(sandbox["id"])["image"]
    found = subprocess.run(["grep", "-rlF", registry.PASSWORD, api.server.home.state / "server"], capture_output=True, text=True).stdout
    assert not found and registry.PASSWORD not in api.server.stderr


def test_hostile_layers_fail_their_create_and_leave_nothing(api, plain):
    uri = plain.push("hostile/layer", "v1", Image([BASE, tar([member("../x")])]))
    api.refused(try_create(api, uri), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", "a name with '..'")
    lying = Image([BASE, tar([member("f", data=b"x")])])
    config = json.loads(lying.config)
    config["rootfs"]["diff_ids"][1] = "sha256:" + "0" * 64
    old = registry.digest_of(lying.config)
    lying.config = json.dumps(config).encode()
    lying.add(lying.config)
    manifest = json.loads(lying.manifest)
    manifest["config"].update(digest=registry.digest_of(lying.config), size=len(lying.config))
    lying.manifest = json.dumps(manifest).encode()
    assert old != registry.digest_of(lying.config)
    uri = plain.push("hostile/diff-id", "v1", lying)
    api.refused(try_create(api, uri), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED", "another digest")
    wait_for(lambda: not [n for n in layers(api.server) if n.startswith(("new-", "gone-"))])


def test_platforms(api, plain):
    other = Image([tar([member("arm", data=b"x")])], arch="arm64")
    mine = Image([BASE, tar([member("amd", data=b"x")])])
    uri = plain.push("two/platforms", "v1", other, mine)
    sandbox = create(api, uri, platform={"os": "linux", "arch": "amd64"})
    assert api.run(sandbox["id"], "ls /amd") == ["/amd"]
    api.refused(try_create(api, plain.push("one/platform", "v1", other)), 500, "NATIVE::SANDBOX_IMAGE_PULL_FAILED")


# ---- long pulls ---------------------------------------------------------------------------------------------------


def claim(name):
    return [{"name": "v", "mountPath": "/data", "pvc": {"claimName": name}}]


def volumes(api):
    return [(v["name"], v["state"], v["sandboxes"]) for v in api.get("/volumes").json["items"]]


def test_volumes_come_along(api, plain):
    uri = plain.push("with/volume", "v1", Image([BASE]))
    sandbox = create(api, uri, volumes=claim("kept"))
    assert api.run(sandbox["id"], "echo x >/data/f && cat /data/f") == ["x"]
    assert api.delete(sandbox["id"]).status == 204
    assert try_create(api, plain.push("with/volume", "bad", Image([BASE, tar([member("../x")])])), volumes=claim("gone")).status == 500
    wait_for(lambda: volumes(api) == [("kept", "Ready", 0)])
    again = create(api, uri, volumes=claim("kept"))
    assert api.run(again["id"], "cat /data/f") == ["x"]
    assert api.delete(again["id"]).status == 204 and api.call("DELETE", "/volumes/kept").status == 204


def pending(api, gate, name, image, plain, **more):
    gate.is_open.clear()
    plain.push(name, "v1", image)
    began = time.monotonic()
    sandbox = create(api, f"{gate.host}/{name}:v1", timeout=600, **more)
    assert 15 < time.monotonic() - began < 28 and sandbox["status"]["state"] == "Pending", sandbox
    assert sandbox["status"]["reason"] == "IMAGE_PULLING"
    return sandbox


def test_a_long_pull_is_pending_and_then_runs(api, gate, plain):
    sandbox = pending(api, gate, "slow/one", Image([BASE, tar([member("slow", data=os.urandom(1000))])]), plain)
    assert api.state(sandbox["id"]) == "Pending" and api.endpoint(sandbox["id"], 44772)["endpoint"]
    gate.is_open.set()
    api.wait_state(sandbox["id"], "Running")
    assert api.run(sandbox["id"], "ls /slow") == ["/slow"]
    assert "Pulling" in api.events(sandbox["id"])


def test_a_long_pull_that_fails_is_failed(api, gate, plain):
    sandbox = pending(api, gate, "slow/bad", Image([BASE, tar([member("../x")])]), plain, volumes=claim("told"))
    assert volumes(api) == [("told", "Ready", 1)]
    gate.is_open.set()
    status = api.wait_state(sandbox["id"], "Failed")
    assert status["reason"] == "IMAGE_PULL_FAILED" and "a name with '..'" in status["message"]
    assert api.call("DELETE", "/volumes/told").status == 409
    assert api.delete(sandbox["id"]).status == 204
    assert volumes(api) == [("told", "Ready", 0)] and api.call("DELETE", "/volumes/told").status == 204


def test_a_delete_cancels_a_pull_and_a_restart_does_not_forget(api, gate, plain, spec):
    gate.is_open.clear()
    image = Image([BASE, tar([member("never", data=os.urandom(1000))])])
    uris = []
    for name in ("slow/deleted", "slow/restarted"):
        plain.push(name, "v1", image)
        uris.append(f"{gate.host}/{name}:v1")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda uri: create(api, uri, timeout=600), uris)
    assert first["status"]["state"] == second["status"]["state"] == "Pending"
    assert api.delete(first["id"]).status == 204
    assert api.get(f"/sandboxes/{first['id']}").status == 404
    os.kill(api.server.pid, signal.SIGKILL)
    api.server.wait_ready()
    status = wait_for(lambda: api.read(second["id"])["status"])
    assert (status["state"], status["reason"]) == ("Failed", "PROVISIONING_INTERRUPTED")
    gate.is_open.set()
    assert api.delete(second["id"]).status == 204


# ---- snapshots of them --------------------------------------------------------------------------------------------------


def test_snapshots_and_forks_stand_on_the_image(api, guarded):
    config = {"Env": ["FROM=image", "PATH=/bin"], "User": "app", "WorkingDir": "/work"}
    uri = guarded.push("private/snapped", "v1", Image([BASE, tar([member("lower", data=b"low"), member("gone", data=b"x")])], config))
    auth = {"auth": {"username": registry.USER, "password": registry.PASSWORD}}
    sandbox = create(api, uri, image=auth)["id"]
    assert api.run(sandbox, "rm /gone; echo up >/upper", uid=0) == []
    snapshot = api.post(f"/sandboxes/{sandbox}/snapshots", {}).json["id"]
    wait_for(lambda: api.get(f"/snapshots/{snapshot}").json["status"]["state"] == "Ready")
    fork = api.post(f"/sandboxes/{sandbox}/fork", {"count": 1}).json
    assert api.delete(sandbox).status == 204
    restored = api.create(image=..., snapshotId=snapshot, entrypoint=...)["id"]
    for one in (restored, fork["items"][0]["id"] if "items" in fork else fork["sandboxes"][0]["id"]):
        assert api.run(one, "cat /lower /upper; ls /gone 2>/dev/null; id -u; pwd; echo $FROM") == ["lowup", "1234", "/work", "image"]
        assert api.delete(one).status == 204
    assert api.call("DELETE", f"/snapshots/{snapshot}").status == 204


# ---- what nobody needs -----------------------------------------------------------------------------------------------


def test_layers_go_with_their_last_image_and_sandbox(api, plain):
    shared, own = tar([member("shared", data=os.urandom(100))]), tar([member("own", data=os.urandom(100))])
    both, one = Image([BASE, shared, own]), Image([BASE, shared])
    uri, other = plain.push("gone/both", "v1", both), plain.push("gone/one", "v1", one)
    sandbox = create(api, uri)
    create(api, other)
    only = (blob_names(both) - blob_names(one)).pop()
    assert api.call("DELETE", f"/images?uri={uri}").status == 204
    time.sleep(12)
    assert only in layers(api.server), "a sandbox has it"
    assert api.run(sandbox["id"], "ls /own /shared") == ["/own", "/shared"]
    assert api.delete(sandbox["id"]).status == 204
    wait_for(lambda: only not in layers(api.server), 30)
    assert blob_names(one) <= set(layers(api.server))
    assert api.run(create(api, uri)["id"], "ls /own") == ["/own"], "and comes back when it is wanted"


def test_a_killed_warden_in_the_middle_of_unpacking(api, plain):
    image = Image([BASE, tar([member(f"d{i // 100}/f{i}", data=os.urandom(300)) for i in range(20000)])])
    uri = plain.push("killed/warden", "v1", image)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(api.server.request, "POST", "/v1/sandboxes", json.dumps({**BODY, "image": {"uri": uri}}), timeout=60)
        wait_for(lambda: [n for n in layers(api.server) if n.startswith("new-blob")])
        warden = api.server.warden_pid
        os.kill(warden, signal.SIGKILL)
        assert answer.result().status == 503
    wait_for(lambda: (found := api.server.children(True)) and found[0] != warden)
    api.server.wait_ready()
    time.sleep(0.5)
    wait_for(lambda: not [n for n in layers(api.server) if n.startswith(("new-", "gone-"))])
    sandbox = create(api, uri)
    assert api.run(sandbox["id"], "find / -xdev -path '/d*/f*' | busybox wc -l") == ["20000"]
