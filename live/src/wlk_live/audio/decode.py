"""Decode any recording to 16 kHz mono, piece by piece, with each sample at its proper time."""

from __future__ import annotations

from contextlib import contextmanager
from io import BytesIO
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np

from wlk_core.audio import MAX_SAMPLE, first_impossible_sample, to_float32
from wlk_core.errors import AudioFormatError
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio.pcm import Resampler

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from av import AudioFrame, Packet
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from numpy.typing import NDArray

#: A local file, "-" for standard input, a binary file object, or the bytes of a file.
AudioPath: TypeAlias = "str | os.PathLike[str] | BinaryIO | bytes"

# Demuxers that read a single file.  Playlists (hls, concat, dash, sdp, ...), devices and text are
# excluded, because a recording must not make this process read other files or use the network.
_FORMATS = (
    "3gp,aac,aa,ac3,ac4,aea,aiff,amr,amrnb,amrwb,ape,apm,aptx,asf,asf_o,au,avi,avr,caf,dsf,dts,"
    "dtshd,dv,eac3,epaf,flac,flv,g722,g726,g726le,g729,gsm,gxf,iff,ilbc,ircam,lc3,live_flv,loas,"
    "m4a,matroska,mlp,mov,mp3,mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,osq,paf,pvf,"
    "qcp,qoa,rm,rso,sbc,shn,sln,smjpeg,sox,tak,truehd,tta,voc,vqf,w64,wav,wavarc,webm,wsd,wtv,"
    "wv,xwma"
)
_LAZY_TAGS = 19  # the first release of av that decodes a tag only when it is read
_MIN_RATE = 100  # samples a second; recordings below it, such as seismic ones, contain no speech
# DSD512, the format with the highest rate, is decoded to 2,822,400 samples a second.  Resampling
# needs memory in proportion to the rate: a damaged header that claimed 2 GHz took 20 GB.
_MAX_RATE = 3_000_000
_JITTER_SECONDS = 0.05  # time stamps in milliseconds, or of live recorders, wander this much
_FIRST_JITTER_SECONDS = 0.005  # the first time stamp is rounded, but does not wander
_RESTART_SECONDS = 1.0  # a larger step back means that the clock restarted, as in joined files
_ABSOLUTE_FORMATS = frozenset({"avi", "matroska", "mov", "nut"})  # times count from the file start
_AV_TIME_BASE = 1_000_000  # FFmpeg's units of container time per second
_CLOCK_MAY_JUMP = 0x200  # FFmpeg's AVFMT_TS_DISCONT
_MAX_GAP = 4 * 3600.0  # seconds; a broken time stamp must not become a day of zeros
# Seconds, the default of ffmpeg's -dts_delta_threshold: a longer gap in a transport stream means
# that two recordings were joined.
_MAX_JUMPY_GAP = 10.0
_MISSING_SECONDS = 1.0  # a file this much shorter than its header promises is truncated


class _Piece(NamedTuple):
    """Mono samples that begin at container time `start`, None if there are no time stamps."""

    rate: int
    samples: NDArray[np.float32]
    start: float | None = None


def decode_file(path: AudioPath, *, channel: int | None = None) -> Generator[NDArray[np.float32]]:
    """
    Yield the sound of a recording as float32[n] pieces at 16 kHz, its channels averaged.

    With *channel*, counted from 0, only that channel is decoded; it is silent where there are
    fewer.

    *path* is a local file in any format that FFmpeg reads, "-" for standard input, the bytes of a
    file, or a binary file object, which is read from its beginning and stays open.  The recording
    is opened for the first piece, read only as far as pieces are consumed, and closed with the
    generator, so it may be of any length or come from a slow pipe.

    Sample n of the joined pieces is the sound at n / 16000 seconds of the recording.  Time 0 is the
    start of the container, or the first sound if that is earlier.  Padding that the encoder added
    in front, and what the edit list of an MP4 excludes, is dropped; a late start and gaps are
    filled with zeros.  If there are several audio tracks, FFmpeg chooses one.  Sound that overlaps
    in time is all kept.

    A recording is damaged if FFmpeg reports so, if it contains impossible sample values, or if it
    is a FLAC or MP4 that is shorter than its header states.  The sound after the damage is still
    yielded, and the error is raised at the end.  Parts that FFmpeg skips become silence if the
    format has time stamps; otherwise they are missing, and later sound comes too early.

    Raises:
        AudioFormatError: the recording is empty, without audio, a playlist, damaged or truncated,
            or has samples that are NaN, infinite or far out of range.
        OSError: missing, a directory, unreadable, or a read failed; the message is one line.

    """
    with _open_recording(path) as recording:
        recording.channel = channel
        yield from filter(len, _resampled(_without_gaps(recording)))


