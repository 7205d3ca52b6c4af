# SPDX-License-Identifier: Apache-2.0
"""4: the processes on the host, as the kernel describes them."""
import os
import pathlib
import signal
import stat
import subprocess
import time

import pytest

from conftest import KEY
from inside import box, plane, pytestmark_needs, read, status_of  # noqa: F401

pytestmark = pytestmark_needs
NONE = "0000000000000000"


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def owner(path):
    return os.lstat(path).st_uid


def test_P1_the_server_has_no_rights_in_any_of_its_threads(plane, box):
    pid = plane.server.pid
    rows = [status_of(f"{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]
    assert rows
    for row in rows:
        uids, gids = set(row["Uid"].split()), set(row["Gid"].split())
        assert len(uids) == len(gids) == 1 and "0" not in uids | gids, row
        assert row["Groups"].strip() == "" and row["NoNewPrivs"] == "1" and row["Seccomp"] == "2", row
        assert {row[c] for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {NONE}, row
        assert row["Umask"] == "0077"


def test_P1_only_the_server_listens_on_the_network(plane):
    """Root parses no request: neither the supervisor reads from its sockets' connections nor has the warden any."""
    def inodes(pid):
        links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        return {link[8:-1] for link in links if link.startswith("socket:[")}

    inet = {line.split()[9] for f in ("tcp", "tcp6", "udp", "udp6") for line in read(f"/proc/net/{f}").splitlines()[1:]}
    assert len(inodes(plane.server.pid) & inet) >= 2
    assert not inodes(plane.server.warden_pid) & inet
    listening = {line.split()[9] for line in read("/proc/net/tcp").splitlines()[1:] if line.split()[3] == "0A"}
    assert inodes(plane.server.process.pid) & inet <= listening


def test_P2_the_server_holds_nothing_of_roots(plane, box):
    """No folder or file that its user could not open by itself, and nothing of a box but its connections."""
    state = str(plane.server.home.state)
    for n in os.listdir(f"/proc/{plane.server.pid}/fd"):
        link = os.readlink(f"/proc/{plane.server.pid}/fd/{n}")
        assert not link.startswith((f"{state}/boxes", f"{state}/layers", "/sys/fs/cgroup")), link


def test_P2_the_servers_user_cannot_reach_boxes(plane, box):
    uid = status_of(plane.server.pid)["Uid"].split()[0]
    targets = [box.box, box.upper, plane.server.home.state / "store", plane.server.home.state / "disk.img", f"/proc/{box.pid1}/root", f"/proc/{plane.server.warden_pid}/mem",
               f"/proc/{plane.server.pid}/mem", f"/proc/{plane.server.pid}/environ"]
    for target in targets:
        done = subprocess.run(["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "sh", "-c", f"ls {target}/ || head -c1 {target}"],
                              capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "Permission denied" in done.stderr, (target, done)


def test_P3_children_of_root_have_a_cleared_environment(plane):
    assert read(f"/proc/{plane.server.warden_pid}/environ") == ""
    for pid in (plane.server.process.pid, plane.server.pid, plane.server.warden_pid):
        assert KEY not in read(f"/proc/{pid}/cmdline")


def test_P4_nothing_of_a_sandbox_is_mapped_by_the_host(plane, box):
    box.run("cp /usr/bin/python3 /root/libc.so.6; echo /root >/etc/ld.so.preload; echo x >/etc/nsswitch.conf")
    box.run("true", uid=1234)
    for pid in (plane.server.process.pid, plane.server.pid, plane.server.warden_pid):
        assert str(plane.server.home.state / "boxes") not in read(f"/proc/{pid}/maps")
    box.run("rm -f /etc/ld.so.preload")


def test_P5_modes_of_folders_files_and_sockets(plane, box):
    home, uid = plane.server.home, int(status_of(plane.server.pid)["Uid"].split()[0])
    for name in ("boxes", "store", "stage"):
        assert mode(home.state / name) == 0o700 and owner(home.state / name) == 0, name
    assert mode(home.state / "disk.img") == 0o600 and owner(home.state / "disk.img") == 0
    for folder in (home.state, home.run):  # to be passed through by the server's user, and not to be read
        assert mode(folder) == 0o711 and owner(folder) == 0
    assert mode(home.state / "server") == 0o700 and owner(home.state / "server") == uid
    blobs = home.state / "server/blobs"
    assert mode(blobs) == 0o2750 and owner(blobs) not in (0, uid) and os.lstat(blobs).st_gid == os.lstat(home.state / "server").st_gid
    files = [p for p in (home.state / "server").rglob("*") if blobs not in (p, *p.parents)]
    assert files
    for path in files:
        assert mode(path) == (0o700 if path.is_dir() else 0o600) and owner(path) == uid, path
    assert mode(home.run / "warden.sock") == 0o600 and owner(home.run / "warden.sock") == uid
    assert mode(home.state / "server.lock") == 0o600
    assert mode(box.box) == 0o700
    for path in box.box.iterdir():
        if path.is_file() and path.name != "box":
            assert mode(path) == 0o600 and owner(path) == 0, path
    for pid in (plane.server.process.pid, plane.server.warden_pid):
        assert status_of(pid)["Umask"] == "0077"


@pytest.mark.parametrize("uid", [12345, 65534, 1048576])
def test_P2_the_wardens_socket_is_for_the_server_alone(plane, uid):
    path = plane.server.home.run / "warden.sock"
    code = f"import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect({str(path)!r})"
    done = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "/usr/bin/python3", "-c", code],
                          capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr, done


def test_P5_a_second_server_on_the_same_state_is_refused(plane, run_server):
    home = plane.server.home
    done = run_server(env={"OPENSANDBOX_SERVER_API_KEY": KEY, "OPENSANDBOX_NATIVE_STATE_DIR": str(home.state),
                           "OPENSANDBOX_SERVER_PORT": "1"})
    assert done.returncode == 4, done


def test_a_sandboxs_files_are_made_as_on_any_machine(box):
    """Root's mask on the host is not the sandbox's."""
    assert box.run("umask; touch /tmp/m; stat -c %a /tmp/m").out.split() == ["0022", "644"]


def test_P7_sandboxes_do_not_depend_on_the_server(plane, box):
    pid1, server = box.pid1, plane.server.pid
    os.kill(server, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while True:
        try:
            if plane.server.pid != server and box.ping_ms() < 1000:
                break
        except (OSError, IndexError, AssertionError):
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert box.pid1 == pid1 and box.run("echo alive").out == "alive"
    assert pathlib.Path(f"/proc/{pid1}").exists()
