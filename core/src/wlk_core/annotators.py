"""Annotators of a session: diarizers, translators, turn detectors and text filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from wlk_core.options import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import WorkCounters
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

AnnotatorKind = Literal["diarizer", "translator", "turn-detector", "text-filter"]


class Annotator(Protocol):
    """
    What all annotators have in common.

    An annotator is called by one thread at a time.  If a call raises, the session continues without
    it.  The program that loaded an annotator closes it after the End event; the session never does.
    """

    def reset(self) -> None:
        """Return to the initial state; called on a turn detector after each utterance."""
        ...

    def close(self) -> None:
        """Release everything; may be called again."""
        ...

    @property
    def stats(self) -> WorkCounters:
        """The work of the model so far."""
        ...


class Diarizer(Annotator, Protocol):
    """
    Find out who speaks when in one stream of audio.

    Spans lie within the audio and are returned in any order, at most `max_delay` seconds after they
    end.
    """

    @property
    def max_delay(self) -> float:
        """The most seconds from the end of a span to the `process_iter` that returns it."""
        ...

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        ...

    def insert_silence(self, seconds: float) -> None:
        """Advance the clock over a pause whose audio is left out."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return each span once, when it is certain; with `is_last`, all that remain."""
        ...


class Translator(Annotator, Protocol):
    """
    Translate text as it is committed.

    Translations are final and are returned once, in the order of the tokens and with their times.
    Only `finish` waits for the model, because in other calls the transcript would wait too.
    """

    def insert_tokens(self, tokens: tuple[ASRToken, ...]) -> None:
        """Append committed tokens in their order; runs no model."""
        ...

    def process_iter(self, is_last: bool = False) -> Iterable[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """
        Return the translations that are done, and start translating each complete clause.

        With `is_last` the utterance has ended, which completes its last clause.
        """
        ...

    def finish(self) -> Iterable[TranslatedText]:
        """Translate and return everything that is left; the session waits for it at its end."""
        ...


class TurnDetector(Annotator, Protocol):
    """Decide once in each pause, 0.2 s after the speech, whether the speaker has finished."""

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz, n >= 1; keeps what the model needs and runs no model."""
        ...

    def end_of_turn(self, text: str) -> float:
        """Return the probability that the turn is over; from 0.5 on a pause of 0.4 s ends it."""
        ...


@attrs.frozen
class Replacement:
    """
    Text in place of ``tokens[start:stop]``, from the first one's start to the last one's end.

    `text` begins with a space where the first token does.  It is not blank and has no control
    characters.
    """

    start: int
    stop: int
    text: str


class TextFilter(Annotator, Protocol):
    """
    Rewrite committed text, such as numbers, names and words to mask.

    The session builds the new tokens, so that no time changes, and keeps the replaced ones in their
    `spoken`.
    """

    def replace(
        self, tokens: tuple[ASRToken, ...], *, is_last: bool
    ) -> tuple[Sequence[Replacement], int]:
        """
        Return the replacements among *tokens*, and how many of the tokens are settled.

        *tokens*, at least one, are those of a clause that are not settled yet.  Tokens after the
        settled ones are passed again with each new token; with *is_last* the clause is over, and
        all must be settled.  Replacements are in order, do not overlap and lie within the settled
        tokens.  The result depends on the arguments alone.  In scripts with spaces, a token that
        begins without one continues the word before it, so the last word may go on until *is_last*.
        """
        ...


@attrs.frozen(kw_only=True)
class AnnotatorSpec(ModelSpec):
    """
    The declaration of an annotator, whose loader is called for each session.

    A translator takes `target_language` and `source_language`, each a language code or None.  A
    text filter takes `language`, the language to assume for tokens without a detected one.
    """

    kind: AnnotatorKind
