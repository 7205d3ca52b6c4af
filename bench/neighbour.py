# SPDX-License-Identifier: Apache-2.0
"""One sandbox attacks, another one works: how long its commands take, and the server's health, against a quiet host.

Clients are on other machines, and how long they wait for a processor of theirs is not what is asked. Here they share the
processors with all that is measured: the one that takes the time runs before everybody else (SCHED_FIFO), with and without an
attack, and whoever reads what the attacker says runs last."""
import contextlib
import http.client
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import House, median, need_root, percentile, report  # noqa: E402

ROUNDS = 5   # of each attack, in turns with rest: one alone tells as much about whoever else uses the machine
COUNT = 400  # commands in each phase
WARM_S = 1   # for an attack to be in full swing

ATTACKS = {
    "fork": "bomb() { bomb | bomb & }; bomb; sleep 1000",
    "memory": "while :; do python3 -c 'b = [bytearray(1 << 20) for _ in range(4096)]'; done",
    "cpu": "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait",
    "output": "yes 0123456789012345678901234567890123456789",
    "disk": "while :; do dd if=/dev/zero of=/tmp/full bs=1M count=256 2>/dev/null; done",
}


def attack(house, attacker, text):
    """Reads what comes, as a client would, until the sandbox is gone."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    with contextlib.suppress(OSError, http.client.HTTPException), house.open_command(attacker, text) as answer:
        while answer.read(65536):
            pass


def measure(house, victim):
    taken = house.client("exec", COUNT, victim, first=True)
    return percentile(taken["exec"], 99) / 1000, percentile(taken["health"], 99) / 1000


def measure_attack(house, victim, text):
    attacker = house.create()
    thread = threading.Thread(target=attack, args=(house, attacker, text), daemon=True)
    thread.start()
    time.sleep(WARM_S)
    try:
        return measure(house, victim)
    finally:
        house.delete(attacker)
        thread.join(10)


def measure_rounds(house, victim, text):
    """The p99 of a round in the middle, at rest and under attack, and the slowest health."""
    idle, attacked = [measure(house, victim)[0]], []
    for _ in range(ROUNDS):
        attacked.append(measure_attack(house, victim, text))
        idle.append(measure(house, victim)[0])
    return median(idle), median([took for took, _ in attacked]), max(health for _, health in attacked)


def main():
    need_root("neighbour")
    taken = []
    with House() as house:
        victim = house.create()
        measure(house, victim)
        for name, text in ATTACKS.items():
            taken.append(measure_rounds(house, victim, text))
            report(f"neighbour.{name}", taken[-1][1], "ms", "idle", taken[-1][0])
        house.delete(victim)
    idle, took, _ = max(taken, key=lambda t: t[1] / t[0])
    report("neighbour.p99", took, "ms", "idle", idle, 2.0)
    report("neighbour.health", max(health for _, _, health in taken), "ms", "goal", 100.0, 1.0)


main()
