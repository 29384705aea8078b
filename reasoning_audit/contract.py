"""Check the contract of a verifier on a few problems: by what it returns, and by what it does meanwhile.

The scores come from watched workers (`watch.py`), where bare verifiers score each answer twice. Three processes answer:
one with the hash seed of ordinary workers, one with another, and, only where these two differ, a third, which tells
whether the hash seed is the cause.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from reasoning_env.answers.shortcuts import last_grid
from reasoning_env.errors import GenerationError, ScoringError
from reasoning_env.problems.plan import BUSY_MACHINE_S
from reasoning_env.problems.references import Reference
from reasoning_env.records import Problem, Verdict
from reasoning_env.workers.pool import PoolSettings, WorkerPool

from .findings import DEFECTS_OF_REASONS, Defect, Finding, Reporter
from .probes import ANSWER_CELL, perturb
from .questions import Remark, contradictions, giveaways
from .scores import GENERATION_CPU_S, GOLD_SCORE, ProbedAnswer, Workers
from .watch import CANARY, EXECUTED, WATCHED, Watched

CHECKED = 2
"""Problems of a task and level on which verifiers are watched.

One, two and four problems show the same over reasoning-gym, RLVE-Gym and the planted defects. On a single problem,
a verifier that breaks ties at random is found by luck only.
"""
SCORE_ROUNDING = 1e-6
"""Scores that differ by no more are equal."""
CANARIES: Mapping[str, str] = {
    "a name": CANARY,
    "a file": f"open('{CANARY}', 'w')",
    "a file, from sympy": f"sqrt.__globals__['__builtins__']['open']('{CANARY}', 'w')",
    "a folder, from YAML": f"!!python/object/apply:os.mkdir ['{CANARY}']",
    "a folder, from pickle": f"cos\nmkdir\n(S'{CANARY}'\ntR.",
    "a socket": "__import__('socket').socket()",
    "a process": f"__import__('os').system('{CANARY}')",
    "an import": f"__import__('{CANARY}')",
}
"""Answers that are seen when they are executed, by what they do. The sandbox denies files, sockets and processes."""
ATTACKS: Mapping[str, str] = {
    "a tower of powers": "9**9**9**9",
    "5,000 digits": "9" * 5_000,
    "a huge exponent": "1e999999999",
    "a huge factorial": "factorial(99999999)",
    "3,000 brackets": "(" * 3_000,
    "3,000 lists": "[" * 3_000,
    "a long sum": "1" + "+1" * 3_000,
    "5,000 letters and a sign": "a" * 5_000 + "!",
    "5,000 blanks": "a" + " " * 5_000 + "a",
    "a huge list": "[0] * 10**10",
    "a trillion": "1000000000000",
}
"""Answers that are short, and take much time or memory where a verifier does not bound its work."""
POSITIVE_NUMBER = re.compile(r"(?<![\w.-])[1-9]\d*(?![\w.])")


@dataclass(frozen=True)
class WatchedPools:
    """Pools of watched workers: with the ordinary hash seed, with another, and what starts a third like the first."""

    first: Workers
    other_hash_seed: Workers
    third: Callable[[], Awaitable[Workers]]


@asynccontextmanager
async def watched_pools(
    settings: PoolSettings, as_workers: Callable[[WorkerPool], Workers] = lambda pool: pool
) -> AsyncIterator[WatchedPools]:
    """Yield watched pools of workers with these settings, and close them at the end. Raises what `start` raises.

    Each has one worker of a kind, so that two calls for scores reach the same process. `as_workers` is what the audit
    sees of a pool.
    """
    # One slow answer of a group must not hide what the others show.
    one_of_each = {"num_generators": 1, "num_verifiers": 1, "scoring_budget_s": math.inf}
    watched = replace(settings, user=settings.user.model_copy(update=one_of_each), source_wrapper=WATCHED)
    async with AsyncExitStack() as stack:

        async def start(hash_seed: int) -> Workers:
            pool = WorkerPool(replace(watched, hash_seed=hash_seed))
            stack.push_async_callback(pool.close)
            await pool.start()
            return as_workers(pool)

        started: list[Workers] = []

        async def third() -> Workers:
            if not started:
                started.append(await start(watched.hash_seed))
            return started[0]

        # Ordinary workers have the hash seed 0.
        yield WatchedPools(await start(watched.hash_seed), await start(hash_seed=1), third)


@dataclass(frozen=True)
class ContractCheck:
    """A check of a task at a level.

    - `reporter` makes the findings, as watched workers show them.
    - `makes_problems`: workers can make the problems again. Rows of a file stay what they are.
    - `is_isolated`: neither another hash seed nor JSON reaches the task, since every process has the same hash seed and
      entries pass as bytes. What depends on them is no defect then.
    """

    pools: WatchedPools
    reporter: Reporter
    makes_problems: bool = True
    is_isolated: bool = False

    async def run(
        self, problems: Sequence[Problem], failed: Sequence[ProbedAnswer] = (), *, attacks: bool
    ) -> list[Finding]:
        """Return the findings on a task's problems. `attacks` also tries hostile answers.

        `failed` are answers at which the verifier failed: the watch tells an error from a score out of range.
        """
        found = await self._check_texts(problems)
        for number, problem in enumerate(problems[:CHECKED]):
            try:
                found += await self._check(problem)
                if attacks and number == 0:
                    found += await self._attack(problem)
            except (GenerationError, ScoringError) as error:
                found.append(self.reporter.finding(Defect.NO_PROBLEM, f"a check failed: {error}", problem))
        for example in sorted(failed, key=lambda one: len(one.verdict.answer or "")):
            found += await self._look_again(example)
        return found

    # ---- texts

    async def _check_texts(self, problems: Sequence[Problem]) -> list[Finding]:
        remarks = [(Defect.GIVES_ANSWER_AWAY, remark) for remark in giveaways(problems)]
        for remark in contradictions(problems):
            if not await self._is_right_too(remark):
                remarks.append((Defect.CONTRADICTS_QUESTION, remark))
        return [
            self.reporter.finding(defect, remark.text, remark.problem, remark.problem.known_answer or "")
            for defect, remark in remarks
        ]

    async def _is_right_too(self, remark: Remark) -> bool:
        if remark.other is None:
            return False
        [verdict] = await self.pools.first.score(remark.problem, [remark.other])
        return verdict.score >= GOLD_SCORE

    async def _look_again(self, example: ProbedAnswer) -> list[Finding]:
        problem = example.problem
        answer = example.verdict.answer or ""
        try:
            [verdict] = await self.pools.first.score(problem, [answer])
        except ScoringError:
            return []
        if looked := [*self._look_at(problem, answer, verdict)]:
            return looked
        detail = example.verdict.error or "the verifier raised an error once, and none when it was called again"
        return [self.reporter.finding(Defect.VERIFIER_FAILS, detail, problem, answer, 0.0)]

    # ---- one problem

    async def _check(self, problem: Problem) -> list[Finding]:
        gold = problem.known_answer
        answers = ["qwxz", " "]
        chain = [] if gold is None else wrong_cells(gold)
        if gold is not None:
            answers += [gold, perturb(gold), with_negative_number(gold), *chain]
        verdicts = dict(zip(answers, await self.pools.first.score(problem, answers), strict=True))
        found = [one for answer, verdict in verdicts.items() for one in self._look_at(problem, answer, verdict)]
        if gold is not None:
            found += self._compare(problem, gold, verdicts, chain)
        found += await self._check_processes(problem, verdicts)
        if self.makes_problems:
            found += await self._check_generation(problem, gold, verdicts)
        return found

    def _look_at(self, problem: Problem, answer: str, verdict: Verdict) -> Iterator[Finding]:
        """Yield what one watched verdict shows."""
        parts = verdict.own_parts or {}
        raw = parts.get(Watched.RAW)
        again = parts.get(Watched.AGAIN)
        if verdict.reason in DEFECTS_OF_REASONS:
            yield self.reporter.finding(DEFECTS_OF_REASONS[verdict.reason], verdict.reason.value, problem, answer, 0.0)
        if Watched.FAILED in parts:
            yield self.reporter.finding(Defect.VERIFIER_FAILS, "the verifier raises an error", problem, answer, 0.0)
        if Watched.NO_NUMBER in parts:
            detail = "the verifier returns no finite number"
            yield self.reporter.finding(Defect.SCORE_OUT_OF_RANGE, detail, problem, answer)
        if raw is not None and not 0.0 <= raw <= 1.0:
            detail = f"the verifier returns {raw:g}"
            yield self.reporter.finding(Defect.SCORE_OUT_OF_RANGE, detail, problem, answer, raw)
        if raw is not None and again is not None and abs(raw - again) > SCORE_ROUNDING:
            detail = f"two equal calls return {raw:g} and {again:g}"
            yield self.reporter.finding(Defect.CALLS_DIFFER, detail, problem, answer, raw, again)

    def _compare(
        self, problem: Problem, gold: str, verdicts: Mapping[str, Verdict], chain: Sequence[str]
    ) -> Iterator[Finding]:
        right = _raw(verdicts[gold])
        if right is None:
            return
        for answer, verdict in verdicts.items():
            raw = _raw(verdict)
            if raw is not None and raw > right + SCORE_ROUNDING:
                detail = f"another answer earns {raw:g}, the right one {right:g}"
                yield self.reporter.finding(Defect.WRONG_ABOVE_RIGHT, detail, problem, answer, raw, right)
        before = right
        for count, answer in enumerate(chain):
            raw = _raw(verdicts[answer])
            if raw is None or raw >= Verdict.CORRECT_SCORE:  # another right answer has no wrong cells
                return
            if raw <= 0.0:  # the cells may break a rule of the form, such as that of a permutation
                continue
            if raw > before + SCORE_ROUNDING:
                detail = f"step {count + 1} of wrong cells earns {raw:g}, the step before, with fewer, {before:g}"
                yield self.reporter.finding(Defect.CREDIT_NOT_MONOTONE, detail, problem, answer, raw, before)
            before = raw

    async def _check_processes(self, problem: Problem, verdicts: Mapping[str, Verdict]) -> list[Finding]:
        """Score the same answers in a process with another hash seed."""
        steady = {
            answer: raw
            for answer, verdict in verdicts.items()
            if (raw := _raw(verdict)) is not None
            and abs(raw - (verdict.own_parts or {}).get(Watched.AGAIN, raw)) <= SCORE_ROUNDING
        }
        # In the other order: a verifier that remembers answers scores differently then.
        backward = [*reversed(steady.items())]
        others = await self.pools.other_hash_seed.score(problem, [answer for answer, _ in backward])
        for (answer, raw), verdict in zip(backward, others, strict=True):
            other = _raw(verdict)
            if other is None or abs(other - raw) <= SCORE_ROUNDING:
                continue
            [like] = await (await self.pools.third()).score(problem, [answer])
            third = _raw(like)
            if third is None or abs(third - raw) > SCORE_ROUNDING:
                detail = f"two processes score {raw:g} and {other if third is None else third:g}"
                return [self.reporter.finding(Defect.PROCESSES_DIFFER, detail, problem, answer, raw, third)]
            if not self.is_isolated:
                detail = f"processes with two hash seeds score {raw:g} and {other:g}"
                return [self.reporter.finding(Defect.HASH_SEEDS_DIFFER, detail, problem, answer, raw, other)]
        return []

    async def _check_generation(
        self, problem: Problem, gold: str | None, verdicts: Mapping[str, Verdict]
    ) -> list[Finding]:
        """Make the same problem in a process with another hash seed, and score its right answer after JSON."""
        spec = Reference.parse(problem.reference).spec()
        made = await self.pools.other_hash_seed.generate(spec, BUSY_MACHINE_S, cpu_s=GENERATION_CPU_S)
        found = []
        if (made.question, made.answer) != (problem.question, problem.answer):
            again = await self.pools.first.generate(spec, BUSY_MACHINE_S, cpu_s=GENERATION_CPU_S)
            differs = (again.question, again.answer) != (problem.question, problem.answer)
            defect = Defect.PROCESSES_DIFFER if differs else Defect.HASH_SEEDS_DIFFER
            if differs or not self.is_isolated:
                words = "two processes make" if differs else "two hash seeds make"
                found.append(self.reporter.finding(defect, f"{words} different problems of one seed", problem))
            made = again
            if differs:
                return found
        if gold is not None and not self.is_isolated and (_raw(verdicts[gold]) or 0.0) >= GOLD_SCORE:
            [verdict] = await self.pools.first.score(made, [gold])
            raw = _raw(verdict)
            if raw is None or raw < GOLD_SCORE:
                detail = f"the right answer earns {raw or 0.0:g} after the entry passed through JSON"
                expected = _raw(verdicts[gold])
                found.append(
                    self.reporter.finding(Defect.GOLD_LOST_IN_JSON, detail, problem, gold, raw or 0.0, expected)
                )
        return found

    async def _attack(self, problem: Problem) -> list[Finding]:
        """Try hostile answers one by one until one ends a worker: further answers would end a worker likewise."""
        found: list[Finding] = []
        for name, text in CANARIES.items():
            [verdict] = await self.pools.first.score(problem, [text])
            signs = [sign.value for sign in EXECUTED if (verdict.own_parts or {}).get(sign)]
            if signs:
                detail = f"the answer, {name}, was executed ({', '.join(signs)})"
                found.append(self.reporter.finding(Defect.TEXT_EXECUTED, detail, problem, text, verdict.score))
                break
        for name, text in ATTACKS.items():
            [verdict] = await self.pools.first.score(problem, [text])
            looked = [*self._look_at(problem, text, verdict)]
            found += [replace(one, detail=f"{one.detail} at {name}") for one in looked]
            if verdict.reason in DEFECTS_OF_REASONS:
                break
        return found


def _raw(verdict: Verdict) -> float | None:
    """Return the number that a bare verifier returned; None for none."""
    return (verdict.own_parts or {}).get(Watched.RAW)


def with_negative_number(answer: str) -> str:
    """Return the answer with its first number ten times as large and negative; the answer itself without a number.

    A verifier that rates numbers by their ratio or difference may leave its range.
    """
    return POSITIVE_NUMBER.sub(r"-\g<0>0", answer, count=1)


def wrong_cells(answer: str) -> list[str]:
    """Return a board or list with more and more wrong cells: each has the wrong cells of the one before, and others.

    A wrong cell has the content of another cell, so that the form stays. Returns [] for answers that are no board and
    no list of cells with different contents.
    """
    text = answer.strip()
    lines = text.splitlines()
    is_board = len(lines) >= 2 and len(last_grid(text)) == len(lines)
    if not is_board and not (text.startswith("[") and text.endswith("]")):
        return []
    cells = [*ANSWER_CELL.finditer(answer)]
    contents = sorted({cell[0] for cell in cells})
    if len(contents) < 2:
        return []
    order = list(range(len(cells)))
    random.Random(len(cells)).shuffle(order)
    steps = sorted({1, 2, len(cells) // 4, len(cells) // 2, len(cells)} - {0})
    return [_with_wrong(answer, cells, contents, set(order[:count])) for count in steps]


def _with_wrong(answer: str, cells: Sequence[re.Match[str]], contents: Sequence[str], wrong: set[int]) -> str:
    pieces = []
    end = 0
    for number, cell in enumerate(cells):
        content = cell[0]
        if number in wrong:
            content = contents[(contents.index(content) + 1) % len(contents)]
        pieces += [answer[end : cell.start()], content]
        end = cell.end()
    return "".join([*pieces, answer[end:]])
