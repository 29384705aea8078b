"""Solve logic tasks: liars, family relations, conclusions and circuits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

from .contract import AmbiguousError, Solution, UnsolvedError, find, near_number, word_set

# ---------------------------------------------------------------------------- blickets, friends, families


def acre(question: str) -> Solution:
    """Solve by cases.

    A detector is on if a blicket is on it. Some objects are no blickets, and some sets contain one.
    """
    experiments = re.findall(r"^(.+) → (on|off)$", question, re.MULTILINE)
    tested = set(find(r"New test case:\s*(.+?)\n", question)[1].split(", "))
    shown = [(set(objects.split(", ")), result == "on") for objects, result in experiments]
    inert = {item for objects, lit in shown if not lit for item in objects}
    if tested <= inert:
        answer = "off"
    elif any(lit and objects - inert <= tested for objects, lit in shown):
        answer = "on"
    else:
        answer = "undetermined"
    return Solution(answer, wrong=tuple(word for word in ("on", "off", "undetermined") if word != answer))


def aiw(question: str) -> Solution:
    """Count sisters, friends and colleagues. The named people are women, so the sex of the asker matters."""
    if "colleague" in question:
        first = int(find(r"(\d+) female colleagues\. These are all", question)[1])
        second = int(find(r"and (\d+) female colleagues in total", question)[1])
        # Matilda belongs to both circles. The woman of the first circle is also her colleague.
        count = (first - 1 + 1) + (second - 1)
        return Solution(str(count), wrong=near_number(count))
    if "friend" in question:
        women = int(find(r"(\d+) female friends", question)[1])
        return Solution(str(women + 1), wrong=near_number(women + 1))
    woman, asked = find(r"^(\w+) .* does (\w+)(?:'s brother|, a brother of \w+,) have", question).groups()
    if woman != asked and f"{asked}, a brother of {woman}," not in question:
        raise AmbiguousError(f"nothing says who {asked} is")
    sisters = int(find(r"(\d+) sisters", question)[1])
    return Solution(str(sisters + 1), wrong=near_number(sisters + 1))


PAIRS = re.compile(r"(\w+) is married to (\w+)\.")
CHILDREN = re.compile(r"(\w+) is married to (\w+)\. They have (?:a child|children) called ([\w ,]+?)\.")
WOMEN = word_set("""
    Abigail Alice Amelia Anna Aria Aurora Ava Barbara Charlotte Chloe Eleanor Elizabeth Emily Emma Eva Evelyn
    Grace Hannah Isabella Jennifer Jessica Karen Lily Linda Lisa Lucy Luna Margaret Mary Mia Nancy Nora Olivia Patricia
    Penelope Sandra Sarah Sofia Sophia Sophie Stella Susan Victoria Violet Willow Zoe
""")
MEN = word_set("""
    Aiden Alexander Andrew Atlas Axel Benjamin Charles Christopher Daniel David Edward Ethan Felix Finn George
    Harry Henry Jack Jacob James Jayden John Joseph Julian Kai Leo Liam Logan Lucas Mason Matthew Michael Noah Oliver
    Oscar Owen Peter Richard Robert Ryder Samuel Sebastian Theodore Thomas William Xavier Zion
