"""A small transformer learns through run-api, this environment, an inference server and a policy-gradient trainer.

`python -m learn` (or `make learn`) runs it on one machine, with nothing to download; it needs PyTorch. Read in this
order: `tasks`, `model`, `warm_start`, `server`, `trainer`, `command`.
"""
