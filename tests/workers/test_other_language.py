"""Use a checkout with translated questions, to which rules for English words must not apply."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from reasoning_env.workers.pool import WorkerPool
from tests.workers.support import make, running_pool

PACKAGE = """
import json


class Dataset:
    def __init__(self, config):
        self.config = config

    def __getitem__(self, index):
        return make(self.config.name, self.config.seed)

    def score_answer(self, answer, entry):
        return float(answer == entry["answer"] or answer in entry["metadata"].get("others", ()))


def make(name, seed):
    number = f"Nummer {seed}"
    if name == "ransom_note":
        right = seed % 2 == 0
        metadata = {"ransom_note": "ab", "magazine": "abc" if right else "xyz"}
        answer = "Wahr" if right else "Falsch"
        return {"question": f"Kann man ab legen? {number}", "answer": answer, "metadata": metadata}
    if name == "jugs":
        others = [json.dumps(["fülle B", "gieße B->A"])]
        answer = json.dumps(["fülle A", "gieße A->B", "leere A"])
        return {"question": f"Wie misst man 3 Liter ab? {number}", "answer": answer, "metadata": {"others": others}}
    if name == "needle_haystack":
        return {"question": f"Anna mag Tee. Bert mag Wein. Wer mag Tee? {number}", "answer": "Anna", "metadata": {}}
    if name == "caesar_cipher":
        metadata = {"cipher_text": "ÄCGVT", "clear_text": "ÖBFUS"}
        return {"question": f"Entschlüssele ÄCGVT. {number}", "answer": "ÖBFUS", "metadata": metadata}
    moments = {"start_time": "2024-01-01 00:00:00", "end_time": "2024-01-04 01:02:00"}
    metadata = {**moments, "expected_format": "D days, HH:MM"}
    return {"question": f"Wie lange dauert es? {number}", "answer": "3 Tage, 01:02", "metadata": metadata}


def create_dataset(name, **config):
    from types import SimpleNamespace

    return Dataset(SimpleNamespace(name=name, **config))
"""
TASKS = ("ransom_note", "jugs", "needle_haystack", "caesar_cipher", "time_intervals")
FACTORY = f"""
from types import SimpleNamespace

from reasoning_gym import Dataset

DATASETS = {{name: (Dataset, SimpleNamespace) for name in {TASKS!r}}}
"""
on_module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerPool]:
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "reasoning_gym").mkdir()
    (checkout / "reasoning_gym" / "__init__.py").write_text(PACKAGE)
    (checkout / "reasoning_gym" / "factory.py").write_text(FACTORY)
    async with running_pool(checkout) as pool:
        yield pool


@on_module_loop
async def test_boolean_answers_to_problems_in_german_must_be_in_german(pool: WorkerPool) -> None:
    problems = [await make(pool, "ransom_note", seed) for seed in range(4)]
    assert [problem.answer for problem in problems] == ["Wahr", "Falsch", "Wahr", "Falsch"]
    assert [problem.flawed for problem in problems] == [{}] * 4
    verdicts = await pool.score(problems[0], ["Wahr", "Falsch", "True"])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0]


@on_module_loop
async def test_answers_to_jugs_problems_in_german_must_be_in_german(pool: WorkerPool) -> None:
    problem = await make(pool, "jugs", 1)
    verdicts = await pool.score(problem, [str(problem.answer), '["f\\u00fclle B", "gie\\u00dfe B->A"]', '["fill A"]'])
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("task", "answer"),
    [("needle_haystack", "Anna"), ("caesar_cipher", "ÖBFUS"), ("time_intervals", "3 Tage, 01:02")],
)
@on_module_loop
async def test_problem_in_german_is_neither_corrected_nor_rejected(pool: WorkerPool, task: str, answer: str) -> None:
    problem = await make(pool, task, 1)
    assert (problem.answer, problem.flawed) == (answer, {})
    [verdict] = await pool.score(problem, [answer])
    assert verdict.score == 1.0
