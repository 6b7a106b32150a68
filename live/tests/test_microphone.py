"""A microphone with a scripted PortAudio: devices, rates, and lost audio."""

from __future__ import annotations

from itertools import islice
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from wlk_live import AudioDeviceError, microphone
from wlk_live.microphone import Microphone, find_device, input_devices


def device_of(index, name, rate, inputs=1):
    """Return a device as sounddevice describes it."""
    return {
        "index": index,
        "name": name,
        "default_samplerate": float(rate),
        "max_input_channels": inputs,
    }


BUILT_IN = device_of(0, "Built-in Microphone", 44_100)
USB = device_of(2, "USB Audio", 48_000)


class PortAudio:
    """The part of sounddevice that is used; PortAudio lists devices only when initialised."""

    class PortAudioError(Exception):
        """An error of PortAudio."""

    def __init__(self):
        self.plugged = [BUILT_IN, device_of(1, "Speaker", 48_000, inputs=0), USB]
        self.default = SimpleNamespace(device=(0, 1))
        self.rates = {16_000, 44_100, 48_000}
        self.fails = False
        self.opened = []
        self._listed = None
        self._initialize()

    def _initialize(self):
        if self.fails:
            raise self.PortAudioError("no sound server")
        self._listed = list(self.plugged)

    def _terminate(self):
        assert not self.opened or not self.stream.active
        if self._listed is None:
            raise self.PortAudioError("not initialised")
        self._listed = None

    def query_devices(self, device=None, kind=None):
        """Return what was plugged in at the start, or the one device that matches."""
        if kind is None:
            return self._listed
        named = [each for each in self._listed if str(device).lower() in each["name"].lower()]
        if device is None or isinstance(device, int):
            index = self.default.device[0] if device is None else device
            named = [each for each in self._listed if each["index"] == index]
        if not named:
            raise self.PortAudioError(f"Error querying device {device}")
        if len(named) > 1:
            raise ValueError(f"Multiple input devices found for {device!r}:\n[0] Built-in")
        return named[0]

    def RawInputStream(self, *, samplerate, device, callback, **_others):  # noqa: N802 -- its name
        """Open a stream, which starts at once."""
        if samplerate not in self.rates:
            raise self.PortAudioError("Invalid sample rate")
        (found,) = (each for each in self._listed if each["index"] == device)
        self.opened.append((found["name"], samplerate))
        self.callback = callback
        self.stream = SimpleNamespace(active=True, start=lambda: None, close=self.stop)
        return self.stream

    def stop(self):
        """Stop the stream."""
        self.stream.active = False


