"""Games and puzzles: filling boards, finding moves, combining numbers."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence

from ..answers import boards, corrections, expressions, guards, moves, types, values
from ..answers.rules import AnswerRules, Dataset, Entry
from .declaration import (
    A_BOARD,
    A_TEXT,
    Clarification,
    Corrected,
    FieldLevels,
    Replacement,
    Task,
    easy,
    replacing,
    wrong,
)

BOXNET = Task(
    "boxnet",
    "games",
    has_small_pool=True,
    question_counts=(None, 8300, None),
    clarification=Clarification(
        "the question does not say whether a plan may have unnecessary steps",
        "in any number of steps",
        replacing("in the most efficient manner", "in any number of steps"),
    ),
    answer=AnswerRules(
        values.plan, several_right_answers=True, guard=moves.score_boxnet, correction=moves.correct_boxnet
    ),
)

COUNTDOWN = Task(
    "countdown",
    "games",
    faster=Replacement("games.countdown", "349cd7042a92a8b5", "small.install_countdown"),
    levels=(
        FieldLevels(
            ("min_numbers", "max_numbers"), (3, 4, 6, 8, 10), "a problem with 15 numbers takes seconds to generate"
        ),
        FieldLevels(
            ("min_target", "max_target"),
            ((10, 300), (100, 1000), (100, 2500), (1000, 5000)),
            "few expressions have a value in a narrow target range, so the generator often fails",
        ),
        FieldLevels(("min_value", "max_value"), ((1, 100),), "without small numbers, the generator mostly fails"),
    ),
    answer=AnswerRules(
        expressions.arithmetic,
        several_right_answers=True,
        guard=guards.score_arithmetic,
        library_score=guards.score_without_running,
        correction=corrections.correct_countdown,
        is_formula=True,
    ),
)

FUTOSHIKI = Task(
    "futoshiki",
    "games",
    question_counts=(None, None),
    levels=(
        FieldLevels(("min_board_size", "max_board_size"), (4, 5, 6, 7, 8), "a 9 x 9 board takes up to 3 s to generate"),
    ),
    faster=Replacement("games.futoshiki", "1e17d801b9695f35", "futoshiki.install"),
    answer=A_BOARD,
)

JUGS = Task(
    "jugs",
    "algorithmic",
    has_small_pool=True,
    question_counts=(780, 200, 520, 1100, 2100, 3100),
    levels=(
        FieldLevels(
            ("num_jugs",),
            (3,),
            "the library's solutions use only three jugs; a problem with 6 jugs takes over 10 s to generate",
        ),
    ),
    answer=AnswerRules(values.jug_moves, several_right_answers=True),
)

KAKURASU = Task(
    "kakurasu",
    "games",
    has_small_pool=True,
    question_counts=(None, None, None),
    answer=AnswerRules(boards.board, several_right_answers=True, correction=corrections.correct_kakurasu),
)

Move = tuple[str, str, str]

State = tuple[str, frozenset[str], frozenset[str]]
"""The side to move (`w` or `B`), and the squares of the white and of the black knights."""


def _swap_knights(entry: Entry, dataset: Dataset) -> Corrected:
    """Search for moves that swap the knights; the library ignores some jumps, so it misses some possible swaps."""
    metadata = entry["metadata"]
    if metadata["is_possible"]:
        return str(entry["answer"]), {}
    squares = list(metadata["board"])
    board = {square: [other for other in squares if _is_jump(square, other)] for square in squares}
    moves = _shortest_swap(board, metadata["pieces"], metadata["start_turn"])
    if moves is None:
        return str(entry["answer"]), {}
    answer = json.dumps([",".join(move) for move in moves])
    return answer, {"board": board, "is_possible": True, "solution": moves, "num_steps": len(moves)}


def _is_jump(square: str, other: str) -> bool:
    columns = abs(ord(square[0]) - ord(other[0]))
    rows = abs(int(square[1:]) - int(other[1:]))
    return {columns, rows} == {1, 2}


def _shortest_swap(board: Mapping[str, list[str]], pieces: Mapping[str, str | None], first: str) -> list[Move] | None:
    """Return the shortest list of moves that swaps the white and the black knights; None if a swap is impossible."""
    white = frozenset(square for square, piece in pieces.items() if piece == "w")
    black = frozenset(square for square, piece in pieces.items() if piece == "B")
    start: State = (first, white, black)
    came_from: dict[State, tuple[State, Move] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        turn, whites, blacks = state
        if whites == black and blacks == white:
            return _moves_to(state, came_from)
        for square in sorted(whites if turn == "w" else blacks):
            for other in board[square]:
                if other in whites or other in blacks:
                    continue
                if turn == "w":
                    following: State = ("B", whites - {square} | {other}, blacks)
                else:
                    following = ("w", whites, blacks - {square} | {other})
                if following not in came_from:
                    came_from[following] = (state, (turn, square, other))
                    queue.append(following)
    return None


def _moves_to(state: State, came_from: Mapping[State, tuple[State, Move] | None]) -> list[Move]:
    moves: list[Move] = []
    step = came_from[state]
    while step is not None:
        moves.append(step[1])
        step = came_from[step[0]]
    return moves[::-1]


KNIGHT_SWAP = Task(
    "knight_swap",
    "games",
    question_counts=(None, 1100),
    levels=(
        FieldLevels(
            ("min_nodes", "max_nodes"),
            (10, 11, 12),
            "the library's config rejects 4 nodes; a board of 6 to 9 nodes takes up to 4 s to generate",
        ),
        FieldLevels(
            ("min_pieces", "max_pieces"),
            ((1, 1), (2, 2), (2, 2), (3, 3)),
            "a board with 4 knights per side takes up to 9 s to generate",
        ),
        FieldLevels(
            ("min_steps", "max_steps"), ((1, 8), (6, 14), (12, 24)), "with more knights, a solution has more steps"
        ),
        FieldLevels(("impossible_ratio",), (0.2, 0.0, 0.0), "with 11 or more nodes, a swap is nearly always possible"),
    ),
    faster=Replacement("games.knight_swap", "a9de444d885125e0", "knight_swap.install"),
    right_answer=_swap_knights,
    clarification=Clarification(
        "the question does not say whether an answer may have unnecessary moves",
        "list the fewest moves that do it",
        replacing("If yes, list the moves.", "If yes, list the fewest moves that do it."),
    ),
    answer=AnswerRules(types.either("No", types.yes_with(values.knight_moves)), several_right_answers=True),
)


def _apply_last_card(entry: Entry, dataset: Dataset) -> Corrected:
    """Apply the question's rules to the last card.

    The library overlooks some cards that make a Peng or a Chi.
    """
    rounds = entry["metadata"]["rounds"]
    first_hand = re.search(r"initial cards ([A-Z]+)", str(entry["question"]))
    if first_hand is None:
        return str(entry["answer"]), {}
    hand = rounds[-2]["cards"] if len(rounds) > 1 else first_hand[1]
    card = rounds[-1]["add"]
    before, after = chr(ord(card) - 1), chr(ord(card) + 1)
    pairs = ((chr(ord(card) - 2), before), (before, after), (after, chr(ord(card) + 2)))
    if hand.count(card) >= 2:
        result = "Peng"
    elif any(low in hand and high in hand for low, high in pairs):
        result = "Chi"
    else:
        result = "Pass"
    return result, {"solution": result}


MAHJONG_PUZZLE = Task(
    "mahjong_puzzle",
    "games",
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("min_num_rounds", "max_num_rounds"),
            (10, 50, 100, 400),
            "a question with 500 rounds has over 20,000 characters",
        ),
    ),
    right_answer=_apply_last_card,
    options=3,
    answer=A_TEXT,
)

MINI_SUDOKU = Task(
    "mini_sudoku",
    "games",
    has_small_pool=True,
    question_counts=(5000, 6900, 6400),
    levels=(
        FieldLevels(("min_empty", "max_empty"), (6, 8, 10, 12), "with 4 blank cells, most are alone in their row"),
    ),
    answer=A_BOARD,
)

N_QUEENS = Task(
    "n_queens",
    "games",
    has_small_pool=True,
    question_counts=(7700, 2600, 5500, 2900, 7300, 9600),
    levels=(
        FieldLevels(
            ("n",), (7, 8, 8, 9, 10), "a 6 x 6 board has only 4 solutions; a 12 x 12 board takes 2 s to generate"
        ),
        FieldLevels(("min_remove", "max_remove"), (3, 4, 6, 7, 8), "a board of size n has only n queens to remove"),
    ),
    constructor_params=("n",),
    scores_without_params=True,
    answer=AnswerRules(
        boards.board,
        several_right_answers=True,
        guard=guards.score_equal,
        library_score=guards.score_without_running,
    ),
)

EACH_NUMBER = "Use each of the numbers exactly once."

PUZZLE24 = Task(
    "puzzle24",
    "games",
    has_small_pool=True,
    question_counts=(2400, 500, 1100, 2400, 1700, 570),
    levels=(
        FieldLevels(
            ("min_value", "max_value"),
            ((1, 6), (1, 8), (1, 10), (2, 10), (4, 10)),
            "24 can rarely be computed from numbers up to 5, and never if all numbers are large",
        ),
    ),
    faster=Replacement("games.puzzle24", "542f8a43867de1cc", "puzzle24.install"),
    clarification=Clarification(
        "the question does not say whether a number may be left out",
        EACH_NUMBER,
        replacing("You can only use each number once.", EACH_NUMBER),
    ),
    verifier_flaw="the library's verifier accepts an expression with numbers that the question does not give",
    answer=AnswerRules(
        expressions.arithmetic,
        several_right_answers=True,
        guard=guards.score_arithmetic,
        library_score=guards.score_without_running,
        correction=corrections.correct_puzzle24,
        is_formula=True,
    ),
)


def _is_solved_cube(entry: Entry) -> bool:
    metadata = entry["metadata"]
    return metadata["cube_size"] == 3 and not metadata["example_correct_answer"]


RUBIKS_CUBE = Task(
    "rubiks_cube",
    "cognition",
    has_small_pool=True,
    question_counts=(None, None, None),
    levels=(FieldLevels(("cube_size",), (3, 4, 5, 6), "the library's config rejects a cube of size 7"),),
    rejected=(easy("the cube is already solved", _is_solved_cube),),
    answer=AnswerRules(
        types.sequence(r"\d{0,4}(?:[LRDUBF]w?|[XYZMES])'?\d{0,4}"),
        several_right_answers=True,
        guard=moves.score_rubiks_cube,
    ),
)


def _spell_car_move(move: str) -> str:
    """Return a move with the car's letter once: `AA+4` becomes `A+4`. Boards show a car as `AA`."""
    return move[0] + move.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


