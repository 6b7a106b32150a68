"""
WebM as a browser's MediaRecorder sends it, decoded while it comes.

The sources are RFC 8794 (EBML), RFC 9559 (Matroska) and RFC 7845 (Opus).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import av
import numpy as np

from wlk_core.audio import Resampler
from wlk_core.processor import SAMPLE_RATE
from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGED_AUDIO = "invalid_audio"  #: code of the error, after which no more can be decoded

WEBM_START = b"\x1aE\xdf\xa3"  #: the first bytes of a WebM recording

# Identifiers of elements.  Those that hold others are entered; all that are not named are skipped.
_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY = 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE
_CLUSTER, _BLOCK_GROUP = 0x1F43B675, 0xA0
_PARENTS = {_SEGMENT, _INFO, _TRACKS, _TRACK_ENTRY, _CLUSTER, _BLOCK_GROUP}
_TIMESTAMP_SCALE, _TRACK_NUMBER, _CODEC, _CODEC_PRIVATE = 0x2AD7B1, 0xD7, 0x86, 0x63A2
_CLUSTER_TIMESTAMP, _SIMPLE_BLOCK, _BLOCK = 0xE7, 0xA3, 0xA1
_NUMBERS = {_TIMESTAMP_SCALE, _TRACK_NUMBER, _CLUSTER_TIMESTAMP}
_LEAVES = _NUMBERS | {_CODEC, _CODEC_PRIVATE, _SIMPLE_BLOCK, _BLOCK}

_OPUS_RATE = 48_000
_LACING = 0x06  # flags of a block with several packets, which recorders do not write
_MAX_LEAF = 1 << 20  # bytes: far more than a packet of Opus has
_JITTER = 0.05  # seconds that the clock of a recorder wanders
_MAX_BYTES = 120 * 2 * SAMPLE_RATE  # of samples from one message, which block other sessions
_MAX_ELEMENTS = 60_000  # of one message, as 2 minutes of the shortest packets and more
_MAX_GAP = 30.0  # seconds; after a longer one the clock has started anew


class WebmDecoder:
    """
    Decodes the Opus track of a recording piece by piece; a plain object without I/O.

    FFmpeg finds packets by reading, and would wait for what the client has not sent yet.  So the
    packets are found here and decoded there.  Where the times of blocks leave a gap, there is
    silence.
    """

    def __init__(self) -> None:
        self._data = bytearray()  # not read yet
        self._has_begun = False
        self._skipped = 0  # bytes of an element that are still to come and are not read
        self._numbers = {_TIMESTAMP_SCALE: 1_000_000, _TRACK_NUMBER: 0, _CLUSTER_TIMESTAMP: 0}
        self._track: int | None = None  # with Opus
        self._opus_head = b""  # of the first track with Opus
        self._codec: av.AudioCodecContext | None = None
        self._resampler = Resampler(_OPUS_RATE)
        self._origin = 0.0  # time of the first sample in the recording, in seconds
        self._samples = 0  # since then, at the rate of Opus

    def decode(self, data: bytes) -> Iterator[bytes]:
        """
        Yield the samples that *data* completes, 16 bits at 16 kHz, one channel.

        Those before damage come before the error.

        Raises:
            RequestError: the recording is damaged, or has no Opus.

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
        """Yield the elements that are complete and have a meaning here."""
        for _ in range(_MAX_ELEMENTS):
            known = min(self._skipped, len(self._data))
            del self._data[:known]
            self._skipped -= known
            if (header := _element_header(self._data)) is None:
                return
            element, size, start = header
            if element in _PARENTS:  # of an unknown size, while it is recorded
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
        """Take what describes blocks; return whether it was that."""
        if element in _NUMBERS:
            self._numbers[element] = int.from_bytes(content)
        elif element == _CODEC_PRIVATE:
            if content.startswith(b"OpusHead"):  # a picture has another
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
            raise _refused("no track with Opus")
        if track != self._track:
            return b""  # of a picture
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
        """Return silence up to the *time* of a block, in seconds of the recording."""
        missing = time - self._origin - self._samples / _OPUS_RATE
        if not self._samples or abs(missing) > _MAX_GAP:
            self._origin += missing
            return b""
        if missing <= _JITTER:
            return b""
        self._samples += round(missing * _OPUS_RATE)
        return bytes(2 * round(missing * SAMPLE_RATE))


def _element_header(data: bytearray) -> tuple[int, int, int] | None:
    """Return identifier, size and where the content begins; None where more must come."""
    if not data:
        return None
    width = 9 - data[0].bit_length()  # as many bytes as the first has leading zeros, and one
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
        f"expected a recording in WebM with Opus, as MediaRecorder makes it, got {found}; or send "
        "16-bit samples",
        code=DAMAGED_AUDIO,
    )
