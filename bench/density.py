# SPDX-License-Identifier: Apache-2.0
"""A host with many idle sandboxes: what each costs, whether requests take longer than at a server with few and than on an empty host,
and how soon a killed server is back."""
import collections
import os
import pathlib
import random
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import House, median, need_root, report  # noqa: E402

COUNT = int(os.environ.get("COUNT", "1000"))
SAMPLE = 50
FEW = 20     # as many as a page of a list has
TURNS = 24   # of both servers
SAMPLES = 5  # of each kind in each turn
WARM = 2     # turns that do not count
ROUNDS = 20  # of ten creates and ten floors each
SETTLE_S = 2 # for slots that are still being made


def read(path, pattern):
    return [int(found) for found in re.findall(pattern, pathlib.Path(path).read_text(), re.M)]


def available_kb():
    """After all that can be dropped has been, the same way each time; deferred frees get a moment. With the free pages that
    processors keep for themselves: MemAvailable is without them, and how many there are, up to a tenth of all that is
    measured here, is chance."""
    for _ in range(3):
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
        time.sleep(1)
    kept = sum(read("/proc/zoneinfo", r"^ +count: +(\d+)$")) * os.sysconf("SC_PAGE_SIZE") // 1024
    return kept + read("/proc/meminfo", r"^MemAvailable: +(\d+) kB$")[0]


def slowdown(few, many):
    """The worst kind of request, by medians. Both servers are asked in turns, a few requests at a time: who else uses the machine
    disturbs both alike. So does the kernel where it is slower for everybody: this is what our own programs do with many."""
    time.sleep(SETTLE_S)
    taken = {house: collections.defaultdict(list) for house in (few, many)}
    for turn in range(WARM + TURNS):
        for house in (few, many) if turn % 2 else (many, few):
            for kind, samples in house.client("probe", SAMPLES, first=True).items():
                taken[house][kind] += samples if turn >= WARM else []
    both = [(kind, median(taken[few][kind]), median(taken[many][kind])) for kind in taken[few]]
    return max(both, key=lambda row: row[2] / row[1])


def creates(house):
    """Milliseconds of a create, and of a floor at the same time."""
    time.sleep(SETTLE_S)
    taken = house.client("floors", ROUNDS)
    return median(taken["create"]) / 1000, median(taken["floor"]) / 1000


def restart(house, ids):
    house.kill()
    began = time.monotonic()
    house.start()
    for sandbox in random.sample(ids, min(SAMPLE, len(ids))):
        house.ping(sandbox)
    return time.monotonic() - began


def main():
    need_root("density")
    with House() as house, House() as other:
        for sandbox in [house.create() for _ in range(8)]:  # everything has happened once
            house.delete(sandbox)
        empty_create, empty_floor = creates(house)
        kept = [other.create() for _ in range(FEW)]
        before = available_kb()
        ids = house.client("fill", COUNT)["id"]
        after = available_kb()
        kind, few, many = slowdown(other, house)
        full_create, full_floor = creates(house)
        ready_s = restart(house, ids)
        assert house.get("/v1/sandboxes?pageSize=1")["pagination"]["totalItems"] == COUNT
        for sandbox in ids:
            house.delete(sandbox)
        for sandbox in kept:
            other.delete(sandbox)
    report("density.mb", (before - after) / 1024 / COUNT, "MB", "goal", 0.9, 1.0)
    report("density.slowdown", many / 1000, "ms", f"{kind}, with {FEW}", few / 1000, 1.5)
    # In floors of the same moment: who else uses the machine disturbs both. The kernel may be slower for the floor, too: that is the next one.
    report("density.host_slowdown", full_create / full_floor, "floors", "a create on the empty host", empty_create / empty_floor)
    report("density.floor_slowdown", full_floor, "ms", "a floor on the empty host", empty_floor)
    report("restart.ready_s", ready_s, "s", "goal", 5.0, 1.0)


main()
