"""The names of speakers, the same in every output."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.tokens import SpeakerSpan


def speaker_name(speaker: int | str, names: Sequence[str] = ()) -> str:
    """
    Return the name of a speaker in every output: one of *names*, "Speaker 1" or the label itself.

    A diarizer that knows no names numbers speakers from 0; *names* are those of these numbers.
    """
    if isinstance(speaker, str) or speaker < 0:
        return str(speaker)
    return names[speaker] if speaker < len(names) else f"Speaker {speaker + 1}"


class NamingDiarizer:
    """A diarizer that gives *names* to the first speakers whom another one numbers."""

    def __init__(self, diarizer: Any, names: Sequence[str]) -> None:
        self._diarizer, self._names = diarizer, tuple(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._diarizer, name)

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans of the other diarizer, with names."""
        return [self._named(span) for span in self._diarizer.process_iter(is_last)]

    def _named(self, span: SpeakerSpan) -> SpeakerSpan:
        speaker: object = span.speaker  # a number of numpy counts too
        if isinstance(speaker, Integral) and 0 <= int(speaker) < len(self._names):
            return attrs.evolve(span, speaker=self._names[int(speaker)])
        return span
