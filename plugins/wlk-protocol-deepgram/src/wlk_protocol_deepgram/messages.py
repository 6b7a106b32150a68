"""What both versions share: messages of clients, and languages that were detected."""

from __future__ import annotations

from collections import Counter
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols import Message

__all__ = ["language_fields", "parse_message"]


def parse_message(text: str) -> Message:
    """Return the fields of a message; none for one that is malformed."""
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def language_fields(tokens: Iterable[ASRToken]) -> Message:
    """Return `languages`, the most frequent one first, where any was detected."""
    counts = Counter(token.detected_language for token in tokens if token.detected_language)
    return {"languages": [code for code, _ in counts.most_common()]} if counts else {}
