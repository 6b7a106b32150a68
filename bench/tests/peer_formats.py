"""Event logs in the formats of OmniSTEval and simulstream, to be scored by them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wlk_bench.events import FLUSHES, AudioIn, Call
from wlk_bench.metrics.emitted import committed_words, common_prefix, screens
from wlk_bench.metrics.normalise import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wlk_bench.events import EventLog

__all__ = ["omnisteval", "simulstream"]

_MILLI = 1000.0


def omnisteval(logs: Sequence[EventLog], folder: Path) -> tuple[Path, ...]:
    """
    Write hypothesis.jsonl, segments.json and references.txt for OmniSTEval's long form.

    Score them with ``omnisteval longform --speech_segmentation segments.json --ref_sentences_file
    references.txt --hypothesis_file hypothesis.jsonl``.  Delays are of committed words, in
    milliseconds; "elapsed" includes work and waiting.
    """
    lines = []
    for log in logs:
        words = committed_words(log, unit_of(log.header.language))
        lines.append(
            {
                "source": f"{log.header.audio}.wav",
                "prediction": " ".join(word.text for word in words),
                "delays": [_MILLI * word.audio_time for word in words],
                "elapsed": [_MILLI * word.wall for word in words],
                "source_length": _MILLI * log.header.audio_seconds,
            }
        )
    return (
        _write(folder / "hypothesis.jsonl", map(_dumped, lines)),
        _write(folder / "segments.json", [_dumped(list(_segments(logs)))]),
        _write(folder / "references.txt", _references(logs)),
    )


def simulstream(
    logs: Sequence[EventLog], folder: Path, *, is_displayed: bool = True
) -> tuple[Path, ...]:
    """
    Write log.jsonl, config.yaml, segments.yaml and references.txt for simulstream's scorers.

    The log has the text on the screen, hypothesis included, so that text taken back is counted;
    without `is_displayed` it has committed text alone.  The computation-aware delays of simulstream
    leave out the waiting for earlier work.
    """
    lines: list[dict[str, Any]] = []
    for number, log in enumerate(logs):
        lines.append({"id": number, "metadata": {"wav_name": f"{log.header.audio}.wav"}})
        steps = _displayed_steps(log) if is_displayed else _committed_steps(log)
        lines += [{"id": number, **step} for step in steps]
    config = {"detokenizer_type": "simuleval", "latency_unit": "word"}
    return (
        _write(folder / "log.jsonl", map(_dumped, lines)),
        _write(folder / "config.yaml", [_dumped(config)]),  # JSON is YAML
        _write(folder / "segments.yaml", [_dumped(list(_segments(logs)))]),
        _write(folder / "references.txt", _references(logs)),
    )


def _displayed_steps(log: EventLog) -> Iterator[dict[str, Any]]:
    changes: dict[int, tuple[list[str], list[str]]] = {}
    starts = _step_walls(log)
    shown: list[str] = []
    for screen in screens(log):
        before, after = shown[screen.base :], list(screen.texts)
        kept = common_prefix(before, after)
        changes[_step_of(screen.wall, starts)] = (before[kept:], after[kept:])
        shown[screen.base :] = after
    return _steps(log, changes)


def _committed_steps(log: EventLog) -> Iterator[dict[str, Any]]:
    changes: dict[int, tuple[list[str], list[str]]] = {}
    starts = _step_walls(log)
    for word in committed_words(log):
        changes.setdefault(_step_of(word.wall, starts), ([], []))[1].append(word.text)
    return _steps(log, changes)


def _steps(
    log: EventLog, changes: dict[int, tuple[list[str], list[str]]]
) -> Iterator[dict[str, Any]]:
    """Yield a line for each chunk and each flush."""
    steps: list[dict[str, Any]] = []
    for event in log.events:
        if isinstance(event, AudioIn) or (isinstance(event, Call) and event.kind in FLUSHES):
            deleted, generated = changes.get(len(steps), ([], []))
            steps.append(
                {
                    "total_audio_processed": event.audio_time,
                    "computation_time": 0.0,
                    "generated_tokens": generated,
                    "deleted_tokens": deleted,
                }
            )
        if isinstance(event, Call) and steps:
            steps[-1]["computation_time"] += event.duration
    return iter(steps)


def _step_walls(log: EventLog) -> list[float]:
    """Return the time at which each chunk or flush began."""
    return [
        event.wall
        for event in log.events
        if isinstance(event, AudioIn) or (isinstance(event, Call) and event.kind in FLUSHES)
    ]


def _step_of(wall: float, starts: list[float]) -> int:
    """Return the last step that began before *wall*."""
    return max(0, sum(start < wall for start in starts) - 1)


def _segments(logs: Sequence[EventLog]) -> Iterator[dict[str, Any]]:
    for log in logs:
        for segment in log.header.reference.segments_within(log.header.audio_seconds):
            yield {
                "wav": f"{log.header.audio}.wav",
                "offset": segment.start,
                "duration": segment.seconds,
            }


def _references(logs: Sequence[EventLog]) -> Iterator[str]:
    for log in logs:
        for segment in log.header.reference.segments_within(log.header.audio_seconds):
            yield " ".join(segment.text.split())


def _dumped(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _write(path: Path, lines: Any) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
