# SPDX-License-Identifier: Apache-2.0
"""Everything that one installation has on this host, counted: what is left behind shows as a difference.

Numbers of boxes, process ids and inodes are left out: a census after a restart equals the one before it."""
import collections
import contextlib
import glob
import os
import pathlib
import re
import struct
import time

import network_left

CGROUPS = pathlib.Path("/sys/fs/cgroup")
NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")
NUMBERS = re.compile(r"\bb\d+\b|(?<=host-)[0-9a-f-]+|(?<=stderr\.)\d+|(?<=[\[:/])\d+(?=\]|/|$)")


def plain(name):
    return NUMBERS.sub("#", name)


def tops(prefix):
    return [pathlib.Path(p) for depth in ("", "*/", "*/*/") for p in glob.glob(f"{CGROUPS}/{depth}{prefix}")]


def groups(prefix):
    """How many groups of each name, in all hierarchies."""
    found = collections.Counter()
    for top in tops(prefix):
        for path, _, _ in os.walk(top):
            found[plain(path.removeprefix(str(CGROUPS)))] += 1
    return found


def frozen(prefix):
    """Groups that were told to stand still themselves: of v1 and of v2."""
    found = []
    for top in tops(prefix):
        for path, _, _ in os.walk(top):
            for name in "freezer.self_freezing", "cgroup.freeze":
                with contextlib.suppress(OSError):
                    found += [path] * (pathlib.Path(path, name).read_text().strip() == "1")
    return found


def processes(prefix):
    """The processes in our groups: those of sandboxes, and slots that wait."""
    pids = set()
    for top in tops(prefix):
        for path, _, _ in os.walk(top):
            with contextlib.suppress(OSError):
                pids.update(int(p) for p in pathlib.Path(path, "cgroup.procs").read_text().split())
    return pids


def init_of(home, name):
    """PID 1 of a sandbox, as the host knows it: it stands in the file of the box (warden/box_file.c)."""
    for path in home.state.glob("boxes/*/box"):
        data = path.read_bytes()
        if data[8:72].split(b"\0")[0].decode() == name:
            return struct.unpack_from("=i", data, 120)[0]
    raise AssertionError(f"there is no box of {name}")


def workers(pids):
    """Processes that work for one of PIDS and are no sandbox: their groups are not ours. The maker of slots and the changer of rules stay."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(p) for p in found if name_of(p) not in ("osb-maker", "osb-changer")]


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return None


def namespaces(pids):
    """How many of each kind, beyond the host's own."""
    found = {kind: set() for kind in NAMESPACES}
    for pid in pids:
        for kind in NAMESPACES:
            with contextlib.suppress(OSError):
                found[kind].add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    for kind in NAMESPACES:
        found[kind].discard(os.readlink(f"/proc/self/ns/{kind}"))
    return {kind: len(inodes) for kind, inodes in found.items()}


def mounts(folder, pids):
    """Mounts that show something of FOLDER: the host's own, and those of all other namespaces but the sandboxes'."""
    seen = {os.readlink(f"/proc/{pid}/ns/mnt") for pid in pids if os.path.exists(f"/proc/{pid}/ns/mnt")}
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            space = os.readlink(f"/proc/{pid}/ns/mnt")
            if space not in seen:
                seen.add(space)
                count += pathlib.Path(f"/proc/{pid}/mountinfo").read_text().count(str(folder))
    return count


def descriptors(pid):
    found = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found[plain(os.readlink(f"/proc/{pid}/fd/{fd}")).replace(" (deleted)", "")] += 1
    return found


def folders(server):
    found, home = collections.Counter(), server.home
    for path in home.state, home.run:
        for entry in [*path.glob("*"), *path.glob("boxes/*"), *path.glob("stage/*")]:
            found[plain(str(entry.relative_to(home.folder)))] += 1
    found["layers that nobody needs"] = stale_layers(server)
    return found


def store(server):
    """Where disks and layers are: a mount of the warden's own."""
    return pathlib.Path(f"/proc/{server.warden_pid}/root{server.home.state}/store")


def stale_layers(server):
    """Each start of the warden makes a layer of its own; a box keeps the one that it was made with."""
    layers = sorted(store(server).glob("layers/host-*"), key=lambda p: p.stat().st_mtime)
    boxes = b"".join(box.read_bytes() for box in server.home.state.glob("boxes/*/box"))
    return len([p for p in layers[:-1] if p.name.encode() not in boxes])


