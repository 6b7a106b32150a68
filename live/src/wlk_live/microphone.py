"""Capture audio from an input device, which is reopened when it is lost."""

from __future__ import annotations

from contextlib import suppress
import queue
import time
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_core.processor import SAMPLE_RATE
from wlk_live.errors import AudioDeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

_NO_DEVICE = (
    "there is no default microphone; connect one, choose one with --device, or play a file with "
    "--input FILE"
)
_BLOCK_SECONDS = 0.05
_REOPEN_SECONDS = 1.0  # between two attempts to reopen a lost device
_STALL_SECONDS = 3.0  # without a block until a device counts as lost; PulseAudio starts in 1.9 s
_SLEEP_SECONDS = 1.0  # a block delayed by more than this comes after a gap
_MAX_WAITING_BLOCKS = 2_400  # two minutes


@attrs.frozen
class Captured:
    """One channel of audio, int16 bytes or float32, and the seconds lost before it."""

    audio: bytes | NDArray[np.float32]
    lost_seconds: float = 0.0

    def pcm(self, rate: int) -> Iterator[bytes]:
        """Yield 16-bit samples at *rate* Hz: silence for what was lost, then the audio."""
        from wlk_live.audio import sample_bytes  # noqa: PLC0415 -- brings numpy

        lost = round(self.lost_seconds * rate)
        for start in range(0, lost, rate):  # a second at a time: a machine can sleep for hours
            yield bytes(sample_bytes("s16le") * min(rate, lost - start))
        audio = self.audio
        if not isinstance(audio, bytes):
            audio = (audio * 32_768).round().clip(-32_768, 32_767).astype("<i2").tobytes()
        yield audio


