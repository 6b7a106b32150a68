"""What decodes the utterances of a stream step by step, and in which language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.words import AlignedWord, Word


# Whisper base, 24 utterances in five languages and 60 starts of English: on the first second of
# other languages it reports English with up to 0.77; from 1.5 s on a language with 0.6 was right.
CERTAIN_PROBABILITY = 0.9
LIKELY_PROBABILITY = 0.6
LIKELY_SECONDS = 1.5
LATEST_SECONDS = 3.0  # of speech, after which words wait no longer

H = TypeVar("H", bound="Hypothesis")


@attrs.frozen(kw_only=True)
class Hypothesis:
    """The result of an engine call: words in seconds from the start of the audio."""

    words: tuple[Word, ...] = ()
    language: str | None = None
    #: From 0 to 1, where the call detected the language; None where that is unknown.
    language_probability: float | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


@attrs.frozen(kw_only=True)
class AlignedHypothesis(Hypothesis):
    """What a decoder emitted after the words it was forced to begin with."""

    words: tuple[AlignedWord, ...] = ()


@attrs.frozen(kw_only=True)
class Step:
    """What one step of a recognizer decided."""

    committed: tuple[Word, ...] = ()  #: final words, in seconds of the utterance
    consumed_samples: int  #: samples of the utterance that the model has processed by now
    #: Words that the engine put outside its audio (`Word.is_outside`) and that were moved into it.
    misplaced_words: int = 0


class Recognizer(Protocol):
    """
    Decode utterances: the audio between two silences.

    An OnlineStream owns life cycle, clock, threads and failure; it calls a recognizer from one
    thread at a time.  Times and sample numbers count from the start of the utterance.  What
    outlives an utterance (a prompt, a detected language) stays with the recognizer.

    Only `step` runs the model, and only `step` may fail.  It must leave everything as it was when
    it raises, because the stream counts the failure and the next call repeats the step.
    """

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words of the utterance that are not final, none before the last committed end."""
        ...

    @property
    def language(self) -> str | None:
        """The language forced or detected, as a code the spec declares; None while unknown."""
        ...

    @property
    def work(self) -> WorkCounters:
        """The engine's work since this recognizer was made."""
        ...

    @property
    def state_bytes(self) -> int | None:
        """Bytes of audio, text and model state held now; None if unknown."""
        ...

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append a copy of float32[n] to the utterance; runs no model."""
        ...

    def step(self, *, is_last: bool) -> Step | None:
        """
        Do one bounded piece of work, or return None where there is nothing to do.

        Where the work happens depends on the samples of the utterance alone, never on how they
        were fed.  So a policy ticks on its own grid.  With `is_last` the utterance is complete, and
        the steps up to the first None consume and commit all of it.
        """
        ...

    def end_utterance(self, committed_text: str) -> None:
        """
        Begin a new utterance; *committed_text* is the end of the transcript so far.

        Runs no model: a KV cache for the next utterance is opened by its first step.
        """
        ...

    def close(self) -> None:
        """Release everything held for this stream; runs no model."""
        ...


@attrs.frozen(kw_only=True)
class StreamLanguage:
    """
    What is known of the language; never changed in place, so that a failed step can be repeated.

    An engine that reports probabilities detects anew in each utterance, and no word is final before
    the language is: one that is wrong would write the first words in another language.  With other
    engines the language of the first committed words stays for the whole stream.
    """

    code: str | None = None  #: forced or detected; None while unknown
    is_settled: bool = False  #: engine calls are forced to `code`
    is_detected_again: bool = False  #: in the next utterance

    @property
    def holds_words(self) -> bool:
        """Whether words of the newest hypothesis wait for the language."""
        return self.is_detected_again and not self.is_settled

    def is_change(self, before: StreamLanguage) -> bool:
        """Return whether the text so far is in another language."""
        return before.code not in (None, self.code)

    def next_utterance(self) -> StreamLanguage:
        """Return the language at the start of an utterance."""
        return attrs.evolve(self, is_settled=self.is_settled and not self.is_detected_again)

    def committed(self, detected: str | None) -> StreamLanguage:
        """Return the language after words of a hypothesis in *detected* were committed."""
        if self.is_settled or detected is None:
            return self
        return attrs.evolve(self, code=detected, is_settled=True)

    def decode(
        self,
        call: Callable[..., H],
        prompt: str,
        *,
        speech_seconds: Callable[[H], float],
        is_last: bool,
    ) -> tuple[H, StreamLanguage]:
        """Make the engine call in the language, or detect it; return what is known then too."""
        hypothesis = call(prompt=prompt, language=self.code if self.is_settled else None)
        probability = hypothesis.language_probability
        if self.is_settled or probability is None or not hypothesis.words:
            return hypothesis, self
        seconds = speech_seconds(hypothesis)
        is_likely = probability >= LIKELY_PROBABILITY and seconds >= LIKELY_SECONDS
        if probability >= CERTAIN_PROBABILITY or is_likely:
            code = hypothesis.language
        elif is_last or seconds >= LATEST_SECONDS:
            code = self.code or hypothesis.language
        else:
            return hypothesis, attrs.evolve(self, is_detected_again=True)
        # The answer is of no use where the call detected another language than the one that is
        # settled now, or where the language changes: the prompt is text of the language before.
        settled = StreamLanguage(code=code, is_settled=True, is_detected_again=True)
        if settled.is_change(self) or code != hypothesis.language:
            again = call(prompt="" if settled.is_change(self) else prompt, language=code)
            hypothesis = attrs.evolve(again, work=hypothesis.work + again.work)
        return hypothesis, settled
