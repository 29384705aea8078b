"""Write `reasoning_env/program/settings.json`, from which the command `settings` prints without Atropos' package.

python -m tools.settings_page
"""

from __future__ import annotations

import argparse

from reasoning_env.atropos.cli import describe_settings
from reasoning_env.program.settings import SETTINGS_FILE, encode_page
from reasoning_gym_environment import ReasoningGymEnv


def main() -> None:
    """Write the file."""
    argparse.ArgumentParser(prog="settings_page", description=__doc__).parse_args()
    SETTINGS_FILE.write_text(encode_page(describe_settings(ReasoningGymEnv)))


if __name__ == "__main__":
    main()
