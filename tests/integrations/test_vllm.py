"""Use a real vLLM on the CPU, with a tiny model that has random weights."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs vLLM: make integrations-vllm")
pytest.importorskip("torch")

from atroposlib.envs.server_handling.server_baseline import APIServer
from atroposlib.envs.server_handling.server_manager import ServerManager

from learn.model import build, save
from learn.processes import SETTINGS
from learn.servers import Vllm, ask
from learn.tasks import SYSTEM_PROMPT
from reasoning_env.atropos.config import ServerConfig
from reasoning_env.atropos.launch import choose_server_class
from reasoning_env.atropos.servers import Completers
from reasoning_env.errors import ServerError
from reasoning_env.inference.failures import Timeouts
from reasoning_env.inference.served_model import ServedModel
from reasoning_env.inference.server import RequestOptions
from reasoning_env.prompts.chat_format import ChatFormat
from reasoning_env.prompts.messages import build_messages
from reasoning_env.records import Prompt, Rollout, Sampling
from reasoning_gym_testing import Process, Processes, RunApi, server_settings, start_environment
from tests.integrations.vllm_servers import CONTEXT, MASKED, RealServer, largest_difference
from tests.reply_shapes import RECORDED, requests_for, shape_of_reply
from tests.waiting import PATIENCE_S, until, wait_until

# All these warnings come from vLLM.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

TOLERANCE = 1e-4
PATIENT = Timeouts(reply_s=None, outage_s=PATIENCE_S)
TRAINING = Sampling(temperature=1.0, top_p=1.0, token_limit=CONTEXT, split="train")
PROTOCOLS = {"completions": "/v1/completions", "vllm": "/generate"}


@pytest.fixture(scope="module")
def model() -> Any:
    """A GPT-2 with a character tokenizer, so that about one token in a hundred ends a completion."""
    return build(1, width=128, layers=2)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("vllm"), {"OMP_NUM_THREADS": "1"}) as running:
        yield running


@pytest.fixture(scope="module")
def folder(model: Any, processes: Processes) -> Path:
    path = processes.folder / "model"
    save(*model, path)
    return path


@pytest.fixture(scope="module")
def greedy_folder(folder: Path) -> Path:
    """The same model with a generation_config.json that sets top_k to 1."""
    path = folder.with_name("greedy")
    shutil.copytree(folder, path)
    (path / "generation_config.json").write_text(json.dumps({"top_k": 1, "repetition_penalty": 1.3}))
    return path


KEY = "secret"


class Servers(dict[str, RealServer]):
    """Servers by name.

    Each server starts when it is first used. `vllm` has Atropos' route /generate. `second` requires an API key, and its
    model folder has a generation_config.json.
    """

    def __init__(self, processes: Processes, folder: Path, greedy_folder: Path) -> None:
        self._processes = processes
        self._folders = {"completions": folder, "vllm": folder, "second": greedy_folder}

    def __missing__(self, name: str) -> RealServer:
        key = KEY if name == "second" else None
        server = RealServer(self._processes, name, self._folders[name], atropos=name == "vllm", key=key)
        self[name] = server
        server.wait()
        return server


@pytest.fixture(scope="module")
def servers(processes: Processes, folder: Path, greedy_folder: Path) -> Servers:
    return Servers(processes, folder, greedy_folder)


class Client:
    """The environment's client for one server. `settings` override the default settings of the server."""

    def __init__(
        self,
        url: str,
        server_type: str,
        folder: Path,
        tokenizer: Any,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        named = server_settings(url.removesuffix("/v1"), server_type)
        config = ServerConfig(**{**named, **(settings or {})}, tokenizer_name=str(folder))
        self.manager = ServerManager([config], server_class=choose_server_class(APIServer, [config]))
        self.chat = ChatFormat(tokenizer, "tiny")
        self.timeouts = PATIENT
        completers = Completers(lambda: self.manager, None)
        options = {"stop_after_answer": False, **options}
        self.model = ServedModel(completers, self.chat, RequestOptions(**options), lambda: self.timeouts, model="tiny")
        self.prompt: Prompt = self.chat.prompt(build_messages(SYSTEM_PROMPT, "Spell this word backward: sun"))

    async def check(self) -> None:
        """Check the server as an environment does at its start."""
        await self.model.check(PATIENCE_S)
        await self.model.check_tokenizer()

    async def complete(self, n: int, sampling: Sampling = TRAINING, timeouts: Timeouts = PATIENT) -> list[Rollout]:
        self.timeouts = timeouts
        return await self.model.complete(self.prompt, n, sampling)

    async def close(self) -> None:
        await self.model.close()


@pytest.fixture
async def make_client(folder: Path, model: Any, servers: Servers) -> AsyncIterator[Any]:
    made: list[Client] = []

    def make(server_type: str, url: str | None = None, **options: Any) -> Client:
        made.append(Client(url or servers[server_type].url, server_type, folder, model[1], **options))
        return made[-1]

    yield make
    for client in made:
        await client.close()


both = pytest.mark.parametrize("server_type", PROTOCOLS)


# ---------------------------------------------------------------------------- one request


@both
async def test_vllm_logprobs_equal_the_logprobs_of_a_forward_pass(
    make_client: Any, model: Any, server_type: str
) -> None:
    rollouts = await make_client(server_type).complete(8)
    assert max(largest_difference(model[0], one.tokens, one.masks, one.logprobs) for one in rollouts) < TOLERANCE


@both
async def test_completions_of_one_vllm_request_differ(make_client: Any, server_type: str) -> None:
    rollouts = await make_client(server_type).complete(8)
    assert len({tuple(one.tokens) for one in rollouts}) == 8


@both
async def test_loss_mask_excludes_exactly_the_prompt_tokens(make_client: Any, server_type: str) -> None:
    client = make_client(server_type)
    (rollout,) = await client.complete(1)
    prompt = list(client.prompt.tokens)
    assert list(rollout.tokens[: len(prompt)]) == prompt
    assert list(rollout.masks) == [MASKED] * len(prompt) + list(rollout.tokens[len(prompt) :])


@both
async def test_completion_ends_after_max_completion_tokens(make_client: Any, server_type: str) -> None:
    short = Sampling(temperature=1.0, top_p=1.0, token_limit=CONTEXT, split="train", max_completion_tokens=2)
    rollouts = await make_client(server_type).complete(8, short)
    assert {one.token_count for one in rollouts if one.finish_reason == "length"} == {2}


@both
async def test_completion_with_finish_reason_stop_ends_with_an_end_of_turn_token(
    make_client: Any, model: Any, server_type: str
) -> None:
    rollouts = await make_client(server_type).complete(32)
    stopped = [one for one in rollouts if one.finish_reason == "stop"]
    assert stopped
    assert {one.tokens[-1] for one in stopped} == {model[1].eos_token_id}
    assert not any(model[1].eos_token in one.text for one in stopped)


@both
async def test_closing_answer_tag_is_kept_when_it_ends_a_completion(
    make_client: Any, model: Any, server_type: str
) -> None:
    rollouts = await make_client(server_type, stop_after_answer=True).complete(64)
    closing = model[1].convert_tokens_to_ids("</answer>")
    ended = [one for one in rollouts if one.tokens[-1] == closing]
    assert ended
    assert all(one.text.endswith("</answer>") and one.finish_reason == "stop" for one in ended)


async def test_context_overflow_raises_a_one_line_error(make_client: Any) -> None:
    beyond = Sampling(temperature=1.0, top_p=1.0, token_limit=4 * CONTEXT, split="train")
    with pytest.raises(ServerError, match=rf"refuses requests .*{CONTEXT}") as raised:
        await make_client("completions").complete(1, beyond)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("split", "different"), [("train", 8), ("eval", 1)])
