"""Install NeMo Gym, and what the tests need, into the environment whose Python runs this file.

The package asks for Python 3.13.14 and runs with 3.11 too: it is installed whatever it asks for, and then what it
requires. Takes five minutes and 3 GB.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

NEMO_GYM = "nemo-gym==0.7.0"
REQUIREMENTS = Path(__file__).parents[3] / "requirements-dev.txt"


def main() -> None:
    install(NEMO_GYM, "--no-deps", "--ignore-requires-python")
    required = [line for line in requires("nemo-gym") or [] if "extra ==" not in line]
    install(*required, "-r", str(REQUIREMENTS))


def install(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *arguments], check=True)


if __name__ == "__main__":
    main()
