"""A whole line on this machine, with faults to order: run-api, a proxy before it, inference servers, a trainer, and
environments as processes. What tests and benchmarks of faults are written with.

    with line_under(folder) as line:
        line.start_trainer(batch_size=16)
        environment = line.start_environment("first", seed=1)
        wait_until(lambda: len(line.gateway.delivered) > 10, 60, "the first groups")
        line.gateway.refuse()

Everything ends with the block, whatever happens in it. All of it is called from one thread; times are of
`time.monotonic()`, in seconds.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.processes import TOKENIZER, Run, Runs, runs_under, wait_until
from tests.process_table import ProcessId, is_alive

from ._servers import HOST, Delivery, Gateway, Policy, Registration, key_of_messages, lasting_port
from ._trainer import Received, Trainer

__all__ = [
    "TASKS",
    "Delivery",
    "Environment",
    "Gateway",
    "HandedOut",
    "Line",
    "LogLine",
    "Policy",
    "ProcessId",
    "Received",
    "Registration",
    "RunApi",
    "Trainer",
    "is_alive",
    "kept",
    "key_of_messages",
    "line_under",
    "wait_until",
]

TASKS = "chain_sum,gcd,lcm,count_bits,products,letter_counting,spell_backward,simple_equations"
"""Cheap ones, and all known to the scripted policy."""
GROUP_SIZE = 4
START_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 5.0


class RunApi:
    """Atropos' run-api, a process on a port that it keeps."""

    def __init__(self, runs: Runs) -> None:
        self.port = lasting_port()
        self.url = f"http://{HOST}:{self.port}"
        self._runs = runs
        self._run: Run | None = None
        self._starts = 0

    def start(self) -> None:
        """Start it, empty, and return when it answers."""
        command = [sys.executable, "-m", "atroposlib.cli.run_api", "--host", HOST, "--port", str(self.port)]
        self._run = self._runs.start(f"run-api-{self._starts}", command)
        self._starts += 1
        wait_until(self.answers, START_TIMEOUT_S, "the start of run-api")

    def kill(self) -> None:
        """SIGKILL: what it held is lost."""
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections are accepted by the system, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def reset_data(self) -> None:
        """Make it forget the trainer, the environments and the groups that it holds."""
        with urllib.request.urlopen(f"{self.url}/reset_data", timeout=REQUEST_TIMEOUT_S):
            pass

    def answers(self) -> bool:
        """Whether it answers within a second."""
        try:
            with urllib.request.urlopen(self.url, timeout=1):
                return True
        except OSError:
            return False

    @property
    def _process(self) -> Any:
        assert self._run is not None, "start() comes first"
        return self._run.process


# ---------------------------------------------------------------------------- environments


@dataclass(frozen=True)
class LogLine:
    """A line of the log that has a head; what follows without one (a traceback) is part of `text`."""

    level: str
    logger: str
    text: str


@dataclass(frozen=True)
class HandedOut:
    """A problem that was handed out for rollouts; `params` and `level` are as they stand in the log."""

    task: str
    seed: int
    index: int
    attempt: int
    params: str
    level: str


_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ([A-Z]+) ([\w.]+): ", re.MULTILINE)
_HANDED_OUT = re.compile(
    r"next: ProblemSpec\(task='(\w+)', seed=(\d+), split=<Split\.TRAIN: 'train'>, index=(\d+), attempt=(\d+), "
    r"params=(.*), level=([^,]*)\)$",
    re.MULTILINE,
)


