"""Use the report page in a real browser. The page loads nothing and runs no code in model text."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reasoning_env.commands.report import report_command
from reasoning_env.dumps.reader import stream_groups
from reasoning_env.program.parser import program
from tests.reports.lines import RESULTS, group, published, reference_of, rollout, row, write, write_evaluation

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (requirements-dev.txt)")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium: apt-get install chromium"),
    pytest.mark.slow,
]
RUN = "window.ran = true"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror='{RUN}'>",
    f"<svg onload='{RUN}'><a href='javascript:{RUN}'>x</a></svg>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<details open ontoggle='{RUN}'>",
    f"<style>* {{ display: none }}</style><body onload='{RUN}'>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'><base href='http://127.0.0.1:9/'>",
    "<form action='http://127.0.0.1:9/'><input autofocus onfocus='window.ran = true'></form>",
    "<link rel=stylesheet href='http://127.0.0.1:9/x.css'><img src='http://127.0.0.1:9/x.png'>",
    f"<!-- --><template><script>{RUN}</script></template><noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}} `{RUN}`",
    "]]>&lt;script&gt;&#60;script&#62;%3Cscript%3E\\u003cscript\\u003e",
    f"%%DATA%%%%SCRIPT%%__proto__ constructor toString '\"`;{RUN}//",
    "\u202egnp.exe\u202c \u2066x\u2069 \u200b\ufeff \x00\x1b[31m\x07 \ud800 \udfff \U000e0041",
    "Z" + "\u0301" * 2000 + "\u0e47" * 500,
    "x" * 30_000,
    "<think>" * 5_000 + "</think>" * 5_000,
    "<answer>" * 20_000,
    "</think>" * 3_000 + "<answer>1</answer>" * 3_000,
    "\n" * 5_000 + "end",
    "",
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two reports: one of a training run and two evaluations, and one with hostile strings."""
    folder = tmp_path_factory.mktemp("page")
    train = [
        group(
            rollout(score=float(number % 3 == 0), text=f"<think>idea {number}, 11</think>so <answer>{number}</answer>"),
            rollout(score=0.0, text="<think>lost", reason="no_answer", answer=None, thinking=f"apart {number}"),
            task=("gcd", "maze", "lcm")[number % 3],
            seed=number,
            index=number,
            level=number / 100,
        )
        for number in range(90)
    ]
    evaluations = [
        write_evaluation(
            folder / "evals" / name,
            *(
                group(*[rollout(float(number % step == 0), tokens=5)] * 2, seed=number, index=number)
                for number in range(12)
            ),
        )
        for name, step in (("first", 2), ("second", 3))
    ]
    hostile = [
        group(
            rollout(text=text, answer=text, reason="scored", thinking=text),
            task=text[:200] or "empty",
            expected_answer=text,
            library_answer=text,
            params={text[:50]: text},
            split=text[:50],
            index=index,
        )
        for index, text in enumerate(HOSTILE)
    ]
    found = {"usual": folder / "usual.html", "hostile": folder / "hostile.html"}
    paths = [write(folder / "train.jsonl", *train), *evaluations]
    report_command([*map(str, paths), "-o", str(found["usual"])], folder)
    bad = write(folder / "<img src=x onerror='window.ran = true'>.jsonl", *hostile)
    trained = [
        write_evaluation(
            folder / "trained" / f"{step}",
            *(group(rollout(), task=text[:200] or "empty", index=index) for index, text in enumerate(HOSTILE[:13])),
            results={**RESULTS, "model": HOSTILE[2], "step": step, "started": f"2026-01-0{step}"},
        )
        for step in (1, 2)
    ]
    sources = map(str, (bad, paths[0], *trained))
    report_command([*sources, "-o", str(found["hostile"])], folder)
    return found


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    """A browser tab that all tests share, because opening a tab takes a second of CPU time."""
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=BROWSER, args=arguments)
        opened = browser.new_page()
        opened.set_default_timeout(30_000)
        yield opened
        browser.close()


