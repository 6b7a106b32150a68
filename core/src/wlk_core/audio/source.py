"""Open a recording, and refuse files that are not one with a clear message."""

from __future__ import annotations

from contextlib import contextmanager
import os
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import attrs

from wlk_core.audio.gaps import LONGEST_GAP_SECONDS
from wlk_core.audio.matroska import MatroskaCheck
from wlk_core.audio.ogg import OggLinks
from wlk_core.audio.reader import Reader
from wlk_core.audio.transport import TransportCheck
from wlk_core.audio.wav import WavCheck
from wlk_core.errors import AudioFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.audio.stream import AudioStream
    from av.container import InputContainer

    from wlk_core.audio.reader import ByteCheck

__all__ = ["AudioPath", "AudioSource", "may_be_live", "needs_a_file", "open_audio", "open_links"]

#: A local file, "-" for standard input, or a binary file object.
AudioPath: TypeAlias = "str | os.PathLike[str] | BinaryIO"

# Demuxers that read one file and open no other.  Playlists (hls, concat, dash, sdp, ...), devices
# and text are left out, because a recording must not make this process read other files or use
# the network.
_FORMATS = (
    "3gp,aac,aa,ac3,ac4,aea,aiff,amr,amrnb,amrwb,ape,apm,aptx,asf,asf_o,au,avi,avr,caf,dsf,dts,"
    "dtshd,dv,eac3,epaf,flac,flv,g722,g726,g726le,g729,gsm,gxf,iff,ilbc,ircam,lc3,live_flv,loas,"
    "m4a,matroska,mlp,mov,mp3,mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,osq,paf,pvf,"
    "qcp,qoa,rm,rso,sbc,shn,sln,smjpeg,sox,tak,truehd,tta,voc,vqf,w64,wav,wavarc,webm,wsd,wtv,"
    "wv,xwma"
)
_PLAYLIST_SUFFIX = re.compile(
    r"\.(?:asx|concat|cue|ffconcat|m3u8?|mpd|pls|ram|sdp|smil|wpl|xspf)$", re.IGNORECASE
)
_PLAYLIST_OPENING = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:#EXT|ffconcat\b|\[playlist\]|v=0\r?\no=|<asx\b|<smil\b|<\?wpl\b"
    rb"|(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:MPD|playlist|smil)\b"
    rb"|(?:(?:REM|PERFORMER|TITLE|CATALOG)\b[^\n]*\n\s*)*FILE\s+\"[^\n]*\"\s+\w+\s*\n)",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_ABSOLUTE_FORMATS = frozenset({"avi", "matroska", "mov", "nut"})  # times count from the beginning
_AV_TIME_BASE = 1_000_000  # FFmpeg's units of container times, a second
_ATTACHED_PICTURE = 0x400  # FFmpeg's AV_DISPOSITION_ATTACHED_PIC
_CLOCK_MAY_JUMP = 0x200  # FFmpeg's AVFMT_TS_DISCONT
_LARGEST_HOLE = str(2**31 - 1)  # bytes, the most that FFmpeg takes
_LONGEST_LOST_BEGINNING = 60.0  # seconds; recordings of a live stream begin anywhere
_LONGEST_JUMPY_GAP = 10.0  # seconds, ffmpeg's -dts_delta_threshold


