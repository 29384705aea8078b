from __future__ import annotations

import importlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reasoning_env.workers.levels import DifficultyMap
from reasoning_env.workers.library import Library
from reasoning_env.workers.pool import WorkerPool

from .fake_library import write_fake_library
from .support import running_pool


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fake_library(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The installed library with strict rewards, in a new folder, because some tasks write files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("library"))
        yield Library(None)


@pytest.fixture(scope="module")
def difficulty() -> DifficultyMap:
    """The level tables of the installed library."""
    return DifficultyMap.from_factory(importlib.import_module("reasoning_gym.factory"))


@pytest.fixture
async def pool(fake_library: Path) -> AsyncIterator[WorkerPool]:
    """A pool with one generator and one verifier worker, which use the fake library."""
    async with running_pool(fake_library) as pool:
        yield pool


@pytest.fixture
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the temporary files of this process, used by this test only."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
