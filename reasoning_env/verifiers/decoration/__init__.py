"""Take decoration off an answer: text around the whole answer, and marks of type, which say nothing.

`DECORATIONS` holds every decoration with an example, the same for all tasks. Nothing is searched for: a decoration
encloses or precedes the whole answer, or marks its parts. Text beside the answer stays, and counts against the answer.
Each decoration takes linear time. Nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .brackets import TakeOff, around
from .labels import without_label, without_name, without_object
from .lines import (
    without_bullets,
    without_check_marks,
    without_emphasis,
    without_full_stop,
    without_line_numbers,
    without_quotation,
    without_rules,
)
from .quotes import (
    decoded_string,
    without_call,
    without_fraction_call,
    without_parentheses,
    without_quotes,
    without_quotes_around_json,
)
from .signs import (
    ATTRIBUTES,
    HTML_TAGS,
    LANGUAGES,
    LATEX_COMMANDS,
    MINUS_BEFORE_NUMBER,
    SIZES,
    SWITCHES,
    plain_characters,
    without_doubled_backslashes,
    without_html_signs,
    without_latex_signs,
)


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
UNDECORATED = re.compile("(?!return )[A-Za-z0-9 ]*")
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
    if UNDECORATED.fullmatch(text):
        return None
    for name, decoration in DECORATIONS.items():
        if name == FULL_STOP and not strip_full_stop and not AFTER_MARK.search(text):
            continue
        inner = decoration.take_off(text)
        if inner is not None and inner.strip() and inner != text:
            return inner
    return None


AFTER_MARK = re.compile(r"[}*$`\"'\])>]\.$")
"""A full stop after the end of a decoration."""
DECORATIONS: Mapping[str, Decoration] = {
    "a code fence": Decoration(
        around(
            rf"(?s)(?P<fence>`{{3,}}|~{{3,}})[^\S\n]*(?i:{LANGUAGES})?[^\S\n]*\n(?P<inner>.*)\n[^\S\n]*(?P=fence)",
            keeps_blanks=True,
        ),
        "```python\n  1 2\n3 4\n```",
        "  1 2\n3 4",
    ),
    "display mathematics": Decoration(around(r"(?s)\\\[(?P<inner>(?:(?!\\[\[\]]).)*)\\\]"), r"\[ 16 \]", "16"),
    "inline mathematics": Decoration(around(r"(?s)\\\((?P<inner>(?:(?!\\[()]).)*)\\\)"), r"\( 16 \)", "16"),
    "two dollars": Decoration(around(r"\$\$(?P<inner>[^$]*)\$\$"), "$$16$$", "16"),
    "a dollar": Decoration(around(r"\$(?P<inner>[^$]*)\$"), "$16$", "16"),
    "mathematics around a box": Decoration(
        around(r"(?s)(?:\$\$?|\\\(|\\\[)\s*(?P<inner>\\boxed\{.*\})\s*(?:\$\$?|\\\)|\\\])", has_braces=True),
        r"$\boxed{$16$}$",
        r"\boxed{$16$}",
    ),
    "a LaTeX command": Decoration(
        around(rf"(?s)(?:\\(?:{LATEX_COMMANDS})\s?|\\(?:{'|'.join(SIZES)})|boxed)\{{(?P<inner>.*)\}}", has_braces=True),
        r"\boxed{{1, 2}}",
        "{1, 2}",
    ),
    "a group of LaTeX": Decoration(
        around(rf"(?s)\{{\s?\\(?:{'|'.join(SWITCHES)})\s(?P<inner>.*)\}}", has_braces=True), r"{\bf 16}", "16"
    ),
    "verbatim text": Decoration(
        around(r"\\verb(?P<mark>[|!+])(?P<inner>(?:(?!(?P=mark)).)+)(?P=mark)"), r"\verb|16|", "16"
    ),
    "doubled backslashes": Decoration(without_doubled_backslashes, r"\\boxed{16}", r"\boxed{16}"),
    "an environment of LaTeX": Decoration(
        around(
            r"(?s)\\begin\{(?P<name>(?:equation|align|gather)\*?|aligned|gathered|(?:display)?math|center|verbatim|quote)\}"
            r"(?P<inner>.*)\\end\{(?P=name)\}"
        ),
        r"\begin{equation}16\end{equation}",
        "16",
    ),
    # A power is written with the sign of bold, but with no blank beside the sign: 2**3 stays.
    "bold": Decoration(
        around(r"(?s)(?P<mark>\*\*|__|==)(?P<inner>(?:(?!(?P=mark)\s|\s(?P=mark)|(?P=mark)(?P=mark)).)+)(?P=mark)"),
        "**16**",
        "16",
    ),
    "italics": Decoration(
        around(r"(?s)(?P<mark>\*|_(?!.*\n))(?P<inner>(?!(?P=mark)|\s)(?:(?!(?P=mark)).)*(?<!\s))(?P=mark)"),
        "*16*",
        "16",
    ),
    # Text of Markdown that is not bold because of its blanks.
    "bold with blanks": Decoration(around(r"\*\*(?P<inner>(?:(?!\*\*)[^\n])+)\*\*"), "** 16 **", "16"),
    "backticks": Decoration(around(r"(?P<ticks>`{1,3})(?P<inner>[^`]+)(?P=ticks)"), "``16``", "16"),
    "a string of JSON": Decoration(decoded_string, r'"a \"b\""', 'a "b"'),
    "quotes": Decoration(without_quotes, '"16"', "16"),
    "quotes around JSON": Decoration(without_quotes_around_json, '"["a"]"', '["a"]'),
    "parentheses": Decoration(without_parentheses, "(16)", "16"),
    "HTML": Decoration(
        around(
            rf"(?s)<(?P<tag>{HTML_TAGS}){ATTRIBUTES}\s?>"
            r"(?P<inner>(?:(?!</(?P=tag)).)*)</(?P=tag)>"
        ),
        "<b>16</b>",
        "16",
    ),
    "a label": Decoration(without_label, "**Answer:** 16", "16"),
    "an object of JSON": Decoration(without_object, '{"answer": 16}', "16"),
    "a heading": Decoration(around(r"#{1,6}[^\S\n]+(?P<inner>\S[^\n]*)"), "## 16", "16"),
    "a list mark": Decoration(around(r"[*\u2022][^\S\n]+(?P<inner>\S[^\n]*)"), "* 16", "16"),
    # A hyphen may be a sign before a number, a variable, a function, a parenthesis or a list of numbers.
    "a hyphen as list mark": Decoration(
        around(r"-[^\S\n]+(?P<inner>(?:[A-Za-z]{2}|[\"\u201c`]|\[{1,2}[\"'](?![-\d.]))[^\n()*+/^]*)"),
        "- True",
        "True",
    ),
    "an equals sign": Decoration(around(r"=\s*(?P<inner>[^=\s>][^=]*)"), "= 16", "16"),
    "a variable": Decoration(without_name, "x = [1, 2]", "[1, 2]"),
    "an arrow": Decoration(
        around(r"(?s)(?:[-=]>[^\S\n]|[\u2192\u27f6\u21d2\u279c])\s*(?P<inner>.*)"), "\N{RIGHTWARDS ARROW} 16", "16"
    ),
    "a list mark before bold text": Decoration(around(r"-[^\S\n]+(?P<inner>\*\*[^*\n]+\*\*)"), "- **16**", "**16**"),
    "an emoji": Decoration(without_check_marks, "\N{WHITE HEAVY CHECK MARK} 16", "16"),
    "an array of numpy": Decoration(
        around(
            r"(?s)(?:(?:np|numpy)\.)?(?:array|[mM]atrix)\((?P<inner>[\[(].*[\])])"
            r"(?:,\s?dtype=(?:np\.|numpy\.)?(?:object_?|float(?:64)?|str_?))?\)"
        ),
        "np.array([1, 2])",
        "[1, 2]",
    ),
    # Another type changes the values: 20.4 becomes 20.
    "an array of whole numbers": Decoration(
        around(
            r"(?:(?:np|numpy)\.)?(?:array|[mM]atrix)\((?P<inner>[\[(][-\d\s,\[\]()]*[\])])"
            r",\s?dtype=(?:np\.|numpy\.)?int(?:32|64)?\)"
        ),
        "np.array([1, 2], dtype=int)",
        "[1, 2]",
    ),
    "a call of Python": Decoration(without_call, "int(16)", "16"),
    "a fraction of Python": Decoration(without_fraction_call, "Fraction(3, 4)", "3/4"),
    "a statement of Python": Decoration(around(r"return\s+(?P<inner>\S[^\n]*)"), "return 16", "16"),
    "a dash as minus": Decoration(lambda text: MINUS_BEFORE_NUMBER.sub("-", text), "\N{EN DASH}5", "-5"),
    "a therefore sign": Decoration(
        around(r"(?s)(?:[\u2234\u22a2\u22a8]|\\(?:therefore|vdash|models)\b)\s*(?P<inner>.*)"), "\N{THEREFORE} P", "P"
    ),
    "a line break of LaTeX": Decoration(around(r"(?s)(?P<inner>.*\S)\s*\\\\"), r"16 \\", "16"),
    FULL_STOP: Decoration(without_full_stop, "16.", "16"),
    "rules": Decoration(without_rules, "---\n1 2\n3 4\n---", "1 2\n3 4"),
    "quoted lines": Decoration(without_quotation, "> 1 2\n> 3 4", "1 2\n3 4"),
    "numbered lines": Decoration(without_line_numbers, "1. up\n2. down", "up\ndown"),
    "bulleted lines": Decoration(without_bullets, "- up\n- down", "up\ndown"),
    "emphasis of parts": Decoration(without_emphasis, "**Ann** is `one`", "Ann is one"),
    "LaTeX's signs": Decoration(
        without_latex_signs, r"\text{A} \rightarrow \neg B", "A \N{RIGHTWARDS ARROW} \N{NOT SIGN}B"
    ),
    "a sign in braces": Decoration(lambda text: text.replace("{-}", "-"), "{-}16", "-16"),
    "HTML's signs": Decoration(without_html_signs, "1.6 &times; 10<sup>3</sup>", "1.6 \N{MULTIPLICATION SIGN} 10^3"),
    "Unicode's quotes and blanks": Decoration(plain_characters, "R\u2019\u00a0U", "R' U"),
    "brackets": Decoration(
        around(r"(?:\[|(?P<brace>\{))(?![^\n]*\d\s\d)(?P<inner>[^\[\]{}(),;:\"'\n]+)(?(brace)\}|\])"), "[16]", "16"
    ),
}
"""Decorations of answers, by name. The first that an answer has is taken off."""
