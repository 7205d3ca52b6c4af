# SPDX-License-Identifier: Apache-2.0
"""A host with many idle sandboxes: what each costs, whether requests slow down, and how soon a killed server is back."""
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
EDGE = 100  # creates at each end that are compared


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


def slowdown(taken):
    """Of each kind of request, the last ones against the first ones; the worst of them."""
    kinds = {"create": (median([v for i in range(1, EDGE + 1) for v in taken[f"create@{i}"]]),
                        median([v for i in range(COUNT - EDGE + 1, COUNT + 1) for v in taken[f"create@{i}"]]))}
    for kind in ("get", "list"):
        kinds[kind] = median(taken[f"{kind}@{EDGE}"]), median(taken[f"{kind}@{COUNT}"])
    return max((last / first, kind, first, last) for kind, (first, last) in kinds.items())


def restart(house, ids):
    house.kill()
    began = time.monotonic()
    house.start()
    for sandbox in random.sample(ids, min(SAMPLE, len(ids))):
        house.ping(sandbox)
    return time.monotonic() - began


def main():
    need_root("density")
    with House() as house:
        for sandbox in [house.create() for _ in range(8)]:  # everything has happened once
            house.delete(sandbox)
        before = available_kb()
        taken = house.client("fill", COUNT)
        after = available_kb()
        ids = taken["id"]
        ready_s = restart(house, ids)
        assert house.get("/v1/sandboxes?pageSize=1")["pagination"]["totalItems"] == COUNT
        for sandbox in ids:
            house.delete(sandbox)
    _, kind, first, last = slowdown(taken)
    report("density.mb", (before - after) / 1024 / COUNT, "MB", "goal", 0.9, 1.0)
    report("density.slowdown", last / 1000, "ms", f"{kind}, the first", first / 1000, 1.5)
    report("restart.ready_s", ready_s, "s", "goal", 5.0, 1.0)


main()
