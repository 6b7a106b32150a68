"""Parse the messages of a server, and check them before any of it reaches a stream."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert

from wlk_core.plugins import Word

Message: TypeAlias = "dict[str, Any]"
_QUOTED = 200  # characters of a server's message
# Errors of a request that another session would repeat.
_LASTING = {"model_not_found", "invalid_value", "invalid_type", "invalid_event"}
# Many times what can be said, so that memory stays in proportion to the audio.
_SPARE_WORDS, _WORDS_PER_SECOND = 100, 50
_SPARE_CHARACTERS, _CHARACTERS_PER_SECOND = 1000, 500
LATE = 0.02  #: seconds that a word may reach beyond the audio, as rounding allows


class ServerMessageError(Exception):
    """The server sent a malformed message, or one that its kind of server never sends."""


class ServerRefusalError(Exception):
    """
    The server answered with an error.

    `is_retryable` where the same request may succeed in another session.
    """

    def __init__(self, message: str, *, is_retryable: bool) -> None:
        super().__init__(message)
        self.is_retryable = is_retryable


def parse(text: str | bytes) -> Message:
    """
    Return the JSON object of a message.

    Raises:
        ServerMessageError: *text* is not a JSON object with a type.

    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise ServerMessageError(f"expected a JSON object, got {shortened(text)}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ServerMessageError(f"expected an object with a type, got {shortened(text)}")
    return message


def to_number(value: object) -> float | None:
    """Return a finite number as float, None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON has integers that no float holds
        return None
    return number if math.isfinite(number) else None


def to_text(message: Message, name: str) -> str:
    """Return the text *name*, which may be empty; raises ServerMessageError for anything else."""
    text = message.get(name)
    if not isinstance(text, str):
        raise ServerMessageError(f"expected {name} as text, got {shortened(text)}")
    # Servers put it where a token ends inside of a character, whose other bytes come later.
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def check_length(text: str, seconds: float) -> str:
    """Return *text* of *seconds* of audio; raises ServerMessageError where it is far too long."""
    if len(text) > _SPARE_CHARACTERS + _CHARACTERS_PER_SECOND * seconds:
        raise ServerMessageError(
            f"{len(text)} characters came for {seconds:.2f} s of audio, {shortened(text)}"
        )
    return text


class _Record(Struct):
    text: Annotated[str, Meta(min_length=1, max_length=_SPARE_CHARACTERS)]
    start: float
    end: float
    probability: Annotated[float, Meta(ge=0, le=1)] | None = None


def to_words(records: object, *, floor: float, latest: float) -> tuple[Word, ...]:
    """
    Return the words of *records* in seconds, their starts in order from *floor* to *latest*.

    Raises:
        ServerMessageError: there are far too many words, one is empty or very long, a time lies
            outside or goes back, or a probability is not in [0, 1].

    """
    seconds = max(0.0, latest - floor)
    if isinstance(records, list) and len(records) > _SPARE_WORDS + _WORDS_PER_SECOND * seconds:
        raise ServerMessageError(f"{len(records)} words came for {seconds:.2f} s of audio")
    try:
        found = convert(records, list[_Record])
    except ValidationError as error:
        raise ServerMessageError(f"{error}, got {shortened(records)}") from None
    words: list[Word] = []
    for record in found:
        if not floor - LATE <= record.start <= record.end <= latest + LATE:
            raise ServerMessageError(
                f"the word {shortened(record.text)} at {record.start:.3f}-{record.end:.3f} s lies "
                f"outside of {floor:.3f}-{latest:.3f} s"
            )
        floor = max(floor, record.start)
        words.append(Word(record.start, record.end, record.text, record.probability))
    return tuple(words)


def shortened(value: object) -> str:
    """Return *value* on one line, cut to a length for messages."""
    text = value if isinstance(value, str) else repr(value)
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * _QUOTED]).split())
    return repr(line if len(line) <= _QUOTED else f"{line[:_QUOTED]}...")


def refusal_of(error: object) -> ServerRefusalError:
    """Return the exception for *error*, an object with `message`, `code` and `type`."""
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    return ServerRefusalError(
        f"{shortened(fields.get('message'))} ({shortened(code)})",
        is_retryable=code not in _LASTING,
    )


def input_of(session: object) -> object:
    """Return the part of a session's configuration that is about its audio, None without one."""
    audio = session.get("audio") if isinstance(session, dict) else None
    return audio.get("input") if isinstance(audio, dict) else None
