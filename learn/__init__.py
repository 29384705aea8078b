"""Train a small transformer by policy gradients, with run-api, environment, inference server and trainer.

`python -m learn` (or `make learn`) runs all parts on one machine, without downloads. It needs PyTorch. Read the modules
in this order: `tasks`, `model`, `warm_start`, `server`, `trainer`, `command`.
"""
