"""Take decoration off an answer: text around the whole answer, and marks of type, which say nothing.

`DECORATIONS` holds every decoration with an example, the same for all tasks. Nothing is searched for: a decoration
encloses or precedes the whole answer, or marks its parts. Text beside the answer stays, and counts against the answer.
Each decoration takes linear time. Nothing is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .literals import LiteralError, parse_literal

TakeOff = Callable[[str], str | None]
"""Returns an answer without a decoration; None for an answer that does not have the decoration."""


@dataclass(frozen=True)
class Decoration:
    """A decoration, with a text that has it and the reading of the text."""

    take_off: TakeOff
    example: str
    reading: str


MAX_DECORATIONS = 8
"""Number of decorations that are taken off; quoted bold text with LaTeX's signs in a box in dollars has five."""
FULL_STOP = "a full stop"
MINUS = re.compile("[\N{MINUS SIGN}\N{SMALL HYPHEN-MINUS}\N{FULLWIDTH HYPHEN-MINUS}]")
PLAIN = re.compile("(?!return )[A-Za-z0-9 ]*")
"""Text without any decoration, for speed: most answers are words or numbers."""


def undecorated(answer: str, *, strip_full_stop: bool) -> Iterator[str]:
    """Yield an answer with clean lines, and then with one decoration less each time.

    CRLF becomes a newline, Unicode's minus a hyphen, and trailing blanks go. Without `strip_full_stop`, a full stop at
    the end belongs to the answer, unless it follows a mark such as a closing quote.
    """
    text = "\n".join(line.rstrip() for line in answer.replace("\r\n", "\n").split("\n")).strip()
    text = MINUS.sub("-", text)
    yield text
    for _ in range(MAX_DECORATIONS):
        inner = _take_one_off(text, strip_full_stop=strip_full_stop)
        if inner is None:
            return
        yield inner
        text = inner


def _take_one_off(text: str, *, strip_full_stop: bool) -> str | None:
    if PLAIN.fullmatch(text):
        return None
    for name, decoration in DECORATIONS.items():
        if name == FULL_STOP and not strip_full_stop and not AFTER_MARK.search(text):
            continue
        inner = decoration.take_off(text)
        if inner is not None and inner.strip() and inner != text:
            return inner
    return None


# ---- around the whole answer


def _around(pattern: str, *, has_braces: bool = False, keeps_blanks: bool = False) -> TakeOff:
    """Return the group `inner` of a pattern that matches the whole answer.

    With `has_braces`, all braces of the inner text must be closed. With `keeps_blanks` only newlines are stripped from
    several lines, since blanks may belong to the first line.
    """
    whole = re.compile(pattern)

    def take_off(text: str) -> str | None:
        match = whole.fullmatch(text)
        if match is None:
            return None
        if has_braces and not _has_closed_braces(match["inner"]):
            return None
        inner = match["inner"].strip("\n")
        return inner if keeps_blanks and "\n" in inner else inner.strip()

    return take_off


QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"")


def _has_closed_braces(text: str) -> bool:
    """Tell whether each brace is closed, whether or not braces in quotes count: both `{a}` and `{"}"}` are closed."""
    return are_closed(text, "{", "}") or are_closed(QUOTED.sub("", text), "{", "}")


def are_nested(text: str) -> bool:
    """Tell whether each bracket is closed by one of its kind: those of `[(a)]` are, those of `[(a])` are not."""
    waiting = []
    for mark in re.findall(r"[\[\](){}]", text):
        if mark in "[({":
            waiting.append(mark)
        elif not waiting or waiting.pop() + mark not in ("[]", "()", "{}"):
            return False
    return not waiting


def are_closed(text: str, opening: str, closing: str) -> bool:
    """Tell whether each brace is closed: those of `{a}{b}` are, those of `a}{b` are not."""
    depth = 0
    for mark in text:
        if mark == opening:
            depth += 1
        elif mark == closing:
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


