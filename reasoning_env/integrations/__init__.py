"""Integrations with other trainers and frameworks, one module each. A module needs the extra of the same name."""

from __future__ import annotations

import json
import os
from functools import cache

from ..bridge import Bridge
from ..judging.client import JudgeClient
from ..sources.score_function import ScoreFunction


def process_bridge(settings_json: str = "{}") -> Bridge:
    """Return the bridge of this process. `settings_json` has the keyword arguments of `Bridge` as JSON.

    A bridge works only in the process that created the bridge. The bridge starts its workers at the first call. If the
    environment variable `REASONING_JUDGE_URL` is set, the bridge sends completions to that `judge` server instead.
    """
    return _bridge_of(os.getpid(), settings_json)


@cache
def _bridge_of(process: int, settings_json: str) -> Bridge:
    """Return the bridge of a process. The cache key has the process id, because forks inherit the parent's bridges."""
    url = os.environ.get("REASONING_JUDGE_URL")
    if url:
        return Bridge(judge=JudgeClient(url), start=False)
    settings = json.loads(settings_json)
    if isinstance(settings.get("score"), dict):
        settings["score"] = ScoreFunction(**settings["score"])
    return Bridge(start=False, **settings)
