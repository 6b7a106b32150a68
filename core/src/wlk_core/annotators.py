"""Annotators, which add speakers, translations and ends of turns to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from wlk_core.options import PluginSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import WorkCounters
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

AnnotatorKind = Literal["diarizer", "translator", "turn-detector"]


class Annotator(Protocol):
    """
    What all annotators have.

    One is called by one thread at a time.  If a call raises, the session goes on without it.  The
    session never closes it; the program that loaded it does so, after the End event.
    """

    def reset(self) -> None:
        """Return to the state of a new one; a turn detector before every further utterance."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """The work that the model has done so far."""
        ...


class Diarizer(Annotator, Protocol):
    """
    Find who speaks when in one stream of audio.

    Spans come late, at most `max_delay` seconds after they end, in any order and within the audio.
    """

    @property
    def max_delay(self) -> float:
        """The maximum seconds between the end of a span and the `process_iter` that returns it."""
        ...

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        ...

    def insert_silence(self, seconds: float) -> None:
        """Advance the clock over a pause whose audio is left out."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now, all with `is_last`; each span once."""
        ...


class Translator(Annotator, Protocol):
    """
    Translate committed text as it comes.

    A translation is final and is returned once, in the order of the tokens, with the times of those
    that it translates.  No call but `finish` waits for the model, because the transcript would wait
    too.
    """

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens in their order; runs no model."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """
        Return the translations that are done, and begin those of the clauses that are complete.

        With `is_last` the utterance has ended, and with it the last clause.
        """
        ...

    def finish(self) -> Iterable[TranslatedText]:
        """Return the translations of all that is left; the session has ended, and waits for it."""
        ...


class TurnDetector(Annotator, Protocol):
    """
    Decide in a short pause whether the speaker has finished.

    A session asks in each pause, 0.4 s after the last frame of speech, and again if the text has
    changed since.
    """

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; keeps what the model needs and runs no model."""
        ...

    def end_of_turn(self, text: str) -> float:
        """Return the probability in [0, 1] that the turn with this text is over."""
        ...


@attrs.frozen(kw_only=True)
class AnnotatorSpec(PluginSpec):
    """
    The declaration of an annotator, whose loader is called for each session.

    A translator has the options `target_language` and `source_language`, both codes or None.
    """

    kind: AnnotatorKind
