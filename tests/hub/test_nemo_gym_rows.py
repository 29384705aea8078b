"""The problem rows for NeMo Gym, checked without NeMo Gym."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from reasoning_env import Bridge

SERVER = Path(__file__).parents[2] / "hub" / "nemo_gym" / "resources_servers" / "reasoning_gym_environment"


def test_nemo_gym_example_rows_have_the_messages_of_their_problems() -> None:
    rows = [json.loads(line) for line in (SERVER / "data" / "example.jsonl").read_text().splitlines()]
    assert len(rows) == 5
    with Bridge(num_generators=1, num_verifiers=1) as bridge:
        for row in rows:
            problem = bridge.remake(row["reference"])
            assert row["responses_create_params"] == {"input": bridge.messages(problem)}


def test_rows_script_converts_problems_to_nemo_gym_rows() -> None:
    message = {"role": "user", "content": "π?"}
    problem = {"index": 0, "reference": "gcd:train:1", "messages": [message], "question": "π?", "answer": "3"}
    row = json.dumps(problem, ensure_ascii=False).encode()
    ascii_terminal = {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, SERVER / "rows.py"]
    ended = subprocess.run(command, input=row, capture_output=True, check=True, env=ascii_terminal)
    assert json.loads(ended.stdout) == {"responses_create_params": {"input": [message]}, "reference": "gcd:train:1"}