class Environment:
    """`serve` as a process. `run` is the process with its folder; `env_id`s are in the gateway's registrations."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def pid(self) -> int:
        return self.run.process.pid

    @property
    def running(self) -> bool:
        return self.run.process.poll() is None

    @property
    def log(self) -> str:
        """All that was written on stderr so far."""
        return self.run.stderr

    def mark(self) -> int:
        """The place where the log ends now, for `log_since` and `lines`."""
        return (self.run.folder / "stderr.log").stat().st_size

    def log_since(self, mark: int) -> str:
        with (self.run.folder / "stderr.log").open("rb") as file:
            file.seek(mark)
            return file.read().decode(errors="replace")

    def lines(
        self, since: int = 0, levels: tuple[str, ...] = ("INFO", "WARNING", "ERROR", "CRITICAL")
    ) -> list[LogLine]:
        """The lines of the log from a mark on that have one of the levels."""
        text = self.log_since(since)
        heads = list(_LOG_LINE.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        lines = [
            LogLine(head[1], head[2], text[head.end() : end].rstrip())
            for head, end in zip(heads, ends, strict=False)  # without a head there is one end, and no line
        ]
        return [line for line in lines if line.level in levels]

    def handed_out(self) -> list[HandedOut]:
        """The problems in the order in which they were handed out; needs `debug_logging`."""
        return [
            HandedOut(task, int(seed), int(index), int(attempt), params, level)
            for task, seed, index, attempt, params, level in _HANDED_OUT.findall(self.log)
        ]

    def descendants(self) -> set[ProcessId]:
        """All processes below it that were seen by now, those that ended included."""
        return self.run.see_descendants()

    def send(self, number: signal.Signals) -> None:
        self.run.process.send_signal(number)

    def terminate(self, timeout_s: float = 60.0) -> int:
        """SIGTERM; returns the exit status. Raises AssertionError where the process does not end."""
        return self.run.end(signal.SIGTERM, timeout_s)

    def interrupt(self, timeout_s: float = 60.0) -> int:
        """SIGINT, as Ctrl-C sends it; otherwise as `terminate`."""
        return self.run.end(signal.SIGINT, timeout_s)

    def kill(self) -> None:
        """SIGKILL, to the process alone: its workers have to notice by themselves."""
        self.descendants()
        self.run.end(signal.SIGKILL)

    def wait(self, timeout_s: float = 60.0) -> int:
        """Wait for an end that was brought about otherwise; returns the exit status."""
        return self.run.end(None, timeout_s)


class Line:
    """run-api (started), a gateway before it, one inference server; trainers and environments as they are started."""

    def __init__(self, runs: Runs, stack: contextlib.ExitStack, *, start_run_api: bool = True, **policy: Any) -> None:
        self.runs = runs
        self.run_api = RunApi(runs)
        self.gateway = Gateway(self.run_api.url)
        stack.callback(self.gateway.close)
        self._stack = stack
        self.policies: list[Policy] = []
        self.trainers: list[Trainer] = []
        self.add_policy(**policy)
        if start_run_api:
            self.run_api.start()

    @property
    def policy(self) -> Policy:
        """The first inference server."""
        return self.policies[0]

    def add_policy(self, **options: Any) -> Policy:
        """Start one more inference server; environments that are started from now on use all of them."""
        policy = Policy(**options)
        self._stack.callback(policy.close)
        self.policies.append(policy)
        return policy

    def start_trainer(self, **options: Any) -> Trainer:
        """Start a trainer; options as of `Trainer`. It waits for run-api by itself."""
        trainer = Trainer(self.run_api.url, **options)
        self._stack.callback(trainer.close)
        self.trainers.append(trainer)
        return trainer

    def deliveries(self) -> list[Delivery]:
        """What arrived at run-api so far, without what environments took back; see `kept`."""
        received = [group.key for trainer in self.trainers for group in trainer.received]
        return kept(self.gateway.delivered, self.gateway.emptied, received)

    def start_environment(
        self,
        name: str,
        *,
        server_type: str = "vllm",
        variables: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> Environment:
        """Start an environment; `settings` are its options by name, beyond those that suit every test.

        `name` names its folder for logs and must not have been used.
        """
        options: dict[str, Any] = {
            "rollout_server_url": self.gateway.url,
            "tokenizer_name": TOKENIZER,
            "group_size": GROUP_SIZE,
            "max_token_length": 1024,
            "max_num_workers": 4,
            "tasks": TASKS,
            "use_wandb": False,
            "include_messages": True,
            **settings,
        }
        words = [f"--env.{option}={value}" for option, value in options.items()]
        words += self._server_words(server_type)
        return Environment(self.runs.start_environment(name, "serve", *words, variables=variables))

    def _server_words(self, server_type: str) -> list[str]:
        urls = [f"http://{HOST}:{policy.port}/v1" for policy in self.policies]
        if len(urls) == 1:
            server = {"server_type": server_type, "base_url": urls[0], "model_name": "scripted-policy", "api_key": "x"}
            return [f"--openai.{option}={value}" for option, value in server.items()]
        path = self.runs.folder / f"servers-{len(urls)}-{server_type}.yaml"
        servers = [
            {"server_type": server_type, "base_url": url, "model_name": "scripted-policy", "api_key": "x"}
            for url in urls
        ]
        path.write_text(json.dumps({"openai": servers}))  # JSON is YAML
        return ["--config", str(path)]


def kept(delivered: Sequence[Delivery], emptied: Sequence[float], received: Sequence[str]) -> list[Delivery]:
    """The deliveries without those that their environment took back before it made them again.

    An environment whose groups reach a run-api that has just lost its trainer empties it (at one of the times
    `emptied`) and sends them again. This only counts as taken back where the trainer did not get the group twice:
    `received` holds the keys of all that it got.
    """
    times_received = Counter(received)
    newest = {delivery.key: delivery.at for delivery in delivered}
    return [
        delivery
        for delivery in delivered
        if times_received[delivery.key] > 1
        or not any(delivery.at < moment < newest[delivery.key] for moment in emptied)
    ]


@contextlib.contextmanager
def line_under(folder: Path, *, start_run_api: bool = True, **policy: Any) -> Iterator[Line]:
    """A line whose processes have their folders under `folder`; `policy` holds options of the inference server."""
    with contextlib.ExitStack() as stack:
        runs = stack.enter_context(runs_under(folder))
        yield Line(runs, stack, start_run_api=start_run_api, **policy)
