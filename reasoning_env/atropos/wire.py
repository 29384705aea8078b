"""Packed groups as JSON: in pieces, as files take them, and compressed, as run-api takes them."""

from __future__ import annotations

import gzip
import json
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic_core import to_json

LONG_FIELDS = ("tokens", "masks", "inference_logprobs")
"""The fields of a packed group that have a number for each token."""
_PIECE_BYTES = 2**18
"""How much is encoded before it is compressed or written: after each such call a thread waits for the event loop's, and
to join a whole group's megabytes holds that one up."""


def encode_body(group: Mapping[str, Any]) -> list[bytes]:
    """Return a group as JSON without its closing brace, compressed; `join_bodies` adds the rest.

    By Huffman coding alone: the token ids and log-probabilities of long completions hardly repeat, so that to look for
    repetitions takes twice the time and brings nothing. Of short completions to long prompts it would leave a third.
    """
    # 31 stands for gzip's format, with the largest window.
    compressor = zlib.compressobj(wbits=31, strategy=zlib.Z_HUFFMAN_ONLY)
    compressed = [compressor.compress(piece) for piece in chain([b"{"], encode_members(group.items()))]
    return [*compressed, compressor.flush()]


def join_bodies(bodies: Sequence[Sequence[bytes]], env_id: int) -> list[bytes]:
    """Return the pieces of one request's body; what was compressed in pieces is a compressed whole."""
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return [*bodies[0], end]
    pieces = [gzip.compress(b"[")]
    for body in bodies:
        pieces += [*body, end, gzip.compress(b",")]
    return [*pieces[:-1], gzip.compress(b"]")]


def encode_members(fields: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield a packed group as the members of a JSON object, without its braces, in pieces; slow for long ones.

    Raises TypeError or ValueError for what JSON cannot hold.
    """
    waiting, size = [], 0
    for piece in _small_pieces(fields):
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _small_pieces(fields: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """Yield the members; those that have a number for each token in pieces."""
    comma = ""
    for name, value in fields:
        yield f"{comma}{json.dumps(name)}:".encode()
        comma = ","
        if name in LONG_FIELDS and value is not None:
            yield b"["
            for number, sequence in enumerate(value):
                if number:
                    yield b","
                yield from _numbers(sequence) if isinstance(sequence, (array, list, tuple)) else [to_json(sequence)]
            yield b"]"
        else:
            yield json.dumps(value).encode()


def _numbers(sequence: Sequence[float]) -> Iterator[bytes]:
    """Yield the JSON of a list or an array, 4,096 items at a time.

    They are encoded by pydantic's core: json takes ten times as long for log-probabilities. A call holds the
    interpreter's lock until it is done, so that the event loop waits for it.
    """
    yield b"["
    for begin in range(0, len(sequence), 4096):
        some = sequence[begin : begin + 4096]
        items = to_json(some.tolist() if isinstance(some, array) else some)[1:-1]
        yield b"," + items if begin else items
    yield b"]"
