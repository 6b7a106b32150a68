"""Record and score every stream of a data set: one log per stream, resumable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
import hashlib
import json
import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

from wlk_bench.environment import describe_platform
from wlk_bench.errors import ResultError
from wlk_bench.events import EventLog, Header, read_log, write_log
from wlk_bench.metrics.error_rate import ErrorCounts
from wlk_bench.recorder import Clock, record_stream
from wlk_bench.results import build_result
from wlk_bench.scoring import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wlk_bench.config import RunConfig
    from wlk_bench.data import Dataset, Sample
    from wlk_bench.scoring import SampleScore
    from wlk_core.backend import Backend


def run_benchmark(
    dataset: Dataset,
    config: RunConfig,
    open_backend: Callable[[], Backend],
    output: Path,
    *,
    observe: Callable[[str], None] = lambda _line: None,
    timer: Callable[[], float] = perf_counter,
) -> dict[str, Any]:
    """
    Measure *dataset* and return the result, which is also written to *output*.

    `logs/` gets one event log per stream and `result.json` the figures.  Streams with a complete
    log are not recorded again, so an interrupted run can be continued; the backend is opened only
    if some remain.  *observe* gets a line with the progress and the figures so far.
    With time.process_time as *timer*, other load on the machine does not change the figures.

    Raises:
        ResultError: *output* contains a run with another setup.
        BackendError: a stream failed permanently; the logs of finished streams are kept.

    """
    (output / "logs").mkdir(parents=True, exist_ok=True)
    _claim(output, config)
    paths = {sample.id: _log_path(output, sample) for sample in dataset.samples}
    scores: dict[str, SampleScore] = {}

    def keep(log: EventLog) -> None:
        scored = score(log, normaliser_name=config.normaliser)
        scores[scored.id] = scored
        wer = ErrorCounts.total(each.words for each in scores.values()).rate
        percent = "-" if wer is None else f"{100 * wer:.2f} %"
        busy = sum(each.busy_seconds for each in scores.values())
        audio_seconds = sum(each.audio_seconds for each in scores.values())
        rtf = busy / audio_seconds if audio_seconds else 0.0
        observe(f"{len(scores)}/{len(paths)}  WER {percent}  RTF {rtf:.3f}  {scored.id}")

    for path in paths.values():
        if path.exists():
            keep(read_log(path))
    remaining = [sample for sample in dataset.samples if sample.id not in scores]
    session = None
    stated = output / "engine.json"
    if remaining:
        began = perf_counter()
        with open_backend() as backend:
            backend.warmup()
            loaded = perf_counter()
            stated.write_text(json.dumps(_engine_facts(backend)) + "\n", encoding="utf-8")
            for log in _recorded(backend, remaining, config, timer):
                write_log(paths[log.header.audio], log)
                keep(log)
        elapsed = perf_counter() - loaded
        audio_seconds = sum(sample.seconds for sample in remaining)
        session = {
            "load_seconds": loaded - began,
            "streams": config.streams,
            "samples": len(remaining),
            "audio_seconds": audio_seconds,
            "elapsed_seconds": elapsed,
            "audio_per_second": audio_seconds / elapsed if elapsed > 0 else None,
        }
    ordered = [scores[sample.id] for sample in dataset.samples]
    result = build_result(
        config,
        ordered,
        session=session,
        engine=_read_json(stated, "the facts of an engine") if stated.exists() else None,
        missing=dataset.missing,
    )
    text = json.dumps(result, ensure_ascii=False) + "\n"
    (output / "result.json").write_text(text, encoding="utf-8")
    return result


def _claim(output: Path, config: RunConfig) -> None:
    """Claim *output* for this configuration; raise ResultError if it belongs to another."""
    path = output / "setup.json"
    current = json.loads(json.dumps(config.to_json()))
    if not path.exists():
        path.write_text(json.dumps(current, indent=2) + "\n", encoding="utf-8")
        return
    earlier = _read_json(path, "a setup")
    for key in sorted(current.keys() | earlier.keys()):
        if current.get(key) != earlier.get(key):
            raise ResultError(
                f"expected a run of the same setup in {output}, got {key} "
                f"{earlier.get(key)!r} there and {current.get(key)!r} here; choose another --output"
            )


def _engine_facts(backend: Backend) -> dict[str, Any]:
    """Return `engine.facts`, which an engine may have: plain values that its options imply."""
    return dict(getattr(getattr(backend, "engine", None), "facts", {}))


def _read_json(path: Path, expected: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultError(
            f"expected {expected} in {path}, got invalid JSON ({error}); choose another --output"
        ) from error
    return table


def _log_path(output: Path, sample: Sample) -> Path:
    safe = re.sub(r"[^\w.-]", "_", sample.id)
    if safe != sample.id or len(safe) > 100:  # noqa: PLR2004 -- a file name has at most 255 bytes
        safe = f"{safe[:80]}-{hashlib.sha256(sample.id.encode()).hexdigest()[:12]}"
    return output / "logs" / f"{safe}.jsonl"


def _recorded(
    backend: Backend, samples: list[Sample], config: RunConfig, timer: Callable[[], float]
) -> Iterator[EventLog]:
    """Yield logs as streams end; `config.streams` of them run concurrently, each on a thread."""
    if config.streams == 1:  # in this thread, whose processor time *timer* may measure
        for sample in samples:
            yield _record(backend, sample, config, timer)
        return
    with ThreadPoolExecutor(config.streams) as threads:
        running = [threads.submit(_record, backend, sample, config, timer) for sample in samples]
        try:
            for finished in as_completed(running):
                yield finished.result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)


def _record(
    backend: Backend, sample: Sample, config: RunConfig, timer: Callable[[], float]
) -> EventLog:
    stream = backend.create_processor(
        language=config.language, task=config.task, **config.stream_arguments
    )
    clock = Clock(is_paced=config.is_paced, timer=timer)
    with closing(stream) as processor:
        seconds = config.chunk_seconds
        events = tuple(record_stream(processor, sample.audio(), chunk_seconds=seconds, clock=clock))
    return EventLog(
        header=Header(
            audio=sample.id,
            audio_seconds=events[-1].audio_time,
            reference=sample.reference,
            language=config.language,
            setup=config.to_json(),
            platform=describe_platform(),
        ),
        events=events,
    )
