"""Growth over a long stream: work, memory and words, minute by minute."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import attrs
import numpy as np

from digit_streams.material import stream_of
from wlk_bench.events import AudioIn, Call, Commit
from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.statistics import slope
from wlk_bench.metrics.work import COUNTERS, HOUR
from wlk_bench.recorder import Pause, record_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wlk_core import OnlineProcessor

__all__ = ["Minute", "print_growth"]

SPEECH = 60.0  # seconds of speech of a round ...
PAUSE = 1.0  # ... and of the pause after it, which is reported to the processor


@attrs.define
class Minute:
    """The work and memory of a round: a minute of speech and the pause after it."""

    work: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(len(COUNTERS), dtype=np.int64))
    held_bytes: int = 0
    resident_bytes: int = 0
    tensor_bytes: int = 0
    errors: int = 0
    latency: float = 0.0  # seconds, median


def print_growth(processor: OnlineProcessor, minutes: int) -> None:
    """Run that many rounds of the same minute and print the second beside the last but one."""
    if minutes < 3:  # noqa: PLR2004 -- a warm-up, a minute, and another one to compare it with
        raise SystemExit(f"expected --minutes 3 or more to measure growth, got {minutes}")
    rounds = list(_minutes(processor, minutes))
    early, late = 1, max(2, minutes - 2)
    before, after = rounds[early], rounds[late]
    for name, old, new in zip(COUNTERS, before.work / SPEECH, after.work / SPEECH, strict=True):
        if not old:
            continue  # the backend does not count it
        print(
            f"  {name} per audio second: minute {early + 1} {old:.1f}, minute {late + 1} {new:.1f} "
            f"({100 * (new / old - 1):+.2f} %; target within 2 %)"
        )
    most = [max(r.work[index] for r in rounds[1:]) / SPEECH for index in range(len(COUNTERS))]
    print("  most of any minute: " + ", ".join(f"{value:.1f}" for value in most))
    kinds = {"held": "most bytes held", "resident": "resident bytes"}
    if "torch" in sys.modules:
        kinds["tensor"] = "bytes in tensors alive, the model's included"
    for kind, title in kinds.items():
        old, new = (getattr(minute, f"{kind}_bytes") for minute in (before, after))
        print(f"  {title}: {old}, then {new} ({_rise(rounds, kind)})")
    wrong = sum(minute.errors for minute in rounds)
    print(f"  words wrong: {before.errors}, then {after.errors}; {wrong} in all")
    print(f"  emission latency, median: {before.latency:.2f} s, then {after.latency:.2f} s")


def _rise(rounds: list[Minute], kind: str) -> str:
    hours = [index * (SPEECH + PAUSE) / HOUR for index in range(1, len(rounds))]
    line = slope(hours, [getattr(minute, f"{kind}_bytes") / 1e6 for minute in rounds[1:]])
    margin = "" if line.high is None else f" +- {line.high - line.per_hour:.3f}"
    return f"{line.per_hour:+.3f}{margin} MB an hour"


def _minutes(processor: OnlineProcessor, minutes: int) -> Iterator[Minute]:
    """
    Yield the sums of each round.

    Only these are stored, because the whole log would itself be growing memory.
    """
    material = stream_of(SPEECH)
    audio = (part for _ in range(minutes) for part in (material.audio, Pause(PAUSE)))
    minute, index = Minute(), 0
    words: list[str] = []
    delays: list[float] = []
    for event in record_stream(processor, audio):
        # The work in the pause after a minute belongs to the minute.
        if (now := int((event.audio_time - 1e-3) // (SPEECH + PAUSE))) != index:
            yield _closed(minute, words, delays, material.reference.text)
            minute, index, words, delays = Minute(), now, [], []
        if isinstance(event, Call):
            minute.work += [getattr(event.work, name) or 0 for name in COUNTERS]
            minute.held_bytes = max(minute.held_bytes, event.state_bytes or 0)
        elif isinstance(event, AudioIn):
            minute.resident_bytes = event.resident_bytes or 0
        elif isinstance(event, Commit):
            words += [token.text for token in event.tokens]
            delays += [event.audio_time - token.end for token in event.tokens]
    yield _closed(minute, words, delays, material.reference.text)


def _closed(minute: Minute, words: list[str], delays: list[float], text: str) -> Minute:
    minute.errors = word_edits(text, "".join(words)).counts.errors
    minute.latency = float(np.median(delays)) if delays else 0.0
    minute.tensor_bytes = _tensor_bytes()
    return minute


def _tensor_bytes() -> int:
    """Return the bytes of all torch tensors that are alive, 0 without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0
    gc.collect()
    # By type, because isinstance reads `__class__` of every object, and some objects warn then.
    alive = (value for value in gc.get_objects() if issubclass(type(value), torch.Tensor))
    storages = (tensor.untyped_storage() for tensor in alive)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
