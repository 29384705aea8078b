"""Show what a trainer sends and receives: register at run-api, take ten batches, and print a line for each.

    python examples/trainer.py [URL of run-api]

There is no model here. A real trainer computes a loss from a group's `tokens`, `masks`, `scores` and
`inference_logprobs`, updates its model, and loads the new weights into the inference server.
"""

import argparse
import http.client
import json
import sys
import time
import urllib.error
import urllib.request

parser = argparse.ArgumentParser(description="Take ten batches from run-api, as a trainer without a model.")
parser.add_argument("url", nargs="?", default="http://localhost:8000", help="address of run-api (default: %(default)s)")
URL = parser.parse_args().url
TRAINER = {
    "wandb_group": "by-hand",
    "wandb_project": "by-hand",
    "batch_size": 16,
    "max_token_len": 2048,
    "checkpoint_dir": "",
    "save_checkpoint_interval": 0,
    "starting_step": 0,
    "num_steps": 10,
}


def call(path: str, body: dict | None = None) -> dict:
    """Send a request to run-api and return the reply. With a `body`, send a POST request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{URL}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


is_waiting = False
while True:
    try:
        call("/register", TRAINER)
        break
    except urllib.error.URLError as error:
        if not is_waiting:
            print(f"waiting for run-api at {URL} ({error.reason})", flush=True)
        is_waiting = True
        time.sleep(1.0)
    except (ValueError, http.client.HTTPException) as error:
        sys.exit(f"{URL} is not the address of run-api: {error}")
for step in range(TRAINER["num_steps"]):
    while (groups := call("/batch")["batch"]) is None:
        time.sleep(0.2)
    scores = [score for group in groups for score in group["scores"]]
    print(
        f"batch {step + 1}: {len(scores)} sequences in {len(groups)} groups, mean score {sum(scores) / len(scores):.2f}"
    )
