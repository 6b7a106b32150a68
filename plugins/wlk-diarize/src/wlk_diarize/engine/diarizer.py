"""Diarize one stream by segmentation of overlapping windows and clustering of embeddings."""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, SpeakerSpan, WorkCounters
from wlk_diarize.engine.networks import FRAME_SAMPLES, LOCAL_SPEAKERS, MIN_SAMPLES
from wlk_diarize.engine.speakers import Speakers
from wlk_frameworks.features import true_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_diarize.engine.networks import Networks
    from wlk_diarize.engine.speakers import Voice

_WINDOW = 592  # frames that the segmentation sees: 10 s, on which segmentation-3.0 was trained
_HOP = 60  # frames from one decision to the next: 1.01 s
_LOOKAHEAD = 90  # frames of audio needed after a frame to decide on it: 1.52 s
_EVIDENCE = 90  # least frames of a turn to embed, if it has as many: 1.5 s
_DOUBT = 30  # frames by which the evidence of the segmentation is discounted: 0.5 s
_GAP = 18  # longest silence within a turn, in frames: 0.3 s
_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)


class ClusteringDiarizer:
    """
    Diarize by segmentation within 10 s, and by speaker embeddings from window to window.

    Every second, the segmentation distinguishes up to three speakers in the last ten seconds.  Each
    turn of such a speaker is embedded and assigned to the most similar speaker of the stream, or to
    a new one (after Coria et al., "Overlap-aware low-latency online speaker diarization based on
    end-to-end local segmentation", 2021).  Spans never change once returned.  Decisions are made on
    a fixed sample grid, so chunk sizes make no difference; a pause decides all audio before it.

    The state is ten seconds of audio with their labels, and a mean embedding for each speaker.
    Speakers enrolled as `voices` have names; up to `max_speakers` others are numbered.
    """

    def __init__(
        self, networks: Networks, *, max_speakers: int, voices: tuple[Voice, ...] = ()
    ) -> None:
        self._networks = networks
        self._voices = voices
        self._max_speakers = max_speakers + len(voices)
        self.reset()

    def reset(self) -> None:
        """Return to the state of a new diarizer."""
        self._speakers = Speakers(self._max_speakers, self._voices)
        self._queue: deque[NDArray[np.float32] | float] = deque()  # audio, and seconds of pauses
        self._audio = _NO_AUDIO  # the latest audio, up to sample `_received`
        self._received = 0  # samples taken from the queue, without pauses
        self._due = _HOP * FRAME_SAMPLES  # the value of `_received` at the next decision
        self._pauses = 0.0  # seconds of pauses so far
        self._decided = 0  # frames
        # The labels of the `_WINDOW` frames before `_decided`, as they were returned.
        self._past = np.zeros((_WINDOW, self._max_speakers), dtype=np.bool_)
        self._ends: dict[int, int] = {}  # frame where each speaker stopped, since the last pause
        self._frames = 0  # see `stats`

    def close(self) -> None:
        """Release the audio and the speakers; may be called again."""
        self.reset()

    @property
    def max_delay(self) -> float:
        """The most seconds from the end of a span until it is returned: a hop and the lookahead."""
        return (_HOP + _LOOKAHEAD) * FRAME_SAMPLES / SAMPLE_RATE

    @property
    def stats(self) -> WorkCounters:
        """The audio given to both networks, in frames of 10 ms."""
        return WorkCounters(encoder_frames=self._frames)

    def insert_audio_chunk(self, audio: NDArray[np.float32]) -> None:
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
                spans += self._decide(lookahead=0)
                self._pauses += item
                self._ends.clear()
                continue
            while len(item):
                part, item = np.split(item, [self._due - self._received])
                self._audio = np.concatenate((self._audio, part))[-_WINDOW * FRAME_SAMPLES :]
                self._received += len(part)
                if self._received == self._due:
                    spans += self._decide(lookahead=_LOOKAHEAD)
        if is_last:
            spans += self._decide(lookahead=0)
        return spans

    def _decide(self, *, lookahead: int) -> list[SpeakerSpan]:
        """Decide on the audio received, up to `lookahead` frames before its end."""
        self._due = self._received + _HOP * FRAME_SAMPLES
        end = round(self._received / FRAME_SAMPLES)
        first, until = self._decided, end - lookahead
        if until <= first:
            return []
        self._decided = until
        if len(self._audio) < MIN_SAMPLES:
            return []
        count = len(self._audio) // FRAME_SAMPLES
        audio = self._audio[-count * FRAME_SAMPLES :]
        start = end - count  # frame at which the window begins
        # Frames of the window that are decided here; those before have their labels.
        window_first, window_end = max(0, first - start), until - start
        labels = np.zeros((count, self._max_speakers), dtype=np.bool_)
        labels[:window_first] = self._past[_WINDOW - window_first :]
        window = _Window(
            frames=audio.reshape(count, FRAME_SAMPLES),
            active=self._networks.segment(audio),
            labels=labels,
            decided=window_first,
        )
        self._count(len(audio))
        for turn in _turns(window.active):
            if turn.begin < window_end and turn.end > window_first:
                speaker = self._speaker_of(turn, window)
                if speaker is not None:
                    begin, end_of_turn = max(turn.begin, window_first), min(turn.end, window_end)
                    labels[begin:end_of_turn, speaker] = True
        decided = labels[window_first:window_end]
        self._past = np.concatenate((self._past, decided))[-_WINDOW:]
        return [
            span
            for speaker in range(len(self._speakers))
            for span in self._spans(speaker, decided[:, speaker], first)
        ]

    def _speaker_of(self, turn: _Turn, window: _Window) -> int | None:
        """Return the speaker of a turn, None if it is too short to tell."""
        links = window.links(turn.local, len(self._speakers))
        audio = window.speech_of(turn)
        if len(audio) < MIN_SAMPLES:
            return int(links.argmax()) if len(links) and links.max() > 0 else None
        self._count(len(audio))
        return self._speakers.assign(self._networks.embed(audio), len(audio) / SAMPLE_RATE, links)

    def _spans(self, speaker: int, active: NDArray[np.bool_], first: int) -> Iterator[SpeakerSpan]:
        """
        Yield the spans of a speaker in the frames from `first` on.

        If the speaker continues after a short gap, the gap becomes part of the span.
        """
        for run_begin, run_end in true_runs(active):
            start, end = first + run_begin, first + run_end
            if start - self._ends.get(speaker, -_WINDOW) <= _GAP:
                start = max(first, self._ends[speaker])  # spans before `first` are never changed
            self._ends[speaker] = end
            samples = min(end * FRAME_SAMPLES, self._received)
            enrolled = len(self._voices)
            yield SpeakerSpan(
                self._voices[speaker].name if speaker < enrolled else speaker - enrolled,
                start * FRAME_SAMPLES / SAMPLE_RATE + self._pauses,
                samples / SAMPLE_RATE + self._pauses,
            )

    def _count(self, samples: int) -> None:
        self._frames += samples * 100 // SAMPLE_RATE