QUOTES = (
    ('"""', '"""'),
    ("'''", "'''"),
    ('"', '"'),
    ("'", "'"),
    ("\N{LEFT DOUBLE QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"),
    ("\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"),
    ("\N{DOUBLE LOW-9 QUOTATION MARK}", "\N{LEFT DOUBLE QUOTATION MARK}"),
    ("\N{DOUBLE LOW-9 QUOTATION MARK}", "\N{RIGHT DOUBLE QUOTATION MARK}"),
    ("\N{LEFT CORNER BRACKET}", "\N{RIGHT CORNER BRACKET}"),
    ("\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}", "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}"),
    ("``", "''"),
)
"""The marks before and after a quotation, which has none of them inside: `"a" or "b"` is no quotation."""


def _unquote(text: str) -> str | None:
    for opening, closing in QUOTES:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                return inner.strip()
    return None


def _without_quotes_around_json(text: str) -> str | None:
    """Return a list or an object that stands in quotes as it is: `["a"]` of `"["a"]"`."""
    if len(text) < 4 or text[0] not in "\"'" or text[0] != text[-1]:
        return None
    inner = text[1:-1].strip()
    return inner if inner[:1] in ("[", "{") and _is_literal(inner) else None


STRING = re.compile(
    r"\"(?P<inner>(?:[^\"\\\n]|\\n(?![a-z])|\\u[0-9A-Fa-f]{4}|\\\")*)\"|'(?P<single>(?:[^'\"\\\n]|\\n(?![a-z])|\\u[0-9A-Fa-f]{4})*)'"
)
r"""A string of JSON or Python with its escapes; a backslash before other text is LaTeX's, as in `"\neg P"`."""


def _decode_string(text: str) -> str | None:
    """Return the value of a string with escaped quotes, newlines or characters."""
    match = STRING.fullmatch(text) if "\\" in text else None
    if match is None:
        return None
    value = json.loads(f'"{match["inner"] or match["single"]}"')
    return value if isinstance(value, str) else None


def _without_parentheses(text: str) -> str | None:
    """Return the text within a pair of parentheses: `5` of `(5)`; None for `(5) or (6)`."""
    if len(text) < 3 or text[0] != "(" or text[-1] != ")" or not are_closed(text[1:-1], "(", ")"):
        return None
    return text[1:-1].strip()


NAME = re.compile(
    r"(?P<variable>[A-Za-z](?:_\d{1,2}|\([A-Za-z]\))?)\s?:?=(?!=)|(?P<word>[A-Za-z]\w{0,20})\s?=(?!=)", re.ASCII
)
LIST = re.compile(r"[\[({\\$]|(?:np\.|numpy\.)?(?:array|matrix)\(")
NUMBER = re.compile(r"[-+.\d]")
LOGIC = re.compile(
    r"[\u00ac\u2227\u2228\u2192\u2194]|\\(?:l?neg|lnot|land|lor|wedge|vee|to|iff|rightarrow|leftrightarrow)"
)
DENIALS = frozenset({"not", "no", "never", "except", "false", "true", "wrong", "incorrect"})


