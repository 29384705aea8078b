"""A resources server of NeMo Gym: rewards for problems by reference, judged in sandboxed worker processes.

A row has `responses_create_params` with the problem's messages, and `reference`. If a sample gets no verdict, the
server masks the sample, so that NeMo Gym ignores its reward of 0 in metrics and in the loss.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from nemo_gym.base_resources_server import (
    BaseMultiRewardVerifyResponse,
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.failure_kinds import AGENT_RUN_ERROR, VERIFIER_ERROR
from pydantic import Field, PrivateAttr

from reasoning_env import Bridge, JudgeClient, ReasoningEnvError

logger = logging.getLogger(__name__)

BROKEN_OFF = ("failed", "cancelled")
"""Statuses of a response that the model server aborted."""
NO_PARTS = {"format": 0.0, "answer": 0.0, "length": 0.0}
"""Parts of a sample without a verdict. They are present because all rows must have the same keys."""


class ReasoningGymConfig(BaseResourcesServerConfig):
    """Configures the server.

    `bridge` has the keyword arguments of `Bridge`. Instead of `judge`, it may have `judge_url`, the address of a
    `judge` server that all processes use, and `judge_timeout_s`.
    """

    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    bridge: dict[str, Any] = Field(default_factory=dict)


class ReasoningGymVerifyRequest(BaseVerifyRequest):
    reference: str


class ReasoningGymVerifyResponse(BaseMultiRewardVerifyResponse):
    """`reward` is the product of `format`, `answer` and `length`, which are fields because metrics read only fields.

    `reason` is the reason for the score, and `extracted_answer` is the answer that was scored.
    """

    reference: str
    format: float
    answer: float
    length: float
    reason: str | None = None
    extracted_answer: str | None = None


class ReasoningGymServer(SimpleResourcesServer):
    config: ReasoningGymConfig
    ray_enabled: ClassVar[bool | None] = False
    _bridge: Bridge = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        # The first call starts the workers, because a parent process that only forks server processes needs none.
        self._bridge = make_bridge(**self.config.bridge)

    async def verify(self, body: ReasoningGymVerifyRequest) -> ReasoningGymVerifyResponse:
        response = body.response
        if response.error is not None or response.status in BROKEN_OFF:
            return without_verdict(body, AGENT_RUN_ERROR, f"the model server ended the response: {response.status}")
        parts = [part for item in response.output if item.type == "message" for part in item.content]
        completion = {"content": [part.model_dump() for part in parts]}
        try:
            verdict = await self._bridge.averdict(body.reference, completion)
        except ReasoningEnvError as error:
            return without_verdict(body, VERIFIER_ERROR, str(error))
        return ReasoningGymVerifyResponse(
            **body.model_dump(),
            **verdict.parts,
            reward=verdict.score,
            reward_components=dict(verdict.parts),
            reason=verdict.reason.value,
            extracted_answer=verdict.answer,
        )


def make_bridge(judge_url: str | None = None, judge_timeout_s: float = 120.0, **keywords: Any) -> Bridge:
    judge = None if judge_url is None else JudgeClient(judge_url, judge_timeout_s)
    return Bridge(judge=judge, start=False, **keywords)


def without_verdict(body: ReasoningGymVerifyRequest, kind: str, reason: str) -> ReasoningGymVerifyResponse:
    """Return a masked sample, which metrics and the loss ignore, with the reason."""
    logger.warning("a sample is masked: %s", reason)
    return ReasoningGymVerifyResponse(
        **body.model_dump(),
        **NO_PARTS,
        reward=0.0,
        reward_components=dict(NO_PARTS),
        mask_sample=True,
        failure_kind=kind,
        failure_reason=reason,
    )


if __name__ == "__main__":
    ReasoningGymServer.run_webserver()
