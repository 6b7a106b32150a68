"""Diarizers for sessions: each session has its own, loaded in the thread that steps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer
    from wlk_core.processor import WorkCounters
    from wlk_core.registry import Registry
    from wlk_core.tokens import SpeakerSpan

__all__ = ["DiarizerSource", "LateDiarizer"]


class DiarizerSource:
    """
    Opens a diarizer for each session.

    One is loaded at once, because a plugin that cannot load must fail before the server is ready,
    and because later ones then share what it brought into memory.

    Args:
        load: returns a new diarizer, as `Registry.load_annotator` does.

    """

    def __init__(self, load: Callable[[], Diarizer]) -> None:
        self._load = load
        first = load()
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

    def open(self) -> LateDiarizer:
        """Return the diarizer of one session; never waits."""
        return LateDiarizer(self._load, self.max_delay)


class LateDiarizer:
    """
    A diarizer that is loaded by its first call.

    A session calls it in the thread that steps it, so that loading stops no event loop.
    """

    def __init__(self, load: Callable[[], Diarizer], max_delay: float) -> None:
        self._load = load
        self._loaded: Diarizer | None = None
        self.max_delay = max_delay

    @property
    def _diarizer(self) -> Diarizer:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self._diarizer.insert_audio_chunk(audio)

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._diarizer.insert_silence(seconds)

    def process_iter(self, is_last: bool = False) -> Iterable[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now."""
        return self._diarizer.process_iter(is_last)

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        if self._loaded is not None:
            self._loaded.reset()

    def close(self) -> None:
        """Release what was loaded; may be called again."""
        if self._loaded is not None:
            self._loaded.close()

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        return self._diarizer.stats
