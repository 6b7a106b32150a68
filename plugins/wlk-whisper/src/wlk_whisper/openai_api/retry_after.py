"""The pause that an endpoint requests before the next attempt."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
import math
import time

import openai

__all__ = ["requested_pause"]


def requested_pause(error: Exception) -> float | None:
    """Return the seconds after which the endpoint accepts another request, None if it is silent."""
    if not isinstance(error, openai.APIStatusError):
        return None
    headers = error.response.headers
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            pause = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        if math.isfinite(pause) and pause >= 0:
            return pause
    try:
        date = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return max(0.0, date - time.time())
