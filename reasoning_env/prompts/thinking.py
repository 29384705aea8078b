"""Formats in which models think, and what of a completion is left when the thinking is taken out.

Completions are hostile text, so reading one takes time linear in its length. A format counts only where it was chosen:
by hand, or because the model's tokenizer or chat template knows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

AUTO = "auto"
NONE = "none"


@dataclass(frozen=True)
class ThinkingFormat:
    """How a family of models marks its thinking.

    `opening` and `closing` are compared letter by letter, or in any case for plain tags (`any_case`). With `channels`
    every `opening` that is not a `closing` begins a channel of thinking, and `closing` begins the final channel.
    `tokens` are what a vocabulary that knows the format holds; they survive decoding.
    """

    name: str
    opening: str
    closing: str
    tokens: tuple[str, ...]
    any_case: bool = False
    channels: bool = False


def _tags(name: str, tag: str) -> ThinkingFormat:
    opening, closing = f"<{tag}>", f"</{tag}>"
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
"""The known formats. What a model of each family writes is quoted in docs/models.md."""
NAMES = (AUTO, NONE, *(thinking_format.name for thinking_format in FORMATS))


class Thinking:
    """The formats that count in completions of one model; `formats` are all different."""

    def __init__(self, formats: Sequence[ThinkingFormat]) -> None:
        self.formats = tuple(formats)
        self.names = tuple(thinking_format.name for thinking_format in self.formats)
        self.asks_for_tags = self.names == ("think",)
        """Whether the model is asked for `<think>` tags: it has no other format of its own."""
        marks = [
            (mark, thinking_format)
            for thinking_format in self.formats
            for mark in (thinking_format.opening, thinking_format.closing)
        ]
        self.openings = {thinking_format.opening: thinking_format for thinking_format in self.formats}
        self.closings = {thinking_format.closing: thinking_format for thinking_format in self.formats}
        # The longest first: the mark of a final channel begins like that of any channel.
        longest = sorted(marks, key=lambda mark: -len(mark[0]))
        # ASCII: otherwise the long s and the Kelvin sign count as spellings of s and k.
        patterns = [
            f"(?ai:{re.escape(mark)})" if thinking_format.any_case else re.escape(mark)
            for mark, thinking_format in longest
        ]
        self.marks = re.compile("|".join(patterns)) if patterns else None


TAGS = Thinking(FORMATS[:1])
"""What counts for a model of which no more is known: `<think>` tags."""


def choose_thinking(setting: str, knows: Callable[[ThinkingFormat], bool] = lambda _format: False) -> Thinking:
    """Return the formats of the setting `thinking`; for `auto` `<think>` and those that the model `knows`."""
    if setting == AUTO:
        return Thinking(
            [
                thinking_format
                for thinking_format in FORMATS
                if thinking_format.name == "think" or knows(thinking_format)
            ]
        )
    return Thinking([thinking_format for thinking_format in FORMATS if thinking_format.name == setting])


def named_thinking(names: Collection[str]) -> Thinking:
    """Return the formats of these names, of those that are known."""
    return Thinking([thinking_format for thinking_format in FORMATS if thinking_format.name in names])
