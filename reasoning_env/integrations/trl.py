"""GRPO with TRL: a data set that follows the curriculum, an asynchronous reward function, and a callback.

    with Bridge(tasks=["gcd"], complexity_mode="curriculum") as bridge:
        gym = TrlEnvironment(bridge)
        args = GRPOConfig(max_steps=100, num_generations=8, max_completion_length=2048, shuffle_dataset=False)
        trainer = GRPOTrainer(
            model, reward_funcs=gym.reward, args=args, train_dataset=gym.rows(), callbacks=[gym.callback()]
        )
        trainer.train()

Without a GPU, GRPOConfig needs use_cpu=True. `gym.reward` works in an `RLOOTrainer` too.
For GDPO, use `gym.rewards()` instead of `gym.reward`: one reward function for each part of the score.

The first rank generates the rows and sends them to the other ranks. Each rank judges its own completions. The first
rank updates the sampling of tasks and levels with the verdicts of all ranks. After an infrastructure error the reward
is None, and TRL excludes this completion from the group.

To judge the completions of your own data set with any score function:

    with Bridge(score="my_rewards:score") as bridge:
        trainer = GRPOTrainer(model, reward_funcs=score_reward(bridge), args=args, train_dataset=your_rows)
        trainer.train()
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from datasets import IterableDataset
from transformers import TrainerCallback

from ..bridge import Bridge
from ..errors import ConfigError
from ..problems.references import Reference
from ..prompts.messages import Completion
from ..records import Problem, Reason, Verdict
from ..storage.files import replace_file
from ..storage.reading import read_json
from ..storage.values import describe

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState

logger = logging.getLogger(__name__)

STATE_FILE = "reasoning_stream.json"

LogColumn = Callable[[str, list[str]], object]
"""TRL's `log_extra`: adds a column to the table of completions."""
LogMetric = Callable[[str, float], object]
"""TRL's `log_metric`: logs the value of a metric."""


