"""What LocalAgreement and AlignAtt share: decoding a bounded window of audio anew at each tick."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs

from wlk_core.online.recognizer import Step, StreamLanguage
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.audio_buffer import REMAINDER_SECONDS, SEARCH_SECONDS, AudioBuffer
from wlk_core.streaming.words import CONTINUATION_SECONDS, PROMPT_CHARACTERS, W, last_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.words import Word

QUIET_SECONDS = 3.0  # audio kept when two hypotheses in a row contain no new word
MAX_REMAINDER = 1.0  # seconds; half of a long spoken word, since its middle is before the cut

D = TypeVar("D")


class UtteranceRecognizer(Generic[W]):
    """The audio, text and language of an utterance, for all recognizers that decode windows."""

    hypothesis: tuple[W, ...]  #: words of the newest hypothesis that are not final
    work: WorkCounters  #: the total work of the engine
    _prefix: tuple[W, ...] = ()  # committed words whose audio is still held

    def __init__(self, *, language: str | None, prompt: str) -> None:
        self._language = StreamLanguage(code=language, is_settled=language is not None)
        self._initial_prompt = prompt
        self.work = WorkCounters()
        self.start_utterance("")

    @property
    def language(self) -> str | None:
        """The language forced, or detected in this or the last utterance."""
        return self._language.code

    @property
    def state_bytes(self) -> int:
        """Bytes of audio and text held, with the prompt at its maximum."""
        text = sum(len(word.text) for word in (*self._prefix, *self.hypothesis))
        return self._audio.nbytes + PROMPT_CHARACTERS + text

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the utterance."""
        self._audio.append(audio)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript, if there is any, as prompt."""
        self._audio = AudioBuffer()
        self._prompt = last_words(committed_text or self._initial_prompt)
        self._overlap_end = 0.0  # seconds; a word whose middle lies before it is old
        self.hypothesis = ()
        self._language = self._language.next_utterance()

    def close(self) -> None:
        """Release audio, text and caches."""
        self.start_utterance("")


class WindowedRecognizer(UtteranceRecognizer[W], ABC, Generic[W, D]):
    """
    Decode a bounded window of audio every `tick_seconds`; commit what a policy finds final.

    The window holds the newest audio, the committed words in that audio (`_prefix`), and the end of
    the text before it (`_prompt`).  Once it is longer than `buffer_seconds` it is cut after a
    committed word, at the quietest place next to the word boundary; the words before the cut become
    prompt.  At least `kept_seconds` of audio stay, because some models need more context than the
    words to come.  If two hypotheses in a row contain no new word, only the last QUIET_SECONDS of
    the audio are kept.

    A window about to outgrow `max_seconds`, the engine's limit, is cut in any case.  Words in its
    older half are then committed as they are, because they have been decoded many times.

    Which words of an answer are final, in the order in which it is decided:

    1. At the end of an utterance, all of them.
    2. While the language is uncertain (`StreamLanguage.holds_words`), none.
    3. The last word is not, if it ends within CONTINUATION_SECONDS of the audio.
    4. Of the others, as many as the policy says (`_count_final`): the words on which two hypotheses
       agree, or those that attend to no frame near the end of the audio.
    5. Words in the older half of a window that is about to outgrow `max_seconds` are final anyway.

    The policies differ in how they call the engine, which words of its answer are new, and in 4.
    Times are in seconds from the start of the utterance.
    """

    # Whether the engine is forced to begin with the prefix; otherwise it transcribes it again.  The
    # boundary between old and new words depends on it: see _commit_boundary and _cut_boundary.
    _prefix_is_forced: ClassVar[bool]
    # The answer of the last step of a flush, if it was prepared and no audio came since.
    _prepared: tuple[Any, StreamLanguage] | None

    def __init__(
        self,
        decode: D,
        *,
        language: str | None = None,
        prompt: str = "",
        tick_seconds: float = 1.0,
        buffer_seconds: float = 12.0,
        max_seconds: float = 28.0,
        kept_seconds: float = 0.0,
        cut_samples: int = 1,
    ) -> None:
        self._decode = decode
        self._tick = max(1, round(tick_seconds * SAMPLE_RATE))
        self._buffer_samples = round(buffer_seconds * SAMPLE_RATE)
        self._kept_seconds = kept_seconds
        # Less a tick, so that there is room for one after a forced cut.
        self._max_samples = round(max_seconds * SAMPLE_RATE) - self._tick
        # A forced cut lies in the older half, where a multiple of cut_samples has to exist.
        if not 0 < cut_samples <= self._max_samples // 2:
            raise ValueError(
                f"expected cuts at 1 to {self._max_samples // 2} samples, half of {max_seconds:g} "
                f"s less a tick of {tick_seconds:g} s, got {cut_samples}"
            )
        # The state that some engines keep between calls can be cut only between blocks of audio.
        self._cut_samples = cut_samples
        self._catches_up = False
        super().__init__(language=language, prompt=prompt)

    def begin_catch_up(self) -> None:
        """Decode only at the latest tick that is due; it decodes the audio of earlier ones too."""
        self._catches_up = True

    def end_catch_up(self) -> None:
        """Decode at every tick again."""
        self._catches_up = False

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the utterance, which makes a prepared flush useless."""
        super().feed(audio)
        self._prepared = None

    def prepare_flush(self) -> tuple[W, ...]:
        """Decode the end of the utterance, and keep the answer for the last step of a flush."""
        if not self._has_rest:
            return self.hypothesis
        if self._prepared is None:
            answer, language = self._decode_window(self._audio.end, is_last=True)
            self.work += answer.work
            self._prepared = attrs.evolve(answer, work=WorkCounters()), language
        kept = self._prefix, self._overlap_end  # which new words may move
        words = self._new_words(self._prepared[0].words, self._audio.end)
        self._prefix, self._overlap_end = kept
        return words

    def step(self, *, is_last: bool) -> Step | None:
        """Decode up to the next tick, or to the end of a complete utterance."""
        end_sample = self._processed - self._processed % self._tick + self._tick
        if self._catches_up:
            latest = min(self._audio.end, self._audio.start + self._max_samples + self._tick)
            end_sample = max(end_sample, latest - latest % self._tick)
        if end_sample <= self._audio.end:
            return self._decode_to(end_sample, is_last=False)
        if not is_last:
            return None
        if self._has_rest:
            return self._decode_to(self._audio.end, is_last=True)
        if not self.hypothesis:
            return None
        # The utterance ends on a tick, which decoded all of it: another call would be wasted.
        committed, self.hypothesis = self.hypothesis, ()
        self._language = self._language.committed(self._detected)
        return Step(committed=committed, consumed_samples=self._processed)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript, if there is any, as prompt."""
        super().start_utterance(committed_text)
        self._prefix = ()
        self._last_word: W | None = None  # the last committed in this utterance
        self._processed = 0  # number of the first sample that no step has decoded
        self._dropped_end = 0.0  # seconds; the end of the last word that became prompt
        self._was_quiet = False  # the last hypothesis contained no new word
        self._detected: str | None = None  # the language of the hypothesis
        self._prepared = None

    @property
    def _has_rest(self) -> bool:
        """Whether the last step of a flush would call the engine."""
        is_held = bool(self.hypothesis) and self._language.holds_words
        return self._processed < self._audio.end or is_held

    def _decode_window(self, end_sample: int, *, is_last: bool) -> tuple[Any, StreamLanguage]:
        seconds = (end_sample - self._audio.start) / SAMPLE_RATE
        return self._language.decode(
            self._engine_call(end_sample, is_last=is_last),
            self._prompt.strip(),
            speech_seconds=lambda answer: seconds - answer.words[0].start,
            is_last=is_last,
        )

    def _decode_to(self, end_sample: int, *, is_last: bool) -> Step:
        # Nothing changes until the answer has been read, so that a failed step can be repeated.
        seconds, end = (end_sample - self._audio.start) / SAMPLE_RATE, end_sample / SAMPLE_RATE
        prepared = self._prepared if is_last else None
        answer, language = prepared or self._decode_window(end_sample, is_last=is_last)
        fresh = self._new_words(answer.words, end_sample)
        if is_last:
            count = len(fresh)
        elif language.holds_words:
            count = 0
        else:
            # Later audio may continue the last word: two hypotheses can agree on what a model makes
            # of the first half of a word, and attention stays within that half.
            may_continue = fresh and end - fresh[-1].end < CONTINUATION_SECONDS
            count = self._count_final(fresh[:-1] if may_continue else fresh, end_sample)
        outside = sum(word.is_outside(seconds) for word in answer.words)
        self.work += answer.work
        if language.is_change(self._language):
            self._prompt = ""  # it is in another language
        self._prepared = None
        self._processed = end_sample
        self._extend_prefix(fresh[:count])
        count += self._limit_window(fresh[count:], is_quiet=not fresh)
        committed, self.hypothesis = fresh[:count], fresh[count:]
        self._language, self._detected = language, answer.language
        if committed:
            self._language = language.committed(answer.language)
        return Step(committed=committed, consumed_samples=end_sample, misplaced_words=outside)

    @abstractmethod
    def _engine_call(self, end_sample: int, *, is_last: bool) -> Callable[..., Any]:
        """Return the engine call on the window to *end_sample*; it takes `prompt`, `language`."""

    @abstractmethod
    def _new_words(self, words: Sequence[W], end_sample: int) -> tuple[W, ...]:
        """Return the uncommitted words of an answer, whose times count from the window's start."""
        # May raise before it changes any state, but not after.

    @abstractmethod
    def _count_final(self, words: Sequence[W], end_sample: int) -> int:
        """Return how many of *words*, which later audio cannot continue, are final."""

    def _extend_prefix(self, words: Sequence[W]) -> None:
        if words:
            self._last_word = words[-1]
            self._prefix += tuple(words)
            self._overlap_end = max(self._overlap_end, self._commit_boundary(words[-1]))

    def _limit_window(self, upcoming: Sequence[W], *, is_quiet: bool) -> int:
        """Cut the window if it is too long; return how many of *upcoming* it had to commit."""
        was_quiet, self._was_quiet = self._was_quiet, is_quiet
        if is_quiet and was_quiet:
            self._trim(self._cut_in_silence(), upcoming)
        if self._processed - self._audio.start > self._buffer_samples and self._prefix:
            self._trim(self._cut_after_prefix(upcoming, kept=self._kept_seconds), upcoming)
        if self._processed - self._audio.start <= self._max_samples:
            return 0
        half = (self._audio.start + self._processed) / 2 / SAMPLE_RATE
        count = sum(word.end <= half for word in upcoming)
        self._extend_prefix(upcoming[:count])
        upcoming = upcoming[count:]
        after_prefix = self._cut_after_prefix(upcoming) if self._prefix else 0
        # A cut up to the next word is safe, because the engine recognised nothing before it.
        following = upcoming[0].start if upcoming else half
        self._trim(max(after_prefix, self._forced_cut(following)), upcoming)
        return count

    def _cut_in_silence(self) -> int:
        cut = self._processed - round(QUIET_SECONDS * SAMPLE_RATE)
        if self._prefix_is_forced:
            return cut
        # A committed word at the cut is kept whole: an engine that transcribes the whole window
        # could take the rest of it for a word.
        words = self._prefix
        word = next((w for w in words if (w.end + SEARCH_SECONDS) * SAMPLE_RATE > cut), None)
        return cut if word is None else min(cut, self._cut_before(word.start))

    def _cut_after_prefix(self, upcoming: Sequence[W], *, kept: float = 0.0) -> int:
        # Cut in the pause after the last committed word that has *kept* seconds of audio after it.
        words = list(self._prefix)
        following = upcoming[0].start if upcoming else None
        audio_end = self._processed / SAMPLE_RATE - max(kept, 1.5 * SEARCH_SECONDS)
        # A word that ends later may be incomplete, and counts as the next word.
        while words and words[-1].end > audio_end:
            following = words.pop().start
        if not words:
            return self._audio.start
        last = words[-1]
        if following is None:
            # Next to the end of the word: an engine that ended its text early has not emitted the
            # words in the audio after it.
            first, final = last.end - SEARCH_SECONDS, last.end + SEARCH_SECONDS / 2
        else:
            first = min(last.end, following) - SEARCH_SECONDS
            final = following - SEARCH_SECONDS / 2
        return self._quietest(max(first, last.middle), final)

    def _forced_cut(self, following: float) -> int:
        # Cut before the first non-final word, which starts at *following* seconds.  A word that
        # spans half of the window is an alignment error.
        middle = (self._audio.start + self._processed) // 2
        cut = self._rounded_to_cut(self._cut_before(min(middle / SAMPLE_RATE, following)))
        return cut if self._processed - cut <= self._max_samples else middle

    def _cut_before(self, start: float) -> int:
        # Before *start*, because engines place the starts of words too late.
        return self._quietest(start - 1.5 * SEARCH_SECONDS, start - SEARCH_SECONDS / 2)

    def _quietest(self, start: float, end: float) -> int:
        return self._audio.quietest_sample(start, min(end, self._processed / SAMPLE_RATE))

    def _rounded_to_cut(self, sample: int) -> int:
        return sample // self._cut_samples * self._cut_samples

    def _trim(self, sample: int, upcoming: Sequence[W]) -> None:
        sample = self._rounded_to_cut(max(self._audio.start, sample))
        self._audio.trim(sample)
        cut = sample / SAMPLE_RATE
        # Words with no audio after the cut, or too little, become prompt.  A decoder can be forced
        # to begin with half a word.  An engine that transcribes the whole window may omit a cut
        # word, and then the next word could be taken for it.
        count = sum((w.middle if self._prefix_is_forced else w.start) < cut for w in self._prefix)
        if count:
            words, self._prefix = self._prefix[:count], self._prefix[count:]
            self._prompt = last_words(self._prompt + "".join(word.text for word in words))
            following = upcoming[0] if upcoming else None
            end = words[-1].end if following is None else min(words[-1].end, following.start)
            self._dropped_end = max(cut, end)
            self._overlap_end = self._cut_boundary(cut, following)

    @property
    def _remainder_samples(self) -> int:
        # How many samples at the start of the audio are the end of a word that became prompt; a
        # decoder skips them.  Keeping its text instead cost 10 wrong words in 192 digits, not 1.
        end = self._dropped_end
        if self._prefix:
            end = min(end, self._prefix[0].start)
        # A word twice as long as MAX_REMAINDER is an alignment error that may span other words.
        seconds = end - self._audio.start / SAMPLE_RATE
        return round(seconds * SAMPLE_RATE) if 0 < seconds < MAX_REMAINDER else 0

    def _commit_boundary(self, last: Word) -> float:
        # An engine that transcribes the whole window returns the prefix again.  Its words lie
        # before the end of the last one, give or take a little, and the new words after it.
        #
        # A decoder that is forced to begin with the prefix returns only new words, unless its
        # attention jumps back.  Then the end of the last word is a guess, and the next word may
        # begin before it; but a word with its middle before that of the last one is surely old.
        return last.middle if self._prefix_is_forced else last.end

    def _cut_boundary(self, cut: float, following: Word | None) -> float:
        if self._prefix:
            return self._overlap_end  # the last committed word decides as before
        # A remainder of the last word, which is not a word, may lie after the cut.  Its middle is
        # only as certain as the end of the word; REMAINDER_SECONDS allows for that.
        remainder = (cut + self._dropped_end) / 2
        boundary = remainder + REMAINDER_SECONDS
        if following is not None:
            # A boundary nearer to the middle of the next word would hide that word.  If the next
            # word lies inside the last one, the last one ends earlier than it seems.
            is_inside = following.end <= self._dropped_end
            middle = (remainder + following.middle) / 2
            boundary = remainder if is_inside else min(boundary, middle)
        return max(self._overlap_end, boundary) if self._prefix_is_forced else boundary
