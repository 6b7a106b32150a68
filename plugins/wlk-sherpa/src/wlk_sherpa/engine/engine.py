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
LONGEST_STEP = 60 * SAMPLE_RATE  # samples; a model that needs more is not a streaming model


@attrs.frozen
class Token:
    """A token: its text, including spaces, and its time in seconds from the segment's start."""

    text: str
    time: float
    log_probability: float | None


@attrs.define(eq=False)
class EngineStream:
    """A stream of sherpa-onnx, and how many steps it has decoded; None during a step."""

    native: Any
    steps: int | None = 0
    times: list[float] = attrs.field(factory=list)  # of tokens, if the model reports none


@attrs.frozen(kw_only=True, eq=False)
class DecodeRequest:
    """
    The next steps of a segment.

    Attributes:
        pieces: float32[n] for each step: the samples that it needs and no earlier step needed.
        history: the pieces of all earlier steps.
        stream: the stream of the last answer; None at the start of a segment.  If a failed call
            left it in a state other than that after `history`, the history is decoded again.
        hotwords: the hotwords of the stream, in sherpa-onnx's syntax; None for none.

    """

    pieces: Sequence[NDArray[np.float32]]
    history: Sequence[NDArray[np.float32]] = ()
    stream: EngineStream | None = None
    hotwords: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class DecodeAnswer:
    """All tokens of the segment after each step, and the stream to pass in the next request."""

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

    A step advances by `chunk_samples` and sees `lookahead_samples` more.  So the first piece of a
    segment has both, and every later piece `chunk_samples`.  Both are determined by trial, because
    each type of model declares them under other names.

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
            raise ValueError(f"steps of {second} and {third} samples; expected them to be equal")
        self.chunk_samples = second
        self.lookahead_samples = first - second

    def _samples_until_ready(self, stream: Any) -> int:
        for frames in range(1, LONGEST_STEP // FRAME_SAMPLES):
            stream.accept_waveform(SAMPLE_RATE, np.zeros(FRAME_SAMPLES, dtype=np.float32))
            if self.recognizer.is_ready(stream):
                self.recognizer.decode_stream(stream)
                return frames * FRAME_SAMPLES
        raise ValueError("a step takes more than a minute of audio")

    def decode_batch(self, requests: Sequence[DecodeRequest]) -> list[DecodeAnswer]:
        """
        Decode the next steps of several segments; one run of the model serves all of them.

        If it raises, every request can be repeated: streams that changed are decoded again.
        """
        streams = [self._stream_for(request) for request in requests]
        results: list[list[tuple[Token, ...]]] = [[] for _ in requests]
        for step in range(max(len(request.pieces) for request in requests)):
            running = [index for index, each in enumerate(requests) if step < len(each.pieces)]
            self._advance([(streams[index], requests[index].pieces[step]) for index in running])
            for index in running:
                results[index].append(self._tokens(streams[index]))
        # Each run encodes the frames of its whole window; sherpa-onnx waits for two more.
        frames = (self.chunk_samples + self.lookahead_samples) // FRAME_SAMPLES - 2
        runs = [
            len(request.pieces) + (0 if stream is request.stream else len(request.history))
            for request, stream in zip(requests, streams, strict=True)
        ]
        return [
            DecodeAnswer(
                results=tuple(tokens),
                stream=stream,
                work=WorkCounters(encoder_frames=frames * count),
            )
            for stream, tokens, count in zip(streams, results, runs, strict=True)
        ]

    def _stream_for(self, request: DecodeRequest) -> EngineStream:
        """Return the stream of *request* in the state after its history."""
        if request.stream is not None and request.stream.steps == len(request.history):
            return request.stream
        create = self.recognizer.create_stream
        stream = EngineStream(create(request.hotwords) if request.hotwords else create())
        for piece in request.history:
            self._advance([(stream, piece)])
            self._tokens(stream)
        return stream

    def _advance(self, streams: Sequence[tuple[EngineStream, NDArray[np.float32]]]) -> None:
        """Run the next step of all *streams* together, each with its piece of audio."""
        steps = [(stream.steps or 0) + 1 for stream, _ in streams]
        for stream, piece in streams:
            stream.steps = None
            stream.native.accept_waveform(SAMPLE_RATE, piece)
            if not self.recognizer.is_ready(stream.native):  # decoding would end the process
                raise RuntimeError(f"a piece of {len(piece)} samples is too short for a step")
        self.recognizer.decode_streams([stream.native for stream, _ in streams])
        for (stream, _), count in zip(streams, steps, strict=True):
            stream.steps = count

    def _tokens(self, stream: EngineStream) -> tuple[Token, ...]:
        result = self.recognizer.get_result_all(stream.native)
        texts, times = result.tokens, [self._time_scale * time for time in result.timestamps]
        if len(times) < len(texts):  # a Paraformer reports no times: use those of the steps
            start = ((stream.steps or 1) - 1) * self.chunk_samples / SAMPLE_RATE
            stream.times += [start] * (len(texts) - len(stream.times))
            times = stream.times
        scores = result.ys_probs or [None] * len(texts)
        return tuple(map(Token, texts, times, scores))