def channel_count(path: AudioPath) -> int:
    """Return the number of channels that a recording's header states; raises as `decode_file`."""
    with _open_recording(path) as recording:
        return recording.channels


def audio_duration(path: AudioPath) -> float | None:
    """
    Return the length in seconds that a recording's header states, without decoding it.

    It is an estimate for formats without that field (raw AAC, some MP3), and the original length of
    a truncated file.  It is None if the header has no length, and for "-" and other pipes, which
    are not read.  Raises the same errors as `decode_file`.
    """
    if may_be_live(path) or (hasattr(path, "seekable") and not path.seekable()):
        return None
    with _open_recording(path) as recording:
        return recording.seconds


def may_be_live(audio: object) -> bool:
    """Return whether *audio* names a source that may still be recording: a pipe, device or "-"."""
    if not isinstance(audio, (str, os.PathLike)):
        return False
    return audio == "-" or Path(audio).is_fifo() or Path(audio).is_char_device()


def _without_gaps(recording: _Recording) -> Iterator[_Piece]:
    # Fill gaps with zeros, so that the sample count gives the time.  The sound so far ends at
    # base + samples / rate in container time.  Sums of rounded durations would drift.
    base, samples, rate = recording.origin, 0, 0
    is_first = True
    for piece in recording.pieces():
        if piece.rate != rate:
            base += samples / rate if rate else 0.0
            samples, rate = 0, piece.rate
        missing = 0 if piece.start is None else round((piece.start - base) * rate) - samples
        # A longer gap or step back means that the clock restarted: nothing is filled in or dropped.
        is_restart = not -_RESTART_SECONDS * rate <= missing <= recording.max_gap * rate
        if is_restart or (is_first and missing < 0):
            base += missing / rate
            missing = 0
        jitter = _FIRST_JITTER_SECONDS if is_first else _JITTER_SECONDS
        if missing > jitter * rate:
            samples += missing
            for first in range(0, missing, rate):  # a second at a time: gaps can last hours
                yield _Piece(rate, np.zeros(min(rate, missing - first), dtype=np.float32))
        samples += len(piece.samples)
        is_first = is_first and not samples
        yield piece


def _resampled(pieces: Iterator[_Piece]) -> Iterator[NDArray[np.float32]]:
    resampler = Resampler(SAMPLE_RATE)
    try:
        for piece in pieces:
            if piece.rate != resampler.rate:
                yield resampler.flush()
                resampler = Resampler(piece.rate)
            yield resampler.push(piece.samples)
    except (AudioFormatError, OSError):
        yield resampler.flush()  # the sound before the damage
        raise
    yield resampler.flush()


