"""
Decode WebM from a browser's MediaRecorder while it arrives.

The formats are specified in RFC 8794 (EBML), RFC 9559 (Matroska) and RFC 7845 (Opus).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np

from wlk_live.audio import Resampler
from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DAMAGED_AUDIO = "invalid_audio"  #: code of the error after which nothing more can be decoded

WEBM_START = b"\x1aE\xdf\xa3"  #: the first bytes of a WebM recording

# Element identifiers.  Parents are descended into; elements that are not named here are skipped.
_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE
_CLUSTER, _BLOCK_GROUP = 0x1F43B675, 0xA0
_PARENTS = {_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY, _CLUSTER, _BLOCK_GROUP}
_TIMESTAMP_SCALE, _TRACK_NUMBER, _CODEC, _CODEC_PRIVATE = 0x2AD7B1, 0xD7, 0x86, 0x63A2
_CLUSTER_TIMESTAMP, _SIMPLE_BLOCK, _BLOCK = 0xE7, 0xA3, 0xA1
_NUMBERS = {_TIMESTAMP_SCALE, _TRACK_NUMBER, _CLUSTER_TIMESTAMP}
_BLOCKS = {_SIMPLE_BLOCK, _BLOCK}
_LEAVES = _NUMBERS | _BLOCKS | {_CODEC, _CODEC_PRIVATE}

_OPUS_RATE = 48_000
_LACING = 0x06  # flag bits of a block with several packets, which recorders do not write
_MAX_LEAF = 1 << 20  # bytes: far more than an Opus packet has
_JITTER = 0.05  # seconds by which a recorder's clock wanders
_MAX_SAMPLES = 120 * _OPUS_RATE  # per message: 2 minutes, far more than a recorder sends at once
_MAX_ELEMENTS = 20_000  # per message: 2 minutes of packets of 20 ms, each in a group of three
#: Elements per piece.  Decoding the packets of a piece takes 3 ms at most, whatever it weighs.
_PIECE_ELEMENTS = 32
_MAX_GAP = 30.0  # seconds; a longer one means that the recorder's clock was reset


class WebmDecoder:
    """
    Decodes the Opus track of a recording piece by piece; a plain object without I/O.

    FFmpeg's demuxer blocks until it has read a packet, and the client may not have sent it yet.  So
    this class finds the packets and FFmpeg only decodes them.  Gaps between the times of blocks
    become silence.

    Args:
        samples: which samples the protocol takes instead, for the error about another format.

    """

    def __init__(self, *, samples: str = "16-bit samples") -> None:
        self._samples_instead = samples
        self._data = bytearray()  # received and not parsed yet
        self._has_begun = False
        self._skipped = 0  # bytes left to skip of an element that is not read
        self._numbers = {_TIMESTAMP_SCALE: 1_000_000, _TRACK_NUMBER: 0, _CLUSTER_TIMESTAMP: 0}
        self._track: int | None = None  # number of the Opus track
        self._opus_head = b""  # codec parameters of the first Opus track
        self._codec: av.AudioCodecContext | None = None
        self._resampler = Resampler(_OPUS_RATE)
        self._origin = 0.0  # recording time of the first sample, in seconds
        self._samples = 0  # since the origin, at 48 kHz

    def decode(self, data: bytes) -> Iterator[bytes]:
        """
        Return the samples that *data* completes, in pieces: 16 bits, 16 kHz, one channel.

        Each piece is decoded when it is taken, and may be empty.  What a message costs does not
        follow from its size: 180 kB can hold 20,000 packets.  Samples before a damaged part are
        yielded before the error.

        Raises:
            RequestError: the recording is damaged, or has no Opus track; at once if it is of
                another format.

        """
        self._data += data
        if not self._has_begun:
            if not WEBM_START.startswith(self._data[: len(WEBM_START)]):
                raise _refused("another format", f", or {self._samples_instead}")
            self._has_begun = len(self._data) >= len(WEBM_START)
        return self._pieces()

    def _pieces(self) -> Iterator[bytes]:
        sound: list[NDArray[np.float32]] = []
        first, failure = self._samples, None
        try:
            for number, (element, content) in enumerate(self._elements(), 1):
                if element in _BLOCKS:
                    sound += self._decode_block(content)
                    if self._samples - first > _MAX_SAMPLES:
                        raise _refused("more than two minutes of sound in one message")
                elif element in _LEAVES:
                    self._read_header(element, content)
                if number % _PIECE_ELEMENTS == 0:
                    yield self._resampled(sound)
                    sound = []
        except RequestError as error:
            failure = error
        except (av.FFmpegError, ValueError, IndexError) as error:
            failure = _refused(f"damaged data ({error})")
        yield self._resampled(sound)
        if failure is not None:
            raise failure

    def _elements(self) -> Iterator[tuple[int, bytes]]:
        """Yield the identifier of each element, with its content if it is in `_LEAVES`."""
        for _ in range(_MAX_ELEMENTS):
            skipped = min(self._skipped, len(self._data))
            del self._data[:skipped]
            self._skipped -= skipped
            if (header := _element_header(self._data)) is None:
                return
            element, size, start = header
            end = start  # parents are entered: their sizes are unknown during recording
            if element in _LEAVES:
                if size > (8 if element in _NUMBERS else _MAX_LEAF):
                    raise ValueError(f"an element of {size:,} bytes")
                end = start + size
                if len(self._data) < end:
                    return
            elif element not in _PARENTS:
                self._skipped = size
            content = bytes(self._data[start:end])
            del self._data[:end]
            yield element, content
        raise ValueError(f"more than {_MAX_ELEMENTS:,} elements in one message")

    def _read_header(self, element: int, content: bytes) -> None:
        """Store an element that describes blocks."""
        if element in _NUMBERS:
            self._numbers[element] = int.from_bytes(content)
        elif element == _CODEC_PRIVATE:
            if content.startswith(b"OpusHead"):  # a video track has other codec data
                self._opus_head = self._opus_head or content
        elif self._track is None and content == b"A_OPUS":
            self._track = self._numbers[_TRACK_NUMBER]

    def _decode_block(self, block: bytes) -> list[NDArray[np.float32]]:
        """Return the sound of a block at 48 kHz, after the silence before it."""
        width = 9 - block[0].bit_length()
        track = int.from_bytes(block[:width]) - (1 << 7 * width)
        if self._track is None:
            raise _refused("no Opus track")
        if track != self._track:
            return []  # a block of video
        if block[width + 2] & _LACING:
            raise _refused("several packets in a block")
        units = int.from_bytes(block[width : width + 2], signed=True)
        units += self._numbers[_CLUSTER_TIMESTAMP]
        silence = self._gap(units * self._numbers[_TIMESTAMP_SCALE] / 1e9)
        if self._codec is None:
            self._codec = av.AudioCodecContext.create("opus", "r")
            self._codec.extradata = self._opus_head
        frames = self._codec.decode(av.Packet(block[width + 3 :]))
        self._samples += sum(frame.samples for frame in frames)
        return [silence, *(frame.to_ndarray().mean(axis=0) for frame in frames)]

    def _resampled(self, sound: list[NDArray[np.float32]]) -> bytes:
        if not sound:
            return b""
        samples = self._resampler.push(np.concatenate(sound)) * 32_768
        pcm: bytes = np.clip(np.rint(samples), -32_768, 32_767).astype("<i2").tobytes()
        return pcm

    def _gap(self, time: float) -> NDArray[np.float32]:
        """Return silence up to the *time* of a block, in seconds of recording time."""
        missing = time - self._origin - self._samples / _OPUS_RATE
        samples = 0
        if not self._samples or abs(missing) > _MAX_GAP:
            self._origin += missing
        elif missing > _JITTER:
            samples = round(missing * _OPUS_RATE)
        self._samples += samples
        return np.zeros(samples, np.float32)


def _element_header(data: bytearray) -> tuple[int, int, int] | None:
    """Return identifier, size and start of the content; None if more data is needed."""
    if not data:
        return None
    width = 9 - data[0].bit_length()  # in bytes: one more than the leading zeros of the first
    if width > 4:  # noqa: PLR2004
        raise ValueError(f"no element begins with {data[0]:#x}")
    if len(data) <= width:
        return None
    size_width = 9 - data[width].bit_length()
    if size_width > 8:  # noqa: PLR2004
        raise ValueError("a size of nine bytes")
    start = width + size_width
    if len(data) < start:
        return None
    size = int.from_bytes(data[width:start]) - (1 << 7 * size_width)
    return int.from_bytes(data[:width]), size, start


def _refused(found: str, instead: str = "") -> RequestError:
    return RequestError(
        f"expected WebM with Opus, as MediaRecorder writes it{instead}; got {found}",
        code=DAMAGED_AUDIO,
    )