def _without_name(text: str) -> str | None:
    """Return the value of a variable or a function: a list or a number, or of `x` and `F(x)` also an expression.

    `x`, `y` and `z` may also have a word or a formula of logic as their value. None for names that may be answers
    themselves, as in `False = True` and `Saturday = 28`; for a formula of logic, whose equals sign is an operator; and
    where several variables have values.
    """
    match = NAME.match(text)
    if match is None:
        return None
    value = text[match.end() :].strip()
    word = match["word"]
    if word and (word.casefold() in DENIALS or not (LIST.match(value) or (word.islower() and NUMBER.match(value)))):
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
    r"(?i:(?:final|correct)?[ _]?(?:answer|result|output|solution|response)|ans|total"
    r"|(?:(?:final|output|resulting|sorted|new|solved)[ _])?"
    r"(?:grid|matrix|board|state|string|list|sequence|moves|path|value)"
    r"|antwort|r\u00e9ponse|respuesta|resposta|risposta|\u043e\u0442\u0432\u0435\u0442"
    r"|\u7b54\u6848|\u7b54\u3048|\u56de\u7b54|\ub2f5|\uc815\ub2f5)"
)
"""A name that can only mean the answer, in several languages: `Answer`, `Final state`, `Respuesta`."""
LABEL_START = rf"(?s)(?:#{{1,6}}[^\S\n]+)?(?P<mark>\*{{0,3}}|_{{1,2}})(?i:(?:the|my) )?{LABEL}"
LABELLED = tuple(
    re.compile(pattern)
    for pattern in (
        LABEL_START + r"(?P=mark)[^\S\n]*(?:[:\uff1a]=?|=(?![=>])|(?=\n))(?P<inner>.*)",
        LABEL_START + r"[^\S\n]*[:\uff1a][^\S\n]*(?P=mark)(?P<inner>.*)",
        LABEL_START + r"(?: is|(?P=mark) is|(?P=mark) is(?P=mark))[:\uff1a](?P=mark)?(?P<inner>.*)",
        LABEL_START + r"(?P=mark)[^\S\n]*(?:\u2014|[-=]>|[\u2192\u27f6\u21d2\u279c\u27a1])(?P<inner>.*)",
        LABEL_START + r"(?P=mark) - (?P<inner>[A-Za-z]{2}.*)",
        r"(?s)[Aa]ns\.[^\S\n]+(?P<inner>.*)",
        r"A:[^\S\n]+(?P<inner>[^:=]+)",
    )
)
"""A label before the answer: `Answer: 5`, `The answer is: 5`, `Answer \u2192 5`, `Answer - yes`, `Ans. 5`, `A: 5`.

`The answer is 5` is a sentence, and no label. A number after a hyphen could be negative.
"""
LABELLED_OBJECT = re.compile(rf"(?s)\{{\s*(?P<quote>[\"']?){LABEL}(?P=quote)\s*:\s*(?P<inner>.*\S)\s*\}}")


def _without_label(text: str) -> str | None:
    """Return the text after a label, whose first line keeps its blanks where several lines follow the label."""
    match = next(filter(None, (pattern.fullmatch(text) for pattern in LABELLED)), None)
    if match is None:
        return None
    inner = match["inner"]
    return inner.strip("\n") if inner.startswith("\n") and "\n" in inner.strip() else inner.strip()


def _without_object(text: str) -> str | None:
    """Return the only value of an object: `"a"` of `{"answer": "a"}`; None for an object with several keys."""
    match = LABELLED_OBJECT.fullmatch(text)
    if match is None:
        return None
    inner = match["inner"].removesuffix(",").rstrip()
    is_value = TEXT_ON_LINES.fullmatch(inner) or _is_literal(inner) or _without_quotes_around_json(inner) is not None
    return inner if is_value else None


TEXT_ON_LINES = re.compile(r"\"[^\"\\]*\"|'[^'\\]*'")
"""A text in quotes with newlines as they are, which JSON would write as escapes."""


def _is_literal(text: str) -> bool:
    try:
        parse_literal(text)
    except (LiteralError, RecursionError):
        return False
    return True


def _without_call(text: str) -> str | None:
    """Return the argument of a function that changes nothing about the argument: `3` of `int(3)`, not of `int(3.5)`."""
    match = CALL.fullmatch(text)
    if match is None:
        return None
    inner = match["inner"].strip()
    return inner if are_closed(inner, "(", ")") and CALLS[match["name"]].match(inner) else None


DECIMAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
CALLS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("int", "Integer", "int32", "int64"), re.compile(r"([\"']?)[-+]?\d+\1$")),
    **dict.fromkeys(("float", "float32", "float64", "Decimal", "Float", "num"), re.compile(rf"([\"']?){DECIMAL}\1$")),
    **dict.fromkeys(("bool", "bool_"), re.compile(r"(?:True|False)$")),
    **dict.fromkeys(("list", "tuple"), re.compile(r"(?s)[\[(].*[\])]$")),
    **dict.fromkeys(("tensor",), re.compile(r"(?s)\[.*\]$")),
    **dict.fromkeys(("str", "print"), re.compile(r"(?!not\b)")),
}
"""Python's functions that change nothing about an argument that matches the pattern."""
CALL = re.compile(rf"(?s)(?:(?:np|numpy|torch|sp|sympy|decimal)\.)?(?P<name>{'|'.join(CALLS)})\((?P<inner>.*)\);?")
FRACTION_CALL = re.compile(
    r"(?:(?:fractions|sp|sympy)\.)?(?:Fraction|Rational)\((?:(?P<up>-?\d+),\s*(?P<down>\d+)|([\"'])(?P<both>-?\d+/\d+)\3)\)",
    re.ASCII,
)


def _without_fraction_call(text: str) -> str | None:
    match = FRACTION_CALL.fullmatch(text)
    return None if match is None else match["both"] or f"{match['up']}/{match['down']}"


AFTER_MARK = re.compile(r"[}*$`\"'\])>]\.$")
"""A full stop after the end of a decoration."""


def _without_full_stop(text: str) -> str | None:
    ends = text.endswith((".", "\N{IDEOGRAPHIC FULL STOP}")) and not text.endswith("..")
    return text[:-1].rstrip() if ends else None


# ---- marks of its parts

NUMBERED = re.compile(r"\s*(?:\(?|[Ss]tep |[Rr]ow |[Mm]ove |[Ll]ine )(\d{1,5})[.):]\s+(\S.*)", re.ASCII)
"""A line with a number: `1. up`, `(1) up`, `Step 1: up`, `Row 1: 2 3`."""
BULLETED = re.compile(r"\s*(?P<bullet>[*\u2022-])\s+(?P<item>\S.*)")


def _without_line_numbers(text: str) -> str | None:
    """Return several lines without their numbers, which count from 1."""
    matches = [NUMBERED.fullmatch(line) for line in text.split("\n") if line.strip()]
    items = [match[2] for number, match in enumerate(matches, 1) if match and int(match[1]) == number]
    return "\n".join(items) if len(items) == len(matches) > 1 else None


def _without_bullets(text: str) -> str | None:
    """Return several lines without their bullets. Hyphens before nothing but numbers are signs."""
    matches = [BULLETED.fullmatch(line) for line in text.split("\n") if line.strip()]
    items = [match["item"] for match in matches if match]
    if len(items) < len(matches) or len(items) < 2 or len({match["bullet"] for match in matches if match}) > 1:
        return None
    if text.lstrip()[0] == "-" and not any(re.match(r"[^\W\d]|[\"'`#*]", item) for item in items):
        return None
    return "\n".join(items)


def _without_quotation(text: str) -> str | None:
    """Return lines without the sign of a quotation before each.

    None for one line that could be a comparison, as in `> 5`. One with marks, as in `> **5**`, could not.
    """
    lines = text.split("\n")
    if not all(line.startswith("> ") for line in lines) or (len(lines) == 1 and not text.startswith(MARKED)):
        return None
    return "\n".join(line.removeprefix("> ") for line in lines)


MARKED = ("> **", "> `")
"""The beginnings of a quotation of one line."""
RULE = re.compile(r"-{3,}|\*{3,}")
"""A rule of Markdown. A line of underscores may be a row of a board."""


def _without_rules(text: str) -> str | None:
    """Return a text without the rules before its first and after its last line."""
    lines = text.split("\n")
    first = 1 if RULE.fullmatch(lines[0]) else 0
    last = len(lines) - 1 if RULE.fullmatch(lines[-1]) else len(lines)
    return "\n".join(lines[first:last]).strip("\n")


EMPHASIS = re.compile(
    r"(?<![^\s(\[{\"',;:|-])(?P<mark>\*{1,3}|`|\$)(?P<inner>[^\s*`$](?:[^*`$\n]*[^\s*`$])?)(?P=mark)(?![^\s)\]}\"',;:.|])"
)
"""A part in bold, italics, backticks or dollars, with blanks or punctuation on both sides, so that powers are none."""