class _Recording:
    def __init__(self, container: InputContainer, stream: AudioStream, reader: _Reader) -> None:
        self._container = container
        self._stream = stream
        self._reader = reader
        self._format = container.format.name.partition(",")[0]  # such as mov or matroska
        # The container time, in seconds, at which the recording begins.  Some formats count from
        # the start of the file; an earlier first sound is then the beginning, because no word may
        # start before 0 and no sound may be lost.  The others count from an arbitrary time (a
        # broadcaster's clock, an encoder's delay), so the earliest track decides.
        is_absolute = self._format in _ABSOLUTE_FORMATS
        self.origin = 0.0 if is_absolute else (container.start_time or 0) / _AV_TIME_BASE
        # A longer gap in the sound means that the clock restarted.
        self.max_gap = _MAX_JUMPY_GAP if container.format.flags & _CLOCK_MAY_JUMP else _MAX_GAP
        self.channel: int | None = None  # the only one to decode
        self._samples = 0
        self._decoded_until = 0.0  # container time in seconds
        self._damage: str | None = None  # describes the first damage

    @property
    def channels(self) -> int:
        return self._stream.codec_context.layout.nb_channels

    @property
    def seconds(self) -> float | None:
        # The length of the audio track, else of the whole container.
        track, container = self._stream, self._container
        if track.duration is not None and track.time_base is not None:
            seconds = float(track.duration * track.time_base)
        elif container.duration is not None:
            seconds = container.duration / _AV_TIME_BASE
        else:
            return None
        return seconds if seconds >= 0 else None  # a damaged header may have a negative length

    def pieces(self) -> Iterator[_Piece]:
        last: _Piece | None = None  # held back in an MP4: the last frame is longer than its packet
        seconds = 0.0  # the length of that packet
        for packet in self._packets():
            for frame in self._frames(packet):
                if last is not None:
                    yield last
                    last = None
                piece = self._piece(frame)
                if self._format == "mov":
                    last, seconds = piece, float((packet.duration or 0) * (packet.time_base or 0))
                else:
                    yield piece
        if last is not None:
            length = round(seconds * last.rate)
            yield last._replace(samples=last.samples[:length]) if length else last
        self._check_end()

    def _packets(self) -> Iterator[Packet[AudioStream]]:
        import av  # noqa: PLC0415 -- loads the FFmpeg libraries

        reader = self._reader
        try:
            for packet in self._container.demux():
                if not isinstance(reader.failure, OSError):  # raised after the sound before it
                    reader.raise_failure()
                if packet.stream_index == self._stream.index:
                    yield cast("Packet[AudioStream]", packet)
        except av.FFmpegError:
            self._add_damage(self._decoded_until)
        except IndexError:  # PyAV raises it at the end if a track begins in mid-file
            return

    def _frames(self, packet: Packet[AudioStream]) -> list[AudioFrame]:
        import av  # noqa: PLC0415 -- loads the FFmpeg libraries

        try:
            return packet.decode()
        except av.FFmpegError:
            # Joined MP3 files have tags or padding between their frames.
            data = bytes(packet)
            is_padding = not data.strip(b"\0") or data.startswith((b"ID3", b"TAG", b"APETAGEX"))
            if self._format != "mp3" or not is_padding:
                self._add_damage(self._decoded_until)
            return []

    def _piece(self, frame: AudioFrame) -> _Piece:
        rate = frame.sample_rate
        # Only a damaged header has such a rate; resampling from it could exhaust the memory.
        if not _MIN_RATE <= rate <= _MAX_RATE:
            raise AudioFormatError(
                f"expected sound of {_MIN_RATE} to {_MAX_RATE} samples a second, got {rate} in "
                f"{self._reader.name!r}; its header is damaged: copy or download it again"
            )
        samples = _to_mono(frame, self.channel)
        start = None if frame.pts is None or frame.time_base is None else frame.time
        begin = self._decoded_until if start is None else start
        # Not rescaled: the factor would be a guess, and the sound before the first such sample has
        # been yielded already.
        first = first_impossible_sample(samples)
        if first is not None:
            self._add_damage(
                begin + first / rate,
                f"expected finite samples up to {MAX_SAMPLE:.0f}, got {samples[first]}",
                "repair the recording, or divide its samples by their full scale",
            )
            samples[first:] = 0.0
        self._samples += len(samples)
        self._decoded_until = begin + len(samples) / rate
        return _Piece(rate, samples, start)

    def _add_damage(
        self,
        time: float,
        what: str = "expected sound throughout, got damaged data",
        remedy: str = "copy or download it again",
    ) -> None:
        if self._damage is None:
            at = max(0.0, time - self.origin)
            self._damage = f"{what} in {self._reader.name!r} at {at:.1f} s; {remedy}"

    def _check_end(self) -> None:
        self._reader.raise_failure()
        if self._samples == 0:
            raise AudioFormatError(
                f"expected a recording, got no sound: {self._reader.name!r} holds no audio samples "
                "that can be decoded; download it again, and pass an MP4 as a file instead of "
                "piping it"
            )
        decoded = self._decoded_until - self.origin
        # Other headers state an estimate, or the length of all tracks; and a wav, ogg or transport
        # stream that is cut short is what a recorder leaves when it is switched off.
        promised = self.seconds if self._format in {"flac", "mov"} else None
        if promised is not None and decoded < promised - _MISSING_SECONDS:
            raise AudioFormatError(
                f"expected {promised:.1f} s according to the header of {self._reader.name!r}, got "
                f"{decoded:.1f} s; it is truncated: copy or download it again"
            )
        if self._damage is not None:
            raise AudioFormatError(self._damage)


