# SPDX-License-Identifier: Apache-2.0
"""Images of registries, pulled through the server: the real registry, and ones that lie."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

import registry
from api import wait_for
from conftest import Home, Server, KEY, children_of
from registry import Image, Registry, guarded, plain, tar_of  # noqa: F401

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not registry.is_installed(), reason="docker-registry is not installed"),
]


def entry(host, **more):
    values = {"insecure": True, "private": True, **more}
    return "[[images.registries]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in {"host": host, **values}.items())


def pull(server, uri, timeout=60, **more):
    """The events of a pull, the last one being how it ended."""
    answer = server.request("POST", "/v1/images/pull", body=json.dumps({"uri": uri, **more}), timeout=timeout,
                            headers={"Content-Type": "application/json"})
    assert answer.status == 200, answer
    return [json.loads(line.removeprefix("data: ")) for line in answer.body.decode().splitlines() if line.startswith("data: ")]


def pulled(server, uri, **more):
    last = pull(server, uri, **more)[-1]
    assert last["type"] == "done", last
    return last["image"]


def refused(server, uri, *words, code=None, **more):
    last = pull(server, uri, **more)[-1]
    assert last["type"] == "error", last
    for word in words:
        assert word in last["message"], last
    if code:
        assert last["code"] == code, last
    return last


def blobs(server):
    return sorted(os.listdir(server.home.state / "server/blobs"))


def names_of(image):
    return sorted("sha256-" + d.removeprefix("sha256:") for d in set(image.layers))


def fetchers(server):
    found = []
    for pid in children_of(server.process.pid):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("opensandbox-fet"):
                    found.append(pid)
        except OSError:
            pass
    return found


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secure") / "r"
    r = Registry(folder, with_tls=True)
    for p in [folder, *folder.parents]:
        if p.stat().st_uid == 0 and str(p).startswith("/tmp/"):
            p.chmod(0o755)
    yield r
    r.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory, plain, guarded, secure):
    config = entry(plain.host) + entry(guarded.host) + entry(secure.host, insecure=False, ca_file=str(secure.cert))
    s = Server(tmp_path_factory.mktemp("server"), config, env={"OPENSANDBOX_SERVER_API_KEY": KEY})
    s.wait_ready()
    yield s
    s.stop()


# ---- the real one ----


@pytest.mark.parametrize("compress, docker", [("gzip", False), ("zstd", False), ("", False), ("gzip", True)])
@pytest.mark.smoke
def test_an_image_comes_as_the_registry_has_it(server, plain, spec, compress, docker):
    layers = [tar_of({f"f{compress}{docker}{i}": os.urandom(100 + i)}) for i in range(5)]
    image = Image(layers, compress=compress, docker=docker)
    uri = plain.push(f"kinds/{compress or 'plain'}{docker}".lower(), "v1", image)
    events = pull(server, uri)
    shown = events[-1]["image"]
    assert shown["digest"] == image.digest and shown["uri"] == uri and shown["layers"] == image.layers
    assert shown["private"] is False and shown["platform"] == {"os": "linux", "arch": "amd64"}
    assert set(names_of(image)) <= set(blobs(server)) and not [b for b in blobs(server) if b.startswith("new-")]
    for name in names_of(image):
        data = (server.home.state / "server/blobs" / name).read_bytes()
        assert registry.digest_of(data) == name.replace("-", ":")
    answer = server.get("/v1/images")
    spec.check_answer("GET", "/images", answer)
    assert uri in [i["uri"] for i in answer.json["items"]]


def test_an_index_leads_to_the_platform(server, plain):
    mine, other = Image([tar_of({"mine": b"1"})]), Image([tar_of({"other": b"2"})], arch="arm64")
    uri = plain.push("index/two", "v1", other, mine)
    assert pulled(server, uri)["digest"] == mine.digest
    assert pulled(server, uri, platform={"os": "linux", "arch": "arm64"})["digest"] == other.digest
    assert len([i for i in server.get("/v1/images").json["items"] if i["uri"] == uri]) == 2
    lonely = plain.push("index/none", "v1", Image([tar_of({"x": b"3"})], arch="s390x"), other)
    refused(server, lonely, "there is none for linux/amd64", "linux/s390x", code="not-found")


def test_a_digest_is_that_very_image(server, plain):
    image = Image([tar_of({"a": b"by digest"})])
    plain.push("by/digest", "v1", image)
    plain.push("by/digest", "v1", Image([tar_of({"a": b"newer"})]))
    shown = pulled(server, f"{plain.host}/by/digest@{image.digest}")
    assert shown["digest"] == image.digest


def test_what_is_there_is_not_pulled_again_unless_asked(server, plain):
    first, second = Image([tar_of({"a": b"first"})]), Image([tar_of({"a": b"second"})])
    uri = plain.push("moving/tag", "v1", first)
    assert pulled(server, uri)["digest"] == first.digest
    plain.push("moving/tag", "v1", second)
    assert pulled(server, uri, refresh=False)["digest"] == first.digest
    assert pulled(server, uri)["digest"] == second.digest
    wait_for(lambda: names_of(first)[0] not in blobs(server))  # nothing needs it any more
    assert names_of(second)[0] in blobs(server)


def test_removing_gives_the_space_back(server, plain, spec):
    shared = tar_of({"shared": os.urandom(1000)})
    one, two = Image([shared, tar_of({"one": b"1"})]), Image([shared, tar_of({"two": b"2"})])
    first, second = plain.push("gone/one", "v1", one), plain.push("gone/two", "v1", two)
    pulled(server, first)
    pulled(server, second)
    answer = server.request("DELETE", f"/v1/images?uri={first}")
    spec.check_answer("DELETE", "/images", answer)
    assert answer.status == 204
    wait_for(lambda: names_of(Image([tar_of({"one": b"1"})]))[0] not in blobs(server))
    assert set(names_of(two)) <= set(blobs(server))
    assert server.request("DELETE", f"/v1/images?uri={two.digest}").status == 204
    wait_for(lambda: not set(names_of(two)) & set(blobs(server)))
    answer = server.request("DELETE", f"/v1/images?uri={second}")
    spec.check_answer("DELETE", "/images", answer)
    assert answer.status == 404
    assert server.request("DELETE", "/v1/images?uri=Bad").status == 400
    assert server.request("DELETE", "/v1/images").status == 422


def test_what_is_no_image_is_said_so(server, plain, spec):
    refused(server, f"{plain.host}/no/such:image", "has no such image", code="not-found")
    answer = server.request("POST", "/v1/images/pull", body='{"uri":"A/b"}', headers={"Content-Type": "application/json"})
    spec.check_answer("POST", "/images/pull", answer)
    assert answer.status == 400 and "small letters" in answer.json["message"]
    answer = server.request("POST", "/v1/images/pull", body='{"uri":1}', headers={"Content-Type": "application/json"})
    spec.check_answer("POST", "/images/pull", answer)
    assert answer.status == 422


def test_many_orders_are_one_pull(server, plain):
    image = Image([tar_of({"big": os.urandom(3_000_000)})])
    uri = plain.push("many/one", "v1", image)
    results = []
    threads = [threading.Thread(target=lambda: results.append(pulled(server, uri, refresh=False)["digest"])) for _ in range(12)]
    most = 0
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        most = max(most, len(fetchers(server)))
        time.sleep(0.005)
    assert results == [image.digest] * 12 and most == 1


def test_progress_is_told(server, plain):
    image = Image([tar_of({f"f{i}": os.urandom(400_000)}) for i in range(6)])
    events = pull(server, plain.push("slow/steps", "v1", image))
    steps = [e for e in events if e["type"] == "progress" and e["phase"] == "downloading"]
    total = sum(len(image.blobs[d]) for d in image.layers)
    assert steps[-1]["bytes"] == steps[-1]["total"] == total
    assert steps[-1]["layersDone"] == steps[-1]["layers"] == 6
    assert [s["bytes"] for s in steps] == sorted(s["bytes"] for s in steps)


def test_tls_is_verified_by_the_file_that_was_named(server, secure, start_server):
    image = Image([tar_of({"t": b"ls"})])
    uri = secure.push("over/tls", "v1", image)
    assert pulled(server, uri)["digest"] == image.digest
    other = start_server(entry(secure.host, insecure=False))
    refused(other, uri, "certificate that is not trusted", code="unavailable")
    any_certificate = start_server(entry(secure.host))
    assert pulled(any_certificate, uri)["digest"] == image.digest


def test_plain_http_and_private_addresses_are_the_operators_to_allow(start_server, plain):
    uri = plain.push("not/allowed", "v1", Image([tar_of({"x": b"y"})]))
    s = start_server(entry(plain.host, private=False))
    refused(s, uri, "private address", code="denied")
    s = start_server(entry(plain.host, insecure=False))
    refused(s, uri, code="unavailable")
    s = start_server()
    refused(s, uri, "private address", code="denied")
    assert blobs(s) == []


# ---- credentials ----


AUTH = {"username": registry.USER, "password": registry.PASSWORD}


def test_credentials_open_what_is_guarded(server, guarded):
    image = Image([tar_of({"secret": b"of somebody"})])
    uri = guarded.push("my/own", "v1", image)
    refused(server, uri, "gives no access without credentials", code="denied")
    refused(server, uri, "credentials", code="denied", auth={**AUTH, "password": "wrong"})
    shown = pulled(server, uri, auth=AUTH)
    assert shown["digest"] == image.digest and shown["private"] is True


def test_a_private_image_is_given_to_who_could_pull_it(server, guarded):
    image = Image([tar_of({"secret": b"of somebody else"})])
    uri = guarded.push("not/yours", "v1", image)
    pulled(server, uri, auth=AUTH)
    refused(server, uri, "without credentials", code="denied", refresh=False)
    refused(server, uri, "credentials", code="denied", refresh=False, auth={**AUTH, "username": "nobody"})
    assert pulled(server, uri, auth=AUTH, refresh=False)["digest"] == image.digest


def test_secrets_are_in_no_place_where_they_could_be_read(server, guarded):
    uri = guarded.push("se/cret", "v1", Image([tar_of({"big": os.urandom(8_000_000)})]))
    seen = []
    t = threading.Thread(target=lambda: pulled(server, uri, auth=AUTH))
    t.start()
    while t.is_alive():
        for pid in fetchers(server):
            try:
                seen.append(open(f"/proc/{pid}/cmdline", "rb").read() + open(f"/proc/{pid}/environ", "rb").read())
                status = open(f"/proc/{pid}/status").read()
            except OSError:
                continue
            assert "CapEff:\t0000000000000000" in status
        time.sleep(0.005)
    t.join()
    secret = registry.PASSWORD.encode()
    assert seen and not [s for s in seen if secret in s]
    for path in server.home.state.glob("server/*"):
        assert not path.is_file() or secret not in path.read_bytes(), path
    assert registry.PASSWORD not in server.stderr


# ---- ends in the middle ----


def slow_image(plain, name, megabytes=40):
    return plain.push(name, "v1", Image([tar_of({"big": os.urandom(megabytes * 1_000_000)}), tar_of({"small": b"x"})], compress=""))


def begin(server, uri):
    t = threading.Thread(target=lambda: results.append(pull(server, uri)))
    results = []
    t.start()
    wait_for(lambda: [b for b in blobs(server) if b.startswith("new-")])
    return t, results


def uid_of(pid):
    with open(f"/proc/{pid}/status") as f:
        real, effective, saved, of_files = next(line for line in f if line.startswith("Uid:")).split()[1:]
    assert real == effective == saved == of_files
    return int(real)


ASK_THE_WARDEN = """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(10)
s.connect(sys.argv[1])
print(s.recv(1))
"""


def test_P3b_the_warden_does_not_serve_the_fetchers_user(server, plain):
    """Not by the mode of its socket, and not when that is open to everyone either."""
    t, results = begin(server, slow_image(plain, "own/ids"))
    uids = {uid_of(pid) for pid in fetchers(server)}
    t.join()
    uid, = uids
    assert results[0][-1]["type"] == "done", results[0][-1]
    assert uid not in {0, *(os.stat(server.home.state / name).st_uid for name in ("server", "egress"))}, "nobody else has it"
    path = server.home.run / "warden.sock"

    def ask():
        return subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "/usr/bin/python3", "-c",
                               ASK_THE_WARDEN, path], capture_output=True, text=True, check=False)

    assert "PermissionError" in ask().stderr
    path.chmod(0o666)
    try:
        done = ask()
    finally:
        path.chmod(0o600)
    assert done.stdout == "b''\n" or "ConnectionResetError" in done.stderr, done
    assert f"user {uid} may not ask" in server.stderr, "the warden has said why"


def test_P3b_the_fetchers_user_reaches_nothing_of_the_servers(server, plain):
    folder = server.home.state / "server"
    uid = os.stat(folder / "blobs").st_uid
    assert uid != os.stat(folder).st_uid
    done = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "ls", folder], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and "Permission denied" in done.stderr


def test_a_killed_fetcher_leaves_nothing(server, plain):
    uri = slow_image(plain, "killed/fetcher")
    before = blobs(server)
    t, results = begin(server, uri)
    for pid in fetchers(server):
        os.kill(pid, signal.SIGKILL)
    t.join()
    last = results[0][-1]
    assert last["type"] == "error" and "try again" in last["message"]
    wait_for(lambda: blobs(server) == before)
    assert pulled(server, uri)["uri"] == uri


def test_a_killed_server_leaves_nothing_and_knows_what_it_had(tmp_path, plain):
    home = Home()
    try:
        s = Server(tmp_path, entry(plain.host), env={"OPENSANDBOX_SERVER_API_KEY": KEY}, home=home)
        s.wait_ready()
        small = Image([tar_of({"kept": b"k"})])
        kept = plain.push("kept/one", "v1", small)
        pulled(s, kept)
        uri = slow_image(plain, "killed/server")
        try:
            t, _ = begin_quietly(s, uri)
            os.kill(s.pid, signal.SIGKILL)
            t.join()
            s.wait_ready()
            wait_for(lambda: blobs(s) == names_of(small))
            assert [i["uri"] for i in s.get("/v1/images").json["items"]] == [kept]
            assert pulled(s, kept, refresh=False)["digest"] == small.digest
            wait_for(lambda: not fetchers(s))
        finally:
            s.stop()
    finally:
        home.remove()


def begin_quietly(server, uri):
    def run():
        try:
            results.append(pull(server, uri))
        except Exception:  # the answer may be cut anywhere
            pass

    results = []
    t = threading.Thread(target=run)
    t.start()
    wait_for(lambda: [b for b in blobs(server) if b.startswith("new-")])
    return t, results


def test_a_full_disk_is_said_so_and_leaves_nothing(start_server, plain, home):
    folder = home.state / "server/blobs"
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=68m", "none", folder], check=True)  # 4 MiB above the reserve
    try:
        s = start_server(entry(plain.host), home=home, env={"OPENSANDBOX_NATIVE_DISK_RESERVE": "64Mi"})
        refused(s, slow_image(plain, "too/big", 8), "no room", code="limit")
        wait_for(lambda: blobs(s) == [])
        pulled(s, plain.push("small/enough", "v1", Image([tar_of({"s": b"mall"})])))
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(30)
    finally:
        subprocess.run(["umount", folder], check=True)


def test_who_hangs_up_ends_the_pull(server, plain):
    uri = slow_image(plain, "hung/up")
    before = blobs(server)
    body = json.dumps({"uri": uri}).encode()
    with server.connect() as c:
        c.sendall(b"POST /v1/images/pull HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: " + KEY.encode() +
                  b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_for(lambda: [b for b in blobs(server) if b.startswith("new-")])
    wait_for(lambda: not fetchers(server))
    wait_for(lambda: blobs(server) == before)
