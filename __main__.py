"""Run the environment's command line: `python -m environments.reasoning_gym_environment serve`."""

from .reasoning_gym_environment import main

main()
