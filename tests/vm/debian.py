# SPDX-License-Identifier: Apache-2.0
"""Debian file systems for tests: made with mmdebstrap from the archive that apt is set up with, and kept in a
cache folder (OPENSANDBOX_VM_CACHE, else opensandbox/vm in the user's) until what they are made of changes.

A machine is a folder with `disk` (ext4), `vmlinuz` and `initrd`; a sysroot has the headers and libraries of another
architecture, for a cross compiler and for programs under qemu-user."""
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

BUILD_LIMIT_S = 1800
DISK_SIZE = "8G"

# Names without the suffix that a library got in the transition to 64-bit times: later suites provide them.
MACHINE_PACKAGES = """systemd systemd-sysv dbus udev kmod procps iproute2 iptables nftables btrfs-progs e2fsprogs python3
    ca-certificates libssl3 libsqlite3-0 libarchive13 libcurl4 linux-image-amd64 initramfs-tools docker.io""".split()
# Settings of the kernel that the package systemd of Debian 12 has itself, and that Debian's installer brings there, too.
SUITE_PACKAGES = {"trixie": ["linux-sysctl-defaults"]}

# What is in the machine besides the packages. The payload is a tar archive on the second disk; what it prints goes to the second
# serial line, so that messages of the kernel on the first one cannot tear it.
MACHINE_FILES = {
    "etc/hostname": "vm\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 vm\n::1 localhost\n",
    "etc/fstab": "/dev/vda / ext4 noatime 0 0\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/network/10-uplink.network": "[Match]\nName=en* eth*\n[Network]\nDHCP=ipv4\n",
    "etc/systemd/system.conf.d/quick.conf": "[Manager]\nDefaultTimeoutStopSec=60s\n",
    "etc/systemd/system/payload.service": """[Unit]
Description=The tests that this machine was started for
After=multi-user.target network-online.target
Wants=network-online.target

[Service]
Type=simple
ExecStartPre=/bin/sh -c 'mkdir -p /opt/payload && tar -xf /dev/vdb -C /opt/payload'
ExecStart=/usr/bin/python3 -u /opt/payload/guest/main.py
ExecStopPost=/bin/sh -c 'test -e /run/rebooting || systemctl --no-block poweroff'
StandardOutput=file:/dev/ttyS1
StandardError=inherit
TimeoutStopSec=5s
""",
}
ENABLED = ["systemd-networkd.service", "systemd-networkd-wait-online.service"]
MASKED = """serial-getty@ttyS0.service getty@tty1.service docker.service docker.socket containerd.service apt-daily.timer
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer
    systemd-update-utmp.service""".split()


SYSROOT_ARCH = "arm64"
SYSROOT_PACKAGES = """libc6-dev linux-libc-dev libssl-dev libsqlite3-dev libarchive-dev libcurl4-openssl-dev libcmocka-dev
    musl-dev""".split()
SYSROOT_FOLDERS = ["lib", "usr/lib", "usr/include"]


class Unavailable(Exception):
    """Something that is needed cannot be had here; the text says what."""


def cache():
    base = os.environ.get("OPENSANDBOX_VM_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox/vm"
    path = Path(base)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(name):
    """One at a time: of two runs that start together the second waits and finds what the first made."""
    with open(cache() / f"{name}.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def need(*programs):
    missing = [p for p in programs if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")]
    if missing:
        raise Unavailable(f"no {', '.join(missing)} here")
    if os.geteuid() != 0:
        raise Unavailable("root file systems are made by root")


def archive():
    """The address that apt gets Debian's main archive from."""
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
                         capture_output=True, text=True).stdout
    for line in out.splitlines():
        origin, label, uri = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian"):
            return uri
    raise Unavailable("apt knows no Debian archive here (apt-get update?)")


def run(*args):
    p = subprocess.run(["nice", *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=BUILD_LIMIT_S)
    if p.returncode != 0:
        text = p.stdout.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{args[0]}: " + "\n".join(text[-15:]))


def cached(name, recipe, make):
    """The folder NAME-<hash of RECIPE>; made by MAKE(folder) where it is not there yet. Older ones of the name go."""
    key = hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]
    path = cache() / f"{name}-{key}"
    with locked(name):
        if not path.exists():
            for old in cache().glob(f"{name}-*"):
                shutil.rmtree(old, ignore_errors=True)
            new = cache() / f"{name}-new.{key}"
            new.mkdir()
            make(new)
            new.rename(path)
    return path


def machine_packages(suite):
    return MACHINE_PACKAGES + SUITE_PACKAGES.get(suite, [])


def machine(suite):
    need("mmdebstrap", "mke2fs")
    recipe = (suite, machine_packages(suite), sorted(MACHINE_FILES.items()), ENABLED, MASKED, DISK_SIZE)
    return cached(suite, recipe, lambda new: make_machine(suite, new))


def make_machine(suite, new):
    root = new / "root"
    run("mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(machine_packages(suite))}",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        # Only what the root file system is reached through is in the first one: it is unpacked at each boot.
        '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"',
        '--essential-hook=printf "MODULES=list\\nCOMPRESS=gzip\\n" >"$1/etc/initramfs-tools/conf.d/small"',
        '--essential-hook=printf "virtio_pci\\nvirtio_blk\\next4\\n" >"$1/etc/initramfs-tools/modules"',
        suite, root, archive())
    for name, text in MACHINE_FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
    run("systemctl", f"--root={root}", "enable", *ENABLED)
    run("systemctl", f"--root={root}", "mask", *MASKED)
    run("systemctl", f"--root={root}", "add-wants", "graphical.target", "payload.service")
    for kind, name in (("vmlinuz-*", "vmlinuz"), ("initrd.img-*", "initrd")):
        found = sorted((root / "boot").glob(kind))
        if len(found) != 1:
            raise Unavailable(f"{suite}: {len(found)} of /boot/{kind}")
        shutil.copy(found[0], new / name)
    run("truncate", "-s", DISK_SIZE, new / "disk")
    run("mke2fs", "-q", "-F", "-t", "ext4", "-d", root, new / "disk")
    shutil.rmtree(root)


def sysroot():
    """Of the suite that the host runs: its cross compiler has libraries of its own, which must fit."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    need("mmdebstrap")
    recipe = (suite, SYSROOT_ARCH, SYSROOT_PACKAGES, SYSROOT_FOLDERS)
    return cached(f"sysroot-{SYSROOT_ARCH}", recipe, lambda new: make_sysroot(suite, new))


def make_sysroot(suite, new):
    """Packages are only unpacked, so nothing of the other architecture has to run, and dpkg here does not learn of it."""
    root = new / "root"
    run("mmdebstrap", "--mode=root", "--variant=extract", f"--architectures={SYSROOT_ARCH}",
        f"--include={','.join(SYSROOT_PACKAGES)}", suite, root, archive())
    # qemu-user looks for every path here first: what is no header and no library would hide the host's.
    for name in SYSROOT_FOLDERS:
        if (root / name).is_dir():
            (new / name).parent.mkdir(exist_ok=True)
            (root / name).rename(new / name)
    shutil.rmtree(root)
    if not (new / "lib").exists():  # packages of later suites have nothing there
        (new / "lib").symlink_to("usr/lib")
    for path in new.rglob("*"):
        if path.is_symlink() and os.path.isabs(target := os.readlink(path)):
            path.unlink()
            path.symlink_to(os.path.relpath(new / target.lstrip("/"), path.parent))
