"""Text without the key in it: some servers repeat what they refuse."""

from __future__ import annotations

__all__ = ["without"]

LEAST = 8  # characters of a key; "EMPTY" and its like are no secret and stand in other words
MASK = "***"


def without(key: str, text: str) -> str:
    """
    Return *text* without *key*, nor the beginning of one that "..." cuts off.

    A key of fewer than 8 characters is left: it is a placeholder, and the text would be garbage.

    >>> without("sk-0123456789", "no such key: sk-0123456789")
    'no such key: ***'
    """
    if len(key) < LEAST:
        return text
    text = text.replace(key, MASK)
    for length in range(len(key) - 1, LEAST - 1, -1):
        text = text.replace(f"{key[:length]}...", f"{MASK}...")
    return text
