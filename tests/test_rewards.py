from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reasoning_env import rewards
from reasoning_env.errors import ScoringError
from reasoning_env.library_rewards import extract_last_answer
from reasoning_env.prompts.thinking import TAGS
from reasoning_env.records import Group, Problem, Reason, Rollout, Verdict
from reasoning_env.rewards import (
    LONG_TEXTS,
    MAX_TAGS,
    Extraction,
    apply_length_penalty,
    extract_answer,
    reward,
    score_texts,
    split_thinking,
)
from tests.fake_workers import FakeWorkers
from tests.records import make_group, make_problem, make_rollout

LIMIT = 20_000
PROBLEM = make_problem()


def without_answer(reason: Reason) -> Extraction:
    return Extraction(None, reason)


# ---------------------------------------------------------------------------- the answer rule


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is <answer>5</answer>, I am sure.", "5"),
        ("<answer> \n 5 6\n\t</answer>", "5 6"),
        ("<ANSWER>5</Answer>", "5"),
        ("<think>2 + 3</think><answer>5</answer>", "5"),
        ("<answer><b>5</b></answer>", "<b>5</b>"),
        ("<answer>5 < 6 > 4</answer>", "5 < 6 > 4"),
        ("<answer>\u3000é\u2003</answer>", "é"),
        ("<answer><answer\n></answer>", "<answer\n>"),
    ],
)
def test_answer_between_tags_is_extracted(text: str, answer: str) -> None:
    assert extract_answer(text, LIMIT) == Extraction(answer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.NO_TEXT),
        (" \n\u3000", Reason.NO_TEXT),
        ("5</answer>", Reason.NO_ANSWER),
        ("< answer>5</ answer>", Reason.NO_ANSWER),
        ("<answer id='1'>5</answer>", Reason.NO_ANSWER),
        ("<think><answer>5</answer></think>", Reason.NO_ANSWER),
        ("<think>2 + 3 = 5.\n<answer>5</answer>", Reason.UNCLOSED_THINKING),
        ("<think>2 + 3 is", Reason.UNCLOSED_THINKING),
        ("<think>2</think> so <think>5 <answer>5</answer>", Reason.UNCLOSED_THINKING),
        ("<answer>5 <think>2 + 3", Reason.UNCLOSED_ANSWER),
        ("<answer>5", Reason.UNCLOSED_ANSWER),
        ("</answer><answer>5", Reason.UNCLOSED_ANSWER),
        ("<answer>4</answer> no, <ANSWER>5</ANSWER>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer> so <ANSWER> 5 </ANSWER>", Reason.REPEATED_ANSWER),
        ("<answer>5</answer>" * 3, Reason.REPEATED_ANSWER),
        ("<answer>5</answer>" * 3 + "<answer>4</answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer>" * 3 + "<answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer>" * (MAX_TAGS // 2 + 1), Reason.SEVERAL_ANSWERS),
        ("<answer></answer><answer> </answer>", Reason.SEVERAL_ANSWERS),
        ("<answer>5</answer></answer>", Reason.SEVERAL_ANSWERS),
        ("</answer><answer>5</answer>", Reason.SEVERAL_ANSWERS),
        ("<answer> \n\t\u3000</answer>", Reason.EMPTY_ANSWER),
    ],
)
def test_extraction_says_why_a_text_has_no_answer(text: str, reason: Reason) -> None:
    assert extract_answer(text, LIMIT) == without_answer(reason)


def test_answer_tags_with_unicode_lookalikes_are_ignored() -> None:
    for text in ("<an\u017fwer>5</an\u017fwer>", "<answer\u0130>5</answer\u0130>"):
        assert extract_answer(text, LIMIT) == without_answer(Reason.NO_ANSWER)
    assert split_thinking("a</thin\u212a>b", TAGS).text == "a</thin\u212a>b"


# ---------------------------------------------------------------------------- compared with a simple implementation

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "<ANSWER>",
        "</Think>",
        "<",
        ">",
        "/",
        "ans",
        "wer",
        "thi",
        "nk",
        "5",
        " ",
        "\n",
        "é",
        "\ud800",
        "\u212a",
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


ASCII_TAGS = re.ASCII | re.IGNORECASE | re.DOTALL


def _reference_thinking(text: str) -> str:
    """Remove thinking by a simple implementation: first closed blocks, then closing tags, then opening tags."""
    gone = "\0"
    for thinking in ("<think>.*?</think>", ".*</think>", "<think>.*"):
        text = re.sub(thinking, gone, text, flags=ASCII_TAGS)
    return " ".join(filter(None, text.split(gone)))


def _reference_unclosed(text: str) -> bool:
    """Return True if an opening tag remains after all closed blocks are removed."""
    return re.search("<think>", re.sub("<think>.*?</think>", "\0", text, flags=ASCII_TAGS), ASCII_TAGS) is not None


