"""Decode any recording to 16 kHz mono, with every sample at its time."""

from __future__ import annotations

import io
import os
import sys
import threading
import wave

import av
import numpy as np
import pytest

from wlk_live.audio import audio_duration, channel_count, decode_file

FORMATS = {
    "wav": "pcm_s16le",
    "flac": "flac",
    "mp3": "libmp3lame",
    "ogg": "vorbis",
    "opus": "libopus",
    "m4a": "aac",
    "webm": "libopus",
}
CASES = [
    pytest.param(suffix, rate, channels, id=f"{suffix}-{rate}-{['mono', 'stereo'][channels - 1]}")
    for suffix in FORMATS
    for rate in (8000, 16_000, 44_100, 48_000)
    for channels in (1, 2)
    if not (FORMATS[suffix] == "libopus" and rate == 44_100)  # Opus lacks this rate
    if not (FORMATS[suffix] == "vorbis" and channels == 1)  # FFmpeg's encoder needs two channels
]


def decoded(path):
    """Return the whole recording in one array."""
    return np.concatenate(list(decode_file(path)))


@pytest.mark.parametrize(("suffix", "rate", "channels"), CASES)
def test_clicks_keep_their_times_in_every_format(recording, click_errors, suffix, rate, channels):
    """Whatever the format, rate and channel count, times are right within 10 ms."""
    path = recording(f"clicks.{suffix}", rate=rate, codec=FORMATS[suffix], channels=channels)

    audio = decoded(path)

    assert audio.dtype == np.float32
    assert max(map(abs, click_errors(audio))) < 0.01
    # No sample is added or lost, except that Vorbis rounds to its own blocks.
    is_exact = rate == 16_000 and suffix != "ogg"
    assert len(audio) == pytest.approx(40_000, abs=0 if is_exact else 64)


@pytest.mark.parametrize("codec", ["pcm_s16le", "flac"], ids=["interleaved", "planar"])
def test_one_channel_can_be_decoded_by_itself(codec):
    """It equals a recording of that channel; one that is not there is silent."""
    parts = np.random.default_rng(5).integers(-9000, 9000, (2, 1600)).astype(np.int16)
    file = io.BytesIO()
    with av.open(file, "w", format="flac" if codec == "flac" else "wav") as container:
        stream = container.add_stream(codec, rate=16_000, layout="stereo")
        frame = av.AudioFrame.from_ndarray(parts.T.reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

    assert channel_count(file.getvalue()) == 2
    for channel, expected in enumerate((*parts, np.zeros(1600))):
        found = np.concatenate([*decode_file(file.getvalue(), channel=channel)])
        np.testing.assert_array_equal(found, expected / np.float32(32_768))


def test_channels_are_averaged(tmp_path):
    """A voice on one of two channels is decoded at half its level."""
    left = np.full(1600, 16_384, np.int16)
    with wave.open(str(tmp_path / "left.wav"), "wb") as file:
        file.setparams((2, 2, 16_000, 0, "NONE", ""))
        file.writeframes(np.stack([left, np.zeros_like(left)], axis=1).tobytes())

    assert np.array_equal(np.full(1600, 0.25, np.float32), decoded(tmp_path / "left.wav"))


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("late.mkv", "pcm_s16le", 16_000),
        ("late.mkv", "aac", 44_100),
        ("late.webm", "libopus", 48_000),
        ("late.m4a", "aac", 44_100),
        ("late.nut", "pcm_s16le", 44_100),
    ],
)
def test_a_late_start_and_a_hole_are_filled_with_zeros(recording, click_errors, name, codec, rate):
    """Sound that begins at 5 s and pauses at 6.5 s is decoded at these times."""
    path = recording(name, codec=codec, rate=rate, first_time=5.0, hole=(1.5, 1.9))

    errors = click_errors(decoded(path), [5.5, 6.25, 7.0])

    assert max(map(abs, errors)) < 0.01


def test_sound_before_the_beginning_is_left_out(recording, click_errors):
    """An edit list excludes the priming samples of an encoder, or a part that was cut off."""
    path = recording("early.m4a", codec="aac", rate=44_100, first_time=-0.6)

    assert max(map(abs, click_errors(decoded(path), [0.65, 1.4]))) < 0.01


