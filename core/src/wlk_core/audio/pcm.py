"""Live sources of any common form to float32 at 16 kHz."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np

from wlk_core.audio.convert import ValidAudio, sealed, to_float32, validate_audio
from wlk_core.audio.resample import Resampler
from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from numpy.typing import NDArray

__all__ = [
    "Audio",
    "Encoding",
    "PcmConverter",
    "require_rate",
]

Audio: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.generic]"
Encoding: TypeAlias = Literal["s16le", "f32le", "mulaw", "alaw"]  # FFmpeg's names
_RATES = (8_000, 192_000)  # samples a second, telephones to studio interfaces

_SAMPLE_TYPES: dict[Encoding, np.dtype[np.generic]] = {
    "s16le": np.dtype("<i2"),
    "f32le": np.dtype("<f4"),
    "mulaw": np.dtype(np.uint8),
    "alaw": np.dtype(np.uint8),
}


@cache
def _table(encoding: Encoding) -> NDArray[np.float32]:
    """Return the sample in [-1, 1] of each of the 256 codes of G.711."""
    from av import CodecContext, Packet  # noqa: PLC0415 -- loads the FFmpeg libraries

    codec = cast("AudioCodecContext", CodecContext.create(f"pcm_{encoding}", "r"))
    codec.sample_rate, codec.layout = _RATES[0], "mono"
    (frame,) = codec.decode(Packet(bytes(range(256))))
    return to_float32(frame.to_ndarray().reshape(-1))


class PcmConverter:
    """
    Convert one live source of one channel, piece by piece, to float32 at 16 kHz.

    Bytes are samples of `encoding`: "s16le", "f32le", or G.711 "mulaw" and "alaw".  They may be cut
    anywhere, inside a sample too.  Arrays, float[n] or int[n], have a sample type of their own, see
    `to_float32`.  A piece that is refused changes nothing.

    Raises:
        AudioFormatError: an unknown encoding, or a rate out of range.

    """

    def __init__(self, *, encoding: Encoding = "s16le", rate: int = SAMPLE_RATE) -> None:
        if encoding not in get_args(Encoding):
            raise AudioFormatError(
                f"expected an encoding among {', '.join(get_args(Encoding))}, got {encoding!r}"
            )
        self.encoding: Encoding = encoding
        self.rate = require_rate(rate)
        self._resampler = Resampler(self.rate)
        self._rest = b""  # the bytes of an incomplete sample

    def push(self, audio: Audio) -> ValidAudio:
        """
        Append a piece of any length; return what is ready, float32[m] with m >= 0, a copy.

        Audio that is valid already and has the form of a stream is returned as it is.

        Raises:
            AudioFormatError: another type or shape, NaN or infinity.

        """
        rest = b""
        samples: NDArray[np.generic]
        if isinstance(audio, np.ndarray):
            if isinstance(audio, ValidAudio) and self.rate == SAMPLE_RATE:
                return audio
            samples = audio
        elif isinstance(audio, bytes | bytearray | memoryview):
            data = self._rest + bytes(audio)
            dtype = _SAMPLE_TYPES[self.encoding]
            whole = len(data) - len(data) % dtype.itemsize
            rest = data[whole:]
            samples = np.frombuffer(data[:whole], dtype)
            if dtype == np.uint8:
                samples = _table(self.encoding)[samples]
        else:
            raise AudioFormatError(
                f"expected bytes or a numpy array of samples, got {type(audio).__name__}"
            )
        converted = to_float32(samples)
        validate_audio(converted)
        self._rest = rest
        return sealed(self._resampler.push(converted).copy())

    def flush(self) -> ValidAudio:
        """
        Return the samples that the change of rate holds back; the next push begins anew.

        The bytes of an incomplete last sample are dropped.
        """
        self._rest = b""
        return sealed(self._resampler.flush().copy())


def require_rate(rate: object) -> int:
    """Return the sample rate of a source in Hz; raise AudioFormatError for an impossible one."""
    if not isinstance(rate, int | np.integer) or not _RATES[0] <= rate <= _RATES[1]:
        raise AudioFormatError(
            f"expected a sample rate from {_RATES[0]} to {_RATES[1]} Hz, got {shown(rate)}"
        )
    return int(rate)
