"""Read live audio in any encoding, resample it, and cut it into chunks of equal length."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
import struct
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np

from wlk_core.audio import ValidAudio, sealed, to_float32, valid_copy, validate_audio
from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from av import AudioFrame
    from av.audio.codeccontext import AudioCodecContext
    from av.filter import Graph
    from numpy.typing import NDArray

Audio: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.generic]"
Encoding: TypeAlias = Literal["s16le", "f32le", "mulaw", "alaw"]  # FFmpeg's names
_RATES = (8_000, 192_000)  # samples a second, from telephones to studio interfaces
_S16_SCALE = np.float32(1 / 32_768)
_NO_AUDIO: NDArray[np.float32] = np.empty(0, dtype=np.float32)

# How recordings begin.  Read as samples they are noise: no words, or wrong ones.
_RECORDINGS = {
    b"\x1aE\xdf\xa3": "WebM",
    b"OggS": "Ogg",
    b"fLaC": "FLAC",
    b"ID3\x02": "MP3",
    b"ID3\x03": "MP3",
    b"ID3\x04": "MP3",
    b"FORM": "AIFF",
    b"#!AM": "AMR",
    b"caff": "CAF",
}
_WAVE_TAGS: dict[Encoding, int] = {"s16le": 1, "f32le": 3, "alaw": 6, "mulaw": 7}
_EXTENSIBLE = 0xFFFE  # the tag of a WAV whose real tag comes later in its header
_WAVE_FORMAT = struct.Struct("<HHIIHH")  # tag, channels, rate, bytes a second, alignment, bits
_WAVE_FORMAT_START, _WAVE_SUBFORMAT_START, _TAG_BYTES = 20, 44, 2
_JUDGED_BYTES = _WAVE_SUBFORMAT_START + _TAG_BYTES
_UNKNOWN_SIZE = b"\xff" * 4  # in a WAV whose length is not known: FFmpeg reads it to its end

_SAMPLE_TYPES: dict[Encoding, np.dtype[np.generic]] = {
    "s16le": np.dtype("<i2"),
    "f32le": np.dtype("<f4"),
    "mulaw": np.dtype(np.uint8),
    "alaw": np.dtype(np.uint8),
}


def sample_bytes(encoding: Encoding) -> int:
    """Return the size of a sample in bytes."""
    return _SAMPLE_TYPES[encoding].itemsize


def wave_header(encoding: Encoding, *, rate: int, channels: int) -> bytes:
    """Return the header that makes a WAV file of interleaved samples, however many follow."""
    alignment = channels * sample_bytes(encoding)
    layout = _WAVE_FORMAT.pack(
        _WAVE_TAGS[encoding],
        channels,
        rate,
        rate * alignment,
        alignment,
        8 * sample_bytes(encoding),
    )
    size = len(layout).to_bytes(4, "little")
    return b"RIFF" + _UNKNOWN_SIZE + b"WAVEfmt " + size + layout + b"data" + _UNKNOWN_SIZE


def is_recording(data: bytes) -> bool:
    """Return whether *data* begins with the header of a recording, which MP3 and AAC can lack."""
    return data[:4] in {b"RIFF", b"RF64"} or bool(_beginning(data))


def _beginning(data: bytes) -> str:
    """Return the kind of recording that begins with *data*; empty if these may be samples."""
    return "MP4" if data[4:8] == b"ftyp" else _RECORDINGS.get(data[:4], "")


def _wave_format(data: bytes) -> tuple[int, int, int, int] | None:
    """Return tag, bits, channels and rate of the WAV that begins with *data*, if one does."""
    is_wave = data[:4] == b"RIFF" and data[8:16] == b"WAVEfmt "
    if not is_wave or len(data) < _WAVE_FORMAT_START + _WAVE_FORMAT.size:
        return None
    tag, channels, rate, _, _, bits = _WAVE_FORMAT.unpack_from(data, _WAVE_FORMAT_START)
    if tag == _EXTENSIBLE:
        if len(data) < _WAVE_SUBFORMAT_START + _TAG_BYTES:
            return None  # the piece ends before the real tag
        tag = int.from_bytes(data[_WAVE_SUBFORMAT_START:][:_TAG_BYTES], "little")
    return tag, bits, channels, rate


@cache
def _g711_table(encoding: Encoding) -> NDArray[np.float32]:
    """Return the sample in [-1, 1] for each of the 256 codes of G.711."""
    from av import CodecContext, Packet  # noqa: PLC0415 -- loads the FFmpeg libraries

    codec = cast("AudioCodecContext", CodecContext.create(f"pcm_{encoding}", "r"))
    codec.sample_rate, codec.layout = _RATES[0], "mono"
    (frame,) = codec.decode(Packet(bytes(range(256))))
    return to_float32(frame.to_ndarray().reshape(-1))


class PcmReader:
    """
    Read a live source of one channel, piece by piece, as validated float32 at its own rate.

    Bytes are samples in `encoding`: "s16le", "f32le", or G.711 "mulaw" or "alaw".  They may be cut
    anywhere: the beginning of a sample waits for its rest.  Arrays, float[n] or int[n], carry their
    own sample type, see `to_float32`.  A piece that is refused changes nothing.  Raises
    AudioFormatError for an unknown encoding.

    Bytes that begin a file in WebM, Ogg, FLAC, MP4 or MP3 (with an ID3 tag) are refused, and so is
    everything after them.  The header of a WAV is let through, as a millisecond of noise, if it
    declares the expected samples, `rate` and `channels`; any other is refused.  A `rate` of None is
    not compared.
    """

    def __init__(
        self, encoding: Encoding = "s16le", *, rate: int | None = None, channels: int = 1
    ) -> None:
        if encoding not in get_args(Encoding):
            raise AudioFormatError(
                f"expected an encoding among {', '.join(get_args(Encoding))}, got {encoding!r}"
            )
        self.encoding: Encoding = encoding
        self.sample_bytes = sample_bytes(encoding)  #: the size of a sample
        self.rest = b""  #: the beginning of an incomplete sample, which the owner may drop
        self._rate, self._channels = rate, channels
        self._beginning = b""  # the first bytes, until they can be judged
        self._refusal = ""  # of all bytes

    def check(self, data: bytes) -> None:
        """Raise AudioFormatError if *data*, the next bytes, are not samples but of a recording."""
        missing = _JUDGED_BYTES - len(self._beginning)
        if missing > 0 and not self._refusal:
            self._beginning += data[:missing]
            self._refusal = self._fault(self._beginning)
        if self._refusal:
            raise AudioFormatError(self._refusal)

    def _fault(self, data: bytes) -> str:
        rate = "" if self._rate is None else f" at {self._rate} Hz"
        channels = "" if self._channels == 1 else f" of {self._channels} channels"
        expected = f"expected samples{channels} in {self.encoding}{rate}"
        if kind := _beginning(data):
            return f"{expected}, got a recording in {kind}; decode it first"
        wave = _wave_format(data)
        if wave is None:
            return ""
        tag, bits, count, given = wave
        own = (
            _WAVE_TAGS[self.encoding],
            8 * self.sample_bytes,
            self._channels,
            self._rate or given,
        )
        if wave == own:
            return ""
        return (
            f"{expected}, got a WAV of format {tag} with {bits} bits, {count} channel(s) and "
            f"{given} Hz; declare what it has, or convert it"
        )

    def read(self, audio: Audio) -> ValidAudio:
        """
        Return the samples that a piece of any length completes, copied at most once.

        Raises AudioFormatError for a wrong type or shape, NaN, infinity or an out-of-range sample.
        """
        if isinstance(audio, bytes | bytearray | memoryview):
            new = bytes(audio)
            self.check(new)
            data = self.rest + new
            count, rest = divmod(len(data), self.sample_bytes)
            codes = np.frombuffer(data, _SAMPLE_TYPES[self.encoding], count)
            match self.encoding:
                case "s16le":
                    samples = codes.astype(np.float32)  # the only copy
                    samples *= _S16_SCALE
                case "f32le":
                    samples = to_float32(codes)
                    validate_audio(samples)  # integers cannot leave their range
                case _:
                    samples = _g711_table(self.encoding)[codes]
            self.rest = data[len(data) - rest :]
            return sealed(samples)
        samples = to_float32(audio)
        if samples is audio:
            valid = valid_copy(samples)
        else:  # a copy already
            validate_audio(samples)
            valid = sealed(samples)
        self.rest = b""
        return valid


def require_rate(rate: object) -> int:
    """Return *rate*, in Hz, as an int; raise AudioFormatError if it is not one or out of range."""
    if not isinstance(rate, int | np.integer) or not _RATES[0] <= rate <= _RATES[1]:
        raise AudioFormatError(
            f"expected a sample rate from {_RATES[0]} to {_RATES[1]} Hz, got {shown(rate)}"
        )
    return int(rate)


class Resampler:
    """
    Resample one channel of float32 from `rate` samples a second to `to_rate`, by default 16 kHz.

    There is neither delay nor drift: sample n of the input stays at n / rate seconds, however the
    input is cut into pieces.  A few milliseconds are held back until `flush`; in total, n input
    samples give round(n * to_rate / rate) output samples.  If the rates are equal, samples are
    returned without a copy.
    """

    def __init__(self, rate: int, *, to_rate: int = SAMPLE_RATE) -> None:
        self.rate = rate
        self.to_rate = to_rate
        self._samples_in = 0
        self._samples_out = 0
        self._graph: Graph | None = None  # FFmpeg's filters, while a stream is open
        if self.rate != self.to_rate:
            self._open()

    def push(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Append float32[n]; return the samples that are ready at `to_rate`, float32[m], m >= 0."""
        if self.rate == self.to_rate:
            return samples
        graph = self._graph or self._open()
        self._samples_in += len(samples)
        ready = [_NO_AUDIO]
        # A second at a time, because FFmpeg keeps buffers of ten times its longest input.
        for first in range(0, len(samples), self.rate):
            piece = np.ascontiguousarray(samples[first : first + self.rate]).reshape(1, -1)
            frame = self._frame_type.from_ndarray(piece, format="flt", layout="mono")
            frame.sample_rate = self.rate
            graph.push(frame)
            ready += self._pulled(graph)
        return np.concatenate(ready)

    def flush(self) -> NDArray[np.float32]:
        """Return the samples held back; the next push begins a new stream."""
        if self._graph is None:
            return _NO_AUDIO
        total = (self._samples_in * self.to_rate * 2 + self.rate) // (2 * self.rate)  # rounded
        due = total - self._samples_out
        # FFmpeg rounds down, so one sample can be missing.  Repeat the last one: the difference
        # between neighbours is inaudible.
        self._graph.push(None)
        rest: NDArray[np.float32] = np.concatenate([_NO_AUDIO, *self._pulled(self._graph)])[:due]
        if len(rest) < due:
            rest = np.pad(rest, (0, due - len(rest)), mode="edge" if len(rest) else "constant")
        self._samples_in = self._samples_out = 0
        self._graph = None  # opened again by the next push, but most streams end here
        return rest

    def _open(self) -> Graph:
        from av import AudioFrame  # noqa: PLC0415 -- loads the FFmpeg libraries
        from av.filter import Graph  # noqa: PLC0415

        self._frame_type = AudioFrame
        # The filters of `av.AudioResampler`, which starts a thread per core for every stream.
        self._graph = graph = Graph()
        graph.threads = 1
        graph.link_nodes(
            graph.add("abuffer", f"sample_rate={self.rate}:sample_fmt=flt:channel_layout=mono"),
            graph.add("aformat", f"sample_rates={self.to_rate}:sample_fmts=flt"),
            graph.add("abuffersink"),
        ).configure()
        return graph

    def _pulled(self, graph: Graph) -> Iterator[NDArray[np.float32]]:
        with suppress(BlockingIOError, EOFError):  # no more for now, or at all
            while True:
                samples = to_float32(cast("AudioFrame", graph.pull()).to_ndarray().reshape(-1))
                self._samples_out += len(samples)
                yield samples


