"""What README, docs and shipped config files say is what the code does: settings, snippets, links and commands."""

from __future__ import annotations

import logging
import re
import runpy
import shlex
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from reasoning_env.atropos import commands
from reasoning_env.commands.main import main
from reasoning_gym_environment import APIServerConfig, ReasoningGymEnv, ReasoningGymEnvConfig
from reasoning_gym_testing import TOKENIZER, InferenceServer

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TRAINERS = (ROOT / "docs" / "trainers.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "learn" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def test_settings_table_is_what_the_settings_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    commands(ReasoningGymEnv)["settings"](["--markdown"])
    page = (ROOT / "docs" / "settings.md").read_text()
    assert capsys.readouterr().out in page, "renew it: python reasoning_gym_environment.py settings --markdown"


def test_readme_is_read_in_a_minute() -> None:
    assert README.count("\n") <= 200


def test_every_setting_has_a_description() -> None:
    assert [name for name, field in ReasoningGymEnvConfig.model_fields.items() if not field.description] == []


def test_config_shown_for_real_training_is_the_shipped_file() -> None:
    shown = README.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "vllm.yaml").read_text())


def test_snippet_prints_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    snippet = next(code.split("```")[0] for code in page.split("```python\n") if "asyncio.run" in code)
    with InferenceServer(lambda request: [f"<answer>{number}</answer>" for number in range(request.n)]) as server:
        for shown, used in (
            ("http://localhost:9001", server.url),
            ("Qwen/Qwen2.5-1.5B-Instruct", TOKENIZER),
            ("group_size=8,", "group_size=8, worker_niceness=0,"),  # so that a busy machine does not starve them
        ):
            assert shown in snippet
            snippet = snippet.replace(shown, used)
        exec(snippet, {"__name__": "snippet"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[-8:]] == [f"<answer>{number}</answer>" for number in range(8)]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_is_accepted(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert ReasoningGymEnvConfig(**content["env"]).tokenizer_name == content["env"]["tokenizer_name"]
    assert all(APIServerConfig(**server).base_url for server in content["openai"])


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_ten_lines_without_atropos_run(capsys: pytest.CaptureFixture[str], page: str) -> None:
    text = (ROOT / page).read_text()
    snippet = next(code.split("```")[0] for code in text.split("```python\n") if "bridge.judge" in code)
    exec(compile(snippet, page, "exec"), {})
    assert capsys.readouterr().out == "[1.0, 0.0]\n"


@pytest.mark.parametrize("shown", ["GRPOTrainer", "verl.trainer.main_ppo", "vf-eval"])
def test_readme_has_the_lines_for_trainers_that_their_page_has(shown: str) -> None:
    """The page's own are run with the trainers' packages, in `tests/integrations`."""
    blocks = [re.findall(r"^```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for text in (README, TRAINERS)]
    [in_readme] = [block for block in blocks[0] if shown in block]
    assert in_readme in blocks[1]


# ---------------------------------------------------------------------------- links


def headings(page: Path) -> set[str]:
    """The names by which links find the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken_links(page: Path) -> list[str]:
    """Links to other files and headings that lead nowhere."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, heading = link.partition("#")
        target = (page.parent / name) if name else page
        if "://" in link:
            continue
        if not target.is_file() or (heading and heading not in headings(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Here it is\n[a](#here-it-is) [b](#there) [c](gone.md) [d](page.md#here-it-is) [e](https://x.org)"
    )
    assert broken_links(page) == ["#there", "gone.md"]


def test_readme_leads_to_every_page() -> None:
    named = set(re.findall(r"\(docs/(\w+\.md)", README))
    assert {page.name for page in PAGES if page.parent.name == "docs"} - named == set()


def test_site_has_every_page() -> None:
    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = re.findall(r"[\w-]+\.md", str(contents))
    assert sorted(named) == sorted(
        ["index.md", "learning.md", *(page.name for page in PAGES if page.parent.name == "docs")]
    )


# ---------------------------------------------------------------------------- commands

OWN = "reasoning_gym_environment.py"
COMMAND = re.compile(rf"(?:^|[ .])((?:python (?:{OWN} |-m (?:benchmarks|learn|tools)\b|examples/)|make )\S.*)")


def shown_commands() -> list[tuple[str, ...]]:
    """The words of every command of this project that a page shows, in a block or in a sentence."""
    lines = []
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        lines += [line for block in blocks for line in block.splitlines()]
        lines += re.findall(r"(?<!`)`((?:python|make) [^`]+)`(?!`)", text) + re.findall(
            r"^ {4}(\S.*)$", text, re.MULTILINE
        )
    found = set()
    for line in lines:
        if match := COMMAND.search(line.strip()):
            words = shlex.split(match[1], comments=True)
            ends = [place for place, word in enumerate(words) if word in ("|", "&", ";", "&&", "done;")]
            found.add(tuple(words[: min(ends, default=len(words))]))
    return sorted(found)


class Parsed(Exception):
    """A command line was understood; nothing more is run."""


@pytest.fixture
def parses_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands end once their options are read, in a folder that has what the docs name."""
    (tmp_path / "run.yaml").write_text("env: {}")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    parse = ArgumentParser.parse_args

    def parse_args(parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        parse(parser, *args, **kwargs)
        raise Parsed

    async def check_first(*_: Any) -> None:
        raise Parsed

    monkeypatch.setattr(ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr("reasoning_env.atropos.cli.check_first", check_first)
    monkeypatch.setattr("reasoning_env.commands.main.start_library", lambda folder: None)
    monkeypatch.setattr(logging.root, "handlers", list(logging.root.handlers))
    monkeypatch.setenv("OPENAI_API_KEY", "x")


class Idle(ReasoningGymEnv):
    """An environment that is made of its settings, and does nothing."""

    def __init__(self, config: Any, servers: Any, slurm: bool, testing: bool) -> None:
        raise Parsed


@pytest.mark.parametrize("words", shown_commands(), ids=" ".join)
@pytest.mark.usefixtures("parses_only")
def test_shown_command_is_understood(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", list(words[1:]))
    match words:
        case ("make", target, *_):
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ("python", "-m", module, *rest):
            monkeypatch.setattr("sys.argv", [module, *rest])
            with pytest.raises(Parsed):
                runpy.run_module(module, run_name="__main__")
        case ("python", script, *_) if script != OWN:
            assert (ROOT / script).is_file()
        case (_, _, "settings", *rest):
            assert commands(Idle)["settings"](rest) == 0
        case (_, _, name, *rest):
            run = partial(main, [name, *rest], commands(Idle), environment_file=ROOT / OWN)
            if "--print-config" in rest:
                assert run() == 0
                return
            with pytest.raises(Parsed):
                run()
