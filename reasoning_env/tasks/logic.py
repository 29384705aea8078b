"""Logic and induction: circuits, true and false claims, propositions, syllogisms, and rules to infer from examples."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ..answers import corrections, expressions, guards, notations, types
from ..answers.grammars.logic import are_contradictory, concludes, simple_conclusion
from ..answers.rules import AnswerRules, Dataset, Entry
from .declaration import A_NUMBER, A_TEXT, BOTH_OPTIONS, Corrected, FieldLevels, Replacement, Task, added, easy, wrong

ACRE = Task("acre", "induction", question_counts=(None,), constructor_uses_seed=True, options=3, answer=A_TEXT)


def _ends_without_xor(entry: Entry) -> bool:
    return str(entry["metadata"]["final_gate"]) != "XOR"


CIRCUIT_LOGIC = Task(
    "circuit_logic",
    "logic",
    levels=(
        FieldLevels(
            ("min_terms", "max_terms"),
            ((2, 3), (2, 4), (3, 4), (3, 5), (4, 6)),
            "with more than 6 terms, only circuits that end in XOR have the outputs 0 and 1 equally often",
        ),
        FieldLevels(
            ("min_inputs", "max_inputs"), ((2, 3), (2, 4), (3, 4), (3, 5), (4, 6)), "an AND of many inputs is rarely 1"
        ),
    ),
    rejected=(easy("the final gate has the same output for nearly all inputs", _ends_without_xor, served=0.14),),
    options=2,
    answer=A_NUMBER,
)

EVERY_STEP = "from its easiest level to the next, the library raises all three parameters at once"


def _solved_by_conjunctions(entry: Entry) -> bool:
    """Return True if two people have the same role, and the number of claims with `and` suggests this.

    Two such claims suggest equal roles. If there are none, both people are probably knights.
    """
    people = entry["metadata"]["solution"]
    if len(people) != 2 or len(set(people)) == 2:
        return False
    joined = sum(
        statement[0] in ("and", "<=>") for statement in entry["metadata"]["statements"]
    )  # the question also writes `<=>` with the word `and`
    return joined == 2 or (joined == 0 and all(people))


def same_roles(metadata: Mapping[str, Any]) -> list[str]:
    """Return four guesses: all are knights, all are knaves, or the two roles alternate, starting with either role."""
    knight = str(metadata["knight_knave_terms"]["a_knight"])
    knave = str(metadata["knight_knave_terms"]["a_knave"])
    in_turn = ((knight, knight), (knave, knave), (knight, knave), (knave, knight))
    return [", ".join(f"{name} is {roles[n % 2]}" for n, name in enumerate(metadata["names"])) for roles in in_turn]


KNIGHTS_KNAVES = Task(
    "knights_knaves",
    "logic",
    levels=(
        FieldLevels(("n_people",), (2, 3, 4, 5, 6), EVERY_STEP),
        FieldLevels(("depth_constraint",), (2, 2, 3, 3, 3), EVERY_STEP),
        FieldLevels(("width_constraint",), (2, 2, 2, 3, 3), EVERY_STEP),
    ),
    rejected=(
        easy(
            "the word `and` in both claims, or in neither, rightly suggests that both people have the same role",
            _solved_by_conjunctions,
            served=0.5,
        ),
    ),
    options=4,
    option=lambda entry: " ".join(map(str, entry["metadata"]["solution"])).casefold(),
    answer=AnswerRules(types.claims, guesses=same_roles, ends_in_full_stop=True),
)


def _counts_unseen(entry: Entry) -> bool:
    """Return True if all outputs of the examples are 0 or 1, and the right answer is a larger number.

    Several rules then fit the examples, such as "count the fives" and "is there a five?".
    """
    shown = set(re.findall(r"(?m)^Output \d+: (.*)$", str(entry["question"])))
    return bool(shown) and shown <= {"[0]", "[1]"} and str(entry["answer"]) not in ("[0]", "[1]")


INPUT_LIST = re.compile(r"(?m)^Input(?P<example> \d+)?: (?P<items>\[.*\])$")


def _repeats_unseen(entry: Entry) -> bool:
    """Return True if the test input repeats a number and no example's input does.

    Several rules then fit the examples, such as sorting with and without duplicates.
    """
    repeating = {"example": False, "test": False}
    for match in INPUT_LIST.finditer(str(entry["question"])):
        items = re.findall(r"[^\s,\[\]]+", match["items"])
        repeating["example" if match["example"] else "test"] |= len(set(items)) < len(items)
    return repeating["test"] and not repeating["example"]


LIST_FUNCTIONS = Task(
    "list_functions",
    "induction",
    question_counts=(None,),
    constructor_uses_seed=True,
    rejected=(
        wrong("all example outputs are 0 or 1, but the answer is a larger number", _counts_unseen),
        wrong("the test input repeats a number, but no example input does", _repeats_unseen),
    ),
    answer=AnswerRules(notations.numbers),
)

CONCLUDES = (
    "few or simple premises give no conclusion that needs several premises; large sets of premises are "
    "contradictory; a problem with 10 variables takes 0.2 s to generate"
)


def _is_contradictory(entry: Entry) -> bool:
    return are_contradictory(entry["metadata"]["premises"])


def _conclude_from_several(entry: Entry, dataset: Dataset) -> Corrected:
    """Return a conclusion that needs several premises, as the question demands.

    The library's conclusion may follow from a single premise.
    """
    metadata = entry["metadata"]
    if concludes(metadata["example_answer"], metadata["premises"]):
        return None, {}
    conclusion = simple_conclusion(metadata["premises"], metadata["variables"])
    return None, {} if conclusion is None else {"example_answer": conclusion}


def _concludes_nothing(entry: Entry) -> bool:
    """Return True if neither the library nor `simple_conclusion` finds a conclusion that needs several premises."""
    metadata = entry["metadata"]
    if concludes(metadata["example_answer"], metadata["premises"]):
        return False
    return simple_conclusion(metadata["premises"], metadata["variables"]) is None


PROPOSITIONAL_LOGIC = Task(
    "propositional_logic",
    "logic",
    has_small_pool=True,
    # With these parameters, half of the problems have a conclusion that needs several premises; by default, a fifth.
    served_params={
        "min_vars": 3,
        "max_vars": 5,
        "min_statements": 3,
        "max_statements": 4,
        "min_complexity": 2,
        "max_complexity": 3,
    },
    levels=(
        FieldLevels(("min_vars", "max_vars"), ((3, 4), (4, 5), (5, 6), (6, 7)), CONCLUDES),
        FieldLevels(("min_statements", "max_statements"), ((3, 4), (3, 5), (5, 6), (6, 7)), CONCLUDES),
        FieldLevels(("min_complexity", "max_complexity"), ((2, 2), (2, 3), (2, 3), (3, 3)), CONCLUDES),
    ),
    rejected=(
        wrong("the premises contradict each other, so every statement follows from them", _is_contradictory),
        wrong("no conclusion was found that needs several premises", _concludes_nothing),
    ),
    right_answer=_conclude_from_several,
    clarification=added(
        "the question does not say whether a premise, or several premises joined by `and`, count as a conclusion",
        "The conclusion must need several premises together: it does not count if single premises decide it part by "
        "part.",
        after="conclusion from the premise.",
    ),
    verifier_flaw="the library's verifier accepts a copy of a premise as a conclusion",
    answer=AnswerRules(
        expressions.formula,
        several_right_answers=True,
        guard=guards.score_propositional_logic,
        correction=corrections.correct_propositional_logic,
    ),
)

SELF_REFERENCE = Task(
    "self_reference",
    "logic",
    has_small_pool=True,
    question_counts=(2000,),
    levels=None,  # the generator makes the same problems at all ten difficulties
    answer=A_NUMBER,
)

FEW_QUANTIFIERS = "with fewer than four kinds of statements, the quantifier of a single statement reveals most answers"


STATEMENT = re.compile(r"(?P<quantifier>All|No|Some) (?P<subject>.+) are (?P<negation>not )?(?P<predicate>.+)")


def follows_from_classes(premises: Iterable[str], conclusion: str, *, may_be_empty: bool) -> bool:
    """Return True if premises about classes imply a conclusion. With `may_be_empty`, a class may have no members.

    Raises ValueError unless each statement is "All A are B", "No A are B", "Some A are B" or "Some A are not B".
    """
    texts = [*premises, conclusion]
    found = [match for match in map(STATEMENT.fullmatch, texts) if match]
    if len(found) < len(texts):
        raise ValueError(f"statements must be 'All A are B', 'No A are B' or 'Some A are (not) B'; got {texts!r}")
    classes = sorted({match[part] for match in found for part in ("subject", "predicate")})
    # Objects of one kind are in the same classes: a kind has a flag for each class. To find a counterexample, try all
    # worlds. A world is a bit mask of the kinds that have objects.
    kinds = list(itertools.product((False, True), repeat=len(classes)))

    def having(condition: Callable[[Sequence[bool]], bool]) -> int:
        """Return a bit mask of the kinds of objects for which `condition` returns True."""
        return sum(1 << number for number, kind in enumerate(kinds) if condition(kind))

    def read(match: re.Match[str]) -> tuple[int, bool]:
        """Return a bit mask of kinds, and a bool: one of these kinds has objects (True), or none has (False)."""
        subject, predicate = classes.index(match["subject"]), classes.index(match["predicate"])
        inside = not match["negation"] and match["quantifier"] != "All"
        members = having(lambda kind: kind[subject] and kind[predicate] == inside)
        return members, match["quantifier"] == "Some"

    statements = [read(match) for match in found]
    filled = [having(itemgetter(place)) for place in range(len(classes))]
    for world in range(1 << len(kinds)):
        if not may_be_empty and not all(world & members for members in filled):
            continue
        *given, concluded = [bool(world & members) is some for members, some in statements]
        if all(given) and not concluded:
            return False
    return True


def _needs_members(entry: Entry) -> bool:
    """Return True if the library's answer is wrong, or depends on whether a class of the syllogism is empty."""
    metadata = entry["metadata"]
    premises = metadata["premise1"], metadata["premise2"]
    follows = {follows_from_classes(premises, metadata["conclusion"], may_be_empty=empty) for empty in (False, True)}
    return follows != {entry["answer"] == "Yes"}


