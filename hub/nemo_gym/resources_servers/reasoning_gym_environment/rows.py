"""Make rows of NeMo Gym from rows of `problems`: JSON lines from standard input to standard output."""

import json
import sys

for line in sys.stdin:
    problem = json.loads(line)
    row = {"responses_create_params": {"input": problem["messages"]}, "reference": problem["reference"]}
    print(json.dumps(row, ensure_ascii=False))
