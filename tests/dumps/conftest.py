from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.dumps.writer import RolloutDumper

MakeDumper = Callable[..., RolloutDumper]
LimitFiles = Callable[[int | None], None]


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    return tmp_path / "dumps"


@pytest.fixture
def make_dumper(dumps: Path) -> Iterator[MakeDumper]:
    """Make and start dumpers that write passed and failed groups; close all dumpers at the end."""
    made: list[RolloutDumper] = []

    def make(folder: Path = dumps, run_uuid: str = "run", *, start: bool = True, **options: Any) -> RolloutDumper:
        options = {"dump_passed": True, "dump_failed": True, "score_threshold": 0.7, **options}
        dumper = RolloutDumper(folder, run_uuid, **options)
        made.append(dumper)
        if start:
            dumper.start()
        return dumper

    yield make
    for dumper in made:
        dumper.close()


@pytest.fixture
def limit_files() -> Iterator[LimitFiles]:
    """Limit the size of files that this process writes, so that writes fail as on a full disk.

    None removes the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size_bytes: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft if size_bytes is None else size_bytes, hard))

    yield limit
    limit(None)
