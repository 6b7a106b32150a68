"""One recording in every format, rate and channel count, through the command line."""

from __future__ import annotations

from fractions import Fraction
import itertools
import json
import os

import av
import numpy as np
import pytest

from wlk_conformance.testing import load_clip
from wlk_core.cli.main import execute

CODECS = {
    "wav": "pcm_s16le",
    "flac": "flac",
    "mp3": "libmp3lame",
    "ogg": "libopus",
    "m4a": "aac",
    "webm": "libopus",
}
RATES = (8_000, 16_000, 44_100, 48_000)
CHANNELS = (1, 2)
CHUNKS = (0.1, 0.5, 1.0, 5.0, 60.0)
EVERYTHING = os.environ.get("WLK_FULL") == "1"  # nox -s full; otherwise each value at least once

# Opus has 48 kHz only among these (RFC 6716 resamples inside the codec).
ALL = [
    (suffix, rate, channels)
    for suffix, rate, channels in itertools.product(CODECS, RATES, CHANNELS)
    if CODECS[suffix] != "libopus" or rate != 44_100
]
SOME = [
    ("wav", 8_000, 2),
    ("wav", 44_100, 1),
    ("flac", 44_100, 2),
    ("mp3", 8_000, 1),  # left to itself, the encoder writes 8 kbit/s and nothing above 3 kHz
    ("mp3", 16_000, 1),
    ("mp3", 48_000, 2),
    ("ogg", 48_000, 1),
    ("m4a", 44_100, 2),
    ("webm", 48_000, 2),
]


def write(path, *, rate, channels):
    """Encode the demo clip into *path*."""
    audio = load_clip("demo").audio
    layout = "mono" if channels == 1 else "stereo"
    resample = av.AudioResampler(format="fltp", layout="mono", rate=rate)
    source = av.AudioFrame.from_ndarray(audio[None], format="fltp", layout="mono")
    source.sample_rate, source.pts, source.time_base = 16_000, 0, Fraction(1, 16_000)
    pieces = [f.to_ndarray()[0] for f in [*resample.resample(source), *resample.resample(None)]]
    samples = np.concatenate(pieces)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(CODECS[path.suffix[1:]], rate=rate, layout=layout)
        stream.codec_context.open()
        size = stream.codec_context.frame_size or 1024
        convert = av.AudioResampler(
            format=stream.codec_context.format.name, layout=layout, rate=rate
        )
        for start in range(0, len(samples), size):
            piece = np.repeat(samples[None, start : start + size], channels, axis=0)
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(piece), format="fltp", layout=layout
            )
            frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
            for converted in convert.resample(frame):
                container.mux(stream.encode(converted))
        container.mux(stream.encode(None))


def transcribe(path, capsys, *options):
    """Return the JSON of one file."""
    arguments = ["transcribe", str(path), "--model", "digits", "--backend", "faster-whisper"]
    status = execute([*arguments, "--format", "json", *options])
    captured = capsys.readouterr()

    assert 0 == status, captured.err
    return json.loads(captured.out)


def words_of(result):
    """Return text and start (s) of each word in the JSON of one file."""
    return [(token["text"].strip(), token["start"]) for token in result["tokens"]]


def demo_words():
    """Return the same of the demo's truth, with the tolerance of the starts."""
    return [
        (word.text.strip(), pytest.approx(word.start, abs=0.1)) for word in load_clip("demo").words
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "rate", "channels"), ALL if EVERYTHING else SOME)
def test_every_format_gives_the_same_words(tmp_path, capsys, suffix, rate, channels):
    """Words are the same and begin within 0.1 s, whatever the container, rate and channels."""
    path = tmp_path / f"demo.{suffix}"
    write(path, rate=rate, channels=channels)

    assert demo_words() == words_of(transcribe(path, capsys))


@pytest.mark.slow
@pytest.mark.parametrize("chunk_seconds", CHUNKS)
@pytest.mark.parametrize("suffix", list(CODECS) if EVERYTHING else ["flac"])
def test_every_chunk_size_gives_the_same_words(tmp_path, capsys, suffix, chunk_seconds):
    """The size of the chunks changes when words come, not which."""
    path = tmp_path / f"demo.{suffix}"
    write(path, rate=48_000, channels=2)

    result = transcribe(path, capsys, "--chunk-seconds", str(chunk_seconds))

    assert demo_words() == words_of(result)


@pytest.mark.slow
def test_the_json_of_a_file_has_every_field(tmp_path, capsys):
    """The fields scripts rely on are there, and the text is the tokens joined."""
    path = tmp_path / "demo.wav"
    write(path, rate=16_000, channels=1)
    result = transcribe(path, capsys)

    assert {
        "file", "backend", "model", "language", "duration", "text", "tokens", "segments",
        "silences", "stats",
    } == set(result)  # fmt: skip
    assert {"start", "end", "text", "probability", "speaker", "language"} == set(
        result["tokens"][0]
    )
    assert result["text"] == "".join(token["text"] for token in result["tokens"]).strip()
    assert ("faster-whisper", "digits", "en") == (
        result["backend"],
        result["model"],
        result["language"],
    )
    assert result["stats"]["state_bytes"] > 0
