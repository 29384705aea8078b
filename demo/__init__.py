"""The demo: run-api, environment and trainer on one machine, with a scripted policy in place of a model.

No module here imports the environment, which runs in a process of its own, as in a real training run.
"""

import reasoning_gym_testing as rig

__all__ = ["rig"]
