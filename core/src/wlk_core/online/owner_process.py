"""The process that a model was loaded in, because no engine works in a fork of it."""

from __future__ import annotations

import os

from wlk_core.errors import BackendError

__all__ = ["OwnerProcess"]


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
        if not self.is_current:
            raise BackendError(
                f"the model was loaded in process {self._id}, and no engine works in its fork "
                f"{os.getpid()}; start workers with multiprocessing.get_context('spawn') and load "
                "the model in each of them",
                retryable=False,
            )