""")
"""Names of men. The sex of people with other names follows from their spouses, or stays unknown."""


def family_relationships(question: str) -> Solution:
    """Read the family tree, and name the relation of the first person to the second."""
    spouse: dict[str, str] = {}
    parents: dict[str, tuple[str, str]] = {}
    for husband, wife in PAIRS.findall(question):
        spouse[husband] = wife
        spouse[wife] = husband
    for husband, wife, listed in CHILDREN.findall(question):
        for child in re.split(r", | and ", listed):
            parents[child.strip()] = (husband, wife)
    first, second = find(r"(?:How is|What is|What relation is) (\w+) (?:related to|to) (\w+)\?", question).groups()
    people = set(spouse) | set(parents)
    children: dict[str, set[str]] = {name: set() for name in people}
    for child, pair in parents.items():
        for parent in pair:
            children[parent].add(child)
    kinds = _relations(first, second, spouse, parents, children)
    if len(kinds) != 1:
        raise UnsolvedError(f"{len(kinds)} relations of {first} and {second}")
    male, female = kinds[0]
    if male == female:
        return Solution(male, wrong=("uncle", "aunt"))
    partner = spouse.get(first, "")
    if first in MEN or (first not in WOMEN and partner in WOMEN):
        return Solution(male, wrong=(female, "cousin"))
    if first in WOMEN or partner in MEN:
        return Solution(female, wrong=(male, "cousin"))
    raise AmbiguousError(f"{first} may be a man or a woman")


def _relations(
    first: str,
    second: str,
    spouse: dict[str, str],
    parents: dict[str, tuple[str, str]],
    children: dict[str, set[str]],
) -> list[tuple[str, str]]:
    """Return the words for a man and a woman that name the relation of `first` to `second`."""

    def are_siblings(a: str, b: str) -> bool:
        return a != b and a in parents and parents.get(a) == parents.get(b)

    def is_parent(a: str, b: str) -> bool:
        return a in parents.get(b, ())

    def grand(a: str, b: str) -> bool:
        return any(is_parent(a, middle) for middle in parents.get(b, ()))

    found = []
    if spouse.get(first) == second:
        found.append(("husband", "wife"))
    if is_parent(first, second):
        found.append(("father", "mother"))
    if is_parent(second, first):
        found.append(("son", "daughter"))
    if are_siblings(first, second):
        found.append(("brother", "sister"))
    if grand(first, second):
        found.append(("grandfather", "grandmother"))
    if grand(second, first):
        found.append(("grandson", "granddaughter"))
    in_law = spouse.get(second)
    if in_law is not None and is_parent(first, in_law):
        found.append(("father-in-law", "mother-in-law"))
    own = spouse.get(first)
    if own is not None and is_parent(second, own):
        found.append(("son-in-law", "daughter-in-law"))
    if (in_law is not None and are_siblings(first, in_law)) or (own is not None and are_siblings(own, second)):
        found.append(("brother-in-law", "sister-in-law"))
    for parent in parents.get(second, ()):
        if are_siblings(first, parent) or (own is not None and are_siblings(own, parent)):
            found.append(("uncle", "aunt"))
    for parent in parents.get(first, ()):
        if are_siblings(second, parent) or (spouse.get(second) is not None and are_siblings(spouse[second], parent)):
            found.append(("nephew", "niece"))
    for a in parents.get(first, ()):
        for b in parents.get(second, ()):
            if are_siblings(a, b):
                found.append(("cousin", "cousin"))
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------------------- truth and lies


class Reader:
    """Parses `a if and only if b`, `if a then b`, `a and b`, `a or b`, `it is not the case that a` and `NAME is a
    WORD`. Without parentheses, operators are nested from left to right by binding strength.
    """

    def __init__(self, text: str, truthful: str) -> None:
        words = re.sub(r"it is not the case that", "NOT", text)
        words = re.sub(r"if and only if", "IFF", words)
        self._tokens = re.findall(r"\(|\)|[A-Za-z]+", words)
        self._place = 0
        self._truthful = truthful

    def read(self) -> Callable[[dict[str, bool]], bool]:
        value = self._iff()
        if self._place != len(self._tokens):
            raise UnsolvedError("the statement goes on")
        return value

    def _next(self) -> str:
        return self._tokens[self._place].lower() if self._place < len(self._tokens) else ""

    def _iff(self) -> Callable[[dict[str, bool]], bool]:
        left = self._either()
        while self._next() == "iff":
            self._place += 1
            left = _both_alike(left, self._either())
        return left

    def _either(self) -> Callable[[dict[str, bool]], bool]:
        parts = [self._all()]
        while self._next() == "or":
            self._place += 1
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda world: any(part(world) for part in parts)

    def _all(self) -> Callable[[dict[str, bool]], bool]:
        parts = [self._unit()]
        while self._next() == "and":
            self._place += 1
            parts.append(self._unit())
        return parts[0] if len(parts) == 1 else lambda world: all(part(world) for part in parts)

    def _unit(self) -> Callable[[dict[str, bool]], bool]:
        word = self._next()
        self._place += 1
        if word == "(":
            inner = self._iff()
            self._place += 1
            return inner
        if word == "not":
            negated = self._unit()
            return lambda world: not negated(world)
        if word == "if":
            condition = self._iff()
            if self._next() != "then":
                raise UnsolvedError("if without then")
            self._place += 1
            consequence = self._iff()
            return lambda world: not condition(world) or consequence(world)
        name = self._tokens[self._place - 1]
        if self._next() != "is":
            raise UnsolvedError(f"the word {name!r}")
        self._place += 2  # `is` and the article after it
        is_truthful = self._next() == self._truthful
        self._place += 1
        return lambda world: world[name] == is_truthful


def _both_alike(
    left: Callable[[dict[str, bool]], bool], right: Callable[[dict[str, bool]], bool]
) -> Callable[[dict[str, bool]], bool]:
    return lambda world: left(world) == right(world)


def knights_knaves(question: str) -> Solution:
    """Try all assignments of liars. Exactly one may agree with all statements."""
    true_word, false_word = find(r"who is an? (\w+) and who is an? (\w+)\?", question).groups()
    people = re.split(r", and |, | and ", find(r"inhabitants: (.*?)\. ", question)[1])
    body = find(r"inhabitants: .*?\. (.*) So who is", question)[1]
    statements = list(_said(body, people))
    if len(statements) != len(people):
        raise UnsolvedError(f"{len(statements)} statements of {len(people)} people")
    claims = [(speaker, Reader(text, true_word).read()) for speaker, text in statements]
    worlds = []
    for values in product((True, False), repeat=len(people)):
        world = dict(zip(people, values, strict=True))
        if all(world[speaker] == claim(world) for speaker, claim in claims):
            worlds.append(world)
    if len(worlds) != 1:
        raise AmbiguousError(f"{len(worlds)} worlds agree with what is said")

    def text(world: dict[str, bool]) -> str:
        parts = [f"{name} is {_article(true_word if value else false_word)}" for name, value in world.items()]
        return ", ".join(parts[:-1]) + f", and {parts[-1]}."

    world = worlds[0]
    flipped = world | {people[0]: not world[people[0]]}
    return Solution(text(world), wrong=(text(flipped), "not " + text(world)))


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _said(body: str, people: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each speaker and statement. A statement is in quotes before or after the name, or follows `that`."""
    names = "|".join(people)
    pattern = re.compile(
        rf'"([^"]*)"\s*(?:-|,?) ?({names})(?: \w+)?\.'
        rf'|(?:According to|As) ({names})(?: put it)?, "([^"]*)"\.?'
        rf'|In ({names})\'s words: "([^"]*)"\.?'
        rf'|In a statement by ({names}): "([^"]*)"\.?'
        rf'|({names}) [\w ]+?[,:] "([^"]*)"\.?'
        rf"|({names}) (?:[a-z]+ )+?that (.*?)\.(?= |$)"
    )
    for found in pattern.finditer(body):
        groups = found.groups()
        if groups[0] is not None:
            yield groups[1], groups[0].rstrip(",.")
        else:
            speaker, text = next((groups[i], groups[i + 1]) for i in (2, 4, 6, 8, 10) if groups[i])
            yield speaker, text.rstrip(",.")


