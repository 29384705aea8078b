"""Read the signs of LaTeX, HTML and Unicode as plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping

SIZES = ("tiny", "small", "normalsize", "large", "Large", "LARGE", "huge", "Huge")
SWITCHES = (
    "displaystyle",
    "textstyle",
    "scriptstyle",
    "bf",
    "it",
    "rm",
    "sf",
    "tt",
    "bfseries",
    "itshape",
    "centering",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
    "biggl",
    "biggr",
    "Biggl",
    "Biggr",
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


def without_latex_signs(text: str) -> str | None:
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
    with_blanks = text.replace("~\\", " \\")  # a blank where no line may break; elsewhere `~` is a sign of logic
    return LATEX_PART.sub(printed, with_blanks).strip()


PLAIN_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u2032\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u2033", '"'),
        **dict.fromkeys("\u2010\u2011", "-"),
        **dict.fromkeys("\u00ba\u02da", "\N{DEGREE SIGN}"),
        **dict.fromkeys([*map(chr, range(0x2000, 0x200B)), "\u00a0", "\u202f", "\u205f", "\u3000"], " "),
        **dict.fromkeys("\ufe0e\ufe0f\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", None),
        **{chr(wide): chr(wide - 0xFEE0) for wide in range(0xFF01, 0xFF5F)},
        **{chr(bold): str((bold - 0x1D7CE) % 10) for bold in range(0x1D7CE, 0x1D800)},
    }
)
"""Quotes, hyphens, blanks, full-width characters and mathematical digits, and the ASCII characters that they mean."""
MINUS_BEFORE_NUMBER = re.compile("(?<![\\w.)\\]])\N{EN DASH}(?=[.\\d])")


def plain_characters(text: str) -> str | None:
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


def without_html_signs(text: str) -> str | None:
    """Return a text with the signs for HTML's names, lines for `<br>`, and `x_1` and `10^5` for small digits."""

    def printed(match: re.Match[str]) -> str:
        if match["sign"]:
            return HTML_SIGNS[match["sign"]]
        return f"{'_' if match['place'] == 'sub' else '^'}{match['inner']}" if match["place"] else "\n"

    return HTML_PART.sub(printed, text).strip() if "&" in text or "<" in text else None


DOUBLED_BACKSLASH = re.compile(r"\$*\\\\(?:boxed|[dt]?frac|text|[(\[])")


def without_doubled_backslashes(text: str) -> str | None:
    """Return LaTeX of a string in a program, such as `\\\\boxed{5}`, as LaTeX."""
    return text.replace("\\\\", "\\") if DOUBLED_BACKSLASH.match(text) else None


COLOUR_WORDS = (
    "red|blue|green|black|gray|grey|orange|purple|brown|cyan|magenta|teal|violet|pink|yellow|lime|olive|navy|maroon|gold"
    "|darkgreen|darkblue|darkred|lightgreen|lightblue|lightgray|lightyellow|ForestGreen|RoyalBlue"
)
"""Names of colours, without white, which hides a text."""
BOX_OPTION = rf"(?:\d{{1,2}}(?:px|pt|em)|border:\s?\d{{1,2}}px solid(?: (?:{COLOUR_WORDS}))?|{COLOUR_WORDS})"
LATEX_COMMANDS = (
    rf"boxed|fbox|framebox|bbox(?:\[{BOX_OPTION}(?:,\s?{BOX_OPTION}){{0,3}}\])?|num|{FONTS}"
    rf"|(?:text)?color\{{(?:{COLOUR_WORDS})\}}|colorbox\{{(?!black)(?:{COLOUR_WORDS})\}}"
)
LANGUAGES = (
    "text|txt|plain|plaintext|raw|ascii|code|output|answer|result|console|bash|sh|shell|python3?|py|json|csv|xml|html"
    "|yaml|latex|tex|math|markdown|md|matlab|julia|javascript|js|java|c|cpp|rust|go|sql|bf|brainfuck|grid|matrix"
)
"""Languages of code fences; another word there may say something."""
CLASS = (
    "(?:final|correct|boxed|box|math|text|code|highlight|bold|center|large|tex|latex|answer|result|solution|output)"
    "(?:-?(?:answer|result|text|inline|block|center|box))?"
)
"""A class that says nothing but that the text is the answer, or how it looks: `final-answer`, `highlight`."""
DARK = r"#(?:[0-9]\w{5}|\w{2}[0-9]\w{3}|\w{4}[0-9]\w|[0-9]\w\w|\w[0-9]\w|\w\w[0-9])"
"""A colour that shows on white: at least one of red, green and blue is not bright."""
ATTRIBUTES = (
    rf"(?:\s(?:class|id)=\"{CLASS}(?: {CLASS}){{0,3}}\""
    rf"|\s(?:align|size|color)=\"(?:center|left|right|[1-7]|{DARK})\""
    rf"|\s(?:color|style)=\"(?:(?:color|background(?:-color)?):\s?)?(?:{COLOUR_WORDS});?\""
    r"|\sstyle=\"(?:font-weight:\s?bold|font-size:\s?(?:[1-9]\d{1,2}(?:px|pt|%)|[1-9](?:\.\d)?em)|text-align:\s?center);?\"){0,5}"
)
"""Attributes of HTML that say nothing about the text: names, colours, sizes and places."""
HTML_TAGS = (
    "b|i|u|em|strong|code|pre|p|span|mark|div|h[1-6]|kbd|samp|tt|li|ul|ol|center|font|big|blockquote"
    "|final|final_answer|result|output|solution|response"
)
"""Tags of HTML that change how a text looks, and tags that name the answer."""
