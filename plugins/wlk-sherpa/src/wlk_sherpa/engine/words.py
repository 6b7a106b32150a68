"""From the tokens of sherpa-onnx to words with times."""

from __future__ import annotations

from itertools import takewhile
import math
import re
from typing import TYPE_CHECKING

from wlk_core.streaming import Word, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_sherpa.engine.engine import Token

CONTINUES = "@@"  # at the end of a token of Paraformer: the next one belongs to its word
_BYTES = re.compile(r"(?:<0x[0-9A-F]{2}>)+")  # as sherpa-onnx shows the tokens of byte fallback


def group(tokens: Sequence[Token], *, is_marked: bool = False) -> list[list[Token]]:
    """
    Return *tokens* word by word.

    A word begins at a token with a space in front, and in scripts without spaces at each token.  A
    space that is a token of its own belongs to the word after it, so the last word may be blank.
    With `is_marked` tokens have no spaces, and CONTINUES marks all but the last of a word.
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
    """Return whether *tokens* are the space in front of a word that did not begin yet."""
    return all(token.text.isspace() for token in tokens)


def word_of(
    tokens: Sequence[Token], *, origin: float, frame_seconds: float, is_marked: bool
) -> Word:
    """
    Return the word that *tokens* form, *origin* seconds later.

    It begins with its first token, which may be a space; of several, with the last, because the
    others were emitted for a noise.  Its last token lasts a frame.
    """
    spaced = list(takewhile(lambda token: token.text.startswith(" "), tokens))
    tokens = tokens[max(0, len(spaced) - 1) :]
    text = "".join(token.text for token in tokens)
    if is_marked:
        text = text.replace(CONTINUES, "")
        text = text if is_unspaced(text[:1] or " ") else f" {text}"
    text = _BYTES.sub(lambda found: _decoded(found[0]), text)
    scores = [token.log_probability for token in tokens if token.log_probability is not None]
    return Word(
        origin + tokens[0].time,
        origin + tokens[-1].time + frame_seconds,
        text,
        min(1.0, math.exp(sum(scores) / len(scores))) if scores else None,
    )


def _decoded(codes: str) -> str:
    """Return the whole characters of bytes that are written as <0xE4><0xB8>..."""
    return bytes.fromhex(codes.replace("<0x", "").replace(">", "")).decode(errors="ignore")
