"""Recognise the words of one stream, in the chunks of a streaming model."""

from __future__ import annotations

from bisect import bisect_right
import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, Step, WorkCounters
from wlk_core.streaming import AudioBuffer, Word
from wlk_sherpa.engine.engine import DecodeRequest
from wlk_sherpa.engine.words import group, is_blank, word_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wlk_sherpa.engine.engine import DecodeAnswer, EngineStream, Token

MAX_CALL_CHUNKS = 8  # per engine call; live audio needs one chunk at a time
TAIL_SECONDS = 0.5  # zeros appended to an utterance: transducers can emit a token this late
SEGMENT_SECONDS = 20.0  # then the next pause ends the segment; sherpa-onnx also has 20 s
PAUSE_SECONDS = 0.5  # without a token
MAX_SEGMENT_SECONDS = 30.0  # after which a segment ends even without a pause
MAX_LEAD_SECONDS = 1.0  # of the pause, decoded again at the start of the next segment


@attrs.frozen(kw_only=True)
class StreamOptions:
    """
    Properties of the model and options of the stream.

    Attributes:
        chunk_samples, lookahead_samples: see SherpaEngine.
        frame_seconds: the resolution of the times of tokens.
        word_gap: seconds without a token after which a word is final.
        hotwords: the hotwords of the stream, in sherpa-onnx's syntax; None for none.
        is_revised: whether later chunks can change tokens, as in beam search.
        is_marked: whether tokens mark the ends of words as Paraformer's do, see `group`.
        model_bytes: the size of the encoder's state.

    """

    chunk_samples: int
    lookahead_samples: int
    frame_seconds: float
    word_gap: float
    hotwords: str | None = None
    is_revised: bool = False
    is_marked: bool = False
    model_bytes: int = 0


