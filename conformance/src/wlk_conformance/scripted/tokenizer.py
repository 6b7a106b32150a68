"""The scripted tokenizer: words in pieces of two bytes, so that characters are cut in two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["END_OF_TEXT_ID", "Piece", "decode_pieces", "split_word"]

END_OF_TEXT_ID = 511  # coded token that ends the text of a decoder which has such a token
PIECE_BYTES = 2  # a Chinese or Thai character takes 3, so no piece of one is a character


@attrs.frozen(kw_only=True)
class Piece:
    """Bytes of a word of UTF-8 text, and whether the word begins and ends with them."""

    data: bytes
    is_start: bool = False
    is_end: bool = False


def split_word(text: str) -> tuple[Piece, ...]:
    """
    Return the pieces of *text*, a word of the vocabulary with its own spacing.

    There are at least two, because the first and the last one mark where a word begins and ends:
    a word of PIECE_BYTES or less gets an empty piece at its end.
    """
    data = text.encode()
    if len(data) <= PIECE_BYTES:
        return (Piece(data=data, is_start=True), Piece(data=b"", is_end=True))
    cuts = range(0, len(data), PIECE_BYTES)
    return tuple(
        Piece(
            data=data[cut : cut + PIECE_BYTES],
            is_start=cut == 0,
            is_end=cut + PIECE_BYTES >= len(data),
        )
        for cut in cuts
    )


def decode_pieces(pieces: Iterable[bytes]) -> str:
    """Return the text of the pieces of one word; bytes of an incomplete character wait."""
    return b"".join(pieces).decode("utf-8", errors="ignore")
