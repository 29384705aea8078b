"""Formats in which models write their thinking, and the choice of formats for a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

AUTO_FORMAT = "auto"
NONE = "none"


@dataclass(frozen=True)
class ThinkingFormat:
    """How a family of models marks its thinking.

    - `opening` and `closing`: the marks around thinking. With `any_case`, upper and lower case are equal.
    - `tokens`: a model has the format if its vocabulary or template has all these tokens. Decoding keeps these tokens.
    - `channels`: if True, `opening` begins a channel of thinking, and `closing` begins the channel of the answer.
    """

    name: str
    opening: str
    closing: str
    tokens: tuple[str, ...]
    any_case: bool = False
    channels: bool = False


def _tags(name: str, tag: str) -> ThinkingFormat:
    opening = f"<{tag}>"
    closing = f"</{tag}>"
    return ThinkingFormat(name, opening, closing, (opening, closing), any_case=True)


FORMATS = (
    _tags("think", "think"),
    ThinkingFormat(
        "gpt-oss",
        "<|channel|>",
        "<|channel|>final",
        ("<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
        channels=True,
    ),
    ThinkingFormat("gemma", "<|channel>", "<channel|>", ("<|channel>", "<channel|>")),
    ThinkingFormat("magistral", "[THINK]", "[/THINK]", ("[THINK]", "[/THINK]")),
    ThinkingFormat("seed-oss", "<seed:think>", "</seed:think>", ("<seed:think>", "</seed:think>")),
    ThinkingFormat("command-a", "<|START_THINKING|>", "<|END_THINKING|>", ("<|START_THINKING|>", "<|END_THINKING|>")),
    ThinkingFormat("kimi", "◁think▷", "◁/think▷", ("◁think▷", "◁/think▷")),
    ThinkingFormat("kimi-k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>", ("<|open|>", "<|close|>", "<|sep|>")),
    ThinkingFormat("minimax", "<mm:think>", "</mm:think>", ("<mm:think>", "</mm:think>")),
    ThinkingFormat(
        "hunyuan", "<think:opensource>", "</think:opensource>", ("<think:opensource>", "</think:opensource>")
    ),
    ThinkingFormat("solar", "<|think|>", "<|content|>", ("<|think|>", "<|content|>")),
    ThinkingFormat("apriel", "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", ("[BEGIN FINAL RESPONSE]",)),
    ThinkingFormat(
        "muse", "to=self<|message|>", "to=user<|message|>", ("<|message|>", "<|start|>", "<|eom|>"), channels=True
    ),
    _tags("thinking", "thinking"),
    _tags("reasoning", "reasoning"),
)
"""The known thinking formats. docs/models.md shows an example of each model family's format."""
NAMES = (AUTO_FORMAT, NONE, *(thinking_format.name for thinking_format in FORMATS))


class Thinking:
    """The thinking formats of one model, to find the thinking in its completions. `formats` must have no duplicates."""

    def __init__(self, formats: Sequence[ThinkingFormat]) -> None:
        self.formats = tuple(formats)
        self.names = tuple(thinking_format.name for thinking_format in self.formats)
        self.asks_for_tags = self.names == ("think",)
        """True if the system prompt should request `<think>` tags, because the model has no other format."""
        marks = [
            (mark, thinking_format)
            for thinking_format in self.formats
            for mark in (thinking_format.opening, thinking_format.closing)
        ]
        self.openings = {thinking_format.opening: thinking_format for thinking_format in self.formats}
        self.closings = {thinking_format.closing: thinking_format for thinking_format in self.formats}
        # Put the longest mark first, because the mark of a final channel begins with the mark of any channel.
        longest = sorted(marks, key=lambda mark: -len(mark[0]))
        self.longest_mark = max((len(mark) for mark, _ in marks), default=0)
        # The flag `a` (ASCII), because without it the long s would match s, and the Kelvin sign would match k.
        # The first character, `<`, is outside of the group, because then `re` skips to the next `<`.
        patterns = [
            f"{re.escape(mark[0])}(?ai:{re.escape(mark[1:])})" if thinking_format.any_case else re.escape(mark)
            for mark, thinking_format in longest
        ]
        self.marks = re.compile("|".join(patterns)) if patterns else None


TAGS = Thinking(FORMATS[:1])
"""`<think>` tags only: the default for a model whose tokenizer is unknown."""


def choose_thinking(setting: str, known: Collection[ThinkingFormat] = ()) -> Thinking:
    """Return the thinking formats for a setting. `auto` selects `<think>` and the formats that the model knows."""
    if setting != AUTO_FORMAT:
        return named_thinking([setting])
    names = {"think", *(thinking_format.name for thinking_format in known)}
    return named_thinking(names)


def named_thinking(names: Collection[str]) -> Thinking:
    """Return the thinking formats with these names. Unknown names are ignored."""
    return Thinking([thinking_format for thinking_format in FORMATS if thinking_format.name in names])