def _reference_extraction(text: str, max_bytes: int) -> Extraction:
    rest = _reference_thinking(text)
    tags = [tag.lower() for tag in re.findall("</?answer>", rest, ASCII_TAGS)]
    if not text.strip():
        return without_answer(Reason.NO_TEXT)
    if "<answer>" not in tags:
        return without_answer(Reason.UNCLOSED_THINKING if _reference_unclosed(text) else Reason.NO_ANSWER)
    contents = [content.strip() for content in re.findall("<answer>(.*?)</answer>", rest, ASCII_TAGS)]
    if len(tags) == 2 * len(contents) > 2 and len(set(contents)) == 1 and contents[0]:
        return without_answer(Reason.REPEATED_ANSWER)
    if tags.count("<answer>") > 1 or len(tags) > 2:
        return without_answer(Reason.SEVERAL_ANSWERS)
    held = re.search("<answer>(.*)</answer>", rest, ASCII_TAGS)
    if held is None:
        return without_answer(Reason.UNCLOSED_ANSWER)
    answer = held[1].strip()
    if not answer:
        return without_answer(Reason.EMPTY_ANSWER)
    if sum(len(character.encode("utf-8", "surrogatepass")) for character in answer) > max_bytes:
        return without_answer(Reason.TOO_LONG)
    return Extraction(answer)


@settings(max_examples=400)
@given(TEXTS, st.integers(1, 10))
@example("<think>a</think>b</think><answer>5</answer>", 10)
@example("<thi<think></think>nk><answer>5</answer>", 10)
@example("<THINK>4</Think><answer>5</answer>", 10)
@example("4</think><answer>5</answer><think>6", 10)
@example("<ans<think></think>wer>5</answer>", 10)
@example("<answer>x\u00e9\u20ac😀\ud800</answer>", 13)
@example("<answer>x\u00e9\u20ac😀\ud800</answer>", 12)
def test_answer_extraction_agrees_with_a_simple_implementation(text: str, max_bytes: int) -> None:
    assert split_thinking(text, TAGS).text == _reference_thinking(text)
    assert extract_answer(text, max_bytes) == _reference_extraction(text, max_bytes)


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<think></think>",
        "<answer>",
        "</answer>",
        "<answer></answer>",
        "<",
        "</",
        " ",
        "<think",
        "<answer><think>",
        "é</think>",
    ],
)
def test_extracting_an_answer_from_a_long_text_takes_linear_time(piece: str) -> None:
    """Quadratic work would exceed the time limit of the tests."""
    text = piece * (1_000_000 // len(piece))
    for hostile in (text, f"<answer>{text}</answer>"):
        assert extract_answer(hostile, LIMIT).answer is None


# ---------------------------------------------------------------------------- scores


def named_score(problem: Problem, answer: str) -> Verdict:
    """Return the score that the answer contains."""
    if answer == "fault":
        raise ScoringError("the worker cannot score")
    return Verdict(float(answer), Reason.SCORED, answer, 0.1)


def answer(score: object) -> str:
    return f"<answer>{score}</answer>"


def rollout(text: str, length: int = 10) -> Rollout:
    return Rollout(text, tokens=(1,) * length, masks=(-100,) * length, logprobs=None, finish_reason="stop")


@pytest.mark.parametrize("padding", [0, LONG_TEXTS], ids=["short text on the loop", "long text in a thread"])
async def test_verdicts_are_returned_in_the_order_of_completions(padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reasoning_env.rewards.MAX_ANSWER_BYTES", 50)
    texts = ["none", answer(0.25), "<answer>open", answer(1.0), "<answer></answer>", answer(0.5) * 2, answer("1" * 99)]
    texts = [f"{'.' * padding}</think>{text}" for text in texts]
    scorer = FakeWorkers(verify=named_score)
    verdicts = await score_texts(scorer, PROBLEM, texts)
    assert scorer.asked == [(PROBLEM, ["0.25", "1.0"])]
    assert [(verdict.score, verdict.reason, verdict.answer) for verdict in verdicts] == [
        (0.0, Reason.NO_ANSWER, None),
        (0.25, Reason.SCORED, "0.25"),
        (0.0, Reason.UNCLOSED_ANSWER, None),
        (1.0, Reason.SCORED, "1.0"),
        (0.0, Reason.EMPTY_ANSWER, None),
        (0.0, Reason.REPEATED_ANSWER, None),
        (0.0, Reason.TOO_LONG, None),
    ]


async def score(*rollouts: Rollout) -> tuple[Rollout, ...]:
    texts = [rollout.text for rollout in rollouts]
    verdicts = await score_texts(FakeWorkers(verify=named_score), PROBLEM, texts)
    return reward(Group(PROBLEM, (), rollouts), verdicts, max_tokens=1000).rollouts


async def test_length_penalty_does_not_change_verdicts() -> None:
    scored = await score(rollout(answer(1.0), 100), rollout(answer(1.0), 875))
    assert [one.score for one in scored] == [1.0, 0.5]
    assert [one.verdict and one.verdict.score for one in scored] == [1.0, 1.0]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2000)), max_size=8))
