"""Simplify LaTeX, Markdown and look-alike Unicode characters in answers, and count nested brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping

CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\ufe63\uff0d\u2010\u2011", "-"),
        **dict.fromkeys("\u2018\u2019\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u2033", '"'),
        **dict.fromkeys("\u00ba\u02da", "\N{DEGREE SIGN}"),
        **dict.fromkeys("\u27f6\u21d2\u279c", "\N{RIGHTWARDS ARROW}"),
        **dict.fromkeys([*map(chr, range(0x2000, 0x200B)), "\u00a0", "\u202f", "\u205f", "\u3000"], " "),
        **dict.fromkeys("\ufe0e\ufe0f\u00ad\u200b\u200c\u200d\u2060\ufeff", None),
        # Marks of the writing direction. The overrides U+202D and U+202E change how an answer looks, so they stay.
        **dict.fromkeys("\u061c\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069", None),
        "\u3001": ", ",  # with a space, because this comma never separates thousands
        **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F) if wide != 0xFF0D},
        **{chr(bold): str((bold - 0x1D7CE) % 10) for bold in range(0x1D7CE, 0x1D800)},
    }
)
"""Replaces look-alikes, such as typographic quotes, by simple characters. Removes invisible characters."""
FONTS = (
    "fbox|text|textbf|textit|texttt|textrm|textsf|textnormal|textup|emph|underline|mbox|hbox|mathrm|mathbf|mathit|mathtt|mathsf"
    "|mathnormal|bold|boldsymbol|bm|pmb|operatorname|ensuremath"
)
"""LaTeX commands that format the content of their braces. The content stays."""
SWITCHES = (
    "displaystyle|textstyle|scriptstyle|bfseries|itshape|centering|bf|it|rm|sf|tt|tiny|small|normalsize|large|Large|LARGE"
    "|huge|Huge|[bB]ig{1,2}[lr]?"
)
"""LaTeX commands that format everything after them. They are removed."""
LATEX_SIGNS: Mapping[str, str] = {
    **dict.fromkeys((" ", ",", ";", ":", "enspace", "space", "thinspace", "medspace", "thickspace"), " "),
    **dict.fromkeys(("quad", "qquad"), "  "),  # a single space may be a thousands separator
    **{name: f" {name}" for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "exp", "ln", "log", "sqrt")},
    **dict.fromkeys(("!", "left", "right", "hline"), ""),
    **{sign: sign for sign in "#_%&${}()*"},  # Markdown escapes asterisks: 2\*3
    "times": "\N{MULTIPLICATION SIGN}",
    "cdot": "\N{DOT OPERATOR}",
    "div": "\N{DIVISION SIGN}",
    **dict.fromkeys(("rightarrow", "to", "longrightarrow", "Rightarrow", "implies"), "\N{RIGHTWARDS ARROW}"),
    **dict.fromkeys(("leftrightarrow", "Leftrightarrow", "iff", "equiv"), "\N{LEFT RIGHT ARROW}"),
    **dict.fromkeys(("land", "wedge"), "\N{LOGICAL AND}"),
    **dict.fromkeys(("lor", "vee"), "\N{LOGICAL OR}"),
    **dict.fromkeys(("neg", "lnot"), "\N{NOT SIGN}"),
    "therefore": "\N{THEREFORE}",
    "in": "\N{ELEMENT OF}",
    "approx": "\N{ALMOST EQUAL TO}",
    "degree": "\N{DEGREE SIGN}",
    "angle": "\N{ANGLE}",
}
"""LaTeX commands and escapes, and the characters that they print. Two backslashes end a row and are kept."""
LATEX_PART = re.compile(
    rf"\\(?:{FONTS})\{{(?P<inner>[^{{}}\\]*)\}}|\\(?P<switch>{SWITCHES})(?![A-Za-z])\s?"
    r"|(?P<degree>\^\s?\{?\s?\\circ\s?\}?)|(?P<prime>\^\{?\\prime\}?)"
    r"|\\(?P<prefix>neg|lnot)(?![A-Za-z])\s?|\\(?P<sign>[A-Za-z]+|[^A-Za-z])"
)
LATEX_FRACTION = re.compile(
    r"\\[cdt]?frac(?:\s?\{(?P<up>(?:[^{}]|\{[^{}]*\})*+)\}\s?\{(?P<down>(?:[^{}]|\{[^{}]*\})*+)\}"
    r"|\s?(?P<over>\d)\s?(?P<under>\d))"
)
DOUBLED_BACKSLASH = re.compile(r"\\\\(?=(?:boxed|[dt]?frac|text|[(\[])[{(\[\w])")
"""Two backslashes before a command, as in a string of source code: `\\\\boxed{5}`."""
WHOLE_FONT = re.compile(rf"\\(?:{FONTS})\{{")
BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
"""A brace, or an escaped character such as `\\{`."""
MAX_NESTED = 4
"""Maximum number of nested LaTeX commands that are replaced. `\\text{\\textbf{yes}}` has two."""
EMPHASIS = re.compile(
    r"(?<![^\s(\[{\"',;:|-])(?P<mark>\*{1,3}|`|\$)(?P<inner>[^\s*`$](?:[^*`$\n]*[^\s*`$])?)(?P=mark)(?![^\s)\]}\"',;:.|])"
)
"""Text in bold, italics, backticks or dollar signs, between spaces or punctuation. So 2**3**4 does not match."""
EN_DASH_AS_MINUS = re.compile("(?<![\\w.)\\]] )(?<![\\w.)\\]])\N{EN DASH}(?=[.\\d])")
NO_MARKUP = re.compile(r"[A-Za-z0-9 \n,.:+/()\[\]-]*")


def without_markup(text: str) -> str:
    """Replace Unicode look-alikes, LaTeX and Markdown: `\\frac{3}{4}` becomes `((3)/(4))`, `so **5**` becomes `so 5`.

    Takes linear time.
    """
    if NO_MARKUP.fullmatch(text):
        return text
    if not text.isascii():
        text = EN_DASH_AS_MINUS.sub("-", text.translate(CHARACTERS))
    if "\\" in text:
        text = _without_latex(text)
    if EMPHASIS.fullmatch(text) is None:  # emphasis around the whole answer is a frame
        text = EMPHASIS.sub(r"\g<inner>", text)
    return text.replace("{-}", "-").strip()


def _without_latex(text: str) -> str:
    text = _without_box(DOUBLED_BACKSLASH.sub(r"\\", text))
    if text.count("\\{") != text.count("\\}"):
        return text
    text = text.replace("~\\", " \\")  # in LaTeX `~` is a non-breaking space; without LaTeX, `~` is a logical operator
    for _ in range(MAX_NESTED):
        fractions = LATEX_FRACTION.sub(r"((\g<up>\g<over>)/(\g<down>\g<under>))", text)
        printed = LATEX_PART.sub(_printed, fractions)
        if printed == text:
            break
        text = printed
    return text


def _without_box(text: str) -> str:
    """Remove font commands around the whole string, and `\\boxed{}`: `\\boxed{\\text{5}}` becomes `5`.

    Keep `\\boxed{}` if it occurs several times, or if a letter or digit is next to it.
    """
    for _ in range(MAX_NESTED):
        font = WHOLE_FONT.match(text)
        if font is not None and _closing_brace(text[font.end() :]) == len(text) - font.end() - 1:
            text = text[font.end() : -1].strip()
            continue
        before, _, rest = text.partition("\\boxed{")
        end = _closing_brace(rest)
        if end < 0 or "\\boxed" in rest or before[-1:].isalnum() or rest[end + 1 : end + 2].isalnum():
            break
        text = f"{before}{rest[:end].strip()}{rest[end + 1 :]}"
    return text


def _closing_brace(text: str) -> int:
    """Return the position in `text` of the brace that closes an opening brace before `text`; -1 if there is none."""
    depth = 1
    for match in BRACE.finditer(text):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return -1


def nesting_depth(text: str, opening: str = "([{\uff08\uff3b\uff5b", closing: str = ")]}\uff09\uff3d\uff5d") -> int:
    """Return the highest number of brackets that are open at the same time. Brackets of all kinds count alike."""
    depth = deepest = 0
    for bracket in re.findall(f"[{re.escape(opening + closing)}]", text):
        depth = depth + 1 if bracket in opening else max(depth - 1, 0)  # a surplus closing bracket closes nothing
        deepest = max(deepest, depth)
    return deepest


def _printed(match: re.Match[str]) -> str:
    if match["inner"] is not None:
        return match["inner"]
    if match["switch"]:
        return ""
    if match["degree"]:
        return "\N{DEGREE SIGN}"
    if match["prime"]:
        return "'"
    return LATEX_SIGNS.get(match["prefix"] or match["sign"], match[0])
