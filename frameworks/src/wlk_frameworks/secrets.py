"""Keep the key of a server out of messages."""

from __future__ import annotations

_MASK = "***"
_MIN_SECRET = 6  # characters; a shorter secret occurs in other words, where a mask reveals it


def mask_secret(text: str, secret: str) -> str:
    """
    Return *text* with *secret* masked, even if "..." cuts off its end.

    A secret of fewer than six characters is not masked.

    >>> mask_secret("no such key: sk-0123456789, sk-01234...", "sk-0123456789")
    'no such key: ***, ***...'
    """
    if len(secret) >= _MIN_SECRET:
        text = text.replace(secret, _MASK)
        for length in range(len(secret) - 1, _MIN_SECRET - 1, -1):
            text = text.replace(f"{secret[:length]}...", f"{_MASK}...")
    return text
