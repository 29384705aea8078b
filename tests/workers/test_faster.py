"""Faster generators make the library's problems, and are disabled if the library's source differs."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import reasoning_gym

from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import TASKS
from reasoning_env.workers.faster import bf, edited
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tests.waiting import PATIENCE_S

from .support import make, running_pool, spec

pytestmark = pytest.mark.slow

LIBRARY = Path(str(reasoning_gym.__file__)).parent


@pytest.mark.parametrize("text", ["no such text", "lines"])
def test_source_patch_raises_unless_the_old_text_occurs_exactly_once(text: str) -> None:
    with pytest.raises(ValueError, match="dedent"):
        edited(textwrap.dedent, {text: ""})


def test_endless_brainfuck_program_times_out() -> None:
    assert bf.interpret("++++++++[>++++++++<-]>+.") == "A"
    with pytest.raises(TimeoutError):
        bf.interpret("+[>+<]")


def test_brainfuck_cells_wrap_at_8_bits() -> None:
    assert bf.interpret("-[>+<-]>.") == chr(255)
    assert bf.interpret("-" * 3 + "[>++<-]>.") == chr(250)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow_pool() -> AsyncIterator[WorkerPool]:
    async with running_pool(None, fast=False) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fast_pool() -> AsyncIterator[WorkerPool]:
    async with running_pool(None) as pool:
        yield pool


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("level", [None, 0.0, 0.5])
@pytest.mark.parametrize("task", [task.name for task in TASKS.values() if task.faster is not None])
async def test_faster_generators_make_the_same_problems_as_the_library(
    slow_pool: WorkerPool, fast_pool: WorkerPool, task: str, level: float | None
) -> None:
    for seed in (20, 21):
        wanted = spec(task, seed, level)
        theirs, ours = [await pool.generate(wanted, PATIENCE_S) for pool in (slow_pool, fast_pool)]
        assert (ours.question, ours.answer, ours.metadata_json, ours.entry) == (
            theirs.question,
            theirs.answer,
            theirs.metadata_json,
            theirs.entry,
        )


@pytest.fixture
def other_release(tmp_path: Path) -> Path:
    """A folder with a library whose puzzle24 uses different words in its questions."""
    games = tmp_path / "reasoning_gym" / "games"
    games.mkdir(parents=True)
    for source in [*LIBRARY.iterdir(), *(LIBRARY / "games").iterdir()]:
        if source.name not in ("games", "__pycache__", "puzzle24.py"):
            (games.parent / source.relative_to(LIBRARY)).symlink_to(source)
    known = (LIBRARY / "games" / "puzzle24.py").read_text()
    (games / "puzzle24.py").write_text(known.replace("Make 24 using", "Make 24 out of"))
    return tmp_path


@pytest.mark.parametrize("fast", [True, False])
async def test_faster_generator_is_disabled_if_the_library_source_has_changed(other_release: Path, fast: bool) -> None:
    pool = WorkerPool(PoolSettings(ReasoningSettings(num_generators=1), other_release, fast=fast))
    try:
        warnings = (await pool.start()).warnings
        assert len(warnings) == fast
        assert all("puzzle24" in warning and "futoshiki" not in warning for warning in warnings)
        assert (await make(pool, "puzzle24")).question.startswith("Make 24 out of")
    finally:
        await pool.close()
