"""Solve tasks on letters, words and strings: ciphers, sorting, anagrams and rewriting rules."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise

from .contract import AmbiguousError, Solution, UnsolvedError, find, near_number, word_set


def _last_line(question: str) -> str:
    return question.strip().splitlines()[-1].strip()


# ---------------------------------------------------------------------------- whole words


def spell_backward(question: str) -> Solution:
    word = find(r"nus\): (\S+)", question)[1]
    return Solution(word[::-1], wrong=(word[::-1] + "x",))


def word_sorting(question: str) -> Solution:
    order, listed = find(r"these words in (ascending|descending) order.*?: (.*)", question).groups()
    words = sorted(listed.strip().split(", "), reverse=order == "descending")
    return Solution(", ".join(words), wrong=_wrong_orders(words))


def word_sequence_reversal(question: str) -> Solution:
    words = find(r"list of words: (.*)", question)[1].strip().split(", ")
    return Solution(", ".join(words[::-1]), wrong=_wrong_orders(words[::-1]))


def _wrong_orders(words: list[str]) -> tuple[str, ...]:
    """Return the words in reverse order and with the first two swapped, if these orders differ from the right one."""
    orders = [words[::-1], [*words[1::-1], *words[2:]]]
    return tuple(", ".join(order) for order in orders if order != words)


def letter_counting(question: str) -> Solution:
    letter, text = find(r'letter "(.)" appear in the text: "(.*)"\?', question).groups()
    count = text.lower().count(letter.lower())
    if text.count(letter) != count and "capital and small letters alike" not in question:
        raise AmbiguousError("capitals count, or do not")
    return Solution(str(count), wrong=near_number(count))


def caesar_cipher(question: str) -> Solution:
    """Try all 26 shifts, and choose the shift that has the most common English words and letters."""
    text = find(r"cipher text: (.*?)\. Provide|: (.*)", question)[1]
    shifts = [_shifted(text, shift) for shift in range(26)]
    best = max(shifts, key=_englishness)
    return Solution(best, wrong=(next(text for text in shifts if text != best),))


def _shifted(text: str, shift: int) -> str:
    return "".join(chr((ord(c) - 65 + shift) % 26 + 65) if c.isascii() and c.isalpha() else c for c in text)


COMMON = word_set("""
    THE OF AND A IN TO IS WAS IT FOR WITH HE BE ON I THAT BY AT YOU ARE HIS HAD NOT THIS HAVE FROM BUT WHICH SHE
    THEY OR AN HER WERE THERE BEEN THEIR WHO IF NO WILL WOULD ALL THEM HIM ITS DO SOME SO OUT UP ABOUT INTO THAN
    TIME ONLY OUR ANY OTHER THESE MAY THEN NEW MORE MOST WHEN ONE TWO AFTER FIRST WE YOUR WORK PROJECT GUTENBERG
    ELECTRONIC WORKS COULD
""")
"""Words that are common in English and in the library's strings."""
PERCENT = {
    "E": 12.7, "T": 9.1, "A": 8.2, "O": 7.5, "I": 7.0, "N": 6.7, "S": 6.3, "H": 6.1, "R": 6.0, "D": 4.3, "L": 4.0,
    "C": 2.8, "U": 2.8, "M": 2.4, "W": 2.4, "F": 2.2, "G": 2.0, "Y": 2.0, "P": 1.9, "B": 1.5, "V": 1.0, "K": 0.8,
    "J": 0.2, "X": 0.2, "Q": 0.1, "Z": 0.1,
}  # fmt: skip
"""Frequency of letters in English, in percent."""


def _englishness(text: str) -> float:
    words = text.split()
    letters = [letter for letter in text if letter in PERCENT]
    return 8 * sum(word in COMMON for word in words) + sum(PERCENT[letter] for letter in letters) / max(1, len(letters))


