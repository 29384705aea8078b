"""Decoration of the whole answer is taken off; text beside the answer stays."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning_env.verifiers.decoration import DECORATIONS, FULL_STOP, undecorated
from tests.workers.hostile import TABLES

TEXTS = [text for table in TABLES.values() for text in table.values()]
FORMS = (
    "```\n{}\n```",
    "```json\n{}\n```",
    "\\boxed{{{}}}",
    "$\\boxed{{{}}}$",
    "**{}**",
    "__{}__",
    "*{}*",
    "***{}***",
    "`{}`",
    "**`{}`**",
    "\\[{}\\]",
    "\\[\n\\boxed{{{}}}\n\\]",
    "$${}$$",
    "${}$",
    "\\({}\\)",
    "\\boxed{{\\text{{{}}}}}",
    '"{}"',
    "\u201c{}\u201d",
    "({})",
    "= {}",
    "<b>{}</b>",
)
PLAIN = st.text(st.sampled_from("abcXYZ 0123456789:;-/+"), min_size=1).filter(
    lambda text: text.strip() and text.strip()[0].isalnum()
)


def last(answer: str, *, strip_full_stop: bool = True) -> str:
    """Return an answer without all its decoration."""
    return [*undecorated(answer, strip_full_stop=strip_full_stop)][-1]


@pytest.mark.parametrize("name", DECORATIONS)
def test_example(name: str) -> None:
    decoration = DECORATIONS[name]
    assert decoration.take_off(decoration.example) == decoration.reading


@pytest.mark.parametrize("name", DECORATIONS)
def test_example_has_one_reading(name: str) -> None:
    """An example shows its own decoration and no decoration that comes before it in the table."""
    example = DECORATIONS[name].example
    first = next(other for other in DECORATIONS if DECORATIONS[other].take_off(example) not in (None, example))
    assert first == name


@given(PLAIN, st.sampled_from(FORMS))
def test_decoration_taken_off(answer: str, form: str) -> None:
    assert answer.strip() in undecorated(form.format(answer.strip()), strip_full_stop=True)


@pytest.mark.parametrize(
    ("answer", "reading"),
    [
        ("\N{MINUS SIGN}5", "-5"),
        ("**\N{EN DASH}5**", "-5"),
        ("\\boxed {5}", "5"),
        ("\\begin{align*}\nx = 5\n\\end{align*}", "5"),
        ("<mark>5</mark>", "5"),
        ("***1 2\n3 4***", "1 2\n3 4"),
        ("1 2 \r\n3 4\t\r\n", "1 2\n3 4"),
        ("42.", "42"),
        ("**2*x**3 + x**2**", "2*x**3 + x**2"),
        ("```\n 1 2\n 3 4\n```", " 1 2\n 3 4"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ('**"16".**', "16"),
        ('$\\boxed{\\text{"16"}}$', "16"),
        ("***16***", "16"),
        ('- ["a", "b"]', '["a", "b"]'),
        ("x = np.array([[1, 2], [3, 4]])", "[[1, 2], [3, 4]]"),
        ("F(x) = x**2", "x**2"),
        ("$\\therefore \\neg P$", "\N{NOT SIGN}P"),
        ("16.91^{\\circ}", "16.91\N{DEGREE SIGN}"),
        ("1. **Ann** is an angel\n2. **Bob** is a devil", "Ann is an angel\nBob is a devil"),
        ('\\boxed{{"s": "}"}}', '{"s": "}"}'),
        ("x = True", "True"),
        ("Result = 5", "5"),
        ("**Final Answer:** $\\boxed{5}$", "5"),
        ("### Answer\n1 2\n3 4", "1 2\n3 4"),
        ("__Answer:__ 5", "5"),
        ("My answer: 5", "5"),
        ("The final answer: **5**", "5"),
        ("<ul><li>5</li></ul>", "5"),
        ("-> 5", "5"),
        ("**Answer:** 5\n\n---", "5"),
        ('```json\n{"answer": "1 2\\n3 4"}\n```', "1 2\n3 4"),
        ("{'final_answer': [1, 2]}", "[1, 2]"),
        ('print("a b")', "a b"),
        ("np.int64(5)", "5"),
        ("bool(True)", "True"),
        ("Rational(3, 4)", "3/4"),
        ("$\\Large \\mathbf{5}$", "5"),
        ("{\\bf 5}", "5"),
        ("\\textcolor{red}{5}", "5"),
        ("$$\\\\boxed{5}$$", "5"),
        ("\\boxed{5} \\\\", "5"),
        ('<div class="answer"><b>5</b></div><br>', "5"),
        ("&nbsp;1 &times; 10<sup>5</sup>", "1 \N{MULTIPLICATION SIGN} 10^5"),
        ("\uff11\uff12\u200b", "12"),
        ("(\N{EN DASH}5, \N{EN DASH}6)", "-5, -6"),
        ("\N{FULLWIDTH HYPHEN-MINUS}5", "-5"),
        ('"\\neg P"', "\N{NOT SIGN}P"),
        ("5\N{IDEOGRAPHIC FULL STOP}", "5"),
        ("=> 5", "5"),
        ("> **5**", "5"),
        ("The final answer is: **5**", "5"),
        ("**Answer is:** 5", "5"),
        ("Answer \u2014 5", "5"),
        ("Answer => 5", "5"),
        ("Answer - yes", "yes"),
        ("Ans. 5", "5"),
        ("5 \u2713", "5"),
        ("Answer \u2013 yes", "yes"),
        ("Path: up", "up"),
        ("\u6700\u7ec8\u7b54\u6848\uff1a5", "5"),
        ("Die Antwort ist: 5", "5"),
        ('<span style="color:red">5</span>', "5"),
        ('<p style="text-align: center;">5</p>', "5"),
        ("```Python\n5\n```", "5"),
        ("Respuesta: 5", "5"),
        ("Sorted list: [1, 2]", "[1, 2]"),
        ("\\bbox[5px]{5}", "5"),
        ("\\colorbox{yellow}{5}", "5"),
        ("<final_answer>5</final_answer>", "5"),
        ("\U0001f449 **5** \u2705", "5"),
        ("5 \u2714\ufe0f", "5"),
        ("- **5**", "5"),
        ("- `5`", "5"),
        ("${-}5$", "-5"),
        ("5~\\text{legs}", "5 legs"),
        ('"["a", "b"]"', '["a", "b"]'),
        ('{"answer": "["a", "b"]"}', '["a", "b"]'),
        ('{"answer": "1 2\n3 4"}', "1 2\n3 4"),
        ("Row 1: 1 2\nRow 2: 3 4", "1 2\n3 4"),
        ("{5}", "5"),
    ],
)
def test_reading(answer: str, reading: str) -> None:
    assert last(answer) == reading


@pytest.mark.parametrize(
    "answer",
    [
        "2**3**2",
        "2 ** 3 ** 2",
        "(2)**x**(3)",
        "\\boxed{4} \\boxed{5}",
        "it is \\boxed{4}",
        "```\n4\n``` 5",
        "4...",
        ".",
        "``",
        "****",
        "\\boxed{}",
        "```\n\n```",
        "__init__ and __x__",
        "\\[4\\] \\[5\\]",
        '"4" or "5"',
        '"4", "5"',
        "'4' '5'",
        "(4) or (5)",
        "(4)(5)",
        "- 4",
        "- 4\n- 5",
        "- [1, 2]",
        "- [[1, 2], [3, 4]]",
        "- ['1', '2']",
        "- sin(x)",
        "- x",
        "- (P)",
        "- P",
        "> 4",
        "!= 4",
        "== 4",
        "not = 4",
        "x = 4, y = 5",
        "False = True",
        "x = a = b",
        "a = True",
        "False = [1, 2]",
        "C8 = J7",
        "up = right up",
        "Saturday = 28",
        "P = \N{NOT SIGN}Q",
        "> True",
        "4 = 5",
        "<b>4</b> <b>5</b>",
        "#4",
        "1. 4",
        "1. 4\n3. 5",
        "[4, 5]",
        "{4, 5}",
        "[4}",
        "[4] [5]",
        "4!",
        "\N{NOT EQUAL TO} 4",
        "the answer is 4",
        "The final answer is 4",
        "Answer - 4",
        "A: 4, B: 5",
        "A: 4",
        "PATH \u2192 up",
        "LIST\nup",
        "value - up",
        "wrong_answer = 4",
        "not_x = 4",
        "minus = 4",
        "twice = 4",
        "lcm = 4",
        "<b not>4</b>",
        "<b or 5>4</b>",
        '<result correct="false">4</result>',
        '<span style="text-decoration:line-through">4</span>',
        '<div class="wrong">4</div>',
        "<p hidden>4</p>",
        "\\bbox[5]{4}",
        "\\textcolor{not}{4}",
        "\\textcolor{white}{4}",
        "[3 355]",
        "{3 355}",
        "(3,355)",
        "4 \u27a1",
        '{"total": 4}',
        "wrong grid: 4",
        "\u274c 4",
        "\u2705 4 \u274c 5",
        "4 \u2705 5",
        "> 4 <",
        "** 4 ** 5 **",
        "<del>4</del>",
        "not answer: 4",
        "wrong answer: 4",
        "answer != 4",
        '{"answer": 4, "other": 5}',
        '{"answer": 4} {"answer": 5}',
        '{"wrong": 4}',
        '{"answer": not 4}',
        "int(4.5)",
        "int(4) + 1",
        "print(4) or print(5)",
        "bool('False')",
        "sorted([4, 3])",
        "Fraction(4, 3) + 1",
        "<s>4</s>",
        "~~4~~",
        "\\cancel{4}",
        "\\overline{4}",
        "return4",
    ],
)
def test_text_beside_answer(answer: str) -> None:
    assert last(answer) == answer


@pytest.mark.parametrize(
    ("answer", "reading"),
    [
        ("**4** or **5**", "4 or 5"),
        ("\\text{4} or 5", "4 or 5"),
        ("`4` `5`", "4 5"),
        ("$4$ $5$", "4 5"),
        ("$4 or $5", "$4 or $5"),
        ("\\neq 4", "\\neq 4"),
        ("> $4$", "> 4"),
        ("```not\n4\n```", "not\n4"),
        ("```5\n4\n```", "5\n4"),
    ],
)
def test_marks_of_parts(answer: str, reading: str) -> None:
    """The marks of parts go, and all parts stay."""
    assert last(answer) == reading


def test_full_stop_stays() -> None:
    assert last("**The end.**", strip_full_stop=False) == "The end."
    assert last("\\boxed{The end.}.", strip_full_stop=False) == "The end."
    assert FULL_STOP in DECORATIONS


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@given(st.text(st.sampled_from("`*_$~\"'()=#.\r\n- 5ab")))
def test_reading_says_nothing_new(text: str) -> None:
    """The letters and digits of a reading stand in the answer in the same order."""
    rest = iter(_letters(text))
    assert all(letter in rest for letter in _letters(last(text)))


def test_hostile_text() -> None:
    assert [text for text in TEXTS if len(last(text)) > len(text)] == []


@pytest.mark.parametrize(
    "answer",
    [
        *(
            f"{name} = 5"
            for name in (
                "mistake",
                "invalid",
                "rejected_answer",
                "nope",
                "maybe",
                "square",
                "sqrt",
                "at_least",
                "max",
                "min",
            )
        ),
        *(
            f'<span class="{name}">5</span>'
            for name in ("line-through", "invalid", "removed", "error", "d-none", "gone")
        ),
        '<span style="font-size:0px">5</span>',
        '<font color="#ffffff">5</font>',
        "\\colorbox{black}{5}",
        "np.array([20.4], dtype=int)",
        "np.array([2], dtype=bool)",
    ],
)
def test_text_that_says_something_stays(answer: str) -> None:
    assert [*undecorated(answer, strip_full_stop=True)] == [answer]


@pytest.mark.parametrize(
    "answer", ["total = 5", "final_answer = 5", '<b class="final-answer">5</b>', '<font color="#0000ff">5</font>']
)
def test_names_and_looks_are_decoration(answer: str) -> None:
    assert [*undecorated(answer, strip_full_stop=True)][-1] == "5"


PIECES = (
    "`",
    "*",
    "_",
    "\\boxed{",
    "```\n",
    "{}",
    "**a",
    "$\\boxed{a}",
    "~~~x\n",
    "\n",
    ".",
    '"',
    "'",
    "(",
    "()",
    "= ",
    "x = ",
    "- a\n",
    "1. a\n",
    "* ",
    "*a ",
    " **a",
    "\\text{a}",
    "\\ ",
    "\\",
    "<b>",
    "<b></",
    "[",
    "np.array([",
    "],",
    "\u201c",
    "\u00a0",
    " ",
    "^\\circ",
    "# ",
    '\\"',
    '{"',
    "$",
    "\\[",
    "answer: ",
    '{"answer": ',
    "print(",
    "int('",
    "Fraction(1",
    "{\\bf ",
    "\\Large ",
    "\\verb|",
    "&nbsp;",
    "<br>",
    '<div a="',
    "<div>",
    "\\\\",
    "\\\\boxed{",
    "'\\n",
    "return ",
    "\\color{a}{",
    "*answer",
    "==",
)


WRAPPED = ("B", "**B**", '"B"', "(B)", "np.array([B])", "$\\boxed{B}$", "1B1", "Answer: B", '{"answer": "B"}')
MOST_S = 1.0
"""Processor time for a text of LONG characters: linear work takes 0.01 s, quadratic work more than this."""
LONG = 60_000


@pytest.mark.parametrize(
    "text",
    [
        "A:" + LONG * " " + "x=",
        '{"answer":' + LONG * " " + "x",
        "*" + LONG * " " + "a\nb",
        "#" + LONG * " " + "a\nb",
        "return" + LONG * " " + "a\nb",
        '\\boxed{}"' + LONG // 2 * '\\"' + "{}",
        "\u2705" + LONG * " " + "\u2705x",
    ],
    ids=["letter", "object", "list mark", "heading", "statement", "quote", "emoji"],
)
def test_blanks_in_linear_time(text: str) -> None:
    begun = process_time()
    last(text)
    assert process_time() - begun < MOST_S


@pytest.mark.parametrize("piece", PIECES)
def test_linear_time(piece: str) -> None:
    first = PIECES.index(piece) % 3
    for wrapping in WRAPPED[first::3]:
        text = wrapping.replace("B", piece * (LONG // len(piece)))
        begun = process_time()
        last(text)
        assert process_time() - begun < MOST_S, wrapping
