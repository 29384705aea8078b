"""README, docs and shipped config files agree with the code: settings, snippets, links and commands."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
import yaml

import reasoning_env
from reasoning_env.atropos import ServerConfig, commands
from reasoning_gym_environment import ReasoningGymEnv, ReasoningGymEnvConfig

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TRAINERS = (ROOT / "docs" / "trainers.md").read_text()
FOLDERS = ("", "learn", "reasoning_audit", "hub/nemo_gym", "hub/openenv/reasoning_gym_environment", "examples/contrib")
READMES = [ROOT / name / "README.md" for name in FOLDERS]
PAGES = [*READMES, *sorted((ROOT / "docs").glob("*.md"))]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def test_settings_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    commands(ReasoningGymEnv)["settings"](["--markdown"])
    page = (ROOT / "docs" / "settings.md").read_text()
    assert capsys.readouterr().out in page, "renew it: python reasoning_gym_environment.py settings --markdown"


def test_readme_has_at_most_800_words() -> None:
    assert len(README.split()) <= 800


def test_every_setting_has_a_description() -> None:
    assert [name for name, field in ReasoningGymEnvConfig.model_fields.items() if not field.description] == []


def test_train_page_shows_the_shipped_config_file() -> None:
    shown = (ROOT / "docs" / "train.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "vllm.yaml").read_text())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_config_files_are_valid(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    assert ReasoningGymEnvConfig(**content["env"]).tokenizer_name == content["env"]["tokenizer_name"]
    assert all(ServerConfig(**server).base_url for server in content["openai"])


@pytest.mark.parametrize("shown", ["GRPOTrainer", "main_ppo"])
def test_trainer_snippets_in_the_readme_match_the_trainers_page(shown: str) -> None:
    """`tests/integrations` runs the snippets of the page with the trainers' packages."""
    blocks = [re.findall(r"^```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for text in (README, TRAINERS)]
    [in_readme] = [block for block in blocks[0] if shown in block]
    assert in_readme in blocks[1]


# ---------------------------------------------------------------------------- links


def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken_links(page: Path) -> list[str]:
    """Return the links to files and headings that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, heading = link.partition("#")
        target = (page.parent / name) if name else page
        if "://" in link:
            continue
        if not target.is_file() or (heading and heading not in headings(target)):
            broken.append(link)
    return broken


def test_links_in_docs_resolve() -> None:
    assert {page: broken for page in PAGES if (broken := broken_links(page))} == {}


def test_pictures_in_docs_are_local_files() -> None:
    """A picture on another server would not load without a network."""
    assert [page for page in PAGES if re.search(r"!\[[^]]*\]\(\w+://[^)]*\)", page.read_text())] == []


def test_readme_links_every_page_of_the_docs() -> None:
    named = set(re.findall(r"\(docs/([\w-]+\.md)", README))
    assert {page.name for page in PAGES if page.parent.name == "docs"} - named == set()


def test_site_navigation_lists_every_page() -> None:
    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = re.findall(r"[\w-]+\.md", str(contents))
    assert sorted(named) == sorted(
        [
            "index.md",
            "learning.md",
            "audit.md",
            "nemo-gym.md",
            "openenv.md",
            "changelog.md",
            *(page.name for page in PAGES if page.parent.name == "docs"),
        ]
    )


def test_api_page_names_every_public_module() -> None:
    modules = re.findall(r"^- ([^:]*):", reasoning_env.__doc__ or "", re.MULTILINE)
    names = re.findall(r"`([\w.]+)`", "".join(modules))
    page = (ROOT / "docs" / "api.md").read_text()
    assert "session" in names
    assert [name for name in names if f"reasoning_env.{name}" not in page] == []


def test_messages_quoted_in_docs_exist_in_the_code() -> None:
    """Messages are split at placeholders (URL, TASK, N), and each piece is searched."""
    table = (ROOT / "docs" / "run.md").read_text().split("## Troubleshooting")[1]
    quoted = re.findall("`([^`]+)`", " ".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)))
    nodes = [node for path in (ROOT / "reasoning_env").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts.append((ROOT / "Makefile").read_text())
    pieces = [piece.strip() for message in quoted for piece in re.split(r"\b(?:URL|TASK|N)\b", message)]
    assert len(quoted) > 10
    assert [piece for piece in pieces if not any(piece in text for text in texts)] == []


# ---------------------------------------------------------------------------- commands

COMMAND = re.compile(r"(?:^|[ .])((?:python (?:-m (?:benchmarks|learn|tools)\b|examples/)|make )\S.*)")
"""Commands of this project other than the script's commands, which `tests/e2e/test_shown_commands.py` runs."""


def shown_commands() -> list[tuple[str, ...]]:
    """Return the words of every command that matches COMMAND on a page, in a block or in a sentence."""
    lines = []
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
        lines += [line for block in blocks for line in block.splitlines()]
        lines += re.findall(r"(?<!`)`((?:python|make) [^`]+)`(?!`)", text)
        lines += re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)
    found = set()
    for line in lines:
        if match := COMMAND.search(line.strip()):
            found.add(tuple(shlex.split(match[1], comments=True)))
    return sorted(found)


class Parsed(Exception):
    """Raised after a command line was parsed, so that the command does not run."""


@pytest.fixture
def parses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every command end as soon as its options are parsed."""
    parse = ArgumentParser.parse_args

    def parse_args(parser: ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        parse(parser, *args, **kwargs)
        raise Parsed

    monkeypatch.setattr(ArgumentParser, "parse_args", parse_args)


@pytest.mark.parametrize("words", shown_commands(), ids=" ".join)
@pytest.mark.usefixtures("parses_only")
def test_every_command_in_the_docs_is_parsed(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    match words:
        case ("make", target, *_):
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        case ("python", "-m", module, *rest):
            monkeypatch.setattr("sys.argv", [module, *rest])
            # Python warns about a module that an earlier test has imported.
            monkeypatch.delitem(sys.modules, module, raising=False)
            with pytest.raises(Parsed):
                runpy.run_module(module, run_name="__main__")
        case ("python", script, *_):
            assert (ROOT / script).is_file()
