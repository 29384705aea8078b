"""Convert rows that the command `problems` wrote to rows of NeMo Gym: JSON lines from stdin to stdout."""

import json
import sys

for line in sys.stdin.buffer:
    problem = json.loads(line)
    row = {"responses_create_params": {"input": problem["messages"]}, "reference": problem["reference"]}
    print(json.dumps(row))
