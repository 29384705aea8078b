from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reasoning_env.rollouts import RolloutDumper

MakeDumper = Callable[..., RolloutDumper]


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


@pytest.fixture
def make_dumper(dumps: Path) -> Iterator[MakeDumper]:
    """Builds dumpers with both streams on, and closes them at the end."""
    made: list[RolloutDumper] = []

    def make(
        folder: Path = dumps,
        run_uuid: str = "run",
        *,
        dump_passed: bool = True,
        dump_failed: bool = True,
        score_threshold: float = 0.7,
    ) -> RolloutDumper:
        dumper = RolloutDumper(
            folder, run_uuid, dump_passed=dump_passed, dump_failed=dump_failed, score_threshold=score_threshold
        )
        made.append(dumper)
        return dumper

    yield make
    for dumper in made:
        dumper.close()
