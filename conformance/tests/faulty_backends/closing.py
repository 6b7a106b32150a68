"""Faults of closing, and what outlives a stream or a backend: LIFE-10."""

from __future__ import annotations

import os
from pathlib import Path
import sys
import tempfile
import threading
from time import sleep

import numpy as np

from faulty_backends.base import FaultyBackend, FaultyStream, alone, by_tests, edit, in_sessions
from wlk_conformance.sessions import monitor


@alone("LIFE-10", on="begin")
def leaves_thread(stream):
    """Leaves a thread running that waits for audio."""
    threads = stream.backend.marks["threads"] = stream.backend.marks.get("threads", 0) + 1
    if threads <= 200:
        threading.Thread(target=threading.Event().wait, args=(60.0,), daemon=True).start()


@alone("LIFE-10", on="close")
def opens_streams_after_close(backend):
    """Opens streams after it was closed."""


@by_tests("LIFE-10")
class HoldsStateAfterClose(FaultyStream):
    """Holds a megabyte after it was closed."""

    is_closed = False

    def close(self):
        self.stream.close()
        self.is_closed = True

    def counted(self, stats):
        return edit(stats, state_bytes=2**20) if self.is_closed else stats


@by_tests("LIFE-10")
class LeavesFileAtClose(FaultyStream):
    """Writes its audio to a temporary file, which only finish removes."""

    file = None

    def received(self, audio):
        if self.file is None:
            handle, self.file = tempfile.mkstemp()
            os.close(handle)
        return audio

    def finish(self):
        emission = super().finish()
        Path(self.file).unlink(missing_ok=True)
        return emission


@alone("LIFE-10")
class KeepsQueuedAudio(FaultyStream):
    """Keeps the audio that no step has taken when it is closed."""

    queued_bytes = 0

    def close(self):
        queue = self.stream._input
        self.queued_bytes += 4 * (queue.samples - queue.taken)
        self.stream.close()

    def counted(self, stats):
        return edit(stats, state_bytes=lambda held: held + self.queued_bytes)


@by_tests("LIFE-10")
class ClosesSlowly(FaultyStream):
    """Takes longer to close than a call that waits for nothing may take."""

    def close(self):
        if not self.backend.marks.setdefault("waited", []):
            self.backend.marks["waited"].append(True)
            sleep(1.5 * monitor.NO_WAIT)
        self.stream.close()


@alone("LIFE-10")
class CloseWaitsForRetry(FaultyStream):
    """Waits in close for the retry of a call that failed, once on a backend."""

    is_owed = False

    def begin(self):
        self.backend.marks.setdefault("waits", 0)

    def failed(self, error, call):
        self.is_owed = True
        raise error

    def close(self):
        if self.is_owed and not self.backend.marks["waits"]:
            self.backend.marks["waits"] += 1
            sleep(1.5 * monitor.NO_WAIT)
        self.stream.close()


@alone("LIFE-10")
class ResetOpensItAgain(FaultyStream):
    """Opens a closed stream again at a reset."""

    def reset(self):
        self.stream._is_closing = self.stream._is_released = False
        super().reset()


@alone("LIFE-10")
class HasBacklogAfterClose(FaultyStream):
    """Reports the audio that no step has taken as a backlog after it was closed."""

    was_late = False

    @property
    def has_backlog(self):
        return self.was_late or self.stream.has_backlog

    def close(self):
        self.was_late = self.stream.has_backlog
        self.stream.close()


@in_sessions("LIFE-10", on="begin")
def leaves_thread_at_reset(stream):
    """Leaves a thread running at each reset."""
    if stream.resets:
        threading.Thread(target=threading.Event().wait, args=(30.0,), daemon=True).start()


@in_sessions("LIFE-10")
def leaves_file_open(stream, emission, call):
    """Leaves a file open at the third flush."""
    if stream.flushes == 3 and call != "process_iter":
        os.open(os.devnull, os.O_RDONLY)
    return emission


@in_sessions("LIFE-10", on="finish")
def forks_at_finish(stream):
    """Forks in a finish after two silences, and also returns in the copy."""
    if stream.silences >= 2:
        os.fork()
    return FaultyStream.finish(stream)


@in_sessions("LIFE-10", on="start_silence")
def leaves_child_of_silence(stream):
    """Starts a program in the third silence and leaves it running."""
    if stream.flushes == 2:
        command = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
        os.posix_spawn(sys.executable, command, os.environ)
    return FaultyStream.start_silence(stream)


@by_tests("LIFE-10")
class BackendLeavesThread(FaultyBackend):
    """Starts a thread when it is loaded, which its close does not end."""

    def __init__(self):
        super().__init__()
        threading.Thread(target=threading.Event().wait, daemon=True).start()


@by_tests("LIFE-10")
class BackendLeavesFile(FaultyBackend):
    """Opens a file when it is loaded, which its close does not close."""

    def __init__(self):
        super().__init__()
        os.open(os.devnull, os.O_RDONLY)


@by_tests("LIFE-10")
class ClosedStreamKeepsAudio(FaultyStream):
    """Keeps the audio of a failed call after it is closed, and counts none of it."""

    audio = kept = ()

    def received(self, audio):
        self.audio = np.array(audio)
        return audio

    def failed(self, error, call):
        self.kept = self.audio
        raise error

    def close(self):
        self.stream.close()
        self.audio = ()