class View:
    """A page in the tab, with all errors that occur on the page."""

    def __init__(self, tab: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        self.faults: list[str] = []
        self.page = tab
        self._own = path.as_uri()
        self._listeners = {
            "console": lambda message: self.faults.append(message.text),
            "pageerror": lambda error: self.faults.append(str(error)),
            "dialog": lambda dialog: self.faults.append(dialog.message),
            "request": self._note_request,
        }
        tab.set_viewport_size({"width": width, "height": 800})
        tab.emulate_media(color_scheme=scheme)
        tab.goto("about:blank")
        for event, listener in self._listeners.items():
            tab.on(event, listener)
        self.open(self._own)

    def open(self, url: str) -> None:
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready]")

    def close(self) -> None:
        """Stop recording, and check that no error occurred."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        assert self.faults == []

    def _note_request(self, request: Any) -> None:
        if request.url.partition("#")[0] != self._own and not request.url.startswith("data:"):
            self.faults.append(request.url)

    def show(self, view: str) -> None:
        self.page.click(f"nav button[data-view={view}]")

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.locator(selector).all_inner_texts()
        return found

    def choose(self, **filters: str) -> str:
        """Set filters for rollouts, and return the displayed number of matches."""
        self.page.evaluate("document.getElementById('filters').reset()")
        self.page.wait_for_timeout(50)
        for name, value in filters.items():
            field = f"#{name.replace('_', '-')}"
            if name in ("f_category", "f_task", "f_outcome", "f_signal"):
                self.page.select_option(field, label=value)
            else:
                self.page.fill(field, value)
        self.page.wait_for_timeout(300)  # the page applies typed text after a short pause
        return str(self.page.inner_text("#found")).split(" of ")[0]


@pytest.fixture
def view(tab: Any, pages: dict[str, Path]) -> Iterator[View]:
    opened = View(tab, pages["usual"])
    yield opened
    opened.close()


@pytest.mark.parametrize(("name", "width", "scheme"), [("usual", 1200, "light"), ("hostile", 360, "dark")])
def test_each_view_of_the_page_opens_without_script_errors(
    tab: Any, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    view = View(tab, pages[name], width, scheme)
    for number in range(view.page.locator("#run option").count()):
        view.page.select_option("#run", index=number)
        for tab in view.page.locator("nav button").all():
            tab.click()
            assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.page.evaluate("window.ran") is None
    view.close()


def test_hostile_model_text_executes_no_code_in_the_page(tab: Any, pages: dict[str, Path]) -> None:
    view = View(tab, pages["hostile"])
    view.show("rollouts")
    shown = {}
    for _ in HOSTILE:
        shown[view.page.inner_text(".title")] = view.page.evaluate(
            "document.querySelector('.pair .box:last-child pre').textContent"
        )
        view.page.keyboard.press("t")
        view.page.keyboard.press("j")
    plain = [text for text in HOSTILE if text.isprintable()]
    assert set(plain) <= set(shown.values())
    assert any("U+202E" in text and "U+001B" in text and "U+D800" in text for text in shown.values())
    assert (
        view.page.locator("main :is(script, img, svg, iframe, form form, style, link, meta, base, template)").count()
        == 0
    )
    assert view.page.evaluate("window.ran") is None
    assert view.choose(f_task="gcd") == "0"
    view.page.select_option("#run", index=1)
    assert view.choose(f_task="gcd") == "30"
    view.close()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_hostile_names_in_an_evaluation_execute_no_code_in_the_page(
    tab: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    evil = HOSTILE[2]
    folders = []
    for name, number in (("<img src=x onerror='window.ran = true'>", 0), (evil.replace("/", ""), 1)):
        groups = [
            group(rollout(float(place == number)), task=text[:200] or "empty", index=place, seed=place, reference=text)
            for place, text in enumerate(HOSTILE[:13])
        ]
        extra = group(rollout(), task=evil, index=99, seed=99, reference=f"{evil} {number}")
        settings = {evil: number, "eval_temperature": f"{evil} {number}"}
        results = {**RESULTS, "model": evil, "settings": settings, "versions": {evil: evil}}
        folders.append(str(write_evaluation(tmp_path / f"{number}{name}", *groups, extra, results=results)))
    page = tmp_path / "both.html"
    report_command([*folders, "-o", str(page)], tmp_path)
    view = View(tab, page, width, scheme)
    view.show("compare")
    view.page.click(".unlike summary")
    assert evil in view.page.inner_text(".unlike")
    view.page.click("#compare .wide:last-child tbody tr:first-child")
    assert view.page.locator("#both").is_visible()
    assert view.page.locator(":is(main, #both) :is(script, img, svg, iframe, style, link, meta, base)").count() == 0
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    assert view.page.evaluate("window.ran") is None
    view.close()


def test_filters_of_the_report_page_select_groups(view: View) -> None:
    view.show("rollouts")
    of_task = 30  # every group of a task is of the same kind
    found: list[tuple[dict[str, str], int]] = [
        ({}, 3 * of_task),
        *(({name: value}, of_task) for name, value in (("f_task", "gcd"), ("f_category", "games"), ("f_low", "0.5"))),
        ({"f_outcome": "right"}, of_task),
        ({"f_signal": "all at 0"}, 2 * of_task),
        ({"f_task": "maze", "f_text": "how many"}, of_task),
        ({"f_text": "not to be found"}, 0),
    ]
    assert [view.choose(**filters) for filters, _ in found] == [str(count) for _, count in found]
    assert "No group matches." in view.page.inner_text("#group")
    assert 0 < int(view.choose(l_low="0.80")) <= 10
    assert int(view.choose(f_text="IDEA 88,")) <= 1


def test_page_shows_the_library_answer_of_a_corrected_problem(tab: Any, pages: dict[str, Path]) -> None:
    view = View(tab, pages["hostile"])
    view.show("rollouts")
    view.choose(f_outcome="right")
    assert "CORRECTED: REASONING-GYM'S OWN ANSWER IS" in view.page.inner_text("#group").upper()


def test_page_folds_thinking_and_marks_answers(view: View) -> None:
    view.show("rollouts")
    view.choose(f_outcome="right")
    thought = view.page.locator(".thought pre")
    assert not thought.is_visible()
    view.page.keyboard.press("t")
    assert thought.is_visible()
    assert view.texts("mark.expected") == ["11"]
    [marked] = view.texts("mark.given.right")
    assert view.page.inner_text(".title") == "gcd"
    assert int(marked) % 3 == 0
    view.page.keyboard.press("l")
    assert re.fullmatch(r"apart \d+", view.texts(".thought pre")[0])
    assert view.page.inner_text(".thought:first-of-type summary").lower().startswith("thinking,")
    assert view.page.inner_text(".command code").startswith(f"{program()} tasks 'gcd:")


def test_keyboard_selects_groups_and_rollouts(view: View) -> None:
    view.page.keyboard.press("5")
    view.choose(f_task="lcm")
    view.page.keyboard.press("Escape")
    seen = []
    for key in ("j", "j", "k", "ArrowRight", "h"):
        view.page.keyboard.press(key)
        chosen = view.page.locator("#list li").evaluate_all("items => items.findIndex((item) => item.ariaCurrent)")
        seen.append((chosen, view.page.inner_text(".chips [aria-pressed=true]")[0]))
    assert seen == [(1, "1"), (2, "1"), (1, "1"), (1, "2"), (1, "1")]
    view.page.keyboard.press("?")
    assert view.page.locator("#help").is_visible()


def test_tables_can_be_sorted_by_any_column(view: View) -> None:
    view.show("tasks")
    table = "#tasks .card:first-child"
    view.page.click(f"{table} th button >> text=task")
    assert view.texts(f"{table} tbody td:first-child") == ["gcd", "lcm", "maze"]
    view.page.click(f"{table} th button >> text=task")
    assert view.texts(f"{table} tbody td:first-child") == ["maze", "lcm", "gcd"]
    view.page.click(f"{table} th button >> text=accuracy")
    assert view.texts(f"{table} tbody td:first-child")[0] == "gcd"
    view.page.click(f"{table} tbody tr:first-child")
    assert view.page.inner_text(".title") == "gcd"
    view.show("tasks")
    view.page.click(".heat tbody td[title]:nth-child(2)")
    assert view.page.input_value("#l-high") == "0.1"


def test_comparison_view_counts_better_and_worse_problems(view: View) -> None:
    view.show("compare")
    # Every second problem is right in the first run, and every third in the second: 4 got worse and 2 better.
    tiles = [text.split("\n") for text in view.texts("#compare .tile")]
    assert [tile[1] for tile in tiles] == ["−0.167", "12", "0", "2", "4"]
    view.page.select_option("#run", label="first")
    view.show("overview")
    assert "a model" in view.page.inner_text("#overview .bars")
    assert view.page.locator("#overview .named .u-label").all_text_contents() == ["a model"]


def test_comparison_shows_the_confidence_interval_of_the_difference(view: View) -> None:
    view.show("compare")
    shown = view.page.locator("#compare .spread")
    assert re.fullmatch(r"−0\.167, 95 %: −0\.\d{3} to \+0\.\d{3}", shown.get_attribute("title"))
    view.page.click("#compare tr:has(.spread)")
    assert view.page.inner_text(".title") == "gcd"


def test_clicking_a_problem_in_the_comparison_shows_both_answers(view: View) -> None:
    view.show("compare")
    view.page.click("#compare .wide:last-child tbody tr:first-child")
    assert [text.split(":")[0] for text in view.texts("#both .pair > div > h3")] == ["A", "B"]
    assert view.page.locator("#both .pair .box h3").all_inner_texts().count("answer") == 2
    view.page.click("#both > button")
    assert not view.page.locator("#both").is_visible()


def test_hovered_plot_point_names_its_task(view: View) -> None:
    view.show("compare")
    plot = view.page.locator("#compare .u-over").last
    plot.hover()
    assert "gcd" in view.page.locator("#compare .tip").last.inner_text()
    plot.click()
    assert view.page.inner_text(".title") == "gcd"


def test_list_of_groups_shows_task_seed_level_score_and_answer(view: View) -> None:
    view.show("rollouts")
    view.choose(f_task="gcd", f_text="idea 33,")
    assert view.texts("#list li")[0].split("\n")[:2] == ["gcd #33 level 0.33", "0.50 33"]


def test_page_saves_a_table_as_csv(view: View) -> None:
    view.show("tasks")
    with view.page.expect_download() as download:
        view.page.click("#tasks .card:first-child .csv")
    heading, *rows = Path(download.value.path()).read_text().splitlines()
    assert heading.startswith('"task","category","score"')
    assert sorted(row.split(",")[0] for row in rows) == ['"gcd"', '"lcm"', '"maze"']
    view.faults = [fault for fault in view.faults if not fault.startswith("blob:")]


def test_reopening_the_address_of_a_report_page_restores_the_view(view: View) -> None:
    view.show("rollouts")
    view.choose(f_task="lcm", f_text="idea", l_low="0.2")
    for key in ("Escape", "j", "j"):
        view.page.keyboard.press(key)
    view.page.select_option(".chips select", index=1)
    parts = "#found, #list li[aria-current], .chips [aria-pressed=true], .pair h3"
    link, shown = view.page.url, view.texts(parts)
    view.page.goto("about:blank")
    view.open(link)
    assert view.texts(parts) == shown
    assert view.page.input_value("#l-low") == "0.2"


def test_report_page_ignores_unknown_values_in_its_url(view: View, pages: dict[str, Path]) -> None:
    view.page.goto("about:blank")
    view.open(f"{pages['usual'].as_uri()}#curves?curveTask=maze&figure=x&run=nobody&smooth=9&axis=__proto__&curve=y")
    assert view.page.input_value("#curves select[aria-label=task]") == "maze"
    assert view.page.input_value("#curves select[aria-label=figure]") == "score"


def test_page_saves_rollouts_as_a_readable_dump(view: View, tmp_path: Path) -> None:
    view.show("rollouts")
    view.choose(f_task="gcd", f_outcome="no answer", l_low="0.5")
    with view.page.expect_download() as download:
        view.page.click("#save")
    download.value.save_as(tmp_path / "saved.jsonl")
    groups = list(stream_groups(tmp_path / "saved.jsonl"))
    assert sorted(group.index or 0 for group in groups) == list(range(51, 90, 3))
    for line in groups:
        [saved] = line.rollouts
        assert (saved.outcome, saved.thinking) == ("no_answer", f"apart {line.seed}")
        assert line.reference == reference_of("gcd", line.index or 0)
    view.faults = [fault for fault in view.faults if not fault.startswith("blob:")]


def test_page_shows_two_rollouts_side_by_side(view: View) -> None:
    view.show("rollouts")
    view.choose(f_task="gcd", f_text="idea 33,")
    view.page.select_option(".chips select", index=1)
    first, second = view.page.locator("#group .pair .box pre").all_text_contents()[-2:]
    assert first == "<think>idea 33, 11</think>so <answer>33</answer>"
    assert second == "apart 33\n\n<think>lost"
    marked = "".join(view.texts("mark.only"))
    assert "answer" in marked
    assert "lost" in marked


def test_page_sorts_evaluations_by_step(tab: Any, tmp_path: Path) -> None:
    for number, step in enumerate((10, 20, 30)):
        lines = [group(rollout(float(index < 4 * number)), index=index, seed=index) for index in range(12)]
        results = {**RESULTS, "step": step, "started": f"2026-01-01T0{number}:00:00+0000"}
        write_evaluation(tmp_path / "evals" / f"m-{step}", *lines, results=results)
    page = tmp_path / "page.html"
    report_command([str(tmp_path / "evals"), "-o", str(page)], tmp_path)
    view = View(tab, page)
    assert view.page.locator("#run optgroup option").all_text_contents() == ["m, step 10", "m, step 20", "m, step 30"]
    view.show("curves")
    rows = view.page.locator("#curves tbody tr").all_inner_texts()
    assert [row.split()[:2] for row in rows] == [["10", "0.000"], ["20", "0.333"], ["30", "0.667"]]
    assert view.texts(".mini b") == ["0.67"]
    view.show("compare")
    assert view.page.locator("#compare .stack > .card:first-child tbody tr").count() == 1
    view.close()


def test_page_title_names_the_run(view: View, pages: dict[str, Path]) -> None:
    view.page.goto("about:blank")
    view.open(f"{pages['usual'].as_uri()}#runs")
    assert view.page.locator("#compare").is_visible()
    view.page.click("nav button[data-view=overview]")
    assert view.page.title().endswith("· Overview")
    assert view.page.title().split(" · ")[0] == view.page.locator("#run option:checked").inner_text()


def test_page_does_not_rank_runs_that_have_different_tasks(tab: Any, tmp_path: Path) -> None:
    few = write_evaluation(tmp_path / "few", group(rollout(1.0), task="gcd"))
    many = write_evaluation(tmp_path / "many", *(group(rollout(0.0), task=task) for task in ("gcd", "lcm")))
    page = tmp_path / "page.html"
    report_command([str(few), str(many), "-o", str(page)], tmp_path)
    view = View(tab, page)
    view.show("compare")
    card = view.page.locator("#compare .stack > .card:first-child")
    assert "Not ranked, because the runs have different tasks" in card.inner_text()
    assert [row.split()[0] for row in card.locator("tbody tr").all_inner_texts()] == ["many", "few"]
    view.close()


def test_report_page_shows_the_task_count_of_published_scores(tab: Any, tmp_path: Path) -> None:
    rows = {"gcd": row(differs=None), "lcm": row(differs="questions")}
    models = {"lab/good": published(0.8, comparable=0.9, tasks={"gcd": 0.9, "lcm": 0.7})}
    results = {**RESULTS, "tasks": rows, "published": models, "comparable": row(library_score=1.0)}
    groups = [group(rollout(), rollout(), task=task) for task in ("gcd", "lcm")]
    page = tmp_path / "page.html"
    folder = write_evaluation(tmp_path / "one", *groups, results=results)
    report_command([str(folder), "-o", str(page)], tmp_path)
    view = View(tab, page)
    card = view.page.locator("#overview .card", has=view.page.locator("h2", has_text="pass@k"))
    assert (
        "of published models over all 2 tasks, including partial credit; the bars above use only 1 of them"
        in card.inner_text()
    )
    view.close()