@pytest.mark.parametrize("codec", ["pcm_s16le", "flac", "aac"])
def test_sound_before_time_0_is_the_beginning(recording, click_errors, codec):
    """A Matroska file whose times begin at -2 s is decoded whole, from its first sound on."""
    path = recording("early.mka", codec=codec, first_time=-2.0, avoid_negative_ts="disabled")

    audio = decoded(path)

    # Before av 18, FFmpeg counts the 1,024 samples that prime an AAC encoder as sound here.
    priming = 1024 / 16_000 if codec == "aac" and int(av.__version__.split(".")[0]) < 18 else 0
    assert max(map(abs, click_errors(audio))) < 0.01 + priming
    padding = 1024 + round(priming * 16_000)  # the last frame of AAC is full too
    assert len(audio) == pytest.approx(40_000, abs=padding)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cut.mkv", {"first_time": 20_000.0}),
        ("cut.ts", {"codec": "aac", "rate": 48_000, "first_time": 9.0}),
    ],
)
def test_a_clock_that_counts_from_anywhere_adds_no_pause(recording, click_errors, name, options):
    """A first time beyond the longest gap, or on the clock of a broadcaster, is the beginning."""
    path = recording(name, **options)

    assert max(map(abs, click_errors(decoded(path)))) < 0.03  # one frame of AAC delay, undeclared


def test_mp3_files_joined_and_padded_are_decoded_whole(recording):
    """Tags and padding between the frames do not count as damage."""
    data = recording("clicks.mp3", codec="libmp3lame").read_bytes()

    audio = decoded(io.BytesIO(data + data + bytes(3000)))

    assert len(audio) == pytest.approx(80_000, abs=2500)


def test_broadcasts_joined_restart_the_clock(recording):
    """Joined segments of a live stream follow one another without a pause."""
    first = recording("a.ts", codec="mp2").read_bytes()
    second = recording("b.ts", codec="mp2", first_time=60.0).read_bytes()

    assert len(decoded(io.BytesIO(first + second))) == pytest.approx(80_000, abs=2500)


def test_the_links_of_a_chained_ogg_follow_one_another(recording, click_errors):
    """Internet radio produces such files; all links have the same rate."""
    data = recording("clicks.ogg", codec="libopus", rate=48_000).read_bytes()

    audio = decoded(io.BytesIO(data + data))

    assert len(audio) == pytest.approx(80_000, abs=64)
    assert max(map(abs, click_errors(audio, [0.5, 1.25, 2.0, 3.0, 3.75, 4.5]))) < 0.01


def test_a_pipe_is_decoded_while_it_is_written(recording):
    """Sound is decoded as it arrives, before the writer closes the pipe."""
    data = recording("clicks.wav").read_bytes()
    read_end, write_end = os.pipe()
    decoded_first, results = threading.Event(), []

    def write():
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            pipe.write(data[:70_000])  # FFmpeg needs 64 KiB to recognise a wav
            results.append(decoded_first.wait(timeout=120))
            pipe.write(data[70_000:])

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(read_end, "rb") as pipe:
        pieces = decode_file(pipe)
        samples = len(next(pieces))
        decoded_first.set()
        samples += sum(map(len, pieces))
        assert not pipe.closed
    writer.join()

    assert results == [True]
    assert samples == 40_000


def test_a_dash_is_standard_input(recording, monkeypatch):
    """`-` decodes standard input, whose duration is unknown."""
    stdin = io.TextIOWrapper(io.BytesIO(recording("clicks.flac", codec="flac").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)

    assert len(decoded("-")) == 40_000
    assert audio_duration("-") is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no FIFO")
def test_nothing_is_read_from_a_fifo_for_its_length(tmp_path):
    """Opening it would wait for a writer, and what was read would be lost to the decoder."""
    os.mkfifo(tmp_path / "pipe")

    assert audio_duration(tmp_path / "pipe") is None


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "m4a", "webm"])
def test_the_duration_is_read_from_the_header(recording, suffix):
    """Reading the length decodes nothing."""
    path = recording(f"clicks.{suffix}", codec=FORMATS[suffix])

    assert audio_duration(path) == pytest.approx(2.5, abs=0.1)  # older FFmpegs count MP3 padding


def test_an_interruption_ends_a_wait_for_sound(recording):
    """Ctrl-C is raised even while FFmpeg waits for a pipe."""

    class InterruptedPipe(io.BytesIO):
        def seekable(self):
            return False

        def read1(self, size=-1):
            if self.seek(0, io.SEEK_CUR) > 60_000:
                raise KeyboardInterrupt
            return super().read1(size)

    pipe = InterruptedPipe(recording("clicks.wav").read_bytes())

    with pytest.raises(KeyboardInterrupt):
        list(decode_file(pipe))
