"""Build prompts: default system message, conversation of a problem, its text and tokens by a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..records import Prompt
from ..settings import NATIVE_SYSTEM_PROMPT, SYSTEM_PROMPT
from .chat_templates import (
    PLAIN_TEMPLATE,
    choose_shape,
    find_ending,
    formats_chats,
    knows,
    read_template,
    render_tokens,
    text_of,
    text_start,
)
from .completion_format import CompletionFormat
from .thinking import Thinking, choose_thinking

if TYPE_CHECKING:
    pass

Messages = Sequence[Mapping[str, str]]


def system_prompt(setting: str, thinking: Thinking) -> str:
    """Return the system message: the default that fits how the model thinks, or the user's own as it is."""
    return NATIVE_SYSTEM_PROMPT if setting == SYSTEM_PROMPT and not thinking.asks_for_tags else setting


def build_messages(system_prompt: str, question: str) -> tuple[Mapping[str, str], ...]:
    """Return the conversation up to the model's turn; a blank system prompt is left out."""
    user = {"role": "user", "content": question}
    if not system_prompt.strip():
        return (user,)
    return ({"role": "system", "content": system_prompt}, user)


class ChatFormat(CompletionFormat):
    """The chat format of a tokenizer: how a conversation becomes a prompt, and what its completions say.

    `template` is the path of a Jinja file, or `plain`, in place of the tokenizer's own; `template_options` reach the
    template; `thinking` is the setting of that name. Construction renders a probe, and raises ConfigError where no
    whole prompt can be built.
    """

    def __init__(
        self,
        tokenizer: Any,
        name: str,
        *,
        template: str | None = None,
        template_options: Mapping[str, Any] | None = None,
        thinking: str = "auto",
    ) -> None:
        super().__init__(tokenizer)
        self.name = name
        self.options = dict(template_options or {})
        self.template = read_template(template)
        self.lists = False
        self.folds = False
        # Mistral's own tokenizers write special tokens themselves: their text would not be read back as such.
        self.formats_itself = self.template is None and not getattr(tokenizer, "chat_template", None)
        if self.formats_itself and not formats_chats(tokenizer):
            raise ConfigError(
                f"tokenizer_name: {name!r} has no chat template, so no prompt can be built; use the tokenizer of an "
                "instruct or chat model, or, for a base model, set chat_template to `plain` or to the path of a "
                "template"
            )
        choose_shape(self)
        self.set_completions(find_ending(self), choose_thinking(thinking, partial(knows, self)))

    def prompt(self, messages: Messages) -> Prompt:
        """Render the conversation up to the point where the model's turn begins."""
        tokens = render_tokens(self, messages) if self.formats_itself else None
        text = self.render(messages) if tokens is None else text_of(self, tokens)
        # The chat template writes the beginning-of-text token itself where the model has one.
        return Prompt(tuple(messages), text, tuple(self.encode(text) if tokens is None else tokens))

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def count_tokens(self, text: str) -> int:
        return len(self.encode(text))

    # ---- what the template does with a conversation

    def shaped(self, messages: Messages) -> list[dict[str, Any]]:
        """Return the conversation as the template takes it."""
        shaped: list[dict[str, Any]] = [dict(message) for message in messages]
        if self.folds and len(shaped) > 1 and shaped[0]["role"] == "system":
            rules = shaped.pop(0)["content"]
            shaped[0]["content"] = f"{rules}\n\n{shaped[0]['content']}"
        if self.lists:
            for message in shaped:
                message["content"] = [{"type": "text", "text": message["content"]}]
        return shaped

    def render(self, messages: Messages, *, add_generation_prompt: bool = True) -> str:
        options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt, **self.options}
        if self.template is not None:
            options["chat_template"] = self.template
        if self.template is PLAIN_TEMPLATE:
            options["bos"] = text_start(self.tokenizer)
            options["eos_token"] = self.tokenizer.eos_token or ""
        return str(self.tokenizer.apply_chat_template(self.shaped(messages), tokenize=False, **options))
