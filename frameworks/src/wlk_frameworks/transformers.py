"""Keep transformers from writing to the terminal while it loads a model."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers.utils import logging

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGING: Any = logging  # half of its interface is not annotated


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Switch off the progress bars and tables of transformers, and restore them at the end."""
    had_bars, level = _LOGGING.is_progress_bar_enabled(), _LOGGING.get_verbosity()
    _LOGGING.disable_progress_bar()
    _LOGGING.set_verbosity_error()
    try:
        yield
    finally:
        _LOGGING.set_verbosity(level)
        if had_bars:
            _LOGGING.enable_progress_bar()
