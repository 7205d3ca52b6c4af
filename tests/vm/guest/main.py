# SPDX-License-Identifier: Apache-2.0
"""What runs in the machine: prints a line for each check (kit.Runner), "END" at last, and the machine goes off."""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import census  # noqa: E402
import features  # noqa: E402
import world  # noqa: E402
from kit import BIN, PAYLOAD, SERVICE, Runner, Service, Shell, check, create, install, listed, osb, osb_json, remove, run, sh, wait_for  # noqa: E402

STAGE, VOLUMES = pathlib.Path("/var/lib/vm-stage.json"), pathlib.Path("/var/lib/vm-volumes.json")
# Rows of doctor's that warn on a stock Debian, what they find there, and why that is right. Every other row must be ok.
EXPECTED = {
    "io weight": ("no scheduler with weights",),  # the disk has none until an administrator chooses bfq
    "io_uring": ("always on in this kernel", "kernel.io_uring_disabled is 0"),  # no setting before 6.6; Debian leaves it on
    "legacy TIOCSTI": ("always on in this kernel",),  # no setting before 6.2
    "kernel pointers": ("kernel.kptr_restrict is 0",),  # Debian's default, and the administrator's to change
}


def facts():
    os_release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    print(f"NOTE {os_release['PRETTY_NAME'].strip(chr(34))}, Linux {os.uname().release}, up for {up_s:.0f} s", flush=True)


def doctor():
    """Right after the start: modules of the kernel have not been used before."""
    report = json.loads(run(BIN / "opensandbox-server", "doctor", "--json", status=None))
    bad = [c for c in report["checks"] if c["outcome"] != "ok" and
           not (c["outcome"] == "warning" and c["detail"] in EXPECTED.get(c["name"], ()))]
    check(not bad and report["can_run"], json.dumps(bad, indent=1))
    kernel = next(c for c in report["checks"] if c["name"] == "version")
    check(kernel["outcome"] == "ok" and "tried" in kernel["detail"], kernel)


def everything(runner, way, plan):
    before = census.settled()
    if not runner.run(f"{way.name}: start", way.start):
        return
    for name, function, *args in features.table(plan["form"]):
        if plan["only"] in name:
            runner.run(f"{way.name}: {name}", function, *[way if a is features.WAY else a for a in args])
    runner.run(f"{way.name}: stop", stop, way, before)


def stop(way, before):
    """Nothing is left but files."""
    try:
        remove(*listed())
    finally:
        way.stop()
    census.compare({**before, "files": census.files()})


# ---- a machine that starts again ----


def pool_is_full():
    return osb_json("pool", "get", "warm")["status"]["available"] == 1


def reboot(runner):
    """Sandboxes run while the machine goes down; main() goes on with after_reboot()."""
    Service().start()
    run("systemctl", "enable", SERVICE)
    VOLUMES.write_text(json.dumps([{"name": "v", "mountPath": "/data", "pvc": {"claimName": "kept"}}]))
    plain, paused, user = create(), create(), create("--volumes-file", VOLUMES)
    sh(user, "echo kept >/data/f")
    sh(plain, "echo before >/root/f")
    snapshot = osb_json("snapshot", "create", plain, "--name", "before")["id"]
    osb("sandbox", "pause", paused)
    wait_for(lambda: osb_json("sandbox", "get", paused)["status"]["state"] == "Paused", "the pause")
    osb("pool", "create", "warm", "--image", "host", "--min", "1", "--max", "1")
    wait_for(pool_is_full, "the pool")
    STAGE.write_text(json.dumps({"sandboxes": [plain, paused, user], "snapshot": snapshot, "failed": runner.failed}))
    pathlib.Path("/run/rebooting").touch()
    os.sync()
    run("systemctl", "--no-block", "reboot")


def after_reboot(stage):
    """Those that ran or were paused have failed, say why, and nothing is left of them (S6). What is kept is there."""
    way = Service()
    wait_for(lambda: run("systemctl", "is-active", SERVICE, status=None).strip() == "active", "the service to start by itself")
    way.come_back()
    check(sorted(listed()) == sorted(stage["sandboxes"]), "listed are", listed(), "and not", stage["sandboxes"])
    for one in stage["sandboxes"]:
        status = osb_json("sandbox", "get", one)["status"]
        check(status["state"] == "Failed" and status["reason"].lower() == "host_restarted", status)
    remove(*stage["sandboxes"])
    check(osb("run", "-q", "-v", "kept:/data", "host", "--", "cat", "/data/f").strip() == "kept", "the volume's file is gone")
    check(osb("run", "-q", "--snapshot", stage["snapshot"], "--", "cat", "/root/f").strip() == "before", "the snapshot's file is gone")
    wait_for(pool_is_full, "the pool to be filled again")
    check(osb("run", "-q", "--pool", "warm", "host", "--", "echo", "pooled").strip() == "pooled", "no sandbox of the pool")
    osb("pool", "rm", "warm")
    osb("snapshot", "rm", stage["snapshot"])
    osb("volume", "rm", "kept")
    features.host_image()
    check(not listed(), "these are left:", listed())
    way.stop()


def main():
    plan = json.loads((PAYLOAD / "plan.json").read_text())
    runner = Runner()
    os.environ["HOME"] = "/root"
    facts()
    if STAGE.exists():
        world.start()
        runner.run("sandboxes of before a reboot", after_reboot, json.loads(STAGE.read_text()))
        print("END", flush=True)
        return
    if runner.run("installation", install):
        runner.run("doctor right after the start", doctor)
        world.start()
        for way in (Service(), Shell()):
            everything(runner, way, plan)
        if plan["form"] == "full" and plan["only"] in "docker":
            import docker
            docker.beside(runner)
        if plan["form"] == "full" and plan["only"] in "a reboot":
            runner.run("a reboot", reboot, runner)
            if pathlib.Path("/run/rebooting").exists():
                time.sleep(600)  # it is going down
    print("END", flush=True)


main()
