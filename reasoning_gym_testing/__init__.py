"""Stand-ins for everything that an environment needs, on one machine and offline: for tests, benchmarks, the demo.

- `InferenceServer` serves the protocols of vLLM, SGLang, OpenAI and TRL with a policy: a function from a
  `GenerationRequest` to texts or `Completion`s. `server.fail(fault)` starts a fault (`respond`, `slow`, `cut`,
  `cut_reply`, `refuse`, `linger`), and `server.recover()` ends the fault.
- `RunApi` runs Atropos' run-api as a process. `RunApiProxy` forwards requests to run-api, records those that run-api
  accepts, and can simulate faults.
- `Trainer` registers at run-api, takes batches and checks them with `check_batch`.
- `Processes` starts processes; no process outlives its starter.
- `LocalTraining` runs all of these together, with environments.

`TOKENIZER` is a small tokenizer that needs no download.
"""

from .batch_checks import BatchError, check_batch
from .completions import TOKENIZER, Completion, GenerationRequest, Policy
from .http_server import HOST, FaultyServer, cut, cut_reply, free_port, linger, refuse, respond, slow
from .inference_server import InferenceServer, generations, server_settings
from .local_training import LocalTraining, start_environment
from .processes import Process, ProcessError, Processes, wait_until
from .run_api import RunApi, RunApiProxy
from .trainer import Delivery, Trainer

__all__ = [
    "HOST",
    "TOKENIZER",
    "BatchError",
    "Completion",
    "Delivery",
    "FaultyServer",
    "GenerationRequest",
    "InferenceServer",
    "LocalTraining",
    "Policy",
    "Process",
    "ProcessError",
    "Processes",
    "RunApi",
    "RunApiProxy",
    "Trainer",
    "check_batch",
    "cut",
    "cut_reply",
    "free_port",
    "generations",
    "linger",
    "refuse",
    "respond",
    "server_settings",
    "slow",
    "start_environment",
    "wait_until",
]