class _Turn(NamedTuple):
    """A local speaker of a window from frame `begin` up to, not including, `end`."""

    local: int
    begin: int
    end: int


@attrs.frozen(kw_only=True, eq=False)
class _Window:
    """The frames of a window; those before `decided` already have their labels."""

    frames: NDArray[np.float32]  #: float32[n, FRAME_SAMPLES]
    active: NDArray[np.bool_]  #: bool[n, LOCAL_SPEAKERS], the output of the segmentation
    labels: NDArray[np.bool_]  #: bool[n, max_speakers], filled turn by turn
    decided: int

    def speech_of(self, turn: _Turn) -> NDArray[np.float32]:
        """
        Return the undecided audio of *turn* in which nobody else speaks, and some audio before it.

        Only as much decided audio is added as an embedding needs, so that a change of speaker that
        the segmentation missed is still noticed.
        """
        alone = self.active[:, turn.local] & (self.active.sum(axis=1) == 1)
        chosen = turn.begin + np.flatnonzero(alone[turn.begin : turn.end])
        undecided = int((chosen >= self.decided).sum())
        audio: NDArray[np.float32] = self.frames[chosen[-max(undecided, _EVIDENCE) :]].ravel()
        return audio

    def links(self, local: int, speakers: int) -> NDArray[np.float64]:
        """Return the evidence of the segmentation for each speaker; see `Speakers.assign`."""
        labels = self.labels[:, :speakers].astype(np.int64)
        same = labels.T @ self.active[:, local]
        others = labels.T @ (self.active.any(axis=1) & ~self.active[:, local])
        links: NDArray[np.float64] = (same - others) / (same + others + _DOUBT)
        return links


def _turns(active: NDArray[np.bool_]) -> list[_Turn]:
    """Return the turns in a window, ordered by their begin, with short gaps closed."""
    turns = []
    for local in range(LOCAL_SPEAKERS):
        joined: list[_Turn] = []
        for begin, end in true_runs(active[:, local]):
            if joined and begin - joined[-1].end <= _GAP:
                joined[-1] = joined[-1]._replace(end=end)
            else:
                joined.append(_Turn(local, begin, end))
        turns += joined
    return sorted(turns, key=attrgetter("begin"))
