"""Solve games and planning tasks by simulating moves, and by searching if the search ends in time."""

from __future__ import annotations

import ast
import json
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from .contract import AmbiguousError, Solution, UnsolvedError, find, integers

S = TypeVar("S", bound=Hashable)


def breadth_first(
    start: S, moves: Callable[[S], Iterable[tuple[str, S]]], is_goal: Callable[[S], bool], *, limit: int = 200_000
) -> list[str] | None:
    """Return the shortest list of moves from `start` to a goal; None if there is none.

    Raises UnsolvedError after `limit` states.
    """
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if is_goal(state):
            path = []
            step = came_from[state]
            while step is not None:
                path.append(step[1])
                step = came_from[step[0]]
            return path[::-1]
        for name, after in moves(state):
            if after not in came_from:
                came_from[after] = (state, name)
                queue.append(after)
        if len(came_from) > limit:
            raise UnsolvedError("the search is too long")
    return None


# ---------------------------------------------------------------------------- water, buttons, disks


def jugs(question: str) -> Solution:
    sizes = [(name, int(size)) for name, size in re.findall(r"\b([A-Z]):(\d+)", question)]
    target = int(find(r"target is: (\d+)", question)[1])
    names = [name for name, _ in sizes]
    capacity = [size for _, size in sizes]

    def moves(state: tuple[int, ...]) -> Iterable[tuple[str, tuple[int, ...]]]:
        for i, name in enumerate(names):
            yield f"fill {name}", (*state[:i], capacity[i], *state[i + 1 :])
            yield f"empty {name}", (*state[:i], 0, *state[i + 1 :])
            for j, other in enumerate(names):
                if i != j:
                    poured = min(state[i], capacity[j] - state[j])
                    after = list(state)
                    after[i] -= poured
                    after[j] += poured
                    yield f"pour {name}->{other}", tuple(after)

    path = breadth_first((0,) * len(sizes), moves, lambda state: target in state)
    if path is None:
        raise UnsolvedError("the target cannot be reached")
    longer = [f"fill {names[0]}", f"empty {names[0]}", *path]
    return Solution(json.dumps(path), (json.dumps(longer),), (json.dumps(path[:-1]), json.dumps([])))


def quantum_lock(question: str) -> Solution:
    start, light = find(r"Start: (-?\d+) \((red|green)\)", question).groups()
    target = int(find(r"Target: (-?\d+)", question)[1])
    buttons = re.findall(r"^([A-Z]): (Add|Subtract|Multiply) (\d+) \(when (red|green|any)\)", question, re.MULTILINE)
    may_press = "can be pressed only while the light has that color" not in question

    def moves(state: tuple[int, str]) -> Iterable[tuple[str, tuple[int, str]]]:
        value, color = state
        other = "green" if color == "red" else "red"
        for name, operation, number, when in buttons:
            after = value
            if when not in ("any", color) and not may_press:
                continue
            if when in ("any", color):
                amount = int(number)
                after = {"Add": value + amount, "Subtract": value - amount, "Multiply": value * amount}[operation]
            if abs(after) <= 1_000_000:
                yield name, (after, other)

    path = breadth_first((int(start), light), moves, lambda state: state[0] == target)
    if path is None:
        raise UnsolvedError("the target cannot be reached")
    return Solution(" → ".join(path), wrong=(" → ".join(path[:-1]) or "A → A", " → ".join([*path, "A"])))


