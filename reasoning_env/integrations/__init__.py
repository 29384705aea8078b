"""Other trainers and frameworks, one module each. A module needs the extra of its name."""

from __future__ import annotations

import json
import os
from functools import cache

from ..bridge import Bridge
from ..judging.client import JudgeClient
from ..sources.score_function import ScoreFunction


def process_bridge(settings_json: str = "{}") -> Bridge:
    """Return the bridge of this process, with keywords of `Bridge` as JSON.

    For trainers that call reward functions in processes of their own: a bridge works only in the process that made it.
    With the variable `REASONING_JUDGE_URL`, the bridge asks that `judge` instead. It starts its workers at the first
    call, on its own thread.
    """
    return _bridge_of(os.getpid(), settings_json)


@cache
def _bridge_of(process: int, settings_json: str) -> Bridge:
    """Return the bridge of a process. The process is a key, because a fork inherits the bridges of its parent."""
    url = os.environ.get("REASONING_JUDGE_URL")
    if url:
        return Bridge(judge=JudgeClient(url), start=False)
    settings = json.loads(settings_json)
    if isinstance(settings.get("score"), dict):
        settings["score"] = ScoreFunction(**settings["score"])
    return Bridge(start=False, **settings)
