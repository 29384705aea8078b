from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from reasoning_env.atropos import inference
from reasoning_env.atropos.inference import FRUITLESS_REQUESTS, IncompleteReply, InferenceClient, Mode, check_servers
from reasoning_env.errors import ServerError
from reasoning_env.prompting import ChatFormat, build_messages
from reasoning_env.records import Prompt, Rollout, Sampling, Timeouts

LIMIT = 200
SAMPLING = Sampling(temperature=0.7, top_p=0.9, token_limit=LIMIT, split="train")
FOREVER_S = 600.0
Reply = list[Any]
"""The choices of one reply: texts, or (text, finish reason) pairs, or nodes."""


def _node(completion: Sequence[int] = (7, 8), **changed: Any) -> SimpleNamespace:
    """A node as the managed server keeps it, for a prompt of two tokens."""
    fields: dict[str, Any] = {
        "tokens": [1, 2, *completion],
        "masked_tokens": [-100, -100, *completion],
        "logprobs": [1.0, 1.0, *(-0.5 for _ in completion)],
    }
    return SimpleNamespace(**{**fields, **changed})


class ServerManager:
    """Gives the replies of a script, one a request, and remembers what it was asked."""

    def __init__(self, *replies: Reply, healthy: Sequence[bool] = (True,)) -> None:
        self._replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.servers = [
            SimpleNamespace(
                server_healthy=state,
                sem=SimpleNamespace(max_val=8),
                eval_sem=SimpleNamespace(max_val=8),
                config=SimpleNamespace(base_url=f"http://server{number}/v1"),
            )
            for number, state in enumerate(healthy)
        ]
        self.tokenizers: list[Any] = []

    async def completion(self, **arguments: Any) -> SimpleNamespace:
        self.requests.append(arguments)
        choices = [choice if isinstance(choice, tuple) else (choice, "stop") for choice in self._replies.pop(0)]
        return SimpleNamespace(choices=[SimpleNamespace(text=text, finish_reason=finish) for text, finish in choices])

    @asynccontextmanager
    async def managed_server(self, tokenizer: Any) -> AsyncIterator[Any]:
        self.tokenizers.append(tokenizer)
        nodes = self._replies.pop(0)
        manager = self

        class Managed:
            async def completion(self, **arguments: Any) -> SimpleNamespace:
                manager.requests.append(arguments)
                return SimpleNamespace(
                    choices=[SimpleNamespace(text="some text", finish_reason="length") for _ in nodes]
                )

            def get_state(self) -> dict[str, Any]:
                return {"nodes": nodes}

        yield Managed()


@pytest.fixture(scope="module")
def chat(tokenizer: Any) -> ChatFormat:
    return ChatFormat(tokenizer, "demo")


@pytest.fixture
def prompt(chat: ChatFormat) -> Prompt:
    return chat.prompt(build_messages("", "1 + 1?"))


Complete = Callable[..., Any]