def tower_of_hanoi(question: str) -> Solution:
    """Move the disks over three or four pegs with the Frame-Stewart algorithm.

    The moves are legal, but not always the fewest.
    """
    disks, pegs = map(int, find(r"with (\d+) disks and (\d+) pegs", question).groups())
    start, goal = map(int, find(r"from Peg (\d+) to Peg (\d+)", question).groups())
    moves: list[tuple[int, int, int]] = []

    def move(count: int, smallest: int, source: int, target: int, free: list[int]) -> None:
        if count == 0:
            return
        if count == 1:
            moves.append((smallest, source, target))
            return
        if len(free) == 1:
            upper = count - 1
        else:
            upper = min(range(1, count), key=lambda k: 2 * _frame(k, len(free) + 2) + _frame(count - k, len(free) + 1))
        through = free[0]
        move(upper, smallest, source, through, [*free[1:], target])
        move(count - upper, smallest + upper, source, target, free[1:])
        move(upper, smallest, through, target, [*free[1:], source])

    move(disks, 1, start, goal, [peg for peg in range(1, pegs + 1) if peg not in (start, goal)])
    lines = [f"Move disk {disk} from Peg {source} to Peg {target}" for disk, source, target in moves]
    if "shortest sequence of moves. Disk 1 is the smallest" not in question:
        raise AmbiguousError("more moves than needed are right, or are not")
    first_disk, source, target = moves[0]
    other = next(peg for peg in range(1, pegs + 1) if peg not in (source, target))
    detour = [f"Move disk {first_disk} from Peg {source} to Peg {other}"]
    detour += [f"Move disk {first_disk} from Peg {other} to Peg {target}", *lines[1:]]
    return Solution("\n".join(lines), wrong=("\n".join(lines[:-1]), "\n".join(lines[1:]), "\n".join(detour)))


def _frame(disks: int, pegs: int) -> int:
    """Return the moves of the Frame-Stewart algorithm for these disks and pegs."""
    if disks <= 1:
        return disks
    if pegs == 3:
        return int(2**disks) - 1
    return min(2 * _frame(upper, pegs) + _frame(disks - upper, pegs - 1) for upper in range(1, disks))


# ---------------------------------------------------------------------------- cards and cubes


def mahjong_puzzle(question: str) -> Solution:
    """Apply the three rules to the last card: two equal cards in hand, or two cards that form a sequence with it."""
    hand = list(find(r"initial cards ([A-Z]+)", question)[1])
    rounds = re.findall(r"Add an? ([A-Z]) card and remove an? ([A-Z]) card", question)
    result = "Pass"
    for added, removed in rounds:
        near = {offset: chr(ord(added) + offset) in hand for offset in (-2, -1, 1, 2)}
        if hand.count(added) >= 2:
            result = "Peng"
        elif (near[-2] and near[-1]) or (near[-1] and near[1]) or (near[1] and near[2]):
            result = "Chi"
        else:
            result = "Pass"
        hand.append(added)
        hand.remove(removed)
    return Solution(result, wrong=tuple(word for word in ("Pass", "Chi", "Peng") if word != result))


TURNS = {
    "front": {"top": "front", "back": "top", "bottom": "back", "front": "bottom"},
    "back": {"top": "back", "front": "top", "bottom": "front", "back": "bottom"},
    "left": {"top": "left", "right": "top", "bottom": "right", "left": "bottom"},
    "right": {"top": "right", "left": "top", "bottom": "left", "right": "bottom"},
}
"""For each side that is turned to the top, the side from which every side gets its new color."""


def color_cube_rotation(question: str) -> Solution:
    """Rotate the cube. A half turn from bottom to top has two possible axes, and the answer may depend on the axis."""
    sides = ("top", "right", "front", "left", "back", "bottom")
    colors = {side: color for color, side in re.findall(r"- an? (\w+) (\w+) side", question)}
    asked = find(r"color of the (\w+) side", question)[1]
    sentences = question.split("bottom side", 1)[1].split("What is now")[0]
    steps = [sentence for sentence in sentences.split(".") if "top" in sentence]
    turned = []
    for sentence in steps:
        named = [word for word in re.findall(r"\w+", sentence) if word in sides and word != "top"]
        if len(named) != 1:
            raise UnsolvedError(f"the turn {sentence.strip()!r}")
        turned.append(named[0])
    states = [colors]
    for side in turned:
        if side == "bottom":
            axes = ("front",) if "leaves the left and right sides where they are" in question else ("front", "right")
            states = [_turn(_turn(state, first), first) for state in states for first in axes]
        else:
            states = [_turn(state, side) for state in states]
        states = [dict(state) for state in {tuple(sorted(state.items())) for state in states}]
    answers = {state[asked] for state in states}
    if len(answers) > 1:
        raise AmbiguousError("a half turn about an axis that is not told")
    answer = answers.pop()
    return Solution(answer, wrong=tuple(color for color in list(colors.values())[:3] if color != answer))