async def test_only_evaluation_uses_the_sampling_defaults_of_the_model(
    make_client: Any, servers: Servers, split: str, different: int
) -> None:
    client = make_client("completions", servers["second"].url, settings={"api_key": KEY})
    rollouts = await client.complete(8, replace(TRAINING, split=split))
    assert len({tuple(one.tokens) for one in rollouts}) == different


async def test_vllm_aborts_a_request_that_the_client_cancelled(make_client: Any, servers: Servers) -> None:
    client, server = make_client("completions"), servers["completions"]
    aborted = server.aborted
    requests = [asyncio.ensure_future(client.complete(16)) for _ in range(8)]
    await until(lambda: server.in_flight > 32)
    for request in requests:
        request.cancel()
    await asyncio.wait(requests)
    await until(lambda: server.in_flight == 0 and server.aborted > aborted)  # vLLM writes its log with a delay


async def test_completions_are_sampled_from_newly_loaded_weights(
    processes: Processes, folder: Path, model: Any
) -> None:
    other = build(2, width=128, layers=2)[0]
    learning = Vllm(folder, processes.folder / "served")
    own = Processes(processes.folder / "learning")
    with own:
        learning.start(own)
        await asyncio.to_thread(learning.wait)
        await asyncio.to_thread(learning.publish, other, 1)
        client = Client(learning.settings["base_url"], "completions", folder, model[1])
        rollouts = await client.complete(8)
        await client.close()
    assert max(largest_difference(other, one.tokens, one.masks, one.logprobs) for one in rollouts) < TOLERANCE
    assert max(largest_difference(model[0], one.tokens, one.masks, one.logprobs) for one in rollouts) > 0.1


# ---------------------------------------------------------------------------- unusable servers


@pytest.mark.parametrize("server_type", ["completions", "auto"])
async def test_wrong_model_name_raises_a_one_line_error(make_client: Any, servers: Servers, server_type: str) -> None:
    client = make_client(server_type, servers["completions"].url, settings={"model_name": "other"})
    with pytest.raises(ServerError, match=r"`other` does not exist.*openai\.model_name") as raised:
        await client.check()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("server_type", ["completions", "auto"])
async def test_wrong_api_key_raises_a_one_line_error(make_client: Any, servers: Servers, server_type: str) -> None:
    client = make_client(server_type, servers["second"].url, settings={"api_key": "wrong"})
    with pytest.raises(ServerError, match=r"401.*openai\.api_key, or the variable OPENAI_API_KEY$") as raised:
        await client.check()
    assert "\n" not in str(raised.value)


