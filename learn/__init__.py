"""Proof that it trains: a small transformer learns through run-api, this environment, a server and a trainer.

`python -m learn` (or `make learn`) runs it on one machine, with nothing to download; it needs PyTorch. Read in this
order: `tasks`, `model`, `warm_start`, `server`, `trainer`, `command`.
"""
