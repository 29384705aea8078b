"""Take frames off an answer: text around the whole answer that says nothing about its value.

`FRAMES` is the table of all frames, the same for all tasks. A frame matches the whole text and names what it holds.
Nothing is searched for, so text beside an answer stays where it is. Each frame takes linear time. Nothing is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from .literals import as_json
from .plain import FONTS, SWITCHES, plain

Held = Callable[[re.Match[str]], str | None]
"""Returns what the frame of a match holds; None if this is no such frame after all."""
MAX_FRAMES = 8
"""Number of frames that come off; a quoted, bold text in a box in dollars has four."""


@dataclass(frozen=True)
class Step:
    """A text of an answer, and the names of the frames that came off, from outside."""

    text: str
    frames: tuple[str, ...]


def steps(answer: str, *, ends_in_full_stop: bool, question: str = "") -> Iterator[Step]:
    """Yield an answer as it is, and then with one frame less each time; each text also in plain characters.

    With `ends_in_full_stop`, a full stop at the end belongs to the answer, unless it follows a mark such as a quote.
    An answer may be called what its question calls it.
    """
    text = LONG_BLANK.sub(lambda match: "\n" if "\n" in match[0] else " ", answer.replace("\r\n", "\n"))
    text = "\n".join(line.rstrip() for line in text.split("\n")).strip()
    frames: tuple[str, ...] = ()
    for _ in range(MAX_FRAMES + 1):
        yield Step(text, frames)
        in_signs = plain(text)
        if in_signs != text:
            yield Step(in_signs, (*frames, PLAIN_SIGNS))
        taken = _take_off(text, question, ends_in_full_stop=ends_in_full_stop)
        if taken is None and in_signs != text:
            frames = (*frames, PLAIN_SIGNS)
            taken = _take_off(in_signs, question, ends_in_full_stop=ends_in_full_stop)
        if taken is None:
            return
        name, text = taken
        frames = (*frames, name)


def _take_off(text: str, question: str, *, ends_in_full_stop: bool) -> tuple[str, str] | None:
    """Return the outermost frame's name and what it holds; None for a text without a frame."""
    if UNFRAMED.fullmatch(text):
        return None
    for frame in FRAMES:
        if frame.name == FULL_STOP and ends_in_full_stop and not AFTER_MARK.search(text):
            continue
        for pattern in frame.patterns:
            match = pattern.fullmatch(text)
            if match is not None and "called" in match.re.groupindex and not _names_answer(match, question):
                continue
            inner = None if match is None else frame.held(match)
            if inner is not None and inner.strip() and inner.strip() != text:
                return frame.name, inner.strip()
    return None


def _names_answer(match: re.Match[str], question: str) -> bool:
    """Tell whether a name before an answer tells no answer from another.

    One of its words is a word for answers of any kind, or of what the question asks for, and the others say no more
    about it than the question. Or the name is the variable x before a single value, or the whole text that the question
    asks about, such as an expression.
    """
    called = match["called"]
    asked = _asked_words(question)
    words = _stems(called.casefold())
    if NAME.fullmatch(called) and any(word in asked.names or ANSWER_WORD.fullmatch(word) for word in words):
        return all(word in asked.words or ANSWER_WORD.fullmatch(word) or BESIDE_NAMES.fullmatch(word) for word in words)
    if match["sign"] is None:
        return False
    if VARIABLE.fullmatch(called):
        return "=" not in match["inner"]
    return len(called) > 2 and _squeezed(called) in _subjects(question)


def _stems(name: str) -> list[str]:
    """Return the words and numbers of a name in small letters, in the singular and spelled out."""
    words = [{"min": "minimum", "max": "maximum"}.get(word, word) for word in PART_OF_NAME.findall(name)]
    return [word.removesuffix("s") if len(word) > 3 else word for word in words]


@dataclass(frozen=True)
class _AskedWords:
    """The words of what a question asks for, and those of them that name it."""

    words: frozenset[str]
    names: frozenset[str]


