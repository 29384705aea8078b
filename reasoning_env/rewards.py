"""Compute the rewards of completions: extract the answer, have verifier workers score it, and apply the length penalty.

Completions are hostile text, so every function takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from .errors import ConfigError
from .prompts.thinking import TAGS, Thinking, ThinkingFormat
from .records import OPENING_TAG, Ending, Group, Pool, Problem, Reason, Rollout, Verdict
from .runtime.concurrency import in_background
from .runtime.text import short

# Without ASCII, the long s would match s, and the Kelvin sign would match k.
ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE | re.ASCII)

TAG_LENGTH = len("</answer>")
MAX_TAGS = 16
"""If a completion has more answer tags than this, its answers count as different, without a comparison."""
WINDOW = 1 << 16
"""Characters per search of a long text. A search of 16 MB of `<` would keep the interpreter lock for 0.3 s."""
MAX_ANSWER_BYTES = 20_000
"""Limit for the length of an answer, in bytes of UTF-8. Longer answers score 0 (`too_long`)."""
LONG_TEXTS = 100_000
"""If a group has more characters than this, a thread extracts its answers. With fewer, a thread would be slower."""


@dataclass(frozen=True)
class Extraction:
    """The answer of a completion, or the `reason` why the completion scores 0."""

    answer: str | None
    reason: Reason | None = None


def extract_answer(text: str, max_bytes: int, thinking: Thinking = TAGS) -> Extraction:
    """Return the answer of a completion, without whitespace around it, or the reason why it has none.

    The completion without its thinking must have exactly two answer tags, which form a pair. The answer must not be
    empty or longer than `max_bytes` bytes of UTF-8.
    """
    reply = split_thinking(text, thinking)
    rest = reply.text
    if next(find_all(OPENING_TAG, rest, TAG_LENGTH), None) is None:
        return Extraction(None, _reason_without_tags(text, reply))
    tags = list(islice(find_all(ANSWER_TAG, rest, TAG_LENGTH), MAX_TAGS + 1))  # hostile text may have 100,000 tags
    kinds = [tag[1] for tag in tags]
    if len(tags) > 2 or kinds == ["", ""]:
        return Extraction(None, Reason.REPEATED_ANSWER if _repeats_answer(rest, tags) else Reason.SEVERAL_ANSWERS)
    if kinds != ["", "/"]:
        return Extraction(None, Reason.UNCLOSED_ANSWER)
    answer = rest[tags[0].end() : tags[1].start()].strip()
    if not answer:
        return Extraction(None, Reason.EMPTY_ANSWER)
    if len(answer) > max_bytes or len(answer.encode("utf-8", "surrogatepass")) > max_bytes:
        return Extraction(None, Reason.TOO_LONG)
    return Extraction(answer)


def _reason_without_tags(text: str, reply: Reply) -> Reason:
    if not text.strip():
        return Reason.NO_TEXT
    return Reason.UNCLOSED_THINKING if reply.unclosed else Reason.NO_ANSWER


def _repeats_answer(text: str, tags: Sequence[re.Match[str]]) -> bool:
    """Return True if the answer tags form pairs, and all pairs enclose the same text, which is not empty."""
    if len(tags) > MAX_TAGS or [tag[1] for tag in tags] != ["", "/"] * (len(tags) // 2):
        return False
    pairs = zip(tags[::2], tags[1::2], strict=True)
    contents = {text[opening.end() : closing.start()].strip() for opening, closing in pairs}
    return len(contents) == 1 and "" not in contents


@dataclass(frozen=True)
class Reply:
    """The `text` of a completion without its thinking. `unclosed` is True if a block of thinking never ended."""

    text: str
    unclosed: bool = False


def split_thinking(text: str, thinking: Thinking) -> Reply:
    """Return the text of a completion without its thinking.

    - Remove closed blocks, and everything after an opening mark that is never closed.
    - Remove everything before a closing mark that has no opening mark, because the prompt may have opened the block.
    - Inside a block, ignore all marks except the closing mark of the same format.
    - In formats with channels, keep only the final channels.
    """
    if thinking.marks is None:
        return Reply(text)
    kept: list[str] = []
    kept_to = 0
    inside: ThinkingFormat | None = None
    final = False
    for match in find_all(thinking.marks, text, thinking.longest_mark):
        mark = match[0] if match[0] in thinking.openings or match[0] in thinking.closings else match[0].lower()
        if closed := thinking.closings.get(mark):
            if inside is not None and inside is not closed:
                continue
            if closed.channels and final:
                if inside is None:
                    kept.append(text[kept_to : match.start()])
            elif inside is None or closed.channels:
                kept.clear()
            final = final or closed.channels
            inside = None
            kept_to = match.end()
        elif inside is None:
            kept.append(text[kept_to : match.start()])
            inside = thinking.openings[mark]
    if inside is None:
        kept.append(text[kept_to:])
    # Join with spaces, so that the strings on both sides of a removed part cannot form a tag.
    return Reply(" ".join(filter(None, kept)), unclosed=inside is not None)


def find_all(pattern: re.Pattern[str], text: str, longest: int) -> Iterator[re.Match[str]]:
    """Return the matches of `pattern`. The caller must ensure that a match has 1 to `longest` characters."""
    return pattern.finditer(text) if len(text) <= WINDOW else _find_in_windows(pattern, text, longest)


def _find_in_windows(pattern: re.Pattern[str], text: str, longest: int) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        stop = position + WINDOW
        end = stop
        for match in pattern.finditer(text, position, stop + longest):
            if match.start() >= stop:
                break
            end = max(stop, match.end())
            yield match
        position = end


async def score_texts(
    verifier: Pool, problem: Problem, texts: Sequence[str], thinking: Thinking = TAGS
) -> list[Verdict]:
    """Return a verdict for each completion, in order. Raises ScoringError and WorkerError as `verifier.score` does."""

    def extract() -> list[Extraction]:
        return [extract_answer(text, MAX_ANSWER_BYTES, thinking) for text in texts]

    extractions = await in_background(extract) if sum(map(len, texts)) > LONG_TEXTS else extract()
    answers = [extraction.answer for extraction in extractions if extraction.answer is not None]
    scored = iter(await verifier.score(problem, answers))
    return [
        next(scored) if extraction.answer is not None else Verdict(0.0, extraction.reason or Reason.NO_ANSWER)
        for extraction in extractions
    ]


def without_refusals(rollouts: Sequence[Rollout], verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts, with a score of 0 for rollouts in which the model or its server refused to answer."""
    refused = Verdict(0.0, Reason.REFUSED)
    return [
        refused if rollout.ending is Ending.REFUSED else verdict
        for rollout, verdict in zip(rollouts, verdicts, strict=True)
    ]