RUSH_HOUR = Task(
    "rush_hour",
    "games",
    has_small_pool=True,
    question_counts=(None, 3400, 6100),
    levels=(
        FieldLevels(
            ("min_moves", "max_moves"),
            ((1, 10), (6, 18), (14, 26), (24, 36), (35, 60)),
            "only 23 of the library's boards need 50 moves or more, too few for a level",
        ),
    ),
    verifier_flaw="the library's verifier accepts moves through other cars and moves of missing cars",
    scores_without_params=True,
    answer=AnswerRules(
        types.sequence(r"([A-Z])\1{0,2}[+-]\d{1,9}", spell=_spell_car_move),
        several_right_answers=True,
        guard=moves.score_rush_hour,
        correction=moves.correct_rush_hour,
    ),
)

SOKOBAN = Task(
    "sokoban",
    "games",
    question_counts=(None, None),
    levels=(
        FieldLevels(
            ("min_w", "max_w"),
            ((6, 7), (8, 9), (10, 11), (11, 13)),
            "if all boards have the same width, the generator puts 10 boxes, the maximum, on each board",
        ),
        FieldLevels(
            ("min_h", "max_h"),
            ((6, 7), (8, 9), (10, 11), (11, 13)),
            "a board larger than 13 x 13 takes up to 17 s to generate",
        ),
    ),
    faster=Replacement("games.contrib.sokoban.src", "7549344e2aaa16b2", "sokoban.install"),
    verifier_flaw="the library's verifier accepts a solution with other text before or after it",
    answer=AnswerRules(
        types.sequence("[UDLRudlr]+", write="", spell=str.upper),
        several_right_answers=True,
        correction=moves.correct_sokoban,
    ),
)

