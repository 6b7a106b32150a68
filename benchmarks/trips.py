"""
Count the code that one call passes through, as a measure of what its reader must follow.

A profiler records every function of wlk-core and wlk-live that the call runs.  For each call the
table has the number of different functions, that of their files, and how often control goes from
one file to another, by a call or by a return.  The scripted backend stands for a plugin, so its
functions are left out.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.scripted import ScriptedBackend
from wlk_conformance.testing import CodedToken, encode
from wlk_core.processor import SAMPLE_RATE
from wlk_live import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    import numpy as np
    from numpy.typing import NDArray

    Audio = NDArray[np.float32]

PACKAGES = ("wlk_core", "wlk_live")
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


def feeding() -> Trip:
    """
    Feed a session without a gate a second of s16le, which it decodes in one tick.

    The second is silence: 16 bits are too few for coded audio.
    """
    session = Session(ScriptedBackend().create_processor(), encoding="s16le")
    second = bytes(2 * SAMPLE_RATE)
    for _ in range(WARM_UP):
        session.feed(second)
    return record(lambda: session.feed(second))


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
        "Session.feed, one second of s16le": feeding(),
    }
    print(f"{'':42} functions  files  changes of file")
    for name, trip in trips.items():
        files = len(set(trip.files))
        print(f"{name:42} {len(trip.functions):9} {files:6} {trip.file_changes:16}")
    print(f"modules that `from wlk_core.plugins import LoadedBackend` loads: {imported_modules()}")


if __name__ == "__main__":
    main()
