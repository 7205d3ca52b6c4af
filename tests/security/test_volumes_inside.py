# SPDX-License-Identifier: Apache-2.0
"""R3, R7, O1: volumes from inside. What a sandbox plants in one leads nowhere, and what it may not do there it cannot undo."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import textwrap

import pytest

from conftest import KEY, Server
from inside import NOBODY, ROOT_AND_OTHER, Plane, Sandbox, eventually, pytestmark_needs  # noqa: F401

pytestmark = pytestmark_needs

MOUNT, UMOUNT2, MOUNT_SETATTR, OPEN_TREE, MOVE_MOUNT, FSPICK = 165, 166, 442, 428, 429, 433
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096


class VolumePlane(Plane):
    def __init__(self, folder, shared):
        self.shared = shared
        self.server = Server(folder, env={"OPENSANDBOX_SERVER_API_KEY": KEY,
                                          "OPENSANDBOX_STORAGE_ALLOWED_HOST_PATHS": f'["{shared}/listed"]'})
        self.server.wait_ready()

    def with_host(self, name, mount="/mnt", **more):
        return self.create(volumes=[{"name": "v", "mountPath": mount, "host": {"path": f"{self.shared}/listed/{name}"}, **more}])

    def with_named(self, claim, mount="/data", **more):
        return self.create(volumes=[{"name": "v", "mountPath": mount, "pvc": {"claimName": claim}, **more}])

    def refused(self, **volume):
        answer = self.server.request("POST", "/v1/sandboxes", body=json.dumps({
            "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}, "volumes": [volume]}))
        assert answer.status in (400, 422, 500), answer
        return answer.json["code"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    shared = pathlib.Path(tempfile.mkdtemp(prefix="osb-security-"))
    shared.chmod(0o755)
    (shared / "listed").mkdir(mode=0o755)
    (shared / "secret").write_text("secret")
    p = VolumePlane(tmp_path_factory.mktemp("volumes"), shared)
    yield p
    p.stop()
    shutil.rmtree(shared)


def folder(plane, name, uid=0):
    path = plane.shared / "listed" / name
    path.mkdir()
    path.chmod(0o777)
    os.chown(path, uid, uid)
    return path


@ROOT_AND_OTHER
def test_R3_a_read_only_volume_cannot_be_made_writable(plane, uid):
    path = folder(plane, f"ro{uid}")
    (path / "f").write_text("as it was")
    (path / "f").chmod(0o666)
    box = plane.with_host(f"ro{uid}", readOnly=True)
    got = box.python(f"""
        import struct
        attr = struct.pack('=QQQQ', 0, 1, 0, 0)  # clears MOUNT_ATTR_RDONLY
        tree = call({OPEN_TREE}, -100, b'/mnt', 1)
        print([call({MOUNT}, None, b'/mnt', None, {MS_REMOUNT | MS_BIND}, None), call({MOUNT}, b'/mnt', b'/tmp', None, {MS_BIND}, None),
               call({UMOUNT2}, b'/mnt', 2), call({MOUNT_SETATTR}, -100, b'/mnt', 0, attr, 32), tree, call({FSPICK}, -100, b'/mnt', 0),
               tried(open, '/mnt/f', 'r+'), tried(os.truncate, '/mnt/f', 0), tried(os.unlink, '/mnt/f'), tried(os.chmod, '/mnt/f', 0o777),
               tried(os.open, '/mnt', os.O_TMPFILE | os.O_RDWR), tried(os.utime, '/mnt/f')])
        """, uid)
    assert all(word in ("EPERM", "EROFS", "ENOSYS", "EACCES") for word in got), got
    assert (path / "f").read_text() == "as it was"
    rows = [line.split() for line in box.run("cat /proc/self/mountinfo").out.splitlines()]
    options, = [row[5].split(",") for row in rows if row[4] == "/mnt"]
    assert {"ro", "nosuid", "nodev"} <= set(options)


def test_R3_set_uid_programs_and_devices_of_a_volume_do_nothing(plane, tmp_path):
    path = folder(plane, "suid")
    source = tmp_path / "id.c"
    source.write_text("#include <stdio.h>\n#include <unistd.h>\nint main(void){printf(\"%d %d\\n\",(int)geteuid(),(int)getegid());return 0;}\n")
    subprocess.run(["musl-gcc", "-static", "-o", path / "id", source], check=True)
    (path / "id").chmod(0o6755)
    os.mknod(path / "mem", stat.S_IFCHR | 0o666, os.makedev(1, 3))  # null would be harmless: even that does not open
    (path / "mem").chmod(0o666)
    box = plane.with_host("suid")
    assert box.run("/mnt/id", uid=NOBODY, gid=NOBODY).out == f"{NOBODY} {NOBODY}"
    assert box.python("print([tried(open, '/mnt/mem'), tried(os.mknod, '/mnt/own', 0o20666, os.makedev(1, 3))])") == ["EACCES", "EPERM"]


@pytest.mark.parametrize("owner", [0, 1000])
def test_R7_what_a_sandbox_leaves_belongs_to_the_owner_or_to_nobody(plane, owner):
    """No id of the host but the owner's can be had, so no set-uid file of somebody else either."""
    path = folder(plane, f"ids{owner}", owner)
    box = plane.with_host(f"ids{owner}")
    got = box.python("""
        out = []
        for uid in (0, 1, 33, 1000, 65533, 65535):
            name = '/mnt/%d' % uid
            open(name, 'w').close()
            os.chown(name, uid, uid)
            os.chmod(name, 0o6777)
            out.append((os.stat(name).st_uid, os.stat(name).st_gid))
        print(out)
        """)
    assert got == [(u, u) for u in (0, 1, 33, 1000, 65533, 65535)]
    found = {p.name: (p.stat().st_uid, p.stat().st_gid) for p in path.iterdir()}
    assert found.pop("0") == (owner, owner)
    assert all(uid == gid == 20480 * 65536 + int(name) for name, (uid, gid) in found.items()), found
    (path / "foreign").write_text("of another user of the host")
    (path / "foreign").chmod(0o600)
    os.chown(path / "foreign", 4242, 4242)
    assert box.python("""print([os.stat('/mnt/foreign').st_uid, tried(open, '/mnt/foreign'), tried(os.chown, '/mnt/foreign', 0, 0),
                                tried(os.chmod, '/mnt/foreign', 0o777)])""") == [65534, "EACCES", "EPERM", "EOVERFLOW"]