class TrlEnvironment:
    """The data set, reward function and callback of a `GRPOTrainer`. Each rank creates one, with its own bridge."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.problems: dict[str, Problem] = {}
        """Problems whose rows were generated and whose groups are not judged yet. Keys are the references."""
        self.max_completion_tokens: int | None = None
        """The trainer's `max_completion_length`, copied by the callback; None without the callback."""
        self._ranks, self._rank = 1, 0
        self._objects: Any = None
        self._batch: Sequence[Completion] | None = None
        self._judging: asyncio.Task[list[Verdict | None]] | None = None
        """The task that judges `_batch`. All functions of `rewards` wait for this task."""

    def rows(self) -> IterableDataset:
        """Return an endless data set with the columns `prompt` (a conversation) and `reference`.

        A row is generated when the trainer iterates over the data set.
        """
        # The package `datasets` pickles the generator and its arguments to hash them, so the argument is a number.
        _environments[id(self.bridge)] = self
        return IterableDataset.from_generator(_draw_rows, gen_kwargs={"number": id(self.bridge)})

    async def reward(
        self,
        completions: Sequence[Completion],
        reference: Sequence[str],
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_extra: LogColumn | None = None,
        log_metric: LogMetric | None = None,
        **_: object,
    ) -> list[float | None]:
        """The function for `reward_funcs`: return each completion's score, or None after an infrastructure error."""
        return _scores(await self._judge(completions, reference, completion_ids, log_extra, log_metric))

    def rewards(self) -> list[Callable[..., Awaitable[list[float | None]]]]:
        """Return three reward functions, for the parts `format`, `answer` and `length` of the score.

        For GDPO, use them instead of `reward`, with `GRPOConfig(multi_objective_aggregation="normalize_then_sum")`.
        Each batch is judged once.
        """
        return [self._reward_of(part) for part in ("format", "answer", "length")]

    def _reward_of(self, part: str) -> Callable[..., Awaitable[list[float | None]]]:
        async def reward(completions: Sequence[Completion], **given: Any) -> list[float | None]:
            if self._judging is None or self._batch is not completions:
                self._batch = completions
                used = ("completion_ids", "log_extra", "log_metric")
                more = {name: given[name] for name in used if name in given}
                self._judging = asyncio.create_task(self._judge(completions, given["reference"], **more))
            verdicts = await self._judging
            return [None if verdict is None else verdict.parts[part] for verdict in verdicts]

        reward.__name__ = part
        return reward

    async def _judge(
        self,
        completions: Sequence[Completion],
        reference: Sequence[str],
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_extra: LogColumn | None = None,
        log_metric: LogMetric | None = None,
    ) -> list[Verdict | None]:
        """Judge a batch, update the sampler, and log the reasons of the verdicts."""
        indices: dict[str, list[int]] = defaultdict(list)
        for index, name in enumerate(reference):
            indices[name].append(index)
        judged = await asyncio.gather(
            *(
                # Only the first rank has the problems; other ranks generate them from their references.
                self.bridge.ajudge(self.problems.get(name, name), [completions[index] for index in of_problem])
                for name, of_problem in indices.items()
            )
        )
        verdicts: list[Verdict | None] = [None] * len(completions)
        for of_problem, group in zip(indices.values(), judged, strict=True):
            for index, verdict in zip(of_problem, group, strict=True):
                verdicts[index] = verdict
        limit = self.max_completion_tokens
        cut = [False] * len(completions)
        if limit is not None and completion_ids is not None:
            cut = [len(ids) >= limit for ids in completion_ids]
        await asyncio.to_thread(self._update_sampler, list(zip(reference, verdicts, cut, strict=True)))
        _log_reasons(verdicts, "reason", "reasoning", log_extra, log_metric)
        levels = [level for name in reference if (level := Reference.parse(name).level) is not None]
        if log_metric is not None and levels:
            log_metric("reasoning/level", sum(levels) / len(levels))
        return verdicts

    def callback(self) -> TrainerCallback:
        """Return the callback that checks the trainer's arguments, saves the stream of problems, and logs metrics."""
        return _StreamCallback(self)

    def draw(self) -> dict[str, object]:
        """Return the next row, the same on every rank. All ranks must call this method equally often."""
        if self._objects is None and dist.is_initialized() and dist.get_world_size() > 1:
            # Ranks are connected only after GRPOConfig was created. A separate group is needed, because the trainer's
            # group may use GPUs, which cannot send Python objects.
            self._ranks, self._rank = dist.get_world_size(), dist.get_rank()
            self._objects = dist.new_group(backend="gloo")
        row: list[Any] = [None]
        if self._rank == 0:
            problem = self.bridge.next()
            self.problems[problem.reference] = problem
            row = [{"prompt": self.bridge.messages(problem), "reference": problem.reference}]
        if self._objects is not None:
            dist.broadcast_object_list(row, src=0, group=self._objects)
        drawn: dict[str, object] = row[0]
        return drawn

    def _update_sampler(self, verdicts: list[tuple[str, Verdict | None, bool]]) -> None:
        """Gather (problem's reference, verdict, is truncated) from all ranks. The first rank updates the sampler."""
        of_ranks = [verdicts] * self._ranks
        if self._objects is not None:
            dist.all_gather_object(of_ranks, verdicts, group=self._objects)
        if self._rank != 0:
            return
        groups: dict[str, list[tuple[Verdict | None, bool]]] = defaultdict(list)
        for of_rank in of_ranks:
            for name, verdict, cut in of_rank:
                groups[name].append((verdict, cut))
        for name, group in groups.items():
            problem = self.problems.pop(name, None)
            if problem is not None:  # rows of the trainer's evaluation data set do not come from this environment
                self.bridge.observe(problem, [verdict for verdict, _ in group], cut=[cut for _, cut in group])


NOT_COLUMNS = frozenset({"completion_ids", "trainer_state", "log_extra", "log_metric", "environments"})
"""Arguments of reward functions in GRPOTrainer that are not columns of the data set."""


def score_reward(bridge: Bridge, name: str = "score") -> Callable[..., Awaitable[list[float | None]]]:
    """Return a reward function that calls the score function with each completion and its row, including the prompt.

    The reward is None after an infrastructure error. TRL logs the rewards under `name`, and the share of completions
    with each Reason under `NAME/REASON`. TRL's table of completions gets the columns `NAME/reason`, `NAME/error` and
    `NAME/parts`.
    """

    async def reward(
        prompts: Sequence[object],
        completions: Sequence[Completion],
        log_extra: LogColumn | None = None,
        log_metric: LogMetric | None = None,
        **given: Sequence[object],
    ) -> list[float | None]:
        columns = {"prompt": prompts} | {column: given[column] for column in given.keys() - NOT_COLUMNS}
        rows = [{column: values[index] for column, values in columns.items()} for index in range(len(completions))]
        judged = await asyncio.gather(
            *(bridge.ajudge(row, [completion]) for row, completion in zip(rows, completions, strict=True))
        )
        verdicts = [verdict for [verdict] in judged]
        _log_reasons(verdicts, f"{name}/reason", name, log_extra, log_metric)
        if log_extra is not None:
            log_extra(f"{name}/error", ["" if verdict is None else verdict.error or "" for verdict in verdicts])
            # As JSON, because the parts may differ between completions, and TRL needs the same columns for all.
            parts = [{} if verdict is None else dict(verdict.own_parts or {}) for verdict in verdicts]
            log_extra(f"{name}/parts", [json.dumps(of_one) for of_one in parts])
        return _scores(verdicts)

    reward.__name__ = name
    return reward


