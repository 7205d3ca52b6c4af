# SPDX-License-Identifier: Apache-2.0
"""Snapshots and forks of a sandbox with 1 GB in its writable layer against one with 1 MB: neither walks files nor copies them. What is
written back before is the disk's affair and told apart."""
import json
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import House, median, need_root, report  # noqa: E402

ROUNDS = int(os.environ.get("COUNT", "15"))
POLL_S = 0.0005


def fill(house, megabytes):
    sandbox = house.create()
    with house.open_command(sandbox, f"head -c {megabytes}M /dev/urandom > /root/data && sync && echo written") as answer:
        assert b"written" in answer.read()
    return sandbox


def change(house, sandbox):
    """Something little, as between two snapshots of somebody who works."""
    with house.open_command(sandbox, "date >> /root/log") as answer:
        answer.read()


def post(house, path, body=None):
    return json.loads(house.ask("POST", f"/v1{path}", body or {}))


def snapshot(house, sandbox):
    """Milliseconds from the request until it is ready."""
    began = time.perf_counter()
    taken = post(house, f"/sandboxes/{sandbox}/snapshots")["id"]
    while (state := house.get(f"/v1/snapshots/{taken}")["status"]["state"]) == "Creating":
        time.sleep(POLL_S)
    took = time.perf_counter() - began
    assert state == "Ready"
    return taken, 1000 * took


def fork(house, sandbox, count):
    began = time.perf_counter()
    made = post(house, f"/sandboxes/{sandbox}/fork", {"count": count, "timeout": 600})["items"]
    took = time.perf_counter() - began
    assert len(made) == count
    for m in made:
        house.delete(m["id"])
    return 1000 * took


def took_inside(house, sandbox):
    """What its events say: (written back, stood still) in milliseconds, the newest first."""
    text = house.ask("GET", f"/v1/sandboxes/{sandbox}/diagnostics/events?limit=500").decode()
    return [(int(a) / 1000, int(b) / 1000) for a, b in re.findall(r"written back in (\d+) us, stood still for (\d+) us", text)]


def rounds(house, f, big, small):
    """Pairs that ran next to each other."""
    pairs = []
    for _ in range(ROUNDS):
        for sandbox in (big, small):
            change(house, sandbox)
        pairs.append((f(house, big), f(house, small)))
    return pairs


def tell(name, pairs, baseline, goal):
    report(name, median([a for a, _ in pairs]), "ms", baseline, median([b for _, b in pairs]), goal)


def main():
    need_root("snapshot")
    with House() as house:
        small, big = fill(house, 1), fill(house, 1024)
        keep = [snapshot(house, s)[0] for s in (small, big)]
        first = [took_inside(house, s) for s in (small, big)]
        taken = []

        def take(house, sandbox):
            name, took = snapshot(house, sandbox)
            taken.append(name)
            return took

        tell("snapshot.1g_vs_1m", rounds(house, take, big, small), "of 1 MB", 2.0)
        tell("fork.1g_vs_1m", rounds(house, lambda h, s: fork(h, s, 1), big, small), "of 1 MB", 2.0)
        tens = [(fork(house, big, 10), fork(house, big, 1)) for _ in range(5)]
        tell("fork.ten", tens, "one fork", 10.0)
        still = [s for sandbox in (small, big) for _, s in took_inside(house, sandbox)]
        report("snapshot.pause", median(still), "ms")
        report("snapshot.write_back", max(w for w, _ in first[1]), "ms", "of 1 MB", max(w for w, _ in first[0]))
        for sandbox in (small, big):
            house.delete(sandbox)
        for name in [*keep, *taken]:
            house.ask("DELETE", f"/v1/snapshots/{name}")


if __name__ == "__main__":
    main()
