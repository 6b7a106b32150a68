"""Read what clients of Deepgram send as text."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["message_type"]


def message_type(text: str) -> str | None:
    """Return the type of a message; None for one that is malformed or has none."""
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kind = fields.get("type") if isinstance(fields, dict) else None
    return kind if isinstance(kind, str) else None
