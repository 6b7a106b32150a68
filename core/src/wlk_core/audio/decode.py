"""Any recording as 16 kHz mono, streamed, every sample at its time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wlk_core.audio.convert import to_float32
from wlk_core.audio.findings import Findings
from wlk_core.audio.placement import Piece, placed
from wlk_core.audio.resample import Resampler
from wlk_core.audio.source import open_audio
from wlk_core.errors import AudioFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av import AudioFrame, Packet
    from av.audio.stream import AudioStream
    from numpy.typing import NDArray

    from wlk_core.audio.source import AudioPath, AudioSource

__all__ = ["audio_duration", "decode_file"]


def decode_file(path: AudioPath) -> Iterator[NDArray[np.float32]]:
    """
    Yield the sound of a recording as float32[n] pieces at 16 kHz, its channels averaged.

    *path* is a local file of any format FFmpeg knows, "-" for standard input, or a binary file
    object, which is read from its beginning and stays open.  The recording is opened when the
    first piece is asked for and closed with the iterator; it is read as it is consumed, so that
    neither its length nor a slow pipe matters.

    Sample n of the pieces, joined, is the sound at n / 16000 seconds of the recording: what an
    encoder put in front is left out, a track that begins late or has holes is filled with zeros.
    Of several audio tracks FFmpeg's choice is taken.  Sound that overlaps in time is all kept.

    Damage loses nothing that can be decoded: the sound behind it is yielded too, at its time where
    the format keeps time, and the failure is raised at the end.  So it is for a file shorter than
    its header promises, but for wav: recorders that are switched off leave such files.  Formats
    that promise nothing, such as ogg, cannot be seen to be cut short.

    Raises:
        AudioFormatError: empty, not audio, video only, no samples, a playlist, a network address,
            damaged, truncated, or NaN or infinity among the samples (raised where they begin).
        OSError: missing, a directory, not readable, or reading failed on the way; the message is
            one clear line.

    """
    with open_audio(path) as source:
        pieces = placed(_decoded(source), origin=source.origin, longest_hole=source.longest_hole)
        yield from _resampled(_finite(pieces, source.name))


def audio_duration(path: AudioPath) -> float | None:
    """
    Return the length in seconds that a recording's header gives, without decoding it.

    An estimate for formats that do not write it down (raw AAC, some MP3), and what was promised,
    not what is there, for a truncated file.  None where the header says nothing, and for "-" and
    other pipes, from which nothing is read.

    Raises:
        AudioFormatError, OSError: see `decode_file`.

    """
    if path == "-" or (hasattr(path, "seekable") and not path.seekable()):
        return None
    with open_audio(path) as source:
        return source.seconds


def _decoded(source: AudioSource) -> Iterator[Piece]:
    """Yield the frames, mixed to one channel; raise what was wrong when all is out."""
    findings = Findings()
    last: tuple[Piece, Packet[AudioStream]] | None = None
    for packet in _packets(source, findings):
        for frame in _frames(packet, source.format, findings):
            piece = _piece(frame)
            if source.has_no_holes and findings.precede(piece):
                findings.damage()
            findings.hear(piece)
            if last is not None:
                yield last[0]
            last = (piece, packet)
            if not source.fills_last_frame:
                yield piece
                last = None
    if last is not None:
        yield _without_filling(*last)
    findings.judge(source)


def _packets(source: AudioSource, findings: Findings) -> Iterator[Packet[AudioStream]]:
    """Yield the packets of the chosen stream, an empty one last."""
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    packets = source.container.demux()
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError as error:
            findings.damage(error)
            return
        if packet is None:
            return
        source.reader.raise_interruption()
        findings.reached = max(findings.reached, _end_time(packet))
        if packet.stream_index == source.stream.index:
            yield cast("Packet[AudioStream]", packet)


def _frames(
    packet: Packet[AudioStream], container_format: str, findings: Findings
) -> list[AudioFrame]:
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    try:
        return packet.decode()
    except av.FFmpegError as error:
        if container_format == "mp3" and _is_tag(bytes(packet)):
            findings.has_tags_within = True
        else:
            findings.damage(error)
        return []


def _is_tag(data: bytes) -> bool:
    """Say whether *data* is what joined or padded MP3 files have between their frames."""
    is_padding = len(data) > 0 and not data.strip(b"\0")
    return is_padding or data.startswith((b"ID3", b"TAG", b"APETAGEX"))


def _without_filling(piece: Piece, packet: Packet[AudioStream]) -> Piece:
    if not packet.duration or packet.time_base is None:
        return piece
    kept = round(float(packet.duration * packet.time_base) * piece.rate)
    return Piece(rate=piece.rate, start=piece.start, samples=piece.samples[:kept])


def _end_time(packet: Packet[Any]) -> float:
    if packet.pts is None or packet.time_base is None:
        return 0.0
    return float((packet.pts + (packet.duration or 0)) * packet.time_base)


def _piece(frame: AudioFrame) -> Piece:
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
        samples = by_channel.mean(axis=0, dtype=np.float32)
    return Piece(
        rate=frame.sample_rate,
        samples=samples,
        start=None if frame.pts is None or frame.time_base is None else frame.time,
    )


def _finite(pieces: Iterator[Piece], name: str) -> Iterator[Piece]:
    """Yield the pieces up to the first sample that is no number; raise there."""
    position = 0.0
    for piece in pieces:
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = math.isfinite(np.dot(piece.samples, piece.samples))
        if not is_finite:
            finite = np.isfinite(piece.samples)
            if not finite.all():
                first = int(np.argmin(finite))
                yield Piece(rate=piece.rate, samples=piece.samples[:first])
                raise AudioFormatError(
                    f"expected finite samples, got {piece.samples[first]} in {name!r} from "
                    f"{position + first / piece.rate:.3f} s on; repair the recording"
                )
        position += len(piece.samples) / piece.rate
        yield piece


def _resampled(pieces: Iterator[Piece]) -> Iterator[NDArray[np.float32]]:
    """Bring pieces of any rate to 16 kHz; what was held back comes before a failure."""
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
