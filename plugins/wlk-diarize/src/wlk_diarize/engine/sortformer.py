"""Who speaks when in one stream: chunks for a Sortformer, and spans from its probabilities."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, SpeakerSpan, WorkCounters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

HOP = 160  # samples from a frame to the next: 10 ms
FFT = 512  # samples that a frame is computed from, its time in their middle
STACKED = 8  # frames that the encoder takes as one

#: Stacked frames that a chunk decides on, and those after it that it sees.  Two are modes of the
#: published model, 0.32 and 1.04 s; it takes any chunk up to 27 s, and long ones cost less.
LATENCIES = {"ultra-low": (3, 1), "low": (9, 4), "medium": (32, 4), "high": (128, 4)}
_GAP = 30  # frames of quiet that belong to a turn: 0.3 s
_SHORTEST = 10  # frames of a turn that is returned: 0.1 s


class Network(Protocol):
    """What the diarizer asks of its network, which streams share and call from any thread."""

    def score(self, audio: Floats, state: Any, look_ahead: int) -> tuple[Floats, Any, int]:
        """
        Return the probabilities, float32[frames, speakers], the next state, and the frames encoded.

        The audio begins half an FFT before its first frame, and ends half an FFT after the last of
        the `look_ahead` stacked frames that are not scored; without any it ends before a pause.
        The state, None at first, is used up.
        """
        ...


@attrs.define
class _Turn:
    """Frames of a speaker with short gaps between them; those up to `returned` were returned."""

    begin: int
    returned: int
    end: int = 0


class SortformerDiarizer:
    """
    Up to eight speakers in the order of their arrival, kept apart by a network alone.

    It sees a cache of the speakers' clearest frames, the last 21 s, the chunk and the look-ahead,
    and gives each speaker an output for good (Medennikov et al., "Streaming Sortformer: Speaker
    Cache-Based Online Speaker Diarization with Arrival-Time Ordering", 2025).  Chunks fall on a
    grid of samples, so that the cut of the audio changes nothing; a pause decides all before it.
    """

    def __init__(self, network: Network, *, latency: str, threshold: float) -> None:
        chunk, self._look_ahead = LATENCIES[latency]
        # From the time of a chunk's first frame to the end of the last that is computed for it.
        self._samples = ((chunk + self._look_ahead) * STACKED - 1) * HOP + FFT // 2
        self.max_delay = self._samples / SAMPLE_RATE
        self._network = network
        self._threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new one."""
        self._queue: deque[Floats | float] = deque()  # audio, and seconds of pauses
        self._state: Any = None
        self._numbers: dict[int, int] = {}  # of the network's outputs, in the order of their spans
        self._frames = 0
        self._pauses = 0.0  # seconds of pauses so far
        self._begin(before=0)

    def _begin(self, before: int) -> None:
        """Begin anew after *before* samples of audio and a pause."""
        self._before = before
        self._received = self._scored = 0  # samples and frames since then
        self._audio: Floats = np.zeros(FFT // 2, dtype=np.float32)  # the latest, zeros before all
        self._turns: dict[int, _Turn] = {}

    def close(self) -> None:
        """Release everything; may be called again."""
        self.reset()

    @property
    def stats(self) -> WorkCounters:
        """The frames given to the network, those of its cache included."""
        return WorkCounters(encoder_frames=self._frames)

    def insert_audio_chunk(self, audio: Floats) -> None:
        """Append float32[n] at 16 kHz, n >= 1; runs no model."""
        self._queue.append(audio.copy())

    def insert_silence(self, seconds: float) -> None:
        """Advance the clock over a pause whose audio is left out."""
        self._queue.append(float(seconds))

    def process_iter(self, is_last: bool = False) -> list[SpeakerSpan]:  # noqa: FBT001, FBT002 -- as Diarizer
        """Return the spans that are certain by now, all with `is_last`; each span once."""
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
        """Decide on all audio received, and begin anew."""
        spans = self._score(0) if self._received // HOP > self._scored else []
        self._begin(self._before + self._received)
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
        found = []
        for output, scores in enumerate(probabilities.T):
            edges = np.flatnonzero(np.diff(scores > self._threshold, prepend=False, append=False))
            for begin, end in (first + edges).reshape(-1, 2).tolist():
                turn = self._turns.get(output)
                if turn is None or begin - turn.end > _GAP:
                    turn = self._turns[output] = _Turn(begin, returned=begin)
                turn.end = end
                if end - turn.begin >= _SHORTEST:
                    found.append((turn.returned, end, output))
                    turn.returned = end
        offset = self._before / SAMPLE_RATE + self._pauses
        return [
            SpeakerSpan(
                self._numbers.setdefault(output, len(self._numbers)),
                offset + begin * HOP / SAMPLE_RATE,
                offset + end * HOP / SAMPLE_RATE,
            )
            for begin, end, output in sorted(found)
        ]