@lru_cache(maxsize=1)
def _asked_words(question: str) -> _AskedWords:
    """Return the words of what a question asks for: detector, light and status of `What is the detector light status?`.

    Of `the day of the month`, day is a name, and month is none; of `the color of the top side`, all but `of` and `the`.
    Alternatives, as in `return the angle, coordinates or radius`, name nothing. The cache holds one question, because
    the answers of a group are scored one after the other.
    """
    words: set[str] = set()
    names: set[str] = set()
    for match in ASKED.finditer(question):
        if question[match.end() : match.end() + 1] == ",":
            continue
        phrase = match["asked"].casefold()
        words.update(_stems(phrase))
        for part in re.split(" (?:of|in) ", phrase):
            names.update(_stems(part))
            head = _stems(re.sub(r"\([^)]*\)", "", part))
            if not head or not ANSWER_WORD.fullmatch(head[-1]):
                break
    unnamed = {word for word in names if word.isdigit() or BESIDE_NAMES.fullmatch(word)}
    denied = {word for word in words if NO_NAME.fullmatch(word)}
    return _AskedWords(frozenset(words - denied), frozenset(names - denied - unnamed))


@lru_cache(maxsize=1)
def _subjects(question: str) -> frozenset[str]:
    """Return the lines of a question, and what stands behind a colon in them, without blanks."""
    lines = [line.strip() for line in question.split("\n")]
    parts = [*lines, *(line.partition(": ")[2] for line in lines), *(line.rpartition(": ")[2] for line in lines)]
    return frozenset(_squeezed(part.rstrip(" =?.")) for part in parts) - {""}


def _squeezed(text: str) -> str:
    return "".join(text.split()).translate(SAME_SIGNS)


def _inner(match: re.Match[str]) -> str | None:
    return match["inner"]


def _inner_of_braces(match: re.Match[str]) -> str | None:
    """Return the text in braces if each of its braces is closed, whether or not braces in quotes count."""
    inner = match["inner"]
    return inner if _is_closed(inner, "{}") or _is_closed(QUOTED_TEXT.sub(r"\g<escape>", inner), "{}") else None


QUOTED_TEXT = re.compile(r"(?P<escape>\\.)|\"(?:[^\"\\\n]|\\.)*\"")
"""A text in quotes. Escapes outside of quotes match too, so that a quote which is never closed costs linear time."""


def _inner_of_parentheses(match: re.Match[str]) -> str | None:
    return match["inner"] if _is_closed(match["inner"], "()") else None


def _is_closed(text: str, pair: str) -> bool:
    """Tell whether each bracket of a pair is closed: those of `(a)(b)` are, those of `a)(b` are not."""
    depth = 0
    for mark in text:
        if mark == pair[0]:
            depth += 1
        elif mark == pair[1]:
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


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


def _only_value(match: re.Match[str]) -> str | None:
    """Return the only value of an object: `"a"` of `{"answer": "a"}`; None for an object with several keys."""
    inner = str(match["inner"]).rstrip().removesuffix(",").rstrip()
    quote = inner[:1]
    in_quotes = quote in ("'", '"') and len(inner) > 2 and inner[-1] == quote
    if as_json(inner) is not None or (in_quotes and (as_json(inner[1:-1]) is not None or quote not in inner[1:-1])):
        return inner
    return None


def _argument(match: re.Match[str]) -> str | None:
    """Return the argument of a call that changes nothing about it: `3` of `int(3)`, but not of `int(3.5)`."""
    inner = str(match["inner"]).strip()
    pattern = next(pattern for names, pattern in CALLS.items() if re.fullmatch(names, match["name"]))
    return inner if _is_closed(inner, "()") and pattern.fullmatch(inner) else None


DECIMAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
CALLS: Mapping[str, re.Pattern[str]] = {
    r"[iI]nt(?:eger)?(?:32|64)?": re.compile(r"([\"']?)[-+]?\d+\1"),
    r"[fF]loat(?:32|64)?|Decimal|num": re.compile(rf"([\"']?){DECIMAL}\1"),
    r"bool_?": re.compile("True|False"),
    r"list|tuple|tensor": re.compile(r"(?s)[\[(].*[\])]"),
    r"str|print": re.compile(r"(?s)(?!not\b).*"),
}
"""Python's functions that change nothing about an argument that matches the pattern."""


def _fraction(match: re.Match[str]) -> str | None:
    return str(match["both"] or f"{match['up']}/{match['down']}")


def _without_numbers(match: re.Match[str]) -> str | None:
    """Return several lines without their numbers, which count from 1."""
    lines = [line for line in match["inner"].split("\n") if line.strip()]
    found = [NUMBERED.fullmatch(line) for line in lines]
    items = [item["item"] for number, item in enumerate(found, 1) if item and int(item["number"]) == number]
    return "\n".join(items) if len(items) == len(lines) > 1 else None


