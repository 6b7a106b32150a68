"""Damage that FFmpeg passes over silently: found in the bytes, reported, and kept as silence."""

from __future__ import annotations

import io
from itertools import pairwise
import logging

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.audio import decode_file
from wlk_core.audio.matroska import MatroskaCheck
from wlk_core.audio.transport import TransportCheck
from wlk_core.errors import AudioFormatError

NOISE = (np.random.default_rng(23).standard_normal(16_000 * 4) * 0.2).astype(np.float32)
FORMATS = {
    "pcm.mka": ("pcm_s16le", 16_000),
    "opus.webm": ("libopus", 48_000),
    "opus.mka": ("libopus", 48_000),
    "aac.ts": ("aac", 16_000),
    "mp2.ts": ("mp2", 16_000),
    "opus.ogg": ("libopus", 48_000),
}


def decoded(data):
    """Decode to the end and return the audio and the failure."""
    pieces = [np.empty(0, np.float32)]
    try:
        pieces.extend(decode_file(io.BytesIO(data)))
    except AudioFormatError as failure:
        return np.concatenate(pieces), failure
    return np.concatenate(pieces), None


@pytest.fixture
def noise(recording):
    """Return a function that gives the bytes of four seconds of noise in a format."""

    def make(name):
        codec, rate = FORMATS[name]
        samples = NOISE if rate == 16_000 else np.repeat(NOISE, 3)
        options = {"cluster_time_limit": "900"} if name.endswith(("mka", "webm")) else {}
        return recording(name, samples=samples, codec=codec, rate=rate, **options).read_bytes()

    return make


def damaged(check, data, size=4096):
    """Feed *data* to *check* and return where it found damage."""
    for position in range(0, len(data), size):
        check.feed(position, data[position : position + size])
    return check.damaged_position


@pytest.mark.parametrize("name", FORMATS)
def test_sound_that_was_overwritten_is_reported_and_becomes_silence(noise, name):
    """The failure names the time, and the sound after the hole keeps its own."""
    intact, no_failure = decoded(noise(name))
    data = bytearray(noise(name))
    start, stop = len(data) // 2, len(data) * 3 // 4
    data[start:stop] = bytes(stop - start)

    audio, failure = decoded(bytes(data))

    assert no_failure is None
    assert abs(len(intact) - len(audio)) <= 16
    assert np.abs(audio[-4000:-400]).mean() > 0.05
    assert np.corrcoef(intact[-4000:-400], audio[-4000:-400])[0, 1] > 0.9
    assert "damaged data in 'audio data' at " in str(failure)
    assert 0.5 <= float(str(failure).split(" at ")[1].split(" s;")[0]) <= 3.0
    assert "\n" not in str(failure)


