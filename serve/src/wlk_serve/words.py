"""Words, log probabilities and speakers of tokens as the protocols write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wlk_core.segments import round_seconds
from wlk_core.streaming.words import joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.tokens import ASRToken

__all__ = [
    "Deltas",
    "detected_languages",
    "logprob_records",
    "span_record",
    "speaker_name",
    "word_records",
]

_UNKNOWN_SPEAKER = "unknown"  # OpenAI's segments always name a speaker
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEAST_PROBABILITY = 1e-10  # JSON has no infinity


class Deltas:
    """
    Text that grows by deltas, which joined are the text.

    White space before the first word is left out; white space after the last one is held back until
    a word follows it.
    """

    def __init__(self) -> None:
        self.text = ""
        self._held = ""

    def add(self, tokens: Iterable[ASRToken], *, begins_stream: bool = False) -> str:
        """Return the delta of *tokens*, perhaps the first ones of a stream; it may be empty."""
        text = "".join(token.text for token in tokens)
        if begins_stream:  # whose first word need not begin with a space
            text = joined(self.text + self._held, text)
        text = self._held + text if self.text else text.lstrip()
        delta = text.rstrip()
        self._held = text[len(delta) :]
        self.text += delta
        return delta


def word_records(tokens: Iterable[ASRToken]) -> list[dict[str, Any]]:
    """Return word, start, end and confidence of each token, and its speaker where it has one."""
    records = []
    for token in tokens:
        record: dict[str, Any] = {
            "word": token.text.strip(),
            "start": round_seconds(token.start),
            "end": round_seconds(token.end),
            "confidence": None if token.probability is None else round(token.probability, 4),
        }
        if token.speaker is not None:
            record["speaker"] = speaker_name(token.speaker)
        records.append(record)
    return records


def speaker_name(speaker: int | str | None) -> str:
    """Return the name of a speaker: a number becomes "A" to "Z", "AA" and so on, as OpenAI's."""
    if speaker is None:
        return _UNKNOWN_SPEAKER
    if isinstance(speaker, str) or speaker < 0:
        return str(speaker)
    name = ""
    number = speaker
    while number >= 0:
        number, letter = divmod(number, len(_LETTERS))
        name, number = _LETTERS[letter] + name, number - 1
    return name


def span_record(tokens: Iterable[ASRToken]) -> dict[str, float]:
    """Return start and end of *tokens* in seconds; empty for no tokens."""
    found = list(tokens)
    if not found:
        return {}
    start, end = min(token.start for token in found), max(token.end for token in found)
    return {"start": round_seconds(start), "end": round_seconds(end)}


def logprob_records(tokens: Iterable[ASRToken]) -> list[dict[str, Any]] | None:
    """Return token, logprob and bytes of each; None where a backend reports no probability."""
    records = []
    for token in tokens:
        if token.probability is None:
            return None
        records.append(
            {
                "token": token.text,
                "logprob": round(math.log(max(token.probability, _LEAST_PROBABILITY)), 6),
                "bytes": list(token.text.encode("utf-8", "replace")),
            }
        )
    return records


def detected_languages(tokens: Iterable[ASRToken]) -> list[dict[str, str]]:
    """Return the codes that were detected, each once, in their order."""
    codes = dict.fromkeys(token.detected_language for token in tokens if token.detected_language)
    return [{"code": code} for code in codes]
