"""Files that are not recordings, or only part of one: each error is one clear line."""

from __future__ import annotations

import errno
import io
import os
import struct
import wave

import av
import numpy as np
import pytest

from wlk_core.errors import AudioFormatError
from wlk_live.audio import decode_file

RANDOM = np.random.default_rng(11)
NOISE = (RANDOM.standard_normal(16_000 * 4) * 0.2).astype(np.float32)


def decoded(path):
    """Decode *path* to the end and return the audio and the failure, which is one clear line."""
    pieces = [np.empty(0, np.float32)]
    try:
        pieces.extend(decode_file(path))
    except (AudioFormatError, OSError) as failure:
        message = str(failure)
        assert message.startswith("expected ")
        assert "; " in message
        assert "\n" not in message
        return np.concatenate(pieces), failure
    return np.concatenate(pieces), None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.wav", b""),
        ("notes.mp3", b"hello there\n" * 2000),
        ("noise.wav", RANDOM.bytes(50_000)),
        ("zeros.bin", bytes(50_000)),
        ("head.wav", b"RIFF\x24\0\0\0WAVE"),
        ("list.m3u", b"a.wav\nb.wav\n"),
        ("live", b"#EXTM3U\n#EXTINF:4,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n"),
        ("join", b"ffconcat version 1.0\nfile 'a.wav'\n"),
        ("radio", b"[playlist]\nFile1=http://example.org/a\n"),
        ("dash", b'<?xml version="1.0"?>\n<MPD type="static"></MPD>'),
        ("album", b'TITLE "x"\nFILE "a.wav" WAVE\n  TRACK 01 AUDIO\n'),
        ("call", b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\n"),
        ("disguised.wav", b"\n" * 5000 + b"#EXTM3U\n#EXTINF:4,\na.wav\n#EXT-X-ENDLIST\n"),
    ],
)
def test_a_file_that_is_not_a_recording_is_refused(recording, tmp_path, name, content):
    """The message names the file, and a playlist does not open another one."""
    recording("a.wav")
    path = tmp_path / name
    path.write_bytes(content)

    audio, failure = decoded(path)

    assert len(audio) == 0
    assert isinstance(failure, AudioFormatError)
    assert f"got {str(path)!r}, which is empty, damaged or of an unknown format" in str(failure)


@pytest.mark.parametrize("rate", [1, 99, 3_000_001, 2**31 - 1])
def test_a_rate_that_no_sound_has_is_refused(recording, rate):
    """Resampling from such a rate could exhaust the memory, for a file of a few bytes."""
    data = bytearray(recording("noise.wav", samples=NOISE).read_bytes())
    data[24:28] = struct.pack("<I", rate)

    audio, failure = decoded(io.BytesIO(data))

    assert len(audio) == 0
    assert f"expected sound of 100 to 3000000 samples a second, got {rate} in" in str(failure)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("nothing.wav", FileNotFoundError),
        (".", IsADirectoryError),
        ("http://example.org/a.wav", FileNotFoundError),
    ],
)
def test_what_cannot_be_opened_is_named(path, error):
    """A missing file and a directory are named; a URL is treated as a missing file."""
    _, failure = decoded(path)

    assert isinstance(failure, error)
    assert repr(path) in str(failure)


def test_a_disk_that_fails_on_the_way_loses_nothing_read_before(recording):
    """What was read is decoded before the failure is raised."""

    class FailingDisk(io.BytesIO):
        def read1(self, size=-1):
            if self.seek(0, io.SEEK_CUR) > 60_000:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read1(size)

    audio, failure = decoded(FailingDisk(recording("clicks.wav").read_bytes()))

    assert len(audio) > 30_000
    assert "Input/output error" in str(failure)


def test_a_film_without_sound_is_refused(tmp_path):
    """The message states that there is only video."""
    path = tmp_path / "silent.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        container.mux(stream.encode(picture))
        container.mux(stream.encode(None))

    assert "with video only; choose another recording" in str(decoded(path)[1])


