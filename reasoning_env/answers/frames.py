"""Take frames off an answer: text around the whole answer that says nothing about its value.

`FRAMES` is the list of all frames, the same for all tasks; names of the result come from the declaration of the task.
A frame matches the whole text and names what it holds. Nothing is searched for, so text beside an answer stays where it
is. Each frame takes linear time. Nothing is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .literals import as_json

Held = Callable[[re.Match[str]], str | None]
"""Returns what the frame of a match holds; None if this is no such frame after all."""
MAX_FRAMES = 8
"""Number of frames that come off; a quoted, bold text in dollars after a label has four."""
PLAIN_SIGNS = "signs"
"""The name of what `plain` changes, beside the names of frames."""
MATHEMATICAL_NOTATION = "notation"
"""The name of mathematical notation that is written in Python's, beside the names of frames."""


def clean(answer: str) -> str:
    """Return an answer without blanks at the ends of lines, and without long runs of blanks, which cost time."""
    text = LONG_BLANK.sub(lambda match: "\n" if "\n" in match[0] else " ", answer.replace("\r\n", "\n"))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def outermost_frame(
    text: str, names: tuple[str, ...], numbers: Sequence[object], *, ends_in_full_stop: bool
) -> tuple[str, str] | None:
    """Return the outermost frame's name and what it holds; None for a text without a frame.

    `names` are those of the result, after which `numbers` may stand. With `ends_in_full_stop`, a full stop at the end
    belongs to the answer, unless it follows a mark such as a quote.
    """
    if UNFRAMED.fullmatch(text):
        return None
    for frame in FRAMES:
        if frame.name == FULL_STOP and ends_in_full_stop and not AFTER_MARK.search(text):
            continue
        for pattern in frame.patterns:
            match = pattern.fullmatch(text)
            inner = None if match is None else frame.held(match)
            if inner is not None and inner.strip() and inner.strip() != text:
                return frame.name, inner.strip()
    match = _named(names).fullmatch(text) if names else None
    if match is not None and _has_numbers(match["numbers"], numbers):
        return RESULT_NAME, match["inner"].strip()
    return None


def _has_numbers(said: str | None, numbers: Sequence[object]) -> bool:
    """Return True if no numbers are said, or all of the problem's, in any order."""
    return said is None or sorted(re.findall(r"\d+", said)) == sorted(map(str, numbers))


def _inner(match: re.Match[str]) -> str | None:
    return match["inner"]


def _inner_of_parentheses(match: re.Match[str]) -> str | None:
    """Return the text in parentheses if each parenthesis is closed: those of `(a)(b)` are, those of `a)(b` are not."""
    depth = 0
    for mark in match["inner"]:
        if mark in "()":
            depth += 1 if mark == "(" else -1
            if depth < 0:
                return None
    return match["inner"] if depth == 0 else None


def _inner_of_quotes(match: re.Match[str]) -> str | None:
    """Return a quotation without its marks, and with a string's escapes read; None for `"a" or "b"`."""
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
r"""The inside of a string of JSON; a backslash before other text is LaTeX's, as in `"\neg P"`."""
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
"""The marks before and after a quotation."""

