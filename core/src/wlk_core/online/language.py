"""The language of a stream: forced by the caller, or detected in each utterance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.processor import WorkCounters

__all__ = ["StreamLanguage"]

# Whisper base, 24 utterances in five languages and 60 starts of English: on the first second of
# other languages it reports English with up to 0.77; from 1.5 s on a language with 0.6 was right.
CERTAIN_PROBABILITY = 0.9
LIKELY_PROBABILITY = 0.6
LIKELY_SECONDS = 1.5
LATEST_SECONDS = 3.0  # of speech, after which words wait no longer


class _Hypothesis(Protocol):
    @property
    def words(self) -> Sequence[object]: ...
    @property
    def language(self) -> str | None: ...
    @property
    def language_probability(self) -> float | None: ...
    @property
    def work(self) -> WorkCounters: ...


H = TypeVar("H", bound=_Hypothesis)


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
        """
        Make the engine call in the language, or detect it; return the hypothesis and the language.

        The call is made again where it detected another language than the one that is settled now,
        and where the language changes: without the prompt, which is text of the language before.

        Args:
            call: takes `prompt` and `language`, None to detect it.
            prompt: the text before the audio.
            speech_seconds: the audio of a hypothesis from its first word on.
            is_last: the utterance ends with this audio.

        """
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
        settled = StreamLanguage(code=code, is_settled=True, is_detected_again=True)
        if settled.is_change(self) or code != hypothesis.language:
            again = call(prompt="" if settled.is_change(self) else prompt, language=code)
            hypothesis = attrs.evolve(again, work=hypothesis.work + again.work)  # type: ignore[misc]
        return hypothesis, settled
