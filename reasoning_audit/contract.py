"""Check, on a few problems, whether a verifier returns valid, reproducible scores and never executes answers.

A watched worker (`watch.py`) calls the original verifier twice for each answer. A second worker process scores answers
again. All scores of an answer must be equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from reasoning_env import PoolSettings, WorkerPool
from reasoning_env.errors import GenerationError, ScoringError
from reasoning_env.records import Problem, Verdict

from .findings import DEFECTS_OF_REASONS, Defect, Finding, Reporter
from .probes import perturb
from .scores import GENERATION_CPU_S, GENERATION_DEADLINE_S, RIGHT_ANSWER_SCORE, ProbedAnswer, Workers
from .watch import CANARY, EXECUTED, WATCHED, Watched

CHECKED = 2
"""The audit watches the verifier on this many problems of each task and level.

With a single problem, the audit could miss a verifier that returns random scores.
"""
SCORE_ROUNDING = 1e-6
"""Two scores count as equal if they differ by at most this."""
CANARIES: Mapping[str, str] = {
    "code that reads a name": CANARY,
    "code that opens a file": f"open('{CANARY}', 'w')",
    "code in sympy's notation that opens a file": f"sqrt.__globals__['__builtins__']['open']('{CANARY}', 'w')",
    "YAML that creates a folder": f"!!python/object/apply:os.mkdir ['{CANARY}']",
    "a pickle that creates a folder": f"cos\nmkdir\n(S'{CANARY}'\ntR.",
    "code that creates a socket": "__import__('socket').socket()",
    "code that starts a process": f"__import__('os').system('{CANARY}')",
    "code that imports a module": f"__import__('{CANARY}')",
}
"""Answers that are code. A `Watch` detects if a verifier runs the code. The sandbox prevents
harm."""
ATTACKS: Mapping[str, str] = {
    "a tower of powers": "9**9**9**9",
    "5,000 digits": "9" * 5_000,
    "a huge exponent": "1e999999999",
    "a huge factorial": "factorial(99999999)",
    "3,000 brackets": "(" * 3_000,
    "3,000 lists": "[" * 3_000,
    "a long sum": "1" + "+1" * 3_000,
    "5,000 letters and an exclamation mark": "a" * 5_000 + "!",
    "5,000 blanks": "a" + " " * 5_000 + "a",
    "a huge list": "[0] * 10**10",
    "a trillion": "1000000000000",
}
"""Short answers that take much time or memory if a verifier does not limit its work."""
POSITIVE_NUMBER = re.compile(r"(?<![\w.-])[1-9]\d*(?![\w.])")


@dataclass(frozen=True)
class WatchedPools:
    """Two pools whose workers observe the verifier. Each pool has one generator process and one verifier process."""

    first: Workers
    second: Workers


@asynccontextmanager
async def watched_pools(
    settings: PoolSettings, *, other_hash_seed: bool, as_workers: Callable[[WorkerPool], Workers] = lambda pool: pool
) -> AsyncIterator[WatchedPools]:
    """Yield two pools whose workers observe the verifier (`watch.py`). Raises the errors of `WorkerPool.start`.

    Each pool has one verifier process. With `other_hash_seed`, the pools have different values of PYTHONHASHSEED, as
    separately started programs do. `as_workers` converts a pool to the `Workers` that the check uses.
    """
    one_of_each = {"num_generators": 1, "num_verifiers": 1}
    user = settings.user.model_copy(update=one_of_each)
    # One slow answer must not use up the time of the other answers.
    watched = replace(settings, user=user, budget_s=math.inf, source_wrapper=WATCHED)
    async with AsyncExitStack() as stack:

        async def start(of_pool: PoolSettings) -> Workers:
            pool = WorkerPool(of_pool)
            stack.push_async_callback(pool.close)
            await pool.start()
            return as_workers(pool)

        second = replace(watched, hash_seed=watched.hash_seed + 1) if other_hash_seed else watched
        yield WatchedPools(await start(watched), await start(second))


@dataclass(frozen=True)
class ContractCheck:
    """Checks a task's verifier at one level of difficulty, with two pools of watched workers (`pools`)."""

    pools: WatchedPools
    reporter: Reporter

    async def run(
        self, problems: Sequence[Problem], failed: Sequence[ProbedAnswer] = (), *, attacks: bool
    ) -> list[Finding]:
        """Return the findings on a task's problems. If `attacks` is True, also try hostile answers.

        `failed` are answers that got no valid score earlier in the audit. They are scored again to find the cause.
        """
        found = await self._find_contradicting_answers(problems)
        for number, problem in enumerate(problems[:CHECKED]):
            try:
                found += await self._check_problem(problem)
                if attacks and number == 0:
                    found += await self._score_attacks(problem)
            except (GenerationError, ScoringError) as error:
                detail = f"the audit could not check the verifier: {error}"
                found.append(self.reporter.finding(Defect.NO_PROBLEM, detail, problem))
        for example in sorted(failed, key=lambda one: len(one.verdict.answer or "")):
            found += await self._repeat_failed_answer(example)
        return found

    # ---- all problems

    async def _find_contradicting_answers(self, problems: Sequence[Problem]) -> list[Finding]:
        """Find problems that repeat an earlier problem's question, but give that problem's right answer a low score."""
        first: dict[str, str] = {}
        found = []
        for problem in problems:
            # A problem with many right answers has no `answer`. Rows of a score function may have no question.
            if not problem.question or problem.answer is None:
                continue
            other = first.setdefault(problem.question, problem.answer)
            if other == problem.answer:
                continue
            [verdict] = await self.pools.first.score(problem, [other])
            if verdict.score < RIGHT_ANSWER_SCORE:
                detail = f"the same question has two right answers: {other[:40]!r} and {problem.answer[:40]!r}"
                found.append(self.reporter.finding(Defect.CONTRADICTS_QUESTION, detail, problem, problem.answer))
        return found

    async def _repeat_failed_answer(self, example: ProbedAnswer) -> list[Finding]:
        problem = example.problem
        answer = example.verdict.answer or ""
        try:
            [verdict] = await self.pools.first.score(problem, [answer])
        except ScoringError:
            return []
        if looked := [*self._findings_of_verdict(problem, answer, verdict)]:
            return looked
        detail = example.verdict.error or "the verifier raised an error, but not when the same answer was scored again"
        return [self.reporter.finding(Defect.VERIFIER_FAILS, detail, problem, answer, 0.0)]

    # ---- one problem

    async def _check_problem(self, problem: Problem) -> list[Finding]:
        gold = problem.known_answer
        answers = ["qwxz", " "]
        if gold is not None:
            answers += [gold, perturb(gold), with_negative_number(gold)]
        verdicts = dict(zip(answers, await self.pools.first.score(problem, answers), strict=True))
        found = [
            one for answer, verdict in verdicts.items() for one in self._findings_of_verdict(problem, answer, verdict)
        ]
        if gold is not None:
            found += self._compare_with_right_answer(problem, gold, verdicts)
        return found + await self._check_other_process(problem, verdicts)

    def _findings_of_verdict(self, problem: Problem, answer: str, verdict: Verdict) -> Iterator[Finding]:
        """Yield the findings that follow from a verdict of a watched worker (`watch.py`)."""
        parts = verdict.own_parts or {}
        raw = parts.get(Watched.RAW)
        again = parts.get(Watched.AGAIN)
        if verdict.reason in DEFECTS_OF_REASONS:
            yield self.reporter.finding(DEFECTS_OF_REASONS[verdict.reason], verdict.reason.value, problem, answer, 0.0)
        if Watched.FAILED in parts:
            yield self.reporter.finding(Defect.VERIFIER_FAILS, "the verifier raises an error", problem, answer, 0.0)
        if Watched.NO_NUMBER in parts:
            detail = "the verifier returns a value that is not a finite number"
            yield self.reporter.finding(Defect.SCORE_OUT_OF_RANGE, detail, problem, answer)
        if raw is not None and not 0.0 <= raw <= 1.0:
            detail = f"the verifier returns {raw:g}"
            yield self.reporter.finding(Defect.SCORE_OUT_OF_RANGE, detail, problem, answer, raw)
        if raw is not None and again is not None and abs(raw - again) > SCORE_ROUNDING:
            detail = f"two calls with the same answer return {raw:g} and {again:g}"
            yield self.reporter.finding(Defect.CALLS_DIFFER, detail, problem, answer, raw, again)

    def _compare_with_right_answer(
        self, problem: Problem, gold: str, verdicts: Mapping[str, Verdict]
    ) -> Iterator[Finding]:
        right = _raw(verdicts[gold])
        if right is None:
            return
        for answer, verdict in verdicts.items():
            raw = _raw(verdict)
            if raw is not None and raw > right + SCORE_ROUNDING:
                detail = f"a changed answer earns {raw:g}, but the right answer earns {right:g}"
                yield self.reporter.finding(Defect.WRONG_ABOVE_RIGHT, detail, problem, answer, raw, right)

    async def _check_other_process(self, problem: Problem, verdicts: Mapping[str, Verdict]) -> list[Finding]:
        """Compare the scores and the problem with those of a second process. Return the first difference."""
        steady = {
            answer: raw
            for answer, verdict in verdicts.items()
            if (raw := _raw(verdict)) is not None
            and abs(raw - (verdict.own_parts or {}).get(Watched.AGAIN, raw)) <= SCORE_ROUNDING
        }
        # The second process scores in reverse order, which reveals verifiers whose scores depend on earlier answers.
        backward = [*reversed(steady.items())]
        others = await self.pools.second.score(problem, [answer for answer, _ in backward])
        for (answer, raw), verdict in zip(backward, others, strict=True):
            other = _raw(verdict)
            if other is not None and abs(other - raw) > SCORE_ROUNDING:
                detail = f"two processes score the same answer differently: {raw:g} and {other:g}"
                return [self.reporter.finding(Defect.PROCESSES_DIFFER, detail, problem, answer, raw, other)]
        made = await self.pools.second.generate(problem.spec, GENERATION_DEADLINE_S, cpu_s=GENERATION_CPU_S)
        if (made.question, made.answer) != (problem.question, problem.answer):
            detail = "two processes make different problems from the same seed"
            return [self.reporter.finding(Defect.PROCESSES_DIFFER, detail, problem)]
        return []

    async def _score_attacks(self, problem: Problem) -> list[Finding]:
        """Score CANARIES until the verifier executes one, and ATTACKS until one ends a worker process."""
        found: list[Finding] = []
        for name, text in CANARIES.items():
            [verdict] = await self.pools.first.score(problem, [text])
            signs = [sign.value for sign in EXECUTED if (verdict.own_parts or {}).get(sign)]
            if signs:
                detail = f"the verifier executed the answer ({name}; seen: {', '.join(signs)})"
                found.append(self.reporter.finding(Defect.TEXT_EXECUTED, detail, problem, text, verdict.score))
                break
        for name, text in ATTACKS.items():
            [verdict] = await self.pools.first.score(problem, [text])
            looked = [*self._findings_of_verdict(problem, text, verdict)]
            found += [replace(one, detail=f"{one.detail} for {name}") for one in looked]
            if verdict.reason in DEFECTS_OF_REASONS:
                break
        return found


def _raw(verdict: Verdict) -> float | None:
    """Return the number that the original verifier returned; None if there is no finite number."""
    return (verdict.own_parts or {}).get(Watched.RAW)


def with_negative_number(answer: str) -> str:
    """Multiply the first positive whole number in the answer by -10, if the answer has such a number.

    For the changed answer, a verifier may return a score outside [0, 1].
    """
    return POSITIVE_NUMBER.sub(r"-\g<0>0", answer, count=1)
