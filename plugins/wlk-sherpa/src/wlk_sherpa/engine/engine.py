"""The engine: calls that can be repeated, on streams of sherpa-onnx, which change in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FRAME_SAMPLES = SAMPLE_RATE // 100  # of the features
LONGEST_STEP = 60 * SAMPLE_RATE  # samples; a model that needs more is not a streaming one


@attrs.frozen
class Token:
    """A token: its text with its own spacing, and its time in seconds of the segment."""

    text: str
    time: float
    log_probability: float | None


@attrs.define(eq=False)
class HeldStream:
    """A stream of sherpa-onnx, and the steps after which its state is; None while they change."""

    stream: Any
    steps: int | None = 0
    times: list[float] = attrs.field(factory=list)  # of tokens, where the model has none


@attrs.frozen(kw_only=True, eq=False)
class DecodeRequest:
    """
    The next steps of a segment.

    Attributes:
        pieces: float32[n] for each step: the samples that it needs and no earlier step needed.
        history: the pieces of all steps before.
        held: the stream that the last answer came with; None at the start of a segment.  Where it
            is not in the state after the history, because a call failed, that is decoded again.
        hotwords: those of the stream, in the form of sherpa-onnx; None for none.

    """

    pieces: Sequence[NDArray[np.float32]]
    history: Sequence[NDArray[np.float32]] = ()
    held: HeldStream | None = None
    hotwords: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class DecodeAnswer:
    """All tokens of the segment after each of the steps, and what the next request takes."""

    results: tuple[tuple[Token, ...], ...]
    held: HeldStream
    work: WorkCounters


def cut_answer(answer: DecodeAnswer, share: float) -> DecodeAnswer:
    """Return *answer* with a share of its tokens."""
    results = tuple(tokens[: int(share * len(tokens))] for tokens in answer.results)
    return attrs.evolve(answer, results=results)


class SherpaEngine:
    """
    A loaded model that any number of streams share; nothing of a stream is stored on it.

    A step moves on by `chunk_samples` and sees `lookahead_samples` more, so that the first piece of
    a segment has both, and every other one `chunk_samples`.  They are found by trying, because each
    type of model has other names for them.

    Args:
        recognizer: a sherpa_onnx.OnlineRecognizer.
        time_scale: seconds to a second of its times.

    Raises:
        ValueError: the recognizer is not a streaming one.

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
        Decode the next steps of several segments, those of different streams in common runs.

        If it raises, every request can be made again: what changed is decoded again from its audio.
        """
        streams = [self._held(request) for request in requests]
        results: list[list[tuple[Token, ...]]] = [[] for _ in requests]
        for step in range(max(len(request.pieces) for request in requests)):
            running = [index for index, each in enumerate(requests) if step < len(each.pieces)]
            self._advance([(streams[index], requests[index].pieces[step]) for index in running])
            for index in running:
                results[index].append(self._tokens(streams[index]))
        # A run is given the frames of its whole window; sherpa-onnx waits for two more.
        frames = (self.chunk_samples + self.lookahead_samples) // FRAME_SAMPLES - 2
        return [
            DecodeAnswer(
                results=tuple(tokens),
                held=held,
                work=WorkCounters(
                    encoder_frames=frames
                    * (len(request.pieces) + (0 if held is request.held else len(request.history)))
                ),
            )
            for request, held, tokens in zip(requests, streams, results, strict=True)
        ]

    def _held(self, request: DecodeRequest) -> HeldStream:
        """Return the stream of *request* in the state after its history."""
        if request.held is not None and request.held.steps == len(request.history):
            return request.held
        create = self.recognizer.create_stream
        held = HeldStream(create(request.hotwords) if request.hotwords else create())
        for piece in request.history:
            self._advance([(held, piece)])
            self._tokens(held)
        return held

    def _advance(self, streams: Sequence[tuple[HeldStream, NDArray[np.float32]]]) -> None:
        """Run the next step of all *streams* together, each with its piece of audio."""
        steps = [(held.steps or 0) + 1 for held, _ in streams]
        for held, piece in streams:
            held.steps = None
            held.stream.accept_waveform(SAMPLE_RATE, piece)
            if not self.recognizer.is_ready(held.stream):  # else the library ends the process
                raise RuntimeError(f"a piece of {len(piece)} samples is too short for a step")
        self.recognizer.decode_streams([held.stream for held, _ in streams])
        for (held, _), count in zip(streams, steps, strict=True):
            held.steps = count

    def _tokens(self, held: HeldStream) -> tuple[Token, ...]:
        result = self.recognizer.get_result_all(held.stream)
        texts, times = result.tokens, [self._time_scale * time for time in result.timestamps]
        if len(times) < len(texts):  # a Paraformer has none: those of the steps
            start = ((held.steps or 1) - 1) * self.chunk_samples / SAMPLE_RATE
            held.times += [start] * (len(texts) - len(held.times))
            times = held.times
        scores = result.ys_probs or [None] * len(texts)
        return tuple(map(Token, texts, times, scores))
