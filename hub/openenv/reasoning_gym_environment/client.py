"""The client: it opens one WebSocket session with the server.

with ReasoningGymEnv(base_url="http://localhost:8000").sync() as env:
    result = env.reset(task="gcd", seed=7)
    completion = generate(result.observation.messages)    # yours
    result = env.step(ReasoningGymAction(text=completion))
    print(result.reward, result.observation.reason)
"""

from __future__ import annotations

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

try:
    from .models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
except ImportError:  # the modules of this folder are imported without their package
    from models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState


class ReasoningGymEnv(EnvClient[ReasoningGymAction, ReasoningGymObservation, ReasoningGymState]):
    def _step_payload(self, action: ReasoningGymAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ReasoningGymObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = ReasoningGymObservation(**{**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> ReasoningGymState:
        return ReasoningGymState(**payload)