@pytest.fixture
def complete(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> Complete:
    """Asks a server manager for completions of the prompt."""

    async def complete(manager: ServerManager, n: int, mode: Mode = Mode.TEXT) -> list[Rollout]:
        return await InferenceClient(manager, chat, tokenizer, mode).complete(prompt, n, SAMPLING)

    return complete


# ------------------------------------------------------------------ requests


@pytest.mark.parametrize(("mode", "reply"), [(Mode.TEXT, ["a", "b"]), (Mode.TOKENS, [_node(), _node()])])
async def test_one_request_asks_for_the_whole_group(
    complete: Complete, prompt: Prompt, mode: Mode, reply: Reply
) -> None:
    manager = ServerManager(reply)
    assert len(await complete(manager, 2, mode)) == 2
    assert manager.requests == [
        {
            "prompt": prompt.text,
            "n": 2,
            "max_tokens": SAMPLING.completion_budget(prompt),
            "temperature": 0.7,
            "top_p": 0.9,
            "split": "train",
        }
    ]


def test_budget_keeps_prompt_and_completion_strictly_below_the_limit(prompt: Prompt) -> None:
    assert len(prompt.tokens) + SAMPLING.completion_budget(prompt) < LIMIT


def test_budget_of_a_prompt_over_the_limit_is_not_positive() -> None:
    assert SAMPLING.completion_budget(Prompt((), "", (0,) * LIMIT)) <= 0


@pytest.mark.parametrize(
    ("mode", "replies"),
    [(Mode.TEXT, [["a"], ["b"], ["c"]]), (Mode.TOKENS, [[_node([7])], [_node([8])], [_node([9])]])],
)
async def test_missing_completions_are_asked_for_again(complete: Complete, mode: Mode, replies: list[Reply]) -> None:
    manager = ServerManager(*replies)
    rollouts = await complete(manager, 3, mode)
    assert len({rollout.tokens for rollout in rollouts}) == 3
    assert [request["n"] for request in manager.requests] == [3, 2, 1]


async def test_reply_that_stays_incomplete_raises(complete: Complete) -> None:
    manager = ServerManager(["a"], *[[]] * FRUITLESS_REQUESTS, ["never asked for"])
    with pytest.raises(IncompleteReply, match=f"1 usable completions of 4, then none in {FRUITLESS_REQUESTS} requests"):
        await complete(manager, 4)
    assert len(manager.requests) == 1 + FRUITLESS_REQUESTS


async def test_server_that_gives_one_completion_at_a_time_fills_a_group(complete: Complete) -> None:
    manager = ServerManager(*[[letter] for letter in "abcdefgh"])
    assert len(await complete(manager, 8)) == 8


@pytest.mark.parametrize(("mode", "reply"), [(Mode.TEXT, ["a"] * 5), (Mode.TOKENS, [_node()] * 5)])
async def test_surplus_completions_are_cut(complete: Complete, mode: Mode, reply: Reply) -> None:
    assert len(await complete(ServerManager(reply), 2, mode)) == 2


async def test_error_of_the_client_passes(complete: Complete) -> None:
    with pytest.raises(IndexError):
        await complete(ServerManager(), 1)


# ------------------------------------------------------------------ text


async def test_text_becomes_tokens_with_a_masked_prompt(complete: Complete, chat: ChatFormat, prompt: Prompt) -> None:
    [rollout] = await complete(ServerManager(["It is 2."]), 1)
    completion = tuple(chat.completion_tokens("It is 2.", finished=True))
    assert rollout.text == "It is 2."
    assert rollout.tokens == prompt.tokens + completion
    assert rollout.masks == (-100,) * len(prompt.tokens) + completion
    assert (rollout.logprobs, rollout.finish_reason) == (None, "stop")


async def test_text_that_ran_out_of_tokens_has_no_end_of_turn(complete: Complete, chat: ChatFormat) -> None:
    [rollout] = await complete(ServerManager([("It is", "length")]), 1)
    assert rollout.truncated
    assert chat.decode(rollout.tokens).endswith("It is")


async def test_end_of_turn_marker_in_the_text_counts_once(complete: Complete, chat: ChatFormat) -> None:
    [with_marker] = await complete(ServerManager(["2<|im_end|>"]), 1)
    [without] = await complete(ServerManager(["2"]), 1)
    assert with_marker == without
    assert chat.decode(with_marker.tokens).endswith("2<|im_end|>")


@pytest.mark.parametrize("text", ["", None])
async def test_empty_text_is_a_rollout_that_ends_at_once(
    complete: Complete, prompt: Prompt, chat: ChatFormat, text: str | None
) -> None:
    [rollout] = await complete(ServerManager([(text, None)]), 1)
    assert (rollout.text, rollout.finish_reason) == ("", "stop")
    assert rollout.tokens == prompt.tokens + tuple(chat.completion_tokens("", finished=True))


async def test_text_without_a_single_token_to_train_on_is_left_out(complete: Complete) -> None:
    rollouts = await complete(ServerManager([("", "length"), "a"], ["b"]), 2)
    assert [rollout.text for rollout in rollouts] == ["a", "b"]


async def test_text_over_the_limit_is_cut_and_counts_as_truncated(complete: Complete) -> None:
    [rollout] = await complete(ServerManager(["1 + " * LIMIT]), 1)
    assert len(rollout.tokens) == len(rollout.masks) == LIMIT - 1
    assert rollout.truncated


@pytest.mark.parametrize(("surplus", "truncated"), [(0, False), (1, True)])
async def test_text_is_cut_only_where_it_reaches_the_limit(
    complete: Complete, chat: ChatFormat, prompt: Prompt, surplus: int, truncated: bool
) -> None:
    room = LIMIT - 1 - len(prompt.tokens)
    texts = (("1\n" * LIMIT)[:count] for count in range(2 * LIMIT))
    text = next(text for text in texts if len(chat.completion_tokens(text, finished=True)) == room + surplus)
    [rollout] = await complete(ServerManager([text]), 1)
    assert len(rollout.tokens) == LIMIT - 1
    assert rollout.truncated is truncated


# ------------------------------------------------------------------ tokens


async def test_node_becomes_a_rollout(complete: Complete) -> None:
    [rollout] = await complete(ServerManager([_node([7, 8])]), 1, Mode.TOKENS)
    assert rollout == Rollout("some text", (1, 2, 7, 8), (-100, -100, 7, 8), (1.0, 1.0, -0.5, -0.5), "length")


BAD_NODES = {
    "masks too short": _node(masked_tokens=[-100, -100, 7]),
    "logprobs too short": _node(logprobs=[1.0, 1.0]),
    "nothing": _node(tokens=[], masked_tokens=[], logprobs=[]),
    "no completion": _node([]),
    "masks differ": _node(masked_tokens=[-100, -100, 7, 9]),
    "hole in the masks": _node(masked_tokens=[-100, 2, -100, 8]),
    "at the limit": _node([7] * (LIMIT - 2)),
    "logprob nan": _node(logprobs=[1.0, 1.0, float("nan"), -0.5]),
    "logprob infinite": _node(logprobs=[1.0, 1.0, float("-inf"), -0.5]),
    "logprobs infinite both ways": _node(logprobs=[1.0, 1.0, float("-inf"), float("inf")]),
}


@pytest.mark.parametrize("bad", BAD_NODES.values(), ids=BAD_NODES.keys())
async def test_node_that_cannot_be_trained_on_is_left_out_with_a_warning(
    complete: Complete, bad: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServerManager([bad, _node([5])], [_node([6])])
    rollouts = await complete(manager, 2, Mode.TOKENS)
    assert [rollout.tokens[2:] for rollout in rollouts] == [(5,), (6,)]
    assert [message.split(":")[0] for message in caplog.messages] == ["completions are left out"]


async def test_node_just_below_the_limit_is_kept(complete: Complete) -> None:
    [rollout] = await complete(ServerManager([_node([7] * (LIMIT - 3))]), 1, Mode.TOKENS)
    assert len(rollout.tokens) == LIMIT - 1


async def test_managed_server_gets_the_prompts_own_tokens(complete: Complete, prompt: Prompt, tokenizer: Any) -> None:
    manager = ServerManager([_node()])
    await complete(manager, 1, Mode.TOKENS)
    [given] = manager.tokenizers
    assert given.encode(prompt.text) == list(prompt.tokens)
    assert given.encode("other text", add_special_tokens=False) == tokenizer.encode(
        "other text", add_special_tokens=False
    )
    assert given.eos_token_id == tokenizer.eos_token_id


# ------------------------------------------------------------------ waiting


class SilentManager(ServerManager):
    """Never replies."""

    def __init__(self, *, healthy: Sequence[bool] = (True,)) -> None:
        super().__init__(healthy=healthy)
        self.given_up: list[Any] = []

    async def completion(self, **arguments: Any) -> SimpleNamespace:
        try:
            await asyncio.sleep(FOREVER_S)
        except asyncio.CancelledError:
            self.given_up.append(self.servers)
            raise
        raise AssertionError("unreachable")


@pytest.fixture
def short_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "POLL_S", 0.01)


@pytest.mark.usefixtures("short_poll")
@pytest.mark.parametrize(
    ("healthy", "timeouts", "message"),
    [
        ([True], Timeouts(reply_s=0.05, outage_s=FOREVER_S), "no reply within 0.05 s"),
        ([False, False], Timeouts(None, outage_s=0.05), "no inference server has been healthy for 0.05 s"),
    ],
)
async def test_reply_that_does_not_come_is_given_up(
    chat: ChatFormat, prompt: Prompt, tokenizer: Any, healthy: list[bool], timeouts: Timeouts, message: str
) -> None:
    manager = SilentManager(healthy=healthy)
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    with pytest.raises(ServerError, match=message):
        await client.complete_in_time(prompt, 1, SAMPLING, timeouts)
    assert len(manager.given_up) == 1


@pytest.mark.usefixtures("short_poll")
async def test_healthy_server_is_waited_for_as_long_as_it_takes(
    chat: ChatFormat, prompt: Prompt, tokenizer: Any
) -> None:
    client = InferenceClient(SilentManager(healthy=[False, True]), chat, tokenizer, Mode.TEXT)
    waiting = asyncio.create_task(client.complete_in_time(prompt, 1, SAMPLING, Timeouts(None, outage_s=0.02)))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_reply_in_time_is_passed_on(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    client = InferenceClient(ServerManager(["2"]), chat, tokenizer, Mode.TEXT)
    [rollout] = await client.complete_in_time(prompt, 1, SAMPLING, Timeouts(FOREVER_S, FOREVER_S))
    assert rollout.text == "2"


async def test_cancelled_caller_cancels_the_request(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    manager = SilentManager()
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    waiting = asyncio.create_task(client.complete_in_time(prompt, 1, SAMPLING, Timeouts(None, FOREVER_S)))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert len(manager.given_up) == 1


# ------------------------------------------------------------------ servers at startup


class HTTPError(Exception):
    def __init__(self, status: int, name: str = "status_code") -> None:
        super().__init__(f"status {status}")
        setattr(self, name, status)


class APIConnectionError(Exception):
    """Named like the one of the openai package."""


class Server:
    """One inference server that behaves as the outcomes say, the last of them for ever."""

    def __init__(self, *outcomes: Any, name: str = "one") -> None:
        self.config = SimpleNamespace(model_name="model", base_url=f"http://{name}/v1", server_type="openai")
        self._outcomes = list(outcomes)
        self.asked = 0

    async def _completion_wrapper(self, **arguments: Any) -> SimpleNamespace:
        assert (arguments["n"], arguments["max_tokens"], arguments["model"]) == (1, 1, "model")
        return SimpleNamespace(choices=await self._next())

    async def _tokens_and_logprobs_completion_wrapper(self, **arguments: Any) -> tuple[Any, ...]:
        assert (arguments["n"], arguments["max_tokens"]) == (1, 1)
        return [1], await self._next(), [[-0.5]], ["length"]

    async def _next(self) -> Any:
        self.asked += 1
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if outcome == "silent":
            await asyncio.sleep(FOREVER_S)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


REFUSED = ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(("mode", "reply"), [(Mode.TEXT, ["x"]), (Mode.TOKENS, [[7]])])
async def test_server_that_answers_passes_at_once(mode: Mode, reply: Any) -> None:
    server = Server(reply)
    await check_servers([server], mode, FOREVER_S)
    assert server.asked == 1


@pytest.mark.parametrize(
    "error",
    [
        HTTPError(404),
        HTTPError(404, "status"),
        HTTPError(401),
        HTTPError(400),
        ValueError("not JSON"),
        KeyError("text"),
    ],
    ids=["404", "404 aiohttp", "401", "400", "nonsense", "missing key"],
)
@pytest.mark.parametrize("mode", list(Mode))
async def test_server_that_cannot_do_what_its_type_promises_is_refused_at_once(mode: Mode, error: Exception) -> None:
    server = Server(error)
    with pytest.raises(ServerError, match=r"http://one/v1 cannot be used.*server_type"):
        await check_servers([server], mode, FOREVER_S)
    assert server.asked == 1


@pytest.mark.parametrize(("mode", "nothing"), [(Mode.TEXT, []), (Mode.TOKENS, []), (Mode.TOKENS, [[]])])
async def test_server_that_answers_with_nothing_is_refused_at_once(mode: Mode, nothing: Any) -> None:
    with pytest.raises(ServerError, match="answered a request for one token with none"):
        await check_servers([Server(nothing)], mode, FOREVER_S)


UNREACHABLE = [
    REFUSED,
    TimeoutError(),
    APIConnectionError("no route"),
    HTTPError(503),
    HTTPError(500, "status"),
]


@pytest.mark.usefixtures("short_poll")
@pytest.mark.parametrize("error", UNREACHABLE, ids=["refused", "time-out", "openai", "503", "500"])
async def test_server_that_is_not_there_yet_is_waited_for(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(error, error, error, ["x"])
    with caplog.at_level(logging.INFO):
        await check_servers([server], Mode.TEXT, math.inf)
    assert server.asked == 4
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0].startswith("waiting for an inference server (http://one/v1: ")
    assert caplog.messages[1].startswith("an inference server answers after ")


@pytest.mark.usefixtures("short_poll")
async def test_server_that_never_comes_is_an_error_with_its_remedy() -> None:
    server = Server(REFUSED)
    with pytest.raises(ServerError, match=r"no inference server answered within 0\.1 s .*correct openai.base_url"):
        await check_servers([server], Mode.TEXT, 0.1)
    assert server.asked > 1


@pytest.mark.usefixtures("short_poll")
async def test_server_that_accepts_and_stays_silent_is_an_error_in_time() -> None:
    with pytest.raises(ServerError, match="no inference server answered"):
        await asyncio.wait_for(check_servers([Server("silent")], Mode.TEXT, 0.1), 10.0)


@pytest.mark.usefixtures("short_poll")
async def test_silent_server_does_not_hold_up_one_that_answers() -> None:
    await asyncio.wait_for(check_servers([Server("silent"), Server(["x"])], Mode.TEXT, 0.5), 10.0)


async def test_one_server_of_two_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    await check_servers([Server(REFUSED, name="down"), Server(["x"], name="up")], Mode.TEXT, FOREVER_S)
    [message] = caplog.messages
    assert message.startswith("the inference server at http://down/v1 does not answer yet: ConnectionRefusedError")


async def test_server_without_an_address_is_named_by_its_kind() -> None:
    server = Server([])
    server.config.base_url = None
    with pytest.raises(ServerError, match="the inference server at Server answered"):
        await check_servers([server], Mode.TEXT, FOREVER_S)


# ------------------------------------------------------------------ outages, and several servers


class MovingManager(ServerManager):
    """Asks the one server that it was narrowed down to; `behaviour` says what that server does with a request."""

    def __init__(self, behaviour: dict[str, Callable[[], Any]]) -> None:
        super().__init__(healthy=[True] * len(behaviour))
        self.asked: list[str] = []
        self.behaviour = behaviour
        for server, name in zip(self.servers, behaviour, strict=True):
            server.config.base_url = name

    async def completion(self, **arguments: Any) -> SimpleNamespace:
        name = self.servers[0].config.base_url
        self.asked.append(name)
        text = self.behaviour[name]()
        if text is None:
            await asyncio.sleep(FOREVER_S)
        return SimpleNamespace(choices=[SimpleNamespace(text=text, finish_reason="stop")])


def fail() -> Any:
    raise ConnectionRefusedError(111, "Connection refused")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(inference, "MAX_PAUSE_S", 0.002)


@pytest.mark.usefixtures("short_poll")
async def test_request_leaves_a_server_that_falls_ill(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    manager = MovingManager({"ill": lambda: None, "well": lambda: "2"})
    manager.servers[0].sem.max_val = 9  # the one with more room is chosen first
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    waiting = asyncio.create_task(client.complete(prompt, 1, SAMPLING))
    await asyncio.sleep(0.05)
    assert manager.asked == ["ill"]
    manager.servers[0].server_healthy = False
    [rollout] = await waiting
    assert (rollout.text, manager.asked) == ("2", ["ill", "well"])


async def test_requests_that_begin_together_are_spread(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    manager = MovingManager(dict.fromkeys("abcd", lambda: "2"))
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    await asyncio.gather(*(client.complete(prompt, 1, SAMPLING) for _ in range(32)))
    assert Counter(manager.asked) == dict.fromkeys("abcd", 8)


@pytest.mark.usefixtures("short_poll")
async def test_request_waits_for_its_server_when_all_are_ill(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    manager = MovingManager({"one": lambda: None, "other": lambda: None})
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    waiting = asyncio.create_task(client.complete(prompt, 1, SAMPLING))
    for server in manager.servers:
        server.server_healthy = False
    await asyncio.sleep(0.1)
    assert manager.asked == ["one"]
    waiting.cancel()
    await asyncio.wait([waiting])


@pytest.mark.usefixtures("short_pauses")
async def test_after_a_failure_another_server_is_asked(chat: ChatFormat, prompt: Prompt, tokenizer: Any) -> None:
    manager = MovingManager({"broken": fail, "well": lambda: "2"})
    manager.servers[0].sem.max_val = 9
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    for _ in range(3):
        await client.complete_through_outages(prompt, 1, SAMPLING)
    assert manager.asked == ["broken", "well", "well", "well"]


@pytest.mark.usefixtures("short_pauses")
async def test_outage_is_sat_out_and_said_once(
    chat: ChatFormat, prompt: Prompt, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    away = True
    manager = MovingManager({"one": lambda: fail() if away else "2"})
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    with caplog.at_level(logging.INFO):
        waiting = [asyncio.create_task(client.complete_through_outages(prompt, 1, SAMPLING)) for _ in range(20)]
        await asyncio.sleep(0.2)
        away = False
        assert [rollouts[0].text for rollouts in await asyncio.gather(*waiting)] == ["2"] * 20
    assert len(manager.asked) > 100
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "ConnectionRefusedError: [Errno 111] Connection refused" in caplog.messages[0]


@pytest.mark.usefixtures("short_poll")
async def test_servers_that_are_not_healthy_are_named_once(
    chat: ChatFormat, prompt: Prompt, tokenizer: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "UNHEALTHY_S", 0.05)
    manager = MovingManager({"one": lambda: "2", "other": lambda: "2"})
    client = InferenceClient(manager, chat, tokenizer, Mode.TEXT)
    watching = asyncio.create_task(client.watch())
    manager.servers[0].server_healthy = False
    await asyncio.sleep(0.2)
    assert caplog.messages == []
    manager.servers[1].server_healthy = False
    await asyncio.sleep(0.3)
    assert caplog.messages == ["no inference server is healthy; requests wait for one, other"]
    watching.cancel()
    await asyncio.wait([watching])


@pytest.mark.usefixtures("short_pauses")
async def test_prompt_that_fails_while_others_succeed_is_given_up(
    chat: ChatFormat, prompt: Prompt, tokenizer: Any
) -> None:
    poisoned = chat.prompt(build_messages("", "poison"))

    class Manager(ServerManager):
        async def completion(self, **arguments: Any) -> SimpleNamespace:
            await asyncio.sleep(0)
            if arguments["prompt"] == poisoned.text:
                fail()
            return SimpleNamespace(choices=[SimpleNamespace(text="2", finish_reason="stop")])

    client = InferenceClient(Manager(), chat, tokenizer, Mode.TEXT)

    async def others() -> None:
        while True:
            await client.complete(prompt, 1, SAMPLING)

    busy = asyncio.create_task(others())
    with pytest.raises(ServerError, match=r"3 failures while others succeeded: ConnectionRefusedError"):
        await asyncio.wait_for(client.complete_through_outages(poisoned, 1, SAMPLING), 30.0)
    busy.cancel()
    await asyncio.wait([busy])


@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_tokens_are_decoded_as_the_tokenizer_does(tokenizer: Any, skip_special_tokens: bool) -> None:
    prompt = Prompt((), "hello", (1, 2))
    wrapped = inference._PromptTokenizer(tokenizer, prompt)
    tokens = tokenizer.encode("<think>a b</think>\n<answer>1 , 2</answer><|im_end|>", add_special_tokens=False)
    expected = tokenizer.decode(tokens, skip_special_tokens=skip_special_tokens)
    assert wrapped.decode(tokens, skip_special_tokens=skip_special_tokens) == expected
