"""The names of speakers, the same in every output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def speaker_name(speaker: int | str, names: Sequence[str] = ()) -> str:
    """
    Return the name of a speaker in every output: one of *names*, "Speaker 1" or the label itself.

    A diarizer that knows no names numbers speakers from 0; *names* are those of these numbers.
    """
    if isinstance(speaker, str) or speaker < 0:
        return str(speaker)
    return names[speaker] if speaker < len(names) else f"Speaker {speaker + 1}"