SUDOKU = Task(
    "sudoku",
    "games",
    faster=Replacement("games.sudoku", "dcb9e0c968d33b0f", "sudoku.install"),
    question_counts=(None, None, None),
    levels=(
        FieldLevels(
            ("min_empty", "max_empty"), (20, 30, 40, 50, 55), "a board with 60 blanks takes up to 1 s to generate"
        ),
    ),
    answer=A_BOARD,
)

SURVO = Task(
    "survo",
    "games",
    levels=(
        FieldLevels(
            ("min_empty", "max_empty"), (3, 4, 6, 8), "over half of the boards with 11 blanks have several solutions"
        ),
    ),
    answer=AnswerRules(boards.board, several_right_answers=True, correction=corrections.correct_survo),
)

FEWER_PEGS = "with more pegs, a solution needs fewer moves, so raising both pegs and disks makes problems no harder"

DISK_MOVE = r"(?i:move disk) ?\d+ (?i:from peg) ?\d+ (?i:to peg) ?\d+\.?"


def _spell_disk_move(move: str) -> str:
    disk, source, target = re.findall(r"\d+", move)
    return f"Move disk {disk} from Peg {source} to Peg {target}"


TOWER_OF_HANOI = Task(
    "tower_of_hanoi",
    "games",
    has_small_pool=True,
    question_counts=(90, 250, 250, 250, 310, 310),
    levels=(
        FieldLevels(("min_disks", "max_disks"), ((3, 6), (5, 8), (7, 10), (9, 13), (12, 16)), FEWER_PEGS),
        FieldLevels(("min_pegs", "max_pegs"), ((4, 6),), "3 pegs allow only 6 questions per number of disks"),
    ),
    clarification=Clarification(
        "the question does not say whether an answer may have unnecessary moves, or which disk is disk 1",
        "Provide the shortest sequence of moves. Disk 1 is the smallest.",
        replacing("Provide the sequence of moves.", "Provide the shortest sequence of moves. Disk 1 is the smallest."),
    ),
    answer=AnswerRules(
        types.sequence(DISK_MOVE, joint=r"[,;]?\s*\n|[,;]", write="\n", spell=_spell_disk_move),
        several_right_answers=True,
    ),
)


