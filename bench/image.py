# SPDX-License-Identifier: Apache-2.0
"""Images: whether a large one that is present costs more than a small one, and how fast layers are unpacked.

MB and FILES are the size of the large one."""
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "bench/lib"), str(ROOT / "tests/lib")]
import oci  # noqa: E402
import registry  # noqa: E402
from house import House, median, need_root, report  # noqa: E402

MB = int(os.environ.get("MB", "1000"))
FILES = int(os.environ.get("FILES", "60000"))
ROUNDS = int(os.environ.get("ROUNDS", "60"))
POOL = 64 << 20


def pool():
    """Bytes as programs have them."""
    data = bytearray()
    for path in sorted(pathlib.Path("/usr/bin").iterdir()) + sorted(pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("*.so*")):
        if path.is_file() and not path.is_symlink() and len(data) < POOL:
            data += path.read_bytes()[:1 << 20]
    return bytes(data)


def large_members():
    """FILES files of MB together: most are small, some large."""
    data, rng = pool(), random.Random(1)
    large = min(MB * 8 // 10, FILES // 10)
    small_size = max((MB << 20) - (large << 20), 1 << 20) // max(FILES - large, 1)
    seen = set()
    for i in range(FILES):
        folder = f"opt/p{i // 97}"
        if folder not in seen:
            seen.add(folder)
            yield oci.folder(folder + "/")
        size = 1 << 20 if i % (FILES // large) == 0 and i // (FILES // large) < large else small_size
        at = rng.randrange(len(data) - size)
        yield oci.member(f"{folder}/f{i}", data=data[at:at + size])


def busybox_members():
    yield oci.folder("bin/")
    yield oci.member("bin/busybox", data=pathlib.Path("/bin/busybox").read_bytes(), mode=0o755)
    yield oci.symlink("bin/sh", "busybox")


# ---- creates ------------------------------------------------------------------------------------------------------


def create_ms(house, uri):
    """Until it is told as Running."""
    body = {"image": {"uri": uri}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600, "resourceLimits": {}}
    began = time.monotonic()
    answer = house.ask("POST", "/v1/sandboxes", body)
    took = (time.monotonic() - began) * 1000
    made = json.loads(answer)
    assert made["status"]["state"] == "Running", made
    house.delete(made["id"])
    time.sleep(0.05)
    return took


def wait_present(house, uri):
    """The first create pulls and unpacks it."""
    body = {"image": {"uri": uri}, "entrypoint": ["tail", "-f", "/dev/null"], "timeout": 3600, "resourceLimits": {}}
    made = json.loads(house.ask("POST", "/v1/sandboxes", body))
    while (state := house.get(f"/v1/sandboxes/{made['id']}")["status"])["state"] == "Pending":
        time.sleep(0.2)
    assert state["state"] == "Running", state
    house.delete(made["id"])


def compare_creates(folder, small, large):
    r = registry.Registry(folder / "registry")
    try:
        uris = [r.push(name, "v1", image) for name, image in (("small", small), ("large", large))]
        config = f'[[images.registries]]\nhost = "{r.host}"\ninsecure = true\nprivate = true\n'
        with House(config) as house:
            for uri in uris:
                wait_present(house, uri)
            for uri in uris * 3:
                create_ms(house, uri)
            taken = {uri: [] for uri in uris}
            for _ in range(ROUNDS):
                for uri in uris:
                    taken[uri].append(create_ms(house, uri))
    finally:
        r.stop()
    report("image.big_vs_small", median(taken[uris[1]]), "ms", "one layer of busybox", median(taken[uris[0]]), 1.2)


# ---- unpacking -----------------------------------------------------------------------------------------------------

LAYER_ADD = 12
REQUEST = struct.Struct("=IIQ64sIII4x5QI64sI64sI")
REPLY = struct.Struct("=IIQ64sIIIiiI13Q16s2QI32sii496s4x")


def add_layer(path, one, serial):
    """Seconds until the warden has it, on the disk."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, tempfile.TemporaryFile() as blob:
        s.connect(str(path))
        blob.write(one.blob)
        blob.flush()
        request = REQUEST.pack(1, LAYER_ADD, serial, b"", 0, 0, 0, 1, 1, 1, 1, 1, len(one.digest), one.digest,
                               len(one.diff_id), one.diff_id, 1) + struct.pack("=I32s", 1, one.digest)
        began = time.monotonic()
        socket.send_fds(s, [request], [blob.fileno()])
        answer = REPLY.unpack(s.recv(REPLY.size))
        assert answer[4] == 0, answer[-1].split(b"\0")[0]
        return time.monotonic() - began


def run_s(*argv):
    began = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True)
    return time.monotonic() - began


def compare_unpacking(folder, layers):
    size = sum(len(one.tar) for one in layers) / (1 << 20)
    layout = oci.write_layout(folder / "layout", layers)
    theirs, name = [], "umoci unpack, and sync"
    for i in range(3):
        if shutil.which("umoci"):
            took = run_s("umoci", "unpack", "--image", f"{layout}:latest", folder / f"bundle{i}")
        else:
            name, took = "tar, and sync", 0
            for k, one in enumerate(layers):
                (folder / f"bundle{i}").mkdir(exist_ok=True)
                (folder / f"blob{k}").write_bytes(one.blob)
                took += run_s("tar", "-xzf", folder / f"blob{k}", "-C", folder / f"bundle{i}")
        theirs.append(took + run_s("sync", "-f", folder))
        shutil.rmtree(folder / f"bundle{i}")
    ours = []
    with House() as house:
        for i in range(3):  # the same files in other blobs: a layer that is there is not unpacked again
            again = [oci.Layer(one.tar + b"\0" * 512 * i) for one in layers]
            ours.append(sum(add_layer(house.folder / "run/warden.sock", one, 1) for one in again))
    report("unpack.rate", size / median(ours), "MB/s", name, size / median(theirs), 0.8)


def main():
    need_root("image")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-bench-image-"))
    try:
        large = oci.layer(large_members())
        small = oci.layer(busybox_members())
        compare_unpacking(folder, [large])
        compare_creates(folder, registry.Image([small.tar]), registry.Image([small.tar, large.tar]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
