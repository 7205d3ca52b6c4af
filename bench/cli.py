# SPDX-License-Identifier: Apache-2.0
"""How long people wait for osb: until it says its version, and for a whole `osb run host -- true` next to bwrap in the same run.
Where the published command line is installed (build/compat), the same with it; what osb does in one command takes it three."""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import ROOT, House, median, need_root, report  # noqa: E402

ROUNDS = 40
PUBLISHED_ROUNDS = 3
OSB = ROOT / "build/bin/osb"
PUBLISHED = ROOT / "build/compat/bin/osb"
BWRAP = ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink",
         "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "true"]  # fmt: skip


def run(*words, env=None):
    return subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, check=True).stdout


def timed(call):
    began = time.monotonic()
    call()
    return (time.monotonic() - began) * 1000


def published_run(env):
    sandbox = json.loads(run(PUBLISHED, "sandbox", "create", "--image", "host", "-o", "json", env=env))["id"]
    run(PUBLISHED, "command", "run", sandbox, "--", "true", env=env)
    run(PUBLISHED, "sandbox", "kill", sandbox, env=env)


def main():
    need_root("cli")
    with House() as house:
        env = {"PATH": os.environ["PATH"], "HOME": str(house.folder), "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{house.port}"}
        run(OSB, "run", "host", "--", "true", env=env)  # everybody has been there once
        run(*BWRAP)
        version, bwrap, ours = [], [], []
        for _ in range(ROUNDS):  # in turn: what disturbs one disturbs all
            version.append(timed(lambda: run(OSB, "--version", env=env)))
            bwrap.append(timed(lambda: run(*BWRAP)))
            ours.append(timed(lambda: run(OSB, "run", "host", "--", "true", env=env)))
        report("cli.version_ms", median(version), "ms", goal=10)
        report("cli.run", median(ours), "ms", "bwrap", median(bwrap), 3)
        if not PUBLISHED.exists():
            return
        report("cli.version.published", median(version), "ms", "published", median([timed(lambda: run(PUBLISHED, "--version", env=env))
                                                                                    for _ in range(PUBLISHED_ROUNDS)]))
        report("cli.run.published", median(ours), "ms", "published", median([timed(lambda: published_run(env)) for _ in range(PUBLISHED_ROUNDS)]))


main()
