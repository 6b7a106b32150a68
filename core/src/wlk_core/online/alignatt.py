"""AlignAtt over any decoder that tells which audio it attended to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.online.recognizer import Step
from wlk_core.online.trimming import (
    PROMPT_CHARACTERS,
    QUIET_SECONDS,
    cut_between,
    forced_cut,
    last_words,
)
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming.audio_buffer import AudioBuffer

if TYPE_CHECKING:
    from collections.abc import Hashable

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

REMAINDER_SECONDS = 0.15  # of a committed word, at most, behind a cut; half the shortest word
NO_ROOM_SECONDS = 0.05  # an alignment that has nowhere to put a word leaves it less than that


@attrs.frozen(kw_only=True)
class AlignedWord:
    """
    A whole word, and for each of its tokens the frame that the decoder attended to most.

    Times and frames count from the start of the audio that the decoder was given; there is a frame
    for every token.  `tokens` are the decoder's own, so that it can begin with this word again.
    """

    word: Word
    frames: tuple[int, ...]
    tokens: tuple[Hashable, ...] = ()

    def shifted(self, *, seconds: float, frames: int) -> AlignedWord:
        """Return the same word that much later."""
        later = tuple(frame + frames for frame in self.frames)
        return attrs.evolve(self, word=self.word.shifted(seconds), frames=later)


@attrs.frozen(kw_only=True)
class AlignedHypothesis:
    """What a decoder said behind the words it was made to begin with."""

    words: tuple[AlignedWord, ...] = ()
    language: str | None = None
    work: WorkCounters = attrs.field(factory=WorkCounters)


class AlignAttDecoder(Protocol):
    """An engine call of AlignAtt: audio in, words and where they were heard out."""

    def __call__(
        self,
        audio: NDArray[np.float32],
        *,
        first_sample: int,
        context: tuple[AlignedWord, ...],
        prompt: str,
        language: str | None,
        is_last: bool,
    ) -> AlignedHypothesis:
        """
        Decode float32[n], n > 0 at 16 kHz: the run from sample *first_sample* on.

        Args:
            audio: read-only, valid during the call.
            first_sample: where the audio begins in the run; a multiple of the frame.
            context: the committed words whose audio this is; the decoder begins with them and
                returns only what follows.  Their times and frames count as those it returns.
            prompt: the text before the audio, "" for none; at most PROMPT_CHARACTERS long.
            language: a code, or None to detect it.
            is_last: the run ends with this audio, so no word is to be held back for more of it.

        Raises:
            Exception: whatever the engine raises; the stream wraps it and can repeat the call.

        """
        ...


class DecoderCache(Protocol):
    """
    The state of a decoder that makes each call cheaper by what the call before it left.

    It may change what a call costs, never what it says: a call that fails halfway leaves a state
    from which the same call can be made again.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        ...

    def reset(self) -> None:
        """Let go of everything: the run is over, and what comes next has nothing to do with it."""
        ...


