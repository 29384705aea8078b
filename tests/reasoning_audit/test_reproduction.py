"""Write the command that reproduces a finding."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from reasoning_audit.reproduction import LibraryCommands, OwnCommands, shell_word
from tests.records import make_spec, problem_of


def test_score_command_of_a_finding_has_seed_level_and_options() -> None:
    commands = OwnCommands("again", program="program", options=["--rewards", "plain"], params={"size": 2})
    words = shlex.split(commands.score(problem_of(make_spec("maze", seed=9, level=0.5)), "it's 4"))
    assert words[:4] == ["program", "score", "maze", "<answer>it's 4</answer>"]
    assert words[4:] == ["--seed", "9", "--level", "0.5", "--params", '{"size": 2}', "--rewards", "plain"]


@pytest.mark.parametrize("answer", [" ", "<answer>4</answer>"])
def test_audit_command_is_printed_if_no_score_command_fits_the_answer(answer: str) -> None:
    assert OwnCommands("again", program="program").score(problem_of(make_spec("maze")), answer) == "again"


def test_printed_code_that_calls_the_library_reproduces_a_finding() -> None:
    problem = problem_of(make_spec("maze", seed=9, params={"min_size": 2}))
    *_, code = shlex.split(LibraryCommands("again").score(problem, "4'"))
    asked = "reasoning_gym.create_dataset('maze', min_size=2, seed=9, size=1)"
    assert code == f'import reasoning_gym; d = {asked}; print(d.score_answer("4\'", d[0]))'


@pytest.mark.parametrize("text", ["4", "a 'b'", 'a "b"', "$HOME 'x'", "1 2\n3 4\\", "\u2705\t'", ""])
def test_reproduction_command_quotes_shell_words(text: str) -> None:
    printed = subprocess.run(["bash", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True)
    assert printed.stdout.decode() == text
    assert "\n" not in shell_word(text)
