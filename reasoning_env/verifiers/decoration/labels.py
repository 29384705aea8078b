"""Take off a name before an answer: a variable, a label such as `Answer`, an object with a single key."""

from __future__ import annotations

import re

from .quotes import is_literal, without_quotes_around_json

LABEL_NAME = re.compile(
    r"(?P<variable>[A-Za-z](?:_\d{1,2}|\([A-Za-z]\))?)\s?:?=(?!=)|(?P<word>[A-Za-z]\w{0,20})\s?=(?!=)", re.ASCII
)
LIST_START = re.compile(r"[\[({\\$]|(?:np\.|numpy\.)?(?:array|matrix)\(")
NUMBER_START = re.compile(r"[-+.\d]")
LOGIC = re.compile(
    r"[\u00ac\u2227\u2228\u2192\u2194]|\\(?:l?neg|lnot|land|lor|wedge|vee|to|iff|rightarrow|leftrightarrow)"
)
PARTS_OF_NAMES = frozenset(
    {"answer", "answers", "ans", "result", "results", "res", "output", "out", "solution", "solutions", "sol"}
    | {"value", "val", "final", "correct", "expected", "new"}
    | {"sorted", "reversed", "rotated", "filtered", "flipped", "solved", "filled"}
    | {"total", "sum", "count", "number", "numbers", "num", "nums", "integer", "digits", "probability", "prob", "area"}
    | {"list", "lst", "arr", "array", "matrix", "mat", "grid", "board", "state", "puzzle", "row", "rows", "vector"}
    | {"sequence", "seq", "words", "string", "text", "path", "moves", "plan", "route", "steps", "pairs", "groups"}
    | {"coloring", "colouring", "colors", "colours", "assignment", "mapping", "partition", "partitions", "graph"}
)
"""Words of names that say nothing about a value but that it is the answer: `final_grid`, `total`.

Other words may deny or change the value, as in `mistake = 4`, `twice = 4` and `max = 4`.
"""


def without_name(text: str) -> str | None:
    """Return the value of a variable or a function: a list or a number, or of `x` and `F(x)` also an expression.

    `x`, `y` and `z` may also have a word or a formula of logic as their value. None for names of other words than
    PARTS_OF_NAMES; for a formula of logic, whose equals sign is an operator; and where several variables have values.
    """
    match = LABEL_NAME.match(text)
    if match is None:
        return None
    value = text[match.end() :].strip()
    word = match["word"]
    if word and (
        not PARTS_OF_NAMES.issuperset(word.casefold().split("_"))
        or not (LIST_START.match(value) or (word.islower() and NUMBER_START.match(value)))
    ):
        return None
    if "=" in value and value[0] not in "[{":
        return None
    value = re.sub(r"^-\s+", "-", value)  # a sign, and no mark of a list
    if match["variable"] in ("x", "y", "z"):
        return value
    if value.isidentifier() or ("\n" not in value and LOGIC.search(value)):
        return None
    return value


LABEL = (
    r"(?i:(?:final|correct)?[ _]?(?:answers?|result|output|solutions?|response)|ans"
    r"|(?:final|output|resulting|sorted|reversed|filtered|new|solved|completed|shortest)[ _]"
    r"(?:grid|matrix|board|state|string|list|sequence|words|value|path)"
    r"|(?:die )?antwort(?: ist)?|l\u00f6sung|(?:la )?r\u00e9ponse(?: finale)?(?: est)?"
    r"|(?:la )?respuesta(?: final)?(?: es)?|resultado|resposta|risposta|\u043e\u0442\u0432\u0435\u0442"
    r"|(?:\u6700\u7ec8)?\u7b54\u6848\u662f?|\u7b54\u3048|\u56de\u7b54|\ub2f5|\uc815\ub2f5)"
)
"""A name that can only mean the answer, in several languages: `Answer`, `Final state`, `Respuesta`."""
KIND = (
    r"(?i:total|grid|matrix|board|state|string|list|sequence|words|moves|directions|path|value|roots|integral|expression"
    r"|duration|sorted|reversed|count|number|sum|probability|conclusion|name|colou?r|weekday"
    r"|decrypted(?: text)?|plaintext|(?:ascending|descending) order|solved [a-z]{4,12})"
)
"""A name for a kind of answer. It is a label before a colon alone: before an arrow it may be a word of the answer."""
LABEL_START = rf"(?s)(?:#{{1,6}}[^\S\n]+)?(?P<mark>\*{{0,3}}|_{{1,2}})(?i:(?:the|my) )?{LABEL}"
LABELLED = tuple(
    re.compile(pattern)
    for pattern in (
        LABEL_START + r"(?P=mark)[^\S\n]*(?:[:\uff1a]=?|=(?![=>])|(?=\n))(?P<inner>.*)",
        LABEL_START + r"[^\S\n]*[:\uff1a][^\S\n]*(?P=mark)(?P<inner>.*)",
        LABEL_START + r"(?: is|(?P=mark) is|(?P=mark) is(?P=mark))[:\uff1a](?P=mark)?(?P<inner>.*)",
        LABEL_START + r"(?P=mark)[^\S\n]*(?:\u2014|[-=]>|[\u2192\u27f6\u21d2\u279c\u27a1])(?P<inner>.*)",
        LABEL_START + r"(?P=mark) [-\u2013] (?P<inner>[A-Za-z]{2}.*)",
        rf"(?s)(?P<mark>\*{{0,3}})(?i:the )?{KIND}(?:(?P=mark):|:(?P=mark))(?P<inner>.*)",
        r"(?s)[Aa]ns\.[^\S\n]+(?P<inner>.*)",
    )
)
"""A label before the answer: `Answer: 5`, `The answer is: 5`, `Answer \u2192 5`, `Answer - yes`, `Path: up`, `Ans. 5`.

`The answer is 5` is a sentence, and no label. A number after a hyphen could be negative.
"""
LABELLED_OBJECT = re.compile(rf"(?s)\{{\s*(?P<quote>[\"']?){LABEL}(?P=quote)\s*:\s*(?P<inner>\S.*)\}}")


def without_label(text: str) -> str | None:
    """Return the text after a label, whose first line keeps its blanks where several lines follow the label."""
    match = next(filter(None, (pattern.fullmatch(text) for pattern in LABELLED)), None)
    if match is None:
        return None
    inner = match["inner"]
    return inner.strip("\n") if inner.startswith("\n") and "\n" in inner.strip() else inner.strip()


def without_object(text: str) -> str | None:
    """Return the only value of an object: `"a"` of `{"answer": "a"}`; None for an object with several keys."""
    match = LABELLED_OBJECT.fullmatch(text)
    if match is None:
        return None
    inner = match["inner"].rstrip().removesuffix(",").rstrip()
    is_value = TEXT_ON_LINES.fullmatch(inner) or is_literal(inner) or without_quotes_around_json(inner) is not None
    return inner if is_value else None


TEXT_ON_LINES = re.compile(r"\"[^\"\\]*\"|'[^'\\]*'")
"""A text in quotes with newlines as they are, which JSON would write as escapes."""
