# SPDX-License-Identifier: Apache-2.0
"""A short check of every feature, against a server that runs. FEATURES has them in their order."""
import contextlib
import json
import os
import pathlib
import re
import tempfile
import time

import world
from kit import BOXES, PAYLOAD, Failed, check, create, osb, osb_json, remove, run, sandbox, sh, wait_for

FETCH = """import urllib.request
try:
    print(urllib.request.urlopen("http://{}/", timeout={}).read().decode())
except OSError as e:
    print("refused:", e)
"""
FORKS = """import subprocess
started = []
try:
    for _ in range(200):
        started.append(subprocess.Popen(["sleep", "5"]))
except OSError as e:
    print(e.errno)
print(len(started))
for p in started:
    p.kill()
    p.wait()
"""
SPIN = """import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() < began + 4:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""
CGROUPS, BOXES_GROUP = pathlib.Path("/sys/fs/cgroup"), f"system.slice/{BOXES}"
ALLOCATED, UNIT_LIMIT = 300 << 20, 256 << 20
COUNTER = "n=0; while :; do n=$((n+1)); echo $n >/tmp/n; sleep 0.2; done"


def python(one, program):
    """What a program prints in a sandbox."""
    return sh(one, f"python3 - <<'END'\n{program}END")


def fetch(one, name, timeout=30):
    return python(one, FETCH.format(name, timeout))


def is_refused(one, name):
    """Somebody who is not answered waits for a while: a short one."""
    return "refused" in fetch(one, name, timeout=3)


def counts(one):
    """The program of COUNTER goes on."""
    was = int(sh(one, "cat /tmp/n"))
    wait_for(lambda: int(sh(one, "cat /tmp/n") or 0) > was, "the program in the sandbox to go on")


# ---- images ----


def host_image():
    with sandbox() as one:
        told = sh(one, "id -u; hostname; ls /proc | grep -c '^[0-9]'").split()
        check(told[0] == "0" and told[1] != os.uname().nodename and int(told[2]) < 10, "not what is in a sandbox:", told)
        check(sh(one, "echo hello >/root/f && cat /root/f") == "hello", "no file")
        osb("command", "run", one, "--", "sh", "-c", "exit 7", status=7)
    check(osb("run", "-q", "host", "--", "python3", "-c", "print(6*7)").strip() == "42", "osb run")


def image(count):
    osb("image", "load", "-q", PAYLOAD / f"images/{count}.tar", "--name", f"layers-{count}:latest")
    with sandbox(image=f"layers-{count}:latest") as one:
        check(sh(one, "ls /layers | wc -l; cat /top").split() == [str(count)] * 2, "layers are missing", sh(one, "ls /layers; cat /top"))
        check(sh(one, "echo x >/top; echo y >/layers/new; cat /top /layers/new").split() == ["x", "y"], "it cannot be written to")
    osb("image", "rm", f"layers-{count}:latest")


# ---- limits ----


def memory():
    with sandbox("--resource", "memory=96Mi") as one:
        osb("command", "run", one, "--", "python3", "-c", "x = bytearray(300 << 20); print(len(x))", status=137)
        check(sh(one, "echo alive") == "alive", "the sandbox has died")


def group_of(mark):
    """The control group of the process `sleep MARK`, in a sandbox, as the host sees it."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == b"sleep\0%d\0" % mark:
                return next(line[3:] for line in (path.parent / "cgroup").read_text().splitlines() if line.startswith("0::"))
    raise Failed(f"no process sleeps for {mark} s")


def own_limit(group):
    """The least that a group below the one of all sandboxes may have."""
    place, limits = CGROUPS / group.strip("/"), []
    while place not in (CGROUPS, CGROUPS / BOXES_GROUP):
        limits += [int(n) for n in [(place / "memory.max").read_text().strip()] if n != "max"]
        place = place.parent
    return min(limits)


def allocate(one, status):
    osb("command", "run", one, "--", "python3", "-c", f"x = bytearray({ALLOCATED}); print(len(x))", status=status)


