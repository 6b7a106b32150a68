"""AlignAtt over any decoder that reports which audio it attended to."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.language import StreamLanguage
from wlk_core.online.recognizer import Step
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.local_agreement import letters
from wlk_core.streaming.window import BoundedWindow, words_in_order

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.alignatt import AlignAtt
    from wlk_core.streaming.words import Word

__all__ = [
    "AlignAttDecoder",
    "AlignAttRecognizer",
    "AlignedHypothesis",
    "AlignedWord",
    "DecoderCache",
]

NO_ROOM_SECONDS = 0.05  # what an alignment leaves, at most, to a word that has no audio of its own


@attrs.frozen(kw_only=True)
class AlignedWord:
    """
    A whole word, and for each of its tokens the encoder frame by which the policy decides.

    That is the frame that the decoder attended to most, or the one where the token ends.

    Times and frames count from the start of the audio that the decoder was given; there is a frame
    for every token.  `tokens` are the decoder's own, so that it can be forced to begin with this
    word again.
    """

    word: Word
    frames: tuple[int, ...]
    tokens: tuple[Hashable, ...] = ()

    def shifted(self, *, seconds: float, frames: int) -> AlignedWord:
        """Return the same word, later by *seconds* and *frames*."""
        later = tuple(frame + frames for frame in self.frames)
        return attrs.evolve(self, word=self.word.shifted(seconds), frames=later)


@attrs.frozen(kw_only=True)
class AlignedHypothesis:
    """What a decoder emitted after the words it was forced to begin with."""

    words: tuple[AlignedWord, ...] = ()
    language: str | None = None
    #: From 0 to 1, where the call detected the language; None where that is unknown.
    language_probability: float | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


class AlignAttDecoder(Protocol):
    """An engine call of AlignAtt: audio in, words and the audio frames they attended to out."""

    def __call__(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        remainder_samples: int,
        context: tuple[AlignedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> AlignedHypothesis:
        """
        Decode float32[n], n > 0 at 16 kHz: the utterance from sample *first_sample* on.

        Args:
            audio: read-only, valid during the call.
            first_sample: where the audio begins in the utterance; a multiple of the frame.
            remainder_samples: how much of the start of the audio is the end of a committed word
                that is not in *context*, because its middle lies before the audio.  Only cuts far
                apart (*cut_samples*) leave more of a word than a decoder takes for noise.
            context: the committed words whose audio this is; the decoder begins with them and
                returns only what follows.  Their times and frames count as those it returns.
            prompt: the text before the audio, may be ""; at most PROMPT_CHARACTERS long.
            language: a code, or None to detect it.
            is_last: the utterance ends with this audio, so no word is held back for more of it.

        Raises:
            Exception: whatever the engine raises; the stream wraps it and can repeat the call.

        """
        ...


class DecoderCache(Protocol):
    """
    The state that a decoder keeps between calls, such as a KV cache, to make them cheaper.

    It changes what a call costs and never what it returns.  A call that fails halfway leaves a
    state from which the same call can be repeated.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        ...

    def reset(self) -> None:
        """Clear the cache; called when an utterance ends.  Runs no model."""
        ...


