"""
AlignAtt over any decoder that reports which audio it attended to.

A token is final unless the decoder attended to the end of the audio when it emitted it.  Papi,
Turchi and Negri, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation" (Interspeech 2023); for Whisper: Wang et al., "Simul-Whisper:
Attention-Guided Streaming Whisper with Truncation Detection" (Interspeech 2024).  The test for
attention that jumps back comes from SimulStreaming (Machacek and Polak, 2025).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.local_agreement import NO_ROOM_SECONDS, count_agreed
from wlk_core.online.windowed import WindowedRecognizer
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming.words import AlignedWord, words_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.online.recognizer import AlignedHypothesis


@attrs.frozen(kw_only=True)
class AlignAtt:
    """The policy: the attended frame of each token in, the number of final words out."""

    border_frames: int  #: number of frames at the end of the audio that no final token attends to
    #: Frames that attention may jump back; what follows a longer jump is not final.
    rewind_frames: int

    def count_final(self, words: Sequence[AlignedWord], *, frames: int, last_frame: int = 0) -> int:
        """
        Return how many of *words*, counted from the first one, are final with all their tokens.

        The first token that attends to the last `border_frames` of the *frames* so far may change
        with the next audio, and so may every token after it.  So may the first token whose frame is
        more than `rewind_frames` before the farthest frame of any final token, including those of
        earlier calls (*last_frame*).  Frames count from the start of the utterance.
        """
        farthest = last_frame
        for count, word in enumerate(words):
            for frame in word.frames:
                if frame >= frames - self.border_frames or frame < farthest - self.rewind_frames:
                    return count
                farthest = max(farthest, frame)
        return len(words)


class AlignAttDecoder(Protocol):
    """An engine call for AlignAtt: audio in, words and the audio frames they attended to out."""

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
            remainder_samples: how many samples at the start of the audio are the end of a committed
                word that is not in *context*, because its middle lies before the audio.  They are
                few, and a decoder may ignore them, unless cuts are far apart (*cut_samples*).
            context: the committed words in this audio; the decoder begins with them and returns
                only what follows.  Their times and frames count as in its answer.
            prompt: as for `Transcriber`, whose errors a decoder may raise too.
            language: a code, or None to detect it.
            is_last: the utterance ends with this audio, so no word is held back for more of it.

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


class AlignAttRecognizer(WindowedRecognizer[AlignedWord, AlignAttDecoder]):
    """
    Decode a bounded window every `tick_seconds` and commit by AlignAtt, whole words only.

    A window longer than `buffer_seconds` is cut after a committed word that is followed by at least
    `kept_seconds` of audio.  The decoder never gets more audio than `max_seconds`, or than twice
    (tick + *cut_samples*) if that is longer.

    State that a decoder keeps between its calls is passed as *cache*, which is reset when an
    utterance ends and counted in `state_bytes`.  If such state survives cuts only at certain
    samples, *cut_samples* places cuts on multiples of it, counted from the start of the utterance.

    With *confirms_start* the first words of an utterance wait until a second hypothesis begins with
    them: a model may invent a phrase ("Thank you.") for half a second of audio, and once that is
    forced as prefix, no text follows it.

    Raises ValueError if *cut_samples* is not a multiple of the frame, or is so long that no cut
    could be forced: more than half of (`max_seconds` - tick).
    """

    _prefix_is_forced = True

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
        # Whole frames, because the engine counts its own frames from the cut.
        cut_samples = frame_samples if cut_samples is None else cut_samples
        if cut_samples % frame_samples:
            raise ValueError(
                f"expected cuts at whole frames of {frame_samples} samples, got {cut_samples}"
            )
        self._policy = policy
        self._frame = frame_samples
        self._cache = cache
        self._confirms_start = confirms_start
        super().__init__(
            decode,
            language=language,
            prompt=prompt,
            tick_seconds=tick_seconds,
            buffer_seconds=buffer_seconds,
            max_seconds=max_seconds,
            kept_seconds=kept_seconds,
            cut_samples=cut_samples,
        )

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, text and decoder cache held, with the prompt at its maximum."""
        return super().state_bytes + (0 if self._cache is None else self._cache.nbytes)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance, with the end of the transcript as prompt."""
        if self._cache is not None:
            self._cache.reset()
        self._last_frame = -1  # the farthest that a committed token attended to; -1 if none
        super().start_utterance(committed_text)

    def _engine_call(self, end_sample: int, *, is_last: bool) -> Callable[..., AlignedHypothesis]:
        start = self._audio.start
        seconds, frames = start / SAMPLE_RATE, start // self._frame
        return partial(
            self._decode,
            self._audio.view(start, end_sample),
            first_sample=start,
            remainder_samples=self._remainder_samples,
            context=tuple(word.shifted(-seconds, -frames) for word in self._prefix),
            is_last=is_last,
        )

    def _new_words(self, words: Sequence[AlignedWord], end_sample: int) -> tuple[AlignedWord, ...]:
        start, frames = self._audio.start / SAMPLE_RATE, self._audio.start // self._frame
        shifted = [word.shifted(start, frames) for word in words]
        floor, limit = start, end_sample / SAMPLE_RATE
        if self._prefix:
            floor = max(floor, min(self._prefix[-1].end, limit))
        return tuple(words_in_order(list(filter(self._is_new, shifted)), floor=floor, limit=limit))

    def _is_new(self, word: AlignedWord) -> bool:
        # Not new: the rest of a committed word that a cut left in the buffer, and a committed word
        # that is emitted again because attention jumped back.  Both align to almost no audio, so
        # times and frames decide; text does not, because speakers repeat words.
        has_room = word.end - word.start > NO_ROOM_SECONDS and word.middle >= self._dropped_end
        is_ahead = max(word.frames) > self._last_frame
        return word.middle >= self._overlap_end and (is_ahead or has_room)

    def _count_final(self, words: Sequence[AlignedWord], end_sample: int) -> int:
        frames = -(-end_sample // self._frame)
        count = self._policy.count_final(words, frames=frames, last_frame=self._last_frame)
        if self._confirms_start and self._last_frame < 0:
            count = min(count, count_agreed(self.hypothesis, words))
        return count

    def _extend_prefix(self, words: Sequence[AlignedWord]) -> None:
        super()._extend_prefix(words)
        self._last_frame = max([self._last_frame, *(max(word.frames) for word in words)])
