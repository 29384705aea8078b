"""Mistakes of a user: each ends with one line that names the setting, the value, what was expected or what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import reasoning_env

from .conftest import Cli

NOWHERE = ["--base-url", "http://127.0.0.1:9/v1"]

COMMANDS = [
    ("servee", "there is no command 'servee'; did you mean serve?"),
    ("--nosuch", "there is no command '--nosuch'"),
    ("evaluate --nosuch 1", "there is no option --nosuch"),
    ("serve stray", "'stray' is not an option"),
    ("compare a b --acuracy", "there is no option --acuracy; did you mean --accuracy"),
    ("report missing extra --sampel-mb 3", "there is no option --sampel-mb; did you mean --sample-mb"),
]
TASKS = [
    ("tasks gcd --level 7", "--level: must be a number from 0 to 1; got '7'"),
    ("tasks gcd --prompt --seed x", "--seed: must be a whole number from 0 to 4294967295; got 'x'"),
    ("tasks gcd --params {bad", "--params: "),
    ("score gcd --seed x 1", "--seed: must be a whole number from 0 to 4294967295; got 'x'"),
    ("evaluate --tasks gdc", "--tasks: there is no task 'gdc'; did you mean gcd"),
    ("serve --tasks gcd --env.exclude_tasks gcd", "--env.exclude_tasks: every selected task is excluded"),
    (
        "serve --tasks gcd --env.task_sampling weighted --env.task_weights gcd=0",
        "--env.task_weights: every selected task has the weight 0; give a task a positive weight",
    ),
    (
        "serve --env.task_sampling weighted --env.task_weights gcd=-1",
        "--env.task_weights: entry 'gcd' must be at least 0; got '-1'",
    ),
    ("evaluate --tasks nope", "--tasks: there is no task 'nope' (`tasks` lists all"),
]
SETTINGS = [
    ("evaluate --env.eval_level 7", "--env.eval_level: must be at most 1; got '7'"),
    ("evaluate --seed -1", "--seed: must be at least 0; got '-1'"),
    ("evaluate --seed x", "--seed: must be a whole number; got 'x'"),
    ("evaluate --limit 0", "--limit: must be at least 1; got '0'"),
    ("evaluate --limit many", "--limit: must be a whole number; got 'many'"),
    ("evaluate -n 0", "-n: must be at least 1; got '0'"),
    ("evaluate --temperature hot", "--temperature: must be a number; got 'hot'"),
    ("evaluate --temperature nan", "--temperature: must be a number; got 'nan'"),
    ("evaluate --temperature -1", "--temperature: must be at least 0; got '-1'"),
    ("evaluate --max-tokens 0", "--max-tokens: must be at least 1; got '0'"),
    ("evaluate --fail-under x", "--fail-under: must be a number from 0 to 1; got 'x'"),
    ("evaluate --preset rg-medium", "--preset: must be one of 'rg-easy', 'rg-hard'; got 'rg-medium'"),
    ("evaluate --preset rg-easy --seed 3", "--seed: a preset has seeds of its own"),
    ("serve --env.group_sise 4", "there is no option --env.group_sise; did you mean --env.group_size"),
    ("serve --env.group_size four", "--env.group_size: must be a whole number; got 'four'"),
    ("serve --env.group_size 0", "--env.group_size: must be at least 1; got 0"),
    ("serve --env.group_size", "--env.group_size: expected one argument"),
    ("serve --env.complexity_mode hard", "--env.complexity_mode: must be one of 'random', 'curriculum'; got 'hard'"),
    ("process --env.total_steps 0", "--env.total_steps: must be at least 1, or -1; got 0"),
    ("process --env.data_path_to_save_groups folder", "--env.data_path_to_save_groups: folder is a folder"),
    ("process --keep bset", "--keep: must be one of 'best', 'correct', 'all'; got 'bset'"),
    ("settings zzz", "no setting has zzz in its name or meaning"),
]
SERVERS = [
    ("evaluate --base-url localhost:9001", "--base-url: must begin with http:// or https://"),
    ("evaluate --base-url http://127.0.0.1:99999/v1", "--base-url: must have a port from 0 to 65535"),
    ("evaluate --base-url http://127.0.0.1:9/v1", "(http://127.0.0.1:9/v1: Connection refused); start one, or correct"),
    ("evaluate --openai.server_type chatt", "--openai.server_type: must be one of 'auto', 'vllm'"),
    ("judge --port x", "--port: must be a whole number; got 'x'"),
    ("judge --generators 0", "--generators: must be at least 1; got 0"),
    ("judge --host 0.0.0.0", "set the variable REASONING_JUDGE_TOKEN"),
]
FILES = [
    ("serve --config missing.yaml", "--config: missing.yaml cannot be read: No such file or directory"),
    ("serve --config broken.yaml", "--config: broken.yaml is not YAML: line 2, column 1: expected ',' or ']'"),
    ("serve --config binary", "--config: binary is not YAML: byte 128 is no text in UTF-8"),
    ("serve --config empty", "--config: empty must hold sections (env, openai, slurm, testing); it is empty"),
    ("serve --config folder", "--config: folder cannot be read: Is a directory"),
    (
        "serve --config list.yaml",
        "--config: list.yaml must hold sections (env, openai, slurm, testing); it holds a",
    ),
    ("serve --config sections.yaml", "sections.yaml holds 'tasks', which is no section; the sections are env, openai"),
    ("serve --config unknown.yaml", "env.taks: there is no such setting; did you mean tasks?"),
    ("serve --config twice.yaml", "--config: twice.yaml: the key 'tasks' stands twice, in lines 2 and 3; keep one"),
    ("serve --config no_server.yaml", "--config: no_server.yaml: openai: must name a server at least"),
    ("serve --config no_server.yaml --config missing.yaml", "--config: no_server.yaml: openai: must name a server"),
    ("compare folder", "name two folders or more"),
    ("compare missing alsomissing", "missing is no folder of an evaluation: missing/results.json: No such file"),
    ("compare folder folder", "folder is no folder of an evaluation"),
    ("report missing", "missing cannot be read: No such file or directory"),
    ("report empty", "no groups of rollouts can be read in empty"),
    ("report binary", "no groups of rollouts can be read in binary; binary: holds no groups"),
    ("report torn.jsonl", "no groups of rollouts can be read in torn.jsonl; torn.jsonl: holds no groups"),
    ("report /etc/passwd", "no groups of rollouts can be read in /etc/passwd"),
    ("report folder", "folder holds no dumps and no evaluation: no file is named .jsonl or .jsonl.gz"),
    ("report binary --sample-mb -4", "--sample-mb must be above 0 and at most 1000"),
    ("report empty --follow 0", "--follow must be between 0.1 and 3600 seconds"),
    ("report torn.jsonl -o /proc/nothing/page.html", "no groups of rollouts can be read in torn.jsonl"),
    ("rescore missing", "missing cannot be read: No such file or directory"),
    ("audit --items 0", "--items must be between 1 and 10000 and --seed at least 0"),
    ("audit --levels 9", "--levels must be numbers from 0 to 1, or defaults"),
    ("demo --skill 7", "--skill"),
]


@pytest.fixture
def files(tmp_path: Path) -> None:
    """Lay wrong files into the command's folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "broken.yaml").write_text("env: [1, 2\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "sections.yaml").write_text("tasks: gcd\n")
    (tmp_path / "unknown.yaml").write_text("env: {taks: gcd}\n")
    (tmp_path / "twice.yaml").write_text("env:\n  tasks: gcd\n  tasks: lcm\n")
    (tmp_path / "no_server.yaml").write_text("openai: []\n")
    (tmp_path / "torn.jsonl").write_text('{"item_id": "gcd", "roll')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "said"), [*COMMANDS, *TASKS, *SETTINGS, *SERVERS, *FILES])
def test_wrong_input_is_one_line(cli: Cli, words: str, said: str) -> None:
    argv = words.split()
    if argv[0] in ("evaluate", "process") and "--base-url" not in argv:
        argv += NOWHERE
    result = cli(*argv)
    assert result.status in (1, 2)
    assert said in result.complaint


def test_python_without_packages() -> None:
    file = Path(reasoning_env.__file__).parents[1] / "reasoning_gym_environment.py"
    ended = subprocess.run([sys.executable, "-S", str(file), "tasks"], capture_output=True, text=True)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"reasoning_gym_environment: its packages are not installed for {sys.executable}; ")


@pytest.mark.usefixtures("files")
def test_help_of_report(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data_dumps").mkdir()
    result = cli("report", "-h")
    assert "(default: data_dumps)" in " ".join(result.stdout.split())
    assert "PosixPath" not in result.stdout