NUMBERED = re.compile(r"\s*(?:\(?|[A-Z][a-z]{2,4} |R)(?P<number>\d{1,5})[.):]\s+(?P<item>\S.*)", re.ASCII)
"""A line with a number: `1. up`, `(1) up`, `Step 1: up`, `Row 1: 2 3`, `R1: 2 3`."""


def _without_bullets(match: re.Match[str]) -> str | None:
    """Return several lines without their bullets. Hyphens before nothing but numbers are signs."""
    lines = [line for line in match["inner"].split("\n") if line.strip()]
    found = [BULLETED.fullmatch(line) for line in lines]
    items = [item["item"] for item in found if item]
    if len(items) < len(lines) or len(lines) < 2 or len({item["bullet"] for item in found if item}) > 1:
        return None
    if lines[0].lstrip()[0] == "-" and not any(re.match(r"[\[({]?[^\W\d]|[\"'`#*$]", item) for item in items):
        return None
    return "\n".join(items)


BULLETED = re.compile(r"\s*(?P<bullet>[*\u2022-])\s+(?P<item>\S.*)")


LONG_BLANK = re.compile(r"\s{60,}")
"""Blanks that say no more than one: patterns with blanks take quadratic time on long runs."""
UNFRAMED = re.compile(r"(?!.{0,200} (?:is|are|was) |[Rr]eturns? )[A-Za-z0-9 ]*")
"""Text without any frame, for speed: most answers are words or numbers."""
AFTER_MARK = re.compile(r"[}*$`\"'\])>]\.$")
FULL_STOP = "full_stop"
PLAIN_SIGNS = "signs"
"""The name of what `plain` changes, beside the names of frames."""
NOT_RUN = "code_not_run"
"""Stands among the frames of an answer that the library would run as code, which earns nothing here."""
LANGUAGES = (
    "text|txt|plain|plaintext|raw|ascii|code|output|answer|result|console|bash|sh|shell|python3?|py|json|csv|xml|html"
    "|yaml|latex|tex|math|markdown|md|matlab|julia|javascript|js|java|c|cpp|rust|go|sql|bf|brainfuck|grid|matrix"
)
"""Languages of code fences; another word there may say something."""
COLOUR = r"(?!white\b)[A-Za-z]{3,14}"
BOX_OPTION = rf"(?:\d{{1,2}}(?:px|pt|em)|border:\s?\d{{1,2}}px solid(?: {COLOUR})?|{COLOUR})"
LATEX_COMMANDS = (
    rf"boxed|fbox|framebox|bbox(?:\[{BOX_OPTION}(?:,\s?{BOX_OPTION}){{0,3}}\])?|num|{FONTS}"
    rf"|(?:text)?color\{{{COLOUR}\}}|colorbox\{{(?!black){COLOUR}\}}|{SWITCHES}"
)
ATTRIBUTES = r"(?:\s(?:class|id|align|size|color|style)=\"[^\"<>]{1,60}\"){0,5}"
HTML_TAGS = (
    "b|i|u|em|strong|code|pre|p|span|mark|div|h[1-6]|kbd|samp|tt|li|ul|ol|center|font|big|blockquote"
    "|final|final_answer|result|output|solution|response"
)
"""Tags of HTML that change how a text looks, and tags that name the answer."""
ARROWS = r"[-=]>|[\u2192\u27f6\u21d2\u279c\u27a1]"
CHECK_MARKS = "\u2705\u2714\u2713\u2611\U0001f3af\U0001f3c6\u2b50\U0001f389"
"""Emoji that praise an answer. A cross would deny the answer."""
POINTERS = "\U0001f449\u27a1\U0001f4a1\U0001f537\U0001f539"
"""Emoji that point at what follows."""
ANSWER_WORD = re.compile(
    "answer|ans|result|res|output|out|solution|sol|response|value|val|total|outcome|therefore|thus|hence|action|operation|json"
    "|grid|matrix|mat|board|puzzle|row|state|string|list|lst|sequence|seq|array|arr|vector|order|palindrome|anagram|word|text"
    "|plaintext|message|sentence|person|name|colou?r|colou?ring|weekday|relation|relationship|move|step|plan|instruction"
    "|direction|path|route|program|mapping|assignment|group|partition|pair|element|item|count|number|num|digit|integer|sum"
    "|product|difference|occurrence|term|factor|size|length|time|duration|measure|coordinate|probability|prob|root"
    "|integral|antiderivative|polynomial|expression|formula|fraction|conclusion|statement|graph"
    "|sorted|reversed|filtered|rotated|flipped|transformed|decoded|decrypted|simplified|reduced|modified|expanded"
    "|unscrambled|reordered|restored|grouped|converted|solved|completed|filled"
    "|antwort|l\u00f6sung|r\u00e9ponse|respuesta|resultado|resposta|risposta|\u043e\u0442\u0432\u0435\u0442"
    "|(?:\u6700\u7ec8)?\u7b54\u6848\u662f?|\u7b54\u3048|\u56de\u7b54|\ub2f5|\uc815\ub2f5"
)
"""A word for answers of any kind, in the singular, also in other languages; it tells no answer from another."""
BESIDE_NAMES = re.compile(
    "the|my|our|of|in|for|an?|final|correct|expected|resulting|predicted|required|optimal|best|valid|possible|all|real|new|next"
    "|missing|remaining|hidden|secret|pooled|shortest|ascending|descending|elapsed|test|die|ist|la|finale?|es|est"
)
"""Words beside a name that say nothing of the answer but that it is one."""
VARIABLE = re.compile(r"x(?:_\d)?|[A-Za-z]\(x\)|F\([A-Za-z]\)")
"""The variable of any value, and a function of a variable."""
NAME = re.compile(r"[\w ()'-]+")
PART_OF_NAME = re.compile(r"[^\W\d_]+|\d+")
NO_NAME = re.compile("true|false|yes|no|not|none|never|other|example|input|whether|how|what|one|this|them|i")
"""Words after a verb of asking that name no answer, or deny one."""
ASKED = re.compile(
    r"(?<!\ba )(?<!\bthe )(?<!\bwe )(?<!ing )\b(?:what (?:is|was|are|were|will)(?: now)?|which|what|how many|find"
    r"|determine|return|provide|predict|specify|calculate|compute|evaluate|pick|identify|decode|decrypt|restore|simplify|solve|give"
    r"|list|tell me|reply|respond|press|(?:output|answer|solution) (?:should|must) be)\b"
    r"(?: (?:only|just|back|with|the|an?|your|its|this|all|following|of|possible))*+"
    r"(?P<asked>(?: (?!(?:to|that|which|who|whose|from|for|with|by|at|on|if|when|where|whether|after|before|using|such"
    r"|as|do|does|did|have|has|had|you|are|is|was|were|be|can|there|should|would|will|and|or|not|given|than|into|over"
    r"|it|he|she|they|so|only|considering|without|getting|rolling|exactly)\b)[A-Za-z0-9()'-]++)++)",
    re.IGNORECASE,
)
"""A verb of asking and the words after it, up to a preposition or a verb: `What is` and `the final output`."""
SAME_SIGNS = str.maketrans({"\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/"})
CALLED = (
    r"(?s)(?:#{1,6}[^\S\n]+)?(?P<mark>\*{1,3}|_{1,2})?(?i:(?:so|thus|hence|therefore),? )?"
    r"(?!-)(?P<called>[^\s:\uff1a*\"'{}\[\]][^\n:\uff1a\"{}\[\]]{0,200}?)(?(mark)(?P=mark)?)"
    r"(?:(?i: (?:is|are|was))(?:[:\uff1a]|(?=\s))|[ ][-\u2013][ ](?=[A-Za-z]{2})"
    rf"|[^\S\n]*(?:(?P<sign>[:\uff1a]=?|=(?![=>]))|\u2014|{ARROWS}|(?=[\n\u2248])|\.(?=\s)))"
    r"(?(mark)[^\S\n]*(?P=mark)?)\ufe0f?(?P<inner>.*)"
)
"""A name before the answer: `Answer: 5`, `The answer is 5`, `Answer \u2192 5`, `Answer - yes`, `Ans. 5`, `x = 5`.

A number after a hyphen could be negative.
"""


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
    _frame(
        "mathematics",
        r"(?s)(?:\$\$?|\\\(|\\\[)\s*(?P<inner>\\boxed\{.*\})\s*(?:\$\$?|\\\)|\\\])",
        held=_inner_of_braces,
    ),
    _frame(
        "latex_command",
        rf"(?s)(?:\\{{1,2}}(?:{LATEX_COMMANDS})\s?|boxed)\{{(?P<inner>.*)\}}",
        rf"(?s)\{{\s?\\(?:{SWITCHES})\s(?P<inner>.*)\}}",
        rf"(?s)\\(?:{SWITCHES})(?![A-Za-z{{])\s*(?P<inner>.*)",
        held=_inner_of_braces,
    ),
    # A power is written with the sign of bold, but with no blank beside the sign: 2**3 stays.
    _frame(
        "emphasis",
        r"(?s)(?P<mark>\*\*\*|\*\*|__|==)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)",
        r"(?s)(?P<mark>\*|_(?!.*\n))(?P<inner>(?!(?P=mark)|\s)(?:(?!(?P=mark)).)*(?<!\s))(?P=mark)",
        r"\*\*(?P<inner>(?:(?!\*\*)[^\n])+)\*\*",
    ),
    _frame("quotes", rf"(?s)(?P<open>{'|'.join(CLOSING_QUOTES)})(?P<inner>.*).", held=_inner_of_quotes),
    # `(3,355)` may be two numbers, or one with a separator of thousands.
    _frame("parentheses", r"(?s)(?!\(-?\d{1,3}(?:,\d{3})+\)\Z)\((?P<inner>.*)\)", held=_inner_of_parentheses),
    _frame("HTML", rf"(?s)<(?P<tag>{HTML_TAGS}){ATTRIBUTES}\s?>(?P<inner>(?:(?!</(?P=tag)).)*)</(?P=tag)>"),
    _frame("label", CALLED),
    _frame(
        "object",
        r"(?s)\{\s*(?P<quote>[\"']?)(?P<called>[A-Za-z_ ]{1,60})(?P=quote)\s*(?P<sign>:)\s*(?P<inner>\S.*)\}",
        held=_only_value,
    ),
    _frame(
        "lead",
        r"#{1,6}[^\S\n]+(?P<inner>\S[^\n]*)",
        r"[*\u2022][^\S\n]+(?P<inner>\S[^\n]*)",
        # A hyphen may be a sign before a number, a variable, a function, a parenthesis or a list of numbers.
        r"-[^\S\n]+(?P<inner>(?:[A-Za-z]{2}|[\"\u201c`]|\[{1,2}[\"'](?![-\d.]))[^\n()*+/^]*)",
        r"-[^\S\n]+(?P<inner>\*\*[^*\n]+\*\*)",
        r"=\s*(?P<inner>[^=\s>][^=]*)",
        rf"(?s)(?:{ARROWS})\s*(?P<inner>.*)",
        rf"(?s)[{POINTERS}{CHECK_MARKS}]\ufe0f?(?P<inner>[^\u2705\u274c]*)",
        r"(?s)(?:[\u2234\u22a2\u22a8]|\\(?:therefore|vdash|models)\b)\s*(?P<inner>.*)",
        r"[Rr]eturns?:?\s+(?P<inner>\S[^\n]*)",
        r"> (?P<inner>(?:\*\*|`)[^\n]*)",
    ),
    _frame(
        "tail",
        rf"(?s)(?P<inner>[^\u2705\u274c]*)[{CHECK_MARKS}]\ufe0f?",
        r"(?s)(?P<inner>.*)\\\\",
        r"(?s)(?P<inner>.*)<br\s?/?>",
        r"(?s)(?P<inner>.*)\n(?:-{3,}|\*{3,})",
    ),
    _frame(
        "call",
        r"(?s)(?:(?:np|numpy)\.)?(?:array|[mM]atrix)\((?P<inner>[\[(].*[\])])"
        r"(?:,\s?dtype=(?:np\.|numpy\.)?(?:object_?|float(?:64)?|str_?))?\)",
    ),
    _frame(
        "call",
        rf"(?s)(?:(?:np|numpy|torch|sp|sympy|decimal)\.)?(?P<name>{'|'.join(CALLS)})\((?P<inner>.*)\);?",
        held=_argument,
    ),
    _frame(
        "call",
        r"(?:(?:fractions|sp|sympy)\.)?(?:Fraction|Rational)\((?:(?P<up>-?\d+),\s*(?P<down>\d+)|([\"'])(?P<both>-?\d+/\d+)\3)\)",
        held=_fraction,
    ),
    _frame(FULL_STOP, r"(?s)(?P<inner>.*[^.])[.\u3002]"),
    _frame("list_marks", r"(?s)(?P<inner>.*\n.*)", held=_without_numbers),
    _frame("list_marks", r"(?s)(?P<inner>.*\n.*)", held=_without_bullets),
    _frame("brackets", r"(?:\[|(?P<brace>\{))(?![^\n]*\d\s\d)(?P<inner>[^\[\]{}(),;:\"'\n]+)(?(brace)\}|\])"),
)
"""All frames. The first that fits comes off."""
FRAME_NAMES = frozenset({PLAIN_SIGNS, NOT_RUN, *(frame.name for frame in FRAMES)})
"""The names that a verdict may have of frames."""
