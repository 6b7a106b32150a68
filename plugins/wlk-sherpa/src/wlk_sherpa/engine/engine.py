"""Decode batches of sherpa-onnx streams, which change in place, in calls that can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FRAME_SAMPLES = SAMPLE_RATE // 100  # from one feature frame to the next, 10 ms
MAX_CHUNK_SAMPLES = 60 * SAMPLE_RATE  # a model that needs more is not a streaming model


@attrs.frozen
class Token:
    """A token: its text, including spaces, and its time in seconds from the segment's start."""

    text: str
    time: float
    log_probability: float | None


@attrs.define(eq=False)
class EngineStream:
    """A stream of sherpa-onnx, and how many chunks it has decoded; None while it decodes one."""

    native: Any
    decoded_chunks: int | None = 0
    times: list[float] = attrs.field(factory=list)  # of tokens, if the model reports none


@attrs.frozen(kw_only=True, eq=False)
class DecodeRequest:
    """
    The next chunks of a segment.

    Attributes:
        chunks: float32[n] for each: the samples that it needs and no earlier chunk needed.
        history: all earlier chunks.
        stream: the stream of the last answer; None at the start of a segment.  If a failed call
            left it in a state other than that after `history`, the history is decoded again.
        hotwords: the hotwords of the stream, in sherpa-onnx's syntax; None for none.

    """

    chunks: Sequence[NDArray[np.float32]]
    history: Sequence[NDArray[np.float32]] = ()
    stream: EngineStream | None = None
    hotwords: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class DecodeAnswer:
    """All tokens of the segment after each chunk, and the stream to pass in the next request."""

    results: tuple[tuple[Token, ...], ...]
    stream: EngineStream
    work: WorkCounters


def cut_answer(answer: DecodeAnswer, share: float) -> DecodeAnswer:
    """Return *answer* with only the first *share* of its tokens."""
    results = tuple(tokens[: int(share * len(tokens))] for tokens in answer.results)
    return attrs.evolve(answer, results=results)


class SherpaEngine:
    """
    A loaded model that any number of streams share; it stores nothing about a stream.

    The model decodes a segment in chunks, each of which advances by `chunk_samples` and sees
    `lookahead_samples` more.  So the first chunk of a segment has both, and every later one
    `chunk_samples`.  Both are determined by trial, because each type of model declares them under
    other names.

    Args:
        recognizer: a sherpa_onnx.OnlineRecognizer.
        time_scale: the factor that converts its times to seconds.

    Raises:
        ValueError: the model is not a streaming model.

    """

    def __init__(self, recognizer: Any, *, time_scale: float = 1.0) -> None:
        self.recognizer = recognizer
        self._time_scale = time_scale
        stream = recognizer.create_stream()
        first, second, third = (self._samples_until_ready(stream) for _ in range(3))
        if second != third:
            raise ValueError(f"chunks of {second} and {third} samples; expected them to be equal")
        self.chunk_samples = second
        self.lookahead_samples = first - second

    def _samples_until_ready(self, stream: Any) -> int:
        for frames in range(1, MAX_CHUNK_SAMPLES // FRAME_SAMPLES):
            stream.accept_waveform(SAMPLE_RATE, np.zeros(FRAME_SAMPLES, dtype=np.float32))
            if self.recognizer.is_ready(stream):
                self.recognizer.decode_stream(stream)
                return frames * FRAME_SAMPLES
        raise ValueError("a chunk takes more than a minute of audio")

    def decode_batch(self, requests: Sequence[DecodeRequest]) -> list[DecodeAnswer]:
        """
        Decode the next chunks of several segments; one run of the model serves all of them.

        If it raises, every request can be repeated: streams that changed are decoded again.
        """
        streams = [self._stream_for(request) for request in requests]
        results: list[list[tuple[Token, ...]]] = [[] for _ in requests]
        for number in range(max(len(request.chunks) for request in requests)):
            running = [index for index, each in enumerate(requests) if number < len(each.chunks)]
            self._advance([(streams[index], requests[index].chunks[number]) for index in running])
            for index in running:
                results[index].append(self._tokens(streams[index]))
        # Each run encodes the frames of its whole window; sherpa-onnx waits for two more.
        frames = (self.chunk_samples + self.lookahead_samples) // FRAME_SAMPLES - 2
        answers = []
        for request, stream, tokens in zip(requests, streams, results, strict=True):
            runs = len(request.chunks)
            if stream is not request.stream:
                runs += len(request.history)  # decoded again
            work = WorkCounters(encoder_frames=frames * runs)
            answers.append(DecodeAnswer(results=tuple(tokens), stream=stream, work=work))
        return answers

    def _stream_for(self, request: DecodeRequest) -> EngineStream:
        """Return the stream of *request* in the state after its history."""
        if request.stream is not None and request.stream.decoded_chunks == len(request.history):
            return request.stream
        create = self.recognizer.create_stream
        stream = EngineStream(create(request.hotwords) if request.hotwords else create())
        for chunk in request.history:
            self._advance([(stream, chunk)])
            self._tokens(stream)
        return stream

    def _advance(self, streams: Sequence[tuple[EngineStream, NDArray[np.float32]]]) -> None:
        """Decode the next chunk of all *streams* together."""
        counts = [(stream.decoded_chunks or 0) + 1 for stream, _ in streams]
        for stream, chunk in streams:
            stream.decoded_chunks = None
            stream.native.accept_waveform(SAMPLE_RATE, chunk)
            if not self.recognizer.is_ready(stream.native):  # decoding would end the process
                raise RuntimeError(f"a chunk of {len(chunk)} samples is too short")
        self.recognizer.decode_streams([stream.native for stream, _ in streams])
        for (stream, _), count in zip(streams, counts, strict=True):
            stream.decoded_chunks = count

    def _tokens(self, stream: EngineStream) -> tuple[Token, ...]:
        result = self.recognizer.get_result_all(stream.native)
        texts, times = result.tokens, [self._time_scale * time for time in result.timestamps]
        if len(times) < len(texts):  # a Paraformer reports no times: use those of the chunks
            start = ((stream.decoded_chunks or 1) - 1) * self.chunk_samples / SAMPLE_RATE
            stream.times += [start] * (len(texts) - len(stream.times))
            times = stream.times
        scores = result.ys_probs or [None] * len(texts)
        return tuple(map(Token, texts, times, scores))