def _without_emphasis(text: str) -> str | None:
    return EMPHASIS.sub(r"\g<inner>", text)


SIZES = ("tiny", "small", "normalsize", "large", "Large", "LARGE", "huge", "Huge")
SWITCHES = (
    *("displaystyle", "textstyle", "scriptstyle", "bf", "it", "rm", "sf", "tt", "bfseries", "itshape", "centering"),
    *("big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "Biggl", "Biggr"),
    *SIZES,
)
"""Commands of LaTeX that change how the text after them looks."""
FONTS = (
    "text|textbf|textit|texttt|textrm|textsf|textnormal|textup|emph|underline|mbox|hbox|mathrm|mathbf|mathit|mathtt|mathsf"
    "|mathnormal|bold|boldsymbol|bm|pmb|operatorname|ensuremath"
)
"""Commands of LaTeX that change how the text in their braces looks."""
LATEX_SIGNS: Mapping[str, str] = {
    **dict.fromkeys(
        (" ", ",", ";", ":", "quad", "qquad", "enspace", "space", "thinspace", "medspace", "thickspace"), " "
    ),
    **dict.fromkeys(("!", "left", "right", "hline", *SWITCHES), ""),
    **{sign: sign for sign in "#_%&${}"},
    **dict.fromkeys(("times",), "\N{MULTIPLICATION SIGN}"),
    **dict.fromkeys(("cdot",), "\N{DOT OPERATOR}"),
    **dict.fromkeys(("div",), "\N{DIVISION SIGN}"),
    **dict.fromkeys(("rightarrow", "to", "longrightarrow", "Rightarrow", "implies"), "\N{RIGHTWARDS ARROW}"),
    **dict.fromkeys(("leftrightarrow", "Leftrightarrow", "iff", "equiv"), "\N{LEFT RIGHT ARROW}"),
    **dict.fromkeys(("land", "wedge"), "\N{LOGICAL AND}"),
    **dict.fromkeys(("lor", "vee"), "\N{LOGICAL OR}"),
    **dict.fromkeys(("neg", "lnot"), "\N{NOT SIGN}"),
    "therefore": "\N{THEREFORE}",
    "in": "\N{ELEMENT OF}",
    "approx": "\N{ALMOST EQUAL TO}",
    "degree": "\N{DEGREE SIGN}",
}
"""Commands and escapes of LaTeX and the signs that they print. A row ends with two backslashes, which stay."""
LATEX_PART = re.compile(
    rf"\\(?:{FONTS})\{{(?P<inner>[^{{}}\\]*)\}}"
    r"|(?P<degree>\^\s?\{?\s?\\circ\s?\}?)|(?P<prime>\^\{?\\prime\}?)|\\(?P<prefix>neg|lnot)(?![A-Za-z])\s?|\\(?P<sign>[A-Za-z]+|[^A-Za-z])"
)


def _without_latex_signs(text: str) -> str | None:
    def printed(match: re.Match[str]) -> str:
        if match["inner"] is not None:
            return match["inner"]
        if match["degree"]:
            return "\N{DEGREE SIGN}"
        if match["prime"]:
            return "'"
        return LATEX_SIGNS.get(match["prefix"] or match["sign"], match[0])

    if "\\" not in text or text.count("\\{") != text.count("\\}"):
        return None
    return LATEX_PART.sub(printed, text.replace("~\\", " \\")).strip()


PLAIN_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u2033", '"'),
        **dict.fromkeys("\u2010\u2011", "-"),
        **dict.fromkeys([*map(chr, range(0x2000, 0x200B)), "\u00a0", "\u202f", "\u205f", "\u3000"], " "),
        **dict.fromkeys("\ufe0e\ufe0f\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", None),
        **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},
        **{chr(bold): str((bold - 0x1D7CE) % 10) for bold in range(0x1D7CE, 0x1D800)},
    }
)
"""Quotes, hyphens, blanks, full-width characters and mathematical digits, and the ASCII characters that they mean."""
MINUS_BEFORE_NUMBER = re.compile("(?<![\\w.)\\]])\N{EN DASH}(?=[.\\d])")


