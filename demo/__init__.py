"""The demo: the whole line on one machine, with a scripted policy in place of a model.

Nothing in here imports the environment: it runs as a process of its own, as it would in a real training run.
"""

import reasoning_gym_testing as rig

__all__ = ["rig"]
