"""Diarize one stream with a Sortformer: feed it chunks, turn its probabilities into spans."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, SpeakerSpan, WorkCounters
from wlk_frameworks.features import true_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

HOP = 160  # samples from one frame to the next: 10 ms
FFT = 512  # samples from which a frame is computed, centred on its time
STACKED = 8  # frames that the encoder stacks into one

#: Stacked frames per chunk, and stacked frames of look-ahead.  The first two are modes of the
#: published model, 0.32 and 1.04 s; it accepts any chunk up to 27 s, and longer ones cost less.
LATENCIES = {"ultra-low": (3, 1), "low": (9, 4), "medium": (32, 4), "high": (128, 4)}
_GAP = 30  # longest silence within a turn, in frames: 0.3 s
_SHORTEST = 10  # shortest turn to return, in frames: 0.1 s


class Network(Protocol):
    """The network that the diarizer needs; streams share it and call it from any thread."""

    def score(self, audio: Floats, state: Any, look_ahead: int) -> tuple[Floats, Any, int]:
        """
        Return the probabilities, float32[frames, speakers], the next state, and the frames encoded.

        The audio begins half an FFT before its first frame, and ends half an FFT after the last of
        `look_ahead` stacked frames, which are not scored.  If `look_ahead` is 0, a pause follows.
        The state is None at first; a state must not be passed twice.
        """
        ...


@attrs.define
class _Turn:
    """The frames of a speaker between two long gaps; those before `returned` were returned."""

    begin: int
    returned: int
    end: int = 0


class SortformerDiarizer:
    """
    Diarize up to eight speakers, numbered in order of appearance, with a single network.

    The network sees a cache of the speakers' clearest frames, the last 21 s, the chunk and its
    look-ahead, and permanently assigns an output to each speaker (Medennikov et al., "Streaming
    Sortformer: Speaker Cache-Based Online Speaker Diarization with Arrival-Time Ordering", 2025).
    Its chunks lie on a fixed sample grid, however audio is inserted; a pause decides all before it.
    """

    def __init__(self, network: Network, *, latency: str, threshold: float) -> None:
        chunk, self._look_ahead = LATENCIES[latency]
        # From the centre of the chunk's first frame to the end of its last frame of look-ahead.
        self._samples = ((chunk + self._look_ahead) * STACKED - 1) * HOP + FFT // 2
        self.max_delay = self._samples / SAMPLE_RATE
        self._network = network
        self._threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        self._queue: deque[Floats | float] = deque()  # audio, and seconds of pauses
        self._state: Any = None
        self._numbers: dict[int, int] = {}  # speaker numbers by output, in order of their spans
        self._frames = 0  # see `stats`
        self._pauses = 0.0  # seconds of pauses so far
        self._begin_section(0)

    def _begin_section(self, first: int) -> None:
        """Begin at sample *first*, after a pause; `_received` and `_scored` count from there."""
        self._first = first
        self._received = self._scored = 0  # samples and frames
        self._audio: Floats = np.zeros(FFT // 2, dtype=np.float32)  # to score, preceded by zeros
        self._turns: dict[int, _Turn] = {}

    def close(self) -> None:
        """Release the audio and the network's state; may be called again."""
        self.reset()

    @property
    def stats(self) -> WorkCounters:
        """The frames given to the network, including those of its cache."""
        return WorkCounters(encoder_frames=self._frames)

    def insert_audio_chunk(self, audio: Floats) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        self._queue.append(audio.copy())

    def insert_silence(self, seconds: float) -> None:
        """Advance the clock by a pause, whose audio is left out."""
        self._queue.append(float(seconds))

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as Diarizer
        """Return the spans decided since the last call; with `is_last`, decide on all audio."""
        spans: list[SpeakerSpan] = []
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, float):
                spans += self._finish()
                self._pauses += item
                continue
            while len(item):
                due = self._scored * HOP + self._samples
                part, item = np.split(item, [due - self._received])
                self._audio = np.concatenate((self._audio, part))
                self._received += len(part)
                if self._received == due:
                    spans += self._score(self._look_ahead)
        return spans + self._finish() if is_last else spans

    def _finish(self) -> list[SpeakerSpan]:
        """Decide on all audio received, and begin a new section."""
        spans = self._score(0) if self._received // HOP > self._scored else []
        self._begin_section(self._first + self._received)
        return spans

    def _score(self, look_ahead: int) -> list[SpeakerSpan]:
        """Return the spans of the next chunk."""
        first = self._scored
        probabilities, self._state, frames = self._network.score(
            self._audio, self._state, look_ahead
        )
        self._frames += frames
        self._scored += len(probabilities)
        self._audio = self._audio[self._scored * HOP - FFT // 2 - self._received :]
        runs = []
        for output, scores in enumerate(probabilities.T):
            for run_begin, run_end in true_runs(scores > self._threshold):
                begin, end = first + run_begin, first + run_end
                turn = self._turns.get(output)
                if turn is None or begin - turn.end > _GAP:
                    turn = self._turns[output] = _Turn(begin, returned=begin)
                turn.end = end
                if end - turn.begin >= _SHORTEST:
                    runs.append((turn.returned, end, output))
                    turn.returned = end
        offset = self._first / SAMPLE_RATE + self._pauses
        return [
            SpeakerSpan(
                self._numbers.setdefault(output, len(self._numbers)),
                offset + begin * HOP / SAMPLE_RATE,
                offset + end * HOP / SAMPLE_RATE,
            )
            for begin, end, output in sorted(runs)
        ]