@attrs.frozen(kw_only=True)
class AudioSource:
    """An opened recording: its name for messages, its container and the audio stream chosen."""

    name: str
    container: InputContainer
    stream: AudioStream
    reader: Reader
    link: OggLinks | None = None

    @property
    def check(self) -> ByteCheck | OggLinks | None:
        """The check of the bytes, None for formats in which FFmpeg finds damage itself."""
        return self.reader.check if self.link is None else self.link

    @property
    def format(self) -> str:
        """FFmpeg's first name of the container format, such as mov or matroska."""
        return self.container.format.name.partition(",")[0]

    @property
    def origin(self) -> float:
        """
        The container time, in seconds, at which the recording begins.

        In some formats time stamps count from the beginning of the file, and `fill_gaps` moves it
        to the first sound where that is earlier.  In the others they count from anything (a
        broadcaster's clock, an encoder's delay), so the earliest track marks the beginning.  Where
        the first pages of an Ogg file are damaged, the beginning is still at 0.
        """
        if self.format in _ABSOLUTE_FORMATS:
            return 0.0
        starts = [
            float(stream.start_time * stream.time_base)
            for stream in self.container.streams
            if stream.start_time is not None
            and stream.time_base is not None
            and stream.type in {"audio", "video"}
            and not _disposition(stream) & _ATTACHED_PICTURE
        ]
        first = min(starts, default=0.0)
        has_damage = self.link is not None and self.link.damaged_position is not None
        return 0.0 if has_damage and 0 < first <= _LONGEST_LOST_BEGINNING else first

    @property
    def longest_gap(self) -> float:
        """The longest gap in the sound in seconds; a longer one is a clock that was restarted."""
        clock_jumps = self.container.format.flags & _CLOCK_MAY_JUMP
        return _LONGEST_JUMPY_GAP if clock_jumps else LONGEST_GAP_SECONDS

    @property
    def pads_last_frame(self) -> bool:
        """Whether the last frame goes on, as zeros or noise, after the end of its packet."""
        return self.format == "mov"

    @property
    def longest_lost_sound(self) -> float:
        """
        The longest gap in the sound, in seconds, that means damage; 0 where gaps are no damage.

        In these formats sound is written without interruption.  A longer gap in a transport stream
        is where two recordings were joined.
        """
        if self.format == "mpegts":
            return self.longest_gap
        return LONGEST_GAP_SECONDS if self.format in {"flac", "ogg"} else 0.0

    @property
    def has_float_samples(self) -> bool:
        """Whether the samples are floats that a program wrote, and not what a codec computed."""
        return self.stream.codec_context.name.startswith(("pcm_f", "wavpack"))

    @property
    def stream_seconds(self) -> float | None:
        """The length of the sound according to the header, None where it has none."""
        if self.stream.duration is None or self.stream.time_base is None:
            return None
        return float(self.stream.duration * self.stream.time_base)

    @property
    def seconds(self) -> float | None:
        """The length according to the header: of the sound, else of the whole recording."""
        seconds, length = self.stream_seconds, self.container.duration
        if seconds is None and length is not None:
            seconds = length / _AV_TIME_BASE
        return seconds if seconds is not None and seconds >= 0 else None  # a damaged header

    @property
    def promised_end(self) -> float | None:
        """The container time of the end according to the header; None where it may be a guess."""
        if self.format == "matroska":
            length = self.container.duration
            return None if length is None else length / _AV_TIME_BASE
        start = float((self.stream.start_time or 0) * (self.stream.time_base or 0))
        # An MP3 without the encoder's header, which names the delay, is measured by its bit rate.
        is_exact = self.format in {"mov", "flac"} or (self.format == "mp3" and start > 0)
        seconds = self.stream_seconds
        return start + seconds if is_exact and seconds is not None else None


def may_be_live(audio: object) -> bool:
    """Return whether *audio* is a path that may still be recorded: a pipe, a device or "-"."""
    if not isinstance(audio, (str, os.PathLike)):
        return False
    path = Path(audio)
    return audio == "-" or path.is_fifo() or path.is_char_device()


@contextmanager
def open_audio(path: AudioPath) -> Iterator[AudioSource]:
    """
    Open *path* and find its best audio stream; a file object given stays open.

    Raises:
        AudioFormatError: empty, no audio inside, not understood, a playlist or a network address.
        OSError: missing, a directory or not readable; the message is one clear line.

    """
    with _reader(path) as reader, _opened(reader, _checked_head(reader)) as source:
        yield source


@contextmanager
def open_links(path: AudioPath) -> Iterator[Iterator[AudioSource]]:
    """
    Open *path* and yield its parts: the links of a chained Ogg file, or all of any other file.

    A part is open until the next one is requested.  A link that cannot be opened is left out, and
    its error is raised after the last link.

    Raises:
        AudioFormatError, OSError: see `open_audio`.

    """
    with _reader(path) as reader:
        head = _checked_head(reader)
        if head.startswith(b"OggS"):
            yield _ogg_links(reader, head)
        else:
            reader.check = _byte_check(head)
            yield _single(reader, head)


def _byte_check(head: bytes) -> ByteCheck | None:
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return MatroskaCheck()
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE":
        return WavCheck(head)
    try:
        return TransportCheck(head)
    except ValueError:
        return None


def _single(reader: Reader, head: bytes) -> Iterator[AudioSource]:
    with _opened(reader, head) as source:
        yield source


def _ogg_links(reader: Reader, head: bytes) -> Iterator[AudioSource]:
    links = OggLinks(reader)
    failure: AudioFormatError | None = None
    with _opened(reader, head, links) as source:
        yield source
    while links.next_link():
        try:
            with _opened(reader, head, links) as source:
                yield source
        except AudioFormatError as error:
            failure = failure or error
    if failure is not None:
        raise failure


