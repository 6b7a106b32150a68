"""Record every stream of a data set and score it: resumable, one log a stream."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
import hashlib
import json
import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.errors import ResultError
from wlk_bench.events import EventLog, Header, read_log, write_log
from wlk_bench.machine import describe_platform
from wlk_bench.metrics.error_rate import ErrorCounts
from wlk_bench.recorder import Clock, record_stream
from wlk_bench.results import build_result, write_result
from wlk_bench.scoring import score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wlk_bench.data import Dataset, Sample
    from wlk_bench.scoring import SampleScore
    from wlk_bench.setup import Setup
    from wlk_core.backend import Backend

__all__ = ["Progress", "run_benchmark"]


@attrs.frozen(kw_only=True)
class Progress:
    """How far a run is, and its figures so far."""

    done: int
    total: int
    sample: str
    wer: float | None
    rtf: float | None


def run_benchmark(
    dataset: Dataset,
    setup: Setup,
    open_backend: Callable[[], Backend],
    output: Path,
    *,
    observe: Callable[[Progress], None] = lambda _progress: None,
) -> dict[str, Any]:
    """
    Measure *dataset* and return the result, which is also written below *output*.

    `logs/` has one event log a stream, `samples.jsonl` one record a stream as it is done,
    `result.json` the figures.  Streams whose log is complete are not recorded again, so that an
    interrupted run goes on where it was; the backend is opened only if something is left.

    Raises:
        ResultError: *output* holds a run of another setup.
        BackendError: a stream failed for good; what was recorded before stays.

    """
    logs = output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    _claim(output, setup)
    tally = _Tally(total=len(dataset.samples), observe=observe)
    with (output / "samples.jsonl").open("w", encoding="utf-8") as records:

        def keep(log: EventLog) -> None:
            scored = score(log, normaliser_name=setup.normaliser)
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
                for sample, log in _recorded(backend, waiting, setup):
                    write_log(_log_path(logs, sample), log)
                    keep(log)
            session = {
                "load_seconds": load_seconds,
                **_session(waiting, perf_counter() - began, setup),
            }
    order = {sample.id: index for index, sample in enumerate(dataset.samples)}
    scores = sorted(tally.scores, key=lambda scored: order[scored.id])
    result = build_result(setup, scores, session=session)
    write_result(output, result)
    return result


@attrs.define
class _Tally:
    """The scores so far."""

    total: int
    observe: Callable[[Progress], None]
    scores: list[SampleScore] = attrs.field(factory=list)

    def add(self, scored: SampleScore) -> None:
        self.scores.append(scored)
        audio = sum(one.audio_seconds for one in self.scores)
        self.observe(
            Progress(
                done=len(self.scores),
                total=self.total,
                sample=scored.id,
                wer=ErrorCounts.total(one.words for one in self.scores).rate,
                rtf=sum(one.time.busy_seconds for one in self.scores) / audio if audio else None,
            )
        )


def _claim(output: Path, setup: Setup) -> None:
    """Make *output* the directory of this setup, or refuse it."""
    path = output / "setup.json"
    ours = json.loads(json.dumps(setup.to_json()))
    if not path.exists():
        path.write_text(json.dumps(ours, indent=2) + "\n", encoding="utf-8")
        return
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultError(
            f"expected a setup in {path}: {error}; choose another --output"
        ) from error
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            raise ResultError(
                f"expected a run of the same setup in {output}, got {key} "
                f"{theirs.get(key)!r} there and {ours.get(key)!r} here; choose another --output"
            )


def _log_path(logs: Path, sample: Sample) -> Path:
    safe = re.sub(r"[^\w.-]", "_", sample.id)
    if safe != sample.id or len(safe) > 100:  # noqa: PLR2004 -- file names end at 255 bytes
        safe = f"{safe[:80]}-{hashlib.sha256(sample.id.encode()).hexdigest()[:12]}"
    return logs / f"{safe}.jsonl"


def _recorded(
    backend: Backend, samples: list[Sample], setup: Setup
) -> Iterator[tuple[Sample, EventLog]]:
    """Yield logs as streams end, as many at a time as the setup says, each on its own thread."""
    if setup.streams == 1:
        for sample in samples:
            yield sample, _record(backend, sample, setup)
        return
    with ThreadPoolExecutor(setup.streams) as threads:
        running = {threads.submit(_record, backend, sample, setup): sample for sample in samples}
        try:
            for finished in as_completed(running):
                yield running[finished], finished.result()
        finally:
            threads.shutdown(wait=True, cancel_futures=True)


def _record(backend: Backend, sample: Sample, setup: Setup) -> EventLog:
    processor = backend.create_processor(
        language=setup.language, task=setup.task, **setup.stream_arguments
    )
    try:
        events = tuple(
            record_stream(
                processor,
                sample.audio(),
                chunk_seconds=setup.chunk_seconds,
                clock=Clock(is_paced=setup.is_paced),
            )
        )
    finally:
        processor.close()
    return EventLog(
        header=Header(
            audio=sample.id,
            audio_seconds=events[-1].audio_time,
            backend=setup.backend,
            model=setup.model,
            language=setup.language,
            task=setup.task,
            options={**setup.backend_options, **setup.stream_options},
            versions=setup.versions,
            platform=describe_platform(),
            data=f"{setup.data}, {setup.mode}",
            chunk_seconds=setup.chunk_seconds,
            is_paced=setup.is_paced,
            streams=setup.streams,
            reference=sample.reference,
        ),
        events=events,
    )


def _session(samples: list[Sample], elapsed: float, setup: Setup) -> dict[str, Any]:
    """Describe what this session recorded: audio per second of wall clock over all streams."""
    audio = sum(sample.seconds for sample in samples)
    return {
        "streams": setup.streams,
        "samples": len(samples),
        "audio_seconds": audio,
        "elapsed_seconds": elapsed,
        "audio_per_second": audio / elapsed if elapsed > 0 else None,
    }