# ---------------------------------------------------------------------------- formulas

WAYS = {
    "∧": lambda a, b: a and b,
    "∨": lambda a, b: a or b,
    "→": lambda a, b: not a or b,
    "↔": lambda a, b: a == b,
}


def formula(text: str) -> Callable[[dict[str, bool]], bool]:
    """Return the function of a formula that has parentheses around each pair of operands."""
    tokens = re.findall(r"[()¬∧∨→↔]|[A-Za-z]+", text)
    place = 0

    def unit() -> Callable[[dict[str, bool]], bool]:
        nonlocal place
        token = tokens[place]
        place += 1
        if token == "¬":
            inner = unit()
            return lambda world: not inner(world)
        if token == "(":
            left = unit()
            while tokens[place] != ")":
                sign = tokens[place]
                place += 1
                left = _joined(WAYS[sign], left, unit())
            place += 1
            return left
        return lambda world: world[token]

    value = unit()
    while place < len(tokens):
        sign = tokens[place]
        place += 1
        value = _joined(WAYS[sign], value, unit())
    return value


def _joined(
    way: Callable[[bool, bool], bool], left: Callable[[dict[str, bool]], bool], right: Callable[[dict[str, bool]], bool]
) -> Callable[[dict[str, bool]], bool]:
    return lambda world: way(left(world), right(world))


