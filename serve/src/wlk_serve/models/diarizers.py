"""Open a diarizer for each session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.annotators import Diarizer
    from wlk_core.registry import Registry

__all__ = ["DiarizerSource"]


class DiarizerSource:
    """
    Opens a diarizer for each session.

    One is loaded at once, because a plugin that cannot load must fail before the server is ready,
    and because later ones then share what it brought into memory.

    Args:
        open: returns a new diarizer, as `Registry.load_annotator` does; may block.

    """

    def __init__(self, open: Callable[[], Diarizer]) -> None:  # noqa: A002 -- what it does
        self.open = open
        first = open()
        self.max_delay = float(first.max_delay)  #: seconds after its end in which a span comes
        first.close()

    @classmethod
    def named(cls, registry: Registry, name: str | None) -> Self | None:
        """
        Return the source of an installed diarizer; None for no name.

        Raises:
            WLKError: it is not installed, or it cannot be loaded.

        """
        return None if name is None else cls(lambda: registry.load_annotator("diarizer", name))
