# SPDX-License-Identifier: Apache-2.0
"""Many busy sandboxes that are paused at once: each is paused, or its client is told to come back, and what is told is so."""
import concurrent.futures
import os

import pytest

from conftest import KEY
from fleet import Fleet, until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

SOAK = bool(os.environ.get("SOAK"))
COUNT = 60 if SOAK else 12
BUSY = ["sh", "-c", "for i in 1 2 3 4 5 6; do (while :; do :; done) & done; wait"]


def test_each_is_paused_or_told_to_come_back(start_server):
    fleet = Fleet(start_server(env={"OPENSANDBOX_SERVER_API_KEY": KEY}))
    names = [fleet.made(entrypoint=BUSY) for _ in range(COUNT)]
    with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
        answers = dict(zip(names, pool.map(lambda n: fleet.ask("POST", f"/{n}/pause", timeout=90), names)))
    for name, answer in answers.items():
        assert answer is not None and answer.status in (202, 503), answer
        if answer.status == 202:
            assert fleet.state(name) == "Paused"
        else:
            assert answer.headers["Retry-After"] and fleet.state(name) == "Running"
    for name in [n for n, a in answers.items() if a.status == 503]:  # with the others out of the way
        until(lambda: fleet.pause(name).status == 202, 30, "pausing it later")
    for name in names[:3]:
        assert fleet.resume(name).status == 202
        fleet.works(name, 30)
    for name in names:
        fleet.remove(name)