class Premises:
    """The premises of a question, and checks whether a conclusion needs several of them."""

    def __init__(self, question: str) -> None:
        block = find(r"Given:\n(.*?)What can we conclude", question)[1]
        self.texts = [line.strip(" .\n") for line in re.split(r"\.?\d+\. ", block) if line.strip(" .\n")]
        self.letters = sorted(set(re.findall(r"[A-Z]", " ".join(self.texts))))
        worlds = [
            dict(zip(self.letters, values, strict=True)) for values in product((True, False), repeat=len(self.letters))
        ]
        self._alone = [list(filter(formula(premise), worlds)) for premise in self.texts]
        self.models = [world for world in worlds if all(world in having for having in self._alone)]
        self.decided = {
            letter: having[0][letter]
            for letter in self.letters
            for having in self._alone
            if len({world[letter] for world in having}) == 1
        }
        self._in_parts = [
            world for world in worlds if all(world[name] is value for name, value in self.decided.items())
        ]

    def imply(self, text: str) -> bool:
        return all(map(formula(text), self.models))

    def conclude(self, text: str) -> bool:
        """Return True if the premises together imply the conclusion, and no single premise does."""
        single = any(all(map(formula(text), having)) for having in [*self._alone, self._in_parts])
        return bool(self.models) and self.imply(text) and not single


def propositional_logic(question: str) -> Solution:
    """Return a literal or a pair of letters that the premises imply, and that no single premise implies.

    No letter of a pair follows from a single premise, so the pair cannot be mistaken for joined premises.
    """
    if "single premises decide it part by part" not in question:
        raise AmbiguousError("joined premises are a conclusion, or are not")
    premises = Premises(question)
    if not premises.models:
        raise AmbiguousError("the premises contradict each other")
    undecided = [letter for letter in premises.letters if letter not in premises.decided]
    texts = [f"{sign}{letter}" for sign in ("", "¬") for letter in premises.letters]
    texts += [f"({a} {sign} {b})" for a in undecided for b in undecided if a != b for sign in WAYS]
    right = next(filter(premises.conclude, texts), None)
    if right is None:
        raise UnsolvedError("no short conclusion that needs more than one premise")
    wrong = [text for text in texts if not premises.imply(text)][:1]
    return Solution(right, wrong=(*wrong, premises.texts[0]))


def self_reference(question: str) -> Solution:
    at_least, at_most, exactly_true, exactly_false = (
        int(find(pattern, question)[1])
        for pattern in (
            r"At least (\d+) of",
            r"At most (\d+) of",
            r"Exactly (\d+) of these \d+ statements are true",
            r"Exactly (\d+) of these \d+ statements are false",
        )
    )
    count = 0
    for values in product((True, False), repeat=7):
        true = sum(values)
        false = 7 - true
        says = (
            true >= at_least,
            false <= at_most,
            true == exactly_true,
            false == exactly_false,
            values[2] != values[3],
            true in (2, 3, 5, 7),
            false in (4, 6),
        )
        if values == says:
            count += 1
    return Solution(str(count), wrong=near_number(count))


def syllogism(question: str) -> Solution:
    """Search for a counterexample among all ways in which the eight regions of three classes are empty or not.

    The search runs with and without the assumption that every class has a member. If the results differ, the question
    is ambiguous.
    """
    lines = re.findall(r"^\d\. (.*)$", question, re.MULTILINE)
    conclusion = find(r"follow that:\s*(.*?)\?", question)[1]
    read = [re.fullmatch(r"(All|No|Some) (\w+) are (not )?(\w+)", line.strip()) for line in [*lines, conclusion]]
    if any(item is None for item in read):
        raise UnsolvedError("a statement of another kind")
    parsed = [(item[1], item[2], item[3], item[4]) for item in read if item is not None]
    classes = sorted({name for _, a, _, b in parsed for name in (a, b)})
    parts = list(product((True, False), repeat=len(classes)))

    def holds(statement: tuple[str, str, str | None, str], filled: set[tuple[bool, ...]]) -> bool:
        kind, a, negation, b = statement
        i, j = classes.index(a), classes.index(b)
        both = any(part[i] and part[j] for part in filled)
        first_alone = any(part[i] and not part[j] for part in filled)
        if kind == "All":
            return not both if negation else not first_alone
        if kind == "No":
            return not both
        return first_alone if negation else both

    answers = []
    for members in (True, False):
        follows = True
        for number in range(2 ** len(parts)):
            filled = {part for at, part in enumerate(parts) if number >> at & 1}
            if members and any(all(not part[i] for part in filled) for i in range(len(classes))):
                continue
            if all(holds(line, filled) for line in parsed[:-1]) and not holds(parsed[-1], filled):
                follows = False
                break
        answers.append(follows)
    if answers[0] != answers[1]:
        raise AmbiguousError("it follows only where every class has a member")
    return Solution("Yes" if answers[0] else "No", wrong=("No" if answers[0] else "Yes",))


