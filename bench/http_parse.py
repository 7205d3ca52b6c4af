# SPDX-License-Identifier: Apache-2.0
"""Instructions to parse one typical request head, counted by callgrind: the same on a busy machine and an idle one."""
import json
import re
import subprocess

PROGRAM = "build/release/bench/http_parse_loop"
FEW, MANY = 100, 10100


def instructions(count):
    p = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, str(count)],
                       check=True, capture_output=True, text=True)
    return int(re.search(r"Collected : (\d+)", p.stderr).group(1))


per_request = (instructions(MANY) - instructions(FEW)) / (MANY - FEW)
print(json.dumps({"name": "http.parse_instructions", "value": round(per_request), "unit": "instructions/request",
                  "baseline": None, "baseline_value": None, "ratio": None, "goal": None}))
