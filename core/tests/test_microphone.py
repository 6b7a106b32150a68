"""A microphone: devices, rates, and audio that is lost, with a scripted audio system."""

from __future__ import annotations

from itertools import islice
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from wlk_core import AudioDeviceError
from wlk_core.microphone import InputDevice, Microphone, SoundDevice

USB = InputDevice(index=2, name="USB Audio", rate=48_000, is_default=False)
BUILT_IN = InputDevice(index=0, name="Built-in Microphone", rate=44_100, is_default=True)


class ScriptedStream:
    """An open stream."""

    def __init__(self):
        self.active = True

    def close(self):
        """Stop it."""
        self.active = False


class ScriptedDriver:
    """An audio system whose devices accept some rates and can be unplugged."""

    def __init__(self, devices=(BUILT_IN, USB), rates=(16_000, 44_100, 48_000)):
        self._devices = list(devices)
        self.rates = set(rates)
        self.is_unplugged = False
        self.plugged = None  # the devices after a refresh, where others are plugged in
        self.opened = []
        self.on_block = None

    def devices(self):
        """Return the devices."""
        return self._devices

    def refresh(self):
        """List the devices that are plugged in now."""
        assert not self.stream.active
        if self.plugged is not None:
            self._devices = self.plugged

    def open(self, device, rate, on_block):
        """Open a device."""
        if self.is_unplugged or rate not in self.rates:
            raise AudioDeviceError(f"{device.name} cannot be opened at {rate} Hz: scripted")
        self.on_block = on_block
        self.opened.append((device.name, rate))
        self.stream = ScriptedStream()
        return self.stream