LONG_BLANK = re.compile(r"\s{60,}")
"""Blanks that say no more than one: patterns with blanks take quadratic time on long runs."""
AFTER_MARK = re.compile(r"[}*$`\"'\])>]\.$")
FULL_STOP = "full_stop"
RESULT_NAME = "name"
NOT_RUN = "code_not_run"
"""Stands among the frames of an answer that the library would run as code, which earns nothing here."""
LANGUAGES = (
    "text|txt|plain|plaintext|raw|ascii|code|output|answer|result|console|bash|sh|shell|python3?|py|json|csv|xml|html"
    "|yaml|latex|tex|math|markdown|md|matlab|julia|javascript|js|java|c|cpp|rust|go|sql|bf|brainfuck|grid|matrix"
)
"""Languages of code fences; another word there may say something."""
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
"""Names of an answer, without a colon."""
ASCII_VERBS = "is|are|was|ist|lautet|est|es"
VERBS = f"(?:{ASCII_VERBS}|\u00e9|\u00e8)(?![^\\W\\d_]|['\u2019])|\u662f|\u4e3a|\u306f|\uc740|\ub294"
"""Verbs between a name and the answer."""
UNFRAMED = re.compile(rf"(?!.{{0,200}} (?:{ASCII_VERBS}) )[A-Za-z0-9 ]*")
"""Text without any frame, for speed: most answers are words or numbers."""
NUMBERS = (
    r"[^\S\n]?\([^\S\n]*\d+(?:,[^\S\n]*\d+)*[^\S\n]*\)"
    r"|[^\S\n](?:of|for)[^\S\n](?:the[^\S\n](?:two[^\S\n])?numbers[^\S\n])?\d+(?:(?:,[^\S\n]*(?:and[^\S\n])?|[^\S\n]and[^\S\n])\d+)*"
)
"""The numbers that a result is of: those of `gcd(8, 12)`, `LCM of 8, 9 and 12`."""


def _after(called: str, numbers: str = "(?!)") -> str:
    """Return the pattern of an answer after a name: `Answer: 5`, `**Answer:** 5`, `The answer is 5`, a heading."""
    return (
        rf"(?s)(?:#{{1,6}}[^\S\n]+)?(?P<mark>\*{{1,3}}|_{{1,2}})?(?i:{called})"
        rf"(?:(?P<numbers>{numbers})|[^\S\n](?:of|for)[^\S\n](?:the|these)[^\S\n](?:two[^\S\n])?numbers)?"
        r"(?P<closed>(?(mark)(?P=mark)|(?!)))?"
        rf"(?:[^\S\n]*(?i:{VERBS})(?:[^\S\n]*[:\uff1a])?|[^\S\n]*(?:[:\uff1a]|=(?!=)|[-=]>|\u2192)|(?=\n))"
        r"(?(closed)|(?(mark)[^\S\n]*(?P=mark)))\s*(?P<inner>\S.*)"
    )


@lru_cache(maxsize=200)
def _named(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of an answer after one of some names of the result, two of which may explain each other."""
    name = "|".join(map(re.escape, names))
    return re.compile(_after(rf"(?:the )?(?:{name})(?: \((?:{name})\))?", NUMBERS))


@dataclass(frozen=True)
class AnswerFrame:
    """A frame: patterns, of which one matches the whole text, and the function that returns what it holds."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    held: Held = _inner


def _frame(name: str, *patterns: str, held: Held = _inner) -> AnswerFrame:
    return AnswerFrame(name, tuple(map(re.compile, patterns)), held)


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
    # A power is written with the sign of bold, but with no blank beside the sign: 2**3 stays.
    _frame(
        "emphasis",
        r"(?s)(?P<mark>\*\*\*|\*\*|__)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)",
        r"(?s)(?P<mark>\*|_(?!.*\n))(?P<inner>(?!(?P=mark)|\s)(?:(?!(?P=mark)).)*(?<!\s))(?P=mark)",
    ),
    _frame("quotes", rf"(?s)(?P<open>{'|'.join(CLOSING_QUOTES)})(?P<inner>.*).", held=_inner_of_quotes),
    # `(3,355)` may be two numbers, or one with a separator of thousands.
    _frame("parentheses", r"(?s)(?!\(-?\d{1,3}(?:,\d{3})+\)\Z)\((?P<inner>.*)\)", held=_inner_of_parentheses),
    _frame("label", _after("|".join(LABELS.values()))),
    _frame("tail", r"(?s)(?P<inner>.*)\\\\"),
    _frame(FULL_STOP, r"(?s)(?P<inner>.*[^.])[.\u3002]"),
)
"""All frames. The first that fits comes off."""
FRAME_NAMES = frozenset({PLAIN_SIGNS, NOT_RUN, MATHEMATICAL_NOTATION, RESULT_NAME, *(frame.name for frame in FRAMES)})
"""The names that a verdict may have of frames."""
