# SPDX-License-Identifier: Apache-2.0
"""L7: the disk that everything is on fills up, by others, by images, by sandboxes: no sandbox is read-only for that."""
import base64
import contextlib
import errno
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

import pytest

from api import Api, wait_for
from conftest import EXECD, KEY, SERVER, Home, Server

MIB = 1 << 20
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to run sandboxes"),
    pytest.mark.skipif(not SERVER.exists() or not EXECD.exists(), reason="the server or execd is not built"),
    pytest.mark.skipif(not shutil.which("mkfs.ext4") or not os.path.exists("/dev/loop-control"), reason="needs ext4 and loop devices"),
]


class Disk:
    """A server whose state directory is on a file system of its own, of 1 GiB."""

    def __init__(self, folder, spec, mkfs=("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal"), **settings):
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
        self.server = Server(folder, env=env, home=self.home)
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
