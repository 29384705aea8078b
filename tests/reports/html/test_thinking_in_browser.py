"""The page folds exactly the thinking that scoring removes; checked in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib import resources

import pytest

from reasoning_env.prompts.thinking import FORMATS, Thinking
from reasoning_env.reports.html.page import format_marks
from reasoning_env.rewards import split_thinking
from tests.prompts.test_thinking import ANALYSIS, FINAL, WRITTEN

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (requirements-dev.txt)")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium: apt-get install chromium"),
    pytest.mark.slow,
]
ODD = [
    "<THINK>a</Think>b",
    "[think]a[/think]b",
    "a</think>b<think>c",
    "[THINK] a <think> b </think> c [/THINK]d",
    "<think> [/THINK] a</think>b",
    f"{FINAL}a<|end|>{ANALYSIS}b{FINAL}c",
    f"{FINAL}a{FINAL}b",
    f"a{ANALYSIS}b",
    "",
]
Shown = Callable[[str], str]


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    """Returns the text that the page shows outside the thinking."""
    script = resources.files("reasoning_env.reports.html").joinpath("assets/app.js").read_text(encoding="utf-8")
    [split] = re.findall(r"^function splitThinking\(.*?^}$", script, re.DOTALL | re.MULTILINE)
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=BROWSER, args=arguments)
        page = browser.new_page()
        marks = format_marks(Thinking(FORMATS))

        def ask(text: str) -> str:
            parts = page.evaluate(
                f"([text, marks]) => {{ const MAX_MARKED_PARTS = 300; {split}; return splitThinking(text, marks); }}",
                [text, marks],
            )
            return " ".join(part for thought, part in parts if part and not thought)

        yield ask
        browser.close()


@pytest.mark.parametrize("text", [*WRITTEN.values(), *ODD])
def test_page_collapses_the_thinking_that_is_removed_before_scoring(shown: Shown, text: str) -> None:
    assert shown(text) == split_thinking(text, Thinking(FORMATS)).text
