"""Make broken and hostile files from valid ones: wrong values, malformed lines, and paths that are no regular files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EVIL = "\x1b]0;owned\x07\u202eevil"
"""A string that sets the terminal's title and reverses the writing direction."""
DEEP = "deep"
WRONG: list[Any] = [
    None,
    True,
    -1,
    1.5,
    10**400,
    float("inf"),
    float("nan"),
    "text",
    EVIL,
    [],
    {},
    [[]],
    {EVIL: 1},
    DEEP,
]
"""Wrong values that replace the valid values of a document. DEEP becomes nested lists."""
NESTED = [f"{'[' * depth}{']' * depth}" for depth in (900, 100_000)]
PATIENCE_S = 20


def encode(document: Any) -> list[bytes]:
    """Return a document as JSON. If it contains DEEP, return one document for each nesting depth."""
    text = json.dumps(document)
    if f'"{DEEP}"' not in text:
        return [text.encode()]
    return [text.replace(f'"{DEEP}"', nested).encode() for nested in NESTED]


def broken_documents(document: Any) -> Iterator[bytes]:
    """Yield documents with one value wrong or missing, then strings that are no document.

    Each value of the document is replaced by every third wrong value; the next value starts at the next wrong value.
    """
    for number, place in enumerate(_places(document)):
        for wrong in WRONG[number % 3 :: 3]:
            yield from encode(_with(document, place, wrong))
        if place and isinstance(place[-1], str):
            yield from encode(_without(document, place))
    whole = json.dumps(document).encode()
    yield from (
        b"",
        b"\0" * 50,
        b"\xff\xfe",
        whole[:-1],
        whole + b"}",
        b"9" * 5_000,
        *(text.encode() for text in NESTED),
    )


def _places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield place
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _places(member, (*place, key))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*place, 0))


def _with(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    if not place:
        return value
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return copy


def _without(document: Any, place: tuple[str | int, ...]) -> Any:
    copy = _with(document, place, None)
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    del parent[place[-1]]
    return copy


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # a socket's path has at most 107 bytes


NO_FILES: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "socket": _make_socket,
    "link to itself": lambda path: path.symlink_to(path),
    "link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "folder": Path.mkdir,
    "empty file": Path.touch,
    "binary file": lambda path: path.write_bytes(bytes(range(256)) * 100),
    "damaged gzip": lambda path: path.write_bytes(gzip.compress(b"[]\n" * 1000)[:-10]),
}
"""Functions that create unreadable paths, by the kind of path."""


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise TimeoutError in the main thread after PATIENCE_S."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"no end within {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
