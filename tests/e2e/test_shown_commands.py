"""Run the commands of the README and of `docs/` in a new folder, as documented.

The tests change only the server addresses, the model with its tokenizer, large numbers, and the selection of all tasks
if each task takes seconds.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import signal
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from reasoning_gym_testing import TOKENIZER, Process, Processes, RunApi, Trainer
from tests.waiting import PATIENCE_S, wait_until

from .processes import REPOSITORY, SCRIPT

pytestmark = pytest.mark.slow

README = (REPOSITORY / "README.md").read_text()
PAGES = [REPOSITORY / "reasoning_audit" / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SLURM_SCRIPT = f"```bash\n{(REPOSITORY / 'examples' / 'slurm.sh').read_text()}```"
DOCS = "\n".join([*(page.read_text() for page in PAGES), SLURM_SCRIPT])
COMMAND = re.compile(r"python reasoning_gym_environment\.py (.*)$", re.MULTILINE)
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
RAY = "judge --ray auto --port 8400"
"""`tests/integrations/test_ray.py` runs this command with a Ray cluster."""
SLURM = "serve --config run.yaml --slurm True --env.instance $number --env.rollout_server_url http://$HEAD:8000"
"""This command needs a SLURM job. SLURM numbers the environments of a job."""


def shown_commands(text: str) -> list[str]:
    """Return the arguments of the script for every command in a shell block, without a final `&`."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", re.sub(r" *\\\n *", " ", text), re.DOTALL | re.MULTILINE)
    commands = []
    for shown in [command for block in blocks for command in COMMAND.findall(block)]:
        words = shlex.split(shown, comments=True)
        end = words.index("&") if "&" in words else len(words)
        commands.append(" ".join(words[:end]))
    return commands


