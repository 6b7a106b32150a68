"""Message parts that the protocols share: client messages, audio, words, channels, metadata."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
import string
from typing import TYPE_CHECKING

import msgspec

from wlk_protocols.fields import decoded
from wlk_protocols.utterance import text_of
from wlk_serve.protocols import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols import Message, ModelCard

#: For the error about audio of another format.
SAMPLES = "samples with `encoding` and `sample_rate` in the query"
_DECIMALS = 3  # of times in seconds


class _Typed(msgspec.Struct):
    type: str = ""


def message_type(text: str) -> str:
    """Return the type of a message; a malformed one has none."""
    try:
        return decoded(text, _Typed).type
    except RequestError:
        return ""


def language_fields(tokens: Iterable[ASRToken]) -> Message:
    """Return the field `languages`, the most frequent first; no field if none was detected."""
    counts = Counter(token.detected_language for token in tokens if token.detected_language)
    return {"languages": [code for code, _ in counts.most_common()]} if counts else {}


def channel_record(
    tokens: Sequence[ASRToken], speakers: dict[int | str, int] | None = None
) -> Message:
    """Return a channel with one alternative, with speaker numbers unless *speakers* is None."""
    words = [word_record(token, speakers) for token in tokens if token.text.strip()]
    probabilities = [token.probability for token in tokens if token.probability is not None]
    return {
        "alternatives": [
            {
                "transcript": text_of(tokens),
                "confidence": sum(probabilities) / max(1, len(probabilities)),
                "words": words,
                **language_fields(tokens),
            }
        ]
    }


def word_record(token: ASRToken, speakers: dict[int | str, int] | None = None) -> Message:
    """Return a word; *speakers* maps its speaker to a number, and gets new speakers added."""
    text = token.text.strip()
    word: Message = {
        "word": text.strip(string.punctuation).lower() or text,
        "punctuated_word": text,
        "start": rounded(token.start),
        "end": rounded(token.end),
        "confidence": token.probability or 0.0,
    }
    if speakers is not None and token.speaker is not None:
        word["speaker"] = speakers.setdefault(token.speaker, len(speakers))
    return word


def metadata_fields(
    card: ModelCard,
    request_id: str,
    seconds: float,
    ignored: Iterable[str] = (),
    *,
    channels: int = 1,
) -> Message:
    """Return the metadata of an answer that covers *seconds* of audio; warn of *ignored* fields."""
    warnings = [
        {"parameter": name, "type": "unsupported", "message": f"this server ignores {name}"}
        for name in ignored
    ]
    return {
        "transaction_key": "deprecated",
        "request_id": request_id,
        "sha256": "",
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "duration": rounded(seconds),
        "channels": channels,
        "models": [card.name],
        "model_info": {card.name: model_info(card)},
        **({"warnings": warnings} if warnings else {}),
    }


def model_info(card: ModelCard) -> Message:
    """Return the name of a model and what runs it."""
    return {"name": card.name, "version": "", "arch": card.spec.name}


def rounded(seconds: float) -> float:
    """Round a time to the precision of messages."""
    return round(seconds, _DECIMALS)