def snapshots(server):
    """Layers that sandboxes can be made from, in the warden's own mounts."""
    return len([*store(server).glob("layers/snap-*"), *store(server).glob("layers/part-*")])


def interfaces(server):
    return server.netns.links() if server.netns else os.listdir("/sys/class/net")


def elements(server):
    """How many elements each set and map of the rules has, but for those that go by themselves."""
    rules = network_left.dump(server.home.prefix, server.netns and server.netns.name)
    kept = [row.get("set") or row.get("map") for row in rules if "set" in row or "map" in row]
    return {s["name"]: len(s.get("elem", [])) for s in kept if "timeout" not in s and "dynamic" not in s.get("flags", [])}


def belongings(server):
    """What take() does not count, as some tests leave images: disks and layers by kind, policies, elements of the rules by set."""
    place, found = store(server), collections.Counter()
    for path in [*place.glob("disks/*"), *place.glob("layers/*")]:
        kind = plain(path.name).partition("-")[0]
        if kind != "host":  # those are stale_layers()
            found[f"{path.parent.name}/{kind}"] += 1
    found["policies"] = len([*server.home.state.glob("egress/*")])
    found.update({f"elements of {name}": n for name, n in elements(server).items()})
    return +found


def loops(folder):
    count = 0
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            count += str(folder) in backing.read_text()
    return count


def take(server):
    """Of a server that runs (conftest.Server)."""
    home = server.home
    inside = processes(home.prefix)
    ours = [server.process.pid, server.pid, server.warden_pid]
    return {
        "processes": len(inside),
        "workers": len([p for p in workers(ours[1:]) if p not in inside]),
        "namespaces": namespaces(inside),
        "mounts": mounts(home.folder, inside),
        "groups": groups(home.prefix),
        "interfaces": len([n for n in interfaces(server) if n.startswith(home.prefix)]),
        "network": [n for n in network_left.left(home.prefix, server.netns and server.netns.name) if "_" not in n],
        "folders": folders(server),
        "loops": loops(home.folder),
        "snapshots": snapshots(server),
        "descriptors": dict(zip(("supervisor", "server", "warden"), map(descriptors, ours))),
    }


def difference(before, after):
    """What differs, as text; empty: nothing."""
    lines = []
    for key in before:
        if isinstance(before[key], dict):
            for name in {*before[key], *after[key]}:
                was, now = before[key].get(name, 0), after[key].get(name, 0)
                if isinstance(was, collections.Counter) and was != now:
                    lines.append(f"{key} of {name}: more {dict(now - was)}, fewer {dict(was - now)}")
                elif was != now:
                    lines.append(f"{key} {name}: {was} -> {now}")
        elif before[key] != after[key]:
            lines.append(f"{key}: {before[key]} -> {after[key]}")
    return "\n".join(lines)


def settled(server, seconds=10):
    """A census that stays as it is for a moment: what goes on in the background is over."""
    until = time.monotonic() + seconds
    last = None
    while time.monotonic() < until:
        with contextlib.suppress(OSError, IndexError):
            now = take(server)
            if last == now and now["workers"] == 0:
                return now
            last = now
        time.sleep(0.1)
    raise AssertionError(f"the census does not settle: {last}")


def without_idle(before, after):
    """AFTER, but with the connections that BEFORE had, kept for reuse, and that were closed since."""
    alike = dict(after)
    for key, named in before.items():
        if isinstance(named, dict) and any(isinstance(was, collections.Counter) for was in named.values()):
            alike[key] = {name: before[key][name] if name in before[key] and not now - before[key][name] and {*(before[key][name] - now)} <= {"socket:[#]"}
                          else now for name, now in after[key].items()}
    return alike


def check(server, before, seconds=5):
    """Within SECONDS everything is as it was (G10)."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, IndexError):
            after = take(server)
            if without_idle(before, after) == before:
                return
        if time.monotonic() > until:
            log = "\n".join(line for line in server.stderr.splitlines() if " info request " not in line)
            raise AssertionError(f"the census has changed:\n{difference(before, after)}\n{log[-3000:]}")
        time.sleep(0.05)


def gone(home):
    """After a server that left no sandbox has stopped: nothing but files of the state directory."""
    assert not groups(home.prefix), groups(home.prefix)
    assert not network_left.left(home.prefix), network_left.left(home.prefix)
    assert not list(home.state.glob("boxes/*")) and mounts(home.folder, []) == 0 and loops(home.folder) == 0
