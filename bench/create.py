# SPDX-License-Identifier: Apache-2.0
"""Creating sandboxes over HTTP against the floor of the same run, and a whole cycle (create, `true`, delete) against bwrap
and, where they are installed, an OCI runtime and docker."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import House, median, need_root, percentile, report  # noqa: E402

ROUNDS = 20  # of ten each
RATE_ROUNDS = 5
RATE_SECONDS = 2
OCI_ROUNDS = 15


def ms(samples, p):
    return percentile(samples, p) / 1000


def timed(argv):
    began = time.monotonic()
    if subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        return None
    return (time.monotonic() - began) * 1000


def oci_bundle(runtime, folder):
    """The runtime's own default, with the host's /usr below an empty root."""
    root = folder / "rootfs"
    for name in ("usr", "proc", "dev", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    subprocess.run([runtime, "spec"], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"].update(args=["true"], terminal=False)
    config["mounts"].append({"destination": "/usr", "source": "/usr", "type": "none", "options": ["rbind", "ro"]})
    (folder / "config.json").write_text(json.dumps(config))


def measure_oci(runtime):
    """Milliseconds of `run true`, or None where it does not work."""
    with tempfile.TemporaryDirectory(prefix="osb-bench-") as d:
        oci_bundle(runtime, pathlib.Path(d))
        took = [timed([runtime, "run", "--bundle", d, f"osb-bench-{i}"]) for i in range(OCI_ROUNDS)]
    return None if None in took else median(took)


def measure_docker():
    if timed(["docker", "image", "inspect", "busybox"]) is None:
        return None
    took = [timed(["docker", "run", "--rm", "--network", "none", "busybox", "true"]) for _ in range(5)]
    return None if None in took else median(took)


def main():
    need_root("create")
    with House() as house:
        house.client("latency", 2)  # everybody has been there once
        taken = house.client("latency", ROUNDS)
        rates = house.client("rate", RATE_ROUNDS, RATE_SECONDS)
    floor, create, cycle = taken["floor"], taken["create"], taken["cycle"]
    report("create.p50", ms(create, 50), "ms", "floor", ms(floor, 50), 1.5)
    report("create.p99", ms(create, 99), "ms", "floor", ms(floor, 99), 2.5)
    report("create.rate8", median(rates["create.rate"]), "1/s", "floor", median(rates["floor.rate"]), 0.5)
    report("cycle.p50", ms(cycle, 50), "ms", "bwrap", ms(taken["bwrap"], 50), 1.0)
    report("delete.p50", ms(taken["delete"], 50), "ms", "floor", ms(floor, 50))
    for runtime in ("crun", "runc"):
        theirs = measure_oci(runtime) if shutil.which(runtime) else None
        if theirs:
            report("cycle.p50", ms(cycle, 50), "ms", runtime, theirs)
    theirs = measure_docker() if shutil.which("docker") else None
    if theirs:
        report("cycle.p50", ms(cycle, 50), "ms", "docker", theirs)


main()
