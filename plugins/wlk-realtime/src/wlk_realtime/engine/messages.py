"""Parse the messages of a server, and validate them before they reach a stream."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert

from wlk_core.plugins import Word

Message: TypeAlias = "dict[str, Any]"
_QUOTED = 200  # characters of a server's message that an error quotes
# Error codes that would come back if the request were made again in another session.
_PERMANENT_CODES = {"model_not_found", "invalid_value", "invalid_type", "invalid_event"}
# Limits far above any speech rate; they keep memory in proportion to the audio.
_EXTRA_WORDS, _WORDS_PER_SECOND = 100, 50
_EXTRA_CHARACTERS, _CHARACTERS_PER_SECOND = 1000, 500
ROUNDING_SECONDS = 0.02  #: by which times may lie outside of the audio


class ServerMessageError(Exception):
    """The server sent a malformed message, or one that its dialect does not allow."""


class ServerRefusalError(Exception):
    """
    The server answered with an error.

    `is_retryable` means that the same request can succeed in another session.
    """

    def __init__(self, message: str, *, is_retryable: bool) -> None:
        super().__init__(message)
        self.is_retryable = is_retryable


def parse(text: str | bytes) -> Message:
    """
    Parse a message.

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
    """Return *value* as float if it is a finite number, else None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON integers can exceed the range of float
        return None
    return number if math.isfinite(number) else None


def to_text(message: Message, name: str) -> str:
    """Return the string field *name*; raises ServerMessageError if it is not a string."""
    text = message.get(name)
    if not isinstance(text, str):
        raise ServerMessageError(f"expected {name} as text, got {shortened(text)}")
    # Servers send it for a token that ends within a character, whose other bytes follow later.
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def check_length(text: str, seconds: float) -> str:
    """Return *text*; raises ServerMessageError if it is far too long for *seconds* of audio."""
    if len(text) > _EXTRA_CHARACTERS + _CHARACTERS_PER_SECOND * seconds:
        raise ServerMessageError(
            f"got {len(text)} characters for {seconds:.2f} s of audio, {shortened(text)}"
        )
    return text


class _Record(Struct):
    text: Annotated[str, Meta(min_length=1, max_length=_EXTRA_CHARACTERS)]
    start: float
    end: float
    probability: Annotated[float, Meta(ge=0, le=1)] | None = None


def to_words(records: object, *, floor: float, latest: float) -> tuple[Word, ...]:
    """
    Parse words, whose times must lie between *floor* and *latest* seconds, ordered by start.

    Raises:
        ServerMessageError: there are far too many words, a word is empty or very long, a time is
            out of range or order, or a probability is not in [0, 1].

    """
    seconds = max(0.0, latest - floor)
    if isinstance(records, list) and len(records) > _EXTRA_WORDS + _WORDS_PER_SECOND * seconds:
        raise ServerMessageError(f"got {len(records)} words for {seconds:.2f} s of audio")
    try:
        parsed = convert(records, list[_Record])
    except ValidationError as error:
        raise ServerMessageError(f"{error}, got {shortened(records)}") from None
    words: list[Word] = []
    for record in parsed:
        if not floor - ROUNDING_SECONDS <= record.start <= record.end <= latest + ROUNDING_SECONDS:
            raise ServerMessageError(
                f"the word {shortened(record.text)} at {record.start:.3f}-{record.end:.3f} s is "
                f"outside of {floor:.3f}-{latest:.3f} s"
            )
        floor = max(floor, record.start)
        words.append(Word(record.start, record.end, record.text, record.probability))
    return tuple(words)


def shortened(value: object) -> str:
    """Return *value* quoted on one line, truncated for error messages."""
    text = value if isinstance(value, str) else repr(value)
    beginning = text[: 2 * _QUOTED]
    printable = "".join(letter if letter.isprintable() else " " for letter in beginning)
    line = " ".join(printable.split())
    return repr(line if len(line) <= _QUOTED else f"{line[:_QUOTED]}...")


def refusal_of(error: object) -> ServerRefusalError:
    """Return the exception for *error*, usually an object with `message` and `code`."""
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    return ServerRefusalError(
        f"{shortened(fields.get('message'))} ({shortened(code)})",
        is_retryable=code not in _PERMANENT_CODES,
    )


def audio_input(session: object) -> object:
    """Return `audio.input` of the configuration of a session, None if it is missing."""
    audio = session.get("audio") if isinstance(session, dict) else None
    return audio.get("input") if isinstance(audio, dict) else None