PROCESS = (
    "process --config configs/vllm.yaml --env.total_steps 1000 --env.data_path_to_save_groups data/first.jsonl "
    "--keep correct"
)
PROBLEMS = "problems --tasks gcd,algebra/* --count 1000 --levels 0.25,0.5 --seed 1 --out train.jsonl"
TRL = "problems --format trl --evaluation --tasks gcd,chain_sum --out eval.jsonl"
VERL = (
    "problems --format verl --count 10000 --tasks gcd,chain_sum --seed 1 --out train.parquet",
    "problems --format verl --evaluation --tasks gcd,chain_sum --out test.parquet",
)
"""`tests/integrations/test_verl.py` runs these commands."""
WARM = (
    "problems --tasks gcd,chain_sum --count 400 --seed 1 --out train.jsonl",
    "rescore right.jsonl --out warm.jsonl",
)
"""The commands that write rows of right answers for a warm start."""
REPORT = "report data/first.jsonl -o report.html"
SCORES = "rescore sampled.jsonl --out scored.jsonl --pass-rate 0.2..0.8"
KEEP = "rescore data/first.jsonl --keep correct --pass-rate 0.1..0.9 --max-per-problem 2 --out sft.jsonl"
RESCORE = "rescore data/first.jsonl --rewards plain"
OPENAI = "--base-url https://api.openai.com/v1"
EVALUATE = f"evaluate gpt-4.1-mini --preset rg-easy --limit 10 {OPENAI}"
EVALUATE_SOME = f"evaluate gpt-4.1-mini --preset rg-easy --limit 5 {OPENAI}"
BY_PASS_RATE = (
    "process --config configs/vllm.yaml --env.complexity_level 0 -n 8 --env.total_steps 2000 "
    "--env.data_path_to_save_groups data/candidates.jsonl --keep best --pass-rate 0.2..0.8"
)
REPEATS = "evaluate --config configs/vllm.yaml --repeats 4"
KEY = ("--openai.api_key", "x")
JUDGE = "judge --port 8400"
SERVER = f"--openai.base_url http://localhost:9001/v1 --openai.model_name {MODEL}"
SERVE = ["serve --config configs/vllm.yaml", f"serve --env.tokenizer_name {MODEL} {SERVER}"]
SERVE_SETTINGS = {
    "serve --config run.yaml": "instance: 0",
    "serve --config configs/vllm.yaml --env.metrics_port 9464": "metrics_port: 9464",
    "serve --config run.yaml --env.instance $n --env.steps_per_eval 0": "instance: 7",
    f"serve --env.tokenizer_name {MODEL} --env.max_token_length 4096 "
    f"--env.rollout_server_url http://localhost:8000 {SERVER}": "max_token_length: 4096",
}
"""Variants of the `serve` commands, and a line of the settings that each variant prints."""
BY_HAND = (
    "serve --tasks gcd,chain_sum --env.tokenizer_name reasoning_gym_testing/tokenizer --env.use_wandb false "
    "--env.total_steps 10"
)
# The tests below run each command and check a part of its output.
COMPARE = {
    "compare evals/A evals/B": "FIRST: ",
    "report evals/A evals/B -o compared.html": "compared.html",
}
LOOK = {
    "tasks": "gcd",
    "tasks gcd": "Greatest Common Divisor",
    "tasks chain_sum --prompt": "<answer>",
    "tasks chain_sum --prompt --tokenizer_name Qwen/Qwen3-8B": "<|im_start|>",
    "score gcd --seed 7 <answer>3</answer>": "reason    wrong",
    "tasks last_letter --task-modules examples/own_task.py": "last_letter",
    "settings": "group_size",
    "settings curriculum": "complexity_mode",
    "serve --print-config": "tokenizer_name:",
}
AUDIT_JSON = "audit --json"
AUDIT = {
    "audit": "gcd",
    "audit --tasks lcm --levels defaults,1": "lcm",
    "audit --task-modules examples/own_task.py --tasks last_letter": "last_letter",
    "audit --rewards library": "gcd",
    "audit --fail-on medium": "gcd",
}
AUDIT_SCORES = "audit --score my_rewards:score --rows rows.jsonl --gold answer"
REFERENCE = "tasks REFERENCE --prompt"
OWN_TASK = {"examples/own_task.py": str(REPOSITORY / "examples" / "own_task.py")}
ONE_TASK = ["--tasks", "gcd", "--levels", "defaults"]


class Newcomer:
    """A user who types the commands in one folder, and who runs an inference server."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self._numbers = itertools.count(1)
        self.folder = folder
        self.inference_url = self._start_inference()
        (folder / "configs").mkdir()

    def _start_inference(self) -> str:
        words = ["-m", "reasoning_gym_testing", "--policy", "demo.policy:ScriptedPolicy"]
        words += ["--options", json.dumps({"skill": 0.6, "seed": 1})]
        server = self._processes.start("inference", words, python=True, cwd=REPOSITORY)
        return f"{server.announcement()['url']}/v1"

    def write_config(self, run_api_url: str = "http://localhost:8000") -> None:
        """Write `configs/vllm.yaml` with the addresses of the test's servers, and `run.yaml` as a copy."""
        shown = (REPOSITORY / "configs" / "vllm.yaml").read_text()
        for there, here in (
            ("http://localhost:9001/v1", self.inference_url),
            ("http://localhost:8000", run_api_url),
            (MODEL, TOKENIZER),
            ("env:\n", f"env:\n  use_wandb: false\n  data_dumps_dir: {self.folder}/data_dumps\n"),
        ):
            assert there in shown
            shown = shown.replace(there, here)
        (self.folder / "configs" / "vllm.yaml").write_text(shown)
        (self.folder / "run.yaml").write_text(shown)

    def start(self, command: str, replaced: Mapping[str, str] | None = None, *more: str) -> Process:
        """Start a command of the README or docs, with some words replaced (`replaced`) and further words (`more`)."""
        assert command in shown_commands(README) + shown_commands(DOCS)
        words = shlex.split(command)
        for there, here in (replaced or {}).items():
            assert there in words
            words = [here if word == there else word for word in words]
        return self._processes.start(
            f"{words[0]}-{next(self._numbers)}", [SCRIPT, *words, *more], python=True, cwd=self.folder
        )

    def run(self, command: str, replaced: Mapping[str, str] | None = None, *more: str) -> str:
        """Run a command to its end and return its output; the exit status must be 0."""
        process = self.start(command, replaced, *more)
        assert process.end() == 0, process.stderr
        return process.stdout