def test_reward_is_the_product_of_its_parts(rollouts: list[tuple[float, int]]) -> None:
    group = make_group([make_rollout(score, completion_tokens=length) for score, length in rollouts])
    verdicts = [Verdict(score, Reason.SCORED) for score, _ in rollouts]
    rewarded = reward(group, verdicts, max_tokens=1000).rollouts
    assert [prod(rollout.parts.values()) for rollout in rewarded] == pytest.approx([each.score for each in rewarded])


async def test_length_penalty_is_applied_only_if_every_rollout_has_an_answer() -> None:
    scored = await score(rollout(answer(1.0), 1000), rollout("none", 1000))
    assert [(one.text, one.score) for one in scored] == [(answer(1.0), 1.0), ("none", 0.0)]


async def test_scoring_error_of_a_worker_is_raised_to_the_caller() -> None:
    with pytest.raises(ScoringError):
        await score(rollout(answer("fault")))


# ---------------------------------------------------------------------------- the length penalty


@pytest.mark.parametrize(
    ("length", "factor"),
    [(0, 1.0), (750, 1.0), (751, 0.996), (875, 0.5), (999, 0.004), (1000, 0.0), (9999, 0.0)],
)
def test_length_penalty_factor_falls_linearly_to_zero(length: int, factor: float) -> None:
    assert apply_length_penalty([1.0, 0.5], [length, 0], 1000) == pytest.approx((factor, 0.5))


@pytest.mark.parametrize(
    ("scores", "rewards"), [([1.0, 0.499], (1.0, 0.499)), ([0.5, 0.5], (0.0, 0.25)), ([], ()), ([0.5], (0.0,))]
)
def test_length_penalty_is_applied_only_if_every_score_is_at_least_0_5(
    scores: list[float], rewards: tuple[float, ...]
) -> None:
    assert apply_length_penalty(scores, [1000, 875][: len(scores)], 1000) == rewards


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(0, 5000)), max_size=8), st.integers(16, 4000))
def test_length_penalty_never_increases_a_score(rollouts: list[tuple[float, int]], max_tokens: int) -> None:
    scores = [score for score, _ in rollouts]
    rewards = apply_length_penalty(scores, [length for _, length in rollouts], max_tokens)
    assert all(0.0 <= reward <= score for reward, score in zip(rewards, scores, strict=True))


@given(st.floats(0.5, 1.0), st.lists(st.integers(0, 5000), min_size=2), st.integers(16, 4000))
def test_longer_completion_never_gets_a_higher_reward(score: float, lengths: list[int], max_tokens: int) -> None:
    lengths.sort()
    rewards = apply_length_penalty([score] * len(lengths), lengths, max_tokens)
    assert list(rewards) == sorted(rewards, reverse=True)


# ---------------------------------------------------------------------------- the library's own answer rule


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>1</answer><think><answer>2</answer></think>", "2"),
        ("<answer>1</answer> <answer>2", "1"),
        ("<ANSWER>1</ANSWER>", None),
        (f"<answer>{'x' * 21_000}</answer>", None),
        (f"<answer>{'é' * 11_000}</answer>", None),
        ("<answer>" * 200_000, None),
        ("<answer>1</answer>" * 100_000, "1"),
    ],
)
def test_last_of_several_answers_is_extracted(text: str, answer: str | None) -> None:
    assert extract_last_answer(text, LIMIT) == answer


@given(st.lists(st.sampled_from(["<answer>", "</answer>", " ", "1", "x"])).map("".join))
def test_extracted_last_answer_equals_the_last_match_of_the_library_pattern(text: str) -> None:
    found = re.findall(r"<answer>\s?(.*?)\s?</answer>", text, flags=re.DOTALL)
    assert extract_last_answer(text, LIMIT) == (found[-1].strip() if found else None)


def test_length_penalty_counts_prompt_tokens() -> None:
    long_prompt = replace(rollout(answer(1.0), 1000), token_count=5)
    verdicts = [Verdict(1.0, Reason.SCORED)]
    rewarded = reward(Group(PROBLEM, (), (long_prompt,)), verdicts, max_tokens=1000)
    assert rewarded.scores == (0.0,)


@given(st.lists(st.sampled_from(["<", "think>", "</think>", "<answer>", "</answer>", "a", "\n"]), max_size=40))
def test_searching_a_text_in_chunks_finds_all_tags(parts: list[str]) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewards, "WINDOW", 3)
        found = [match.span() for match in rewards.find_all(rewards.ANSWER_TAG, text, rewards.TAG_LENGTH)]
    assert found == [match.span() for match in rewards.ANSWER_TAG.finditer(text)]


def test_completion_stopped_by_a_content_filter_scores_zero() -> None:
    """A content filter may have truncated the completion after its answer."""
    group = make_group([make_rollout(1.0, finish_reason="content_filter"), make_rollout(1.0)])
    right = Verdict(1.0, Reason.SCORED, "2")
    rewarded = reward(group, [right, right], max_tokens=1000)
    assert [(rollout.score, rollout.verdict) for rollout in rewarded.rollouts] == [
        (0.0, Verdict(0.0, Reason.REFUSED)),
        (1.0, right),
    ]
