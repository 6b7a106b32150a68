"""Live sources of any encoding and rate, cut anywhere."""

from __future__ import annotations

import io
from itertools import pairwise
import struct
import wave

import av
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AudioFormatError
from wlk_live.audio import PcmReader, decode_file, wave_header
from wlk_live.audio.pcm import require_rate

WAVE = np.sin(np.arange(4_000) / 7).astype(np.float32) * 0.5


@given(
    cuts=st.lists(st.integers(0, 4_000), max_size=12), encoding=st.sampled_from(["s16le", "f32le"])
)
def test_bytes_may_be_cut_inside_a_sample(cuts, encoding):
    """Odd byte counts change no sample."""
    samples = WAVE[:1_000]
    data = ((samples * 32_767).astype("<i2") if encoding == "s16le" else samples).tobytes()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    reader = PcmReader(encoding)

    parts = [reader.read(data[start:end]) for start, end in pairwise(edges)]

    assert np.array_equal(np.concatenate(parts), PcmReader(encoding).read(data))


def test_an_incomplete_sample_can_be_dropped():
    """A client that sends its audio again, or in another format, begins with a whole sample."""
    reader = PcmReader()
    reader.read(b"\x01\x02\x03")
    reader.rest = b""

    assert reader.read(b"\x00\x40").tolist() == [0.5]


def test_samples_are_copied_once_or_not_at_all():
    """Bytes of floats cannot change, so they are the samples; integers become one new array."""
    data = WAVE.tobytes()
    valid = PcmReader().read(WAVE)

    assert np.shares_memory(PcmReader("f32le").read(data), np.frombuffer(data, np.uint8))
    assert PcmReader().read(valid) is valid
    assert PcmReader().read(data).base.base is None


@pytest.mark.parametrize(
    ("encoding", "expected"), [("mulaw", [-32124, 32124, 0]), ("alaw", [-5504, 5504, 848])]
)
def test_g711_has_the_values_of_the_standard(encoding, expected):
    """The loudest codes and one other have their values as 16-bit integers."""
    samples = PcmReader(encoding).read(b"\x00\x80\xff")

    assert (samples * 32_768).tolist() == expected


def test_what_comes_out_is_a_copy():
    """A source may reuse its memory."""
    samples = WAVE.copy()
    result = PcmReader().read(samples)
    samples[:] = 0

    assert np.array_equal(WAVE, result)


@pytest.mark.parametrize(
    ("piece", "match"),
    [
        (np.stack([WAVE, WAVE], axis=1), "one channel.*axis=1"),
        (np.array([np.nan], np.float32), "finite|within"),
        (np.zeros(3, complex), "complex"),
        ("text", "a numpy array of samples, got str"),
    ],
    ids=["stereo", "nan", "complex", "text"],
)
def test_a_refused_piece_changes_nothing(piece, match):
    """The next piece is read as if the refused one had not come."""
    reader = PcmReader()
    before = reader.read(b"\x00\x40\x00")
    with pytest.raises(AudioFormatError, match=match):
        reader.read(piece)

    assert [*before, *reader.read(b"\x20")] == [0.5, 0.25]


def test_bytes_that_are_no_number_are_refused_with_the_bytes_before_them():
    """An incomplete sample waits for the next bytes, and a refused piece does not."""
    reader = PcmReader("f32le")
    reader.read(b"\x00\x00")
    with pytest.raises(AudioFormatError, match="got inf"):
        reader.read(b"\x80\x7f")  # completes infinity

    assert np.array_equal([np.float32(1.0)], reader.read(b"\x80\x3f"))


def test_an_unknown_encoding_is_refused():
    """AudioFormatError names the encodings, and what came."""
    with pytest.raises(AudioFormatError, match="s16le, f32le, mulaw, alaw, got 'mp3'"):
        PcmReader("mp3")