def _to_mono(frame: AudioFrame, channel: int | None) -> NDArray[np.float32]:
    try:
        array = frame.to_ndarray()
    except ValueError as error:
        raise AudioFormatError(
            f"expected samples of up to 32 bits or floats, got {frame.format.name}; "
            "convert the recording to 16-bit wav or flac"
        ) from error
    count, is_planar = frame.layout.nb_channels, frame.format.is_planar
    samples = to_float32(array.reshape((count, -1) if is_planar else (-1, count)))
    if not is_planar:
        samples = samples.T
    if channel is None:
        mean: NDArray[np.float32] = samples.mean(axis=0, dtype=np.float32)
        return mean
    return samples[channel].copy() if channel < count else np.zeros_like(samples[0])


class _Reader:
    # An open file with the methods that PyAV calls, except close.  Pipes are read as data arrives.
    # PyAV sees a failed read as the end of the file; `failure` keeps its exception.
    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.seekable, self.seek, self.tell = file.seekable, file.seek, file.tell
        self._read = getattr(file, "read1", file.read)
        self.is_piped_wave = False
        if self.seekable():
            file.seek(0)
        elif hasattr(file, "peek"):
            self.is_piped_wave = file.peek(12)[8:12] == b"WAVE"

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def read(self, size: int = -1, /) -> bytes:
        # Nothing is raised into PyAV: it would drop sound that it has decoded already, as on a disk
        # error, and carry on after an interruption, such as Ctrl-C while it waits for data.
        if self.failure is not None:
            return b""
        try:
            return self._read(size) or b""
        except OSError as error:
            self.failure = OSError(
                f"expected to read {self.name!r} to its end, got {error.strerror or error!r}; "
                "check the disk or the pipe"
            )
            self.failure.__cause__ = error
        except BaseException as failure:  # noqa: BLE001 -- raised again by raise_failure
            self.failure = failure
        return b""


@contextmanager
def _open_recording(path: AudioPath) -> Iterator[_Recording]:
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    options = {
        "format_whitelist": _FORMATS,
        "protocol_whitelist": "none",  # the file is already open, and FFmpeg may open no other
    }
    open_container: Any = av.open  # its parameters differ between releases
    # Tags are not used, but older releases decode all of them, and many are not UTF-8.
    is_eager = int(av.__version__.split(".")[0]) < _LAZY_TAGS
    tags = {"metadata_errors": "replace"} if is_eager else {}
    with _open_reader(path) as reader:
        if reader.is_piped_wave:
            # The header is enough; by default FFmpeg first waits for seconds of audio from a pipe.
            options["probesize"] = "65536"
        try:
            container = open_container(reader, "r", options=options, **tags)
        except av.FFmpegError as error:
            reader.raise_failure()
            raise AudioFormatError(
                f"expected an audio or video file, got {reader.name!r}, which is empty, damaged or "
                "of an unknown format; check that it plays, and pass an MP4 as a file instead of "
                "piping it"
            ) from error
        with container:
            stream = container.streams.best("audio")
            if stream is None or getattr(stream, "codec_context", None) is None:
                kinds = sorted({other.type for other in container.streams}) or ["nothing"]
                raise AudioFormatError(
                    f"expected a file with sound that FFmpeg can decode, got {reader.name!r} with "
                    f"{' and '.join(kinds)} only; choose another recording, or convert it to wav "
                    "or flac"
                )
            yield _Recording(container, stream, reader)


@contextmanager
def _open_reader(path: AudioPath) -> Iterator[_Reader]:
    if path == "-":
        yield _Reader(sys.stdin.buffer, "standard input")
    elif isinstance(path, str | os.PathLike):
        name = os.fspath(path)
        try:
            file = open(name, "rb")  # noqa: PTH123, SIM115 -- closed below
        except OSError as error:
            raise type(error)(
                f"expected a readable audio file, got {error.strerror!r} for {name!r}; check the "
                "path and its permissions"
            ) from error
        with file:
            yield _Reader(file, name)
    elif isinstance(path, bytes | bytearray | memoryview):
        yield _Reader(BytesIO(path), "audio data")
    else:
        yield _Reader(path, str(getattr(path, "name", None) or "audio data"))