def emoji_mystery(question: str) -> Solution:
    """Decode the bytes of the variation selectors, starting at the character that the code in the question uses."""
    first = int(find(r"encoded_sentence\[(\d+):\]", question)[1])
    points = [ord(character) for character in find(r"from the emoji: (\S+)", question)[1]]
    data = bytearray()
    for point in points[first:]:
        if 0xFE00 <= point <= 0xFE0F:
            data.append(point - 0xFE00)
        elif 0xE0100 <= point <= 0xE01EF:
            data.append(point - 0xE0100 + 16)
    text = data.decode()
    if text.startswith("\x0f"):
        raise AmbiguousError("the emoji has a selector of its own, which the question's code takes for a character")
    return Solution(text, wrong=(text[1:], text + "!"))


LINE_WIDTH = 80
"""Number of columns after which pyfiglet starts a second row of letters by default."""


def figlet_font(question: str, answer: str) -> bool:
    """Return True if a font draws the answer as in the question. Blank columns and rows are ignored."""
    from pyfiglet import Figlet, FigletFont  # type: ignore[import-untyped]

    shown = _without_blanks(question.split("\n\n", 1)[1])
    for font in FigletFont.getFonts():
        figlet = Figlet(font=font, width=2000)
        drawn = [figlet.renderText(letter).splitlines() for letter in answer]
        # Letters next to each other may share columns, depending on the font.
        height = max(map(len, drawn))
        apart = "\n".join("".join(row) for row in zip(*(_padded(lines, height) for lines in drawn), strict=True))
        in_rows = Figlet(font=font, width=LINE_WIDTH)
        drawings = [
            apart,
            *(each.renderText(text) for each in (figlet, in_rows) for text in (answer, " ".join(answer))),
        ]
        if shown in map(_without_blanks, drawings):
            return True
    return False


def _padded(lines: list[str], height: int) -> list[str]:
    """Return the lines of a letter padded to equal length."""
    width = max(map(len, lines), default=0)
    return [line.ljust(width) for line in [*lines, *[""] * (height - len(lines))]]


def _without_blanks(drawing: str) -> list[str]:
    """Return a drawing without its blank rows and columns."""
    lines = [line for line in drawing.splitlines() if line.strip()]
    width = max(map(len, lines), default=0)
    columns = [
        column for column in zip(*(line.ljust(width) for line in lines), strict=True) if any(map(str.strip, column))
    ]
    return ["".join(row) for row in zip(*columns, strict=True)]


def needle_haystack(question: str) -> Solution:
    """Find the person who does exactly what the question asks about."""
    text, asked = find(r"(.*)\bWho (.*?)\? Reply", question).groups()
    people = [
        sentence.split(" ", 1)[0]
        for sentence in re.split(r"\.\s+", text.strip())
        if sentence.strip(". ").split(" ", 1)[-1] == asked
    ]
    if len(people) != 1:
        raise AmbiguousError(f"{len(people)} people fit")
    others = [sentence.split(" ", 1)[0] for sentence in re.split(r"\.\s+", text.strip())[:2]]
    return Solution(people[0], wrong=tuple(name for name in others if name and name != people[0]))


# ---------------------------------------------------------------------------- letters rearranged


def group_anagrams(question: str) -> Solution:
    words = json.loads(find(r"into anagrams:\s*(\[.*\])", question)[1])
    groups: dict[str, list[str]] = defaultdict(list)
    for word in words:
        groups["".join(sorted(word))].append(word)
    listed = list(groups.values())
    torn = [listed[0][:1], listed[0][1:], *listed[1:]] if len(listed[0]) > 1 else [[word] for word in words[:-1]]
    return Solution(
        json.dumps(listed),
        (json.dumps([group[::-1] for group in listed[::-1]]),),
        (json.dumps(torn), json.dumps(listed[1:])),
    )


