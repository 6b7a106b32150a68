"""Read what clients of several protocols request: languages, terms, pauses, JSON messages."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

import msgspec

from wlk_serve.protocols import GateParameters, RequestError, header_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import HTTPConnection

    from wlk_serve.protocols import Handshake, Message, ModelCard

T = TypeVar("T")

# More than any engine reads: Whisper takes 223 tokens of them, about 1,000 characters, and Deepgram
# 500 tokens.  Models with a long context slow down with it.
MAX_TERMS, MAX_TERM_CHARACTERS = 500, 10_000

MIN_PAUSE = 0.3  # seconds of silence; shorter pauses occur within words
_PRE_ROLL_SHARE = 0.4  # pre-roll of the gate, as a fraction of the silence that ends speech
_DETECTED = {"auto", "multi"}  # what clients call a language that the model detects


def language_of(card: ModelCard, text: str) -> str | None:
    """Return the code of the requested language, the server's for ""; None to detect it."""
    if text.lower() in _DETECTED:
        return None
    return card.check_language(text) or card.language


def path_keys(connection: HTTPConnection) -> list[str]:
    """Return the keys of a client, of which one may be the part "{key}" of the address."""
    return [*header_keys(connection.headers), connection.path_params["key"]]


def chosen_subprotocol(handshake: Handshake) -> str | None:
    """
    Return the subprotocol to accept: the first that is offered, None if none is.

    Browsers that offer subprotocols fail a connection that accepts none of them.
    """
    return next(iter(handshake.subprotocols), None)


def keyterms_of(card: ModelCard, terms: Iterable[str]) -> str | None:
    """Return *terms* separated by commas; None if there are none, or no support for them."""
    return ", ".join(terms) or None if card.takes("keyterms") else None


def fitting_terms(terms: Sequence[str]) -> Sequence[str]:
    """Return the first *terms*, as many as an engine can use."""
    lengths = accumulate(map(len, terms[:MAX_TERMS]))
    return terms[: sum(length <= MAX_TERM_CHARACTERS for length in lengths)]


def check_terms(name: str, terms: Sequence[str]) -> None:
    """Raise RequestError if there are more *terms* than an engine can use."""
    if len(fitting_terms(terms)) < len(terms):
        raise RequestError(
            f"expected {name} as at most {MAX_TERMS} terms of {MAX_TERM_CHARACTERS:,} characters, "
            f"got {len(terms):,} of {sum(map(len, terms)):,}",
            code="keyterm_limit_exceeded",
            param=name,
        )


def gate_of(seconds: float) -> GateParameters:
    """Return a gate that ends speech after *seconds* of silence, or after the shortest pause."""
    seconds = max(MIN_PAUSE, seconds)
    return GateParameters(silence_seconds=seconds, pre_roll=seconds * _PRE_ROLL_SHARE)


def decoded(data: str | bytes, kind: type[T]) -> T:
    """
    Decode a JSON message; fields that *kind* does not declare are skipped without being built.

    Raises:
        RequestError: it is not valid JSON, or a field has another type or is not valid Unicode.

    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise RequestError(_expected(error), code="invalid_event") from None
    except (ValueError, RecursionError):  # msgspec's DecodeError is a ValueError
        raise RequestError("expected a valid JSON message", code="invalid_json") from None


def checked(fields: Message, kind: type[T]) -> T:
    """Convert *fields* of a decoded message; raises RequestError like `decoded`."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise RequestError(_expected(error), code="invalid_value") from None


def _expected(error: msgspec.ValidationError) -> str:
    """Return what was expected, what came and where, such as "expected `str`, got `int`"."""
    message = str(error)
    return message[0].lower() + message[1:]
