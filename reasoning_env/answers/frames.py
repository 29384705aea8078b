"""Remove frames from an answer. A frame is formatting around the whole answer: bold, code fences, `Answer:`.

FRAMES lists the frames of all tasks. A task also declares names of its result, such as `GCD` in `GCD: 4`. A pattern
must match the whole string, so words beside an answer are never removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .literals import as_json, is_balanced

Extract = Callable[[re.Match[str]], str | None]
"""Returns the string inside the matched formatting; None if the matched marks are a part of the answer."""
MAX_FRAMES = 8
"""Limit for the number of removed frames. `Answer: $**\"5\"**$` has four: a label, mathematics, emphasis and quotes."""
REPLACED_SIGNS = "signs"
"""Added to a verdict's `frames` if `without_markup` changed the answer."""
MATHEMATICAL_NOTATION = "notation"
"""Added to a verdict's `frames` if mathematical notation was converted to Python's notation."""


def normalize_whitespace(answer: str) -> str:
    """Remove spaces at the ends of lines, and shorten long runs of whitespace."""
    text = LONG_WHITESPACE.sub(lambda match: "\n" if "\n" in match[0] else " ", answer.replace("\r\n", "\n"))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def outermost_frame(
    text: str, names: tuple[str, ...], numbers: Sequence[object], *, ends_in_full_stop: bool
) -> tuple[str, str] | None:
    """Return the name of the outermost frame and the string inside the frame; None if `text` has no frame.

    A name from `names` can begin a frame: `gcd = ` in `gcd = 4`. Numbers after the name must equal `numbers`, as in
    `gcd(8, 12) = 4`. A full stop at the end is a frame. If `ends_in_full_stop` is True, this holds only for a full
    stop after a mark such as `*`.
    """
    if UNFRAMED.fullmatch(text):
        return None
    for frame in FRAMES:
        if frame.name == FULL_STOP and ends_in_full_stop and not AFTER_MARK.search(text):
            continue
        for pattern in frame.patterns:
            match = pattern.fullmatch(text)
            inner = None if match is None else frame.extract(match)
            if inner is not None and inner.strip() and inner.strip() != text:
                return frame.name, inner.strip()
    match = _result_name_pattern(names).fullmatch(text) if names else None
    if match is not None and _numbers_agree(match["numbers"], numbers):
        return RESULT_NAME, match["inner"].strip()
    return None


def _numbers_agree(shown: str | None, numbers: Sequence[object]) -> bool:
    """Return True if `shown` is None, or lists the problem's numbers in any order, as `(8, 12)` in `gcd(8, 12) = 4`."""
    return shown is None or sorted(re.findall(r"\d+", shown)) == sorted(map(str, numbers))


def _inner(match: re.Match[str]) -> str | None:
    return match["inner"]


def _inner_of_parentheses(match: re.Match[str]) -> str | None:
    return match["inner"] if is_balanced(match["inner"]) else None


def _inner_of_quotes(match: re.Match[str]) -> str | None:
    """Return a quotation without its quotes, and with resolved escapes; None for two quotations: `"a" or "b"`."""
    inner = match["inner"]
    closing = CLOSING_QUOTES[match["open"]]
    if match[0][-len(closing) :] != closing:
        return None
    inner = inner[: len(inner) - len(closing) + 1].strip()
    if match["open"] in "\"'" and inner[:1] in ("[", "{") and as_json(inner) is not None:
        return inner
    if "\\" in inner and ESCAPED.fullmatch(inner):
        value = json.loads(f'"{inner}"')
        return str(value)
    return None if match["open"] in inner or closing in inner else inner