class AlignAttRecognizer:
    """
    Decode a bounded buffer every `tick_seconds` and commit by AlignAtt, whole words only.

    The buffer is cut only behind committed words, at the quietest place next to a word boundary,
    once it is longer than `buffer_seconds`; what lies before the cut becomes prompt.  Stretches in
    which two hypotheses in a row hear nothing new are let go but for their last QUIET_SECONDS.  If
    a buffer reaches `max_seconds` without a word being final, the words in its older half are
    committed as they are: the engine's window is finite.

    A decoder that keeps state between its calls gives it as *cache*, which is told when a run ends
    and counted with what is held.  Where such state outlives a cut only at certain places, cuts
    fall on multiples of *cut_samples* of the run alone.  The decoder is never given more than
    `max_seconds`, or twice a tick and a cut where that is more.

    Raises:
        ValueError: *cut_samples* is no multiple of the frame, or more than half of what is left of
            `max_seconds` before the next tick: no cut could be forced.

    """

    _context: tuple[AlignedWord, ...]  # committed words whose audio is in the buffer
    _upcoming: tuple[AlignedWord, ...]  # heard and not final

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
        cut_samples: int | None = None,
        cache: DecoderCache | None = None,
    ) -> None:
        cut_samples = frame_samples if cut_samples is None else cut_samples
        if cut_samples % frame_samples:
            raise ValueError(
                f"expected cuts at whole frames of {frame_samples} samples, got {cut_samples}"
            )
        self._decode = decode
        self._policy = policy
        self._frame = frame_samples
        self._cut = cut_samples
        self._cache = cache
        self._language = language
        self._work = WorkCounters()
        self._tick = max(1, round(tick_seconds * SAMPLE_RATE))
        self._buffer_samples = round(buffer_seconds * SAMPLE_RATE)
        self._max_samples = round(max_seconds * SAMPLE_RATE)
        # A buffer is cut in its older half once another tick has no room: there has to be a place.
        most = (self._max_samples - self._tick) // 2
        if not 0 < cut_samples <= most:
            raise ValueError(
                f"expected cuts at 1 to {most} samples, half of {max_seconds:g} s less a tick of "
                f"{tick_seconds:g} s, got {cut_samples}"
            )
        self._initial_prompt = prompt
        self.end_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """Words heard that are not final, in seconds of the run."""
        return tuple(heard.word for heard in self._upcoming)

    @property
    def language(self) -> str | None:
        """The language forced, or detected by the time text was first committed."""
        return self._language

    @property
    def work(self) -> WorkCounters:
        """The engine's work, added up."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of audio, text and kept state held, the prompt at its bound."""
        words = (*self._context, *self._upcoming)
        text = PROMPT_CHARACTERS + sum(len(one.word.text) for one in words)
        return self._buffer.nbytes + text + (self._cache.nbytes if self._cache else 0)

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the buffer."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode up to the next point of the grid, or to the end of a complete run."""
        target = self._heard - self._heard % self._tick + self._tick
        if target <= self._buffer.end:
            return self._decode_to(target, is_final=False)
        if not is_last:
            return None
        if self._heard < self._buffer.end:
            return self._decode_to(self._buffer.end, is_final=True)
        if not self._upcoming:
            return None
        committed, self._upcoming = self.hypothesis, ()
        self._language = self._language or self._heard_language
        return Step(committed=committed, consumed_samples=self._heard)

    def end_utterance(self, committed_text: str) -> None:
        """Begin a new run with the end of the transcript as prompt."""
        if self._cache:
            self._cache.reset()
        self._buffer = AudioBuffer()
        self._context = self._upcoming = ()
        self._committed_end = 0.0  # seconds; a word in the middle before it was committed already
        self._rest_end = 0.0  # seconds; where the last word that was let go of ends
        self._last_frame = 0  # the farthest frame that a committed token attended to
        self._heard = 0  # sample number up to which the engine has heard the run
        self._heard_language: str | None = None  # in the newest hypothesis
        self._was_quiet = False  # the last hypothesis held no new word
        self._before = last_words(committed_text or self._initial_prompt)

    def close(self) -> None:
        """Let go of audio and text."""
        self.end_utterance("")

    def _decode_to(self, target: int, *, is_final: bool) -> Step:
        # Nothing is changed before the engine has answered, so that a failed step can be repeated.
        start = self._buffer.start
        seconds, frames = start / SAMPLE_RATE, start // self._frame
        heard = self._decode(
            self._buffer.view(start, target),
            first_sample=start,
            context=tuple(one.shifted(seconds=-seconds, frames=-frames) for one in self._context),
            prompt=self._before.strip(),
            language=self._language,
            is_last=is_final,
        )
        self._work += heard.work
        self._heard = target
        moved = [one.shifted(seconds=seconds, frames=frames) for one in heard.words]
        fresh = self._in_order([one for one in moved if self._is_new(one)])
        count = self._count_final(fresh, is_final=is_final)
        committed, self._upcoming = fresh[:count], fresh[count:]
        self._remember(committed)
        self._heard_language = heard.language
        committed += self._bound(is_quiet=not fresh)
        if committed:
            self._language = self._language or heard.language
        words = tuple(one.word for one in committed)
        return Step(committed=words, consumed_samples=target)

    def _is_new(self, one: AlignedWord) -> bool:
        """
        Tell whether a word was heard in audio behind what is committed: by place, not by text.

        What a cut leaves of a committed word is no word.  Attention that went back to one says it
        a second time, and the alignment has no room for it, or only that of what is left.
        """
        has_room = one.word.end - one.word.start > NO_ROOM_SECONDS
        has_room = has_room and one.word.middle >= self._rest_end
        is_ahead = max(one.frames) > self._last_frame
        return one.word.middle >= self._committed_end and (is_ahead or has_room)

    def _count_final(self, words: tuple[AlignedWord, ...], *, is_final: bool) -> int:
        """Return how many of *words* are final; a word is when all of its tokens are."""
        final = self._policy.count_final(
            [frame for one in words for frame in one.frames],
            frames=-(-self._heard // self._frame),
            last_frame=self._last_frame,
            is_last=is_final,
        )
        count = 0
        for one in words:
            final -= len(one.frames)
            if final < 0:
                break
            count += 1
        return count

    def _in_order(self, words: list[AlignedWord]) -> tuple[AlignedWord, ...]:
        """Return *words* with times that never go back and lie within what was heard."""
        ordered: list[AlignedWord] = []
        floor, limit = self._buffer.start / SAMPLE_RATE, self._heard / SAMPLE_RATE
        if self._context:
            floor = max(floor, min(self._context[-1].word.end, limit))
        for one in words:
            start = min(max(floor, one.word.start), limit)
            end = min(max(start, one.word.end), limit)
            ordered.append(attrs.evolve(one, word=attrs.evolve(one.word, start=start, end=end)))
            floor = start
        return tuple(ordered)

    def _remember(self, committed: tuple[AlignedWord, ...]) -> None:
        if committed:
            self._context += committed
            self._committed_end = max(self._committed_end, committed[-1].word.middle)
            self._last_frame = max(self._last_frame, *(max(one.frames) for one in committed))

    def _bound(self, *, is_quiet: bool) -> tuple[AlignedWord, ...]:
        """Keep the buffer short; return words that had to be committed for it."""
        was_quiet, self._was_quiet = self._was_quiet, is_quiet
        if is_quiet and was_quiet:
            self._trim(self._heard - round(QUIET_SECONDS * SAMPLE_RATE))
            return ()
        if self._heard - self._buffer.start > self._buffer_samples and self._context:
            self._trim(self._cut_behind_context())
        if self._heard - self._buffer.start <= self._max_samples - self._tick:
            return ()
        half = (self._buffer.start + self._heard) / 2 / SAMPLE_RATE
        count = sum(one.word.end <= half for one in self._upcoming)
        forced, self._upcoming = self._upcoming[:count], self._upcoming[count:]
        self._remember(forced)
        # Between the words that are committed now and the next one, nothing has been heard.
        following = self._upcoming[0].word.start if self._upcoming else half
        cut = self._cut_behind_context() if self._context else 0
        most = self._max_samples - self._tick
        forced_to = forced_cut(
            self._buffer.start, self._heard, following, most=most, step=self._cut
        )
        self._trim(max(cut, forced_to))
        return forced

    def _cut_behind_context(self) -> int:
        """Return the quietest sample between the last committed word and what follows it."""
        following = self._upcoming[0].word.start if self._upcoming else self._heard / SAMPLE_RATE
        return cut_between(self._buffer, self._context[-1].word, following, heard=self._heard)

    def _trim(self, sample: int) -> None:
        # Whole frames at least: the engine counts its own from the cut.
        sample = max(self._buffer.start, sample) // self._cut * self._cut
        self._buffer.trim(sample)
        seconds = sample / SAMPLE_RATE
        gone = [one for one in self._context if one.word.middle < seconds]
        self._context = self._context[len(gone) :]
        self._before = last_words(self._before + "".join(one.word.text for one in gone))
        if gone:
            # What is left of the last word behind the cut is no word.  Where cuts are far apart it
            # may be nearly half of a long one; its end is a guess, and a word may begin before it.
            self._rest_end = max(seconds, gone[-1].word.end)
            middle = (seconds + self._rest_end + REMAINDER_SECONDS) / 2
            self._committed_end = max(self._committed_end, middle)
