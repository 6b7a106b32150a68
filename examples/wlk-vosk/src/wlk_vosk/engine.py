"""Decode audio with Vosk, whose state changes in place, in calls that can be repeated."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import vosk  # type: ignore[import-untyped]  # it has no type hints

from wlk_core.plugins import SAMPLE_RATE, Word, WorkCounters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

BLOCK_SAMPLES = SAMPLE_RATE // 5  # Vosk decodes 0.2 s at a time, however much it is given
FRAME_SAMPLES = SAMPLE_RATE // 100  # from one feature frame to the next
MAX_IDLE = 4  # recognizers kept for later segments, of up to 35 MB each
# Vosk adds up the audio of a recognizer in a float32, which is exact to 0.1 ms for ten minutes.
MAX_SAMPLES = 600 * SAMPLE_RATE


@attrs.define(eq=False)
class Segment:
    """
    The state of a segment: a recognizer of Vosk.

    Attributes:
        recognizer: a vosk.KaldiRecognizer.
        phrases: what it recognises, None for the whole vocabulary.
        start: the samples that it decoded before this segment.
        samples: the samples of the segment that it has decoded.
        blocks: how many blocks those are; None while one is decoded, and if that failed.

    """

    recognizer: vosk.KaldiRecognizer
    phrases: tuple[str, ...] | None
    start: int = 0
    samples: int = 0
    blocks: int | None = 0


@attrs.frozen(kw_only=True, eq=False)
class Request:
    """
    The next block of a segment.

    Attributes:
        block: float32[n], of BLOCK_SAMPLES unless it is the last.
        history: all earlier blocks.
        segment: the segment of the last answer; None at its start.  If a failed call left it in a
            state other than that after `history`, the history is decoded again.
        phrases: the only phrases to recognise; None for the whole vocabulary.
        is_last: whether the segment ends with this block.

    """

    block: NDArray[np.float32]
    history: Sequence[NDArray[np.float32]] = ()
    segment: Segment | None = None
    phrases: tuple[str, ...] | None = None
    is_last: bool = False


@attrs.frozen(kw_only=True, eq=False)
class Answer:
    """
    What was recognised in the segment so far.

    Attributes:
        words: with times in seconds from the start of the segment.
        is_final: whether the segment has ended, because Vosk found its end or the request said so.
        segment: to pass in the next request, and to `release`.

    """

    words: tuple[Word, ...]
    is_final: bool
    segment: Segment
    work: WorkCounters


def cut_answer(answer: Answer, share: float) -> Answer:
    """Return *answer* with only the first *share* of its words."""
    return attrs.evolve(answer, words=answer.words[: int(share * len(answer.words))])


class VoskEngine:
    """A loaded model that any number of streams share; it stores nothing about a stream."""

    def __init__(self, model: vosk.Model) -> None:
        self._model = model
        # A recognizer of the whole vocabulary expands its graph while it decodes: a new one takes
        # two seconds longer for its first words than one that was used before.
        self._idle: list[Segment] = []
        self._lock = threading.Lock()  # guards `_idle`
        self.release(self._new_segment(None))  # raises for a damaged graph, which loading does not

    def unknown(self, phrases: Iterable[str]) -> list[str]:
        """Return the words of *phrases* that are not in the vocabulary."""
        words = dict.fromkeys(word for phrase in phrases for word in phrase.split())
        return [word for word in words if self._model.vosk_model_find_word(word) < 0]

    def decode(self, request: Request) -> Answer:
        """Decode the next block; a call that failed can be repeated."""
        segment, blocks = request.segment, [request.block]
        if segment is None or segment.blocks != len(request.history):
            segment, blocks = self._new_segment(request.phrases), [*request.history, request.block]
        segment.blocks = None
        for block in blocks:
            is_final = _accept(segment, block) or request.is_last
        recognizer = segment.recognizer
        result = json.loads(recognizer.FinalResult() if is_final else recognizer.PartialResult())
        words = _words(result.get("result" if is_final else "partial_result", ()), segment)
        segment.blocks = len(request.history) + 1
        work = WorkCounters(encoder_frames=sum(map(len, blocks)) // FRAME_SAMPLES)
        return Answer(words=words, is_final=is_final, segment=segment, work=work)

    def release(self, segment: Segment) -> None:
        """Keep the recognizer of a segment that is not needed any more, unless it failed."""
        if segment.blocks is not None and segment.start + segment.samples < MAX_SAMPLES:
            with self._lock:
                self._idle = [*self._idle, segment][-MAX_IDLE:]

    def _new_segment(self, phrases: tuple[str, ...] | None) -> Segment:
        with self._lock:
            # The one used last has expanded most of its graph.
            idle = next((each for each in reversed(self._idle) if each.phrases == phrases), None)
            if idle is not None:
                self._idle.remove(idle)
        if idle is not None:
            idle.recognizer.FinalResult()  # after which it begins like a new one
            return Segment(idle.recognizer, phrases, start=idle.start + idle.samples)
        grammar = [] if phrases is None else [json.dumps(phrases, ensure_ascii=False)]
        recognizer = vosk.KaldiRecognizer(self._model, SAMPLE_RATE, *grammar)
        recognizer.SetWords(True)
        recognizer.SetPartialWords(True)
        return Segment(recognizer, phrases)


def _accept(segment: Segment, block: NDArray[np.float32]) -> bool:
    """Decode *block*, and return whether Vosk found the end of the segment."""
    segment.samples += len(block)
    samples = (np.clip(block, -1.0, 1.0) * 32767).astype("<i2")
    return len(block) > 0 and bool(segment.recognizer.AcceptWaveform(samples.tobytes()))


def _words(items: Iterable[dict[str, Any]], segment: Segment) -> tuple[Word, ...]:
    """Return words as Vosk describes them, with times from the start of the segment."""
    start = float(np.float32(segment.start) / np.float32(SAMPLE_RATE))  # as Vosk computes it
    length = segment.samples / SAMPLE_RATE

    def seconds(time: float) -> float:
        return min(max(0.0, round(time - start, 3)), length)

    return tuple(
        Word(
            seconds(item["start"]), seconds(item["end"]), f" {item['word']}", min(1.0, item["conf"])
        )
        for item in items
    )
