# SPDX-License-Identifier: Apache-2.0
"""L7: the disk that everything is on fills up, by others, by images, by sandboxes: no sandbox is read-only for that."""
import base64
import concurrent.futures
import contextlib
import errno
import io
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import time

import pytest

from api import Api, wait_for
from conftest import EXECD, KEY, SERVER, Home, Server
from registry import Image, is_installed, plain, tar_of  # noqa: F401
from test_image_pull import entry, pull

MIB = 1 << 20
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run sandboxes"),
    pytest.mark.skipif(not SERVER.exists() or not EXECD.exists(), reason="the server or execd is not built"),
    pytest.mark.skipif(not shutil.which("mkfs.ext4") or not os.path.exists("/dev/loop-control"), reason="needs ext4 and loop devices"),
]


class Disk:
    """A server whose state directory is on a file system of its own, of 1 GiB."""

    def __init__(self, folder, spec, mkfs=("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal"), config="", **settings):
        self.home = Home()
        self.home.state.mkdir(mode=0o711)
        self.file = folder / "disk"
        with open(self.file, "wb") as f:
            f.truncate(1024 * MIB)
        subprocess.run([*mkfs, self.file], check=True)
        subprocess.run(["mount", "-o", "loop", self.file, self.home.state], check=True)
        if "btrfs" in mkfs[0]:
            subprocess.run(["btrfs", "quota", "enable", self.home.state], check=True)
            self.home.state.chmod(0o711)
            (self.home.state / "server").mkdir()  # its database must have room of its own: nothing keeps any from sandboxes here
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", self.home.state / "server"], check=True)
        env = {"OPENSANDBOX_SERVER_API_KEY": KEY, **{f"OPENSANDBOX_NATIVE_{k.upper()}": v for k, v in settings.items()}}
        self.server = Server(folder, config=config, env=env, home=self.home)
        self.server.wait_ready()
        self.api = Api(self.server, spec, "/v1")

    @property
    def free(self):
        st = os.statvfs(self.home.state)
        return st.f_bavail * st.f_frsize

    @property
    def store(self):
        return pathlib.Path(f"/proc/{self.server.warden_pid}/root{self.home.state}/store")

    def fill(self, leave=0):
        """By somebody else, as fast as it goes."""
        with open(self.home.state / "others", "ab") as f:
            with contextlib.suppress(OSError):
                os.posix_fallocate(f.fileno(), f.tell(), max(self.free - leave, 1))
            with contextlib.suppress(OSError):
                while self.free > leave:
                    f.write(b"x" * 4096)
                    f.flush()

    def give_back(self):
        (self.home.state / "others").unlink()

    def commit(self):
        """What the kernel does every half a minute."""
        fd = os.open(self.store if (self.home.state / "disk.img").exists() else self.home.state, os.O_RDONLY)
        try:
            subprocess.run(["sync", "-f", f"/proc/{os.getpid()}/fd/{fd}"], check=True)
        finally:
            os.close(fd)

    def is_writable(self):
        return not os.statvfs(self.store).f_flag & os.ST_RDONLY

    def stop(self):
        try:
            for item in self.api.get("/sandboxes?pageSize=100").json["items"]:
                self.server.request("DELETE", f"/v1/sandboxes/{item['id']}", timeout=30)
            self.server.stop()
        finally:
            deadline = time.monotonic() + 20
            if os.path.ismount(self.home.state / "server"):
                subprocess.run(["umount", self.home.state / "server"], check=True)
            while subprocess.run(["umount", self.home.state], capture_output=True).returncode and time.monotonic() < deadline:
                time.sleep(0.1)
            self.home.kill()
            self.home.remove()


@pytest.fixture
def disk(tmp_path, spec):
    made = []

    def make(**settings):
        made.append(Disk(tmp_path, spec, **settings))
        return made[0]

    yield make
    for d in made:
        d.stop()


