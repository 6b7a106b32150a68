"""Damaged recordings of every container are decoded, or refused with a one-line error."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
import io
from itertools import islice

import av
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_live.audio import audio_duration, decode_file

from .cases import cases, damaged

pytestmark = pytest.mark.slow

# Extension and codec of each container; 0.2 s of noise, so that a case takes milliseconds.
CONTAINERS = {
    "wav": "pcm_s16le", "w64": "pcm_s16le", "aiff": "pcm_s16be", "au": "pcm_s16be",
    "caf": "pcm_s16le", "flac": "flac", "ogg": "flac", "opus": "libopus", "mp3": "libmp3lame",
    "mp4": "aac", "adts": "aac", "matroska": "pcm_s16le", "webm": "libopus", "mpegts": "mp2",
}  # fmt: skip
LIMIT_SAMPLES = 16_000 * 30  # read from damaged 0.2 s: a wrong time can leave a long gap


@cache
def recordings():
    """Return a recording in each container that this FFmpeg can write."""
    noise = (np.random.default_rng(3).standard_normal(4800) * 8000).astype(np.int16)
    source = av.AudioFrame.from_ndarray(noise[None], "s16", "mono")
    source.sample_rate, source.pts = 48_000, 0
    found = []
    for container, codec in CONTAINERS.items():
        file = io.BytesIO()
        with av.open(file, "w", format=container) as output:
            stream = output.add_stream(codec, rate=48_000, layout="mono")
            encoder = stream.codec_context
            encoder.open()
            size = encoder.frame_size or 960
            frames = av.AudioResampler(encoder.format.name, "mono", 48_000, frame_size=size)
            for converted in [*frames.resample(source), *frames.resample(None)]:
                output.mux(stream.encode(converted))
            output.mux(stream.encode(None))
        found.append(file.getvalue())
    return found


RECORDINGS = st.deferred(lambda: damaged(recordings()))  # created by the first test that runs
HEADS = st.deferred(lambda: st.sampled_from([data[:48] for data in recordings()]))


@contextmanager
def suppress_one_line():
    """Suppress an error of a recording, after checking that it is one line."""
    try:
        yield
    except (AudioFormatError, OSError) as error:
        assert str(error)
        assert "\n" not in str(error)


def check(data):
    """Read the length in the header of *data*, and decode it up to LIMIT_SAMPLES."""
    with suppress_one_line():
        seconds = audio_duration(io.BytesIO(data))
        assert seconds is None or seconds >= 0.0
    total = 0
    with suppress_one_line():
        for piece in islice(decode_file(io.BytesIO(data)), 2000):
            assert piece.dtype == np.float32
            assert piece.ndim == 1
            assert np.isfinite(piece).all()
            total += len(piece)
            if total > LIMIT_SAMPLES:
                return


def test_every_container_is_tried():
    """Undamaged, each recording decodes to its full length."""
    for data in recordings():
        sound = np.concatenate(list(decode_file(io.BytesIO(data))))

        assert abs(len(sound) / 16_000 - 0.1) < 0.06


def test_a_tag_in_another_encoding_is_no_failure():
    """Old recorders write artist names in Latin-1; in seven containers this once failed."""
    tagged = [d for d in recordings() if b"Lavf" in d and d[:4] != b"OggS"]  # which has checksums
    for data in tagged:
        sound = decode_file(io.BytesIO(data.replace(b"Lavf", b"M\xfcll")))

        assert abs(sum(map(len, sound)) / 16_000 - 0.1) < 0.06


def test_a_header_that_removes_more_than_there_is_gives_no_length():
    """An MP3 whose header declares more padding than audio has no negative length."""
    (data,) = (data for data in recordings() if b"Info" in data and data[:3] == b"ID3")
    delay = data.index(b"Info") + 141  # encoder delay and padding, 24 bits
    data = data[:delay] + b"\xff\xff\xff" + data[delay + 3 :]
    check(data)

    assert audio_duration(io.BytesIO(data)) is None


@cases
@given(data=RECORDINGS | st.builds(bytes.__add__, HEADS, st.binary(max_size=400)))
def test_a_damaged_recording_is_sound_or_one_line(data):
    """The first bytes choose the format, whose parser must cope with any bytes after them."""
    check(data)