# ---------------------------------------------------------------------------- the shape of replies


def test_vllm_replies_have_the_keys_and_types_of_recorded_replies(servers: Servers, model: Any) -> None:
    prompt = model[1].encode("sun", add_special_tokens=False)
    shapes: dict[str, Any] = {"vllm": version("vllm")}
    for name, (path, body) in requests_for(prompt, CONTEXT).items():
        server = servers["vllm" if path == "/generate" else "completions"]
        shapes[name] = shape_of_reply(*server.post(path, body))
    # Compare as strings, so that the order of keys counts.
    came = json.dumps(shapes, indent=1) + "\n"
    if not RECORDED.exists():
        RECORDED.write_text(came)
    assert came == RECORDED.read_text()


# ---------------------------------------------------------------------------- `serve` while servers are killed


class Serving:
    """A run-api and an environment. The test takes groups from run-api as a trainer does."""

    def __init__(self, processes: Processes, folder: Path, name: str, servers: Sequence[RealServer]) -> None:
        own = Processes(processes.folder / name)
        self.processes = own
        run_api = RunApi(own)
        run_api.start()
        registration = {"wandb_group": "", "wandb_project": "", "batch_size": 8, "max_token_len": CONTEXT}
        registration |= {"checkpoint_dir": "", "save_checkpoint_interval": -1, "starting_step": 0, "num_steps": 10**6}
        ask(run_api.url, "/register", registration)
        self._url = run_api.url
        settings = {
            **SETTINGS,
            "tokenizer_name": folder,
            "rollout_server_url": run_api.url,
            "max_token_length": CONTEXT,
            "max_num_workers": 4,
            # Do not wait for rollouts in flight at the end.
            # A random model is never right.
            "ensure_scores_are_not_same": False,
            "dump_rollouts": False,
            "dump_failed_rollouts": False,
        }
        listed = [{**server_settings(server.url, "auto"), "api_key": KEY} for server in servers]
        self.environment: Process = start_environment(own, "environment", settings, listed)
        self.groups: list[dict[str, Any]] = []

    def take(self, more: int) -> None:
        """Take this many further groups."""
        wanted = len(self.groups) + more
        self.take_until(lambda: len(self.groups) >= wanted)

    def take_until(self, condition: Callable[[], object]) -> None:
        """Take groups until the condition holds. Otherwise the environment would pause."""

        def holds() -> object:
            self.environment.check()
            self.groups += ask(self._url, "/batch").get("batch") or []
            return condition()

        wait_until(holds, "groups, or what they were taken for")


@pytest.fixture
def serve(processes: Processes, folder: Path, servers: Servers, request: pytest.FixtureRequest) -> Iterator[Any]:
    started: list[Serving] = []

    def start(*names: str) -> Serving:
        name = request.node.name.replace("[", "-").rstrip("]")
        started.append(Serving(processes, folder, name, [servers[name] for name in names]))
        return started[-1]

    yield start
    for serving in started:
        serving.processes.stop()


@pytest.mark.parametrize("name", ["completions", "vllm"])
def test_trainer_gets_the_sampled_tokens_and_logprobs(serve: Any, model: Any, name: str) -> None:
    serving = serve(name)
    serving.take(4)
    assert "sampled tokens and their log-probabilities" in serving.environment.stderr
    for group in serving.groups:
        rows = zip(group["tokens"], group["masks"], group["inference_logprobs"], strict=True)
        assert max(largest_difference(model[0], *row) for row in rows) < TOLERANCE


def test_groups_arrive_after_vllm_is_killed_and_restarted(serve: Any, model: Any, servers: Servers) -> None:
    serving, server = serve("completions"), servers["completions"]
    serving.take(1)
    serving.take_until(lambda: server.in_flight > 0)
    server.kill()
    wait_until(lambda: "requests fail and are retried" in serving.environment.stderr)
    server.start()
    server.wait()
    serving.take(8)
    for group in serving.groups:
        rows = zip(group["tokens"], group["masks"], group["inference_logprobs"], strict=True)
        assert max(largest_difference(model[0], *row) for row in rows) < TOLERANCE


def test_one_vllm_server_takes_over_after_the_other_is_killed(serve: Any, servers: Servers) -> None:
    serving = serve("completions", "second")
    serving.take(1)
    servers["second"].kill()
    done = servers["completions"].metric("generation_tokens_total")
    serving.take(8)
    assert servers["completions"].metric("generation_tokens_total") > done


def test_ending_the_serve_command_aborts_unfinished_requests(serve: Any, servers: Servers) -> None:
    serving, server = serve("completions"), servers["completions"]
    serving.take(1)
    serving.take_until(lambda: server.in_flight > 0)
    aborted = server.aborted
    with server.suspended_engine():
        assert serving.environment.end(signal.SIGINT) in (0, 130)
    wait_until(lambda: server.in_flight == 0 and server.aborted > aborted)  # vLLM writes its log with a delay