def test_a_recording_without_samples_is_refused(tmp_path):
    """A file without any sound is a failure, not an empty transcript."""
    with wave.open(str(tmp_path / "none.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))

    assert "holds no audio samples" in str(decoded(tmp_path / "none.wav")[1])


def test_samples_of_an_unusual_type_are_refused(recording):
    """64-bit integers are refused with one clear line."""
    _, failure = decoded(recording("wide.wav", codec="pcm_s64le"))

    assert "got s64; convert the recording" in str(failure)


@pytest.mark.parametrize(
    ("name", "options"),
    [("noise.flac", {"codec": "flac"}), ("noise.m4a", {"codec": "aac", "movflags": "faststart"})],
    ids=["flac", "m4a"],
)
def test_a_truncated_file_is_decoded_to_its_end_and_then_refused(recording, name, options):
    """Everything that can be decoded comes before the failure; the MP4 has its index in front."""
    data = recording(name, samples=NOISE, **options).read_bytes()

    audio, failure = decoded(io.BytesIO(data[: len(data) // 2]))

    assert len(audio) > 16_000
    assert "is truncated" in str(failure)


class Pipe(io.BytesIO):
    """A file that cannot seek."""

    def seekable(self):
        """Return False."""
        return False


@pytest.mark.parametrize("cut", [False, True], ids=["pipe", "without its index"])
def test_an_mp4_whose_index_is_missing_or_comes_last_in_a_pipe_is_refused(recording, cut):
    """The message asks for the file itself."""
    data = recording("noise.m4a", samples=NOISE, codec="aac").read_bytes()

    audio, failure = decoded(io.BytesIO(data[: len(data) // 2]) if cut else Pipe(data))

    assert len(audio) == 0
    assert "pass an MP4 as a file instead of piping it" in str(failure)


def test_a_wav_cut_short_is_decoded_as_it_is(recording):
    """A recorder that is switched off leaves such a file, which is not damaged."""
    data = recording("noise.wav", samples=NOISE).read_bytes()

    audio, failure = decoded(io.BytesIO(data[:64_000]))

    assert failure is None
    assert 31_900 < len(audio) <= 32_000


def test_what_ffmpeg_reports_as_damage_is_raised_at_the_end(recording):
    """The damaged part becomes silence, and the sound after it keeps its time."""
    data = bytearray(recording("noise.m4a", samples=NOISE, codec="aac").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)

    audio, failure = decoded(io.BytesIO(data))

    assert len(audio) == 64_000
    assert np.abs(audio[-8000:]).mean() > 0.05
    assert "damaged data" in str(failure)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("noise.mka", "pcm_s16le", 16_000),
        ("noise.webm", "libopus", 48_000),
        ("noise.ogg", "libopus", 48_000),
        ("noise.ts", "mp2", 16_000),
    ],
)
def test_a_hole_that_ffmpeg_passes_over_is_silence(recording, name, codec, rate):
    """The sound after it keeps its time; FFmpeg reports no damage, so none is raised."""
    samples = np.repeat(NOISE, rate // 16_000)
    options = {"cluster_time_limit": "900"} if name.endswith(("mka", "webm")) else {}
    data = bytearray(
        recording(name, samples=samples, codec=codec, rate=rate, **options).read_bytes()
    )
    intact, _ = decoded(io.BytesIO(data))
    start, stop = len(data) // 2, len(data) * 3 // 4
    data[start:stop] = bytes(stop - start)

    audio, failure = decoded(io.BytesIO(data))

    assert failure is None
    assert abs(len(intact) - len(audio)) <= 16
    assert np.corrcoef(intact[-4000:-400], audio[-4000:-400])[0, 1] > 0.9


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("loud", [np.nan, 32_768, 2.0**31, 1e30])
def test_samples_of_floats_that_no_sound_has_are_silence(rate, loud):
    """The sound before them is decoded; the message states where they begin, and a remedy."""
    samples = np.sin(np.arange(rate * 2) * 0.1).astype(np.float32)
    samples[rate:] = loud
    header = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + samples.nbytes, b"WAVE", b"fmt ", 16,
                         3, 1, rate, rate * 4, 4, 32)  # fmt: skip
    data = header + struct.pack("<4sI", b"data", samples.nbytes) + samples.tobytes()

    audio, failure = decoded(io.BytesIO(data))

    assert len(audio) == 32_000
    assert np.abs(audio[:15_900]).mean() > 0.5
    assert not audio[16_100:].any()
    assert f"got {np.float32(loud)} in 'audio data' at 1.0 s" in str(failure)
    assert "divide its samples by" in str(failure)