def _turn(colors: dict[str, str], side: str) -> dict[str, str]:
    return {place: colors[TURNS[side].get(place, place)] for place in colors}


# ---------------------------------------------------------------------------- graphs


def graph_color(question: str) -> Solution:
    vertices = integers(find(r"Vertices: \[(.*?)\]", question)[1])
    edges = [(int(a), int(b)) for a, b in re.findall(r"\((\d+), (\d+)\)", find(r"Edges: \[(.*?)\]", question)[1])]
    colors = integers(find(r"colors: \[(.*?)\]", question)[1])
    beside: dict[int, set[int]] = {vertex: set() for vertex in vertices}
    for a, b in edges:
        beside[a].add(b)
        beside[b].add(a)
    steps = 0

    def search(chosen: dict[int, int]) -> dict[int, int] | None:
        nonlocal steps
        steps += 1
        if steps > 50_000:
            raise UnsolvedError("the search is too long")
        left = [vertex for vertex in vertices if vertex not in chosen]
        if not left:
            return chosen

        def free(vertex: int) -> list[int]:
            return [color for color in colors if all(chosen.get(other) != color for other in beside[vertex])]

        vertex = min(left, key=lambda v: (len(free(v)), -len(beside[v])))
        for color in free(vertex):
            answer = search(chosen | {vertex: color})
            if answer is not None:
                return answer
        return None

    coloring = search({})
    if coloring is None:
        raise UnsolvedError("no coloring")
    swap = {colors[0]: colors[1], colors[1]: colors[0]}
    other = {vertex: swap.get(color, color) for vertex, color in coloring.items()}
    wrong = []
    if edges:
        a, b = edges[0]
        wrong.append(_json_map(coloring | {a: coloring[b]}))
    wrong.append(_json_map({vertex: color for vertex, color in coloring.items() if vertex != vertices[0]}))
    return Solution(_json_map(coloring), (_json_map(other),), tuple(wrong))


def _json_map(values: dict[int, int]) -> str:
    return json.dumps({str(key): value for key, value in values.items()})


def course_schedule(question: str) -> Solution:
    count = int(find(r"total of (\d+) courses", question)[1])
    needs: dict[int, set[int]] = {course: set() for course in range(count)}
    for course, before in re.findall(
        r"\((\d+), (\d+)\)", find(r"take course b_i if you want to take course a_i:\s*(\[.*?\])", question)[1]
    ):
        needs[int(course)].add(int(before))
    done: set[int] = set()
    while ready := {course for course in needs if course not in done and needs[course] <= done}:
        done |= ready
    finished = len(done) == count
    return Solution(str(finished), wrong=(str(not finished),))


def path_star(question: str) -> Solution:
    task = question.split("following task:")[1]
    after: dict[str, list[str]] = {}
    for a, b in re.findall(r"\|(\d+) (\d+)", task):
        after.setdefault(a, []).append(b)
    start, goal = find(r"/(\d+) (\d+)", task).groups()
    path = breadth_first(
        start, lambda node: [(other, other) for other in after.get(node, [])], lambda node: node == goal
    )
    if path is None:
        raise UnsolvedError("no path")
    nodes = [start, *path]
    return Solution(" ".join(nodes), wrong=(" ".join(nodes[:-1]), " ".join(nodes[::-1])))


# ---------------------------------------------------------------------------- boards with pieces


Knights = tuple[str, frozenset[str], frozenset[str]]


