# SPDX-License-Identifier: Apache-2.0
"""A machine of QEMU's that runs one payload and tells line by line how it goes."""
import os
import platform
import queue
import shutil
import subprocess
import threading
import time
from pathlib import Path

from debian import Unavailable, cache, locked

QEMU = os.environ.get("OPENSANDBOX_QEMU", "qemu-system-x86_64")
MEMORY_MB, CPUS = 3072, 2
KVM_TRIAL_S = 20
# Emulated, kernel 6.12 crashes at its start where the processor has cmpxchg16b (QEMU 7.2).
EMULATED = ["-accel", "tcg,thread=multi", "-cpu", "Nehalem,-cx16"]
KVM = ["-accel", "kvm", "-cpu", "host"]
TAIL_LINES = 40


def accelerator(machine):
    """Arguments for QEMU. Some hosts have a /dev/kvm that runs no ordinary guest: the kernel must say something, once."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return EMULATED
    with locked("kvm"):
        known = cache() / f"kvm-{platform.release()}"
        if not known.exists():
            known.write_text("yes" if kvm_works(machine) else "no")
        return KVM if known.read_text() == "yes" else EMULATED


def kvm_works(machine):
    """The kernel finds no root file system, panics and ends QEMU; one that hangs or says nothing has failed."""
    try:
        p = subprocess.run([QEMU, *KVM, "-machine", "q35", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
                            "-kernel", str(machine / "vmlinuz"), "-append", "console=ttyS0 panic=-1"], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=KVM_TRIAL_S)
    except subprocess.TimeoutExpired:
        return False
    return b"Kernel panic" in p.stdout


class Machine:
    """FOLDER is debian.machine()'s; the disk stays as it is, whatever is written to it. CONSOLE gets what the kernel says. It ends
    with the process that started it."""

    def __init__(self, folder, payload, console):
        if not shutil.which(QEMU):
            raise Unavailable(f"no {QEMU} here")
        self.console = Path(console)
        self.console.write_bytes(b"")
        how = accelerator(folder)
        self.is_emulated = how is EMULATED
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", QEMU, *how, "-machine", "q35", "-smp", str(CPUS), "-m", str(MEMORY_MB), "-nodefaults", "-display", "none", "-snapshot",
             "-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initrd"),
             "-append", "root=/dev/vda rw console=ttyS0 quiet panic=0 systemd.show_status=0",
             "-drive", f"file={folder / 'disk'},if=virtio,format=raw", "-drive", f"file={payload},if=virtio,format=raw,readonly=on",
             "-nic", "user,model=virtio-net-pci,restrict=on", "-device", "virtio-rng-pci",
             "-serial", f"file:{self.console}", "-serial", "stdio"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="replace").rstrip("\r\n"))
        self.lines.put(None)

    def line(self, deadline):
        """The next one; None at the end. TimeoutError: nothing came in time."""
        while True:
            try:
                return self.lines.get(timeout=min(1.0, max(0.01, deadline - time.monotonic())))
            except queue.Empty:
                if "Kernel panic" in self.tail():
                    raise RuntimeError("its kernel has panicked") from None
                if time.monotonic() >= deadline:
                    raise TimeoutError from None

    def tail(self):
        """The end of what was said on its console."""
        data = self.console.read_bytes()[-64 * 1024:].decode(errors="replace").replace("\r", "")
        return "\n".join(data.splitlines()[-TAIL_LINES:])

    def close(self):
        self.process.kill()
        self.process.wait()
