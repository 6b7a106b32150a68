"""Assemble the tokens of sherpa-onnx into words with times."""

from __future__ import annotations

from itertools import takewhile
import math
import re
from typing import TYPE_CHECKING

from wlk_core.streaming import Word, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_sherpa.engine.engine import Token

CONTINUES = "@@"  # suffix of a Paraformer token whose word continues in the next token
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")  # byte-fallback tokens as sherpa-onnx returns them


def group(tokens: Sequence[Token], *, is_marked: bool = False) -> list[list[Token]]:
    """
    Group *tokens* into words.

    A word begins at a token that starts with a space, and in scripts without spaces at every token.
    A token that is only a space belongs to the next word, so the last word can be blank.  With
    `is_marked`, tokens have no spaces, and CONTINUES marks all but the last token of a word.
    """
    words: list[list[Token]] = []
    before = " "
    for token in tokens:
        begins = not before.endswith(CONTINUES) if is_marked else token.text.startswith(" ")
        begins = begins or is_unspaced(token.text[-1]) or is_unspaced(before[-1])
        if not words or (begins and not is_blank(words[-1])):
            words.append([])
        words[-1].append(token)
        before = token.text
    return words


def is_blank(tokens: Sequence[Token]) -> bool:
    """Return whether *tokens* are only the space before a word that has not begun yet."""
    return all(token.text.isspace() for token in tokens)


def word_of(
    tokens: Sequence[Token], *, origin: float, frame_seconds: float, is_marked: bool
) -> Word:
    """
    Return the word that *tokens* form; *origin*, in seconds, is added to their times.

    The word starts at its first token, which can be a space.  Of several leading spaces only the
    last counts: noise caused the others.  The word ends one frame after its last token.
    """
    spaced = list(takewhile(lambda token: token.text.startswith(" "), tokens))
    tokens = tokens[max(0, len(spaced) - 1) :]
    text = "".join(token.text for token in tokens)
    if is_marked:
        text = text.replace(CONTINUES, "")
        text = text if is_unspaced(text[:1] or " ") else f" {text}"
    text = _BYTES.sub(lambda match: _decode_bytes(match[0]), text)
    scores = [token.log_probability for token in tokens if token.log_probability is not None]
    return Word(
        origin + tokens[0].time,
        origin + tokens[-1].time + frame_seconds,
        text,
        min(1.0, math.exp(sum(scores) / len(scores))) if scores else None,
    )


def _decode_bytes(codes: str) -> str:
    """Decode bytes that are written as <0xE4><0xB8>..., dropping incomplete characters."""
    return bytes.fromhex(codes.replace("<0x", "").replace(">", "")).decode(errors="ignore")
