"""Words and strings: ciphers, letters, anagrams, palindromes, sentences, rewriting rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from ..answers import boards, corrections, guards, types, values
from ..answers.rules import AnswerRules, Dataset, Entry
from .declaration import (
    A_NUMBER,
    A_TEXT,
    BOTH_OPTIONS,
    Clarification,
    FieldLevels,
    Task,
    added,
    copied,
    easy,
    frequent,
    wrong,
)

AB = Task("ab", "algorithmic", has_small_pool=True, answer=AnswerRules(types.sequence("[AB]#|#[AB]", length=2)))

BINARY_ALTERNATION = Task("binary_alternation", "algorithmic", has_small_pool=True, answer=A_NUMBER)


def _has_accents(entry: Entry) -> bool:
    """Return True if the answer has accented letters, and the cipher text writes these letters without accents."""
    return _has_foreign_letter(str(entry["answer"])) and not _has_foreign_letter(entry["metadata"]["cipher_text"])


def _has_foreign_letter(text: str) -> bool:
    return any(letter.isalpha() and not letter.isascii() for letter in text)


CAESAR_CIPHER = Task(
    "caesar_cipher",
    "algorithmic",
    has_small_pool=True,
    question_counts=(8400, 2500, 1800, 1300, 1300, 990),
    levels=(FieldLevels(("min_rotation", "max_rotation"), (5, 15, 25), "the library rejects rotations over 25"),),
    rejected=(wrong("the cipher text has the same letter for an accented and a plain letter", _has_accents),),
    answer=A_TEXT,
)

CRYPTARITHM = Task(
    "cryptarithm",
    "algorithmic",
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("min_words", "max_words"),
            ((2, 2), (2, 3), (3, 5), (5, 8), (8, 14)),
            "five words use nearly all of the ten possible letters; more words only make the sum longer",
        ),
    ),
    answer=AnswerRules(types.letter_values, several_right_answers=True),
)


def _fit_hint_to_emoji(entry: Entry, dataset: Dataset) -> str:
    """Change the Python code in the question, so that it skips the whole emoji, which may have two code points."""
    length = len(entry["metadata"]["emoji"])
    return str(entry["question"]).replace("encoded_sentence[1:]", f"encoded_sentence[{length}:]", 1)


EMOJI_MYSTERY = Task(
    "emoji_mystery",
    "games",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_words_in_sentence", "max_words_in_sentence"),
            ((3, 8), (5, 12), (8, 18), (12, 30), (18, 60)),
            "the library's text has only 14 sentences of 40 to 50 words; each of these levels has over 160 sentences",
        ),
    ),
    clarification=Clarification(
        "the question does not say whether the emoji's second code point belongs to the hidden sentence",
        "encoded_sentence[{2}:]",
        _fit_hint_to_emoji,
    ),
    scores_without_params=True,
    answer=AnswerRules(types.text(case_counts=True), ends_in_full_stop=True),
)

FIGLET_FONT = Task(
    "figlet_font",
    "cognition",
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("min_word_len", "max_word_len"),
            ((3, 5), (4, 8), (6, 11), (9, 14)),
            "the library has only 22 words of 20 or more letters",
        ),
    ),
    scores_without_params=True,
    answer=AnswerRules(types.text(blanks_count=False), correction=corrections.correct_length),
)


def _simple_grouping_is_right(entry: Entry) -> bool:
    """Return True if one of the results of `groupings` is a right answer."""
    right = {frozenset(group) for group in entry["metadata"]["solution"]}
    return any({frozenset(group) for group in grouping} == right for grouping in groupings(entry["metadata"]["words"]))


def groupings(words: Sequence[str]) -> list[list[list[str]]]:
    """Group neighbouring words in six ways: by length, by first letter, and in groups of 2, 3, 4 and 5 words."""
    by_length = [list(group) for _, group in groupby(words, len)]
    by_letter = [list(group) for _, group in groupby(words, itemgetter(0))]
    by_size = [[list(words[at : at + size]) for at in range(0, len(words), size)] for size in (2, 3, 4, 5)]
    return [by_length, by_letter, *by_size]


GROUP_ANAGRAMS = Task(
    "group_anagrams",
    "algorithmic",
    levels=(
        FieldLevels(
            ("min_words_per_group", "max_words_per_group"),
            ((2, 5), (3, 7), (5, 10)),
            "the question lists the words group by group, so groups of equal size can be found by counting",
        ),
    ),
    constructor_params=(),
    rejected=(
        easy(
            "a simple grouping is right: by length, by first letter, or in groups of equal size",
            _simple_grouping_is_right,
            served=0.35,
        ),
    ),
    answer=AnswerRules(values.value, several_right_answers=True),
)


ISOMORPHIC_STRINGS = Task(
    "isomorphic_strings",
    "algorithmic",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_string_length", "max_string_length"),
            ((2, 10), (10, 50), (50, 100), (100, 1000)),
            "the library adds a letter if strings are not isomorphic; with a fixed length, this reveals the answer",
        ),
    ),
    options=2,
    verifier_flaw=BOTH_OPTIONS,
    answer=A_TEXT,
)

CAPITALS = "Count capital and small letters alike."


def _count_capitals(entry: Entry, dataset: Dataset) -> str:
    question = str(entry["question"])
    is_known = question.startswith("How many times ") and question.endswith('"?')
    return f"{question} {CAPITALS}" if is_known else question


LETTER_COUNTING = Task(
    "letter_counting",
    "algorithmic",
    has_small_pool=True,
    constructor_params=(),
    rejected=(frequent("1", served=0.6),),
    clarification=Clarification(
        "the question does not say whether to count capital and small letters together", CAPITALS, _count_capitals
    ),
    scores_without_params=True,
    answer=A_NUMBER,
)

FITTING_WORD = (
    "The words follow one another in an English text: where letters make several words, take the word of that text."
)


def _name_source_of_words(entry: Entry, dataset: Dataset) -> str:
    """Say in the question that the words follow one another in an English text, unless their order is random."""
    question = str(entry["question"])
    config = dataset.config
    if not config.consecutive_words:
        return question
    says = FITTING_WORD
    if config.min_word_len > 1 or config.max_word_len < 17:  # the library's text has words of up to 17 letters
        says += f" Only words of {config.min_word_len} to {config.max_word_len} letters are taken."
    return question.replace("\n\nNow, unscramble", f"\n\n{says}\n\nNow, unscramble", 1)


LETTER_JUMBLE = Task(
    "letter_jumble",
    "algorithmic",
    levels=(
        FieldLevels(
            ("min_word_len", "max_word_len"),
            ((3, 5), (3, 8), (5, 12), (7, 64)),
            "a word of two letters can only be reversed; the library's text has too few long words",
        ),
    ),
    clarification=Clarification(
        "the question does not say which word is right, if several words have the same letters",
        f"{FITTING_WORD} Only words of {{3}} to {{5}} letters are taken.",
        _name_source_of_words,
    ),
    scores_without_params=True,
    answer=AnswerRules(types.text(), correction=corrections.correct_length),
)

PALINDROME_GENERATION = Task(
    "palindrome_generation",
    "algorithmic",
    has_small_pool=True,
    answer=AnswerRules(types.text(), several_right_answers=True),
)

PALINDROME_PARTITIONING = Task(
    "palindrome_partitioning",
    "algorithmic",
    question_counts=(None, None, None),
    answer=AnswerRules(values.partitions, several_right_answers=True),
)


RANSOM_NOTE = Task("ransom_note", "algorithmic", options=2, verifier_flaw=BOTH_OPTIONS, answer=A_TEXT)


def _repeats_word(entry: Entry) -> bool:
    words = str(entry["answer"]).split()
    return len(set(words)) < len(words)


CUT_SENTENCE = re.compile(r"[a-z].*|.*\b(?:Mr|Mrs|Dr|www)\.", re.DOTALL)
"""Matches a part of a sentence that the library cut at the full stop of an abbreviation or a web address."""


def _cannot_be_ordered(entry: Entry) -> bool:
    """Return True if the word order is unclear: a punctuation mark stands alone, or the sentence is truncated."""
    sentence = str(entry["answer"])
    alone = any(not re.search(r"\w", piece) for piece in sentence.split())
    return alone or CUT_SENTENCE.fullmatch(sentence) is not None


SENTENCE_REORDERING = Task(
    "sentence_reordering",
    "algorithmic",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_words_in_sentence", "max_words_in_sentence"),
            ((5, 12), (8, 16), (10, 20), (10, 24)),
            "nearly every sentence of more than 24 words repeats a word",
        ),
    ),
    rejected=(
        wrong("the expected answer wrongly puts the copies of a repeated word side by side", _repeats_word),
        wrong("a lone punctuation mark or an incomplete sentence makes the word order unclear", _cannot_be_ordered),
    ),
    scores_without_params=True,
    answer=AnswerRules(types.text(case_counts=True), ends_in_full_stop=True),
)

SPELL_BACKWARD = Task(
    "spell_backward",
    "algorithmic",
    has_small_pool=True,
    question_counts=(None, 1500, None, None, None, None),
    scores_without_params=True,
    answer=AnswerRules(
        types.text(may_be_spelled=True), correction=corrections.correct_length, result_names=("{word}",)
    ),
)

STRING_INSERTION = Task(
    "string_insertion",
    "algorithmic",
    has_small_pool=True,
    levels=(
        FieldLevels(
            ("min_string_length", "max_string_length"),
            ((30, 70), (50, 100), (100, 200), (200, 500)),
            "94 % of strings of 5 to 20 letters need no insertion",
        ),
    ),
    # With the library's lengths (5 to 20 letters), 94 % of the strings need no insertion. With these lengths, 74 %.
    served_params={"min_string_length": 30, "max_string_length": 70},
    rejected=(copied(served=0.16),),
    answer=AnswerRules(
        types.text(case_counts=True), guard=guards.score_equal, library_score=guards.score_without_running
    ),
)

STRING_MANIPULATION = Task("string_manipulation", "algorithmic", answer=AnswerRules(types.text(case_counts=True)))

ONE_CONVERSION = "Each single conversion counts as one application of a rule."


def _stops_at_rule_limit(entry: Entry) -> bool:
    """Return True if the library stopped too early: its rule limit counts each conversion of machines or parts.

    Return False for a clarified question, which says that each conversion counts towards the limit.
    """
    question = str(entry["question"])
    limit = re.search(r"at most (\d+) times", question)
    if limit is None or ONE_CONVERSION in question:
        return False
    return len(entry["metadata"]["states"]) > int(limit[1])


STRING_SPLITTING = Task(
    "string_splitting",
    "algorithmic",
    has_small_pool=True,
    question_counts=(210, 1500, None, None, None, None),
    levels=(
        FieldLevels(
            ("min_initial_machines", "max_initial_machines"),
            ((0, 10), (10, 50), (50, 100), (100, 280)),
            "with 285 or more machines of each kind, the limit of 1000 rule applications can be too low",
        ),
    ),
    rejected=(
        wrong("if one use of a rule makes all possible conversions, the library stops too early", _stops_at_rule_limit),
    ),
    clarification=added(
        "the question does not say whether an application of a rule is one conversion or all possible conversions",
        ONE_CONVERSION,
        after="restart the process from rule 1.",
    ),
    answer=AnswerRules(boards.counts("ABCXYZ")),
)

STRING_SYNTHESIS = Task(
    "string_synthesis",
    "algorithmic",
    has_small_pool=True,
    question_counts=(220, 1400, None, None, None, None),
    clarification=added(
        "the question does not say which rule to try after a rule was applied",
        "After each application of a rule, start again from rule 1.",
        after="(counts of each block type) is repeated.",
    ),
    answer=AnswerRules(boards.counts([f"{left}{name}{right}" for left, right in ("[]", "{}", "()") for name in "ABC"])),
)


def ladders(start: str, end: str) -> list[str]:
    """Return two ladders that replace one letter a step: from left to right, and from right to left."""
    lengths = range(len(end) + 1)
    from_left = [end[:length] + start[length:] for length in lengths]
    from_right = [start[:length] + end[length:] for length in reversed(lengths)]
    return [",".join(word for word, _ in groupby(steps)) for steps in (from_left, from_right)]


WORD_LADDER = Task(
    "word_ladder",
    "algorithmic",
    has_small_pool=True,
    constructor_params=("min_word_length", "max_word_length"),
    levels=(
        FieldLevels(
            ("min_word_length", "max_word_length"),
            ((3, 4), (4, 4), (4, 4), (4, 5), (5, 5)),
            "the library's config accepts only words of 3 to 5 letters",
        ),
        FieldLevels(
            ("min_chain_length", "max_chain_length"),
            ((4, 5), (4, 5), (5, 6), (6, 8), (8, 11)),
            "replacing letters from the left or from the right solves most short ladders",
        ),
    ),
    answer=AnswerRules(
        types.sequence("[A-Za-z]+", joint=types.JOINT, write=",", spell=str.upper),
        several_right_answers=True,
        correction=corrections.correct_word_ladder,
        guesses=lambda metadata: ladders(metadata["start_word"], metadata["end_word"]),
    ),
)

WORD_SEQUENCE_REVERSAL = Task(
    "word_sequence_reversal",
    "algorithmic",
    constructor_params=(),
    scores_without_params=True,
    answer=AnswerRules(types.sequence(types.WORD, joint=types.JOINT, write=", ", case_counts=False)),
)

WORD_SORTING = Task(
    "word_sorting",
    "algorithmic",
    scores_without_params=True,
    answer=AnswerRules(
        types.sequence(types.WORD, joint=types.JOINT, write=", "), correction=corrections.correct_length
    ),
)