def test_R7_symlinks_that_a_sandbox_plants_lead_nowhere(plane):
    """Neither for the next sandbox that asks for what is behind them, nor on the way to a mount path."""
    path = folder(plane, "planted")
    first = plane.with_host("planted")
    first.run("ln -s / /mnt/root; ln -s ../.. /mnt/up; ln -s /proc/self/root /mnt/magic; mkdir /mnt/dir; ln -s ../../../secret /mnt/dir/s")
    for sub in ("root", "root/etc", "up", "up/secret", "magic", "magic/etc", "dir/s", "dir/../../..", "../secret", "dir/../../../secret"):
        code = plane.refused(name="v", mountPath="/x", host={"path": str(path)}, subPath=sub)
        assert code in ("VOLUME::HOST_PATH_NOT_ALLOWED", "VOLUME::INVALID_SUB_PATH"), (sub, code)
    named = plane.with_named("planted")
    named.run("ln -s / /data/root; ln -s /proc /data/proc; ln -s ../../../.. /data/up; ln -s /dev /data/dev")
    for sub in ("root", "root/etc", "up", "up/etc", "proc"):
        assert plane.refused(name="v", mountPath="/x", pvc={"claimName": "planted"}, subPath=sub) == "VOLUME::INVALID_SUB_PATH"
    both = lambda mount: plane.server.request("POST", "/v1/sandboxes", body=json.dumps({  # noqa: E731
        "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}, "volumes": [
            {"name": "a", "mountPath": "/data", "pvc": {"claimName": "planted"}},
            {"name": "b", "mountPath": mount, "pvc": {"claimName": "inner"}}]}))
    for mount in ("/data/proc", "/data/proc/sys", "/data/dev/shm", "/data/root", "/data/root/proc", "/data/dev/new"):
        answer = both(mount)
        assert answer.status == 400 and answer.json["code"] == "VOLUME::INVALID_MOUNT_PATH", (mount, answer)
    # In its own root a symlink may lead anywhere, and never out of it.
    answer = both("/data/up/opt/inner")
    assert answer.status == 202, answer
    inner = Sandbox(plane, answer.json["id"])
    assert inner.run("stat -c %u /opt/inner && grep -c ' /opt/inner ' /proc/self/mountinfo").out.split() == ["0", "1"]
    assert not os.path.exists("/opt/inner")
    inner.delete()


def test_R7_folders_that_are_exchanged_all_the_time_lead_nowhere(plane):
    """A sandbox turns a folder into a symlink and back while others ask for what is in it: they get that or a refusal."""
    path = folder(plane, "race")
    attacker = plane.with_host("race")
    attacker.start(textwrap.dedent("""
        mkdir -p /mnt/real/in; ln -s /etc /mnt/link
        while :; do mv -T /mnt/real /mnt/x; mv -T /mnt/link /mnt/real; mv -T /mnt/real /mnt/link; mv -T /mnt/x /mnt/real; done"""))
    seen = set()
    for _ in range(40):
        answer = plane.server.request("POST", "/v1/sandboxes", body=json.dumps({
            "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
            "volumes": [{"name": "v", "mountPath": "/v", "host": {"path": str(path)}, "subPath": "real/cron.d"}]}))
        seen.add(answer.status)
        if answer.status == 202:
            box = Sandbox(plane, answer.json["id"])
            row, = [line.split() for line in box.run("cat /proc/self/mountinfo").out.splitlines() if line.split()[4] == "/v"]
            assert row[3].startswith(str(path)), row
            box.delete()
    assert seen <= {202, 400, 500} and seen
    attacker.delete()


