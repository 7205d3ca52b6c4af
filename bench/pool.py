# SPDX-License-Identifier: Apache-2.0
"""Taking a sandbox from a warm pool against making one, over HTTP in the same run."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))
from house import House, need_root, percentile, report  # noqa: E402

ROUNDS = 30  # of ten each
EMPTY_SECONDS = 20
TEMPLATE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {"cpu": "1", "memory": "2Gi"}}


def ms(samples, p):
    return percentile(samples, p) / 1000


def sizes(low, high):
    return {"bufferMin": low, "bufferMax": high, "poolMin": 0, "poolMax": 100}


def empty(house):
    """Nothing is left for whoever removes the server's folders."""
    house.ask("PUT", "/v1/pools/warm", {"capacitySpec": sizes(0, 0)})
    deadline = time.monotonic() + EMPTY_SECONDS
    while house.get("/v1/pools/warm")["status"]["total"] > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    house.ask("DELETE", "/v1/pools/warm")


def main():
    need_root("pool")
    with House() as house:
        house.ask("POST", "/v1/pools", {"name": "warm", "template": TEMPLATE, "capacitySpec": sizes(10, 20)})
        house.client("pool", 2, "warm")  # everybody has been there once
        taken = house.client("pool", ROUNDS, "warm")
        empty(house)
    acquire, create = taken["acquire"], taken["create"]
    report("pool.acquire", ms(acquire, 50), "ms", "create", ms(create, 50), 0.5)
    report("pool.acquire.p99", ms(acquire, 99), "ms", "create", ms(create, 99))


main()