@pytest.mark.parametrize("name", ["pcm.mka", "opus.mka"])
def test_a_byte_that_changed_in_a_cluster_breaks_its_checksum(noise, name):
    """FFmpeg decodes the changed samples without an error; WebM has no checksums."""
    data = bytearray(noise(name))
    data[len(data) // 2] ^= 0x55

    audio, failure = decoded(bytes(data))

    assert 63_900 < len(audio) < 64_100
    assert "damaged data" in str(failure)


def test_lost_packets_of_a_broadcast_are_reported(noise):
    """Packets that did not arrive leave a gap between time stamps and no other trace."""
    data = noise("mp2.ts")
    start = len(data) // 188 // 2 * 188

    audio, failure = decoded(data[:start] + data[start + 188 * 60 :])

    assert 64_500 == pytest.approx(len(audio), abs=1300)
    assert "damaged data" in str(failure)


def test_a_long_hole_in_a_broadcast_keeps_its_length(recording):
    """Damaged bytes before a gap show that it is lost sound and no joined recording."""
    data = bytearray(recording("long.ts", samples=np.tile(NOISE, 8), codec="mp2").read_bytes())
    start, stop = len(data) // 8, len(data) * 6 // 8
    data[start:stop] = bytes(stop - start)

    audio, failure = decoded(bytes(data))

    assert 16_000 * 32 == pytest.approx(len(audio), abs=1500)
    assert "damaged data in 'audio data' at 4." in str(failure)


def test_broadcasts_joined_are_no_damage(recording):
    """Segments of a live stream that were joined restart their counters and clocks."""
    first = recording("a.ts", samples=NOISE, codec="mp2").read_bytes()
    second = recording("b.ts", samples=NOISE, codec="mp2", first_time=60.0).read_bytes()

    audio, failure = decoded(first + second)

    assert failure is None
    assert 128_000 == pytest.approx(len(audio), abs=2500)


def test_an_ogg_whose_first_sound_is_damaged_keeps_its_times(noise):
    """The lost pages are silence, and the sound after them keeps its place."""
    data = bytearray(noise("opus.ogg"))
    first_page = [n for n in range(len(data)) if data.startswith(b"OggS", n)][2]
    data[first_page + 60] ^= 0xFF

    audio, failure = decoded(bytes(data))

    assert 64_000 == pytest.approx(len(audio), abs=16)
    assert "damaged data in 'audio data' at 0.0 s" in str(failure)


def test_an_ogg_with_damage_on_every_page_of_sound_is_a_failure(noise):
    """It was silence and success before, because FFmpeg leaves such pages out."""
    data = bytearray(noise("opus.ogg"))
    pages = [n for n in range(len(data)) if data.startswith(b"OggS", n)]
    for page in pages[2:]:
        data[page + 60] ^= 0xFF

    _, failure = decoded(bytes(data))

    assert isinstance(failure, AudioFormatError)


@pytest.mark.parametrize("name", ["opus.ogg", "mp2.ts"])
def test_a_file_that_ends_in_the_middle_is_decoded_with_a_warning(noise, name, caplog):
    """A recorder that was switched off leaves such a file, so it is no failure."""
    data = noise(name)

    with caplog.at_level(logging.WARNING, logger="wlk_core.audio"):
        audio, failure = decoded(data[: len(data) // 2 + 7])

    assert failure is None
    assert len(audio) > 15_000
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("'audio data' ends in the middle, at ")


def test_a_packet_of_a_track_that_nothing_announced_ends_nothing(noise):
    """A changed bit in the number of a track begins a track within the file."""
    data = bytearray(noise("mp2.ts"))
    starts = [at for at in range(0, len(data), 188) if data[at + 1 : at + 3] == b"\x41\x00"]
    data[starts[len(starts) // 2] + 2] = 0x40

    audio, failure = decoded(bytes(data))

    assert len(decoded(noise("mp2.ts"))[0]) - len(audio) < 16_000
    assert failure is None or "damaged data" in str(failure)


def test_a_wav_shorter_than_its_header_is_decoded_with_a_warning(recording, caplog):
    """A header with a placeholder, as a pipe gets it, promises nothing."""
    data = recording("noise.wav", samples=NOISE).read_bytes()
    at = data.index(b"data") + 4
    piped = data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]

    with caplog.at_level(logging.WARNING, logger="wlk_core.audio"):
        whole = [decoded(data), decoded(piped[:64_000])]
        assert [] == caplog.records
        cut = decoded(data[:64_000])

    assert [None, None, None] == [failure for _, failure in [*whole, cut]]
    assert "at 2.0 s" in caplog.records[0].getMessage()


def test_what_a_codec_computes_beyond_all_sound_is_damage(recording):
    """The part becomes silence, and the sound around it is decoded."""
    samples = NOISE.copy()
    samples[24_000:32_000] *= 1000
    data = recording("loud.m4a", samples=samples, codec="aac").read_bytes()

    audio, failure = decoded(data)

    assert 64_000 == len(audio)
    assert np.abs(audio).max() <= 16
    assert min(np.abs(audio[:20_000]).mean(), np.abs(audio[-20_000:]).mean()) > 0.05
    assert "damaged data in 'audio data' at 1." in str(failure)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cuts=st.lists(st.integers(1, 140_000), max_size=30), again=st.integers(0, 140_000))
def test_a_sound_file_is_sound_however_it_is_read(noise_files, cuts, again):
    """Blocks of any size, repeated blocks and a look at the end find no damage."""
    for data, check in [(noise_files[0], MatroskaCheck()), (noise_files[1], TransportCheck)]:
        check = check(data[:4096]) if check is TransportCheck else check  # noqa: PLW2901 -- opened
        edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        check.feed(len(data) - 10, data[-10:])
        for start, stop in pairwise(edges):
            check.feed(start, data[start:stop])
            if start <= again < stop:
                check.feed(start // 2, data[start // 2 : stop])

        assert check.damaged_position is None


@pytest.fixture
def noise_files(noise):
    """Return a Matroska file and a transport stream."""
    return noise("pcm.mka"), noise("mp2.ts")


def test_every_changed_byte_of_a_cluster_is_found(noise):
    """Structure and checksum cover all bytes from the first cluster to the end of the last."""
    data = noise("pcm.mka")
    first = data.index(b"\x1f\x43\xb6\x75")
    last = data.index(b"\x1c\x53\xbb\x6b", first)  # the index of the file follows the clusters
    for position in np.random.default_rng(3).integers(first + 12, last, size=200):
        changed = bytearray(data)
        changed[position] ^= 0xA5

        assert damaged(MatroskaCheck(), bytes(changed)) is not None, position


@settings(deadline=None, derandomize=True, max_examples=200)
@given(data=st.binary(max_size=400), size=st.integers(1, 64))
def test_any_bytes_are_checked_without_an_error(data, size):
    """A file that only begins like Matroska or like a transport stream ends in no crash."""
    matroska = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\xff" + data
    packets = (b"\x47" + bytes(187)) * 5

    assert damaged(MatroskaCheck(), matroska, size) in {None, *range(len(matroska) + 1)}
    assert damaged(TransportCheck(packets), packets + data, size) in {
        None, *range(len(packets), len(packets + data) + 1),
    }  # fmt: skip
