"""A file that is read while it arrives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import io
import tracemalloc

from hypothesis import given, strategies
import pytest

from wlk_core.audio import decode_file
from wlk_serve.transcriptions.growing_file import GrowingFile

RATE = 16_000


@pytest.fixture
def file():
    """Return an empty file, which is deleted after the test."""
    file = GrowingFile()
    yield file
    file.close()


@pytest.fixture
def thread():
    """Return a thread that reads."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def wav_header(samples):
    """Return the header of 16-bit samples of one channel."""
    size = 2 * samples
    fields = [b"RIFF", 36 + size, b"WAVEfmt ", 16, 1 | 1 << 16, RATE, 2 * RATE, 2 | 16 << 16]
    return b"".join(
        field if isinstance(field, bytes) else field.to_bytes(4, "little")
        for field in [*fields, b"data", size]
    )


def test_a_read_waits_for_its_bytes(file, thread):
    """It returns what there is, and nothing at the end."""
    read = thread.submit(file.read, 10)
    file.write(b"abc")
    assert b"abc" == read.result(30)

    read = thread.submit(file.read, 10)
    file.finish()
    assert b"" == read.result(30)


@pytest.mark.parametrize(
    "call", [lambda f: f.read(1), lambda f: f.seek(0, 2), GrowingFile.seekable]
)
def test_an_upload_that_breaks_off_ends_every_wait(file, thread, call):
    """The reader receives an error, not the end of the file."""
    waiting = thread.submit(call, file)
    file.abort()

    with pytest.raises(OSError, match="aborted"):
        waiting.result(30)


@pytest.mark.parametrize(
    ("head", "is_seekable"),
    [
        (b"RIFF\0\0\0\0WAVE", False),
        (b"fLaC", False),
        (b"OggS", False),
        (b"ID3\4", False),
        (b"\xff\xfb\x90\x00", False),
        (b"\xff\xf1\x50\x80", False),
        (b"\x1aE\xdf\xa3", False),
        (b"\0\0\0\x20ftypisom", True),
        (b"\xff\x00", True),
        (b"", True),
    ],
)
def test_only_formats_that_need_it_are_read_out_of_order(file, head, is_seekable):
    """FFmpeg looks at the end of any file that it may seek in."""
    file.write(head)
    file.finish()

    assert is_seekable == file.seekable()


@given(data=strategies.binary(max_size=60), moves=strategies.lists(strategies.integers(0, 70)))
def test_a_whole_file_reads_as_one_in_memory(data, moves):
    """Wherever it is read."""
    growing, memory = GrowingFile(), io.BytesIO(data)
    growing.write(data[:20])
    growing.write(data[20:])
    growing.finish()
    for move in moves:
        assert memory.seek(move) == growing.seek(move)
        assert memory.read(7) == growing.read(7)
    assert memory.seek(-len(data), 2) == growing.seek(-len(data), 2)
    assert memory.read() == growing.read()
    growing.close()


def test_sound_is_decoded_before_the_file_ends(file, thread):
    """The first piece of a wav needs its beginning only."""
    file.write(wav_header(60 * RATE) + bytes(20 * RATE))
    pieces = decode_file(file)

    assert len(thread.submit(next, pieces).result(60)) > 0
    file.abort()
    thread.submit(pieces.close).result(60)


@pytest.mark.slow
def test_a_long_recording_is_not_held_in_memory(file, thread):
    """Of 16 MiB that pass through, a few are held at any time."""
    samples = 8 << 20
    block = bytes(1 << 16)

    def decode():
        return sum(len(piece) for piece in decode_file(file))

    tracemalloc.start()
    decoded = thread.submit(decode)
    file.write(wav_header(samples))
    for _ in range(2 * samples // len(block)):
        file.write(block)
    file.finish()
    assert samples == decoded.result(120)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 8 << 20