class Chunker:
    """Cut or join pieces of any length into chunks of `samples`; only those that join copy."""

    def __init__(self, samples: int) -> None:
        if samples <= 0:
            raise ValueError(f"`samples` must be positive, got {samples}")
        self._samples = self._missing = samples
        self._waiting: list[NDArray[np.float32]] = []

    def push(self, piece: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
        """Append float32[n], n >= 0; yield the chunks that are now full."""
        while len(piece) >= self._missing:
            self._waiting.append(piece[: self._missing])
            piece = piece[self._missing :]
            yield from self.flush()
        if len(piece):
            self._waiting.append(piece)
            self._missing -= len(piece)

    def flush(self) -> Iterator[NDArray[np.float32]]:
        """Yield the samples left, if any, as one shorter chunk, and begin anew."""
        waiting, self._waiting, self._missing = self._waiting, [], self._samples
        if waiting:
            yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)


def rechunk(pieces: Iterable[NDArray[np.float32]], samples: int) -> Iterator[NDArray[np.float32]]:
    """
    Yield *pieces* in non-empty chunks of exactly *samples*; only the last may be shorter.

    A chunk is yielded as soon as it is full.  If *pieces* raises, as `decode_file` does for damage,
    the audio before the failure is yielded first, so that no undamaged part is lost.

    Raises:
        ValueError: *samples* is not positive.

    """
    chunker = Chunker(samples)
    try:
        for piece in pieces:
            yield from chunker.push(piece)
    except Exception:
        yield from chunker.flush()
        raise
    yield from chunker.flush()
