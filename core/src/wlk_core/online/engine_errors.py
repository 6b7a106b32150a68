"""Errors of an engine outside the calls of a stream, and how their messages describe them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wlk_core.errors import BackendError, WLKError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["described", "engine_errors"]


@contextmanager
def engine_errors(problem: str) -> Iterator[None]:
    """
    Raise what an engine raises outside the calls of a stream as BackendError, with its cause.

    Errors of this project pass, such as the OptionError of a plugin.
    """
    try:
        yield
    except WLKError:
        raise
    except Exception as error:
        raise BackendError(f"{problem}: {described(error)}") from error


def described(error: BaseException | None) -> str:
    """Return type and message of *error* on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