def test_R7_neither_neighbours_nor_the_host_are_reached_through_one(plane):
    folder(plane, "shared")
    one, two = plane.with_host("shared"), plane.with_host("shared", "/other")
    got = one.python("""
        fd = os.open('/mnt', os.O_RDONLY)
        os.fchdir(fd)
        for _ in range(40): os.chdir('..')
        print([os.path.exists('secret'), os.path.exists('/mnt/../secret'), sorted(os.listdir('.')) == sorted(os.listdir('/'))])
        """)
    assert got == [False, False, True]
    assert one.id_base != two.id_base
    assert one.run("echo x >/mnt/f && chmod 600 /mnt/f").code == 0 and two.run("cat /other/f").out == "x"
    # What the host mounts below it afterwards does not come in.
    below = plane.shared / "listed/shared/below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", below], check=True)
    try:
        (below / "seen").write_text("")
        assert one.run("ls /mnt/below").out == "" and plane.with_host("shared").run("ls /mnt/below").out == ""
    finally:
        subprocess.run(["umount", below], check=True)


# SUBVOL_CREATE, SNAP_CREATE, SNAP_DESTROY and their second versions, DEFRAG, RESIZE, DEFRAG_RANGE, TREE_SEARCH, INO_LOOKUP, SPACE_INFO,
# SYNC, START_SYNC, SUBVOL_GETFLAGS and SETFLAGS, FS_INFO, SEND, SET_RECEIVED_SUBVOL, DEV_INFO, QUOTA_CTL, QGROUP_ASSIGN, _CREATE, _LIMIT,
# QUOTA_RESCAN, GET_SUBVOL_INFO, GET_SUBVOL_ROOTREF, INO_LOOKUP_USER, GETFSLABEL, SETFSLABEL
STORE_CALLS = (0x5000940E, 0x50009401, 0x5000940F, 0x50009418, 0x50009417, 0x5000943F, 0x50009402, 0x50009403, 0x40309410, 0xD0009411, 0xC0709411,
               0xD0009412, 0xC0109414, 0x9408, 0x80089418, 0x80089419, 0x4008941A, 0x8400941F, 0x40489426, 0xC0C89425, 0xD000941E, 0xC0109428,
               0x40189429, 0x4010942A, 0x8030942B, 0x4040942C, 0x81F8943C, 0xD000943D, 0xD000943E, 0x81009431, 0x41009432)


@ROOT_AND_OTHER
def test_L6_the_stores_file_system_takes_no_requests(plane, uid):
    folder(plane, f"asked{uid}")
    volumes = [{"name": "v", "mountPath": "/data", "pvc": {"claimName": f"asked{uid}", "storage": "64Mi"}},
               {"name": "h", "mountPath": "/mnt", "host": {"path": f"{plane.shared}/listed/asked{uid}"}}]
    box = plane.create(volumes=volumes)
    assert box.run("chmod 777 /data").code == 0
    answer = plane.server.request("POST", f"{box.path}/snapshots", body="{}", timeout=30)
    assert answer.status in (201, 202), answer
    snapshot = eventually(lambda: (got := plane.server.get(f"/v1/snapshots/{answer.json['id']}").json)["status"]["state"] == "Ready" and got)
    restored = plane.create(image=None, snapshotId=snapshot["id"], volumes=volumes)
    for sandbox in (box, restored):
        got = sandbox.python(f"""
            import struct
            seen = set()
            for path in ('/', '/usr', '/tmp', '/root', '/dev/shm', '/data', '/mnt', '/proc', '/sys'):
                fd = call(257, -100, path.encode() + b'\\0', 0)
                if type(fd) is str: continue
                for request in {STORE_CALLS}:
                    for upper in (0, 1 << 32, 0xffffffff << 32):
                        for start in (0, fd):
                            seen.add(call(16, fd, upper | request, struct.pack('q', start) + b'nested'.ljust(4096, b'\\0')))
                os.close(fd)
            here = f'/data/{{os.getpid()}}'
            with open(here, 'wb') as f: f.write(b'x' * 65536)
            source, copy = os.open(here, os.O_RDONLY), os.open(here + 'c', os.O_CREAT | os.O_RDWR)
            print((seen, call(16, copy, 0x40049409, source), os.fstat(copy).st_size))
            """, uid)
        assert got == ({"ENOTTY"}, 0, 65536), got
    got = box.python("""
        fd, n = os.open('/data/big', os.O_CREAT | os.O_WRONLY), 0
        try:
            while n < 300 << 20: n += os.write(fd, b'x' * (1 << 20))
        except OSError: pass
        print((n, sorted(os.listdir('/data'))[-1]))
        """, uid)
    assert got[0] <= 64 << 20 and got[1] == "big", got
    for sandbox in (box, restored):
        sandbox.delete()
    assert plane.server.request("DELETE", f"/v1/snapshots/{snapshot['id']}").status == 204
    assert plane.server.request("DELETE", f"/v1/volumes/asked{uid}", timeout=30).status == 204
    assert not list(pathlib.Path(f"/proc/{plane.server.warden_pid}/root{plane.server.home.state}/store/disks").glob("gone-*"))