def knight_swap(question: str) -> Solution:
    """Search all positions. The sides move in turns, beginning with the named side, and cannot pass."""
    columns = find(r"```\n\s+([A-Z ]+)\n", question)[1].split()
    squares: dict[str, str] = {}
    for row, cells in re.findall(r"^(\d+) \|(.*)\|$", question, re.MULTILINE):
        for column, cell in zip(columns, cells.split("|"), strict=True):
            if cell.strip():
                squares[f"{column}{row}"] = cell.strip()

    def jumps(square: str) -> list[str]:
        column, row = columns.index(square[0]), int(square[1:])
        near = []
        for dx, dy in ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1)):
            if 0 <= column + dx < len(columns):
                other = f"{columns[column + dx]}{row + dy}"
                if other in squares:
                    near.append(other)
        return near

    beside = {square: jumps(square) for square in squares}
    white = frozenset(square for square, sign in squares.items() if sign == "w")
    black = frozenset(square for square, sign in squares.items() if sign == "B")

    def moves(state: Knights) -> Iterable[tuple[str, Knights]]:
        turn, whites, blacks = state
        own = whites if turn == "w" else blacks
        for start in sorted(own):
            for end in beside[start]:
                if end not in whites and end not in blacks:
                    moved = own - {start} | {end}
                    after = ("B", moved, blacks) if turn == "w" else ("w", whites, moved)
                    yield f"{turn},{start},{end}", after

    first = find(r"3\. (w|B) moves first", question)[1]
    start = (first, white, black)
    path = breadth_first(start, moves, lambda state: state[1] == black and state[2] == white, limit=400_000)
    if path is None:
        return Solution("No", wrong=(json.dumps([next(iter(moves(start)), ("w,A1,B3", None))[0]]),))
    if "list the fewest moves" not in question:
        raise AmbiguousError("more moves than needed are right, or are not")
    wrong = ["No", json.dumps(path[:-1]), json.dumps(path[1:])]
    detour = _there_and_back(path[0], path[1])
    if detour:
        wrong.append(json.dumps([*detour, *path]))
    return Solution(json.dumps(path), wrong=tuple(wrong))


def _there_and_back(first: str, second: str) -> list[str]:
    """Return two moves and their reverse, or [] if the second move goes to the square that the first left."""
    moves = [move.split(",") for move in (first, second)]
    if moves[1][2] == moves[0][1]:
        return []
    back = [",".join([color, end, start]) for color, start, end in moves]
    return [first, second, *back]


DIRECTIONS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
Place = tuple[int, int]


def _sokoban_board(question: str) -> tuple[set[Place], Place, frozenset[Place], set[Place]]:
    rows = [line.split() for line in question.split("Here is your puzzle:")[1].splitlines() if line.strip()]
    cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
    walls = {place for place, sign in cells.items() if sign == "+"}
    player = next(place for place, sign in cells.items() if sign in "*%")
    boxes = frozenset(place for place, sign in cells.items() if sign in "@$")
    goals = {place for place, sign in cells.items() if sign in "X$%"}
    return walls, player, boxes, goals


def _push(
    walls: set[Place], player: Place, boxes: frozenset[Place], letter: str
) -> tuple[Place, frozenset[Place]] | None:
    """Return the positions of player and boxes after a move; None if a wall or another box is in the way."""
    down, right = DIRECTIONS[letter]
    target = (player[0] + down, player[1] + right)
    if target in walls:
        return None
    if target in boxes:
        behind = (target[0] + down, target[1] + right)
        if behind in walls or behind in boxes:
            return None
        boxes = boxes - {target} | {behind}
    return target, boxes


def sokoban_check(question: str, answer: str) -> bool:
    walls, player, boxes, goals = _sokoban_board(question)
    for letter in answer.strip():
        after = _push(walls, player, boxes, letter) if letter in DIRECTIONS else None
        if after is None:
            return False
        player, boxes = after
    return boxes <= goals


def sokoban(question: str) -> Solution:
    walls, player, boxes, goals = _sokoban_board(question)
    corners = {
        place
        for place in _reachable(walls, player)
        if place not in goals
        and any(
            (place[0] + a, place[1]) in walls and (place[0], place[1] + b) in walls for a in (-1, 1) for b in (-1, 1)
        )
    }

    def moves(state: tuple[Place, frozenset[Place]]) -> Iterable[tuple[str, tuple[Place, frozenset[Place]]]]:
        for letter in DIRECTIONS:
            after = _push(walls, *state, letter)
            if after is not None and not after[1] & corners:
                yield letter, after

    path = breadth_first((player, boxes), moves, lambda state: state[1] <= goals, limit=40_000)
    if path is None:
        raise UnsolvedError("no plan")
    return Solution("".join(path), wrong=("".join(path[:-1]), "".join(path) + " and more", "not " + "".join(path)))