def unit(way):
    """Sandboxes of the service are below the unit that is there for them, whose limits hold for all of them; those of a shell are not."""
    with sandbox("--resource", "memory=1Gi", "--entrypoint", "sleep", "--entrypoint", "86397") as one, sandbox() as other:
        group = group_of(86397)
        if way.name != "service":
            check(not re.match(r"/[^/]+\.slice/", group), "a sandbox is in a group of systemd's:", group)
            return
        check(group.startswith(f"/{BOXES_GROUP}/"), "a sandbox is not below the unit:", group)
        check(own_limit(group) == 1 << 30, "its own limit is", own_limit(group))
        allocate(one, 0)
        run("systemctl", "set-property", "--runtime", BOXES, f"MemoryMax={UNIT_LIMIT}")
        try:
            check(int((CGROUPS / BOXES_GROUP / "memory.max").read_text()) == UNIT_LIMIT, "the unit's limit has not come to the kernel")
            allocate(one, 137)
        finally:
            run("systemctl", "set-property", "--runtime", BOXES, "MemoryMax=infinity")
        check(run("systemctl", "is-active", BOXES).strip() == "active", "the unit has ended for one that was out of memory")
        check([sh(each, "echo alive") for each in (one, other)] == ["alive"] * 2, "a sandbox has died")
        allocate(one, 0)
        run("systemctl", "daemon-reload")
        check(own_limit(group) == 1 << 30, "after a reload of systemd its own limit is", own_limit(group))


def pids():
    with sandbox("--resource", "pids=40") as one:
        error, started = python(one, FORKS).split()
        check(error == "11" and int(started) < 40, "it started", started, error)


def cpu():
    """A program that always wants the processor gets a fifth of one."""
    with sandbox("--resource", "cpu=200m") as one:
        share = float(python(one, SPIN))
        check(share < 0.5, "it had", share)


def disk():
    with sandbox("--resource", "disk=64Mi") as one:
        text = sh(one, "dd if=/dev/zero of=/root/big bs=1M count=200 2>&1; stat -c %s /root/big; rm /root/big; echo x >/root/small && echo fits")
        check("No space left" in text or "quota" in text, text)
        check(text.endswith("fits"), text)


def pause():
    with sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint", COUNTER) as one:
        counts(one)
        osb("sandbox", "pause", one)
        wait_for(lambda: osb_json("sandbox", "get", one)["status"]["state"] == "Paused", "the pause")
        group = frozen()
        check(group, "no group is frozen")
        osb("sandbox", "resume", one)
        counts(one)


def frozen():
    """Groups whose processes stand still."""
    return [p for p in CGROUPS.rglob("cgroup.events") if "frozen 1" in p.read_text()]


# ---- network ----


def network():
    with sandbox() as one:
        check(fetch(one, "good.test") == f"from {world.GOOD}", "by name:", fetch(one, "good.test"))
        check(fetch(one, world.BAD) == f"from {world.BAD}", "by address:", fetch(one, world.BAD))
        check(is_refused(one, "10.0.2.2"), "a private address is reached")


def policy():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump({"defaultAction": "deny", "egress": [{"action": "allow", "target": "good.test"}]}, f)
        f.flush()
        with sandbox("--network-policy-file", f.name) as one:
            check(fetch(one, "good.test") == f"from {world.GOOD}", "what is allowed:", fetch(one, "good.test"))
            check(is_refused(one, "bad.test") and is_refused(one, world.BAD), "what is denied is reached")
            osb("egress", "patch", one, "--rule", "allow=bad.test")
            check(fetch(one, "bad.test") == f"from {world.BAD}", "what was allowed later:", fetch(one, "bad.test"))


def endpoint():
    """A port of a sandbox, through the server."""
    with sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint",
                 "mkdir /srv/w && echo served >/srv/w/index.html && exec python3 -m http.server 8000 -d /srv/w") as one:
        answer = osb_json("sandbox", "endpoint", one, "-p", "8000")
        words = [w for k, v in (answer.get("headers") or {}).items() for w in ("-H", f"{k}: {v}")]
        code = "import sys, urllib.request as u\nr = u.Request('http://' + sys.argv[1] + '/')\n" \
               "for h in sys.argv[3::2]: r.add_header(*h.split(': ', 1))\nprint(u.urlopen(r, timeout=60).read().decode())"
        get = lambda: run("python3", "-c", code, answer["endpoint"], *words, status=None).strip() == "served"  # noqa: E731
        wait_for(get, "the page")


