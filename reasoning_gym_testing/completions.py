"""Requests for completions, completions and their tokens, independent of a protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from tokenizers import Tokenizer

TOKENIZER = str(Path(__file__).parent / "tokenizer")
"""Folder for `AutoTokenizer.from_pretrained`, with a small byte-level BPE tokenizer, so that tests need no network."""
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
_USER_TURN = re.compile(rf"{re.escape(TURN_START)}user\n(.*?){re.escape(TURN_END)}", re.DOTALL)
LOGPROB_UNIT = -0.001
CACHE_SIZE = 512


def format_chat(messages: Iterable[Mapping[str, str]]) -> str:
    """Apply the tokenizer's chat template to a conversation, up to the beginning of the assistant's turn."""
    turns = [f"{TURN_START}{message['role']}\n{message['content']}{TURN_END}\n" for message in messages]
    return f"{''.join(turns)}{TURN_START}assistant\n"


def last_question(prompt: str) -> str:
    """Return the last user turn of a prompt; the whole prompt if it has no turns."""
    turns = _USER_TURN.findall(prompt)
    return str(turns[-1]) if turns else prompt


@dataclass(frozen=True)
class GenerationRequest:
    """A request for completions.

    - `protocol`: the name of a row of `protocols.PROTOCOLS`.
    - `prompt`, `prompt_ids`: the whole prompt with the markers of the chat template, as text and as tokens.
    - `max_tokens`: maximum tokens of each completion, including its end-of-turn token.
    - `stream`: whether a chat's reply is sent as server-sent events.
    - `stop`: a completion ends at the first of these strings; with `keeps_stop` it includes the string.
    """

    protocol: str
    prompt: str
    prompt_ids: tuple[int, ...]
    n: int
    max_tokens: int
    temperature: float
    top_p: float
    stream: bool = False
    stop: tuple[str, ...] = ()
    keeps_stop: bool = False

    @property
    def question(self) -> str:
        """The last user turn of the prompt; the whole prompt if it has no turns."""
        return last_question(self.prompt)


@dataclass(frozen=True)
class Completion:
    """One completion. The server derives missing tokens and log-probabilities from the text.

    The server sends given tokens and log-probabilities unchanged, even if they do not match the text.
    """

    text: str
    finish_reason: str | None = "stop"
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None

    @property
    def token_logprobs(self) -> list[tuple[int, float]]:
        """Pairs of token id and log-probability; extra items of the longer list are ignored."""
        return list(zip(self.token_ids or (), self.logprobs or (), strict=False))


Answer = Sequence[str | Completion]
Policy = Callable[[GenerationRequest], Answer | Awaitable[Answer]]
"""Replaces the model. If the policy raises an HTTP exception of aiohttp, the server sends it as the reply."""


def logprob_of(token_id: int) -> float:
    """Return a made-up log-probability that depends only on the token id, so that tests can recognize the token."""
    return LOGPROB_UNIT * (token_id + 1)


def always_wrong(request: GenerationRequest) -> Answer:
    """Return the same wrong answer for every request."""
    return ["<answer>I do not know</answer>"] * request.n


class Tokens:
    """A server's tokenizer, from a folder in the format of transformers."""

    def __init__(self, folder: str) -> None:
        self._tokenizer: Tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        config = json.loads(Path(folder, "tokenizer_config.json").read_text(encoding="utf-8"))
        (self.end_of_turn,) = self._tokenizer.encode(config["eos_token"], add_special_tokens=False).ids
        self.finish = lru_cache(CACHE_SIZE)(self._finish)
        self.text_of = cache(self._text_of)

    def _text_of(self, token_id: int) -> str:
        """Return the text of a single token, as servers send it with the log-probability."""
        return self._tokenizer.decode([token_id], skip_special_tokens=False)

    def read_prompt(self, prompt: str | list[int]) -> tuple[str, tuple[int, ...]]:
        """Return a prompt as a string and as tokens. Raises ValueError for an empty list and for unknown token ids."""
        if isinstance(prompt, str):
            return prompt, tuple(self._tokenizer.encode(prompt, add_special_tokens=False).ids)
        size = self._tokenizer.get_vocab_size()
        if not prompt or not all(0 <= token_id < size for token_id in prompt):
            raise ValueError(f"prompt: expected one or more token ids from 0 to {size - 1}")
        return self._tokenizer.decode(prompt, skip_special_tokens=False), tuple(prompt)

    def _finish(
        self, completion: Completion, max_tokens: int, stop: tuple[str, ...] = (), keeps_stop: bool = False
    ) -> Completion:
        """Return the completion with at most `max_tokens` tokens, and add log-probabilities if there are none.

        A completion that ends at a string of `stop` has no end-of-turn token.
        """
        if completion.token_ids is None:
            ends = [(place, text) for text in stop if (place := completion.text.find(text)) >= 0]
            if ends:
                place, text = min(ends)
                kept = completion.text[: place + len(text) if keeps_stop else place]
                completion = replace(completion, text=kept, finish_reason="stop")
            end = [self.end_of_turn] if completion.finish_reason == "stop" and not ends else []
            token_ids = [*self._tokenizer.encode(completion.text, add_special_tokens=False).ids, *end]
            if len(token_ids) > max_tokens:
                token_ids = token_ids[:max_tokens]
                text = self._tokenizer.decode(token_ids, skip_special_tokens=True)
                completion = replace(completion, text=text, finish_reason="length")
            completion = replace(completion, token_ids=tuple(token_ids))
        if completion.logprobs is None and completion.token_ids is not None:
            completion = replace(completion, logprobs=tuple(map(logprob_of, completion.token_ids)))
        return completion


@cache
def read_tokens(folder: str) -> Tokens:
    """Return the tokenizer of a folder, which all servers of this process share: reading one takes 7 ms."""
    return Tokens(folder)
