"""Repeat an exclusive call of an online processor that failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wlk_core.errors import BackendError
from wlk_core.processor import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.tokens import Emission

__all__ = ["attempt"]

logger = logging.getLogger(__name__)


def attempt(call: Callable[[], Emission]) -> Emission:
    """
    Make an exclusive call, and up to MAX_RETRIES times again while its failures are retryable.

    Raises:
        BackendError: the last failure, or one after which the backend made the call again itself.

    """
    for _ in range(MAX_RETRIES):
        try:
            return call()
        except BackendError as error:
            if not error.retryable or error.is_exhausted:
                raise
            logger.warning("%s", error)
    return call()
