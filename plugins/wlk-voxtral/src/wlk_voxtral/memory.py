"""Whether the weights of a checkpoint fit into memory, checked before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core import BackendUnavailable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MemoryCheck"]


@attrs.frozen(kw_only=True)
class MemoryCheck:
    """
    The memory that a checkpoint takes on a device.

    Attributes:
        directory: the checkpoint.
        needed: bytes of its weights in `dtype`.
        available: bytes of the device, None where nothing reports them.
        device: the name of the device.
        dtype: the arithmetic, by its name.
        remedy: the options or models to choose instead.

    """

    directory: Path
    needed: int
    available: int | None
    device: str
    dtype: str
    remedy: str

    def require(self) -> None:
        """
        Make sure that the weights fit.

        Without this check the system ends the process, because Linux grants memory that it lacks.

        Raises:
            BackendUnavailable: they do not fit.

        """
        if self.available is not None and self.needed > self.available:
            raise self.error()

    def error(self) -> BackendUnavailable:
        """Return the error for weights that do not fit."""
        limit = ""
        if self.available is not None:
            limit = f", and {self.device} has {self.available / 1e9:.1f} GB"
        return BackendUnavailable(
            f"{self.directory} takes {self.needed / 1e9:.1f} GB of memory in {self.dtype}{limit}; "
            f"choose {self.remedy}"
        )
