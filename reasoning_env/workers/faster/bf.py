"""bf: translate a program into Python before it is run.

The library's interpreter, bfi, looks at each instruction anew whenever it comes to it. The programs of the highest
difficulty take it 0.3 s in the mean and up to 2 s. The same output: bfi itself takes the program apart, and each of its
instructions becomes what bfi does for it, on a tape of the same length.

- A bracket opens a loop over a cell: bfi looks at it there, and again after the moves before the closing bracket.
- A loop that takes 1 from its cell, adds to others and comes back is done at once: each of the others gets what it is
  given, as often as the cell says.
- A program with too large a target for a cell of 256 values runs for ever, and the worker would be killed at the
  deadline. One that ends goes round its loops less than 100,000 times: the outer loop sees at most 256 values.
- The library's compiler writes no other instructions, and none that read input. Its loops are nested less than 20
  deep, which Python allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any


def interpret(bfi: Any, program: str, *, buffer_output: bool) -> str:
    """Return what a program writes, as bfi's function of this name does with `buffer_output`."""
    assert buffer_output
    lines = ["def run():", " tape, at, written, rounds = bytearray(30_000), 0, [], 0"]
    lines += [*_translate(bfi, program), " return ''.join(written)"]
    functions: dict[str, Any] = {}
    exec("\n".join(lines), functions)
    return str(functions["run"]())


def _translate(bfi: Any, program: str) -> Iterator[str]:
    """Yield the lines of Python that do what the program does."""
    indent, done = " ", -1
    instructions = bfi.parse(program)
    for number, instruction in enumerate(instructions):
        if number <= done:
            continue
        if instruction.move:
            yield f"{indent}at += {instruction.move}"
        match instruction.code:
            case bfi.OPCODE_MOVE:
                yield f"{indent}at += {instruction.value}"
            case bfi.OPCODE_ADD:
                yield f"{indent}tape[at] = (tape[at] + {instruction.value}) % 256"
            case bfi.OPCODE_SUB:
                yield f"{indent}tape[at] = (tape[at] - {instruction.value}) % 256"
            case bfi.OPCODE_OPEN if shares := _shares(bfi, instructions[number + 1 : instruction.value + 1]):
                yield from _hand_out(indent, shares)
                done = instruction.value
            case bfi.OPCODE_OPEN:
                yield f"{indent}while tape[at]:"
                indent += " "
                yield f"{indent}rounds += 1"
                yield f"{indent}if rounds > 1_000_000: raise RuntimeError('the program does not end')"
            case bfi.OPCODE_CLOSE:
                indent = indent[1:]
            case bfi.OPCODE_OUTPUT:
                yield f"{indent}written.append(chr(tape[at]))"
            case bfi.OPCODE_CLEAR:
                yield f"{indent}tape[at] = 0"
            case bfi.OPCODE_COPY:
                yield from _hand_out(indent, instruction.value)
            case bfi.OPCODE_SCANL:
                yield f"{indent}while at > 0 and tape[at]: at -= 1"
            case bfi.OPCODE_SCANR:
                yield f"{indent}while at < {len(instructions) - 1} and tape[at]: at += 1"
            case _:
                raise ValueError(f"bf: instruction {instruction.code} is not translated")


def _shares(bfi: Any, loop: Sequence[Any]) -> dict[int, int]:
    """Return what each other cell gets, by its distance, when a loop goes round once; empty for other loops."""
    added: Counter[int] = Counter()
    at = 0
    for instruction in loop[:-1]:
        at += instruction.move
        if instruction.code == bfi.OPCODE_ADD:
            added[at] += instruction.value
        elif instruction.code == bfi.OPCODE_SUB:
            added[at] -= instruction.value
        else:
            return {}
    takes_one = added.pop(0, 0) == -1
    return dict(added) if takes_one and at + loop[-1].move == 0 else {}


def _hand_out(indent: str, shares: Mapping[int, int]) -> Iterator[str]:
    """Yield the lines that add multiples of a cell to cells at some distances, and clear it."""
    yield f"{indent}if tape[at]:"
    for distance, factor in shares.items():
        yield f"{indent} tape[at + {distance}] = (tape[at + {distance}] + tape[at] * {factor}) % 256"
    yield f"{indent} tape[at] = 0"


def install(module: Any) -> None:
    """Put the translation in the place of bfi's interpreter."""
    module.bfi = SimpleNamespace(interpret=partial(interpret, module.bfi))
