"""What recognizers with a bounded buffer share: where it is cut, and what text they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.energy import lowest_energy_sample

if TYPE_CHECKING:
    from wlk_core.streaming.audio_buffer import AudioBuffer
    from wlk_core.streaming.words import Word

__all__ = ["PROMPT_CHARACTERS", "QUIET_SECONDS", "cut_between", "forced_cut", "last_words"]

PROMPT_CHARACTERS = 200  # committed text given to the engine as context (whisper_streaming)
QUIET_SECONDS = 3.0  # audio kept when two hypotheses in a row hear no new word
SEARCH_SECONDS = 0.1  # how far from a word boundary the quietest place for a cut may lie
CUT_WINDOW = SAMPLE_RATE // 50  # samples whose energy is compared to find that place


def cut_between(buffer: AudioBuffer, last: Word, following: float, *, heard: int) -> int:
    """
    Return the number of the quietest sample between a committed word and what follows it.

    Args:
        buffer: the audio of the run.
        last: the word that may be let go of, in seconds of the run.
        following: where the next word starts, or where the audio heard ends, in seconds.
        heard: sample number up to which the engine has heard the run.

    """
    first = round((min(last.end, following) - SEARCH_SECONDS) * SAMPLE_RATE)
    final = round((max(last.end, following) + SEARCH_SECONDS / 2) * SAMPLE_RATE)
    first = max(first, round(last.middle * SAMPLE_RATE), buffer.start)
    final = max(first, min(final, heard))
    return first + lowest_energy_sample(buffer.view(first, final), window=CUT_WINDOW)


def forced_cut(start: int, heard: int, following: float, *, most: int, step: int = 1) -> int:
    """
    Return where a buffer is cut that would outgrow the engine's window.

    Before the next word that is not final, if that leaves room, and in the middle if not: a word
    that the engine puts over half of the window is none.  All of the audio was heard many times.

    Args:
        start: number of the first sample held.
        heard: sample number up to which the engine has heard the run.
        following: where the next word that is not final starts, in seconds of the run.
        most: samples that may be held from here on.
        step: what the caller cuts at multiples of, downwards.

    """
    middle = (start + heard) // 2
    before = min(middle, round(following * SAMPLE_RATE)) // step * step
    return before if heard - before <= most else middle


def last_words(text: str) -> str:
    """Return the end of *text*, at most PROMPT_CHARACTERS of whole words."""
    if len(text) <= PROMPT_CHARACTERS:
        return text
    tail = text[-PROMPT_CHARACTERS:]
    return tail[tail.find(" ") :] if " " in tail else tail
