"""The backends of wlk_fakes."""

from __future__ import annotations

import atexit
import os
import threading

import attrs
from faulty_backends.base import FaultyBackend, FaultyStream

from wlk_conformance.scripted import ScriptedBackend
from wlk_core import Emission, StreamStats, Transcript
from wlk_core.errors import BackendUnavailable, ModelNotFoundError


class EmptyStream:
    """A stream that does the same at every call and never returns a word."""

    has_backlog = False

    def __init__(self, act):
        self.act = act
        self.samples = 0

    def insert_audio_chunk(self, audio, audio_stream_end_time=None):
        self.samples += len(audio)

    def process_iter(self, is_last=False):
        self.act()
        return Emission((), self.samples / 16_000, self.samples / 16_000)

    def start_silence(self):
        return self.process_iter()

    def finish(self):
        return self.process_iter()

    def new_speaker(self, change):
        return self.process_iter()

    def end_silence(self, silence_duration, offset=None):
        pass

    def get_buffer(self):
        return Transcript()

    def reset(self):
        self.samples = 0

    def close(self):
        pass

    @property
    def stats(self):
        return StreamStats(audio_seconds=self.samples / 16_000)


class EmptyBackend(ScriptedBackend):
    """Opens streams that never return a word."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def create_processor(self, **options):
        super().create_processor(**options).close()  # refuses options that do not exist
        return EmptyStream(self.act)


class Printing(FaultyStream):
    """Prints at every step."""

    def changed(self, emission, call):
        print("a line of a library")
        return emission


class Deviating(FaultyStream):
    """Reports all processed audio as stable, and drifts."""

    def changed(self, emission, call):
        return attrs.evolve(emission, stable_up_to=emission.processed_up_to)

    def waited(self, seconds):
        return seconds + 1e-7 if seconds > 0 else seconds


class Stalling(FaultyStream):
    """Hangs in the first silence after a strided chunk."""

    is_strided = False

    def insert_audio_chunk(self, audio, end_time=None):
        self.is_strided = self.is_strided or getattr(audio, "strides", (0,))[:1] == (8,)
        super().insert_audio_chunk(audio, end_time)

    def start_silence(self):
        if self.is_strided:
            self.stop()
        return super().start_silence()

    def stop(self):
        threading.Event().wait()


class Aborting(Stalling):
    """Ends the process in the first silence after a strided chunk."""

    def stop(self):
        os.abort()


def fail():
    """Raise an unspecific error."""
    raise RuntimeError("boom")


def load(spec, model):
    """Load the backend that the name of *spec* describes."""
    kind = spec.name.removeprefix("fake-")
    if model != "digits":
        raise ModelNotFoundError(f"no model {model}; try --model digits")
    if kind == "unloadable":
        raise RuntimeError("the weights are damaged")
    if kind == "picky":
        raise BackendUnavailable("it works on Tuesdays only; pip install tuesday")
    if kind == "crashing":
        atexit.register(os.abort)
    if kind in ("stale", "crashing"):
        return ScriptedBackend()
    if kind in ("printing", "deviating"):
        return FaultyBackend(Printing if kind == "printing" else Deviating)
    if kind in ("stalling", "aborting"):
        return FaultyBackend(Stalling if kind == "stalling" else Aborting)
    acts = {
        "silent": lambda: None,
        "raising": fail,
        "hanging": threading.Event().wait,
        "dying": os.abort,
    }
    return EmptyBackend(acts[kind])