def reward(group: Group, verdicts: Sequence[Verdict], *, max_tokens: int) -> Group:
    """Return the group with a verdict and a reward for each rollout. Rewards are scores after the length penalty."""
    final = without_refusals(group.rollouts, verdicts)
    lengths = [len(rollout.tokens) or rollout.token_count or 0 for rollout in group.rollouts]
    scores = apply_length_penalty([verdict.score for verdict in final], lengths, max_tokens)
    rewarded = [
        replace(rollout, verdict=verdict, score=score)
        for rollout, verdict, score in zip(group.rollouts, final, scores, strict=True)
    ]
    return replace(group, rollouts=tuple(rewarded))


def apply_length_penalty(scores: Sequence[float], lengths: Sequence[int], max_tokens: int) -> tuple[float, ...]:
    """Return the scores after the length penalty. If any score is below 0.5, no score changes.

    `lengths` counts the tokens of prompt and completion, or of the completion alone if the prompt's length is unknown.
    A score stays unchanged for lengths up to 75 % of `max_tokens`, and then falls linearly to 0 at `max_tokens`.
    """
    if not scores or min(scores) < 0.5:
        return tuple(scores)
    free = 0.75 * max_tokens
    factors = (min(1.0, max(0.0, (max_tokens - length) / (max_tokens - free))) for length in lengths)
    return tuple(score * factor for score, factor in zip(scores, factors, strict=True))


# ------------------------------------------------------------------ arguments of callers


def check_subject(subject: object) -> None:
    """Raise ConfigError unless the argument is a problem, a reference (a string), or a row (a mapping)."""
    if not isinstance(subject, (Problem, str, Mapping)):
        expected = "must be a Problem, a problem's reference (a string) or a row (a mapping)"
        raise ConfigError(expected, setting="subject", got=short(subject))


def check_whole_problem(problem: object) -> None:
    """Raise ConfigError unless the argument is a problem. A reference, which `judge` accepts, is not enough here."""
    if not isinstance(problem, Problem):
        raise ConfigError("must be a Problem", setting="problem", got=problem)


def read_verdicts(verdicts: object) -> list[Verdict | None]:
    """Return a group's verdicts from a list of verdicts, scores in [0, 1], and None for missing verdicts.

    Raises ConfigError for any other item, and for an empty list.
    """
    if isinstance(verdicts, (str, bytes, Mapping)) or not isinstance(verdicts, Sequence):
        raise ConfigError("must be a list of verdicts or scores", setting="verdicts", got=short(verdicts))
    if not verdicts:
        remedy = "do not call `observe` for a group without completions"
        raise ConfigError("must have at least one verdict", setting="verdicts", got=verdicts, remedy=remedy)
    return [_verdict(verdict, number) for number, verdict in enumerate(verdicts)]


def _verdict(verdict: object, number: int) -> Verdict | None:
    if verdict is None or isinstance(verdict, Verdict):
        return verdict
    if isinstance(verdict, (int, float)) and 0.0 <= verdict <= 1.0:
        return Verdict(float(verdict), Reason.SCORED)
    raise ConfigError("must be a verdict, or a score from 0 to 1", setting=f"verdicts[{number}]", got=short(verdict))