def python(d, sandbox, code):
    text = base64.b64encode(code.encode()).decode()
    return d.api.run(sandbox["id"], f"echo {text} | base64 -d | python3 -")


WRITE = """
import errno, os
n, why = 0, 0
try:
    fd = os.open({path!r}, os.O_CREAT | os.O_WRONLY, 0o600)
    while n < {size}: n += os.write(fd, b"x" * 65536)
    {then}
except OSError as e: why = e.errno
print(n, errno.errorcode.get(why, 0))
"""


def write(d, sandbox, path, size, then="os.fsync(fd)"):
    """How many bytes it could write, and why not more."""
    n, why = python(d, sandbox, WRITE.format(path=path, size=size, then=then))[-1].split()
    return int(n), why


def refused_everything(d, sandbox):
    """507, with words that name nothing of the host."""
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w").close()
    answers = [
        d.api.try_create(), d.api.try_create(volumes=[{"name": "v", "mountPath": "/data", "pvc": {"claimName": "late"}}]),
        d.api.post(f"/sandboxes/{sandbox['id']}/snapshots", {}), d.api.post("/images/pull", {"uri": "localhost:1/none"}),
        d.server.request("POST", "/v1/images/load?name=late", body=archive.getvalue(), timeout=30),
        d.server.request("POST", "/v1/snapshots/import", body=archive.getvalue(), timeout=30),
    ]
    assert [a.status for a in answers] == [507] * len(answers), answers
    for a in answers:
        assert "full" in a.json["message"] and str(d.home.state) not in a.body.decode(), a


def test_L7_a_disk_that_others_fill_makes_no_sandbox_read_only(disk):
    d = disk()
    one, two = d.api.create(), d.api.create(volumes=[{"name": "v", "mountPath": "/data", "pvc": {"claimName": "full"}}])
    assert write(d, one, "/root/kept", 32 * MIB) == (32 * MIB, "0")
    assert write(d, two, "/data/kept", 32 * MIB) == (32 * MIB, "0")
    d.commit()
    d.fill()
    assert d.free < MIB
    time.sleep(1)  # somebody looks a few times a second
    for _ in range(3):
        for sandbox, place in ((one, "/root"), (two, "/data")):
            n, why = write(d, sandbox, f"{place}/more", 64 * MIB)
            assert why in ("EDQUOT", "ENOSPC") and n < 64 * MIB, (n, why)
            assert write(d, sandbox, f"{place}/kept", 32 * MIB)[1] in ("0", "EDQUOT", "ENOSPC")
            assert python(d, sandbox, f"import os; os.path.exists('{place}/more') and os.unlink('{place}/more'); print('gone')") == ["gone"]
        d.commit()
        assert d.is_writable()
    refused_everything(d, one)
    assert d.server.get("/health").status == 200
    d.give_back()
    wait_for(lambda: write(d, one, "/root/again", 8 * MIB) == (8 * MIB, "0"), 10, what="room for a sandbox")
    wait_for(lambda: d.api.try_create().status == 202, what="room for a create")
    assert "cannot remove a box" not in d.server.stderr and "not looked after" not in d.server.stderr
    assert python(d, two, "print(set(open('/data/kept', 'rb').read()) == {120})") == ["True"]


def test_L7_sandboxes_that_were_promised_more_than_there_is_stop_in_time(disk):
    d = disk(disk_size="8Gi")
    one, two = d.api.create(), d.api.create()
    n, why = write(d, one, "/root/big", 4 << 30, then="pass")
    assert why in ("EDQUOT", "ENOSPC") and n > 300 * MIB, (n, why)
    assert d.free > 16 * MIB
    assert write(d, two, "/root/big", 64 * MIB)[1] in ("EDQUOT", "ENOSPC")
    d.commit()
    assert d.is_writable() and d.free > 16 * MIB
    wait_for(lambda: d.api.try_create().status == 507, what="a refusal")
    # What is removed can be used by others at once: the host gets it back, and gives it away.
    began = time.monotonic()
    assert python(d, one, "import os; os.unlink('/root/big'); print('gone')") == ["gone"]
    wait_for(lambda: d.api.try_create().status == 202, what="room for a create")
    wait_for(lambda: write(d, two, "/root/more", 200 * MIB) == (200 * MIB, "0"), what="room for a sandbox")
    assert time.monotonic() - began < 15 and d.is_writable()