@pytest.mark.parametrize("rate", [7_999, 192_001, 16_000.5, "fast"])
def test_an_impossible_rate_is_refused(rate):
    """AudioFormatError states the range, and what came."""
    with pytest.raises(AudioFormatError, match=f"8000 to 192000 Hz, got {rate!r}"):
        require_rate(rate)


RECORDINGS = {"flac": "flac", "ogg": "flac", "webm": "libopus", "mp4": "aac", "mp3": "mp3"}


def recording(container):
    """Return a second of a tone in a file of the format *container*."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(RECORDINGS[container], rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(WAVE[None, :], format="fltp", layout="mono")
        frame.sample_rate = 48_000
        resampler = av.AudioResampler(stream.format, "mono", 48_000, stream.frame_size or None)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    return file.getvalue()


def wav(*, rate=16_000, channels=1, width=2):
    """Return a WAV of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setframerate(rate)
        output.setnchannels(channels)
        output.setsampwidth(width)
        output.writeframes(bytes(100 * channels * width))
    return file.getvalue()


@pytest.mark.parametrize("container", RECORDINGS)
def test_a_recording_is_not_read_as_samples(container):
    """Its bytes would be noise, in which a model finds no words or wrong ones."""
    reader, data = PcmReader(), recording(container)
    for piece in (data[:600], data[600:]):
        with pytest.raises(AudioFormatError, match="expected samples in s16le, got a recording in"):
            reader.read(piece)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"rate": 24_000}, "16 bits, 1 channel.s. and 24000 Hz"),
        ({"channels": 2}, "16 bits, 2 channel.s. and 16000 Hz"),
        ({"width": 3}, "24 bits, 1 channel.s. and 16000 Hz"),
    ],
)
def test_a_wav_with_other_samples_is_refused(changes, found):
    """Read at another rate, or with channels that take turns, speech becomes other words."""
    with pytest.raises(AudioFormatError, match=f"s16le at 16000 Hz, got a WAV .* {found}"):
        PcmReader(rate=16_000).read(wav(**changes))


@pytest.mark.parametrize("rate", [None, 16_000])
def test_a_wav_with_the_same_samples_is_read(rate):
    """Many clients send a file as it is; its header is a millisecond of sound."""
    assert len(PcmReader(rate=rate).read(wav())) == 22 + 100


def extensible(tag):
    """Return an extensible WAV, whose tag comes after 44 bytes, the length of a plain header."""
    plain = wav()
    layout = b"\xfe\xff" + plain[22:36] + struct.pack("<HHIH", 22, 16, 4, tag) + bytes(14)
    return plain[:16] + struct.pack("<I", len(layout)) + layout + plain[36:]


@pytest.mark.parametrize("cut", [1, 3, 20, 44, 45, 46, 60])
def test_a_header_that_comes_in_parts_is_judged(cut):
    """The same samples are read, and others refused, wherever the header is cut."""
    file, other = extensible(1), extensible(3)
    reader, refusing = PcmReader(rate=16_000), PcmReader(rate=16_000)

    assert len(reader.read(file[:cut])) + len(reader.read(file[cut:])) == len(file) // 2
    with pytest.raises(AudioFormatError, match="got a WAV of format 3"):
        for part in (other[:cut], other[cut:]):
            refusing.read(part)


@pytest.mark.parametrize("encoding", ["s16le", "f32le", "mulaw", "alaw"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_header_makes_a_recording_of_samples(encoding, channels):
    """The file has the samples in their encoding, up to its end, and as many channels."""
    codes = np.random.default_rng(3).integers(0, 256, 4_000 * channels, dtype=np.uint8)
    data = WAVE.repeat(channels).tobytes() if encoding == "f32le" else codes.tobytes()
    expected = PcmReader(encoding).read(data).reshape(-1, channels).mean(axis=1)
    file = wave_header(encoding, rate=16_000, channels=channels) + data

    assert np.concatenate(list(decode_file(file))) == pytest.approx(expected, abs=1e-6)
