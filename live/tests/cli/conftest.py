"""The commands of wlk-live with one installed backend, and recordings that it can read."""

from __future__ import annotations

from importlib import metadata
import time
from types import SimpleNamespace

import numpy as np
import pytest

from wlk_conformance.testing import CodedToken, encode, partition
from wlk_live.microphone import Captured


@pytest.fixture(autouse=True)
def isolated(quiet_environment, own_signals):
    """Isolate every test from the user's settings and the signals of other tests."""


@pytest.fixture
def site(site):
    """Return a site with the backend "toy" and the commands of wlk-live."""
    site.install_toy()
    site.distributions.append(metadata.distribution("wlk-live"))
    return site


@pytest.fixture
def loud_is_speech(monkeypatch):
    """Let the voice detector find speech where there is any sound."""

    class Loudness:
        frame_samples = 512

        def __call__(self, frame):
            return float(np.abs(frame).max() > 0)

        def reset(self):
            pass

    monkeypatch.setattr("wlk_live.vad.gate.SileroDetector", Loudness)


@pytest.fixture
def transcribe(command):
    """Return a function that transcribes without the voice detector: coded audio is not speech."""
    return lambda *arguments: command("transcribe", "--no-vad", *arguments)


@pytest.fixture
def listen(command):
    """Return a function that listens without the voice detector: coded audio is not speech."""
    return lambda *arguments: command("listen", "--no-vad", *arguments)


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
    """Return a function that packs float32 samples into the bytes of a wav file, bit for bit.

    An array of two dimensions has a column for each channel.
    """

    def pack(audio):
        data = np.asarray(audio, dtype="<f4").tobytes()
        count = audio.shape[1] if audio.ndim > 1 else 1
        head = b"fmt " + (16).to_bytes(4, "little") + np.array([3, count], "<u2").tobytes()
        head += np.array([16_000, 64_000 * count], "<u4").tobytes()
        head += np.array([4 * count, 32], "<u2").tobytes()
        head += b"data" + len(data).to_bytes(4, "little")
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


@pytest.fixture
def sides(spoken):
    """Return the channels of a call: one says two digits, then the other three, then the first."""
    pause = np.zeros(3 * 16_000, np.float32)
    left = np.concatenate((spoken(1, 2), pause, pause, spoken(3)))
    right = np.concatenate((pause, spoken(4, 5, 6)))
    return left, np.pad(right, (0, len(left) - len(right)))


@pytest.fixture
def call(save, sides):
    """Return the recording of the call."""
    return save("call.wav", np.stack(sides, axis=1))


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