@pytest.fixture(scope="module")
def newcomer(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    newcomer = Newcomer(processes, tmp_path_factory.mktemp("newcomer"))
    newcomer.write_config()
    return newcomer


@pytest.fixture(scope="module")
def groups(newcomer: Newcomer) -> Path:
    """Return the group file that `process` writes."""
    newcomer.run(PROCESS, {"1000": "3"})
    return newcomer.folder / "data" / "first.jsonl"


@pytest.fixture(scope="module")
def evaluation(newcomer: Newcomer) -> Path:
    """Return the folder of the README's evaluation."""
    evaluations = newcomer.folder / "evals"
    earlier = set(evaluations.glob("*"))
    newcomer.run(EVALUATE, {"https://api.openai.com/v1": newcomer.inference_url, "10": "1"}, *KEY)
    (folder,) = set(evaluations.iterdir()) - earlier
    return folder


@pytest.fixture(scope="module")
def two_evaluations(newcomer: Newcomer, evaluation: Path) -> Mapping[str, str]:
    """Return two evaluation folders with the names that the docs use."""
    again = shutil.copytree(evaluation, newcomer.folder / "again")
    return {"evals/A": str(evaluation), "evals/B": str(again)}


def test_every_shown_command_is_run_by_a_test() -> None:
    run = {
        RAY,
        SLURM,
        PROBLEMS,
        TRL,
        *VERL,
        *WARM,
        PROCESS,
        EVALUATE,
        EVALUATE_SOME,
        BY_PASS_RATE,
        REPEATS,
        JUDGE,
        REPORT,
        RESCORE,
        KEEP,
        SCORES,
        *COMPARE,
        *LOOK,
        *AUDIT,
        AUDIT_JSON,
        AUDIT_SCORES,
        REFERENCE,
        *SERVE,
        *SERVE_SETTINGS,
        BY_HAND,
    }
    assert set(shown_commands(README) + shown_commands(DOCS)) == run


def test_serve_command_for_slurm_from_the_docs_prints_its_settings(newcomer: Newcomer) -> None:
    assert "$HEAD:8000" in newcomer.run(SLURM, {"$number": "1"}, "--print-config")


def test_judge_command_from_the_docs_accepts_the_ray_option(newcomer: Newcomer) -> None:
    judge = newcomer.start(RAY)
    assert judge.end() != 0
    assert re.search(r"--ray: (Ray is not installed|auto: )", judge.stderr)


def test_process_command_from_the_docs_writes_groups(groups: Path) -> None:
    assert len(groups.read_text().splitlines()) == 3
    assert groups.with_name("first-correct.jsonl").is_file()


def test_problems_command_from_the_docs_writes_rows(newcomer: Newcomer) -> None:
    assert "20 rows" in newcomer.run(PROBLEMS, {"1000": "20", "gcd,algebra/*": "gcd,lcm"})
    assert len((newcomer.folder / "train.jsonl").read_text().splitlines()) == 20


def test_problems_command_from_the_docs_writes_rows_for_trl(newcomer: Newcomer) -> None:
    newcomer.run(TRL)
    rows = [json.loads(line) for line in (newcomer.folder / "eval.jsonl").read_text().splitlines()]
    assert {"prompt", "reference"} <= rows[0].keys()
    assert rows[0]["prompt"][-1]["role"] == "user"


def test_tasks_command_from_the_docs_accepts_a_problem_reference(newcomer: Newcomer, groups: Path) -> None:
    group = json.loads(groups.read_text().splitlines()[0])
    shown = newcomer.run(REFERENCE, {"REFERENCE": group["reference"]})
    assert group["rollouts"][0]["conversation"][-2]["content"].strip() in shown


def test_report_command_from_the_docs_writes_a_page(newcomer: Newcomer, groups: Path) -> None:
    newcomer.run(REPORT)
    assert "</html>" in (newcomer.folder / "report.html").read_text()


def test_rescore_command_from_the_docs_writes_training_rows(newcomer: Newcomer, groups: Path) -> None:
    assert re.search(r"Wrote \d rows? to sft\.jsonl", newcomer.run(KEEP))
    assert (newcomer.folder / "sft.jsonl").is_file()


def test_rescore_command_from_the_docs_scores_rows(newcomer: Newcomer, groups: Path) -> None:
    shutil.copy(groups, newcomer.folder / "sampled.jsonl")
    assert re.search(r"Wrote \d rows? to scored\.jsonl", newcomer.run(SCORES))
    assert (newcomer.folder / "scored.jsonl").is_file()


def test_warm_start_script_from_the_docs_writes_only_rows_with_right_answers(
    newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented script skips problems without a known answer, such as problems of rush_hour."""
    for file in newcomer.folder.glob("train.jsonl*"):  # files of an earlier test
        file.unlink()
    assert "20 rows" in newcomer.run(WARM[0], {"400": "20", "gcd,chain_sum": "gcd,rush_hour"})
    [script] = re.findall(r"^python - <<'END'\n(.*?)^END$", DOCS, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(newcomer.folder)
    exec(script, {})
    newcomer.run(WARM[1])
    warm = [json.loads(line) for line in (newcomer.folder / "warm.jsonl").read_text().splitlines()]
    assert [row["score"] for row in warm] == [1.0] * 10


def test_rescore_command_from_the_docs_prints_the_number_of_changed_scores(newcomer: Newcomer, groups: Path) -> None:
    assert "scores changed" in newcomer.run(RESCORE)


def test_evaluate_command_from_the_docs_with_a_preset_writes_results(evaluation: Path) -> None:
    results = json.loads((evaluation / "results.json").read_text())
    assert len(results["tasks"]) > 90


def test_documented_evaluate_command_prints_a_mean_score(newcomer: Newcomer) -> None:
    replaced = {"https://api.openai.com/v1": newcomer.inference_url, "5": "1"}
    assert "mean" in newcomer.run(EVALUATE_SOME, replaced, "--tasks", "gcd", *KEY)


def test_pass_rate_option_from_the_docs_selects_training_rows(newcomer: Newcomer) -> None:
    printed = newcomer.run(BY_PASS_RATE, {"2000": "8"}, "--tasks", "gcd,chain_sum")
    assert re.search(r"training rows? to data/candidates-best\.jsonl", printed)
    lines = (newcomer.folder / "data" / "candidates-best.jsonl").read_text().splitlines()
    assert all(0.2 <= json.loads(line)["pass_rate"] <= 0.8 for line in lines)


def test_evaluate_command_from_the_docs_reads_a_config_file(newcomer: Newcomer) -> None:
    assert "mean" in newcomer.run(REPEATS, {"4": "2"}, "--tasks", "gcd", "--limit", "2")


@pytest.mark.parametrize(("command", "said"), COMPARE.items())
def test_compare_command_from_the_docs_compares_evaluations(
    newcomer: Newcomer, two_evaluations: Mapping[str, str], command: str, said: str
) -> None:
    assert said in newcomer.run(command, two_evaluations)


@pytest.mark.parametrize(("command", "said"), LOOK.items())
def test_documented_commands_print_tasks_or_scores_or_settings(newcomer: Newcomer, command: str, said: str) -> None:
    names = {"Qwen/Qwen3-8B": TOKENIZER, **OWN_TASK}
    assert said in newcomer.run(command, {there: here for there, here in names.items() if there in command})


@pytest.mark.parametrize(("command", "said"), AUDIT.items())
def test_audit_command_from_the_docs_prints_findings(newcomer: Newcomer, command: str, said: str) -> None:
    more = [] if "--tasks" in command else ONE_TASK
    assert said in newcomer.run(command, OWN_TASK if "--task-modules" in command else None, *more)


def test_audit_command_from_the_docs_prints_json(newcomer: Newcomer) -> None:
    assert json.loads(newcomer.run(AUDIT_JSON, None, *ONE_TASK))["audits"]


def test_audit_command_from_the_docs_checks_a_score_function(newcomer: Newcomer) -> None:
    (newcomer.folder / "my_rewards.py").write_text(
        "def score(completion, answer, question):\n    return float(completion == answer)\n"
    )
    rows = [{"question": "Which number?", "answer": str(number)} for number in range(20)]
    (newcomer.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "my_rewards:score" in newcomer.run(AUDIT_SCORES)


def test_judge_command_from_the_docs_runs_until_stopped(newcomer: Newcomer) -> None:
    judge = newcomer.start(JUDGE, {"8400": "0"})
    wait_until(lambda: "judging on" in judge.stdout or not judge.check(), "the judge's line")
    with urllib.request.urlopen(f"{judge.stdout.split()[-1]}/health", timeout=PATIENCE_S) as reply:
        assert reply.status == 200
    assert judge.end(signal.SIGTERM) == 0


@pytest.fixture(scope="module")
def run_api(processes: Processes) -> RunApi:
    run_api = RunApi(processes)
    run_api.start()
    return run_api


@pytest.mark.parametrize("command", SERVE)
def test_serve_command_from_the_docs_feeds_the_trainer(newcomer: Newcomer, run_api: RunApi, command: str) -> None:
    newcomer.write_config(run_api.url)
    addresses = {"http://localhost:8000": run_api.url, "http://localhost:9001/v1": newcomer.inference_url}
    replaced = {
        there: here for there, here in {**addresses, MODEL: TOKENIZER, "$n": "0"}.items() if there in command.split()
    }
    more = [] if "--config" in command else ["--env.use_wandb", "false"]
    if "--config" not in command and "--env.rollout_server_url" not in command:
        more += ["--env.rollout_server_url", run_api.url]
    with Trainer(run_api.url, max_batches=1) as trainer:
        serve = newcomer.start(command, replaced, *more)
        wait_until(lambda: trainer.batches or not serve.check(), "a batch")
        assert serve.end(signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.parametrize(("command", "said"), SERVE_SETTINGS.items())
def test_serve_command_from_the_docs_prints_its_settings(newcomer: Newcomer, command: str, said: str) -> None:
    replaced = {there: here for there, here in {MODEL: TOKENIZER, "$n": "7"}.items() if there in command.split()}
    assert said in newcomer.run(command, replaced, "--print-config")


def test_documented_trainer_and_serve_commands_work_as_separate_programs(
    newcomer: Newcomer, processes: Processes, run_api: RunApi
) -> None:
    blocks = [block.split("```")[0] for block in DOCS.split("```bash\n")]
    shown = next(block for block in blocks if "python examples/trainer.py" in block)
    assert "python -m reasoning_gym_testing --policy demo.policy:ScriptedPolicy --options" in shown
    run_api.reset_data()
    trainer = processes.start("trainer", ["examples/trainer.py", run_api.url], python=True, cwd=REPOSITORY)
    addresses = ["--base-url", newcomer.inference_url, "--env.rollout_server_url", run_api.url]
    serve = newcomer.start(BY_HAND, {"reasoning_gym_testing/tokenizer": TOKENIZER}, *addresses)
    assert trainer.end() == 0, trainer.stderr
    assert "batch 10: 16 sequences in 4 groups, mean score 0." in trainer.stdout
    assert serve.end() == 0