def letter_jumble(question: str, answer: str) -> bool:
    """Return True if each word has the letters of the shuffled word, and the lengths in the question."""
    shuffled = find(r"unscramble these words: (.*)", question)[1].split()
    words = answer.split()
    if "take the word of that text" not in question:
        raise AmbiguousError("other words have the same letters")
    lengths = re.search(r"Only words of (\d+) to (\d+) letters", question)
    if lengths and not all(int(lengths[1]) <= len(word) <= int(lengths[2]) for word in words):
        return False
    return len(words) == len(shuffled) and all(map(_is_anagram, words, shuffled))


def _is_anagram(word: str, other: str) -> bool:
    return Counter(word.lower()) == Counter(other.lower())


def sentence_reordering(question: str, answer: str) -> bool:
    """Return True if the answer has the same words. The order of the words is not checked."""
    return Counter(find(r"sentence: (.*)", question)[1].split()) == Counter(answer.split())


def palindrome_generation(question: str) -> Solution:
    letters = find(r"following letters: (.*)", question)[1].strip().split(", ")
    counts = Counter(letters)
    half = "".join(letter * (count // 2) for letter, count in sorted(counts.items()))
    middle = "".join(letter for letter, count in counts.items() if count % 2)
    if len(middle) > 1:
        raise UnsolvedError("no palindrome has these letters")
    other = half[::-1] + middle + half
    answer = half + middle + half[::-1]
    return Solution(answer, (other,), (answer + "a", answer[1:]))


def palindrome_partitioning(question: str) -> Solution:
    text = find(r"into palindromes: (\S+)", question)[1]

    def partitions(start: int) -> list[list[str]]:
        if start == len(text):
            return [[]]
        found = []
        for end in range(start + 1, len(text) + 1):
            piece = text[start:end]
            if piece == piece[::-1]:
                found += [[piece, *rest] for rest in partitions(end)]
        return found

    every = partitions(0)
    wrong = [json.dumps([*every, [text, "x"]])]
    if len(every) > 1:
        wrong.append(json.dumps(every[1:]))
    return Solution(json.dumps(every), (json.dumps(every[::-1]),), tuple(wrong))


def isomorphic_strings(question: str) -> Solution:
    left, right = find(r"isomorphic, or False otherwise:\s*(\S+) (\S+)", question).groups()
    pairs = set(zip(left, right, strict=False))
    same = len(left) == len(right) and len(pairs) == len(set(left)) == len(set(right))
    return _truth(same)


def ransom_note(question: str) -> Solution:
    note, magazine = find(r"Ransom note: (\S+)\s+Magazine: (\S+)", question).groups()
    return _truth(not Counter(note) - Counter(magazine))


def _truth(value: bool) -> Solution:
    return Solution(str(value), wrong=(str(not value),))


def word_ladder(question: str, answer: str) -> bool:
    """Return True if neighbouring words differ in one letter, from the first to the last. Spelling is not checked."""
    first, last = find(r"ladder '(\w+)' to '(\w+)'", question).groups()
    words = answer.split(",")
    steps = [sum(a != b for a, b in zip(word, after, strict=False)) for word, after in pairwise(words)]
    return words[0] == first and words[-1] == last and set(steps) == {1} and len(set(map(len, words))) == 1


def cryptarithm(question: str) -> Solution:
    """Assign digits column by column, from the right."""
    block = find(r"cryptarithm:\n\n(.*?)\n\n", question)[1]
    lines = [line.strip("+ ") for line in block.splitlines() if line.strip(" -")]
    *addends, total = lines
    letters = sorted(set("".join(lines)))
    leading = {line[0] for line in lines if len(line) > 1}
    width = len(total)
    columns = [[line[-1 - place] for line in addends if place < len(line)] for place in range(width)]
    steps = 0
    found: list[dict[str, int]] = []

    def assign(place: int, carry: int, digits: dict[str, int], waiting: list[str]) -> None:
        """Assign digits to a column's letters in `waiting`, check the sum, and continue with the next column."""
        nonlocal steps
        steps += 1
        if len(found) > 1 or (found and steps > 20_000):
            return
        if steps > 200_000:
            raise UnsolvedError("the search is too long")
        while waiting and waiting[0] in digits:
            waiting = waiting[1:]
        if waiting:
            letter = waiting[0]
            for digit in range(10):
                if digit not in digits.values() and not (digit == 0 and letter in leading):
                    assign(place, carry, digits | {letter: digit}, waiting[1:])
            return
        new_carry, digit = divmod(sum(digits[letter] for letter in columns[place]) + carry, 10)
        letter = total[-1 - place]
        if letter in digits:
            if digits[letter] != digit:
                return
        elif digit in digits.values() or (digit == 0 and letter in leading):
            return
        now = digits | {letter: digit}
        if place + 1 < width:
            assign(place + 1, new_carry, now, columns[place + 1])
        elif new_carry == 0:
            found.append(now)

    assign(0, 0, {}, columns[0])
    if not found:
        raise UnsolvedError("no digits fit")
    texts = [",".join(f"{letter}={digits[letter]}" for letter in letters) for digits in found]
    first = found[0]
    swapped = first | {letters[0]: first[letters[1]], letters[1]: first[letters[0]]}
    wrong = ",".join(f"{letter}={swapped[letter]}" for letter in letters)
    return Solution(texts[0], tuple(texts[1:]), (wrong,) if _adds_up(lines, swapped) is False else ())


def _adds_up(lines: list[str], digits: dict[str, int]) -> bool:
    *addends, total = [int("".join(str(digits[letter]) for letter in line)) for line in lines]
    return sum(addends) == total


# ---------------------------------------------------------------------------- rewriting by rules


def ab(question: str) -> Solution:
    """Replace neighbouring tokens whose `#` signs face each other, until there are none."""
    tokens = find(r"following program:\s*(.*?)\s*Return", question)[1].split()
    place = 0
    while place < len(tokens) - 1:
        left, right = tokens[place], tokens[place + 1]
        if left.endswith("#") and right.startswith("#"):
            tokens[place : place + 2] = [] if left[0] == right[1] else [right, left]
            place = max(place - 1, 0)
        else:
            place += 1
    answer = " ".join(tokens)
    return Solution(
        answer, wrong=(f"{answer} A#", " ".join(tokens[::-1])) if tokens != tokens[::-1] else (f"{answer} A#",)
    )


def binary_alternation(question: str) -> Solution:
    """For both alternating strings, count the characters in wrong places; each swap corrects two."""
    text = find(r"alternating: ([01]+)", question)[1]
    costs = []
    for first in "01":
        wanted = "".join(first if place % 2 == 0 else "10"[int(first)] for place in range(len(text)))
        if wanted.count("1") == text.count("1"):
            costs.append(sum(a != b for a, b in zip(text, wanted, strict=True)) // 2)
    value = min(costs, default=-1)
    return Solution(str(value), wrong=near_number(value))


def string_insertion(question: str) -> Solution:
    text = find(r"according to the pattern: (\w+)", question)[1]
    rules = {"ABCD": "A", "BCDE": "B", "CDEA": "C", "DEAB": "D", "EABC": "E"}
    made, place = "", 0
    while place < len(text):
        piece = text[place : place + 4]
        if piece in rules:
            made += piece + rules[piece]
            place += 4
        else:
            made += text[place]
            place += 1
    return Solution(made, wrong=(made + "A", made[1:]))


def string_manipulation(question: str) -> Solution:
    rules = [_rule(text) for text in re.findall(r"^\d+\. (.*)$", question, re.MULTILINE)]
    state = _last_line(question)
    seen = [state]
    while True:
        new = next((after for rule in rules if (after := rule(state)) is not None), None)
        if new is None or new in seen:
            break
        seen.append(new)
        state = new
    return Solution(state, wrong=(state + "a", state[1:]) if state else ("a",))


def _rule(text: str) -> Callable[[str], str | None]:
    """Return a function that applies one rule to a string, and returns None if the rule does not apply."""
    parts = re.findall(r"'(\w+)'", text)
    a = parts[0] if parts else ""
    b = parts[1] if len(parts) > 1 else ""
    c = parts[2] if len(parts) > 2 else ""
    at_start = text.startswith(("If the string prefix", "If the string starts"))
    at_end = text.startswith(("If the string suffix", "If the string ends"))
    action = text.split(",", 1)[1].strip().rstrip(".")

    def apply(s: str) -> str | None:
        if "even number of" in text:
            return s + parts[-1] if s.count(a) and s.count(a) % 2 == 0 else None
        if "length is greater than" in text:
            limit = int(re.findall(r"\d+", text)[0])
            middle = len(s) // 2
            return s[:middle] + s[middle + 1 :] if len(s) > limit else None
        if "not at the start" in text:
            place = s.find(a, 1)
            return s[:place] + s[place + len(a) :] if place > 0 else None
        if at_start:
            return _at_start(s, a, b, c, action) if s.startswith(a) else None
        if at_end:
            return _at_end(s, a, b, c, action) if s.endswith(a) else None
        if "contains" in text:
            if a not in s:
                return None
            return s.replace(a, "" if action.startswith("delete") else b, 1)
        raise UnsolvedError(f"the rule {text!r}")

    return apply


def _at_start(s: str, a: str, b: str, c: str, action: str) -> str:
    rest = s[len(a) :]
    if re.fullmatch(r"replace it with '\w+'", action):
        return b + rest
    if re.fullmatch(r"replace it with '\w+' and append '\w+' to the end", action):
        return b + rest + c
    if re.fullmatch(r"replace it with '\w+' and delete the last character", action):
        return (b + rest)[:-1]
    if re.fullmatch(r"replace the first two characters with '\w+'", action):
        return b + s[2:]
    if re.fullmatch(r"(delete|remove) the first two characters", action):
        return s[2:]
    if re.fullmatch(r"delete the first two characters and append '\w+' to the end", action):
        return s[2:] + b
    if action == "remove the first character":
        return s[1:]
    if action == "remove the second character":
        return s[:1] + s[2:]
    raise UnsolvedError(f"the action {action!r}")


def _at_end(s: str, a: str, b: str, c: str, action: str) -> str:
    rest = s[: -len(a)]
    if re.fullmatch(r"replace it with '\w+'", action):
        return rest + b
    if re.fullmatch(r"replace it with '\w+' and prepend '\w+' to the start", action):
        return c + rest + b
    if action == "delete the last two characters":
        return s[:-2]
    if action == "remove the last character":
        return s[:-1]
    raise UnsolvedError(f"the action {action!r}")


# ---------------------------------------------------------------------------- parts and blocks

Counts = tuple[int, ...]
SPLITTING: tuple[tuple[Counts, Counts], ...] = (
    ((1, 0, 0, 0, 0, 0), (0, 0, 0, 2, 1, 0)),
    ((0, 2, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0)),
    ((0, 0, 2, 0, 0, 0), (0, 0, 0, 0, 1, 0)),
    ((0, 1, 1, 0, 0, 0), (1, 0, 0, 0, 0, 0)),
    ((0, 0, 0, 1, 1, 0), (0, 0, 0, 0, 0, 1)),
)
"""Counts that each rule of the machines removes and adds, in the order A B C X Y Z."""
SYNTHESIS: tuple[tuple[Counts, Counts], ...] = (
    ((1, 1, 1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0, 0)),
    ((1, 1, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1, 0, 0, 0)),
    ((0, 1, 1, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0, 0, 0, 0)),
    ((0, 0, 2, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1, 0, 0, 0)),
    ((0, 0, 0, 1, 0, 1, 0, 0, 0), (0, 0, 0, 0, 0, 0, 1, 1, 0)),
    ((0, 0, 0, 0, 2, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0, 0, 0, 1)),
)
"""Counts that each rule of the blocks removes and adds, in the order of the question's example."""


def _apply(state: Counts, rule: tuple[Counts, Counts]) -> Counts | None:
    taken, given = rule
    if any(have < need for have, need in zip(state, taken, strict=True)):
        return None
    return tuple(have - need + more for have, need, more in zip(state, taken, given, strict=True))


def _text(state: Counts) -> str:
    return " ".join(map(str, state))


def string_splitting(question: str) -> Solution:
    """Apply the first applicable rule as often as possible, then restart with rule 1, until the conversion limit."""
    limit = int(find(r"at most (\d+) times", question)[1])
    start = tuple(map(int, find(r"have (\d+) machine A, (\d+) machine B, and (\d+) machine C", question).groups()))
    state: Counts = (*start, 0, 0, 0)
    conversions = 0
    while True:
        rule = next((rule for rule in SPLITTING if _apply(state, rule) is not None), None)
        if rule is None:
            break
        after = _apply(state, rule)
        while after is not None:
            if conversions == limit and "Each single conversion counts" in question:
                return Solution(_text(state), wrong=(_text(after),))
            state = after
            conversions += 1
            after = _apply(state, rule)
    if conversions > limit and "Each single conversion counts" not in question:
        raise AmbiguousError("1,000 applications of rules, or 1,000 conversions")
    return Solution(_text(state), wrong=(_text((*state[:5], state[5] + 1)),))


def string_synthesis(question: str) -> Solution:
    """Apply the first applicable rule, starting with rule 1 each time. Another reading applies the rules in turn."""
    start = tuple(map(int, find(r"have (\d+) \[A\], (\d+) \[B\], and (\d+) \[C\]", question).groups()))
    first_rule = (*start, 0, 0, 0, 0, 0, 0)
    state: Counts = first_rule
    while (rule := next((rule for rule in SYNTHESIS if _apply(state, rule)), None)) is not None:
        state = _apply(state, rule) or state
    in_turn: Counts = first_rule
    while True:
        before = in_turn
        for rule in SYNTHESIS:
            in_turn = _apply(in_turn, rule) or in_turn
        if in_turn == before:
            break
    exhausted: Counts = first_rule
    while True:
        before = exhausted
        for rule in SYNTHESIS:
            while (after := _apply(exhausted, rule)) is not None:
                exhausted = after
        if exhausted == before:
            break
    if len({state, in_turn, exhausted}) > 1 and "start again from rule 1" not in question:
        raise AmbiguousError("which rule follows after one was applied")
    wrong = {_text(other) for other in (in_turn, exhausted, (*state[:8], state[8] + 1)) if other != state}
    return Solution(_text(state), wrong=tuple(wrong))


# ---------------------------------------------------------------------------- a language of eight signs


def bf(question: str) -> Solution:
    program = find(r"output\?\s*([-+<>.,\[\]\s]+)", question)[1]
    jumps: dict[int, int] = {}
    stack: list[int] = []
    for place, sign in enumerate(program):
        if sign == "[":
            stack.append(place)
        elif sign == "]":
            begin = stack.pop()
            jumps[place] = begin
            jumps[begin] = place
    cells: dict[int, int] = defaultdict(int)
    place = cell = steps = 0
    output = ""
    while place < len(program):
        steps += 1
        if steps > 3_000_000:
            raise UnsolvedError("the program runs too long")
        match program[place]:
            case ">":
                cell += 1
            case "<":
                cell -= 1
            case "+":
                cells[cell] = (cells[cell] + 1) % 256
            case "-":
                cells[cell] = (cells[cell] - 1) % 256
            case ".":
                output += chr(cells[cell])
            case "[" if cells[cell] == 0:
                place = jumps[place]
            case "]" if cells[cell] != 0:
                place = jumps[place]
        place += 1
    return Solution(output, wrong=(output + "x", output[1:]) if output[1:] else (output + "x",))
