"""A small transformer learns by policy gradients through run-api, environment, server and trainer.

`python -m learn` (or `make learn`) runs it on one machine, with nothing to download; it needs PyTorch. Read in this
order: `tasks`, `model`, `warm_start`, `server`, `trainer`, `command`.
"""
