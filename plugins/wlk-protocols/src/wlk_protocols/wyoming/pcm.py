"""Convert the audio of Wyoming's events to 16-bit samples of one channel at 16 kHz."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import PcmReader, Resampler
from wlk_serve.protocols import RequestError

if TYPE_CHECKING:
    from wlk_serve.protocols import Message

_RATES = (8_000, 192_000)  # lowest and highest, in samples per second
_MAX_CHANNELS = 8
_FULL_SCALE = 32_768  # of 16 bits
_WIDTHS = (1, 2, 3, 4)  # bytes per sample


@attrs.frozen(kw_only=True)
class AudioFormat:
    """
    The format of an event's audio: integers, of which those of one byte are unsigned, as in WAV.

    Attributes:
        rate: samples per second.
        width: bytes per sample.
        channels: number of interleaved channels.

    """

    rate: int = SAMPLE_RATE
    width: int = 2
    channels: int = 1

    def updated(self, fields: Message) -> AudioFormat:
        """
        Return the format with the values in the fields of an event.

        Raises:
            RequestError: a value is not a whole number, or out of range.

        """
        given: Any = {
            name: fields[name] for name in ("rate", "width", "channels") if name in fields
        }
        changed = attrs.evolve(self, **given)
        is_valid = all(type(value) is int for value in given.values())
        if not (
            is_valid
            and _RATES[0] <= changed.rate <= _RATES[1]
            and changed.width in _WIDTHS
            and 1 <= changed.channels <= _MAX_CHANNELS
        ):
            raise RequestError(
                f"expected a rate from {_RATES[0]} to {_RATES[1]} Hz, a width of 1 to 4 bytes and "
                f"at most {_MAX_CHANNELS} channels, got rate {changed.rate!r:.20}, width "
                f"{changed.width!r:.20}, channels {changed.channels!r:.20}",
                code="invalid_audio",
            )
        return changed


class AudioConverter:
    """Converts consecutive pieces of audio of one format."""

    def __init__(self, form: AudioFormat) -> None:
        self.format = form
        self._resampler = Resampler(form.rate)
        self._reader = PcmReader(rate=form.rate, channels=form.channels)

    def push(self, data: bytes) -> bytes:
        """
        Return the samples that are ready.

        Raises:
            RequestError: the data ends within a sample.
            AudioFormatError: it begins a recording, such as MP3.

        """
        if self.format.width == self._reader.sample_bytes:
            self._reader.check(data)
        if len(data) % (self.format.width * self.format.channels):
            raise RequestError(
                f"expected whole samples of {self.format.width} bytes in {self.format.channels} "
                f"channels, got {len(data)} bytes",
                code="invalid_audio",
            )
        if self.format == AudioFormat():
            return data
        return _encoded(self._resampler.push(self._samples(data)))

    def flush(self) -> bytes:
        """Return what resampling held back; the next push begins a new stream."""
        return _encoded(self._resampler.flush())

    def _samples(self, data: bytes) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the mean of all channels, in [-1, 1]."""
        width = self.format.width
        raw = np.frombuffer(data, np.uint8).reshape(-1, width)
        wide = np.zeros((len(raw), 4), np.uint8)  # the lower bytes of a shorter sample are 0
        wide[:, 4 - width :] = raw
        if width == 1:
            wide[:, 3] ^= 0x80
        samples = wide.view("<i4").reshape(-1, self.format.channels).astype(np.float32) / 2**31
        mean: np.ndarray[Any, np.dtype[np.float32]] = samples.mean(axis=1, dtype=np.float32)
        return mean


def _encoded(samples: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    scaled = np.rint(samples * _FULL_SCALE)
    encoded: bytes = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2").tobytes()
    return encoded
