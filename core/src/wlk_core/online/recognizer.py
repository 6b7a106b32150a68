"""The recognizer protocol: decode an utterance step by step, in a forced or detected language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.words import AlignedWord, Word


# Measured with Whisper base on 24 utterances in five languages and 60 starts of English: on the
# first second of other languages it reports English with a probability of up to 0.77; from 1.5 s
# on, a language with 0.6 was right.
CERTAIN_PROBABILITY = 0.9
LIKELY_PROBABILITY = 0.6
LIKELY_SECONDS = 1.5
LATEST_SECONDS = 3.0  # of speech, after which words no longer wait

H = TypeVar("H", bound="Hypothesis")


@attrs.frozen(kw_only=True)
class Hypothesis:
    """The result of an engine call: words in seconds from the start of the audio."""

    words: tuple[Word, ...] = ()
    language: str | None = None
    #: From 0 to 1 if the call detected the language; None if unknown.
    language_probability: float | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


@attrs.frozen(kw_only=True)
class AlignedHypothesis(Hypothesis):
    """What a decoder emitted after the words it was forced to begin with."""

    words: tuple[AlignedWord, ...] = ()


@attrs.frozen(kw_only=True)
class Step:
    """The result of one step of a recognizer."""

    committed: tuple[Word, ...] = ()  #: final words, in seconds of the utterance
    consumed_samples: int  #: samples of the utterance that the model has processed by now
    #: Words that the engine timed outside its audio (`Word.is_outside`); they were moved into it.
    misplaced_words: int = 0


class Recognizer(Protocol):
    """
    Decode utterances: the audio between two silences.

    An OnlineStream owns life cycle, clock, threads and failure; it calls a recognizer from one
    thread at a time.  Times and sample numbers count from the start of the utterance.  What
    outlives an utterance (a prompt, a detected language) stays with the recognizer.

    Only `step` runs the model.  If it raises, it must leave everything as it was, because the
    stream counts the failure and the next call repeats the step.  Other methods are not repeated.
    """

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Non-final words of the utterance, none of them before the last committed end."""
        ...

    @property
    def language(self) -> str | None:
        """The language forced or detected, as a code the spec declares; None while unknown."""
        ...

    @property
    def work(self) -> WorkCounters:
        """The engine's work since this recognizer was created."""
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
        Do one bounded piece of work, or return None if there is nothing to do.

        Steps end at samples of the utterance that do not depend on how its audio was fed, so a
        policy ticks on its own grid.  With `is_last` the utterance is complete, and the steps up to
        the first None consume and commit all of it.
        """
        ...

    def start_utterance(self, committed_text: str) -> None:
        """
        Begin an utterance, with the end of the transcript so far as *committed_text*.

        What is left of the utterance before it is dropped.

        Runs no model: a KV cache for the next utterance is opened by its first step.
        """
        ...

    def close(self) -> None:
        """Release everything held for this stream; runs no model."""
        ...


@attrs.frozen(kw_only=True)
class StreamLanguage:
    """
    What is known of the language; immutable, so that a failed step can be repeated.

    An engine that reports probabilities detects the language of each utterance, and no word is
    final before the language is: a wrong one would put the first words into another language.  With
    other engines the language of the first committed words is kept for the whole stream.
    """

    code: str | None = None  #: forced or detected; None while unknown
    is_settled: bool = False  #: engine calls are forced to `code`
    is_detected_again: bool = False  #: the next utterance's language is detected anew

    @property
    def holds_words(self) -> bool:
        """Whether words of the newest hypothesis wait for the language."""
        return self.is_detected_again and not self.is_settled

    def is_change(self, before: StreamLanguage) -> bool:
        """Return whether the text so far is in another language, that of *before*."""
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
        """Return the engine's answer, in the settled language if any, and the updated state."""
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
        # The answer is useless if the call detected another language than the one now settled, or
        # if the language changes, because the prompt was in the previous language.
        settled = StreamLanguage(code=code, is_settled=True, is_detected_again=True)
        if settled.is_change(self) or code != hypothesis.language:
            again = call(prompt="" if settled.is_change(self) else prompt, language=code)
            hypothesis = attrs.evolve(again, work=hypothesis.work + again.work)
        return hypothesis, settled
