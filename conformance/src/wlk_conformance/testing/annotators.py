"""Annotators for tests: a scripted diarizer, a translator to capitals, a filter of digits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from wlk_conformance.testing.digits import DIGIT_WORDS
from wlk_core.annotators import Replacement
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.tokens import SpeakerSpan, TranslatedText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.tokens import ASRToken


class ScriptedDiarizer:
    """
    Return the spans of a script as soon as `max_delay` seconds of audio follow their end.

    The model calls in `fail_at`, counted from 1, raise RuntimeError.
    """

    def __init__(
        self, script: Sequence[SpeakerSpan], *, max_delay: float = 1.0, fail_at: Iterable[int] = ()
    ) -> None:
        self._waiting: list[SpeakerSpan]
        self._script = tuple(script)
        self._fail_at = frozenset(fail_at)
        self.max_delay = max_delay
        self.calls = 0
        self.is_closed = False
        self.reset()

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] at 16 kHz."""
        self._samples += len(audio)

    def insert_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._silence += seconds

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the spans that are certain."""
        clock = self._samples / SAMPLE_RATE + self._silence
        certain = [span for span in self._waiting if is_last or span.end + self.max_delay <= clock]
        if certain:
            self.calls += 1
            if self.calls in self._fail_at:
                raise RuntimeError(f"model call {self.calls} was scripted to fail")
            self._waiting = [span for span in self._waiting if span not in certain]
        cut = ((span.speaker, min(span.start, clock), min(span.end, clock)) for span in certain)
        return [SpeakerSpan(*span) for span in cut]

    def reset(self) -> None:
        """Restart the script."""
        self._samples = 0
        self._silence = 0.0
        self._waiting = list(self._script)

    def close(self) -> None:
        """Release everything; may be called again."""
        self.is_closed = True

    @property
    def stats(self) -> WorkCounters:
        """The calls so far."""
        return WorkCounters(decoder_forwards=self.calls)


class ScriptedTranslator:
    """Return every utterance in capitals when it is over, as *language*."""

    stats = WorkCounters()

    def __init__(self, _source_language: str | None = None, *, language: str = "de") -> None:
        self._waiting: tuple[ASRToken, ...] = ()
        self._language = language
        self.is_closed = False

    def insert_tokens(self, tokens: Sequence[ASRToken]) -> None:
        """Append committed tokens."""
        self._waiting = (*self._waiting, *tokens)

    def process_iter(self, is_last: bool = False) -> list[TranslatedText]:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Return the waiting tokens in capitals if the utterance is over."""
        tokens = self._waiting
        if not (is_last and tokens):
            return []
        self.reset()
        text = "".join(token.text for token in tokens).upper().strip()
        return [TranslatedText(text, tokens[0].start, tokens[-1].end, self._language)]

    def finish(self) -> list[TranslatedText]:
        """Return the rest."""
        return self.process_iter(is_last=True)

    def reset(self) -> None:
        """Forget the tokens."""
        self._waiting = ()

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


class DigitFilter:
    """
    A text filter that writes consecutive digits as one number: " four two" becomes " 42".

    A number goes on until another word, or until punctuation.  A word goes on until a token begins
    with a space, so the last one waits: " four" may be the beginning of "fourteen".
    """

    stats = WorkCounters()

    def __init__(self) -> None:
        self.is_closed = False

    def replace(
        self, tokens: tuple[ASRToken, ...], *, is_last: bool
    ) -> tuple[list[Replacement], int]:
        """Return a replacement for each number that has ended."""
        edges = [at for at, token in enumerate(tokens) if at == 0 or token.text[:1].isspace()]
        edges += [len(tokens)] if is_last else []
        replacements: list[Replacement] = []
        start, number = 0, ""
        for first, stop in pairwise(edges):
            text = "".join(token.text for token in tokens[first:stop])
            word = text.strip()
            digit = word.rstrip(".,!?")
            if f" {digit}" in DIGIT_WORDS:
                spacing = text[: text.index(word)]
                number = f"{number or spacing}{DIGIT_WORDS.index(f' {digit}')}{word[len(digit) :]}"
                if word == digit:
                    continue
                replacements.append(Replacement(start, stop, number))
            elif number:
                replacements.append(Replacement(start, first, number))
            start, number = stop, ""
        if number and is_last:
            replacements.append(Replacement(start, len(tokens), number))
            start = len(tokens)
        return replacements, start

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True