@pytest.mark.parametrize("settings", [{"disk_size": "512Mi"}, {"mkfs": ("mkfs.btrfs", "-q")}], ids=["image", "in place"])
def test_L7_a_store_that_was_full_takes_sandboxes_as_soon_as_there_is_room(disk, settings):
    """Not only with the next commit of the kernel's, half a minute later; and refusals do not make commits follow each other."""
    d = disk(**settings)
    one = d.api.create(resourceLimits={"disk": "4Gi"})
    assert (d.home.state / "disk.img").exists() == ("disk_size" in settings)
    n, why = write(d, one, "/root/big", 4 << 30, then="pass")
    assert why in ("EDQUOT", "ENOSPC") and n > 200 * MIB, (n, why)
    wait_for(lambda: d.api.try_create().status == 507, what="a refusal")
    d.commit()  # the next one of the kernel's own is half a minute away
    assert python(d, one, "import os; os.unlink('/root/big'); print('gone')") == ["gone"]
    began = time.monotonic()
    made = wait_for(lambda: (lambda a: a.status == 202 and a.json)(d.api.try_create()), 40, what="room for a create")
    assert time.monotonic() - began < 8, time.monotonic() - began
    assert write(d, made, "/root/more", 64 * MIB) == (64 * MIB, "0")


def test_L7_an_archive_is_refused_before_the_reserve_is_touched(disk):
    d = disk(disk_reserve="128Mi")
    one = d.api.create()
    blobs = {p.name for p in (d.home.state / "images").rglob("*")}
    d.fill(leave=256 * MIB)
    archive = d.home.folder / "large.tar"
    with tarfile.open(archive, "w") as tar, open("/dev/urandom", "rb") as noise:
        info = tarfile.TarInfo("large")
        info.size = 200 * MIB
        tar.addfile(info, noise)
    with open(archive, "rb") as f:
        answer = d.server.request("POST", "/v1/images/load?name=large", body=f, timeout=60)
    assert answer.status == 507, answer
    assert d.free > 128 * MIB - MIB * 4
    wait_for(lambda: {p.name for p in (d.home.state / "images").rglob("*")} == blobs, what="nothing left")
    assert write(d, one, "/root/f", 16 * MIB) == (16 * MIB, "0")


# ---- while somebody writes ----

WRITER = """
import errno, os, time
until = time.monotonic() + 90
kept, more = [os.open(p, os.O_CREAT | os.O_RDWR, 0o600) for p in ("/root/w-kept", "/root/w-more")]
for i in range(256): os.pwrite(kept, b"x" * 65536, i * 65536)
os.fsync(kept)
open("/tmp/begun", "w").close()
found, n = {"rewrite": set(), "append": set()}, 0
def attempt(kind, fd, at):
    try: os.pwrite(fd, os.urandom(65536), at); os.fsync(fd)
    except OSError as e: found[kind].add(errno.errorcode[e.errno])
while not os.path.exists("/tmp/stop") and time.monotonic() < until:
    attempt("rewrite", kept, n % 256 * 65536)
    attempt("append", more, n % 128 * 65536)
    if n % 128 == 127:
        try: os.ftruncate(more, 0)
        except OSError as e: found["append"].add(errno.errorcode[e.errno])
    n += 1
print(n, sorted(found["rewrite"]), sorted(found["append"]))
"""


