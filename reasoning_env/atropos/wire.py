"""Encode groups as JSON in the trainer's format: in pieces for files, compressed for run-api."""

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
"""Fields of a group that have a number for each token."""
_PIECE_BYTES = 2**18
"""Minimum bytes of a piece of JSON. A thread encodes the pieces, and releases the interpreter's lock after each."""


def encode_body(group: Mapping[str, object]) -> list[bytes]:
    """Return a group as compressed JSON without its closing brace, which `join_bodies` adds."""
    # Long completions rarely repeat token ids and log-probabilities. A search for repetitions would double the time
    # without saving bytes, so use only Huffman coding. wbits=31 selects gzip's format with the largest window.
    compressor = zlib.compressobj(wbits=31, strategy=zlib.Z_HUFFMAN_ONLY)
    compressed = [compressor.compress(piece) for piece in chain([b"{"], encode_members(group.items()))]
    return [*compressed, compressor.flush()]


def join_bodies(bodies: Sequence[Sequence[bytes]], env_id: int) -> list[bytes]:
    """Return the pieces of the body of one request that sends all groups."""
    # Concatenated gzip members are valid gzip data.
    end = gzip.compress(f',"env_id":{env_id}}}'.encode())
    if len(bodies) == 1:
        return [*bodies[0], end]
    pieces = [gzip.compress(b"[")]
    for body in bodies:
        pieces += [*body, end, gzip.compress(b",")]
    return [*pieces[:-1], gzip.compress(b"]")]


def encode_members(fields: Iterable[tuple[str, object]]) -> Iterator[bytes]:
    """Yield the members of a JSON object, without braces, in pieces. Call it on a thread.

    Raises TypeError or ValueError for values that JSON cannot represent.
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
    """Yield each member of a JSON object: its name, then its value. Values of LONG_FIELDS are split further."""
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
    """Yield the JSON of a list or an array, 4,096 items at a time."""
    # `to_json` is ten times as fast as `json`, but the event loop waits until a call returns.
    yield b"["
    for begin in range(0, len(sequence), 4096):
        some = sequence[begin : begin + 4096]
        items = to_json(some.tolist() if isinstance(some, array) else some)[1:-1]
        yield b"," + items if begin else items
    yield b"]"
