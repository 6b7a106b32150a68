"""Repeated requests: one count and one time limit for the whole call."""

from __future__ import annotations

from itertools import count
import logging
import random
import time
from typing import TYPE_CHECKING, TypeVar

from wlk_whisper.openai_api.errors import EXPECTED_ERRORS, is_transient
from wlk_whisper.openai_api.retry_after import requested_pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_whisper.openai_api.call_limits import CallLimits

__all__ = ["repeat"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

# As the official client's, which repeats each request on its own, without a limit for all of them.
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 8.0
JITTER = 0.25  # so that clients that failed together do not come back together


def repeat(send: Callable[[], T], *, max_retries: int, limits: CallLimits) -> T:
    """
    Return the result of *send*, which is repeated after failures that may pass.

    It is repeated at most *max_retries* times, after the pause that the endpoint requests, else
    after a pause that doubles.  A pause that is longer than the rest of the call is not begun.

    Raises:
        Exception: the last of EXPECTED_ERRORS.

    """
    for number in count():
        try:
            return send()
        except EXPECTED_ERRORS as error:
            requested = requested_pause(error)
            pause = _growing_pause(number) if requested is None else requested
            is_over = number >= max_retries or pause >= limits.seconds_left
            if is_over or not is_transient(error):
                raise
            logger.info("%s; next attempt in %.1f s", type(error).__name__, pause)
        time.sleep(pause)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _growing_pause(number: int) -> float:
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(number, 10), LONGEST_PAUSE_SECONDS)
    return pause * (1.0 - random.uniform(0.0, JITTER))  # noqa: S311 -- spreads load, no secret