class Clock:
    """A clock whose seconds a test sets."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        """Return the time."""
        return self.seconds


@pytest.fixture
def driver():
    """Return an audio system."""
    return ScriptedDriver()


@pytest.fixture
def clock():
    """Return a clock."""
    return Clock()


def capture(driver, clock, seconds=0.05, *, late=0.0, has_lost=False, rate=16_000):
    """Let a block come."""
    clock.seconds += seconds + late
    driver.on_block(b"\0\0" * round(seconds * rate), has_lost)


def test_blocks_come_in_their_order_without_gaps(driver, clock):
    """Jitter of half a second is not a gap."""
    microphone = Microphone(driver=driver, now=clock)
    for late in (1.9, 0.0, 0.5, 0.0):  # PulseAudio begins late
        capture(driver, clock, late=late)
    captured = microphone.read(0)

    assert ("Built-in Microphone", 16_000) == driver.opened[0]
    assert [0.0] * 4 == [block.lost_seconds for block in captured]
    assert 4 * 1_600 == sum(len(block.audio) for block in captured)
    assert [] == microphone.read(0)


def test_a_microphone_is_a_source_of_chunks_at_16_khz(clock):
    """Audio of another rate is resampled, and what was lost is silence of the same length."""
    driver = ScriptedDriver(rates={44_100})
    with Microphone(driver=driver, now=clock) as microphone:
        capture(driver, clock, rate=44_100)
        capture(driver, clock, late=2.5, rate=44_100)
        chunks = list(islice(microphone, 5))

    assert {np.dtype(np.float32)} == {chunk.dtype for chunk in chunks}
    assert 2.6 == pytest.approx(sum(map(len, chunks)) / 16_000, abs=0.01)
    assert [] == list(microphone)


def test_an_overflow_is_a_gap_of_the_time_that_is_missing(driver, clock):
    """The clock of the stream does not drift."""
    microphone = Microphone(driver=driver, now=clock)
    capture(driver, clock)
    capture(driver, clock, late=0.3, has_lost=True)
    first, second = microphone.read(0)

    assert 0 == first.lost_seconds
    assert 0.3 == pytest.approx(second.lost_seconds)


def test_a_device_that_was_lost_is_opened_again(driver, clock):
    """Its problem is described, and the time without it is a gap."""
    microphone = Microphone(driver=driver, now=clock)
    capture(driver, clock)
    microphone.read(0)
    driver.stream.active = False
    driver.is_unplugged = True
    for _ in range(5):
        clock.seconds += 1.0
        assert [] == microphone.read(0)
    problem = microphone.problem
    driver.is_unplugged = False
    clock.seconds += 1.0
    microphone.read(0)
    capture(driver, clock)
    (block,) = microphone.read(0)

    assert "Built-in Microphone cannot be opened" in problem
    assert microphone.problem is None
    assert 6.0 == pytest.approx(block.lost_seconds)
    assert 2 == len(driver.opened)


def test_a_device_that_is_plugged_in_again_is_found_under_its_new_index(driver, clock):
    """The list of devices is read again; a device with the same name is the same device."""
    microphone = Microphone("usb", driver=driver, now=clock)
    capture(driver, clock)
    microphone.read(0)
    driver.stream.active = False
    driver.plugged = [BUILT_IN]
    clock.seconds += 1.0
    microphone.read(0)
    problem = microphone.problem
    again = InputDevice(index=5, name="USB Audio", rate=48_000, is_default=True)
    driver.plugged = [BUILT_IN, again]
    clock.seconds += 1.0
    microphone.read(0)
    capture(driver, clock)

    assert "USB Audio is gone; connect it again" == problem
    assert again == microphone.device
    assert ["USB Audio", "USB Audio"] == [name for name, _ in driver.opened]
    assert 2.0 == pytest.approx(microphone.read(0)[0].lost_seconds)


class PortAudio:
    """The part of sounddevice that lists devices; PortAudio lists them at its start."""

    class PortAudioError(Exception):
        """An error of PortAudio."""

    def __init__(self):
        self.plugged = ["Built-in Microphone"]
        self.default = SimpleNamespace(device=(0, 0))
        self.fails = False
        self._listed = None
        self._initialize()

    def _initialize(self):
        if self.fails:
            raise self.PortAudioError("no sound server")
        self._listed = list(self.plugged)

    def _terminate(self):
        if self._listed is None:
            raise self.PortAudioError("not initialised")
        self._listed = None

    def query_devices(self):
        """Return what was plugged in at the start."""
        return [
            {"name": name, "default_samplerate": 48_000.0, "max_input_channels": 1}
            for name in self._listed
        ]


def test_portaudio_looks_for_devices_again(monkeypatch):
    """Also after an attempt that failed, because the sound server was restarted."""
    portaudio = PortAudio()
    monkeypatch.setitem(sys.modules, "sounddevice", portaudio)
    driver = SoundDevice()
    portaudio.plugged = ["Built-in Microphone", "USB Audio"]
    stale = [device.name for device in driver.devices()]
    portaudio.fails = True
    with pytest.raises(AudioDeviceError, match="the devices cannot be listed: no sound server"):
        driver.refresh()
    portaudio.fails = False
    driver.refresh()

    assert ["Built-in Microphone"] == stale
    assert portaudio.plugged == [device.name for device in driver.devices()]


def test_a_device_that_stays_silent_without_an_error_is_opened_again(driver, clock):
    """Some systems stop to call back and report nothing."""
    microphone = Microphone(driver=driver, now=clock)
    capture(driver, clock)
    microphone.read(0)
    clock.seconds += 4.0
    microphone.read(0)

    assert "gives no audio" in microphone.problem
    assert 2 == len(driver.opened)


def test_what_waits_is_bounded_and_the_rest_is_a_gap(driver, clock):
    """A program that does not read for ten minutes keeps two of them."""
    microphone = Microphone(driver=driver, now=clock)
    for _ in range(10 * 60 * 20):
        capture(driver, clock)
    kept = microphone.read(0)
    capture(driver, clock)
    (following,) = microphone.read(0)

    assert 2_400 == len(kept)
    assert 480.0 == following.lost_seconds


@pytest.mark.parametrize(
    ("name", "chosen"),
    [(None, BUILT_IN), ("2", USB), ("usb", USB), ("Built-in Microphone", BUILT_IN)],
)
def test_a_device_is_chosen_by_index_or_part_of_its_name(name, chosen, driver):
    """Without a name it is the default one."""
    assert chosen == Microphone(name, driver=driver).device


@pytest.mark.parametrize(
    ("name", "devices", "match"),
    [
        ("radio", (BUILT_IN, USB), "no device matches 'radio'; choose one of: 0 Built-in"),
        ("u", (BUILT_IN, USB), "several devices match 'u'"),
        (None, (), "no device can record; connect a microphone"),
    ],
)
def test_a_device_that_is_not_there_is_one_line_with_the_others(name, devices, match):
    """The message lists what can be chosen."""
    with pytest.raises(AudioDeviceError, match=match):
        Microphone(name, driver=ScriptedDriver(devices))


@pytest.mark.parametrize(
    ("failure", "match"),
    [
        (ImportError("no module"), r"pip install 'wlk-core\[mic\]'"),
        (OSError("PortAudio library not found"), "apt install libportaudio2"),
    ],
)
def test_an_absent_library_is_one_line_with_the_command(failure, match, monkeypatch):
    """Package and system library have their own lines."""

    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == "sounddevice":
                raise failure

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)

    with pytest.raises(AudioDeviceError, match=match):
        SoundDevice()