ESCAPED = re.compile(r"(?:[^\"\\\n]|\\n(?![a-z])|\\u[0-9A-Fa-f]{4}|\\\")*")
r"""Pattern of the inside of a JSON string, except strings with a LaTeX command, as in `"\neg P"`."""
CLOSING_QUOTES: Mapping[str, str] = {
    '"""': '"""',
    "'''": "'''",
    '"': '"',
    "'": "'",
    "``": "''",
    "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}",
    "\N{DOUBLE LOW-9 QUOTATION MARK}": "\N{LEFT DOUBLE QUOTATION MARK}",
    "\N{LEFT CORNER BRACKET}": "\N{RIGHT CORNER BRACKET}",
    "\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}": "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}",
}
"""The closing quote for each opening quote."""

LONG_WHITESPACE = re.compile(r"\s{60,}")
"""A long run of whitespace. It is shortened, because patterns take quadratic time on it."""
AFTER_MARK = re.compile(r"[}*$`\"'\])>]\.$")
FULL_STOP = "full_stop"
RESULT_NAME = "name"
NOT_RUN = "code_not_run"
"""Added to a verdict's `frames` if the answer has code that the library would run, but this project does not."""
LANGUAGES = (
    "text|txt|plain|plaintext|raw|ascii|code|output|answer|result|console|bash|sh|shell|python3?|py|json|csv|xml|html"
    "|yaml|latex|tex|math|markdown|md|matlab|julia|javascript|js|java|c|cpp|rust|go|sql|bf|brainfuck|grid|matrix"
)
"""Language names that may follow the opening of a code fence. Any other word there may be part of the answer."""
LABELS: Mapping[str, str] = {
    "English": (
        "(?:(?:so|thus|hence|therefore),? )?(?:the |my )?(?:final |correct )?(?:answer|result|solution|output)s?"
    ),
    "German": "(?:die |das )?(?:endg\u00fcltige |richtige )?(?:antwort|ergebnis|l\u00f6sung)",
    "French": "(?:la |le )?(?:r\u00e9ponse|r\u00e9sultat|solution)(?: finale?)?",
    "Spanish": "(?:la |el )?(?:respuesta|resultado|soluci\u00f3n)(?: final)?",
    "Portuguese": "(?:a |o )?(?:resposta|resultado|solu\u00e7\u00e3o)(?: final)?",
    "Italian": "(?:la |il )?(?:risposta|risultato|soluzione)(?: finale)?",
    "Russian": "\u043e\u0442\u0432\u0435\u0442|\u0440\u0435\u0437\u0443\u043b\u044c\u0442\u0430\u0442",
    "Chinese": "\u6700\u7ec8\u7b54\u6848|\u7b54\u6848|\u7ed3\u679c",
    "Japanese": "\u7b54\u3048|\u56de\u7b54",
    "Korean": "\uc815\ub2f5|\ub2f5",
}
"""Pattern of the labels before an answer, by language, without the colon."""
ASCII_VERBS = "is|are|was|ist|lautet|est|es"
VERBS = f"(?:{ASCII_VERBS}|\u00e9|\u00e8)(?![^\\W\\d_]|['\u2019])|\u662f|\u4e3a|\u306f|\uc740|\ub294"
"""Pattern of the verbs between a label and the answer, as in `The answer is 5`."""
UNFRAMED = re.compile(rf"(?!.{{0,200}} (?:{ASCII_VERBS}) )[A-Za-z0-9 ]*")
"""Pattern of strings that surely have no frame (formatting). Checked first, because most answers are such strings."""
RESULT_ARGUMENTS = (
    r"[^\S\n]?\([^\S\n]*\d+(?:,[^\S\n]*\d+)*[^\S\n]*\)"
    r"|[^\S\n](?:of|for)[^\S\n](?:the[^\S\n](?:two[^\S\n])?numbers[^\S\n])?\d+(?:(?:,[^\S\n]*(?:and[^\S\n])?|[^\S\n]and[^\S\n])\d+)*"
)
"""Pattern of the numbers after a result's name: after `gcd` in `gcd(8, 12)`, after `LCM` in `LCM of 8, 9 and 12`."""