class Microphone:
    """
    Capture audio from an input device, named by its index or part of its name, until closed.

    Iterate over it for audio as `stream` accepts it, float32[n] at 16 kHz::

        with Microphone() as microphone:
            for event in stream(backend, microphone):
                print(event)

    PortAudio's thread only queues blocks, at most two minutes of them.  Lost audio (an overflow, a
    device that was unplugged for a while, a machine that slept) becomes a gap before the next
    block, measured with a clock that runs during sleep.

    Raises:
        AudioDeviceError: the device does not exist or cannot be opened.

    """

    def __init__(self, device: str | None = None) -> None:
        self._sounddevice = _import_sounddevice()
        self._device = find_device(device)
        self._blocks: queue.Queue[Captured] = queue.Queue(_MAX_WAITING_BLOCKS)
        self._is_closed = False
        self._dropped = 0  # samples that came while the queue was full
        self._last_block: float | None = None  # when the last block came
        self.problem: str | None = None  # why nothing is captured now
        self.rate = SAMPLE_RATE
        try:
            self._stream = self._open()
        except AudioDeviceError:
            own_rate = round(self._device["default_samplerate"])
            if own_rate == self.rate:
                raise
            self.rate = own_rate  # some devices support no other; the session resamples
            self._stream = self._open()
        self._opened = _time_with_sleep()

    def read(self, timeout: float) -> list[Captured]:
        """
        Return what was captured, waiting up to *timeout* seconds for the first block.

        A lost device is reopened, with one attempt a second; until then `problem` describes it.
        """
        captured = []
        try:
            captured.append(self._blocks.get(timeout > 0, timeout))
            while True:
                captured.append(self._blocks.get_nowait())
        except queue.Empty:
            if not captured:
                self._reopen_if_lost()
        return captured

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield audio until the device is closed, with silence for what was not captured."""
        from wlk_live.audio import PcmReader, Resampler  # noqa: PLC0415 -- brings numpy

        reader, resampler = PcmReader(), Resampler(self.rate)
        while not self._is_closed:
            for captured in self.read(_REOPEN_SECONDS):
                for piece in captured.pcm(self.rate):
                    yield resampler.push(reader.read(piece))

    def close(self) -> None:
        """Release the device; may be called again."""
        self._is_closed = True
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _append(self, block: Any, samples: int, _times: Any, status: Any) -> None:
        # Called by PortAudio's thread, which must not wait.
        now, audio = _time_with_sleep(), bytes(block)
        # A stream begins with its first block, however late that is.
        late = 0.0 if self._last_block is None else now - self._last_block - samples / self.rate
        is_gap = late > (0 if status.input_overflow else _SLEEP_SECONDS)
        lost = self._dropped + (round(late * self.rate) if is_gap else 0)
        self._last_block = now
        self.problem = None
        try:
            self._blocks.put_nowait(Captured(audio, lost / self.rate))
            self._dropped = 0
        except queue.Full:
            self._dropped = lost + samples

    def _open(self) -> Any:
        name = self._device["name"]
        stream: Any = None
        try:
            stream = self._sounddevice.RawInputStream(
                samplerate=self.rate,
                blocksize=round(_BLOCK_SECONDS * self.rate),
                device=self._device["index"],
                channels=1,
                dtype="int16",
                callback=self._append,
            )
            stream.start()
        except (self._sounddevice.PortAudioError, ValueError) as error:
            if stream is not None:
                stream.close()
            raise AudioDeviceError(
                f"{name} cannot be opened at {self.rate} Hz: {error}; close the program that "
                "uses it, or choose another device with --device"
            ) from error
        return stream

    def _reopen_if_lost(self) -> None:
        now = _time_with_sleep()
        silent = now - max(self._opened, self._last_block or self._opened)
        if silent < (_STALL_SECONDS if self._stream.active else _REOPEN_SECONDS):
            return
        name = self._device["name"]
        self.problem = f"{name} gives no audio; connect it again, or choose another with --device"
        self._stream.close()
        self._opened = now
        try:
            # PortAudio lists devices only when it is initialised.  A device that was plugged in
            # again is not in that list, or has another index (python-sounddevice issue 125).
            with suppress(self._sounddevice.PortAudioError):  # the last attempt may have failed
                self._sounddevice._terminate()  # noqa: SLF001 -- there is no public call
            self._sounddevice._initialize()  # noqa: SLF001 -- as above
            same = [device for device in input_devices() if device["name"] == name]
            if same:
                index = self._device["index"]
                self._device = min(same, key=lambda device: abs(device["index"] - index))
                self._stream = self._open()
            else:
                self.problem = f"{name} is gone; connect it again"
        except (AudioDeviceError, self._sounddevice.PortAudioError) as error:
            self.problem = str(error)


def input_devices() -> list[dict[str, Any]]:
    """
    Return sounddevice's descriptions of the devices that can record, each with "is_default".

    Raises:
        AudioDeviceError: they cannot be listed, or sounddevice or PortAudio is not installed.

    """
    sounddevice = _import_sounddevice()
    try:
        default = sounddevice.default.device[0]
        devices = list(sounddevice.query_devices())
    except sounddevice.PortAudioError as error:
        raise AudioDeviceError(f"the devices cannot be listed: {error}") from error
    return [
        device | {"is_default": device["index"] == default}
        for device in devices
        if device["max_input_channels"] > 0
    ]


def find_device(name: str | None) -> dict[str, Any]:
    """
    Return sounddevice's description of device *name*, a name or an index; None is the default.

    Raises:
        AudioDeviceError: no device, or more than one, has that name; or as `input_devices`.

    """
    sounddevice = _import_sounddevice()
    query = int(name) if name is not None and name.isdecimal() else name
    try:
        device: dict[str, Any] = sounddevice.query_devices(query, "input")
    except (sounddevice.PortAudioError, ValueError) as error:
        message = _NO_DEVICE if name is None else " ".join(str(error).split())
        raise AudioDeviceError(
            f"{message}; list the microphones with: wlk-core listen --list-devices"
        ) from error
    return device


def _import_sounddevice() -> Any:
    try:
        import sounddevice  # type: ignore[import-untyped]  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise AudioDeviceError(
            "a microphone needs the package sounddevice; run: pip install 'wlk-live[mic]'"
        ) from error
    except OSError as error:
        raise AudioDeviceError(
            f"PortAudio is not installed ({error}); run: apt install libportaudio2, or: "
            "dnf install portaudio"
        ) from error
    return sounddevice


def _time_with_sleep() -> float:
    # time.monotonic() stops during sleep on Linux and macOS; on macOS CLOCK_MONOTONIC does not.
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if hasattr(time, name):
            return time.clock_gettime(getattr(time, name))
    return time.monotonic()
