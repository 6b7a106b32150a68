"""Open a recording with FFmpeg, and refuse what is not one with a clear message."""

from __future__ import annotations

from contextlib import contextmanager
from io import BytesIO, RawIOBase
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from wlk_core.errors import AudioFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.audio.stream import AudioStream
    from av.container import InputContainer

__all__ = ["AudioPath", "Reader", "may_be_live", "open_audio"]

#: A local file, "-" for standard input, a binary file object, or the bytes of a file.
AudioPath: TypeAlias = "str | os.PathLike[str] | BinaryIO | bytes"

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
_LAZY_TAGS = 19  # the release of av that decodes a tag when it is read


class Reader(RawIOBase):
    """
    An open file with the methods that PyAV calls; the file is never closed from here.

    Pipes are read as their data comes.  PyAV drops the sound before an exception of a callback, and
    goes on after an interruption.  So a failing disk, or Ctrl-C while waiting for data, looks like
    the end of the file to it, and `failure` holds the exception.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self._file = file
        self._read = getattr(file, "read1", file.read)
        self.is_piped_wave = False
        if self.seekable():
            file.seek(0)
        elif hasattr(file, "peek"):
            self.is_piped_wave = file.peek(12)[8:12] == b"WAVE"

    def raise_failure(self) -> None:
        """Raise the exception of a failed read, if there is one."""
        if self.failure is not None:
            raise self.failure

    def readable(self) -> bool:
        """Return True; PyAV requires the method."""
        return True

    def seekable(self) -> bool:
        """Return whether the file can be read out of order."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move within the file and return the position."""
        return self._file.seek(offset, whence)

    def read(self, size: int = -1, /) -> bytes:
        """Return up to *size* bytes, none at the end or after a failure."""
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


def may_be_live(audio: object) -> bool:
    """Return whether *audio* is a path that may still be recorded: a pipe, a device or "-"."""
    if not isinstance(audio, (str, os.PathLike)):
        return False
    path = Path(audio)
    return audio == "-" or path.is_fifo() or path.is_char_device()


@contextmanager
def open_audio(path: AudioPath) -> Iterator[tuple[InputContainer, AudioStream, Reader]]:
    """
    Open *path* and find its best audio stream; a file object given stays open.

    Raises:
        AudioFormatError: no audio inside, or not understood.
        OSError: missing, a directory or not readable; the message is one clear line.

    """
    with _reader(path) as reader, _container(reader) as container:
        yield container, _audio_stream(container, reader.name), reader


@contextmanager
def _reader(path: AudioPath) -> Iterator[Reader]:
    if path == "-":
        yield Reader(sys.stdin.buffer, "standard input")
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
            yield Reader(file, name)
    elif isinstance(path, bytes | bytearray | memoryview):
        yield Reader(BytesIO(path), "audio data")
    else:
        yield Reader(path, str(getattr(path, "name", None) or "audio data"))


@contextmanager
def _container(reader: Reader) -> Iterator[InputContainer]:
    import av  # noqa: PLC0415 -- loads the FFmpeg libraries

    options = {
        "format_whitelist": _FORMATS,
        "protocol_whitelist": "none",  # the file is open, and FFmpeg may open no other
    }
    if reader.is_piped_wave:
        # The header is enough; by default FFmpeg waits for seconds of a live pipe first.
        options["probesize"] = "65536"
    open_container: Any = av.open  # whose parameters differ between releases
    # Tags in other encodings than UTF-8 are common, and no tag is used.  Since av 19 one is decoded
    # when it is read.
    decodes_tags = int(av.__version__.split(".")[0]) < _LAZY_TAGS
    tags = {"metadata_errors": "replace"} if decodes_tags else {}
    try:
        container = open_container(reader, "r", options=options, **tags)
    except av.FFmpegError as error:
        reader.raise_failure()
        raise AudioFormatError(
            f"expected an audio or video file, got {reader.name!r}, which is empty, damaged or "
            "neither; check that it plays, and name an MP4 as a file instead of piping it"
        ) from error
    with container:
        yield container


def _audio_stream(container: InputContainer, name: str) -> AudioStream:
    stream = container.streams.best("audio")
    if stream is not None and getattr(stream, "codec_context", None) is not None:
        return stream  # type: ignore[return-value]  # `best` is typed for all kinds of stream
    kinds = " and ".join(sorted({other.type for other in container.streams})) or "nothing"
    raise AudioFormatError(
        f"expected a file with sound that FFmpeg can decode, got {name!r} with {kinds} only; "
        "choose another recording, or convert it to wav or flac"
    )
