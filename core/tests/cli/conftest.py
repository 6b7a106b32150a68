"""A command line with one installed backend, which reads coded audio, and recordings for it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core.cli.main import execute
from wlk_core.cli.signals import SIGNALS
from wlk_live.microphone import Captured
from wlk_live.vad import silence_gate

PLUGIN = """
TOY = spec(
    "toy", summary="reads coded audio", load="toy_engine:load", preference=1,
    capabilities=["hypothesis", "word-times", "probabilities", "language-forcing"],
    languages=["en", "de"], policies=["local-agreement", "alignatt"],
    models={"digits": "bundled"}, default_model="digits",
    options=[
        Option(
            name="tick_seconds", type=float, default=1.0, minimum=0.1, maximum=10.0,
            help="seconds of audio between two hypotheses", scope="stream",
        ),
        Option(
            name="border_seconds", type=float, default=0.5, help="seconds without final words",
            scope="stream", policies=["alignatt"],
        ),
    ],
)

@hookimpl
def wlk_backends():
    return [TOY]
"""


class Done(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch, tmp_path):
    """Isolate the tests from the user's caches, configuration and environment variables."""
    for name in os.environ:
        if name.startswith("WLK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "wlk"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("HF_HUB_OFFLINE", "WLK_STRICT_PLUGINS", "WLK_TRACEBACK"):
        monkeypatch.setenv(name, "")  # so that it is restored if a command sets it


@pytest.fixture(autouse=True)
def own_signals():
    """
    Restore the handlers that the command line installs, and forget the signals it received.

    Tests begin with default handlers, because under nohup or a shell's `&` signals are ignored.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    SIGNALS.reset()


@pytest.fixture
def site(site):
    """Return a site with the backend "toy"."""
    site.install("wlk-toy", ["toy"], PLUGIN)
    shutil.copy(Path(__file__).with_name("toy_engine.py"), site.folder)
    return site


@pytest.fixture
def toy_engine(site):
    """Return the module of the backend "toy"."""
    del site  # which installs it
    return importlib.import_module("toy_engine")


NEEDY = """
@hookimpl
def wlk_backends():
    return [spec(
        "needy", summary="needs much", load="needy_engine:load",
        languages=["en", "de"], policies=["alignatt", "local-agreement"],
        models={"digits": "bundled", "big": "a/big"}, default_model="big",
        requires={"no-such-framework": "pip install no-such-framework"},
        options=[Option(name="device", default="cpu", choices=("cpu", "cuda"), help="device")],
    )]
"""


@pytest.fixture
def install_needy(site):
    """Return a function that installs a backend whose loader runs a statement, or fails."""

    def install(statement="import no_such_framework"):
        site.install("wlk-needy", ["needy"], NEEDY)
        module = f"def load(spec, model, **options):\n    {statement}\n"
        (site.folder / "needy_engine.py").write_text(module, encoding="utf-8")

    return install


@pytest.fixture
def command(site, capsys):
    """Return a function that runs one command line in this process."""

    def execute_here(*arguments):
        capsys.readouterr()
        status = execute([str(argument) for argument in arguments], site.registry())
        return Done(status, *capsys.readouterr())

    return execute_here


@pytest.fixture
def loud_is_speech(monkeypatch):
    """Let the voice detector find speech where there is any sound."""

    class Loudness:
        frame_samples = 512

        def __call__(self, frame):
            return float(np.abs(frame).max() > 0)

        def reset(self):
            pass

    monkeypatch.setattr(f"{silence_gate.__module__}.SileroDetector", Loudness)


@pytest.fixture
def transcribe(command):
    """Return a function that transcribes without the voice detector: coded audio is not speech."""
    return lambda *arguments: command("transcribe", "--no-vad", *arguments)


@pytest.fixture
def spawn(site):
    """Return a function that starts one command line in another process."""
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "wlk_core", *map(str, arguments)],
            env=site.environment,
            stdin=subprocess.PIPE,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            # A shell's background jobs ignore Ctrl-C, and so would their children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def clock(monkeypatch):
    """Let time pass only during a sleep, so that recordings play at once; return the clock."""
    clock = SimpleNamespace(seconds=50.0)

    def sleep(seconds):
        clock.seconds += seconds + 1e-9  # a little longer than requested, as in a real sleep

    monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(time, "sleep", sleep)
    return clock


@pytest.fixture
def spoken():
    """Return a function that encodes digits of 0.24 s, the first at 0.08 s, then every 0.48 s."""

    def code(*digits):
        tokens = [CodedToken(digit + 1, 1 + 6 * index) for index, digit in enumerate(digits)]
        return encode(tokens, cells=6 * len(digits) + 1)

    return code


@pytest.fixture
def wav():
    """Return a function that packs float32 samples into the bytes of a wav file, bit for bit."""

    def pack(audio):
        data = np.asarray(audio, dtype="<f4").tobytes()
        head = b"fmt " + (16).to_bytes(4, "little")
        head += np.array([3, 1], "<u2").tobytes() + np.array([16000, 64000], "<u4").tobytes()
        head += np.array([4, 32], "<u2").tobytes() + b"data" + len(data).to_bytes(4, "little")
        return b"RIFF" + (4 + len(head) + len(data)).to_bytes(4, "little") + b"WAVE" + head + data

    return pack


@pytest.fixture
def save(tmp_path, wav):
    """Return a function that writes pieces of audio as one recording and returns its path."""

    def write(name, *pieces):
        path = tmp_path / name
        path.write_bytes(wav(np.concatenate(pieces)))
        return path

    return write


@pytest.fixture
def recording(save, spoken):
    """Return a function that writes a recording of digits and returns its path."""
    return lambda name, *digits: save(name, spoken(*digits))


class ScriptedMicrophone:
    """A microphone whose blocks, problems and signals follow a script."""

    rate = 16_000

    def __init__(self, script):
        self.script = list(script)
        self.problem = None
        self.is_closed = False

    def read(self, timeout):
        """Follow the next item of the script; return no audio while the model has work."""
        if not timeout:
            return []
        if not self.script:
            return None
        item = self.script.pop(0)
        if isinstance(item, BaseException):
            raise item
        if item is None or isinstance(item, str):
            self.problem = item
            return []
        return [item if isinstance(item, Captured) else Captured(item)]

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.is_closed = True


@pytest.fixture
def microphone(monkeypatch):
    """Return a function that makes ``listen`` open a scripted microphone."""

    def install(script):
        # An array is cut into blocks as long as those of a device.
        is_audio = isinstance(script, np.ndarray)
        opened = ScriptedMicrophone(partition(script, 0.05) if is_audio else script)
        monkeypatch.setattr("wlk_live.microphone.find_device", lambda _name: {})
        monkeypatch.setattr("wlk_live.microphone.Microphone", lambda _device: opened)
        return opened

    return install


@pytest.fixture
def listen(command):
    """Return a function that listens without the voice detector: coded audio is not speech."""
    return lambda *arguments: command("listen", "--no-vad", *arguments)