def _plain_characters(text: str) -> str | None:
    return text.translate(PLAIN_CHARACTERS).strip() if not text.isascii() else None


HTML_SIGNS: Mapping[str, str] = {
    "nbsp": " ",
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "#39": "'",
    "minus": "-",
    "times": "\N{MULTIPLICATION SIGN}",
    "divide": "\N{DIVISION SIGN}",
    "rarr": "\N{RIGHTWARDS ARROW}",
    "deg": "\N{DEGREE SIGN}",
    "not": "\N{NOT SIGN}",
    "and": "\N{LOGICAL AND}",
    "or": "\N{LOGICAL OR}",
}
HTML_PART = re.compile(
    rf"&(?P<sign>{'|'.join(HTML_SIGNS)});|<br\s?/?>|<(?P<place>su[bp])>(?P<inner>-?\d{{1,3}})</su[bp]>"
)


def _without_html_signs(text: str) -> str | None:
    """Return a text with the signs for HTML's names, lines for `<br>`, and `x_1` and `10^5` for small digits."""

    def printed(match: re.Match[str]) -> str:
        if match["sign"]:
            return HTML_SIGNS[match["sign"]]
        return f"{'_' if match['place'] == 'sub' else '^'}{match['inner']}" if match["place"] else "\n"

    return HTML_PART.sub(printed, text).strip() if "&" in text or "<" in text else None


DOUBLED_BACKSLASH = re.compile(r"\$*\\\\(?:boxed|[dt]?frac|text|[(\[])")


def _without_doubled_backslashes(text: str) -> str | None:
    """Return LaTeX of a string in a program, such as `\\\\boxed{5}`, as LaTeX."""
    return text.replace("\\\\", "\\") if DOUBLED_BACKSLASH.match(text) else None


LATEX_COMMANDS = rf"boxed|fbox|framebox|bbox(?:\[[^\[\]]{{0,100}}\])?|num|{FONTS}|(?:text)?color(?:box)?\{{[A-Za-z]+\}}"
TAGS = (
    "b|i|u|em|strong|code|pre|p|span|mark|div|h[1-6]|kbd|samp|tt|li|ul|ol|center|font|big|blockquote"
    "|final|final_answer|result|output|solution|response"
)
"""Tags of HTML that change how a text looks, and tags that name the answer."""
CHECK_MARKS = "\u2705\u2714\u2611\U0001f449\u27a1\U0001f3af\U0001f3c6\u2b50\U0001f389\U0001f4a1\U0001f537\U0001f539"
"""Emoji that point at an answer or praise it. A cross would deny it."""
POINTED_AT = re.compile(
    rf"(?s)(?P<before>[{CHECK_MARKS}]\ufe0f?)?(?P<inner>[^{CHECK_MARKS}]*)(?P<after>[{CHECK_MARKS}]\ufe0f?)?"
)


def _without_check_marks(text: str) -> str | None:
    """Return a text without an emoji before and after it; None where emoji stand in the text, as on a board."""
    match = POINTED_AT.fullmatch(text)
    if match is None or not (match["before"] or match["after"]) or "\u274c" in text:
        return None
    return match["inner"].strip()