class SherpaRecognizer:
    """
    Recognise audio in the chunks of a streaming model.

    A word is final when the next one begins, or after `word_gap` without a token; with beam search
    only in the second case.  If the word continues after that, the rest is committed as a token
    without a space in front.

    An utterance is decoded in segments, each in its own stream of sherpa-onnx.  The state of such a
    stream can be neither copied nor stored, so the audio of the segment is kept, to be decoded
    again after a failure.  A segment begins in the middle of the pause that ended the one before.
    """

    language: str | None = None  # no model reports a language

    def __init__(
        self, decode: Callable[[DecodeRequest], DecodeAnswer], options: StreamOptions
    ) -> None:
        self._decode = decode
        self._options = options
        self._work = WorkCounters()
        self.start_utterance("")

    @property
    def hypothesis(self) -> tuple[Word, ...]:
        """The words that are not final."""
        return self._words(self._pending)

    @property
    def work(self) -> WorkCounters:
        """The total work of the engine; sherpa-onnx allows to count only `encoder_frames`."""
        return self._work

    @property
    def state_bytes(self) -> int:
        """Bytes of the segment's audio and the encoder's state."""
        state = 0 if self._stream is None else self._options.model_bytes
        return self._buffer.nbytes + sum(piece.nbytes for piece in self._history) + state

    def feed(self, audio: NDArray[np.float32]) -> None:
        """Append float32[n] to the audio to decode."""
        self._buffer.append(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Decode the complete chunks; at the end of an utterance, all the rest."""
        if self._is_padded:
            return None
        chunk, lookahead = self._options.chunk_samples, self._options.lookahead_samples
        decoded, length = len(self._history), self._buffer.end
        ready = (length - lookahead) // chunk - decoded
        if ready > 0:
            return self._decode_chunks(min(ready, MAX_CALL_CHUNKS), is_last=False)
        if not is_last:
            return None
        padded_length = length + round(TAIL_SECONDS * SAMPLE_RATE)
        return self._decode_chunks(math.ceil(padded_length / chunk) - decoded, is_last=True)

    def start_utterance(self, committed_text: str) -> None:
        """Begin a new utterance; the models support no prompt."""
        del committed_text
        self._consumed = 0  # samples of the utterance
        self._is_padded = False
        self._begin_segment(0, np.zeros(0, dtype=np.float32))

    def close(self) -> None:
        """Release the audio and the state of the model."""
        self.start_utterance("")

    def _begin_segment(self, origin: int, audio: NDArray[np.float32]) -> None:
        self._origin = origin  # its first sample in the utterance
        self._buffer = AudioBuffer()  # audio to decode
        self._buffer.append(audio)
        self._history: list[NDArray[np.float32]] = []  # decoded audio, chunk by chunk
        self._stream: EngineStream | None = None
        self._pending: list[list[Token]] = []  # words that are not final
        self._final_tokens = 0
        self._final_time = -1.0  # of the last final token, in seconds from the segment's start
        self._last_time = 0.0  # the end of the last token

    def _decode_chunks(self, count: int, *, is_last: bool) -> Step:
        """Decode the next chunks; the state changes only once the engine has returned."""
        chunks = self._next_chunks(count)
        answer = self._decode(
            DecodeRequest(
                chunks=chunks,
                history=self._history,
                stream=self._stream,
                hotwords=self._options.hotwords,
            )
        )
        self._stream, self._is_padded = answer.stream, is_last
        self._work += answer.work
        words: list[Word] = []
        for chunk, tokens in zip(chunks, answer.results, strict=True):
            self._history.append(chunk)
            self._buffer.trim(min(self._buffer.start + len(chunk), self._buffer.end))
            words += self._commit(tokens, is_last=is_last and chunk is chunks[-1])
            decoded = self._origin + len(self._history) * self._options.chunk_samples
            self._consumed = max(self._consumed, decoded)
            if not is_last and (cut := self._cut()) is not None:
                words += self._words(self._pending)
                rest = self._buffer.view(self._buffer.start, self._buffer.end)
                audio = np.concatenate([*self._history, rest])
                self._begin_segment(self._origin + cut, audio[cut:].copy())
                break
        consumed = min(self._consumed, self._origin + self._buffer.end)
        return Step(committed=tuple(words), consumed_samples=consumed)

    def _next_chunks(self, count: int) -> list[NDArray[np.float32]]:
        """Return the audio of the next chunks, padded with zeros after the end of the utterance."""
        chunk_samples, buffer = self._options.chunk_samples, self._buffer
        lookahead = 0 if self._history else self._options.lookahead_samples
        length = lookahead + count * chunk_samples
        audio = buffer.view(buffer.start, min(buffer.start + length, buffer.end))
        audio = np.pad(audio, (0, length - len(audio)))
        ends = range(lookahead + chunk_samples, length, chunk_samples)
        return [chunk.copy() for chunk in np.split(audio, list(ends))]

    def _commit(self, tokens: Sequence[Token], *, is_last: bool) -> tuple[Word, ...]:
        """Return the words of the segment that have become final, and keep the others."""
        options = self._options
        first = self._final_tokens
        if options.is_revised:  # beam search can also change the number of earlier tokens
            first = bisect_right([token.time for token in tokens], self._final_time)
        words = group(tokens[first:], is_marked=options.is_marked)
        blank = words[-1:] if words and is_blank(words[-1]) else []
        words = words[: len(words) - len(blank)]
        now = self._decoded_seconds
        if tokens:
            self._last_time = max(self._last_time, tokens[-1].time + options.frame_seconds)
        followed = len(words) if blank else len(words) - 1
        final = 0  # words that have become final, the first ones
        for index, word in enumerate(words):
            is_followed = index < followed and not options.is_revised
            is_over = now - word[-1].time > options.word_gap
            if not (is_last or is_followed or is_over):
                break
            final += 1
        for word in words[:final]:
            self._final_tokens += len(word)
            self._final_time = word[-1].time
        self._pending = words[final:] + blank
        return self._words(words[:final])

    def _cut(self) -> int | None:
        """Return the sample of the segment at which to begin the next; None to continue it."""
        now = self._decoded_seconds
        quiet = now - self._last_time
        is_pause = quiet >= PAUSE_SECONDS and not self._pending
        if now < SEGMENT_SECONDS or not (is_pause or now >= MAX_SEGMENT_SECONDS):
            return None
        cut = now - min(max(quiet, 0.0) / 2, MAX_LEAD_SECONDS)
        return round(cut * SAMPLE_RATE)

    @property
    def _decoded_seconds(self) -> float:
        return len(self._history) * self._options.chunk_samples / SAMPLE_RATE

    def _words(self, words: Sequence[Sequence[Token]]) -> tuple[Word, ...]:
        origin, options = self._origin / SAMPLE_RATE, self._options
        return tuple(
            word_of(
                tokens,
                origin=origin,
                frame_seconds=options.frame_seconds,
                is_marked=options.is_marked,
            )
            for tokens in words
            if not is_blank(tokens)
        )
