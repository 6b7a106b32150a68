"""Audio of live sources: raw bytes or arrays of any common form to float32 at 16 kHz."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard, cast, get_args

import numpy as np

from wlk_core.audio.convert import ValidAudio, sealed, to_float32, validate_audio
from wlk_core.audio.resample import Resampler
from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from numpy.typing import NDArray

__all__ = ["Audio", "Encoding", "PcmConverter", "require_rate"]

Audio: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.generic]"
Encoding: TypeAlias = Literal["s16le", "f32le", "mulaw", "alaw"]  # FFmpeg's names
RATES = (8_000, 192_000)  # samples a second, telephones to studio interfaces
MAX_CHANNELS = 64


@cache
def _table(encoding: Encoding) -> NDArray[np.float32]:
    """Return the sample in [-1, 1] of each of the 256 codes of G.711."""
    from av import CodecContext, Packet  # noqa: PLC0415 -- loads the FFmpeg libraries

    codec = cast("AudioCodecContext", CodecContext.create(f"pcm_{encoding}", "r"))
    codec.sample_rate, codec.layout = RATES[0], "mono"
    (frame,) = codec.decode(Packet(bytes(range(256))))
    return to_float32(frame.to_ndarray().reshape(-1))


_SAMPLE_TYPES: dict[Encoding, np.dtype[np.generic]] = {
    "s16le": np.dtype("<i2"),
    "f32le": np.dtype("<f4"),
    "mulaw": np.dtype(np.uint8),
    "alaw": np.dtype(np.uint8),
}


class PcmConverter:
    """
    Convert one live source, piece by piece, to one channel of float32 at 16 kHz.

    Bytes are samples of `encoding`: "s16le", "f32le", or G.711 "mulaw" and "alaw", channels
    interleaved.  They may be cut anywhere, inside a sample too.  Arrays have a sample type of their
    own, see `to_float32`, and the shape (n,) for one channel or (n, channels).  Channels are
    averaged.  A piece that is refused changes nothing.

    Raises:
        AudioFormatError: an unknown encoding, or a rate or number of channels out of range.

    """

    def __init__(
        self, *, encoding: Encoding = "s16le", rate: int = 16_000, channels: int = 1
    ) -> None:
        if encoding not in get_args(Encoding):
            raise AudioFormatError(
                f"expected an encoding among {', '.join(get_args(Encoding))}, got {encoding!r}"
            )
        if not _is_whole(channels) or not 1 <= channels <= MAX_CHANNELS:
            raise AudioFormatError(f"expected 1 to {MAX_CHANNELS} channels, got {channels!r}")
        self.encoding: Encoding = encoding
        self.rate = require_rate(rate)
        self.channels = int(channels)
        self._is_plain = self.rate == SAMPLE_RATE and self.channels == 1
        self._resampler = Resampler(self.rate)
        self._rest = b""  # the bytes of an incomplete sample of all channels

    def push(self, audio: Audio) -> ValidAudio:
        """
        Append a piece of any length; return what is ready, float32[m] with m >= 0, a copy.

        Audio that is valid already and has the form of a stream is returned as it is.

        Raises:
            AudioFormatError: another type or shape, NaN or infinity.

        """
        rest = b""
        frames: NDArray[np.generic]
        if isinstance(audio, np.ndarray):
            if isinstance(audio, ValidAudio) and self._is_plain:
                return audio
            if self._rest:
                raise AudioFormatError(
                    f"expected bytes, because {len(self._rest)} bytes of a sample came before, "
                    "got an array; give one source in one form"
                )
            self._require_shape(audio)
            frames = audio
        elif isinstance(audio, bytes | bytearray | memoryview):
            data = self._rest + bytes(audio)
            dtype = _SAMPLE_TYPES[self.encoding]
            whole = len(data) - len(data) % (dtype.itemsize * self.channels)
            rest = data[whole:]
            frames = np.frombuffer(data[:whole], dtype).reshape(-1, self.channels)
            if dtype == np.uint8:
                frames = _table(self.encoding)[frames]
        else:
            raise AudioFormatError(
                f"expected bytes or a numpy array of samples, got {type(audio).__name__}"
            )
        samples = to_float32(frames)
        if self.channels > 1:
            samples = samples.mean(axis=1, dtype=np.float32)
        samples = samples.reshape(-1)
        if frames.dtype.kind == "f":  # integers are scaled, and so they are in range
            validate_audio(samples)
        self._rest = rest
        if self.rate != SAMPLE_RATE:
            samples = self._resampler.push(samples)
        return sealed(samples.copy())

    def samples_of(self, audio: Audio) -> int:
        """Return about how many samples at 16 kHz *audio* becomes; `push` checks what it is."""
        length = int(getattr(audio, "__len__", int)())
        if not isinstance(audio, np.ndarray):
            length //= _SAMPLE_TYPES[self.encoding].itemsize * self.channels
        return length * SAMPLE_RATE // self.rate

    def flush(self) -> ValidAudio:
        """
        Return the samples that the change of rate holds back; the next push begins anew.

        The bytes of an incomplete last sample are dropped.
        """
        self._rest = b""
        return sealed(self._resampler.flush().copy())

    def _require_shape(self, audio: NDArray[np.generic]) -> None:
        if audio.shape[1:] == (self.channels,) or (audio.ndim == 1 and self.channels == 1):
            return
        shape = "(n,)" if self.channels == 1 else f"(n, {self.channels})"
        is_transposed = audio.ndim == 2 and audio.shape[0] == self.channels  # noqa: PLR2004
        raise AudioFormatError(
            f"expected samples of shape {shape}, got {audio.shape}; "
            + (
                "the channels come last: give samples.T"
                if is_transposed
                else "give the number of channels of the source when the session is opened"
            )
        )


def require_rate(rate: object) -> int:
    """Return the sample rate of a source in Hz; raise AudioFormatError for an impossible one."""
    if not _is_whole(rate) or not RATES[0] <= rate <= RATES[1]:
        raise AudioFormatError(
            f"expected a sample rate from {RATES[0]} to {RATES[1]} Hz, got {shown(rate)}"
        )
    return int(rate)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