# ---- files that stay ----


def volumes():
    osb("run", "-q", "-v", "kept:/data", "host", "--", "sh", "-c", "echo kept >/data/f")
    check(osb("run", "-q", "-v", "kept:/data", "host", "--", "cat", "/data/f").strip() == "kept", "the file is gone")
    osb("volume", "rm", "kept")


def snapshots():
    with sandbox() as one:
        sh(one, "echo first >/root/f")
        snapshot = osb_json("snapshot", "create", one, "--name", "before")["id"]
        sh(one, "echo second >/root/f; echo more >/root/g")
        forks = [f["id"] for f in osb_json("fork", one, "--count", "2")["items"]]
        try:
            check([sh(f, "cat /root/f /root/g").split() for f in forks] == [["second", "more"]] * 2, "a fork lacks files")
        finally:
            remove(*forks)
        osb("rollback", one, snapshot)
        check(sh(one, "cat /root/f; ls /root/g 2>/dev/null || echo none").split() == ["first", "none"], "it was not rolled back")
        check(osb("run", "-q", "--snapshot", snapshot, "--", "cat", "/root/f").strip() == "first", "a snapshot lacks files")
    osb("snapshot", "rm", *[s["id"] for s in osb_json("snapshot", "ls")["items"]])


def pool():
    osb("pool", "create", "warm", "--image", "host", "--min", "1", "--max", "2")
    try:
        check(osb("run", "-q", "--pool", "warm", "host", "--", "echo", "pooled").strip() == "pooled", "no sandbox of the pool")
    finally:
        osb("pool", "rm", "warm")


def code():
    with sandbox("--resource", "memory=512Mi") as one:
        osb("code", "run", one, "x = 6")
        check(osb("code", "run", one, "x * 7").strip() == "42", "no variable of an earlier run")


# ---- servers that come and go ----


def killed(way):
    """kill -9 of everything: sandboxes go on, and are found again."""
    from kit import kill_all, listed
    with sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint", COUNTER) as one:
        counts(one)
        kill_all()
        way.come_back()
        check(one in listed(), "the sandbox is not listed")
        counts(one)
        check(fetch(one, "good.test") == f"from {world.GOOD}", "no network:", fetch(one, "good.test"))
        with sandbox() as other:
            check(sh(other, "echo new") == "new", "no new one")


def restarted(way):
    with sandbox("--entrypoint", "sh", "--entrypoint", "-c", "--entrypoint", COUNTER) as one:
        counts(one)
        way.restart()
        counts(one)
        check(fetch(one, "good.test") == f"from {world.GOOD}", "no network:", fetch(one, "good.test"))


def cycles(count):
    """Sandboxes come and go; nothing is left of them."""
    import census
    with sandbox() as one:
        sh(one, "true")
    before = census.settled()
    for n in range(count):
        one = create("--resource", "memory=128Mi")
        if n % 10 == 0:
            check(sh(one, f"echo {n}") == str(n), "no answer")
        remove(one)
    census.compare(before)


def table(form):
    """(name, function, arguments); those with WAY get how the server was started."""
    return [
        ("a sandbox of the host's own files", host_image), ("an image with 1 layer", image, 1), ("an image with 20 layers", image, 20),
        ("an image with 128 layers", image, 128), ("a memory limit", memory), ("a process limit", pids), ("a cpu limit", cpu),
        ("a disk limit", disk), ("the unit of all sandboxes", unit, WAY), ("pause and resume", pause), ("the network", network), ("a network policy", policy),
        ("a port", endpoint), ("volumes", volumes), ("snapshot, fork and rollback", snapshots), ("a pool", pool), ("python code", code),
        ("kill -9 of everything", killed, WAY), ("a restart", restarted, WAY),
        (f"{10 if form == 'short' else 50} sandboxes come and go", cycles, 10 if form == "short" else 50),
    ]


WAY = object()