@contextlib.contextmanager
def writer(d, sandbox):
    """Writes and syncs all the while; afterwards told has how often, and what failed."""
    told = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lines = pool.submit(python, d, sandbox, WRITER)
        wait_for(lambda: d.api.run(sandbox["id"], "test -e /tmp/begun && echo yes || true") == ["yes"], what="the first write")
        try:
            yield told
        finally:
            wait_for(lambda: d.api.run(sandbox["id"], "touch /tmp/stop && echo yes || true") == ["yes"], what="room for the end")
        n, _, errors = lines.result()[-1].partition(" ")
        told += [int(n), errors]


def test_L7_who_writes_while_others_fill_the_disk_has_no_error_of_the_disk(disk):
    """Not even what is being written at that moment: what cannot be stored is refused in time, by EDQUOT or ENOSPC."""
    d = disk()
    one = d.api.create()
    with writer(d, one) as told:
        for _ in range(3):
            time.sleep(1)
            d.fill()
            time.sleep(2)
            assert d.is_writable()
            d.give_back()
    n, errors = told
    assert n > 20 and set(re.findall(r"\w+", errors)) <= {"EDQUOT", "ENOSPC"}, told
    assert d.is_writable()


def packed_bomb(folder, size):
    """A layer of one file of the same byte, and the digest of its content."""
    tar = folder / "bomb.tar"
    with open(tar, "wb") as f:
        info = tarfile.TarInfo("bomb")
        info.size = size
        f.write(info.tobuf())
        for _ in range(size // MIB):
            f.write(b"x" * MIB)
        f.write(bytes(1024))
    digest = subprocess.run(["sha256sum", tar], stdout=subprocess.PIPE, check=True).stdout.split()[0].decode()
    return subprocess.run(["gzip", "-1", "-c", tar], stdout=subprocess.PIPE, check=True).stdout, f"sha256:{digest}"


needs_registry = pytest.mark.skipif(not is_installed(), reason="docker-registry is not installed")


def lowest_while(d, what):
    """WHAT's result, and the least that was free on the host meanwhile."""
    least = d.free
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        result = pool.submit(what)
        while not result.done():
            least = min(least, d.free)
            time.sleep(0.02)
    return result.result(), least


@needs_registry
def test_L7_a_pull_is_refused_before_the_reserve_is_touched(disk, plain):  # noqa: F811
    d = disk(disk_reserve="128Mi", config=entry(plain.host))
    one = d.api.create()
    uri = plain.push("apps/full", "1", Image([tar_of({"noise": os.urandom(200 * MIB)})]))
    d.fill(leave=256 * MIB)
    with writer(d, one) as told:
        events, least = lowest_while(d, lambda: pull(d.server, uri, timeout=120))
    last = events[-1]
    assert last["type"] == "error" and "no room" in last["message"] and str(d.home.state) not in last["message"], last
    assert told[0] > 5 and told[1] == "[] []", told
    assert least > 100 * MIB, least >> 20
    assert d.is_writable() and d.api.try_create().status == 202


@needs_registry
def test_L7_an_image_that_expands_is_refused_before_the_reserve_is_touched(disk, plain, tmp_path):  # noqa: F811
    """A layer of 9 MB that is 2 GiB of files: it is unpacked for the first sandbox."""
    d = disk(disk_reserve="128Mi", disk_size="8Gi", config=entry(plain.host))
    one = d.api.create()
    uri = plain.push("apps/bomb", "1", Image([packed_bomb(tmp_path, 2048 * MIB)]))
    assert pull(d.server, uri)[-1]["type"] == "done"
    with writer(d, one) as told:
        answer, least = lowest_while(d, lambda: d.api.try_create(image={"uri": uri}))
    assert answer.status == 507 and str(d.home.state) not in answer.json["message"], answer
    assert told[0] > 5 and told[1] == "[] []", told
    assert least > 100 * MIB, least >> 20
    assert d.is_writable()
    wait_for(lambda: not [p for p in (d.store / "layers").iterdir() if p.name.startswith(("new-", "part-"))], what="nothing left")
    wait_for(lambda: d.api.try_create().status == 202, what="room for a create")