# ---------------------------------------------------------------------------- houses in a row

HOUSES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
Item = tuple[int, str]
"""The number of a category, and one of the values in the category."""


def zebra_puzzles(question: str) -> Solution:
    """Assign a house to each value of each category. The requested value must be equal in all solutions."""
    categories = [
        [value.strip() for value in line.split(":")[1].split(",")]
        for line in re.findall(r"^ - (.*)$", question, re.MULTILINE)
    ]
    names_of_children = [
        ": child" in line or "their child" in line for line in re.findall(r"^ - (.*)$", question, re.MULTILINE)
    ]
    size = len(categories[0])
    house = int(find(r"lives in House (\d+)", question)[1])
    houses: dict[Item, set[int]] = {
        (number, value): set(range(size)) for number, values in enumerate(categories) for value in values
    }
    pairs: list[tuple[Item, Item, Callable[[int, int], bool]]] = []

    def item(phrase: str) -> Item:
        low = phrase.lower()
        about_child = "child" in low or "mother of" in low
        fitting = [
            (number, value)
            for number, value in houses
            if names_of_children[number] == about_child and _names(low, value)
        ]
        longest = [entry for entry in fitting if not any(entry[1] in other[1] and entry != other for other in fitting)]
        if len(longest) != 1:
            raise UnsolvedError(f"{len(longest)} meanings of {phrase!r}")
        return longest[0]

    for clue in re.findall(r"^\d+\. (.*)\.$", question, re.MULTILINE):
        if found := re.fullmatch(r"(.*) is in the (\w+) house", clue):
            houses[item(found[1])] &= {HOUSES.index(found[2])}
        elif found := re.fullmatch(r"(.*) is directly left of (.*)", clue):
            pairs.append((item(found[1]), item(found[2]), lambda a, b: a + 1 == b))
        elif found := re.fullmatch(r"(.*) is somewhere to the left of (.*)", clue):
            pairs.append((item(found[1]), item(found[2]), lambda a, b: a < b))
        elif found := re.fullmatch(r"(.*) and (.*) are next to each other", clue):
            pairs.append((item(found[1]), item(found[2]), lambda a, b: abs(a - b) == 1))
        elif found := re.fullmatch(r"There is one house between (.*) and (.*)", clue):
            pairs.append((item(found[1]), item(found[2]), lambda a, b: abs(a - b) == 2))
        elif found := re.fullmatch(r"There are two houses between (.*) and (.*)", clue):
            pairs.append((item(found[1]), item(found[2]), lambda a, b: abs(a - b) == 3))
        elif found := re.fullmatch(r"(.*?) is not in the (\w+) house", clue):
            houses[item(found[1])] -= {HOUSES.index(found[2])}
        elif found := re.fullmatch(r"(.*?) is (.*)", clue):
            first, second = _split_at_is(clue, item)
            pairs.append((first, second, lambda a, b: a == b))
        else:
            raise UnsolvedError(f"the clue {clue!r}")
    names = set()
    for name in categories[0]:
        if _can_live(houses, pairs, (0, name), house - 1):
            names.add(name)
    if len(names) != 1:
        raise AmbiguousError(f"{len(names)} people may live there")
    answer = names.pop()
    return Solution(answer, wrong=tuple(name for name in categories[0] if name != answer)[:2])


ALIASES = {"brit": "british"}


def _names(phrase: str, value: str) -> bool:
    value = ALIASES.get(value, value)
    return re.search(rf"\b{re.escape(value)}s?\b", phrase) is not None


def _split_at_is(clue: str, item: Callable[[str], Item]) -> tuple[Item, Item]:
    """Return the two phrases that a clue equates. The clue is split at the only ` is ` between two known phrases."""
    for cut in re.finditer(r" is ", clue):
        try:
            return item(clue[: cut.start()]), item(clue[cut.end() :])
        except UnsolvedError:
            continue
    raise UnsolvedError(f"the clue {clue!r}")