def _reachable(walls: set[Place], start: Place) -> set[Place]:
    seen, queue = {start}, [start]
    while queue:
        r, c = queue.pop()
        for down, right in DIRECTIONS.values():
            place = (r + down, c + right)
            if place not in walls and place not in seen and len(seen) < 10_000:
                seen.add(place)
                queue.append(place)
    return seen


def rush_hour(question: str) -> Solution:
    rows = question.split("Board:")[1].split()
    size = len(rows)
    cars: dict[str, list[Place]] = {}
    for r, row in enumerate(rows):
        for c, sign in enumerate(row):
            if sign not in ".x":
                cars.setdefault(sign, []).append((r, c))
    walls = {(r, c) for r, row in enumerate(rows) for c, sign in enumerate(row) if sign == "x"}
    names = sorted(cars)
    across = {name: cars[name][0][0] == cars[name][-1][0] for name in names}
    lengths = {name: len(cars[name]) for name in names}
    State = tuple[int, ...]

    def place_of(name: str, offset: int) -> list[Place]:
        r, c = cars[name][0]
        if across[name]:
            return [(r, offset + number) for number in range(lengths[name])]
        return [(offset + number, c) for number in range(lengths[name])]

    start: State = tuple(cars[name][0][1] if across[name] else cars[name][0][0] for name in names)

    def moves(state: State) -> Iterable[tuple[str, State]]:
        taken = set(walls)
        for name, offset in zip(names, state, strict=True):
            taken |= set(place_of(name, offset))
        for number, name in enumerate(names):
            own = set(place_of(name, state[number]))
            for step in (-1, 1):
                offset = state[number] + step
                while 0 <= offset <= size - lengths[name]:
                    if any(place in taken and place not in own for place in place_of(name, offset)):
                        break
                    yield f"{name}{offset - state[number]:+d}", (*state[:number], offset, *state[number + 1 :])
                    offset += step

    red = names.index("A")
    path = breadth_first(start, moves, lambda state: state[red] == size - lengths["A"], limit=120_000)
    if path is None:
        raise UnsolvedError("no way out")
    illegal = [re.sub(r"\d+", "9", step) for step in path]
    return Solution(" ".join(path), wrong=(" ".join(path[:-1]) or "A+1", " ".join(illegal), " ".join(["Z+1", *path])))