def _label_pattern(label: str, numbers: str = "(?!)") -> str:
    """Return the pattern of an answer after a label, as in `**Answer:** 5`. `label` is the pattern of the label."""
    return (
        rf"(?s)(?:#{{1,6}}[^\S\n]+)?(?P<mark>\*{{1,3}}|_{{1,2}})?(?i:{label})"
        rf"(?:(?P<numbers>{numbers})|[^\S\n](?:of|for)[^\S\n](?:the|these)[^\S\n](?:two[^\S\n])?numbers)?"
        r"(?P<closed>(?(mark)(?P=mark)|(?!)))?"
        rf"(?:[^\S\n]*(?i:{VERBS})(?:[^\S\n]*[:\uff1a])?|[^\S\n]*(?:[:\uff1a]|=(?!=)|[-=]>|\u2192)|(?=\n))"
        r"(?(closed)|(?(mark)[^\S\n]*(?P=mark)))\s*(?P<inner>\S.*)"
    )


@lru_cache(maxsize=200)
def _result_name_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a result's name and the answer after it: `GCD: 4`, `GCD (greatest common divisor): 4`."""
    name = "|".join(map(re.escape, names))
    return re.compile(_label_pattern(rf"(?:the )?(?:{name})(?: \((?:{name})\))?", RESULT_ARGUMENTS))


@dataclass(frozen=True)
class AnswerFrame:
    """A kind of formatting. One of `patterns` must match the whole answer; `extract` returns the formatted part."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    extract: Extract = _inner


def _frame(name: str, *patterns: str, extract: Extract = _inner) -> AnswerFrame:
    return AnswerFrame(name, tuple(map(re.compile, patterns)), extract)


FRAMES: tuple[AnswerFrame, ...] = (
    _frame(
        "fence",
        rf"(?s)(?P<fence>`{{3,}}|~{{3,}})[^\S\n]*(?i:{LANGUAGES})?[^\S\n]*\n(?P<inner>.*)\n[^\S\n]*(?P=fence)",
    ),
    _frame("code", r"(?P<ticks>`{1,3})(?P<inner>[^`]+)(?P=ticks)"),
    _frame(
        "mathematics",
        r"(?s)\\\[(?P<inner>(?:(?!\\[\[\]]).)*)\\\]",
        r"(?s)\\\((?P<inner>(?:(?!\\[()]).)*)\\\)",
        r"\$\$(?P<inner>[^$]*)\$\$",
        r"\$(?P<inner>[^$]*)\$",
    ),
    # The inner part may contain powers such as 2**3: their ** has no spaces beside it.
    _frame(
        "emphasis",
        r"(?s)(?P<mark>\*\*\*|\*\*|__)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)",
        r"(?s)(?P<mark>\*|_(?!.*\n))(?P<inner>(?!(?P=mark)|\s)(?:(?!(?P=mark)).)*(?<!\s))(?P=mark)",
    ),
    # The last `.` is the end of the closing quote, which `_inner_of_quotes` compares with the opening quote.
    _frame("quotes", rf"(?s)(?P<open>{'|'.join(CLOSING_QUOTES)})(?P<inner>.*).", extract=_inner_of_quotes),
    # `(3,355)` may be two numbers, or one number with a thousands separator.
    _frame("parentheses", r"(?s)(?!\(-?\d{1,3}(?:,\d{3})+\)\Z)\((?P<inner>.*)\)", extract=_inner_of_parentheses),
    _frame("label", _label_pattern("|".join(LABELS.values()))),
    _frame("tail", r"(?s)(?P<inner>.*?)\\{1,2}"),
    _frame(FULL_STOP, r"(?s)(?P<inner>.*[^.])[.\u3002]"),
)
"""All frames, in the order in which they are tried."""
FRAME_NAMES = frozenset(
    {REPLACED_SIGNS, NOT_RUN, MATHEMATICAL_NOTATION, RESULT_NAME, *(frame.name for frame in FRAMES)}
)
"""All values that may occur in the `frames` of a verdict."""
