"""Repeat an exclusive call of an online processor that failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wlk_core.errors import BackendError
from wlk_core.processor import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.tokens import Emission

__all__ = ["MAX_ATTEMPTS", "attempt"]

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 1 + MAX_RETRIES  # after the last one a stream is broken (contract ERR-03)


def attempt(call: Callable[[], Emission]) -> Emission:
    """
    Make an exclusive call, at most MAX_ATTEMPTS times while its failures are retryable.

    A call whose attempts the backend has exhausted is not made again, because the attempts of both
    would multiply.

    Raises:
        BackendError: a failure that is not retryable, such as StreamBroken, or the last one.

    """
    for retries_left in reversed(range(MAX_ATTEMPTS)):
        try:
            return call()
        except BackendError as error:
            if not error.retryable or error.is_exhausted or not retries_left:
                raise
            logger.warning("%s", error)
    raise AssertionError("unreachable: the last attempt returns or raises")
