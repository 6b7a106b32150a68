"""This machine with a backend on some of its cores, ready to be measured."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
import os
from typing import TYPE_CHECKING

import numpy as np

from wlk_bench import config as configuration
from wlk_bench.capacity.measurement import Bench
from wlk_bench.data import load_dataset
from wlk_bench.errors import CapacityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_bench.config import RunConfig
    from wlk_bench.data import Sample

__all__ = ["available_cores", "open_bench"]

_MOST_CLIPS = 32  # that streams take in turn


def available_cores() -> set[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


@contextmanager
def _cores(count: int | None) -> Iterator[int]:
    """Keep this process, and the threads that it starts, on *count* cores; yield how many."""
    available = available_cores()
    if count is None:
        yield len(available)
        return
    if count > len(available):
        raise CapacityError(f"expected --cores of at most {len(available)}, got {count}")
    if count < len(available) and not hasattr(os, "sched_setaffinity"):
        raise CapacityError(
            f"expected --cores {len(available)}, got {count}: this system cannot keep a process "
            "on some of its cores"
        )
    if count == len(available):
        yield count
        return
    os.sched_setaffinity(0, set(sorted(available)[:count]))
    try:
        yield count
    finally:
        os.sched_setaffinity(0, available)


@contextmanager
def open_bench(
    *,
    backend: str,
    model: str | None,
    options: tuple[str, ...],
    language: str | None,
    data: str,
    tick: float,
    cores: int | None,
    clock: str,
) -> Iterator[tuple[Bench, RunConfig]]:
    """
    Load *backend* and yield what measures it; see `wlk-bench capacity` for the arguments.

    Raises:
        BackendUnavailable, OptionError: see wlk_core.load_backend.
        CapacityError: there are fewer cores.
        DataError: the data cannot be used.

    """
    dataset = load_dataset(data)
    prepare = partial(
        configuration.prepare,
        dataset,
        backend,
        model=model,
        language=language,
        chunk_seconds=tick,
        is_paced=True,
    )
    config, spec = prepare(options=options)
    if {"tick_seconds"} <= {*config.stream_options} - config.requested:
        config, spec = prepare(options=(*options, f"tick_seconds={tick:g}"))
    is_cpu_clock = clock == "cpu"
    with (
        _cores(1 if is_cpu_clock else cores) as count,
        configuration.load(config, spec) as loaded,
    ):
        loaded.warmup()
        yield (
            Bench(
                backend=loaded,
                stream_arguments={"language": config.language, **config.stream_arguments},
                clips=_clips(dataset.samples[:_MOST_CLIPS]),
                chunk_seconds=tick,
                tick_seconds=tick,
                workers=1 if is_cpu_clock else spec.max_concurrent_calls or count,
                is_batching="batching" in spec.capabilities and not is_cpu_clock,
                cores=count,
                is_cpu_clock=is_cpu_clock,
            ),
            config,
        )


def _clips(samples: tuple[Sample, ...]) -> list[NDArray[np.float32]]:
    """Return the audio of the samples; where a silence is reported, it is left out."""
    return [
        np.concatenate([part for part in sample.audio() if isinstance(part, np.ndarray)])
        for sample in samples
    ]