DECORATIONS: Mapping[str, Decoration] = {
    "a code fence": Decoration(
        _around(
            r"(?s)(?P<fence>`{3,}|~{3,})[^\S\n]*[\w+-]*[^\S\n]*\n(?P<inner>.*)\n[^\S\n]*(?P=fence)", keeps_blanks=True
        ),
        "```python\n  1 2\n3 4\n```",
        "  1 2\n3 4",
    ),
    "display mathematics": Decoration(_around(r"(?s)\\\[(?P<inner>(?:(?!\\[\[\]]).)*)\\\]"), r"\[ 16 \]", "16"),
    "inline mathematics": Decoration(_around(r"(?s)\\\((?P<inner>(?:(?!\\[()]).)*)\\\)"), r"\( 16 \)", "16"),
    "two dollars": Decoration(_around(r"\$\$(?P<inner>[^$]*)\$\$"), "$$16$$", "16"),
    "a dollar": Decoration(_around(r"\$(?P<inner>[^$]*)\$"), "$16$", "16"),
    "mathematics around a box": Decoration(
        _around(r"(?s)(?:\$\$?|\\\(|\\\[)\s*(?P<inner>\\boxed\{.*\})\s*(?:\$\$?|\\\)|\\\])", has_braces=True),
        r"$\boxed{$16$}$",
        r"\boxed{$16$}",
    ),
    "a LaTeX command": Decoration(
        _around(
            rf"(?s)(?:\\(?:{LATEX_COMMANDS})\s?|\\(?:{'|'.join(SIZES)})|boxed)\{{(?P<inner>.*)\}}", has_braces=True
        ),
        r"\boxed{{1, 2}}",
        "{1, 2}",
    ),
    "a group of LaTeX": Decoration(
        _around(rf"(?s)\{{\s?\\(?:{'|'.join(SWITCHES)})\s(?P<inner>.*)\}}", has_braces=True), r"{\bf 16}", "16"
    ),
    "verbatim text": Decoration(
        _around(r"\\verb(?P<mark>[|!+])(?P<inner>(?:(?!(?P=mark)).)+)(?P=mark)"), r"\verb|16|", "16"
    ),
    "doubled backslashes": Decoration(_without_doubled_backslashes, r"\\boxed{16}", r"\boxed{16}"),
    "an environment of LaTeX": Decoration(
        _around(
            r"(?s)\\begin\{(?P<name>(?:equation|align|gather)\*?|aligned|gathered|(?:display)?math|center|verbatim|quote)\}"
            r"(?P<inner>.*)\\end\{(?P=name)\}"
        ),
        r"\begin{equation}16\end{equation}",
        "16",
    ),
    # A power is written with the sign of bold, but with no blank beside the sign: 2**3 stays.
    "bold": Decoration(
        _around(r"(?s)(?P<mark>\*\*|__|==)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)"),
        "**16**",
        "16",
    ),
    "italics": Decoration(
        _around(r"(?s)(?P<mark>\*|_(?!.*\n))(?P<inner>(?!(?P=mark)|\s)(?:(?!(?P=mark)).)*(?<!\s))(?P=mark)"),
        "*16*",
        "16",
    ),
    # Text of Markdown that is not bold because of its blanks.
    "bold with blanks": Decoration(_around(r"\*\*(?P<inner>(?:(?!\*\*)[^\n])+)\*\*"), "** 16 **", "16"),
    "backticks": Decoration(_around(r"(?P<ticks>`{1,3})(?P<inner>[^`]+)(?P=ticks)"), "``16``", "16"),
    "a string of JSON": Decoration(_decode_string, r'"a \"b\""', 'a "b"'),
    "quotes": Decoration(_unquote, '"16"', "16"),
    "quotes around JSON": Decoration(_without_quotes_around_json, '"["a"]"', '["a"]'),
    "parentheses": Decoration(_without_parentheses, "(16)", "16"),
    "HTML": Decoration(
        _around(
            rf"(?s)<(?P<tag>{TAGS})(?:\s[^<>]{{0,200}})?>"
            r"(?P<inner>(?:(?!</(?P=tag)).)*)</(?P=tag)>"
        ),
        "<b>16</b>",
        "16",
    ),
    "a label": Decoration(_without_label, "**Answer:** 16", "16"),
    "an object of JSON": Decoration(_without_object, '{"answer": 16}', "16"),
    "a heading": Decoration(_around(r"#{1,6}[^\S\n]+(?P<inner>[^\n]+)"), "## 16", "16"),
    "a list mark": Decoration(_around(r"[*\u2022][^\S\n]+(?P<inner>[^\n]+)"), "* 16", "16"),
    # A hyphen may be a sign before a number, a variable, a function, a parenthesis or a list of numbers.
    "a hyphen as list mark": Decoration(
        _around(r"-[^\S\n]+(?P<inner>(?:[A-Za-z]{2}|[\"\u201c`]|\[{1,2}[\"'](?![-\d.]))[^\n()*+/^]*)"), "- True", "True"
    ),
    "an equals sign": Decoration(_around(r"=\s*(?P<inner>[^=\s>][^=]*)"), "= 16", "16"),
    "a variable": Decoration(_without_name, "x = [1, 2]", "[1, 2]"),
    "an arrow": Decoration(
        _around(r"(?s)(?:[-=]>[^\S\n]|[\u2192\u27f6\u21d2\u279c])\s*(?P<inner>.*)"), "\N{RIGHTWARDS ARROW} 16", "16"
    ),
    "a list mark before bold text": Decoration(_around(r"-[^\S\n]+(?P<inner>\*\*[^*\n]+\*\*)"), "- **16**", "**16**"),
    "an emoji": Decoration(_without_check_marks, "\N{WHITE HEAVY CHECK MARK} 16", "16"),
    "an array of numpy": Decoration(
        _around(r"(?s)(?:(?:np|numpy)\.)?(?:array|[mM]atrix)\((?P<inner>[\[(].*[\])])(?:,\s?dtype=[\w.]{1,20})?\)"),
        "np.array([1, 2])",
        "[1, 2]",
    ),
    "a call of Python": Decoration(_without_call, "int(16)", "16"),
    "a fraction of Python": Decoration(_without_fraction_call, "Fraction(3, 4)", "3/4"),
    "a statement of Python": Decoration(_around(r"return\s+(?P<inner>[^\n]+)"), "return 16", "16"),
    "a dash as minus": Decoration(lambda text: MINUS_BEFORE_NUMBER.sub("-", text), "\N{EN DASH}5", "-5"),
    "a therefore sign": Decoration(
        _around(r"(?s)(?:\N{THEREFORE}|\\therefore\b)\s*(?P<inner>.*)"), "\N{THEREFORE} P", "P"
    ),
    "a line break of LaTeX": Decoration(_around(r"(?s)(?P<inner>.*\S)\s*\\\\"), r"16 \\", "16"),
    FULL_STOP: Decoration(_without_full_stop, "16.", "16"),
    "rules": Decoration(_without_rules, "---\n1 2\n3 4\n---", "1 2\n3 4"),
    "quoted lines": Decoration(_without_quotation, "> 1 2\n> 3 4", "1 2\n3 4"),
    "numbered lines": Decoration(_without_line_numbers, "1. up\n2. down", "up\ndown"),
    "bulleted lines": Decoration(_without_bullets, "- up\n- down", "up\ndown"),
    "emphasis of parts": Decoration(_without_emphasis, "**Ann** is `one`", "Ann is one"),
    "LaTeX's signs": Decoration(
        _without_latex_signs, r"\text{A} \rightarrow \neg B", "A \N{RIGHTWARDS ARROW} \N{NOT SIGN}B"
    ),
    "a sign in braces": Decoration(lambda text: text.replace("{-}", "-"), "{-}16", "-16"),
    "HTML's signs": Decoration(_without_html_signs, "1.6 &times; 10<sup>3</sup>", "1.6 \N{MULTIPLICATION SIGN} 10^3"),
    "Unicode's quotes and blanks": Decoration(_plain_characters, "R\u2019\u00a0U", "R' U"),
    "brackets": Decoration(
        _around(r"(?:\[|(?P<brace>\{))(?P<inner>[^\[\]{}(),;:\"'\n]+)(?(brace)\}|\])"), "[16]", "16"
    ),
}
"""Decorations of answers, by name. The first that an answer has is taken off."""