@pytest.fixture(autouse=True)
def portaudio(monkeypatch):
    """Return the scripted audio system, which replaces sounddevice."""
    system = PortAudio()
    monkeypatch.setitem(sys.modules, "sounddevice", system)
    return system


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Return the clock of the microphone, which a test sets."""
    clock = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(microphone, "_time_with_sleep", lambda: clock.seconds)
    return clock


@pytest.fixture
def capture(portaudio, clock):
    """Return a function that delivers a block."""

    def come(seconds=0.05, *, late=0.0, has_lost=False, rate=16_000):
        clock.seconds += seconds + late
        status = SimpleNamespace(input_overflow=has_lost)
        samples = round(seconds * rate)
        portaudio.callback(b"\0\0" * samples, samples, None, status)

    return come


def test_blocks_come_in_their_order_without_gaps(portaudio, capture):
    """Jitter of half a second is not a gap."""
    device = Microphone()
    for late in (1.9, 0.0, 0.5, 0.0):  # PulseAudio starts late
        capture(late=late)
    captured = device.read(0)

    assert portaudio.opened == [("Built-in Microphone", 16_000)]
    assert [block.lost_seconds for block in captured] == [0.0] * 4
    assert sum(len(block.audio) for block in captured) == 4 * 1_600
    assert device.read(0) == []


def test_a_microphone_is_a_source_of_chunks_at_16_khz(portaudio, capture):
    """Audio at another rate is resampled, and lost audio becomes silence of the same length."""
    portaudio.rates = {44_100}
    with Microphone() as device:
        capture(rate=44_100)
        capture(late=2.5, rate=44_100)
        chunks = list(islice(device, 5))

    assert {chunk.dtype for chunk in chunks} == {np.dtype(np.float32)}
    assert sum(map(len, chunks)) / 16_000 == pytest.approx(2.6, abs=0.01)
    assert list(device) == []


def test_an_overflow_is_a_gap_of_the_time_that_is_missing(capture):
    """The clock of the stream does not drift."""
    device = Microphone()
    capture()
    capture(late=0.3, has_lost=True)
    first, second = device.read(0)

    assert first.lost_seconds == 0
    assert second.lost_seconds == pytest.approx(0.3)


def test_a_device_that_was_lost_is_opened_again(portaudio, clock, capture):
    """`problem` describes the loss, and the time without the device is a gap."""
    device = Microphone()
    capture()
    device.read(0)
    portaudio.stop()
    portaudio.rates = set()
    for _ in range(5):
        clock.seconds += 1.0
        assert device.read(0) == []
    problem = device.problem
    portaudio.rates = {16_000}
    clock.seconds += 1.0
    device.read(0)
    capture()
    (block,) = device.read(0)

    assert "Built-in Microphone cannot be opened at 16000 Hz: Invalid sample rate" in problem
    assert device.problem is None
    assert block.lost_seconds == pytest.approx(6.0)
    assert len(portaudio.opened) == 2


def test_a_device_that_is_plugged_in_again_is_found_under_its_new_index(portaudio, clock, capture):
    """The sound server may be down meanwhile; a device with the same name is the same device."""
    device = Microphone("usb")
    capture()
    device.read(0)
    portaudio.stop()
    problems = []
    again = device_of(5, "USB Audio", 48_000)
    for plugged, fails in (([BUILT_IN], False), ([], True), ([BUILT_IN, again], False)):
        portaudio.plugged, portaudio.fails = plugged, fails
        clock.seconds += 1.0
        device.read(0)
        problems.append(device.problem)
    capture()

    assert problems[:2] == ["USB Audio is gone; connect it again", "no sound server"]
    assert portaudio.opened == [("USB Audio", 16_000)] * 2
    assert device.read(0)[0].lost_seconds == pytest.approx(3.0)


def test_a_device_that_stays_silent_without_an_error_is_opened_again(portaudio, clock, capture):
    """Some systems stop calling back without reporting an error."""
    device = Microphone()
    capture()
    device.read(0)
    clock.seconds += 4.0
    device.read(0)

    assert "gives no audio" in device.problem
    assert len(portaudio.opened) == 2


def test_what_waits_is_bounded_and_the_rest_is_a_gap(capture):
    """A program that does not read for ten minutes finds two minutes of audio."""
    device = Microphone()
    for _ in range(10 * 60 * 20):
        capture()
    kept = device.read(0)
    capture()
    (following,) = device.read(0)

    assert len(kept) == 2_400
    assert following.lost_seconds == 480.0


@pytest.mark.parametrize(("name", "chosen"), [(None, BUILT_IN), ("2", USB), ("usb", USB)])
def test_a_device_is_chosen_by_index_or_part_of_its_name(name, chosen):
    """Without a name, the default device is chosen."""
    assert find_device(name) == chosen


def test_devices_that_can_record_are_listed(portaudio):
    """Only inputs are listed, and the default is marked; AudioDeviceError if that fails."""
    listed = input_devices()
    portaudio.query_devices = portaudio._initialize
    portaudio.fails = True

    assert [(device["name"], device["is_default"]) for device in listed] == [
        ("Built-in Microphone", True),
        ("USB Audio", False),
    ]
    with pytest.raises(AudioDeviceError, match="the devices cannot be listed: no sound server"):
        input_devices()


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("radio", "^Error querying device radio; list the microphones with: wlk-core listen --l"),
        ("u", r"^Multiple input devices found for 'u': \[0\] Built-in; list the microphones with"),
        (None, "^there is no default microphone; connect one, choose one with --device, or"),
    ],
)
def test_a_missing_device_is_reported_in_one_line(portaudio, name, match):
    """The message says how to list the available devices."""
    portaudio.default.device = (-1, -1)
    with pytest.raises(AudioDeviceError, match=match):
        Microphone(name)


@pytest.mark.parametrize(
    ("failure", "match"),
    [
        (ImportError("no module"), r"pip install 'wlk-live\[mic\]'"),
        (OSError("PortAudio library not found"), "apt install libportaudio2"),
    ],
)
def test_a_missing_library_is_reported_with_the_install_command(failure, match, monkeypatch):
    """A missing package and a missing system library have messages of their own."""

    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == "sounddevice":
                raise failure

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)

    with pytest.raises(AudioDeviceError, match=match):
        input_devices()
