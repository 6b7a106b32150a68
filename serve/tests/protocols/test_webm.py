"""WebM from a browser's recorder, decoded piece by piece."""

from __future__ import annotations

import io

import av
from hypothesis import given, strategies
import numpy as np
import pytest

from wlk_conformance.testing import connected_digits
from wlk_live.audio import decode_file
from wlk_serve.protocols import RequestError, WebmDecoder

UNKNOWN = b"\x01" + b"\xff" * 7  # the size of an element during recording
BEGIN = b"\x1aE\xdf\xa3\x80" + b"\x18\x53\x80\x67" + UNKNOWN  # EBML, Segment
CLUSTER = b"\x1f\x43\xb6\x75" + UNKNOWN + b"\xe7\x81\x00"  # at time 0
OPUS_SILENCE = b"\xf8\xff\xfe"  # 20 ms


def track(codec=b"A_OPUS", number=1, private=None):
    """Return a track entry."""
    head = b"OpusHead\x01\x01" + bytes(2) + (48_000).to_bytes(4, "little") + bytes(3)
    fields = b"\xd7\x81" + bytes([number]) + b"\x86" + bytes([0x80 | len(codec)]) + codec
    private = head if private is None else private
    fields += b"\x63\xa2" + bytes([0x80 | len(private)]) + private
    return b"\x16\x54\xae\x6b" + UNKNOWN + b"\xae" + UNKNOWN + fields


def block(milliseconds=0, number=1, packet=OPUS_SILENCE, flags=0x80):
    """Return a SimpleBlock."""
    content = bytes([0x80 | number]) + milliseconds.to_bytes(2) + bytes([flags]) + packet
    return b"\xa3" + bytes([0x80 | len(content)]) + content


def cluster(milliseconds):
    """Return the beginning of a cluster, and one block."""
    return CLUSTER[:12] + b"\xe7\x84" + milliseconds.to_bytes(4) + block()


@pytest.fixture(scope="module")
def speech():
    """Return spoken digits."""
    return connected_digits(6, seed=3).audio


@pytest.fixture(scope="module")
def recording(speech):
    """Return speech as FFmpeg records it live, with one cluster per second."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm", options={"live": "1"}) as container:
        stream = container.add_stream("libopus", rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            (speech * 32_767).astype(np.int16)[None], format="s16", layout="mono"
        )
        frame.sample_rate = 16_000
        resampler = av.AudioResampler("s16", "mono", 48_000)
        for part in [*resampler.resample(frame), *resampler.resample(None), None]:
            container.mux(stream.encode(part))
    return file.getvalue()


def samples(pieces):
    """Decode pieces to float32 samples."""
    decoder = WebmDecoder()
    data = b"".join(part for piece in pieces for part in decoder.decode(piece))
    return np.frombuffer(data, "<i2").astype(np.float32) / 32_768


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_pieces_of_any_size_are_the_samples_of_the_whole(recording, size):
    """The samples equal FFmpeg's, except for the 7 ms that Opus puts in front."""
    ours = samples(recording[i : i + size] for i in range(0, len(recording), size))
    whole = np.concatenate(list(decode_file(io.BytesIO(recording))))[112:]

    assert 0 <= len(ours) - len(whole) < 320  # the last packet is padded with silence
    assert np.abs(ours[: len(whole)] - whole).max() < 1e-4


def test_a_gap_between_blocks_is_silence():
    """The clock of a paused recorder runs on; 30 ms count as jitter."""
    decoded = samples([BEGIN + track() + CLUSTER + block(0) + block(50) + block(1070)])

    assert abs(len(decoded) / 16_000 - 1.09) < 0.06


@pytest.mark.parametrize(
    "tracks", [(track(b"V_AV1", 2), track()), (track(), track(b"V_AV1", 2, b"av1"))]
)
def test_blocks_of_a_picture_are_left_out(tracks):
    """A recorder may record video, too, in a track before or after the sound."""
    header = BEGIN + b"".join(tracks) + CLUSTER
    alone = samples([header + block() + block(20)])

    assert np.array_equal(alone, samples([header + block() + block(5, 2, b"AV1") + block(20)]))


def test_the_sound_before_damage_is_kept():
    """Samples before the damage are returned, even from the same message."""
    parts = WebmDecoder().decode(BEGIN + track() + CLUSTER + 50 * block() + b"\x00")
    kept = b""
    with pytest.raises(RequestError, match="damaged"):
        for part in parts:
            kept += part

    assert 31_000 < len(kept) <= 32_000


def test_a_message_is_decoded_in_pieces_of_few_elements():
    """Each takes milliseconds, whatever the message weighs."""
    pieces = [*WebmDecoder().decode(BEGIN + track() + CLUSTER + 320 * block() + 320 * b"\xec\x80")]

    assert len(pieces) > 20
    assert max(map(len, pieces)) <= 32 * 640


def test_another_format_is_refused_before_anything_is_decoded():
    """No stream is opened for it."""
    with pytest.raises(RequestError, match="another format"):
        WebmDecoder().decode(b"RIFF....WAVE")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"RIFF....WAVE", "another format"),
        (BEGIN + bytes(20), "damaged"),
        (BEGIN + track(b"A_AAC") + CLUSTER + block(), "no Opus track"),
        (BEGIN + track() + CLUSTER + block(flags=0x86), "several packets"),
        (BEGIN + track() + CLUSTER + b"\xa3\x10\xff\xff\xff", "16,777,215 bytes"),
        (BEGIN + track() + CLUSTER + block(packet=b"\xff" * 9), "damaged"),
        (BEGIN + track() + 20_000 * b"\xec\x80", "more than 20,000 elements"),
        (BEGIN + b"\xd7\x00\x7f" + b"\xff" * 6 + b"\xf6", "a size of nine bytes"),
        (BEGIN + b"\xe7\x40\xc8" + b"\xff" * 200 + block(), "an element of 200 bytes"),
        (BEGIN + track() + b"".join(cluster(20_000 * n) for n in range(8)), "two minutes"),
    ],
)
def test_what_is_no_webm_with_opus_is_refused(data, found):
    """The error says what was expected and what came."""
    with pytest.raises(RequestError, match=f"WebM with Opus.*{found}"):
        samples([data])


@given(strategies.lists(strategies.binary(max_size=60), max_size=6))
def test_any_bytes_are_decoded_or_refused(pieces):
    """Whatever follows the header, no other error is raised."""
    decoder = WebmDecoder()
    try:
        for piece in [BEGIN + track() + CLUSTER + block(), *pieces]:
            assert sum(map(len, decoder.decode(piece))) < 5_000_000
    except RequestError as error:
        assert "WebM with Opus" in str(error)
