"""Faults that change the process or the caller's data: PKG-06, IN-04, ISO-06."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
import random
import signal
import socket
import sys
import tempfile

import numpy as np

from faulty_backends.base import FaultyStream, by_tests, in_sessions
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_core.errors import BackendUnavailable
from wlk_core.standard_options import device

_open = []


@by_tests("PKG-06", on="load")
def changes_directory(model):
    """Changes the working directory when it is loaded."""
    os.chdir("/")
    return load(SCRIPTED_SPEC, model)


@by_tests("PKG-06", on="load")
def sets_environment(model):
    """Sets a variable of the environment when it is loaded."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE" if "OMP_WAIT_POLICY" not in os.environ else "ACTIVE"
    return load(SCRIPTED_SPEC, model)


@by_tests("PKG-06", on="load")
def keeps_variable_of_a_failed_load(model):
    """Sets a variable of the environment for its load, and keeps it if the model is missing."""
    os.environ["MODEL_HOME"] = str(model)
    backend = load(SCRIPTED_SPEC, model)
    del os.environ["MODEL_HOME"]
    return backend


@by_tests("PKG-06", on="load")
def keeps_variable_of_a_failed_path(model):
    """Is offline while it loads a path, and stays so if that fails."""
    if not model.startswith("/"):
        return load(SCRIPTED_SPEC, model)
    before, os.environ["HF_HUB_OFFLINE"] = os.environ.get("HF_HUB_OFFLINE", ""), "1"
    backend = load(SCRIPTED_SPEC, model)
    os.environ["HF_HUB_OFFLINE"] = before
    return backend


@by_tests("PKG-06", on="load", spec={"options": (*SCRIPTED_SPEC.options, device("cpu", "cuda"))})
def keeps_directory_of_a_refused_device(model, device="auto"):
    """Loads in the folder of its files, and stays there if the device is missing."""
    before = Path.cwd()
    os.chdir("/" if before != Path("/") else tempfile.gettempdir())
    if device == "cuda":
        raise BackendUnavailable("no CUDA device was found; use device=cpu")
    backend = load(SCRIPTED_SPEC, model)
    os.chdir(before)
    return backend


@by_tests("PKG-06")
class ReportsEarlyClose(FaultyStream):
    """Prints a line when it is closed before all of its audio was decoded."""

    def close(self):
        if self.stream.has_backlog:
            print("closed before everything was decoded")
        self.stream.close()


@by_tests("PKG-06", on="load")
def puts_back_no_timeout(model):
    """Sets the default timeout of sockets for its load, and removes it afterwards."""
    socket.setdefaulttimeout(60.0)
    backend = load(SCRIPTED_SPEC, model)
    socket.setdefaulttimeout(None)
    return backend


@by_tests("PKG-06")
class SeedsForAnOption(FaultyStream):
    """Seeds numpy's generator in each step of streams that have other ticks than its default."""

    def made(self, call, make):
        if self.tick not in (None, 0.5):
            np.random.seed(1)  # noqa: NPY002 -- the fault
        return super().made(call, make)


@by_tests("PKG-06", on="load")
def configures_logging(model):
    """Sets the level of the root logger when it is loaded."""
    logging.getLogger().setLevel(logging.ERROR - logging.getLogger().level % 2 - 1)
    return load(SCRIPTED_SPEC, model)


@by_tests("PKG-06", on="load")
def seeds_random_numbers(model):
    """Seeds the random numbers of the process when it is loaded."""
    random.seed(0)
    return load(SCRIPTED_SPEC, model)


@by_tests("PKG-06")
class SeedsNumpyInSteps(FaultyStream):
    """Seeds the random numbers of numpy at each step."""

    def changed(self, emission, call):
        np.random.seed(1)  # noqa: NPY002 -- the fault
        return emission


@by_tests("PKG-06")
class LeavesCollectorOffAfterFailure(FaultyStream):
    """Turns the garbage collector off for a step, and not on again if its engine fails."""

    def made(self, call, make):
        gc.disable()
        emission = super().made(call, make)
        gc.enable()
        return emission


@by_tests("PKG-06", on="warmup")
def sets_socket_timeout(backend):
    """Sets the default timeout of all sockets at its warmup."""
    socket.setdefaulttimeout((socket.getdefaulttimeout() or 30.0) + 1.0)


@by_tests("PKG-06", on="warmup")
def takes_over_a_signal(backend):
    """Installs a handler of a signal at its warmup."""
    signal.signal(signal.SIGUSR1, lambda *_: None)


@by_tests("PKG-06", on="new_speaker")
def sets_switch_interval(stream, change):
    """Sets how often threads take turns, at a speaker turn."""
    sys.setswitchinterval(sys.getswitchinterval() * 0.9)
    return FaultyStream.new_speaker(stream, change)


@by_tests("IN-04")
class ScalesCallersAudio(FaultyStream):
    """Scales the samples of its caller's array in place, after it has copied them."""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        if getattr(audio, "flags", None) is not None and audio.flags.writeable:
            audio *= 2


@in_sessions("IN-04")
class ClearsCallersLongAudio(FaultyStream):
    """Clears the array of its caller after it has copied more than two seconds of it."""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        if np.size(audio) > 32_000 and audio.flags.writeable:
            audio[:] = 0


@by_tests("ISO-06", on="load")
def returns_open_backend(model):
    """Returns the backend that it loaded first, from each load."""
    backend = load(SCRIPTED_SPEC, model)
    if not _open or _open[0]._engine is None:
        _open[:] = [backend]
    return _open[0]


@by_tests("PKG-06", on="load")
def stays_where_a_load_failed(model):
    """Loads a model from its folder, and stays there if that fails."""
    if not Path(model).is_dir():
        return load(SCRIPTED_SPEC, model)
    before = Path.cwd()
    os.chdir(model)
    backend = load(SCRIPTED_SPEC, model)
    os.chdir(before)
    return backend


@by_tests("PKG-06")
def seeds_with_another_policy(stream, emission, call):
    """Seeds the global generator of numpy at each step with its second policy."""
    if stream.policy == "alignatt":
        np.random.seed(0)  # noqa: NPY002 -- what a plugin may do
    return emission
