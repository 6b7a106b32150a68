"""Removal of the key from messages, because some servers repeat what they reject."""

from __future__ import annotations

__all__ = ["redact"]

MIN_KEY_LENGTH = 8  # "EMPTY" and other placeholders are not secret and occur in other words
MASK = "***"


def redact(key: str, text: str) -> str:
    """
    Return *text* without *key*, and without a beginning of it that "..." cuts off.

    A key of fewer than 8 characters stays, because it is a placeholder and masking it would make
    the text unreadable.

    >>> redact("sk-0123456789", "no such key: sk-0123456789")
    'no such key: ***'
    """
    if len(key) < MIN_KEY_LENGTH:
        return text
    text = text.replace(key, MASK)
    for length in range(len(key) - 1, MIN_KEY_LENGTH - 1, -1):
        text = text.replace(f"{key[:length]}...", f"{MASK}...")
    return text
