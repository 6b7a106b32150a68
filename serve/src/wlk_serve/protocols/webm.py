"""
Decode WebM from a browser's MediaRecorder while it arrives.

The formats are specified in RFC 8794 (EBML), RFC 9559 (Matroska) and RFC 7845 (Opus).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np

from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import Resampler
from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGED_AUDIO = "invalid_audio"  #: code of the error after which nothing more can be decoded

WEBM_START = b"\x1aE\xdf\xa3"  #: the first bytes of a WebM recording

# Element identifiers.  Parents are descended into; elements that are not named here are skipped.
_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE
_CLUSTER, _BLOCK_GROUP = 0x1F43B675, 0xA0
_PARENTS = {_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY, _CLUSTER, _BLOCK_GROUP}
_TIMESTAMP_SCALE, _TRACK_NUMBER, _CODEC, _CODEC_PRIVATE = 0x2AD7B1, 0xD7, 0x86, 0x63A2
_CLUSTER_TIMESTAMP, _SIMPLE_BLOCK, _BLOCK = 0xE7, 0xA3, 0xA1
_NUMBERS = {_TIMESTAMP_SCALE, _TRACK_NUMBER, _CLUSTER_TIMESTAMP}
_LEAVES = _NUMBERS | {_CODEC, _CODEC_PRIVATE, _SIMPLE_BLOCK, _BLOCK}

_OPUS_RATE = 48_000
_LACING = 0x06  # flag bits of a block with several packets, which recorders do not write
_MAX_LEAF = 1 << 20  # bytes: far more than an Opus packet has
_JITTER = 0.05  # seconds by which a recorder's clock wanders
_MAX_BYTES = 120 * 2 * SAMPLE_RATE  # of samples per message: decoding them blocks other sessions
_MAX_ELEMENTS = 60_000  # per message: more than 2 minutes of the shortest packets
_MAX_GAP = 30.0  # seconds; a longer one means that the recorder's clock was reset


class WebmDecoder:
    """
    Decodes the Opus track of a recording piece by piece; a plain object without I/O.

    FFmpeg's demuxer blocks until it has read a packet, and the client may not have sent it yet.  So
    this class finds the packets and FFmpeg only decodes them.  Gaps between the times of blocks
    become silence.
    """

    def __init__(self) -> None:
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
        Yield the samples that *data* completes: 16 bits, 16 kHz, one channel.

        Samples before a damaged part are yielded before the error.

        Raises:
            RequestError: the recording is damaged, or has no Opus track.

        """
        self._data += data
        if not self._has_begun:
            if not WEBM_START.startswith(self._data[: len(WEBM_START)]):
                raise _refused("another format")
            self._has_begun = len(self._data) >= len(WEBM_START)
        length = 0
        try:
            for element, content in self._leaves():
                if self._read_header(element, content):
                    continue
                samples = self._decode_block(content)
                length += len(samples)
                if length > _MAX_BYTES:
                    raise _refused("more than two minutes of sound in one message")
                yield samples
        except (av.FFmpegError, ValueError, IndexError) as error:
            raise _refused(f"damaged data ({error})") from error

    def _leaves(self) -> Iterator[tuple[int, bytes]]:
        """Yield the identifier and content of each complete element that is in `_LEAVES`."""
        for _ in range(_MAX_ELEMENTS):
            skipped = min(self._skipped, len(self._data))
            del self._data[:skipped]
            self._skipped -= skipped
            if (header := _element_header(self._data)) is None:
                return
            element, size, start = header
            if element in _PARENTS:  # their sizes are unknown during recording
                del self._data[:start]
            elif element not in _LEAVES:
                del self._data[:start]
                self._skipped = size
            elif size > (8 if element in _NUMBERS else _MAX_LEAF):
                raise ValueError(f"an element of {size:,} bytes")
            elif len(self._data) < start + size:
                return
            else:
                content = bytes(self._data[start : start + size])
                del self._data[: start + size]
                yield element, content
        raise ValueError(f"more than {_MAX_ELEMENTS:,} elements in one message")

    def _read_header(self, element: int, content: bytes) -> bool:
        """Store an element that describes blocks; return whether it was one."""
        if element in _NUMBERS:
            self._numbers[element] = int.from_bytes(content)
        elif element == _CODEC_PRIVATE:
            if content.startswith(b"OpusHead"):  # a video track has other codec data
                self._opus_head = self._opus_head or content
        elif element == _CODEC:
            if self._track is None and content == b"A_OPUS":
                self._track = self._numbers[_TRACK_NUMBER]
        else:
            return False
        return True

    def _decode_block(self, block: bytes) -> bytes:
        width = 9 - block[0].bit_length()
        track = int.from_bytes(block[:width]) - (1 << 7 * width)
        if self._track is None:
            raise _refused("no Opus track")
        if track != self._track:
            return b""  # a block of video
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
        resampled = [self._resampler.push(frame.to_ndarray().mean(axis=0)) for frame in frames]
        samples = np.concatenate([np.empty(0, np.float32), *resampled]) * 32_768
        pcm: bytes = np.clip(np.rint(samples), -32_768, 32_767).astype("<i2").tobytes()
        return silence + pcm

    def _gap(self, time: float) -> bytes:
        """Return silence up to the *time* of a block, in seconds of recording time."""
        missing = time - self._origin - self._samples / _OPUS_RATE
        if not self._samples or abs(missing) > _MAX_GAP:
            self._origin += missing
            return b""
        if missing <= _JITTER:
            return b""
        self._samples += round(missing * _OPUS_RATE)
        return bytes(2 * round(missing * SAMPLE_RATE))


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


def _refused(found: str) -> RequestError:
    return RequestError(
        f"expected WebM with Opus, as MediaRecorder writes it, or 16-bit samples; got {found}",
        code=DAMAGED_AUDIO,
    )
