"""Generate and score with the library in this process. No item may change global state."""

from __future__ import annotations

import importlib.metadata
import json
import pickle
import sys
from dataclasses import replace
from types import ModuleType

import pytest

from reasoning_env.records import ProblemRequest
from reasoning_env.workers.library import Library, sort_fonts, without_plotting

from .support import COMPOSITE, OVERRIDES


def test_library_version_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(importlib.metadata, "version", lambda name: looked_up.append(name) or "1.2")
    assert {task.release for task in Library(None).tasks.values()} == {"1.2"}
    assert looked_up == ["reasoning-gym"]


def test_verifier_uses_the_tolerance_of_the_difficulty_level(library: Library) -> None:
    made = library.generate(ProblemRequest("decimal_arithmetic", 3, {}, 0.0))
    near = str(float(made.answer or "") + 0.00005)  # within the tolerance of 4 decimal places, not of 8
    scorers = [library.scorer("decimal_arithmetic", {}, made.entry, level, plainly=True) for level in (0.0, 1.0, 0.0)]
    assert [scorer.score(near) for scorer in scorers] == [1.0, 0.0, 1.0]


def test_decimal_precision_set_by_a_task_does_not_change_other_tasks(library: Library) -> None:
    made = []
    for precision in (5, 28):
        library.generate(ProblemRequest("decimal_arithmetic", 1, {"precision": precision}))
        made.append(library.generate(ProblemRequest("decimal_chain_sum", 5, {}, 1.0)))
    assert made[0] == made[1]


def test_seed_determines_the_problem_of_a_task_that_uses_numpy(library: Library) -> None:
    request = ProblemRequest("codeio", 585_942_654, {"input_prediction_probability": 0.5})
    first, second = (library.generate(request) for _ in range(2))
    assert pickle.loads(first.entry) == pickle.loads(second.entry)


def test_font_list_is_sorted_and_excludes_user_fonts(library: Library) -> None:
    fonts = sys.modules["reasoning_gym.cognition.figlet_fonts"].OK_FONTS
    assert len(fonts) > 200 and fonts == sorted(fonts)
    fonts.reverse()
    fonts.append("a font of the user")
    sort_fonts()
    assert fonts == sorted(fonts) and "a font of the user" not in fonts


def test_library_import_does_not_load_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in ("matplotlib", "mpl_toolkits"):
            monkeypatch.delitem(sys.modules, name)
    with without_plotting():
        import matplotlib.pyplot as plt
    assert not hasattr(plt, "figure")
    assert "matplotlib" not in sys.modules


def test_already_imported_matplotlib_is_not_replaced_by_a_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    plotting = ModuleType("matplotlib")
    monkeypatch.setitem(sys.modules, "matplotlib", plotting)
    with without_plotting():
        assert sys.modules["matplotlib"] is plotting
    assert sys.modules["matplotlib"] is plotting


def test_problem_metadata_has_no_current_date(library: Library) -> None:
    made = library.generate(ProblemRequest("time_intervals", 3, {"task_types": ["time"]}))
    assert json.loads(made.metadata_json)["start_time"].startswith("2025-01-01 ")


def test_codeio_program_with_non_json_output_is_rejected(library: Library) -> None:
    request = ProblemRequest("codeio", 1562588661, {"input_prediction_probability": 1.0}, 0.5)
    assert library.generate(request).flawed["wrong"] >= 1
    with pytest.raises(TypeError, match="not JSON serializable"):
        library.generate(replace(request, exact_seed=True))


def test_request_for_an_exact_seed_ignores_the_default_training_params(library: Library) -> None:
    request = ProblemRequest("codeio", 5)
    assert library.generate(request).params == {"input_prediction_probability": 1.0}
    assert library.generate(replace(request, exact_seed=True)).params == {}


def test_user_params_override_default_params_of_served_problems(library: Library) -> None:
    request = ProblemRequest("codeio", 5, {"input_prediction_probability": 0.9})
    assert library.generate(request).params == request.params


# ------------------------------------------------------------------ checks before a run


def test_valid_task_params_pass_the_check(library: Library) -> None:
    fine = [("chain_sum", OVERRIDES["chain_sum"], level) for level in (None, 0.0, 1.0)]
    assert {library.check(*one) for one in [*fine, ("composite", COMPOSITE, 0.5)]} == {None}


# ------------------------------------------------------------------ lenient answers


def test_right_answer_in_backticks_gets_full_score_by_default(library: Library) -> None:
    made = library.generate(ProblemRequest("gcd", 3, {}))
    assert library.scorer("gcd", {}, made.entry).score(f"`{made.answer}`") == 1.0


def test_right_answer_in_backticks_gets_less_than_full_score_with_plain_rewards(library: Library) -> None:
    made = library.generate(ProblemRequest("gcd", 3, {}))
    plain = library.scorer("gcd", {}, made.entry, plainly=True)
    assert plain.score(str(made.answer)) == 1.0
    assert plain.score(f"`{made.answer}`") < 1.0


@pytest.mark.parametrize(("task", "optional"), [("gcd", True), ("letter_jumble", True), ("sentence_reordering", False)])
def test_full_stop_after_an_answer_is_optional_in_some_tasks(library: Library, task: str, optional: bool) -> None:
    made = library.generate(ProblemRequest(task, 3, {}))
    score = library.scorer(task, {}, made.entry).score(f"{made.answer}.")
    assert (score == 1.0) is optional


def test_question_is_clarified_unless_the_original_question_is_requested() -> None:
    library = Library(None)
    request = ProblemRequest("maze", 5, exact_seed=True)
    served = library.generate(request)
    published = library.generate(replace(request, uncorrected=True))
    asked_plainly = library.generate(replace(request, clarified=False))
    library.rewards = "library"
    as_it_is = library.generate(replace(request, exact_seed=False))
    asked_clearly = library.generate(replace(request, clarified=True))
    assert "up, down, left or right" in served.question == asked_clearly.question
    assert "up, down, left or right" not in published.question == asked_plainly.question == as_it_is.question


def test_questions_of_the_member_tasks_of_the_composite_task_are_clarified() -> None:
    made = Library(None).generate(ProblemRequest("composite", 1, {"datasets": [{"name": "maze"}]}))
    assert "up, down, left or right" in made.question


def test_reference_answer_is_corrected_unless_the_original_is_requested() -> None:
    library = Library(None)
    request = ProblemRequest("family_relationships", 19137327)
    served = library.generate(request)
    by_reference = library.generate(replace(request, exact_seed=True))
    published = library.generate(replace(request, exact_seed=True, uncorrected=True))
    library.rewards = "library"
    as_it_is = library.generate(request)
    answers = [problem.answer for problem in (served, by_reference, published, as_it_is)]
    assert answers == ["son-in-law", "son-in-law", "father-in-law", "father-in-law"]


def test_same_problems_are_served_with_plain_and_with_strict_rewards() -> None:
    library = Library(None)
    request = ProblemRequest("family_relationships", 19137327)
    served = library.generate(request)
    library.rewards = "plain"
    assert library.generate(request) == served


def test_params_in_a_problem_reference_override_the_params_of_the_level(library: Library) -> None:
    """Level 1 now has different parameters than the reference."""
    params = {"min_word_length": 3, "max_word_length": 4}
    request = ProblemRequest("word_ladder", 7, params, 1.0, exact_seed=True, params_are_whole=True)
    made = library.generate(request)
    assert made.question == library.generate(ProblemRequest("word_ladder", 7, params, exact_seed=True)).question
    assert (made.params, made.level) == (params, 1.0)