def _can_live(
    houses: dict[Item, set[int]], pairs: list[tuple[Item, Item, Callable[[int, int], bool]]], who: Item, house: int
) -> bool:
    start = {item: set(options) for item, options in houses.items()}
    start[who] &= {house}
    steps = 0

    def narrow(options: dict[Item, set[int]]) -> bool:
        changed = True
        while changed:
            changed = False
            for first, second, fits in pairs:
                left = {a for a in options[first] if any(fits(a, b) for b in options[second])}
                right = {b for b in options[second] if any(fits(a, b) for a in left)}
                if (left, right) != (options[first], options[second]):
                    options[first], options[second] = left, right
                    changed = True
            for item, places in options.items():
                if not places:
                    return False
                if len(places) == 1:
                    for other in options:
                        if other[0] == item[0] and other != item and places & options[other]:
                            options[other] = options[other] - places
                            changed = True
        return all(options.values())

    def search(options: dict[Item, set[int]]) -> bool:
        nonlocal steps
        steps += 1
        if steps > 3_000:
            raise UnsolvedError("the search is too long")
        if not narrow(options):
            return False
        open_items = [item for item, places in options.items() if len(places) > 1]
        if not open_items:
            return True
        item = min(open_items, key=lambda entry: len(options[entry]))
        return any(search({**options, item: {place}}) for place in sorted(options[item]))

    return search(start)


# ---------------------------------------------------------------------------- a drawn circuit

GATES: dict[str, Callable[[list[bool]], bool]] = {
    "AND": all,
    "NAND": lambda inputs: not all(inputs),
    "OR": any,
    "NOR": lambda inputs: not any(inputs),
    "XOR": lambda inputs: sum(inputs) % 2 == 1,
    "XNOR": lambda inputs: sum(inputs) % 2 == 0,
}


def circuit_logic(question: str) -> Solution:
    """Follow the lines of the drawing from the output back to the inputs."""
    drawing = find(r"circuit\.\n\n(.*?)\n\nLegend", question)[1].splitlines()
    kinds = {sign: name for sign, name in re.findall(r"^(\S\S): (\w+)$", question, re.MULTILINE) if name in GATES}
    values = {name: digit == "1" for name, digit in re.findall(r"^\s+(\w+) = ([01])$", question, re.MULTILINE)}
    width = max(map(len, drawing)) + 1
    rows = [line.ljust(width) for line in drawing]
    letters = {
        line.index("┐"): str(found[1]) for line in drawing if (found := re.match(r"(\w+): ─*┐", line)) is not None
    }

    def gate_rows(row: int, column: int) -> range:
        """Return the rows of the gate whose sign is at a place."""
        sign = rows[row][column : column + 2]
        first = row
        while first > 0 and rows[first - 1][column : column + 2] == sign:
            first -= 1
        last = row
        while last + 1 < len(rows) and rows[last + 1][column : column + 2] == sign:
            last += 1
        return range(first, last + 1)

    def value_of_gate(row: int, column: int) -> bool:
        sign = rows[row][column : column + 2]
        return GATES[kinds[sign]]([value_at(number, column - 2) for number in gate_rows(row, column)])

    def value_at(row: int, column: int) -> bool:
        """Return the value of the line that arrives at a place from the left."""
        negated = False
        while rows[row][column] in "─>o":
            if rows[row][column] == "o":
                negated = not negated
            column -= 1
        sign = rows[row][column]
        if column in letters and sign in "├└":
            return bool(values[letters[column]] != negated)
        if sign in "└┌":
            step = -1 if sign == "└" else 1
            row += step
            while rows[row][column] == "│":
                row += step
            corner = "┐" if step < 0 else "┘"
            if rows[row][column] != corner:
                raise UnsolvedError(f"the line at row {row}")
            column -= 1
            while rows[row][column] == "─":
                column -= 1
        if rows[row][column - 1 : column + 1] in kinds:
            return value_of_gate(row, column - 1) != negated
        raise UnsolvedError(f"a line that begins with {rows[row][column]!r}")

    out = next(number for number, line in enumerate(rows) if "─ OUT" in line)
    column = rows[out].index(" OUT") - 1
    while rows[out][column] == "─":
        column -= 1
    answer = value_of_gate(out, column - 1)
    return Solution(str(int(answer)), wrong=(str(int(not answer)),))