def boxnet(question: str) -> Solution:
    """Move each box to the square of its target, with one agent and one move at a time, and then into the target."""
    squares: dict[str, list[str]] = {}
    for square, seen in re.findall(
        r"Agent\[([\d., ]+)\]: I am in square\[[\d., ]+\], I can observe (\[.*?\])", question
    ):
        squares[square] = ast.literal_eval(seen)
    several: dict[str, list[str]] = {}
    for square, seen in squares.items():
        for item in seen:
            if item.startswith("target_"):
                several.setdefault(item.removeprefix("target_"), []).append(square)

    def beside(square: str) -> list[str]:
        x, y = map(float, square.split(", "))
        near = [f"{x + dx}, {y + dy}" for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        return [other for other in near if other in squares]

    def steps(square: str) -> list[tuple[str, str]]:
        return [(other, other) for other in beside(square)]

    plan: list[dict[str, str]] = []
    for square, seen in squares.items():
        for item in seen:
            if not item.startswith("box_"):
                continue
            color = item.removeprefix("box_")
            if color not in several:
                raise UnsolvedError(f"no target for {item}")
            goal = several[color].pop(0) if len(several[color]) > 1 else several[color][0]
            path = breadth_first(square, steps, goal.__eq__)
            if path is None:
                raise UnsolvedError(f"no way for {item}")
            here = square
            for after in path:
                plan.append({f"Agent[{here}]": f"move({item}, square[{after}])"})
                here = after
            plan.append({f"Agent[{here}]": f"move({item}, target_{color})"})
    return Solution(json.dumps(plan), wrong=(json.dumps(plan[:-1]), json.dumps([])))


# ---------------------------------------------------------------------------- a cube that turns

FACES = "ULFRBD"


def rubiks_cube(question: str) -> Solution:
    """Search from both ends. The search solves only cubes that need few turns."""
    lines = [line for line in question.splitlines() if re.fullmatch(r"\s*[A-Z](?:\s+[A-Z])*\s*", line)]
    size = int(find(r"size (\d+)|(\d+)x\d+x\d+", question)[1] or find(r"(\d+)x\d+x\d+", question)[1])
    rows = [line.split() for line in lines]
    if size != 3 or len(rows) != 9:
        raise UnsolvedError(f"a cube of size {size}")
    faces: dict[str, list[str]] = {face: [] for face in FACES}
    for row in rows[:3]:
        faces["U"] += row
    for row in rows[3:6]:
        for number, face in enumerate("LFRB"):
            faces[face] += row[3 * number : 3 * number + 3]
    for row in rows[6:]:
        faces["D"] += row
    start = "".join("".join(faces[face]) for face in FACES)
    solved = "".join(faces[face][4] * 9 for face in FACES)
    turns = _turns()
    inverse = {name: name[0] if name.endswith("'") else name + "'" for name in turns}
    front: dict[str, tuple[str, ...]] = {start: ()}
    back: dict[str, tuple[str, ...]] = {solved: ()}
    seen_front = dict(front)
    seen_back = dict(back)
    for depth in range(10):
        meeting = seen_front.keys() & seen_back.keys()
        if meeting:
            state = min(meeting, key=lambda s: len(seen_front[s]) + len(seen_back[s]))
            moves = [*seen_front[state], *(inverse[name] for name in reversed(seen_back[state]))]
            text = " ".join(moves) or "U U'"
            unfinished = " ".join(moves[:-1]) or f"{text} {text}"
            return Solution(text, (f"{text} U U'",), (unfinished, f"{text} U"))
        growing, seen = (front, seen_front) if depth % 2 == 0 else (back, seen_back)
        if len(growing) > 20_000:
            break
        new: dict[str, tuple[str, ...]] = {}
        for state, path in growing.items():
            for name, order in turns.items():
                after = "".join([state[place] for place in order])
                if after not in seen:
                    seen[after] = new[after] = (*path, name)
        if depth % 2 == 0:
            front = new
        else:
            back = new
    raise UnsolvedError("the search is too long")


def _turns() -> dict[str, list[int]]:
    """Return for each turn in both directions the origin of each of the 54 stickers.

    A sticker is a point on the cube's surface: x to the right, y up, z to the viewer. A turn rotates the points of one
    layer.
    """
    points = []
    for face in FACES:
        for r in range(3):
            for c in range(3):
                a, b = c - 1, 1 - r
                points.append(
                    {
                        "U": (a, 2, -b),
                        "L": (-2, b, a),
                        "F": (a, b, 2),
                        "R": (2, b, -a),
                        "B": (-a, b, -2),
                        "D": (a, -2, b),
                    }[face]
                )
    index = {point: number for number, point in enumerate(points)}
    spin: dict[str, Callable[[int, int, int], tuple[int, int, int]]] = {
        "U": lambda x, y, z: (-z, y, x),
        "D": lambda x, y, z: (z, y, -x),
        "R": lambda x, y, z: (x, z, -y),
        "L": lambda x, y, z: (x, -z, y),
        "F": lambda x, y, z: (y, -x, z),
        "B": lambda x, y, z: (-y, x, z),
    }
    layer: dict[str, Callable[[int, int, int], bool]] = {
        "U": lambda x, y, z: y >= 1,
        "D": lambda x, y, z: y <= -1,
        "R": lambda x, y, z: x >= 1,
        "L": lambda x, y, z: x <= -1,
        "F": lambda x, y, z: z >= 1,
        "B": lambda x, y, z: z <= -1,
    }
    turns = {}
    for face in FACES:
        order = list(range(54))
        back = list(range(54))
        for number, point in enumerate(points):
            if layer[face](*point):
                to = index[spin[face](*point)]
                order[to] = number
                back[number] = to
        turns[face] = order
        turns[face + "'"] = back
    return turns
