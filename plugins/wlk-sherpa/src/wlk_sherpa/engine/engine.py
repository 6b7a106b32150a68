"""The engine: calls that can be repeated, on streams of sherpa-onnx, which change in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DecodeAnswer", "DecodeRequest", "HeldStream", "SherpaEngine", "Token", "cut_answer"]

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
    fed_samples: int = 0
    times: list[float] = attrs.field(factory=list)  # of tokens, where the model has none


@attrs.frozen(kw_only=True, eq=False)
class DecodeRequest:
    """
    The next steps of a segment.

    Attributes:
        audio: float32[n], the segment from its first sample to the last that the steps need.
        steps: decoded so far.
        count: to decode now, one or more.
        held: the stream that the last answer came with.  Where it is not in the state after
            `steps`, because a call failed, the segment is decoded again from its start.
        hotwords: those of the stream, in the form of sherpa-onnx.

    """

    audio: NDArray[np.float32]
    steps: int
    count: int
    held: HeldStream | None
    hotwords: str | None


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

    A step moves on by `chunk_samples` and sees `lookahead_samples` more.  Both are found by trying,
    because each type of model has other names for them.

    Args:
        recognizer: a sherpa_onnx.OnlineRecognizer.

    Raises:
        ValueError: the recognizer is not a streaming one.

    """

    def __init__(self, recognizer: Any) -> None:
        self.recognizer = recognizer
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

    def samples_of(self, steps: int) -> int:
        """Return the samples of a segment that its first *steps* need."""
        return steps * self.chunk_samples + self.lookahead_samples

    def decode_batch(self, requests: Sequence[DecodeRequest]) -> list[DecodeAnswer]:
        """
        Decode the next steps of several segments, those of different streams in common runs.

        If it raises, every request can be made again: what changed is decoded again from its audio.
        """
        replayed = [self._replayed(request) for request in requests]
        results: list[list[tuple[Token, ...]]] = [[] for _ in requests]
        for step in range(max(request.count for request in requests)):
            running = [index for index, each in enumerate(requests) if step < each.count]
            self._advance([(replayed[index][0], requests[index].audio) for index in running])
            for index in running:
                results[index].append(self._tokens(replayed[index][0]))
        # As many frames as a run is given, some of them again: sherpa-onnx waits for two more.
        frames = self.samples_of(1) // FRAME_SAMPLES - 2
        return [
            DecodeAnswer(
                results=tuple(tokens),
                held=held,
                work=WorkCounters(encoder_frames=frames * (request.count + again)),
            )
            for request, (held, again), tokens in zip(requests, replayed, results, strict=True)
        ]

    def _replayed(self, request: DecodeRequest) -> tuple[HeldStream, int]:
        """Return a stream in the state after `request.steps`, and the steps that were repeated."""
        if request.held is not None and request.held.steps == request.steps:
            return request.held, 0
        hotwords = request.hotwords
        create = self.recognizer.create_stream
        held = HeldStream(create(hotwords) if hotwords else create())
        for _ in range(request.steps):
            self._advance([(held, request.audio)])
            self._tokens(held)
        return held, request.steps

    def _advance(self, streams: Sequence[tuple[HeldStream, NDArray[np.float32]]]) -> None:
        """Run the next step of all *streams* together."""
        stops = [(held.steps or 0) + 1 for held, _ in streams]
        for (held, audio), steps in zip(streams, stops, strict=True):
            held.steps = None
            stop = self.samples_of(steps)
            held.stream.accept_waveform(SAMPLE_RATE, audio[held.fed_samples : stop])
            held.fed_samples = stop
            if not self.recognizer.is_ready(held.stream):  # else the library ends the process
                raise RuntimeError(f"step {steps} is not ready after {stop} samples")
        self.recognizer.decode_streams([held.stream for held, _ in streams])
        for (held, _), steps in zip(streams, stops, strict=True):
            held.steps = steps

    def _tokens(self, held: HeldStream) -> tuple[Token, ...]:
        result = self.recognizer.get_result_all(held.stream)
        texts, times = result.tokens, result.timestamps
        if len(times) < len(texts):  # a Paraformer has none: those of the steps
            start = ((held.steps or 1) - 1) * self.chunk_samples / SAMPLE_RATE
            held.times += [start] * (len(texts) - len(held.times))
            times = held.times
        scores = result.ys_probs or [None] * len(texts)
        return tuple(map(Token, texts, times, scores))
