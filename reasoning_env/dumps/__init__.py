"""JSONL dumps of rollouts: a writer with its own thread, and a reader."""