def _has_other_captures(entry: Entry) -> bool:
    """Return True if a move other than the expected one captures stones, or the expected move captures none."""
    board = entry["metadata"]["board"]
    answer = str(entry["answer"])
    right = (len(board) - int(answer[1:]), ord(answer[0]) - ord("A"))
    return _last_liberties(board) != {right}


def _last_liberties(board: Sequence[Sequence[str]]) -> set[tuple[int, int]]:
    """Return the empty points that are the only liberty of some group of connected white stones."""
    marks = {(row, column): mark for row, line in enumerate(board) for column, mark in enumerate(line)}
    found: set[tuple[int, int]] = set()
    seen: set[tuple[int, int]] = set()
    for start, mark in marks.items():
        if mark != "O" or start in seen:
            continue
        liberties: set[tuple[int, int]] = set()
        waiting = [start]
        while waiting:
            row, column = waiting.pop()
            if (row, column) in seen:
                continue
            seen.add((row, column))
            for point in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if marks.get(point) == ".":
                    liberties.add(point)
                elif marks.get(point) == "O":
                    waiting.append(point)
        if len(liberties) == 1:
            found |= liberties
    return found


TSUMEGO = Task(
    "tsumego",
    "games",
    question_counts=(None, 3300, None),
    rejected=(wrong("the expected move captures nothing, or is not the only move that captures", _has_other_captures),),
    answer_leak="the answer is in the part of the board with the most stones",
    answer=A_TEXT,
)
