"""Solve tasks on matrices, boards and number grids."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from .arithmetic import decimal_text
from .contract import AmbiguousError, Solution, UnsolvedError, as_rows, find, integers, near_number, number_rows

Grid = list[list[int]]
Place = tuple[int, int]
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def _matrix(rows: Grid) -> Solution:
    """Return the solution for a matrix. A matrix with a changed cell or without one row is wrong."""
    changed = [row[:] for row in rows]
    changed[-1][-1] += 1
    wrong = [as_rows(changed)]
    if len(rows) > 1:
        wrong.append(as_rows(rows[:-1]))
    return Solution(as_rows(rows), wrong=tuple(wrong))


def _neighbours(place: Place, height: int, width: int) -> Iterator[Place]:
    for down, right in SIDES:
        row, column = place[0] + down, place[1] + right
        if 0 <= row < height and 0 <= column < width:
            yield row, column


def _distances(
    grid: Sequence[Sequence[object]], starts: list[Place], is_open: Callable[[Place], bool]
) -> dict[Place, int]:
    """Return the number of steps from the nearest start to each reachable place."""
    distances = dict.fromkeys(starts, 0)
    queue = deque(starts)
    while queue:
        place = queue.popleft()
        for neighbour in _neighbours(place, len(grid), len(grid[0])):
            if neighbour not in distances and is_open(neighbour):
                distances[neighbour] = distances[place] + 1
                queue.append(neighbour)
    return distances


# ---------------------------------------------------------------------------- matrices


def binary_matrix(question: str) -> Solution:
    grid = number_rows(question)
    zeros = [(r, c) for r, row in enumerate(grid) for c, cell in enumerate(row) if cell == 0]
    distances = _distances(grid, zeros, lambda place: True)
    return _matrix([[distances[r, c] for c in range(len(row))] for r, row in enumerate(grid)])


def _turned(rows: Grid) -> Grid:
    """Return a matrix after a clockwise quarter turn."""
    return [list(row) for row in zip(*rows[::-1], strict=True)]


def rotate_matrix(question: str) -> Solution:
    rows = number_rows(question)
    degrees = int(find(r"by (-?\d+) degrees clockwise", question)[1])
    for _ in range(degrees // 90 % 4):
        rows = _turned(rows)
    return _matrix(rows)


def spiral_matrix(question: str) -> Solution:
    rows = number_rows(question)
    listed: list[int] = []
    while rows:
        listed += rows[0]
        rows = [list(row) for row in zip(*rows[1:], strict=True)][::-1]
    text = " ".join(map(str, listed))
    return Solution(text, wrong=(" ".join(map(str, listed[:-1])), " ".join(map(str, [*listed[:-1], listed[-1] + 1]))))


def pool_matrix(question: str) -> Solution:
    kind, size = find(r"Perform (max|average) pooling .*? kernel size of (\d+)", question).groups()
    rows, step = number_rows(question), int(size)
    is_whole = len(rows) % step == 0 and len(rows[0]) % step == 0
    if not is_whole and "Regions at the right and bottom edges may be smaller" not in question:
        raise AmbiguousError("regions that are cut by the edge count, or do not")
    pooled = []
    for top in range(0, len(rows), step):
        line = []
        for left in range(0, len(rows[0]), step):
            cells = [cell for row in rows[top : top + step] for cell in row[left : left + step]]
            value = Fraction(max(cells)) if kind == "max" else Fraction(sum(cells), len(cells))
            line.append(f"{float(value):.2f}" if kind == "average" else decimal_text(value) or "")
        pooled.append(line)
    text = "\n".join(map(" ".join, pooled))
    off = [*pooled[:-1], [*pooled[-1][:-1], str(float(pooled[-1][-1]) + 1)]]
    return Solution(text, wrong=("\n".join(map(" ".join, off)),))


def manipulate_matrix(question: str) -> Solution:
    """Apply the operations with each possible meaning of mirror and rotation.

    Raises AmbiguousError if the results differ.
    """
    rows = number_rows(question.split("Perform")[0])
    operations = re.findall(r"^- (.*)$", question, re.MULTILINE)
    mirrors = [operation for operation in operations if "ally mirror" in operation]
    rotations = [operation for operation in operations if operation.startswith("Rotate")]
    ways = [True] if all("clockwise" in operation for operation in rotations) else [False, True]
    sides = [True] if all("comes first" in operation for operation in mirrors) else [False, True]
    results = []
    for upside_down, clockwise in product(sides, ways):
        changed = [row[:] for row in rows]
        for operation in operations:
            changed = _manipulated(changed, operation, upside_down=upside_down, clockwise=clockwise)
        results.append(changed)
    if any(result != results[0] for result in results):
        raise AmbiguousError("horizontally mirrored: upside down or left to right; rotated: which way")
    if not results[0] or not results[0][0]:
        raise AmbiguousError("nothing is left of the matrix")
    return _matrix(results[0])


def _manipulated(rows: Grid, operation: str, *, upside_down: bool, clockwise: bool) -> Grid:
    numbers = integers(operation.replace("-", " "))
    if "ally mirror" in operation:
        if "comes first" in operation:
            is_upside_down = "last row comes first" in operation
        else:
            is_upside_down = ("orizontally" in operation) == upside_down
        return rows[::-1] if is_upside_down else [row[::-1] for row in rows]
    if "counterdiagonal" in operation:
        return [list(row) for row in zip(*[row[::-1] for row in rows[::-1]], strict=True)]
    if "diagonal" in operation:
        return [list(row) for row in zip(*rows, strict=True)]
    if operation.startswith("Identity"):
        return rows
    if operation.startswith("Crop"):
        top, bottom, left, right = numbers[:4]
        return [row[left - 1 : right] for row in rows[top - 1 : bottom]]
    if operation.startswith("Map each"):
        return [[numbers[1] if cell == numbers[0] else cell for cell in row] for row in rows]
    if "row" in operation and operation.startswith("Remove every"):
        return [row for number, row in enumerate(rows, 1) if number % numbers[0]]
    if "column" in operation and operation.startswith("Remove every"):
        return [[cell for number, cell in enumerate(row, 1) if number % numbers[0]] for row in rows]
    if operation.startswith("Set all elements"):
        return [[0 if cell % numbers[0] == 0 else cell for cell in row] for row in rows]
    if operation.startswith("Rotate"):
        quarters = numbers[0] // 90 % 4
        for _ in range(quarters if clockwise else -quarters % 4):
            rows = _turned(rows)
        return rows
    raise UnsolvedError(f"the operation {operation!r}")


def largest_island(question: str) -> Solution:
    grid = number_rows(question)
    land = {(r, c) for r, row in enumerate(grid) for c, cell in enumerate(row) if cell == 1}
    largest = 0
    while land:
        island = _distances(grid, [next(iter(land))], land.__contains__)
        land -= island.keys()
        largest = max(largest, len(island))
    return Solution(str(largest), wrong=near_number(largest))


def rotten_oranges(question: str) -> Solution:
    grid = number_rows(question)
    cells = {(r, c): cell for r, row in enumerate(grid) for c, cell in enumerate(row)}
    rotten = [place for place, cell in cells.items() if cell == 2]
    distances = _distances(grid, rotten, lambda place: cells[place] == 1)
    oranges = [place for place, cell in cells.items() if cell]
    minutes = max((distances.get(place, -1) for place in oranges), default=0)
    if any(place not in distances for place in oranges):
        minutes = -1
    return Solution(str(minutes), wrong=near_number(minutes))


# ---------------------------------------------------------------------------- ways through grids


def maze(question: str) -> Solution:
    start, goal = find(r"from '(.)' \(start\) to '(.)' \(goal\)", question).groups()
    wall = find(r"'(.)' = Wall", question)[1]
    if "up, down, left or right" not in question:
        raise AmbiguousError("steps may be diagonal, or may not")
    rows = find(r"```\n(.*)\n```\nLegend", question)[1].splitlines()  # walls may be backticks
    places = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
    begin = next(place for place, sign in places.items() if sign == start)
    distances = _distances([list(row) for row in rows], [begin], lambda place: places[place] != wall)
    steps = next(distances[place] for place, sign in places.items() if sign == goal)
    return Solution(str(steps), wrong=near_number(steps))


MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def shortest_path(question: str) -> Solution:
    rows = [line.split() for line in question.strip().splitlines() if re.fullmatch(r"[*#OX](?: [*#OX])*\s*", line)]
    cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
    start = next(place for place, sign in cells.items() if sign == "*")
    goal = next(place for place, sign in cells.items() if sign == "#")
    distances = _distances(rows, [goal], lambda place: cells[place] != "X")
    if start not in distances:
        return Solution("infeasible", wrong=("up", "down right"))

    def path(names: list[str]) -> str:
        place, steps = start, []
        while place != goal:
            for name in names:
                after = (place[0] + MOVES[name][0], place[1] + MOVES[name][1])
                if distances.get(after, -1) == distances[place] - 1:
                    steps.append(name)
                    place = after
                    break
        return " ".join(steps)

    answer = path(list(MOVES))
    other = path(list(MOVES)[::-1])
    opposite = {"up": "down", "down": "up", "left": "right", "right": "left"}
    longer = f"{answer} {opposite[answer.split()[-1]]} {answer.split()[-1]}"
    return Solution(
        answer, (other,), ("infeasible", longer, answer.rsplit(" ", 1)[0] if " " in answer else "infeasible")
    )


# ---------------------------------------------------------------------------- cellular automata


def _next_life(alive: set[Place], height: int, width: int) -> set[Place]:
    counts = Counter(
        ((r + down) % height, (c + right) % width)
        for r, c in alive
        for down, right in product((-1, 0, 1), repeat=2)
        if (down, right) != (0, 0)
    )
    return {place for place, count in counts.items() if count == 3 or (count == 2 and place in alive)}


def game_of_life(question: str) -> Solution:
    steps = int(find(r"after (\d+) steps", question)[1])
    rows = json.loads(find(r"\n\n(\[\[.*\]\])", question)[1])
    alive = {(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell}
    height, width = len(rows), len(rows[0])
    for _ in range(steps):
        alive = _next_life(alive, height, width)
    board = [[int((r, c) in alive) for c in range(width)] for r in range(height)]
    off = [row[:] for row in board]
    off[0][0] = 1 - off[0][0]
    return Solution(
        json.dumps(board, separators=(",", ":")),
        wrong=(json.dumps(off, separators=(",", ":")), json.dumps([*board, board[0]], separators=(",", ":"))),
    )


def game_of_life_halting(question: str) -> Solution:
    steps = int(find(r"at or before (\d+) steps", question)[1])
    rows = [integers(line) for line in find(r"board:\s*(\[\[.*\]\])", question)[1].splitlines()]
    alive = {(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell}
    for _ in range(steps):
        alive = _next_life(alive, len(rows), len(rows[0]))
    return Solution(str(not alive), wrong=(str(bool(alive)),))


# ---------------------------------------------------------------------------- numbers to fill in


def fill(
    cells: list[Place], options: dict[Place, set[int]], groups: list[list[Place]], pairs: list[tuple[Place, Place]]
) -> list[dict[Place, int]]:
    """Return up to two ways to fill the cells.

    Values differ within each group, and in each pair the first is smaller.
    """
    groups_of: dict[Place, list[list[Place]]] = {cell: [g for g in groups if cell in g] for cell in cells}
    pairs_of: dict[Place, list[tuple[Place, Place]]] = {cell: [p for p in pairs if cell in p] for cell in cells}
    found: list[dict[Place, int]] = []
    steps = 0

    def narrow(possible: dict[Place, set[int]], todo: list[Place]) -> bool:
        """Remove the values that the cells in `todo` exclude in other cells.

        Return False if a cell has no value left.
        """
        while todo:
            cell = todo.pop()
            if not possible[cell]:
                return False
            for pair in pairs_of[cell]:
                low, high = pair
                least, most = min(possible[low], default=99), max(possible[high], default=-1)
                for place, kept in (
                    (low, {value for value in possible[low] if value < most}),
                    (high, {value for value in possible[high] if value > least}),
                ):
                    if kept != possible[place]:
                        possible[place] = kept
                        if not kept:
                            return False
                        todo.append(place)
            if len(possible[cell]) > 1:
                continue
            (value,) = possible[cell]
            for group in groups_of[cell]:
                for place in group:
                    if place != cell and value in possible[place]:
                        possible[place] = possible[place] - {value}
                        if not possible[place]:
                            return False
                        todo.append(place)
        return True

    def search(possible: dict[Place, set[int]]) -> None:
        nonlocal steps
        steps += 1
        if steps > 20_000:
            raise UnsolvedError("the search is too long")
        open_cells = [cell for cell in cells if len(possible[cell]) > 1]
        if not open_cells:
            found.append({cell: next(iter(possible[cell])) for cell in cells})
            return
        cell = min(open_cells, key=lambda place: len(possible[place]))
        for value in sorted(possible[cell]):
            guess = dict(possible)
            guess[cell] = {value}
            if narrow(guess, [cell]):
                search(guess)
            if len(found) > 1:
                return

    start = {cell: set(options[cell]) for cell in cells}
    if narrow(start, list(cells)):
        search(start)
    return found


def _only(found: list[dict[Place, int]]) -> dict[Place, int]:
    if not found:
        raise UnsolvedError("nothing fits")
    if len(found) > 1:
        raise AmbiguousError("several boards fit")
    return found[0]


def _latin(size: int) -> list[list[Place]]:
    return [[(r, c) for c in range(size)] for r in range(size)] + [[(r, c) for r in range(size)] for c in range(size)]


def _sudoku(question: str, size: int, box: int) -> Solution:
    lines = [line.split() for line in question.splitlines() if re.fullmatch(r"[_\d](?: [_\d])+\s*", line)]
    given = {(r, c): word for r, row in enumerate(lines[:size]) for c, word in enumerate(row)}
    boxes = [
        [(top + r, left + c) for r in range(box) for c in range(box)]
        for top in range(0, size, box)
        for left in range(0, size, box)
    ]
    options = {cell: set(range(1, size + 1)) if word == "_" else {int(word)} for cell, word in given.items()}
    filled = _only(fill(list(given), options, _latin(size) + boxes, []))
    return _matrix([[filled[r, c] for c in range(size)] for r in range(size)])


def sudoku(question: str) -> Solution:
    return _sudoku(question, 9, 3)


def mini_sudoku(question: str) -> Solution:
    return _sudoku(question, 4, 2)


def futoshiki(question: str) -> Solution:
    size = int(find(r"(\d+)x\d+ Futoshiki", question)[1])
    lines = find(r"puzzle:\n\n(.*?)\n\nEnsure", question)[1].split("\n")
    options: dict[Place, set[int]] = {}
    pairs: list[tuple[Place, Place]] = []
    for number, line in enumerate(lines):
        row = number // 2
        for column, sign in enumerate(line):
            cell = (row, column // 4)
            if number % 2 == 0 and column % 4 == 0:
                options[cell] = set(range(1, size + 1)) if sign == "_" else {int(sign)}
            elif sign == "<":
                pairs.append((cell, (row, cell[1] + 1)))
            elif sign == ">":
                pairs.append(((row, cell[1] + 1), cell))
            elif sign == "∧":
                pairs.append((cell, (row + 1, cell[1])))
            elif sign == "∨":
                pairs.append(((row + 1, cell[1]), cell))
    filled = _only(fill(list(options), options, _latin(size), pairs))

    def drawn(values: dict[Place, int]) -> str:
        board = []
        for number, line in enumerate(lines):
            signs = list(line)
            if number % 2 == 0:
                for column in range(size):
                    signs[column * 4] = str(values[number // 2, column])
            board.append("".join(signs))
        return "\n".join(board)

    swapped = filled | {(0, 0): filled[0, 1], (0, 1): filled[0, 0]}
    return Solution(drawn(filled), wrong=(drawn(swapped),))


def survo(question: str) -> Solution:
    rows = number_rows(question)
    numbers = integers(find(r"\[([\d, ]+)\]", question)[1])
    height, width = len(rows), len(rows[0])
    empty = [(r, c) for r in range(height - 1) for c in range(width - 1) if rows[r][c] == 0]
    found: list[Grid] = []

    def search(number: int, left: Counter[int]) -> None:
        if len(found) > 1:
            return
        if number == len(empty):
            if all(sum(rows[r][:-1]) == rows[r][-1] for r in range(height)) and all(
                sum(rows[r][c] for r in range(height - 1)) == rows[-1][c] for c in range(width)
            ):
                found.append([row[:] for row in rows])
            return
        r, c = empty[number]
        last_in_row = number + 1 == len(empty) or empty[number + 1][0] != r
        for value in [value for value, count in left.items() if count]:
            if last_in_row and sum(rows[r][:-1]) + value != rows[r][-1]:
                continue
            rows[r][c] = value
            left[value] -= 1
            search(number + 1, left)
            left[value] += 1
            rows[r][c] = 0

    search(0, Counter(numbers))
    if not found:
        raise UnsolvedError("nothing fits")
    return replace(_matrix(found[0]), others=tuple(map(as_rows, found[1:])))


def kakurasu(question: str) -> Solution:
    row_sums = integers(find(r"[Rr]ow (?:sums|constraints|totals|targets)[^\[]*\[(.*?)\]", question)[1])
    column_sums = integers(find(r"[Cc]olumn (?:sums|constraints|totals|targets)[^\[]*\[(.*?)\]", question)[1])
    width = len(column_sums)
    options = [
        [bits for bits in product((0, 1), repeat=width) if sum(j * bit for j, bit in enumerate(bits, 1)) == total]
        for total in row_sums
    ]
    found: list[list[tuple[int, ...]]] = []

    def search(rows: list[tuple[int, ...]], left: list[int]) -> None:
        if len(found) > 1:
            return
        if len(rows) == len(row_sums):
            if not any(left):
                found.append(rows)
            return
        weight = len(rows) + 1
        for bits in options[len(rows)]:
            after = [rest - weight * bit for rest, bit in zip(left, bits, strict=True)]
            if min(after) >= 0:
                search([*rows, bits], after)

    search([], column_sums)
    if not found:
        raise UnsolvedError("nothing fits")
    solutions = [[list(bits) for bits in rows] for rows in found]
    flipped = [row[:] for row in solutions[0]]
    flipped[0][0] = 1 - flipped[0][0]
    return Solution(as_rows(solutions[0]), tuple(map(as_rows, solutions[1:])), (as_rows(flipped),))


def n_queens(question: str) -> Solution:
    rows = [line.split() for line in question.splitlines() if re.fullmatch(r"[_Q](?: [_Q])+\s*", line)]
    size = len(rows)
    given = {r: row.index("Q") for r, row in enumerate(rows) if "Q" in row}
    found: list[dict[int, int]] = []

    def safe(r: int, c: int, placed: dict[int, int]) -> bool:
        return all(c != other and abs(c - other) != abs(r - row) for row, other in placed.items() if row != r)

    def search(placed: dict[int, int]) -> None:
        if len(found) > 1:
            return
        open_rows = [r for r in range(size) if r not in placed]
        if not open_rows:
            found.append(dict(placed))
            return
        r = min(open_rows, key=lambda row: sum(safe(row, c, placed) for c in range(size)))
        for c in range(size):
            if safe(r, c, placed):
                search(placed | {r: c})

    search(given)
    if not found:
        raise UnsolvedError("nothing fits")

    def drawn(placed: dict[int, int]) -> str:
        return "\n".join(" ".join("Q" if placed.get(r) == c else "_" for c in range(size)) for r in range(size))

    r = next(row for row in range(size) if row not in given)
    moved = found[0] | {r: (found[0][r] + 1) % size}
    return Solution(drawn(found[0]), tuple(map(drawn, found[1:])), (drawn(moved), drawn(given)))


# ---------------------------------------------------------------------------- patterns and drawings


def modulo_grid(question: str) -> Solution:
    """Find a divisor, remainder and operation on row and column that agree with every visible cell.

    If another rule agrees with all visible cells but gives different hidden cells, the question is ambiguous.
    """
    rows = [line for line in question.splitlines() if re.fullmatch(r"[❌✅❔]+", line.strip())]
    shown = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row.strip())}
    hidden = [place for place, sign in shown.items() if sign == "❔"]
    operations: list[Callable[[int, int], int]] = [
        lambda r, c: r + c,
        lambda r, c: r * c,
        lambda r, c: r**c,
        lambda r, c: c**r,
        lambda r, c: c - r,
        lambda r, c: r - c,
        lambda r, c: abs(r - c),
    ]
    answers: list[str] = []
    for operation, start in product(operations, (0, 1)):
        values = {(r, c): operation(r + start, c + start) for r, c in shown}
        for divisor in range(1, 41):
            wanted = {values[place] % divisor for place, sign in shown.items() if sign == "✅"}
            if len(wanted) > 1:
                continue
            for remainder in wanted or set(range(divisor)):
                if all(
                    (values[place] % divisor == remainder) == (sign == "✅")
                    for place, sign in shown.items()
                    if sign != "❔"
                ):
                    filled = shown | {place: "✅" if values[place] % divisor == remainder else "❌" for place in hidden}
                    text = "\n".join(
                        "".join(filled[r, c] for c in range(len(rows[0].strip()))) for r in range(len(rows))
                    )
                    if text not in answers:
                        answers.append(text)
    if not answers:
        raise UnsolvedError("no rule of the known kinds")
    if len(answers) > 1:
        raise AmbiguousError("several rules agree with what is shown")
    off = answers[0].replace("✅", "❌", 1) if "✅" in answers[0] else answers[0].replace("❌", "✅", 1)
    return Solution(answers[0], wrong=(off,))


def rectangle_count(question: str) -> Solution:
    """Find the smallest number of rectangles whose outlines explain every mark: `#` is one outline, `█` is two."""
    lines = question.split("grid below?\n", 1)[1].splitlines()
    width = max(map(len, lines)) + 1
    once = twice = 0
    for row, line in enumerate(lines):
        for column, sign in enumerate(line):
            if sign in "#█":
                once |= 1 << (row * width + column)
            if sign == "█":
                twice |= 1 << (row * width + column)
    count = _rectangles(once, twice, width)
    return Solution(str(count), wrong=near_number(count))


def _rectangles(once: int, twice: int, width: int) -> int:
    """Return the smallest number of outlines that add up to the marks.

    The marks are bits: `once` has all marks, and `twice` the double ones. The lowest bit is the topmost, leftmost mark,
    which is the corner of a rectangle.
    """
    best = 10_000
    steps = 0

    def run(marks: int, start: int, step: int) -> list[int]:
        """Return the bits of the uninterrupted row of marks that begins at `start`."""
        bits = []
        while marks >> start & 1:
            bits.append(start)
            start += step
        return bits

    def search(single: int, double: int, count: int) -> None:
        nonlocal best, steps
        steps += 1
        if steps > 60_000:
            raise UnsolvedError("the search is too long")
        if count >= best:
            return
        if not single:
            best = count
            return
        corner = (single & -single).bit_length() - 1
        top, side = run(single, corner, 1), run(single, corner, width)
        for right in reversed(top[1:]):
            other_side = run(single, right, width)
            for height in range(min(len(side), len(other_side)) - 1, 0, -1):
                bottom = side[height]
                outline = 0
                for place in range(right - corner + 1):
                    outline |= 1 << (corner + place) | 1 << (bottom + place)
                for place in range(height + 1):
                    outline |= 1 << side[place] | 1 << other_side[place]
                if outline & ~single:
                    continue
                search(single & ~(outline & ~double), double & ~outline, count + 1)

    search(once, twice, 0)
    if best == 10_000:
        raise UnsolvedError("no rectangles explain the marks")
    return best


def tsumego(question: str) -> Solution:
    """Find the black move that captures the most white stones."""
    columns = find(r"```\n\s+([A-Z ]+)\n", question)[1].split()
    lines = re.findall(r"^ ?(\d+) ([.XO](?: [.XO])*)\s*$", question, re.MULTILINE)
    board = {
        (int(number), column): sign
        for number, line in lines
        for column, sign in zip(columns, line.split(), strict=True)
    }

    def beside(place: tuple[int, str]) -> list[tuple[int, str]]:
        number, column = place
        at = columns.index(column)
        near = [(number - 1, column), (number + 1, column)]
        near += [(number, columns[other]) for other in (at - 1, at + 1) if 0 <= other < len(columns)]
        return [other for other in near if other in board]

    def captured(move: tuple[int, str]) -> int:
        after = board | {move: "X"}
        dead: set[tuple[int, str]] = set()
        for place in beside(move):
            if after[place] != "O" or place in dead:
                continue
            chain, queue, free = {place}, [place], False
            while queue:
                for other in beside(queue.pop()):
                    if after[other] == ".":
                        free = True
                    elif after[other] == "O" and other not in chain:
                        chain.add(other)
                        queue.append(other)
            if not free:
                dead |= chain
        return len(dead)

    counts = {move: captured(move) for move, sign in board.items() if sign == "."}
    most = max(counts.values())
    moves = [f"{column}{number}" for (number, column), count in counts.items() if count == most]
    if not most:
        raise UnsolvedError("no move captures")
    if len(moves) > 1:
        raise AmbiguousError("several moves capture as many")
    wrong = next(f"{column}{number}" for (number, column), count in counts.items() if count == 0)
    return Solution(moves[0], wrong=(wrong,))
