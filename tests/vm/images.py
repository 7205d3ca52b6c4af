# SPDX-License-Identifier: Apache-2.0
"""OCI images of busybox with few and with many layers, as archives that `osb image load` takes."""
import tarfile
import tempfile
from pathlib import Path

import oci

COUNTS = (1, 20, 128)  # 128: as many as an image may have
BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "cat", "ls", "wc", "sleep", "tail", "echo", "id", "wget", "true")


def base():
    yield oci.folder("bin")
    yield oci.folder("layers")
    yield oci.member("bin/busybox", data=BUSYBOX.read_bytes(), mode=0o755)
    for name in APPLETS:
        yield oci.symlink(f"bin/{name}", "busybox")
    yield oci.member("layers/1", data=b"1\n")
    yield oci.member("top", data=b"1\n")


def layers(count):
    """Each adds a file and changes one: all of them count, in their order."""
    return [oci.layer(list(base())), *(oci.layer([oci.member(f"layers/{n}", data=b"%d\n" % n), oci.member("top", data=b"%d\n" % n)])
                                       for n in range(2, count + 1))]


def write(folder):
    (folder / "images").mkdir()
    for count in COUNTS:
        with tempfile.TemporaryDirectory(prefix="osb-vm-") as layout, tarfile.open(folder / f"images/{count}.tar", "w") as tar:
            oci.write_layout(Path(layout), layers(count), tag=f"layers-{count}:latest", config={"Cmd": ["sleep", "1000"]})
            for entry in sorted(Path(layout).iterdir()):
                tar.add(entry, entry.name)