class AlignAttRecognizer:
    """
    Decode a bounded buffer every `tick_seconds` and commit by AlignAtt, whole words only.

    The buffer is a BoundedWindow.  Once it is longer than `buffer_seconds` it is cut after a
    committed word that `kept_seconds` of audio follow.  The decoder never gets more audio than
    `max_seconds`, or than twice a tick and a cut if that is more.

    A decoder that keeps state between its calls passes it as *cache*: it is reset when an
    utterance ends, and its bytes are counted.  Where such state survives cuts at certain samples
    only, cuts fall on multiples of *cut_samples* of the utterance.

    With *confirms_start* the first words of an utterance wait until a second hypothesis begins with
    them: a model invents a phrase ("Thank you.") for half a second of audio, and once that is
    forced as prefix, no text follows it.

    Raises:
        ValueError: *cut_samples* is not a multiple of the frame, or no cut could be forced because
            it is more than half of `max_seconds` less a tick.

    """

    work: WorkCounters  #: the engine's work, added up
    _upcoming: tuple[AlignedWord, ...]  # words of the newest hypothesis that are not final

    def __init__(
        self,
        decode: AlignAttDecoder,
        *,
        policy: AlignAtt,
        frame_samples: int,
        language: str | None = None,
        prompt: str = "",
        tick_seconds: float = 1.0,
        buffer_seconds: float = 12.0,
        max_seconds: float = 28.0,
        kept_seconds: float = 0.0,
        cut_samples: int | None = None,
        cache: DecoderCache | None = None,
        confirms_start: bool = False,
    ) -> None:
        # Whole frames at least, because the engine counts its own frames from the cut.
        cut_samples = frame_samples if cut_samples is None else cut_samples
        if cut_samples % frame_samples:
            raise ValueError(
                f"expected cuts at whole frames of {frame_samples} samples, got {cut_samples}"
            )
        self._decode = decode
        self._policy = policy
        self._frame = frame_samples
        self._cache = cache
        self._language = StreamLanguage(code=language, is_settled=language is not None)
        self.work = WorkCounters()
        self._confirms_start = confirms_start
        self._window: BoundedWindow[AlignedWord] = BoundedWindow(
            attrgetter("word"),
            prefix_is_forced=True,
            prompt=prompt,
            tick_seconds=tick_seconds,
            buffer_seconds=buffer_seconds,
            max_seconds=max_seconds,
            kept_seconds=kept_seconds,
            cut_samples=cut_samples,
        )
        self.end_utterance("")

    @property
    def language(self) -> str | None:
        """The language forced, or detected in this or the last utterance."""
        return self._language.code

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words that are not final, in seconds of the utterance."""
        return tuple(aligned.word for aligned in self._upcoming)

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, text and decoder cache held, the prompt at its bound."""
        text = sum(len(word.text) for word in self.hypothesis)
        cache = 0 if self._cache is None else self._cache.nbytes
        return self._window.nbytes + text + cache

    def skip_ticks(self, *, is_skipping: bool) -> None:
        """Decode at the latest tick only, while `is_skipping`; see SupportsTickSkipping."""
        self._window.skips_ticks = is_skipping

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the buffer."""
        self._window.buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode up to the next tick, or to the end of a complete utterance."""
        stop = self._window.next_stop(is_last=is_last)
        if stop is not None:
            return self._decode_to(stop, is_last=not self._window.is_on_grid(stop))
        if not is_last or not self._upcoming:
            return None
        if self._language.holds_words:
            return self._decode_to(self._window.processed, is_last=True)
        committed, self._upcoming = self.hypothesis, ()
        self._language = self._language.committed(self._newest)
        return Step(committed=committed, consumed_samples=self._window.processed)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript as prompt."""
        if self._cache is not None:
            self._cache.reset()
        self._window.reset(committed_text)
        self._upcoming = ()
        self._last_frame = -1  # the farthest that a committed token attended to; -1 before one
        self._newest = AlignedHypothesis()
        self._language = self._language.next_utterance()

    def close(self) -> None:
        """Release audio, text and decoder cache."""
        self.end_utterance("")

    def _decode_to(self, stop: int, *, is_last: bool) -> Step:
        # Nothing changes before the answer was read, so that a failed step can be repeated.
        window = self._window
        seconds, frames = window.start / SAMPLE_RATE, window.start // self._frame
        decode = partial(
            self._decode,
            window.audio(stop),
            first_sample=window.start,
            remainder_samples=window.remainder_samples,
            context=tuple(word.shifted(seconds=-seconds, frames=-frames) for word in window.prefix),
            is_last=is_last,
        )
        end = stop / SAMPLE_RATE
        hypothesis, language = self._language.decode(
            lambda prompt, code: decode(prompt=prompt, language=code),
            window.prompt,
            speech_seconds=lambda answer: end - seconds - answer.words[0].word.start,
            is_last=is_last,
        )
        shifted = [word.shifted(seconds=seconds, frames=frames) for word in hypothesis.words]
        fresh = self._in_order([word for word in shifted if self._is_new(word)], stop)
        waits = language.holds_words and not is_last
        count = 0 if waits else self._count_final(fresh, stop, is_final=is_last)
        outside = sum(word.word.is_outside(seconds, end) for word in shifted)
        self.work += hypothesis.work
        if language.is_change(self._language):
            window.forget_prompt()
        self._language, self._newest = language, hypothesis
        window.processed = stop
        window.commit(fresh[:count])
        forced = window.bound(fresh[count:], is_quiet=not fresh)
        committed, self._upcoming = fresh[: count + forced], fresh[count + forced :]
        self._last_frame = max([self._last_frame, *(max(word.frames) for word in committed)])
        if committed:
            self._language = language.committed(hypothesis)
        return Step(
            committed=tuple(word.word for word in committed),
            consumed_samples=stop,
            misplaced_words=outside,
        )

    def _is_new(self, aligned: AlignedWord) -> bool:
        """Return whether a word has audio of its own after the committed words."""
        # The rest of a committed word that a cut left in the buffer has none.  Nor has a committed
        # word that is emitted again because attention jumped back.  Both align to almost no audio,
        # so times and frames decide; text does not, because speakers repeat words.
        word = aligned.word
        has_room = word.end - word.start > NO_ROOM_SECONDS
        has_room = has_room and word.middle >= self._window.dropped_end
        is_ahead = max(aligned.frames) > self._last_frame
        return word.middle >= self._window.overlap_end and (is_ahead or has_room)

    def _count_final(self, words: Sequence[AlignedWord], stop: int, *, is_final: bool) -> int:
        """
        Return how many of *words* are final.

        A word is when all of its tokens are, and the last one not as long as it may continue.
        """
        may_continue = words and words[-1].word.may_continue(stop / SAMPLE_RATE)
        whole = words[:-1] if may_continue and not is_final else words
        final = self._policy.count_final(
            [frame for word in whole for frame in word.frames],
            frames=-(-stop // self._frame),
            last_frame=self._last_frame,
            is_last=is_final,
        )
        count = 0
        for word in whole:
            final -= len(word.frames)
            if final < 0:
                break
            count += 1
        if self._confirms_start and self._last_frame < 0 and not is_final:
            count = min(count, self._count_repeated(whole))
        return count

    def _count_repeated(self, words: Sequence[AlignedWord]) -> int:
        """Return how many of *words* the last hypothesis began with too."""
        pairs = zip(words, self._upcoming, strict=False)
        same = (letters(new.word.text) == letters(old.word.text) for new, old in pairs)
        return sum(takewhile(bool, same))

    def _in_order(self, words: Sequence[AlignedWord], stop: int) -> tuple[AlignedWord, ...]:
        """Return *words* with times that never go back and lie after the committed words."""
        floor, limit = self._window.start / SAMPLE_RATE, stop / SAMPLE_RATE
        if self._window.prefix:
            floor = max(floor, min(self._window.prefix[-1].word.end, limit))
        ordered = words_in_order([aligned.word for aligned in words], floor=floor, limit=limit)
        return tuple(attrs.evolve(a, word=word) for a, word in zip(words, ordered, strict=True))
