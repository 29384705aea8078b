"""Wrong inputs print one line that names the setting, the value and what to do.

For values see `tests/test_settings.py`, and for files `tests/program/test_config_files.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reasoning_gym_testing import TOKENIZER

from .conftest import Cli
from .processes import REPOSITORY

NOWHERE = ["--base-url", "http://127.0.0.1:9/v1"]

COMMANDS = [
    ("servee", "there is no command 'servee'; did you mean serve?"),
    ("--nosuch", "there is no command '--nosuch'"),
    ("evaluate --nosuch 1", "there is no option --nosuch"),
    ("serve stray", "unexpected argument 'stray'"),
    ("compare a b --jsn", "there is no option --jsn; did you mean --json"),
    ("report missing extra --sampel-mb 3", "there is no option --sampel-mb; did you mean --sample-mb"),
    ("process --env.group_sise=4", "there is no option --env.group_sise; did you mean --env.group_size"),
    ("process group_size=4", "unexpected argument 'group_size=4'"),
    ("process --config a.yaml b.yaml", "unexpected argument 'b.yaml'"),
    ("process --conf a.yaml", "there is no option --conf; did you mean --config"),
    ("process --config", "--config: expected one argument, as in --NAME VALUE"),
    ("process --env.tasks -gcd", "--env.tasks: expected one argument"),
    ("process --print-config=yes", "--print-config: this option takes no value"),
    ("serve --keep best", "there is no option --keep"),
    ("evaluate m --slurm true", "there is no option --slurm"),
    ("evaluate m --model n", "unexpected argument 'm'"),
    ("evaluate m n", "unexpected argument 'n'"),
    ("settings group_sise", "group_size"),
    ("settings --jsn", "there is no option --jsn; did you mean --json"),
    ("settings --json --markdown", "not allowed with"),
]
TASKS = [
    ("tasks gcd --level 7", "--level: must be a number from 0 to 1; got '7'"),
    ("tasks gcd --prompt --seed x", "--seed: must be a whole number from 0 to 4294967295; got 'x'"),
    ("tasks gcd --params {bad", "--params: "),
    ("tasks gcd --params 5", "--params: "),
    ("tasks gcd --params {size:3}", "--params: "),
    ("tasks gcd --samples 0", "--samples"),
    ("tasks gcd --prompt --seed 4294967296", "--seed: must be a whole number from 0 to 4294967295; got '4294967296'"),
    ("tasks --prompt", "--prompt"),
    ("tasks gcd --tokenizer_name x", "--tokenizer_name"),
    ("tasks gcd --chat_template plain --prompt", "--chat_template"),
    ("tasks gcd --thinking loud --prompt", "--thinking"),
    ("tasks gcd --prompt --tokenizer_name folder", "--tokenizer_name: cannot load 'folder'"),
    ("tasks gdc", "there is no task 'gdc'; did you mean gcd"),
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
    (
        "evaluate --checkout folder",
        "--checkout: folder does not contain the package reasoning_gym; use the folder that",
    ),
    ("tasks gcd --checkout missing", "--checkout: missing does not contain the package reasoning_gym"),
    ("evaluate --tasks nope", "--tasks: there is no task 'nope' (the command `tasks` lists all"),
    ("evaluate --tasks zz*", "--tasks: there is no task that matches 'zz*'"),
    ("evaluate --tasks gmaes/*", "--tasks: there is no task that matches 'gmaes/*'; did you mean games/*"),
    ("evaluate --tasks ,", "--tasks: must contain at least one name; got ','"),
    (
        "evaluate m --config params.yaml",
        'env.task_params: gcd: min_numbers is "x", which has the wrong type: Expected `int`, got `str` (default: 2)',
    ),
    ("tasks chain_sum --params {allow_negation:maybe}", "--params: the name 'allow_negation:maybe' has no value"),
]
TWICE = [
    ("evaluate --model m --openai.model_name n", "--model and --openai.model_name set the same setting; use only one"),
    ("evaluate m -n 2 --repeats 3", "-n and --repeats set the same setting; use only one of them"),
    ("evaluate m --chat --openai.server_type vllm", "--chat and --openai.server_type set the same setting"),
    ("serve --env.temperature 1 --temperature 2", "--env.temperature and --temperature set the same setting"),
    ("evaluate m --seed 1 --seed=2", "--seed: appears twice; use it once"),
    ("evaluate m -n3 -n 4", "-n: appears twice; use it once"),
    ("audit --tasks gcd --tasks lcm", "--tasks: appears twice; use it once"),
    ("demo --seed 1 --seed 2", "--seed: appears twice; use it once"),
    ("tasks gcd --lev 1", "there is no option --lev; did you mean --level"),
    ("evaluate m --quiet -v", "-v: not allowed with argument --quiet"),
]
SETTINGS = [
    ("evaluate --env.eval_level 7", "--env.eval_level: must be a number from 0 to 1"),
    ("evaluate --seed -1", "--seed: must be at least 0; got '-1'"),
    ("evaluate --seed x", "--seed: must be a whole number; got 'x'"),
    ("evaluate -n 0", "-n: must be at least 1; got '0'"),
    ("evaluate --temperature hot", "--temperature: must be a number; got 'hot'"),
    ("evaluate m --env.worker_timeout 0", "--env.worker_timeout: must be positive, or -1 for no limit; got '0'"),
    ("evaluate m --env.worker_timeout -7", "--env.worker_timeout: must be positive, or -1 for no limit; got '-7'"),
    ("evaluate --temperature nan", "--temperature: must be a number; got 'nan'"),
    ("process --config nan.yaml", "env.temperature: must be a number; got nan"),
    ("evaluate m --limit=-5", "--limit: must be at least 1; got '-5'"),
    ("evaluate m --limit 1e400", "--limit: must be a whole number; got '1e400'"),
    ("evaluate m --fail-under nan", "--fail-under: must be a number from 0 to 1; got 'nan'"),
    ("evaluate m --json=3", "--json: this option takes no value"),
    ("process --slurm maybe", "--slurm: must be true or false; got 'maybe'"),
    ("evaluate m --env. 1", "there is no option --env.; did you mean --env."),
    ("evaluate m -t 1", "unexpected argument '-t'; options begin with --"),
    ("audit --seed nan", "--seed: must be a whole number; got 'nan'"),
    ("evaluate --preset rg-medium", "--preset: must be one of 'rg-easy', 'rg-hard'; got 'rg-medium'"),
    ("evaluate --preset rg-easy --seed 3", "--seed: a preset has its own seeds"),
    ("serve --env.group_size 0", "--env.group_size: must be at least 1; got '0'"),
    ("serve --env.total_steps 0", "--env.total_steps: must be at least 1, or -1; got 0"),
    ("process --env.total_steps 0", "--env.total_steps: must be at least 1; got 0"),
    ("process --env.total_steps -1 --print-config", "--env.total_steps: must be at least 1; got -1"),
    ("process --env.total_steps many", "--env.total_steps: must be a whole number; got 'many'"),
    ("evaluate m --openai.server_type foo", "--openai.server_type: must be one of 'auto', 'chat'; got 'foo'"),
    ("process --env.data_path_to_save_groups folder", "--env.data_path_to_save_groups: folder is a folder"),
    ("process --keep bset", "--keep: must be one of 'best', 'correct', 'all', 'pairs'; got 'bset'"),
    ("settings zzz", "no setting contains zzz in its name or description"),
    ("process --pass-rate 0.1..0.9", "--pass-rate needs --keep"),
    ("process --max-per-problem 2", "--max-per-problem needs --keep"),
    ("process --env.task_params {gcd:{min_terms:4}}", "--env.task_params: "),
    ("evaluate m --openai.server_type vllm", "--openai.server_type: must be one of 'auto', 'chat'; got 'vllm'"),
    ("evaluate m --openai.api_key $NOT_SET", "--openai.api_key: the environment variable NOT_SET is not set"),
    ("evaluate m --env.chat_template a.jinja", "--env.chat_template: must be `plain` or `none`, because the server"),
]
SERVERS = [
    ("evaluate --base-url localhost:9001", "--base-url: must begin with http:// or https://"),
    ("evaluate --base-url http://127.0.0.1:99999/v1", "--base-url: must be a URL (Port out of range 0-65535)"),
    (
        "evaluate --base-url http://127.0.0.1:9/v1",
        "(http://127.0.0.1:9/v1: Connection refused); start the server, or correct",
    ),
    ("serve --env.tokenizer_name no-such/tokenizer", "because no tokenizer could be loaded"),
    (
        f"serve --env.tokenizer_name {TOKENIZER} --env.rollout_server_url http://127.0.0.1:9",
        "run-api did not reply at http",
    ),
    ("evaluate --base-url http:///v1", "--base-url: must begin with http:// or https:// and the server's name; got"),
    ("process --openai.timeout soon", "--openai.timeout: must be a whole number; got 'soon'"),
    ("serve --config two_servers.yaml", "openai.timeout: must be a whole number; got 'soon'"),
    (
        "evaluate m --config two_servers.yaml",
        "--config: `evaluate` works with one inference server, but the configuration files list 2 servers",
    ),
    ("process --config misspelt_server.yaml", "openai.base_ulr: there is no such setting; did you mean base_url"),
    ("process --config secret.yaml", "openai.api_key: "),
    ("evaluate --base-url http://[::1/v1", "--base-url: must be a URL (Invalid IPv6 URL)"),
    ("evaluate --base-url http://a/v1,http://b/v1", "--base-url: must be one URL"),
    ("evaluate --openai.model_name=", "--openai.model_name: must not be empty; name the model"),
    ("process --openai.num_max_requests_at_once 0", "--openai.num_max_requests_at_once: must be at least 1; got 0"),
    ("process --openai.server_type chatt", "--openai.server_type: must be one of auto, vllm"),
    ("judge --port x", "--port: must be a whole number; got 'x'"),
    ("judge --generators 0", "--generators: must be at least 1; got 0"),
    ("judge --host 0.0.0.0", "put a token into the environment variable REASONING_JUDGE_TOKEN"),
    ("judge --port 99999", "--port: must be a number from 0 to 65535; got 99999"),
    ("judge --score a:b --config x.yaml", "--score cannot be combined with --config"),
    ("judge --score a:b --ray auto --generators 2", "--score cannot be combined with --generators"),
    ("judge --score a:b --rewards plain", "--score cannot be combined with --rewards"),
    ("judge --threads", "need --score"),
    ("judge --memory-mb 99", "need --score"),
    ("judge --score a:b --deadline-s -1", "--deadline-s: must be above 0"),
    ("judge --score a:b --memory-mb 0", "--memory-mb: must be"),
    ("judge --score a:b --max-texts 0", "--max-texts: must be"),
    ("judge --score a:b --verifiers 0", "--verifiers: must be"),
    ("judge --score nowhere:score --port 0", "--score: there is no module nowhere;"),
]
FILES = [
    ("serve --config missing.yaml", "--config: missing.yaml cannot be read: No such file or directory"),
    (
        "serve --config broken.yaml",
        "--config: broken.yaml is not YAML: line 2, column 1: while parsing a flow sequence, expected ',' or ']'",
    ),
    ("serve --config unknown.yaml", "env.taks: there is no such setting; did you mean tasks?"),
    ("serve --config=", "--config: must be the name of a file"),
    ("serve --config boolean.yaml", "env.seed: must be a whole number; got True"),
    ("process --config key.yaml", "openai.api_key: the environment variable NO_SUCH_KEY is not set"),
    ("serve --config tasks.yaml", "env.tasks: entry 1 must be a string; got 3"),
    ("process --env.tokenizer_name /nope/tok", "because no tokenizer could be loaded"),
    (
        "process --env.tokenizer_name folder",
        "--env.tokenizer_name (now 'folder') and openai.tokenizer_name",
    ),
    (
        "process --openai.tokenizer_name binary",
        "--openai.tokenizer_name to a folder",
    ),
    ("evaluate m --env.data_dir_to_save_evals /proc/x", "--env.data_dir_to_save_evals: /proc/x cannot be written to"),
    ("evaluate m --env.data_dir_to_save_evals binary", "--env.data_dir_to_save_evals: binary cannot be made, because"),
    ("process --env.data_path_to_save_groups /proc/x", "--env.data_path_to_save_groups: /proc cannot be written to"),
    ("process --env.data_path_to_save_groups binary/x", "binary cannot be made, because "),
    (
        "serve --config no_server.yaml --config missing.yaml",
        "--config: no_server.yaml: openai: must have at least one server",
    ),
    ("compare folder", "pass at least two evaluation folders"),
    ("compare missing alsomissing", "missing is not an evaluation folder: missing/results.json: No such file"),
    ("compare folder folder", "folder is not an evaluation folder"),
    ("report missing", "missing cannot be read: No such file or directory"),
    ("report empty", "found no rollouts in empty"),
    ("report binary", "found no rollouts in binary; binary: contains no groups"),
    ("report folder", "folder contains no dumps and no evaluation: it has no .jsonl or .jsonl.gz files"),
    ("report binary --sample-mb -4", "--sample-mb: must be above 0 and at most 1000"),
    ("report torn.jsonl -o /proc/nothing/page.html", "found no rollouts in torn.jsonl"),
    ("rescore missing", "missing cannot be read: No such file or directory"),
    ("rescore folder", "folder contains no files that end in"),
    ("audit --items 0", "--items must be between 1 and 10000, and --seed must be at least 0"),
    (
        "audit --levels 9",
        "--levels: must be defaults or numbers from 0 to 1, such as defaults,0,0.5; got '9'",
    ),
    ("demo --skill 7", "--skill"),
    ("demo --tasks gcd,nope", "--tasks: there is no task 'nope'"),
    ("problems --count 4 --out /proc/a.jsonl", "--out: /proc cannot be written to"),
    ("problems --count 4 --out a.jsonl --format verll", "--format: must be one of 'rows', 'verl', 'trl'; got 'verll'"),
    ("problems --count 4 --out rows.csv", "--out: the file name must end in .jsonl or .parquet"),
    ("problems --count 4 --out a.jsonl --levels easy", "--levels: must be levels from 0 to 1, separated by commas, or"),
    ("problems --count 4 --out a.jsonl --levels 1.5", "--levels: must be levels from 0 to 1, separated by commas, or"),
    ("problems --count 4 --out a.jsonl --levels 0.5,0.5", "--levels: must not contain a level twice"),
    ("problems --count 4 --out a.jsonl --tasks acre,gcd --levels 0.5", "--levels: these tasks have no levels: acre"),
    (
        "problems --count 4 --out a.jsonl --config curriculum.yaml",
        "--levels: the levels in a file cannot adapt to a model",
    ),
    ("problems --count 4 --out a.jsonl --shard 17/16", "--shard: must be K/N with K from 1 to N"),
    ("problems --count 4 --out a.jsonl --evaluation", "not allowed with argument"),
    ("rescore empty --out a.jsonl --max-per-problem 2", "--max-per-problem needs --keep"),
    ("rescore empty --keep correct", "--keep needs --out"),
    ("rescore empty --out /proc/a.jsonl", "--out: /proc cannot be written to"),
    (
        "score gcd two words",
        "unexpected argument 'words'; options begin with --, as in --NAME VALUE; quote values that",
    ),
]


@pytest.fixture
def files(tmp_path: Path) -> None:
    """Write invalid files into the command's folder."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "broken.yaml").write_text("env: [1, 2\n")
    (tmp_path / "unknown.yaml").write_text("env: {taks: gcd}\n")
    (tmp_path / "no_server.yaml").write_text("openai: []\n")
    (tmp_path / "curriculum.yaml").write_text("env: {complexity_mode: curriculum}\n")
    (tmp_path / "params.yaml").write_text("env: {task_params: {gcd: {min_numbers: x}}}\n")
    (tmp_path / "nan.yaml").write_text("env: {temperature: .nan}\n")
    (tmp_path / "boolean.yaml").write_text("env: {seed: true}\n")
    (tmp_path / "key.yaml").write_text("openai: [{api_key: $NO_SUCH_KEY}]\n")
    (tmp_path / "tasks.yaml").write_text("env: {tasks: [gcd, 3]}\n")
    (tmp_path / "two_servers.yaml").write_text("openai: [{}, {timeout: soon}]\n")
    (tmp_path / "misspelt_server.yaml").write_text("openai: {base_ulr: x}\n")
    (tmp_path / "secret.yaml").write_text("openai: {api_key: [sk-secret]}\n")
    (tmp_path / "torn.jsonl").write_text('{"item_id": "gcd", "roll')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "said"), [*COMMANDS, *TASKS, *TWICE, *SETTINGS, *SERVERS, *FILES])
def test_wrong_input_prints_a_one_line_error(cli: Cli, words: str, said: str) -> None:
    argv = words.split()
    if argv[0] in ("evaluate", "process") and "--base-url" not in argv:
        argv += NOWHERE
    result = cli(*argv)
    assert result.status in (1, 2)
    assert said in result.complaint
    assert "sk-secret" not in result.stderr


def test_error_about_a_wrong_base_url_names_the_environment_variable(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "nonsense")
    result = cli("evaluate", "m")
    assert "OPENAI_BASE_URL: must begin with http:// or https://" in result.complaint


@pytest.mark.parametrize("address", ["foo", "http://localhost:abc"])
def test_trainer_example_reports_an_invalid_address_in_one_line(address: str) -> None:
    ended = subprocess.run([sys.executable, "examples/trainer.py", address], cwd=REPOSITORY, capture_output=True)
    assert ended.returncode == 1
    assert ended.stderr.decode().splitlines()[0].startswith(f"{address} is not the address of run-api: ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.usefixtures("files")
def test_help_of_the_report_command_shows_defaults(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data_dumps").mkdir()
    result = cli("report", "-h")
    assert "(default: data_dumps)" in " ".join(result.stdout.split())
    assert "PosixPath" not in result.stdout
