"""Faster generators make the library's problems, and are not used with another library."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
import reasoning_gym

from reasoning_env.settings import ReasoningSettings
from reasoning_env.tasks import TASKS
from reasoning_env.workers.faster import edited
from reasoning_env.workers.pool import PoolSettings, WorkerPool
from tests.workers.direct_calls import call_library

from .support import PATIENCE_S, make, running_pool, spec

pytestmark = pytest.mark.slow

LIBRARY = Path(str(reasoning_gym.__file__)).parent
SEEDS = {task.name: list(range(4)) for task in TASKS.values() if task.faster is not None}
# The library takes up to some seconds for the others.
SEEDS["knight_swap"] = [1, 3, 8, 11]
SEEDS["futoshiki"] = [1, 2, 3, 4]
WANTED = [(task, seed) for task, seeds in SEEDS.items() for seed in seeds]
HARDER = {
    "figlet_font": {"min_word_len": 9, "max_word_len": 12},
    "polynomial_multiplication": {"max_terms": 8, "max_degree": 5, "max_polynomials": 4},
}
"""Parameters for every other seed of tasks whose defaults exercise little code."""
Entries = dict[tuple[str, int], bytes]


def params_of(task: str, seed: int) -> Mapping[str, int]:
    return HARDER.get(task, {}) if seed % 2 else {}


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Entries:
    """Problems of the unchanged library, made in a fresh process."""
    calls = call_library(tmp_path_factory.mktemp("direct"), [(*one, params_of(*one), []) for one in WANTED])
    return dict(zip(WANTED, (entry for entry, _ in calls), strict=True))


@pytest.fixture(scope="module")
def made() -> Entries:
    async def make_all() -> list[bytes]:
        async with running_pool(None, num_generators=2) as pool:
            wanted = [spec(*one, **params_of(*one)).with_request(as_is=True, as_published=True) for one in WANTED]
            problems = await asyncio.gather(*(pool.generate(one, PATIENCE_S) for one in wanted))
            return [problem.entry for problem in problems]

    return dict(zip(WANTED, asyncio.run(make_all()), strict=True))


@pytest.mark.parametrize("task", SEEDS)
def test_same_entries_as_the_library(direct: Entries, made: Entries, task: str) -> None:
    assert [seed for seed in SEEDS[task] if made[task, seed] != direct[task, seed]] == []


@pytest.mark.parametrize("text", ["no such text", "lines"])
def test_edit_needs_unique_text(text: str) -> None:
    with pytest.raises(ValueError, match="dedent"):
        edited(textwrap.dedent, {text: ""})


@pytest.fixture
def other_release(tmp_path: Path) -> Path:
    """A folder with a library whose puzzle24 asks in other words."""
    games = tmp_path / "reasoning_gym" / "games"
    games.mkdir(parents=True)
    for source in [*LIBRARY.iterdir(), *(LIBRARY / "games").iterdir()]:
        if source.name not in ("games", "__pycache__", "puzzle24.py"):
            (games.parent / source.relative_to(LIBRARY)).symlink_to(source)
    known = (LIBRARY / "games" / "puzzle24.py").read_text()
    (games / "puzzle24.py").write_text(known.replace("Make 24 using", "Make 24 out of"))
    return tmp_path


@pytest.mark.parametrize("fast", [True, False])
async def test_unknown_source_keeps_its_generator(other_release: Path, fast: bool) -> None:
    pool = WorkerPool(PoolSettings(ReasoningSettings(num_generators=1, fast_generators=fast), other_release))
    try:
        warnings = (await pool.start()).warnings
        assert len(warnings) == fast
        assert all("puzzle24" in warning and "futoshiki" not in warning for warning in warnings)
        assert (await make(pool, "puzzle24")).question.startswith("Make 24 out of")
    finally:
        await pool.close()
