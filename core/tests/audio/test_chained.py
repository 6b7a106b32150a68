"""Chained Ogg files: one recording after another, each with a rate and channels of its own."""

from __future__ import annotations

import io

import numpy as np
import pytest

from wlk_core.audio import decode_file
from wlk_core.audio.ogg import OggLinks
from wlk_core.audio.reader import Reader
from wlk_core.errors import AudioFormatError

LINKS = {
    "low": {"rate": 16_000, "codec": "vorbis", "channels": 2},
    "high": {"rate": 44_100, "codec": "vorbis", "channels": 2},
    "opus": {"rate": 48_000, "codec": "libopus", "channels": 1},
    "flac": {"rate": 16_000, "codec": "flac", "channels": 1},
}


@pytest.mark.parametrize(
    "names",
    [("low", "high"), ("high", "low"), ("low", "low"), ("opus", "high", "flac")],
    ids="-".join,
)
@pytest.mark.parametrize("is_pipe", [False, True], ids=["file", "pipe"])
def test_links_of_any_rate_follow_one_another(recording, click_errors, names, is_pipe):
    """Every link is decoded, and its clicks are at its own times after the links before it."""

    class Pipe(io.BytesIO):
        def seekable(self):
            return not is_pipe

    data = b"".join(recording(f"{n}.ogg", **LINKS[n]).read_bytes() for n in names)

    audio = np.concatenate(list(decode_file(Pipe(data))))

    assert 40_000 * len(names) == pytest.approx(len(audio), abs=64 * len(names))
    times = [start + 2.5 * n for n in range(len(names)) for start in (0.5, 1.25, 2.0)]
    assert max(map(abs, click_errors(audio, times))) < 0.012


def test_damage_in_a_link_is_reported_after_the_last(recording):
    """The links after it are decoded, and the time counts from the beginning of the file."""
    first = recording("a.ogg", **LINKS["low"]).read_bytes()
    noise = np.random.default_rng(2).standard_normal(44_100 * 6).astype(np.float32) * 0.2
    second = bytearray(recording("b.ogg", samples=noise, **LINKS["high"]).read_bytes())
    second[len(second) // 2] ^= 0xFF
    pieces = []

    with pytest.raises(AudioFormatError, match=r"damaged data in 'audio data' at [4-6]\.\d s"):
        pieces.extend(decode_file(io.BytesIO(first + bytes(second) + first)))

    assert 176_000 == pytest.approx(sum(map(len, pieces)), abs=3000)


@pytest.mark.parametrize("size", [1, 100, 70_000])
def test_the_links_are_the_bytes_of_the_file(recording, size):
    """Nothing is added or lost where a file is divided, in blocks of any size."""
    data = recording("a.ogg", **LINKS["opus"]).read_bytes()
    links = OggLinks(Reader(io.BytesIO(data * 2), "twice"))

    first = b"".join(iter(lambda: links.read(size), b""))

    assert data == first
    assert links.next_link()
    assert data == b"".join(iter(lambda: links.read(size), b""))
    assert not links.next_link()


def test_bytes_between_pages_are_damage(recording):
    """They are left out, and the pages around them are read."""
    data = recording("a.ogg", **LINKS["opus"]).read_bytes()
    page = data.index(b"OggS", len(data) // 2)
    links = OggLinks(Reader(io.BytesIO(data[:page] + bytes(500) + data[page:]), "with zeros"))

    assert data == b"".join(iter(lambda: links.read(999), b""))
    assert page == links.damaged_position
    assert not links.is_cut


def test_a_link_without_a_last_page_is_cut(recording):
    """The flag of the last page is the only promise that Ogg makes."""
    data = recording("a.ogg", **LINKS["opus"]).read_bytes()
    links = OggLinks(Reader(io.BytesIO(data[:-1]), "cut"))

    while links.read(1000):
        pass

    assert links.is_cut
    assert links.damaged_position is None
