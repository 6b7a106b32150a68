"""
Count the code that one call passes through, as a measure of what its reader must follow.

A profiler records every function of wlk-core and wlk-live that the call runs.  For each call the
table has the number of different functions, that of their files, and how often control goes from
one file to another, by a call or by a return.  The scripted backend stands for a plugin, so its
functions are left out.  One row has a recognizer of this script, which is left out too: it shows
the road from `Session.feed` to any recognizer and back, without a policy.

For the first second of a session the last table counts the copies of its samples: tracemalloc, to
which numpy reports its arrays, is read after each line of Python, and every array that a line made
and that could hold the second (half a second of float32, the size of a second of s16le) counts.
Arrays of the engine do not, nor does an operation in place.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode
from wlk_core.online.stream import OnlineStream
from wlk_core.plugins import Step, WorkCounters
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import Word
from wlk_live import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import OnlineProcessor
    from wlk_live.audio.pcm import Encoding

    Audio = NDArray[np.float32]

PACKAGES = ("wlk_core", "wlk_live")
SOURCES: tuple[tuple[Encoding, int], ...] = (
    ("f32le", 16_000),
    ("s16le", 16_000),
    ("s16le", 48_000),
)
WARM_UP = 2  # seconds of audio before the call that is recorded
#: What every plugin's backend.py imports, and how many modules of this project it loads.
IMPORT = """
import sys
from wlk_core.plugins import LoadedBackend
print(sum(name.split(".")[0].startswith("wlk_") for name in sys.modules))
"""


@attrs.frozen
class Trip:
    """The functions of one call, and the file in which control was, in order."""

    functions: frozenset[CodeType]
    files: list[str]

    @property
    def file_changes(self) -> int:
        """How often control went from one file to another."""
        following = zip(self.files, self.files[1:], strict=False)
        return sum(before != after for before, after in following)


def record(call: Callable[[], object]) -> Trip:
    """Make a call and return its trip."""
    folders = tuple(f"{_folder(name)}/" for name in PACKAGES)
    functions: set[CodeType] = set()
    files: list[str] = []
    open_calls: list[str] = []  # the file of each function that has not returned

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        file = frame.f_code.co_filename
        if not file.startswith(folders):
            return
        if event == "call":
            functions.add(frame.f_code)
            open_calls.append(file)
            files.append(file)
        elif event == "return":
            open_calls.pop()
            if open_calls:
                files.append(open_calls[-1])

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Trip(frozenset(functions), files)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed")
    return Path(spec.origin).parent


def insertion(audio: Audio) -> Trip:
    """Insert a second into a stream that has decoded all audio before it."""
    stream = ScriptedBackend().create_processor(policy="local-agreement")
    before, second = audio[: WARM_UP * SAMPLE_RATE], audio[WARM_UP * SAMPLE_RATE :][:SAMPLE_RATE]
    stream.insert_audio_chunk(before)
    while stream.has_backlog:
        stream.process_iter()
    return record(lambda: stream.insert_audio_chunk(second))


def tick(audio: Audio) -> Trip:
    """Decode that second, in one tick of LocalAgreement, which commits a word."""
    stream = ScriptedBackend().create_processor(policy="local-agreement")
    for first in range(0, WARM_UP * SAMPLE_RATE, SAMPLE_RATE):
        stream.insert_audio_chunk(audio[first : first + SAMPLE_RATE])
        stream.process_iter()
    stream.insert_audio_chunk(audio[WARM_UP * SAMPLE_RATE :][:SAMPLE_RATE])
    return record(stream.process_iter)


class ToyRecognizer:
    """A recognizer whose step takes all audio and commits a word."""

    hypothesis: tuple[Word, ...] = ()
    language: str | None = "en"
    work = WorkCounters()
    state_bytes: int | None = 0

    def __init__(self) -> None:
        self._samples = self._consumed = 0

    def feed(self, audio: Audio) -> None:
        """Count the samples."""
        self._samples += len(audio)

    def step(self, *, is_last: bool) -> Step | None:
        """Commit a word in the middle of the audio since the last step."""
        del is_last
        if self._samples == self._consumed:
            return None
        middle = (self._consumed + self._samples) / 2 / SAMPLE_RATE
        self._consumed = self._samples
        words = (Word(middle - 0.1, middle + 0.1, " word", 1.0),)
        return Step(committed=words, consumed_samples=self._samples)

    def start_utterance(self, committed_text: str) -> None:
        """Begin anew."""
        del committed_text
        self._samples = self._consumed = 0

    def close(self) -> None:
        """Release nothing."""


def feeding(processor: OnlineProcessor) -> Trip:
    """
    Feed a session without a gate a second of s16le, which it decodes in one step.

    The second is silence: 16 bits are too few for coded audio.
    """
    session = Session(processor, encoding="s16le")
    second = bytes(2 * SAMPLE_RATE)
    for _ in range(WARM_UP):
        session.feed(second)
    return record(lambda: session.feed(second))


def count_copies(call: Callable[[], object], rate: int) -> int:
    """Make a call with a second of audio; return how many arrays of it the lines it ran made."""
    engine = f"{_folder('wlk_conformance')}/"
    copies = before = 0
    engine_calls = 0  # that have not returned

    def settle() -> None:
        nonlocal copies, before
        current, peak = tracemalloc.get_traced_memory()
        # A line may make several arrays: integers that are scaled but not in place make two.
        if not engine_calls and peak - before >= 2 * min(rate, SAMPLE_RATE):
            copies += max(1, round((peak - before) / (4 * rate)))
        before = current
        tracemalloc.reset_peak()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal engine_calls
        settle()
        if frame.f_code.co_filename.startswith(engine):
            engine_calls += {"call": 1, "return": -1}.get(event, 0)
        return trace

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
        settle()
        tracemalloc.stop()
    return copies


def copies_of(encoding: Encoding, rate: int) -> int:
    """Return the copies of a session's first second on its way into the engine."""
    sessions = [
        Session(ScriptedBackend().create_processor(), encoding=encoding, rate=rate)
        for _ in range(2)
    ]
    second = bytes((4 if encoding == "f32le" else 2) * rate)
    sessions[0].feed(second)  # imports and tables of the first call
    return count_copies(lambda: sessions[1].feed(second), rate)


def imported_modules() -> int:
    """Return the number of this project's modules that the base of every backend loads."""
    command = [sys.executable, "-c", IMPORT]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return int(done.stdout)


def main() -> None:
    """Print the table."""
    words = [CodedToken(1 + index, 12 * index, 4) for index in range(5)]  # one a second
    audio = encode(words, cells=60)
    trips = {
        "insert_audio_chunk": insertion(audio),
        "process_iter, one tick of LocalAgreement": tick(audio),
        "Session.feed, the same tick": feeding(ScriptedBackend().create_processor()),
        "Session.feed, without a policy": feeding(OnlineStream(ToyRecognizer)),
    }
    print(f"{'':42} functions  files  changes of file")
    for name, trip in trips.items():
        files = len(set(trip.files))
        print(f"{name:42} {len(trip.functions):9} {files:6} {trip.file_changes:16}")
    print("\ncopies of a second of audio, from Session.feed to the engine")
    for encoding, rate in SOURCES:
        print(f"{encoding} at {rate:,} Hz: {copies_of(encoding, rate)}")
    count = imported_modules()
    print(f"\nmodules that `from wlk_core.plugins import LoadedBackend` loads: {count}")


if __name__ == "__main__":
    main()
