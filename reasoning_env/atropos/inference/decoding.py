"""Decode byte-level tokens by a table of their bytes, many times faster than the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import decoders

PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
"""Bytes that stand for themselves in the names of byte-level tokens; the others are characters from 256 on."""
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTES = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + number): byte for number, byte in enumerate(OTHERS)}


def fast_decode(tokenizer: Any) -> Callable[..., str]:
    """Return a function that decodes as `tokenizer.decode` does, without transformers' work around it."""
    if not getattr(tokenizer, "is_fast", False) or tokenizer.clean_up_tokenization_spaces:
        return tokenizer.decode  # type: ignore[no-any-return]
    backend = tokenizer.backend_tokenizer
    table = _Table(backend) if isinstance(backend.decoder, decoders.ByteLevel) else None

    def decode(tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        if table is None or not skip_special_tokens:
            return str(backend.decode(tokens, skip_special_tokens=skip_special_tokens))
        return b"".join(map(table.__getitem__, tokens)).decode(errors="replace")

    return decode


class _Table(dict[int, bytes]):
    """The bytes of each token, none for special tokens and numbers that are none, filled as they are met."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self._backend = backend
        self._special = {number for number, token in backend.get_added_tokens_decoder().items() if token.special}

    def __missing__(self, number: int) -> bytes:
        name = self._backend.id_to_token(number)
        if name is None or number in self._special:
            name = ""
        # As the backend does: a name with a character that stands for no byte is the text itself.
        known = all(character in BYTES for character in name)
        self[number] = found = bytes(map(BYTES.__getitem__, name)) if known else name.encode()
        return found
