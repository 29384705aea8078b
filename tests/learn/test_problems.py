from __future__ import annotations

from collections.abc import Iterator

import pytest

from learn.problems import Problems
from learn.tasks import PARAMS


@pytest.fixture(scope="module")
def problems() -> Iterator[Problems]:
    with Problems(1, 5) as problems:
        yield problems


def test_warm_start_excludes_test_set(problems: Problems) -> None:
    warm = {problem.question for made in problems.warm(40).values() for problem in made}
    assert len(warm) > 60
    assert not warm & {problem.question for problem in problems.tests}


def test_test_set_has_training_parameters(problems: Problems) -> None:
    assert {problem.task: problem.params for problem in problems.tests} == PARAMS


def test_verdicts_keep_order(problems: Problems) -> None:
    answers = [[f"<answer>{problem.answer}</answer>", "<answer>no</answer>"] for problem in problems.tests]
    judged = problems.verdicts(problems.tests, answers)
    assert [[verdict.correct for verdict in verdicts] for verdicts in judged] == [[True, False]] * len(problems.tests)
