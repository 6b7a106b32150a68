"""Any recording as 16 kHz mono, streamed, every sample at its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import attrs
import numpy as np

from wlk_core.audio.convert import LOUDEST_SAMPLE, first_impossible_sample, to_float32
from wlk_core.audio.decode_report import DecodeReport
from wlk_core.audio.downmix import Downmix
from wlk_core.audio.gaps import Piece, fill_gaps
from wlk_core.audio.offset import without_offset
from wlk_core.audio.resample import Resampler
from wlk_core.audio.source import open_audio, open_links
from wlk_core.errors import AudioFormatError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from av import AudioFrame, Packet
    from av.audio.stream import AudioStream
    from numpy.typing import NDArray

    from wlk_core.audio.source import AudioPath, AudioSource

__all__ = ["audio_duration", "decode_file"]

MIN_RATE = 100  # samples a second; seismic and other slow recordings have less, and no speech
MAX_RATE = 3_000_000  # FFmpeg decodes DSD512, the fastest format, to 2,822,400


def decode_file(path: AudioPath) -> Generator[NDArray[np.float32]]:
    """
    Yield the sound of a recording as float32[n] pieces at 16 kHz, its channels averaged.

    Two channels that cancel each other are subtracted instead; see `Downmix`.  A constant offset
    of 0.7 % of full scale or more is removed; see `OffsetRemoval`.

    *path* is a local file of any format FFmpeg knows, "-" for standard input, or a binary file
    object, which is read from its beginning and stays open.  The recording is opened for the first
    piece and closed with the generator.  It is read as it is consumed, so that neither its length
    nor a slow pipe matters.

    Sample n of the pieces, joined, is the sound at n / 16000 seconds of the recording.  Time 0 is
    that of the container, or of the first sound if that is earlier.  Samples that an encoder put
    in front, or that the edit list of an MP4 excludes, are left out; a late start and holes are
    filled with zeros.  Of several audio tracks FFmpeg's choice is used.  Sound that overlaps in
    time is all kept.  The links of a chained Ogg file follow one another, whatever their rates.

    Damage loses nothing that can be decoded: the sound after it is yielded too, at its time where
    the format keeps time, and the failure is raised at the end.  A file shorter than its header
    promises is treated in the same way.  A wav, an ogg or a transport stream that ends in the
    middle is no failure, because recorders that are switched off leave such files: a warning of
    the logger ``wlk_core.audio`` reports it.

    Raises:
        AudioFormatError: empty, not audio, video only, no samples, a playlist, a network address,
            damaged, truncated, or samples that are NaN, infinity or beyond what sound can be
            (raised where they begin).
        OSError: missing, a directory, not readable, or a read failed; the message is one line.

    """
    with open_links(path) as links:
        yield from _resampled(without_offset(_joined(links)))


def audio_duration(path: AudioPath) -> float | None:
    """
    Return the length in seconds that a recording's header gives, without decoding it.

    It is an estimate for formats without that field (raw AAC, some MP3), and for a truncated file
    the length that was promised.  It is None where the header has no length, and for "-" and other
    pipes, from which nothing is read.

    Raises:
        AudioFormatError, OSError: see `decode_file`.

    """
    if path == "-" or (hasattr(path, "seekable") and not path.seekable()):
        return None
    with open_audio(path) as source:
        return source.seconds


def _joined(links: Iterator[AudioSource]) -> Iterator[Piece]:
    """Yield the pieces of all links; raise the first error about damage at the end."""
    seconds = 0.0
    failure: AudioFormatError | None = None
    for source in links:
        decoded = _decoded(source, DecodeReport(began=seconds))
        pieces = fill_gaps(decoded, origin=source.origin, longest_gap=source.longest_gap)
        try:
            for piece in _possible(pieces, source.name, seconds):
                seconds += len(piece.samples) / piece.rate
                yield piece
        except AudioFormatError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _decoded(source: AudioSource, report: DecodeReport) -> Iterator[Piece]:
    """Yield the frames, mixed to one channel; raise an error about damage at the end."""
    downmix = Downmix(source.name)
    last: tuple[Piece, Packet[AudioStream]] | None = None
    for packet in _packets(source, report):
        report.add_checked_damage(source, packet.pos or 0)
        for frame in _frames(packet, source.format, report):
            _check_rate(frame.sample_rate, source.name)
            piece = _piece(frame, downmix)
            if report.is_sound_lost_before(piece, source):
                report.add_damage()
            piece = attrs.evolve(piece, follows_damage=report.follows_damage)
            report.add(piece)
            if not source.has_float_samples and first_impossible_sample(piece.samples) is not None:
                report.add_damage()  # of a damaged packet
                piece = attrs.evolve(piece, samples=np.zeros_like(piece.samples))
            if last is not None:
                yield last[0]
            last = (piece, packet)
            if not source.pads_last_frame:
                yield piece
                last = None
    if last is not None:
        yield _without_padding(*last)
    report.close(source)


def _packets(source: AudioSource, report: DecodeReport) -> Iterator[Packet[AudioStream]]:
    """Yield the packets of the chosen stream, an empty one last."""
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    packets = source.container.demux()
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError as error:
            report.add_damage(error)
            return
        except IndexError:  # PyAV's, at the end, where a track began within the file
            return
        if packet is None:
            return
        source.reader.raise_interruption()
        report.last_packet_end = max(report.last_packet_end, _end_time(packet))
        if packet.stream_index == source.stream.index:
            yield cast("Packet[AudioStream]", packet)


def _frames(
    packet: Packet[AudioStream], container_format: str, report: DecodeReport
) -> list[AudioFrame]:
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    try:
        return packet.decode()
    except av.FFmpegError as error:
        if container_format == "mp3" and _is_tag(bytes(packet)):
            report.has_tags_within = True
        else:
            report.add_damage(error)
        return []


def _is_tag(data: bytes) -> bool:
    """Return whether *data* is a tag or padding, as joined MP3 files have between their frames."""
    is_padding = len(data) > 0 and not data.strip(b"\0")
    return is_padding or data.startswith((b"ID3", b"TAG", b"APETAGEX"))


def _without_padding(piece: Piece, packet: Packet[AudioStream]) -> Piece:
    if not packet.duration or packet.time_base is None:
        return piece
    stop = round(float(packet.duration * packet.time_base) * piece.rate)
    return Piece(rate=piece.rate, start=piece.start, samples=piece.samples[:stop])


def _end_time(packet: Packet[Any]) -> float:
    if packet.pts is None or packet.time_base is None:
        return 0.0
    return float((packet.pts + (packet.duration or 0)) * packet.time_base)


def _check_rate(rate: int, name: str) -> None:
    """Refuse a rate that only a damaged header has: half a second of it could fill the memory."""
    if not MIN_RATE <= rate <= MAX_RATE:
        raise AudioFormatError(
            f"expected sound of {MIN_RATE} to {MAX_RATE} samples a second, got {rate} in {name!r}; "
            "its header is damaged, copy or download it again"
        )


def _piece(frame: AudioFrame, downmix: Downmix) -> Piece:
    try:
        array = frame.to_ndarray()
    except ValueError as error:
        raise AudioFormatError(
            f"expected samples of up to 32 bits or floats, got {frame.format.name}; "
            "convert the recording to 16-bit wav or flac"
        ) from error
    channels = frame.layout.nb_channels
    samples = to_float32(array.reshape(-1))
    if channels > 1:
        by_channel = (
            samples.reshape(channels, -1)
            if frame.format.is_planar
            else samples.reshape(-1, channels).T
        )
        samples = downmix.mix(by_channel)
    return Piece(
        rate=frame.sample_rate,
        samples=samples,
        start=None if frame.pts is None or frame.time_base is None else frame.time,
    )


def _possible(pieces: Iterator[Piece], name: str, position: float) -> Iterator[Piece]:
    """Yield pieces from *position* s on up to the first sample no sound can have; raise there."""
    for piece in pieces:
        first = first_impossible_sample(piece.samples)
        if first is not None:
            yield Piece(rate=piece.rate, samples=piece.samples[:first])
            raise AudioFormatError(
                _impossible(piece.samples[first], name, position + first / piece.rate)
            )
        position += len(piece.samples) / piece.rate
        yield piece


def _impossible(sample: np.float32, name: str, seconds: float) -> str:
    where = f"got {sample} in {name!r} from {seconds:.3f} s on"
    if not np.isfinite(sample):
        return f"expected finite samples, {where}; repair the recording"
    return (
        f"expected samples within [-1, 1], {LOUDEST_SAMPLE:.0f} at most, {where}; divide them by "
        "their full scale, which is 32768 where they were 16-bit integers, and write the file anew"
    )


def _resampled(pieces: Iterator[Piece]) -> Iterator[NDArray[np.float32]]:
    """Resample pieces of any rate to 16 kHz; samples held back are yielded before a failure."""
    resampler: Resampler | None = None
    failure: AudioFormatError | OSError | None = None
    while True:
        try:
            piece = next(pieces, None)
        except (AudioFormatError, OSError) as error:
            piece, failure = None, error
        if resampler is not None and (piece is None or piece.rate != resampler.rate):
            rest = resampler.flush()
            if len(rest):
                yield rest
            resampler = None
        if piece is None:
            break
        resampler = resampler or Resampler(piece.rate)
        ready = resampler.push(piece.samples)
        if len(ready):
            yield ready
    if failure is not None:
        raise failure
