"""Run the command line: `python -m environments.reasoning_gym_environment serve`, `python FOLDER`."""

import runpy

runpy.run_module(f"{__package__}.reasoning_gym_environment".lstrip("."), run_name="__main__", alter_sys=True)
