"""The inference servers that a run can use, as a process: the small server of `learn`, or a real vLLM.

After each step the trainer sends its weights to the server. vLLM reloads the weights from its folder while no request
runs. Reloading needs vLLM's development mode.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import reasoning_gym_testing as rig

from .errors import LearnError

REQUEST_TIMEOUT_S = 120.0
START_TIMEOUT_S = 300.0
"""Seconds to wait for a server to start. A busy machine takes minutes to import PyTorch."""
VLLM = "vllm.entrypoints.cli.main"
VLLM_VARIABLES = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
VLLM_OPTIONS = (
    "--dtype",
    "float32",
    "--enforce-eager",
    "--max-model-len",
    "256",
    "--max-num-seqs",
    "64",
    "--no-enable-prefix-caching",  # cached prefixes belong to earlier weights
    "--disable-log-stats",
    "--disable-uvicorn-access-log",
)


class PolicyServer(Protocol):
    """The inference server of a run."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The `openai` section of the environment's settings."""

    def start(self, processes: rig.Processes) -> None:
        """Start the process."""

    def wait(self) -> None:
        """Wait until the server answers."""

    def check(self) -> None:
        """Raise ProcessError if the process has ended."""

    def publish(self, model: Any, version: int) -> None:
        """Send the weights, and wait until the server samples with them."""

    def versions(self, prompts: Sequence[Sequence[int]]) -> Sequence[int | None]:
        """Return the version of the weights that answered each prompt last; None for an unknown version."""


class OwnServer:
    """`learn.server` with the model in `model_folder`. `weights` is the file for new weights."""

    def __init__(self, model_folder: Path, weights: Path) -> None:
        self._model_folder = model_folder
        self._weights = weights
        self._port = rig.free_port()
        self._url = f"http://{rig.HOST}:{self._port}"

    @property
    def settings(self) -> Mapping[str, str]:
        return rig.server_settings(self._url)

    def start(self, processes: rig.Processes) -> None:
        command: list[str | Path] = [sys.executable, "-m", "learn.server", self._model_folder]
        command += ["--port", str(self._port)]
        self._process = processes.start("server", command, cwd=Path(__file__).parents[1])

    def wait(self) -> None:
        self._process.announcement(START_TIMEOUT_S)

    def check(self) -> None:
        self._process.check()

    def publish(self, model: Any, version: int) -> None:
        from .model import save_weights

        save_weights(model, self._weights)
        ask(self._url, "/update_weights", {"weights": str(self._weights.resolve()), "version": version})

    def versions(self, prompts: Sequence[Sequence[int]]) -> Sequence[int | None]:
        return list(ask(self._url, "/versions", {"prompts": prompts})["versions"])


class Vllm:
    """vLLM with a copy of the model in `model_folder`, written to `served`. It does not report versions of weights.

    In the copy, the output layer is not tied to the embedding, because vLLM on a CPU does not reload tied weights.
    """

    def __init__(self, model_folder: Path, served: Path) -> None:
        self._model_folder = model_folder
        self._served = served
        self._port = rig.free_port()
        self._url = f"http://{rig.HOST}:{self._port}"

    @property
    def settings(self) -> Mapping[str, str]:
        return rig.server_settings(self._url, "completions")

    def start(self, processes: rig.Processes) -> None:
        from .model import load

        without = shutil.ignore_patterns("*.safetensors*")
        shutil.copytree(self._model_folder, self._served, ignore=without, dirs_exist_ok=True)
        config = json.loads((self._served / "config.json").read_text())
        (self._served / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
        self._write(load(self._model_folder)[0])
        where = ["--host", rig.HOST, "--port", str(self._port)]
        what = ["serve", str(self._served), "--served-model-name", self.settings["model_name"]]
        command: list[str | Path] = [sys.executable, "-m", VLLM, *what, *where, *VLLM_OPTIONS]
        self._process = processes.start("server", command, variables=VLLM_VARIABLES)

    def wait(self) -> None:
        rig.wait_until(lambda: self._process.check() and self._answers(), START_TIMEOUT_S, "the start of vLLM")

    def check(self) -> None:
        self._process.check()

    def publish(self, model: Any, version: int) -> None:
        self._write(model)
        ask(self._url, "/pause?mode=wait", {})
        ask(self._url, "/collective_rpc", {"method": "reload_weights"})
        ask(self._url, "/resume", {})

    def versions(self, prompts: Sequence[Sequence[int]]) -> Sequence[int | None]:
        return [None] * len(prompts)

    def _write(self, model: Any) -> None:
        from safetensors.torch import save_file

        weights = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
        save_file(weights, self._served / "model.safetensors", {"format": "pt"})

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._url}/health", timeout=REQUEST_TIMEOUT_S):
            return True
        return False


def ask(url: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Send a request (GET without a body, otherwise POST) and return the JSON object of the reply.

    Raises LearnError if the server does not reply, or if its reply is no JSON object.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as response:
            return dict(json.loads(response.read()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LearnError(f"{url}{path} returned no valid reply ({error})") from error
