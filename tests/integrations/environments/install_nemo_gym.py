"""Install NeMo Gym and the packages that the tests need, for the Python that runs this file.

NeMo Gym declares Python 3.13.14 but also works with 3.11. So the script first installs the package without this check,
and then its requirements. The installation takes five minutes and 3 GB.
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
