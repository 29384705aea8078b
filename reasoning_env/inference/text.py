"""Text completions of base models: any OpenAI-compatible `/v1/completions`.

A model without a chat template gets the conversation as plain text, as with the setting `chat_template: plain` in
training. Its completion ends with the first closing answer tag: a base model would go on with a next question.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..prompts.chat_templates import plain_text
from ..records import Ending, Prompt, Rollout, Sampling
from .chat import ChatClient, ChatRequests, PlainChat, Stream

logger = logging.getLogger(__name__)

ANSWER_START = "<answer>"
ANSWER_END = "</answer>"
KEEPS_STOP = {"include_stop_str_in_output": True, "no_stop_trim": True}
"""Fields that ask for a text with the stop text at its end, vLLM by the first name and SGLang by the second."""


class PlainText(PlainChat):
    """Makes prompts of plain text."""

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        return replace(super().prompt(messages), text=plain_text(messages))


class TextRequests(ChatRequests):
    """Asks for text completions of a prompt's text.

    Most servers leave the stop text out unless they are asked to keep it, and some do not know that request: without
    its closing tag an answer would not count. Requests to such a server have no stop text, and completions are cut
    here.
    """

    def __init__(self, stream: Stream = "auto") -> None:
        super().__init__(stream)
        self._keeps_stop: bool | None = None
        """Whether the server keeps the stop text; None as long as no completion tells."""

    async def complete(
        self,
        clients: Sequence[ChatClient],
        prompt: Prompt,
        n: int,
        sampling: Sampling,
        more: Mapping[str, object] | None = None,
    ) -> list[Rollout]:
        """Return rollouts that end with their first closing answer tag, if they have one."""
        stops = self._keeps_stop is not False
        options = {"stop": [ANSWER_END], "extra_body": KEEPS_STOP} if stops else {}
        rollouts = await super().complete(clients, prompt, n, sampling, {**options, **(more or {})})
        if stops and any(rollout.text.endswith(ANSWER_END) for rollout in rollouts):
            self._keeps_stop = True
        if stops and not self._keeps_stop and any(map(_lacks_closing, rollouts)):
            if self._keeps_stop is None:
                logger.warning(
                    "the server leaves out the stop text %s; completions run on, and are cut here", ANSWER_END
                )
            self._keeps_stop = False
            return await self.complete(clients, prompt, n, sampling, more)
        return [_cut(rollout) for rollout in rollouts]

    def fields(self, prompt: Prompt) -> dict[str, object]:
        return {"prompt": prompt.text}


def _lacks_closing(rollout: Rollout) -> bool:
    """Tell whether a rollout that the model or the stop text ended is inside an answer."""
    return rollout.ending is Ending.FINISHED and rollout.text.rfind(ANSWER_START) > rollout.text.rfind(ANSWER_END)


def _cut(rollout: Rollout) -> Rollout:
    before, closing, _ = rollout.text.partition(ANSWER_END)
    return replace(rollout, text=before + closing, finish_reason="stop") if closing else rollout
