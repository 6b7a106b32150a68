"""Errors of an engine outside the calls of a stream, and the process in which it works."""

from __future__ import annotations

from contextlib import contextmanager
import os
from typing import TYPE_CHECKING

from wlk_core.errors import BackendError, WLKError
from wlk_core.untrusted import reason

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OwnerProcess", "engine_errors"]


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
        raise BackendError(f"{problem}: {reason(error)}") from error


class OwnerProcess:
    """
    The process in which this object was made; its children made by fork are others.

    A fork copies the memory of a process and none of its threads.  An engine waits for its threads
    for ever there, so calls are refused.
    """

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_current(self) -> bool:
        """Whether the calling process is the owner; a fraction of a microsecond."""
        return os.getpid() == self._id

    def check(self) -> None:
        """
        Refuse to go on in a child of the owner.

        Raises:
            BackendError: the calling process is a fork; it is not retryable.

        """
        if os.getpid() != self._id:
            raise BackendError(
                f"the model was loaded in process {self._id}, and no engine works in its fork "
                f"{os.getpid()}; start workers with multiprocessing.get_context('spawn') and load "
                "the model in each of them",
                retryable=False,
            )
