"""What a session can add to words: speakers, translations and ends of turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import WorkCounters
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

__all__ = ["Diarizer", "Translator", "TurnDetector"]


class Diarizer(Protocol):
    """
    Find who speaks when in one stream of audio.

    Spans come late, by at most `max_delay` seconds, and in any order.  One thread at a time calls a
    diarizer.  A call that raises has changed nothing: it is made again, at most three times in a
    row, and then the session goes on without the diarizer.
    """

    @property
    def max_delay(self) -> float:
        """No span begins more than this many seconds before the end of the audio inserted."""
        ...

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        ...

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause whose audio is not given."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain by now, with `is_last` all of them; each span once."""
        ...

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...


class Translator(Protocol):
    """
    Translate committed text as it comes.

    A translation is final and is returned once, with the times of the tokens that it translates.
    Calls and failures are those of a `Diarizer`.
    """

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens in their order; runs no model."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the clauses that can be translated by now; with `is_last` an utterance is over."""
        ...

    def reset(self) -> None:
        """Return to the state of a new translator."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...


class TurnDetector(Protocol):
    """
    Decide in a short pause whether the speaker has finished.

    A session asks in each pause, 0.2 s after the last frame of speech, and again when the text has
    changed since.  Calls and failures are those of a `Diarizer`.
    """

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; keeps what the model needs and runs no model."""
        ...

    def end_of_turn(self, text: str) -> float:
        """Return the probability in [0, 1] that the turn with this text is over."""
        ...

    def reset(self) -> None:
        """Forget the audio, because another utterance begins."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """What the model computed so far."""
        ...
