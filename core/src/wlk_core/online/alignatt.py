"""AlignAtt over any decoder that reports which audio it attended to."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.windowed import WindowedRecognizer
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.policies import count_agreed
from wlk_core.streaming.window import BoundedWindow, words_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.streaming.policies import AlignAtt
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


class AlignAttRecognizer(WindowedRecognizer[AlignedWord]):
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
        self._confirms_start = confirms_start
        window: BoundedWindow[AlignedWord] = BoundedWindow(
            attrgetter("word"),
            prefix_is_forced=True,
            prompt=prompt,
            tick_seconds=tick_seconds,
            buffer_seconds=buffer_seconds,
            max_seconds=max_seconds,
            kept_seconds=kept_seconds,
            cut_samples=cut_samples,
        )
        super().__init__(window, language=language)

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, text and decoder cache held, the prompt at its bound."""
        return super().state_bytes + (0 if self._cache is None else self._cache.nbytes)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new utterance with the end of the transcript as prompt."""
        if self._cache is not None:
            self._cache.reset()
        self._last_frame = -1  # the farthest that a committed token attended to; -1 before one
        super().end_utterance(committed_text)

    def _engine_call(self, stop: int, *, is_last: bool) -> Callable[..., AlignedHypothesis]:
        window = self._window
        seconds, frames = window.start / SAMPLE_RATE, window.start // self._frame
        return partial(
            self._decode,
            window.audio(stop),
            first_sample=window.start,
            remainder_samples=window.remainder_samples,
            context=tuple(word.shifted(seconds=-seconds, frames=-frames) for word in window.prefix),
            is_last=is_last,
        )

    def _new_words(self, words: Sequence[AlignedWord], stop: int) -> tuple[AlignedWord, ...]:
        window = self._window
        start, frames = window.start / SAMPLE_RATE, window.start // self._frame
        shifted = [word.shifted(seconds=start, frames=frames) for word in words]
        new = [aligned for aligned in shifted if self._is_new(aligned)]
        floor, limit = start, stop / SAMPLE_RATE
        if window.prefix:
            floor = max(floor, min(window.prefix[-1].word.end, limit))
        ordered = words_in_order([aligned.word for aligned in new], floor=floor, limit=limit)
        return tuple(attrs.evolve(a, word=word) for a, word in zip(new, ordered, strict=True))

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

    def _count_final(self, words: Sequence[AlignedWord], stop: int) -> int:
        final = self._policy.count_final(
            [frame for word in words for frame in word.frames],
            frames=-(-stop // self._frame),
            last_frame=self._last_frame,
        )
        count = 0
        for word in words:  # one is final when all of its tokens are
            final -= len(word.frames)
            if final < 0:
                break
            count += 1
        if self._confirms_start and self._last_frame < 0:
            repeated = count_agreed(self.hypothesis, [aligned.word for aligned in words])
            count = min(count, repeated)
        return count

    def _note_committed(self, items: Sequence[AlignedWord]) -> None:
        self._last_frame = max([self._last_frame, *(max(word.frames) for word in items)])