def _scores(verdicts: Sequence[Verdict | None]) -> list[float | None]:
    return [None if verdict is None else verdict.score for verdict in verdicts]


def _log_reasons(
    verdicts: Sequence[Verdict | None],
    column: str,
    section: str,
    log_extra: LogColumn | None,
    log_metric: LogMetric | None,
) -> None:
    """Log the reason of each verdict as a column, and the share of each reason as a metric."""
    reasons = ["fault" if verdict is None else verdict.reason.value for verdict in verdicts]
    if log_extra is not None:
        log_extra(column, reasons)
    if log_metric is not None:
        for reason in (*Reason, "fault"):
            log_metric(f"{section}/{reason}", reasons.count(reason) / len(reasons))


class _StreamCallback(TrainerCallback):
    def __init__(self, environment: TrlEnvironment) -> None:
        self._environment = environment

    def on_init_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if args.shuffle_dataset:
            raise ConfigError(
                "must be False: shuffling draws problems long before they are used, so the curriculum cannot adapt",
                setting="GRPOConfig.shuffle_dataset",
                remedy="set shuffle_dataset=False",
            )
        expected = self._environment.bridge.session.group_size
        if args.num_generations != expected:
            raise ConfigError(
                f"must be {expected}, the group_size of the Bridge",
                setting="GRPOConfig.num_generations",
                got=args.num_generations,
                remedy=f"use Bridge(group_size={args.num_generations})",
            )
        self._environment.max_completion_tokens = args.max_completion_length
        self._environment.bridge.session.metrics.token_limit = (
            f"max_completion_length of {type(args).__name__}, which is {args.max_completion_length}"
        )
        # Otherwise a resumed trainer would draw the rows of all earlier steps again and discard them.
        args.ignore_data_skip = True

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, model: Any = None, **given: object
    ) -> None:
        bridge = self._environment.bridge
        limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
        if limit is not None and _has_learned_positions(model, limit):
            # Observed: GPT-2 learned nothing from 18,000 completions of two tasks, but did learn from one task.
            logger.warning(
                "the model uses learned position embeddings (as GPT-2 does), and TRL pads prompts on the left without "
                "`position_ids`. With prompts of different lengths such a model learns almost nothing. Use a model "
                "with rotary position embeddings, or pass `position_ids` (docs/trainers.md, TRL)"
            )
        if limit is not None:
            most_prompt_tokens = limit - args.max_completion_length
            # Use a copy, because the trainer turns on padding and truncation of its tokenizer, for all threads.
            tokenizer: Any = copy.deepcopy(given["processing_class"])

            def fits(problem: Problem) -> bool:
                prompt = tokenizer.apply_chat_template(
                    bridge.messages(problem), add_generation_prompt=True, return_dict=True
                )["input_ids"]
                answer = tokenizer(f"<answer>{problem.answer or ''}</answer>")["input_ids"]
                return bool(len(prompt) <= most_prompt_tokens and len(answer) <= args.max_completion_length)

            bridge.fits = fits
        if state.global_step > 0 and state.is_world_process_zero:
            path = Path(args.output_dir, f"checkpoint-{state.global_step}", STATE_FILE)
            try:
                bridge.resume(read_json(path))
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"cannot resume the stream of problems: {path} cannot be read ({describe(error)})",
                    remedy="choose another checkpoint, or train without resume_from_checkpoint",
                ) from error

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if state.is_world_process_zero:
            path = Path(args.output_dir, f"checkpoint-{state.global_step}", STATE_FILE)
            replace_file(path, [json.dumps(self._environment.bridge.state()).encode()])

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **_: object) -> None:
        if state.is_world_process_zero:
            report = self._environment.bridge.report()
            logger.info("step %d: %s", state.global_step, {name: round(value, 4) for name, value in report.items()})


def _has_learned_positions(model: Any, limit: int) -> bool:
    """Return True if the model has learned position embeddings: a table with a row for each of `limit` positions."""
    tokens = model.get_input_embeddings()
    tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding) and module is not tokens]
    return any(table.num_embeddings == limit for table in tables)


_environments: dict[int, TrlEnvironment] = {}


def _draw_rows(number: int) -> Iterator[dict[str, object]]:
    while True:
        yield _environments[number].draw()