SYLLOGISM = Task(
    "syllogism",
    "logic",
    has_small_pool=True,
    levels=(
        FieldLevels(("allow_no",), (True,), FEW_QUANTIFIERS),
        FieldLevels(("allow_some",), (True,), FEW_QUANTIFIERS),
        FieldLevels(("allow_some_not",), (True,), FEW_QUANTIFIERS),
        FieldLevels(("inversion_probability",), (0.5, 0.3, 0.1), "inverting premises is easier than combining them"),
    ),
    rejected=(wrong("the library's answer is wrong, or depends on whether a class is empty", _needs_members),),
    options=2,
    answer_leak="the quantifiers in the first premise and in the conclusion reveal two thirds of the answers",
    verifier_flaw=BOTH_OPTIONS,
    answer=A_TEXT,
)

ZEBRA_PUZZLES = Task(
    "zebra_puzzles",
    "logic",
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("num_people",),
            (4, 4, 4, 5, 5),
            "with fewer than 4 people, a guess is often right; a puzzle with 6 people takes 3 s to generate",
        ),
        FieldLevels(("num_characteristics",), (2, 3, 4, 4, 5), "a puzzle with 6 characteristics takes 3 s to generate"),
    ),
    faster=Replacement("logic.contrib.logic_puzzle", "ba1a7c8a8e587cc4", "zebra_puzzles.install"),
    options=4,
    answer=A_TEXT,
)
