"""Record every stream of a data set and score it: resumable, one log a stream."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
import hashlib
import json
import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.environment import describe_platform
from wlk_bench.errors import ResultError
from wlk_bench.events import EventLog, Header, read_log, write_log
from wlk_bench.metrics.error_rate import ErrorCounts
from wlk_bench.recorder import Clock, record_stream
from wlk_bench.report import markdown
from wlk_bench.results import build_result, write_result
from wlk_bench.scoring import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wlk_bench.config import RunConfig
    from wlk_bench.data import Dataset, Sample
    from wlk_bench.scoring import SampleScore
    from wlk_core.backend import Backend

__all__ = ["Progress", "run_benchmark"]


@attrs.frozen(kw_only=True)
class Progress:
    """The progress of a run and its figures so far."""

    done: int
    total: int
    sample: str
    wer: float | None
    rtf: float | None


def run_benchmark(
    dataset: Dataset,
    config: RunConfig,
    open_backend: Callable[[], Backend],
    output: Path,
    *,
    observe: Callable[[Progress], None] = lambda _progress: None,
    timer: Callable[[], float] = perf_counter,
) -> dict[str, Any]:
    """
    Measure *dataset* and return the result, which is also written below *output*.

    `logs/` has one event log a stream, `samples.jsonl` one record a stream as it ends, and
    `result.json` and `report.md` the figures.  Streams whose log is complete are not recorded
    again, so that an interrupted run can be continued; the backend is opened only for the others.
    With time.process_time as *timer*, other load of the machine does not change the figures.

    Raises:
        ResultError: *output* holds a run of another setup.
        BackendError: a stream failed for good; the logs of finished streams stay.

    """
    logs = output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    _claim(output, config)
    tally = _Tally(total=len(dataset.samples), observe=observe)
    with (output / "samples.jsonl").open("w", encoding="utf-8") as records:

        def keep(log: EventLog) -> None:
            scored = score(log, normaliser_name=config.normaliser)
            records.write(json.dumps(scored.to_json(), ensure_ascii=False) + "\n")
            records.flush()
            tally.add(scored)

        waiting: list[Sample] = []
        for sample in dataset.samples:
            path = _log_path(logs, sample)
            if path.exists():
                keep(read_log(path))
            else:
                waiting.append(sample)
        session = None
        if waiting:
            began = perf_counter()
            with open_backend() as backend:
                backend.warmup()
                load_seconds, began = perf_counter() - began, perf_counter()
                for sample, log in _recorded(backend, waiting, config, timer):
                    write_log(_log_path(logs, sample), log)
                    keep(log)
            session = {
                "load_seconds": load_seconds,
                **_session(waiting, perf_counter() - began, config),
            }
    order = {sample.id: index for index, sample in enumerate(dataset.samples)}
    scores = sorted(tally.scores, key=lambda scored: order[scored.id])
    result = build_result(config, scores, session=session)
    write_result(output, result)
    (output / "report.md").write_text(markdown(result), encoding="utf-8")
    return result


@attrs.define
class _Tally:
    """The scores so far."""

    total: int
    observe: Callable[[Progress], None]
    scores: list[SampleScore] = attrs.field(factory=list)

    def add(self, scored: SampleScore) -> None:
        self.scores.append(scored)
        audio = sum(score.audio_seconds for score in self.scores)
        self.observe(
            Progress(
                done=len(self.scores),
                total=self.total,
                sample=scored.id,
                wer=ErrorCounts.total(score.words for score in self.scores).rate,
                rtf=sum(s.time.busy_seconds for s in self.scores) / audio if audio else None,
            )
        )


def _claim(output: Path, config: RunConfig) -> None:
    """Claim *output* for this configuration, or refuse a directory of another one."""
    path = output / "setup.json"
    current = json.loads(json.dumps(config.to_json()))
    if not path.exists():
        path.write_text(json.dumps(current, indent=2) + "\n", encoding="utf-8")
        return
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultError(
            f"expected a setup in {path}: {error}; choose another --output"
        ) from error
    for key in sorted(current.keys() | earlier.keys()):
        if current.get(key) != earlier.get(key):
            raise ResultError(
                f"expected a run of the same setup in {output}, got {key} "
                f"{earlier.get(key)!r} there and {current.get(key)!r} here; choose another --output"
            )


def _log_path(logs: Path, sample: Sample) -> Path:
    safe = re.sub(r"[^\w.-]", "_", sample.id)
    if safe != sample.id or len(safe) > 100:  # noqa: PLR2004 -- file names end at 255 bytes
        safe = f"{safe[:80]}-{hashlib.sha256(sample.id.encode()).hexdigest()[:12]}"
    return logs / f"{safe}.jsonl"


def _recorded(
    backend: Backend, samples: list[Sample], config: RunConfig, timer: Callable[[], float]
) -> Iterator[tuple[Sample, EventLog]]:
    """Yield logs as streams end; `config.streams` of them run at a time, each on a thread."""
    if config.streams == 1:
        for sample in samples:
            yield sample, _record(backend, sample, config, timer)
        return
    with ThreadPoolExecutor(config.streams) as threads:
        running = {
            threads.submit(_record, backend, sample, config, timer): sample for sample in samples
        }
        try:
            for finished in as_completed(running):
                yield running[finished], finished.result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)


def _record(
    backend: Backend, sample: Sample, config: RunConfig, timer: Callable[[], float]
) -> EventLog:
    processor = backend.create_processor(
        language=config.language, task=config.task, **config.stream_arguments
    )
    try:
        events = tuple(
            record_stream(
                processor,
                sample.audio(),
                chunk_seconds=config.chunk_seconds,
                clock=Clock(is_paced=config.is_paced, timer=timer),
            )
        )
    finally:
        processor.close()
    return EventLog(
        header=Header(
            audio=sample.id,
            audio_seconds=events[-1].audio_time,
            backend=config.backend,
            model=config.model,
            language=config.language,
            task=config.task,
            options={**config.backend_options, **config.stream_options},
            versions=config.versions,
            platform=describe_platform(),
            data=f"{config.data}, {config.mode}",
            chunk_seconds=config.chunk_seconds,
            is_paced=config.is_paced,
            streams=config.streams,
            reference=sample.reference,
        ),
        events=events,
    )


def _session(samples: list[Sample], elapsed: float, config: RunConfig) -> dict[str, Any]:
    """Describe what this session recorded: audio per second of wall clock over all streams."""
    audio = sum(sample.seconds for sample in samples)
    return {
        "streams": config.streams,
        "samples": len(samples),
        "audio_seconds": audio,
        "elapsed_seconds": elapsed,
        "audio_per_second": audio / elapsed if elapsed > 0 else None,
    }