@contextmanager
def _reader(path: AudioPath) -> Iterator[Reader]:
    if path == "-":
        yield Reader(sys.stdin.buffer, "standard input")
    elif isinstance(path, str | os.PathLike):
        with _file(os.fspath(path)) as file:
            yield Reader(file, os.fspath(path))
    else:
        yield Reader(path, str(getattr(path, "name", None) or "audio data"))


def _file(path: str) -> BinaryIO:
    if _ADDRESS.match(path):
        raise AudioFormatError(
            f"expected a local file, got the address {path!r}; download it first"
        )
    try:
        return open(path, "rb")  # noqa: PTH123 -- closed by the caller's with
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"expected an audio file, found nothing at {path!r}; check the path"
        ) from error
    except IsADirectoryError as error:
        raise IsADirectoryError(
            f"expected an audio file, got the directory {path!r}; name the files in it"
        ) from error
    except PermissionError as error:
        raise PermissionError(
            f"expected a readable audio file, got no permission for {path!r}; "
            f"allow reading, for example with chmod u+r"
        ) from error
    except OSError as error:
        raise OSError(
            f"expected a readable audio file, got {error.strerror!r} for {path!r}; check the path"
        ) from error


def _checked_head(reader: Reader) -> bytes:
    """Return the first bytes of a file that may be a recording."""
    name = reader.name
    head = reader.head()
    if not head:
        raise AudioFormatError(
            f"expected audio, got nothing: {name!r} is empty; record or download it again"
        )
    if _PLAYLIST_SUFFIX.search(name) or _PLAYLIST_OPENING.match(head):
        raise AudioFormatError(
            f"expected an audio file, got the playlist {name!r}; name the files that it lists"
        )
    return head


_LAZY_TAGS = 19  # the release of av that decodes a tag when it is read


@contextmanager
def _opened(reader: Reader, head: bytes, link: OggLinks | None = None) -> Iterator[AudioSource]:
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    options = {
        "format_whitelist": _FORMATS,
        "protocol_whitelist": "none",  # the file is open, and FFmpeg may open no other
    }
    if head[8:12] == b"WAVE":
        # The header is enough; by default FFmpeg waits for seconds of a live pipe first.
        options["probesize"] = "65536"
    if isinstance(reader.check, TransportCheck):
        options["resync_size"] = _LARGEST_HOLE  # by default FFmpeg ends at a hole of 64 KiB
    open_container: Any = av.open  # whose parameters differ between releases
    # Tags in other encodings than UTF-8 are common, and no tag is used.  Since av 19 one is decoded
    # when it is read.
    decodes_tags = int(av.__version__.split(".")[0]) < _LAZY_TAGS
    tags = {"metadata_errors": "replace"} if decodes_tags else {}
    try:
        container = open_container(reader if link is None else link, "r", options=options, **tags)
    except av.FFmpegError as error:
        reader.raise_failure()
        raise AudioFormatError(_not_understood(reader, head)) from error
    with container:
        yield AudioSource(
            name=reader.name,
            container=container,
            stream=_audio_stream(container, reader.name),
            reader=reader,
            link=link,
        )


def _audio_stream(container: InputContainer, name: str) -> AudioStream:
    stream = container.streams.best("audio")
    if stream is not None and getattr(stream, "codec_context", None) is not None:
        return stream  # type: ignore[return-value]  # `best` is typed for all kinds of stream
    if container.streams.audio:
        raise AudioFormatError(
            f"expected sound that FFmpeg can decode, got something else in {name!r}; "
            "check that it plays, or convert it to wav or flac"
        )
    kinds = " and ".join(sorted({other.type for other in container.streams})) or "nothing"
    raise AudioFormatError(
        f"expected a file with sound, got {name!r} with {kinds} only; "
        "choose a recording that has an audio track"
    )


def needs_a_file(name: str) -> str:
    """Return the message for a format that cannot be read from a pipe."""
    return (
        f"expected sound that can be read in one pass, got an MP4 through {name!r} whose index "
        "comes last; name the file instead"
    )


def _not_understood(reader: Reader, head: bytes) -> str:
    if head[4:8] == b"ftyp" and not reader.seekable():
        return needs_a_file(reader.name)
    if head[4:8] == b"ftyp":
        return (
            f"expected a complete MP4, got {reader.name!r} without its index; "
            "it is truncated: copy or download it again"
        )
    return (
        f"expected an audio or video file, got {reader.name!r}, which is neither, or is damaged; "
        "check that it plays, or convert it to wav or flac"
    )


def _disposition(stream: object) -> int:
    """Return the flags of a stream; av 14 has none, and those of av 15 to 17 are no numbers."""
    flags = getattr(stream, "disposition", 0)
    return int(getattr(flags, "value", flags))
