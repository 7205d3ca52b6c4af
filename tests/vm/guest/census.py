# SPDX-License-Identifier: Apache-2.0
"""All that there is in this machine, counted by name: what sandboxes leave behind shows as a difference."""
import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

from kit import RUN, STATE, Failed

NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|\d+")
CGROUPS = "/sys/fs/cgroup"
# What systemd starts and ends as it likes.
OTHERS = re.compile(r"systemd-(tmpfiles|userdbd|userwork|hostnamed|timedated|udevd)|\(sd-pam\)|\(udev-worker\)|"
                    r"run-|user@|init.scope|-\.mount|\.timer")


def plain(name):
    return NUMBERS.sub("#", name)


def processes():
    found = collections.Counter()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            if os.path.exists(f"/proc/{pid}/exe") and os.readlink(f"/proc/{pid}/exe") and not OTHERS.search(name):
                found[plain(name)] += 1
    return found


def groups():
    return collections.Counter(plain(path) for path, _, _ in os.walk(CGROUPS) if not OTHERS.search(path))


def mounts():
    """Of this namespace and all that processes are in."""
    found, seen = collections.Counter(), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            space = os.readlink(f"/proc/{pid}/ns/mnt")
            if space in seen:
                continue
            seen.add(space)
            if OTHERS.search(pathlib.Path(f"/proc/{pid}/comm").read_text()):
                continue
            for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
                found[plain(" ".join(line.split()[3:5]))] += 1
    return found


def rules():
    """Of nftables, with the elements of sets. Counters and numbers of rules are no difference, nor are elements that expire."""
    text = subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, check=True).stdout
    found = collections.Counter()

    def walk(value):
        if isinstance(value, dict):
            return {k: walk(v) for k, v in value.items() if k not in ("handle", "packets", "bytes")}
        return [walk(v) for v in value] if isinstance(value, list) else value

    for item in json.loads(text)["nftables"]:
        if "metainfo" not in item:
            for kind, body in walk(item).items():
                elements = len([e for e in body.pop("elem", []) if "expires" not in json.dumps(e)]) if isinstance(body, dict) else 0
                found[f"{kind} {json.dumps(body, sort_keys=True)[:120]}"] += 1
                found[f"elements of {body.get('name')}"] += elements
    return +found


def ip(*words):
    """Rows of iproute2; none, where this kernel has no such family."""
    out = subprocess.run(["ip", "-j", *words], capture_output=True, check=False).stdout
    return json.loads(out) if out.strip() else []


def address(text):
    """Those that the kernel makes from the random address of a link are one."""
    return "fe80::#" if text.startswith("fe80:") else plain(text)


def network():
    """Addresses, rules and routes, of both families and all tables. Times that run out are no difference."""
    found = collections.Counter()
    for link in ip("address"):
        for a in link.get("addr_info", []):
            found[f"address {plain(link['ifname'])} {plain(a.get('label', ''))} {address(a['local'])}/{a['prefixlen']}"] += 1
    for family in ("-4", "-6"):
        for rule in ip(family, "rule"):
            found[f"rule {family} {plain(json.dumps(rule, sort_keys=True))}"] += 1
        for route in ip(family, "route", "show", "table", "all"):
            found[f"route {family} {route.get('type', 'unicast')} {address(route['dst'])} {plain(route.get('dev', ''))} "
                  f"table {plain(str(route.get('table', 'main')))}"] += 1
    return found


def files():
    found = collections.Counter()
    for top in (STATE, RUN):
        for path, _, names in os.walk(top):
            for name in names:
                full = os.path.join(path, name)
                if not re.search(r"sqlite-(wal|shm)$", name):
                    found[plain(full)] += 1
    return found


def take():
    return {"processes": processes(), "groups": groups(), "mounts": mounts(), "links": len(os.listdir("/sys/class/net")),
            "loops": len([*pathlib.Path("/sys/block").glob("loop*/loop")]), "rules": rules(),
            "network": network(), "files": files()}


def difference(before, after):
    lines = []
    for key, was in before.items():
        now = after[key]
        if isinstance(was, collections.Counter):
            lines += [f"{key}: {name}: {was[name]} -> {now[name]}" for name in sorted({*was, *now}) if was[name] != now[name]]
        elif was != now:
            lines.append(f"{key}: {was} -> {now}")
    return "\n".join(lines)


def settled(seconds=60):
    """One that stays as it is for a while."""
    last, end = take(), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(2)
        now = take()
        if now == last:
            return now
        last = now
    return last


def compare(before, seconds=60):
    """Within SECONDS everything is as it was (G10)."""
    end = time.monotonic() + seconds
    while (found := difference(before, take())):
        if time.monotonic() > end:
            raise Failed(f"the census has changed:\n{found}")
        time.sleep(1)
