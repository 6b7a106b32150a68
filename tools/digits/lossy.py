"""Round trips through the lossy codecs of telephones, messengers and archives."""

from __future__ import annotations

from fractions import Fraction
import io
from typing import TYPE_CHECKING

from attrs import frozen
import av
import numpy as np
from recordings import SAMPLE_RATE, Audio

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen(kw_only=True)
class Codec:
    """An encoder at one sample rate, and the container of its output."""

    encoder: str
    container: str
    rate: int
    bit_rates: tuple[int, ...]  #: bits per second; some encoders do not go as low
    delay: float = 0.0  #: seconds by which speech is late, unless the container declares it


_AMR_DELAY = 0.0096  # measured: a look-ahead of 76 samples at 8 kHz, for which .amr has no field

#: Codecs at bit rates with audible artefacts; well above, a round trip changes next to nothing.
CODECS = (
    Codec(encoder="libmp3lame", container="mp3", rate=8_000, bit_rates=(8_000, 16_000)),
    Codec(encoder="libmp3lame", container="mp3", rate=16_000, bit_rates=(8_000, 16_000, 24_000)),
    Codec(encoder="libopus", container="ogg", rate=8_000, bit_rates=(6_000, 8_000, 12_000)),
    Codec(encoder="libopus", container="ogg", rate=16_000, bit_rates=(8_000, 12_000, 16_000)),
    Codec(encoder="aac", container="ipod", rate=8_000, bit_rates=(8_000, 12_000)),
    Codec(encoder="aac", container="ipod", rate=16_000, bit_rates=(12_000, 16_000, 24_000)),
    Codec(
        encoder="libopencore_amrnb",
        container="amr",
        rate=8_000,
        bit_rates=(4_750, 7_400),
        delay=_AMR_DELAY,
    ),
)


def draw_codec(rng: np.random.Generator) -> tuple[Codec, int]:
    """Return a random codec and one of its bit rates."""
    codec = CODECS[rng.integers(len(CODECS))]
    return codec, codec.bit_rates[rng.integers(len(codec.bit_rates))]


def transcode(audio: Audio, codec: Codec, bit_rate: int) -> Audio:
    """Encode and decode *audio*, keeping its length and the time of every sound.

    Raises:
        av.codec.codec.UnknownCodecError: this build of PyAV lacks the encoder.
    """
    stored = io.BytesIO()
    with av.open(stored, "w", format=codec.container) as container:
        stream = container.add_stream(codec.encoder, rate=codec.rate, layout="mono")
        encoder = stream.codec_context
        encoder.bit_rate = bit_rate
        encoder.open()
        frames = av.AudioResampler(
            format=encoder.format.name,
            layout="mono",
            rate=codec.rate,
            frame_size=encoder.frame_size,
        )
        for frame in _pass_through(frames, [_frame(audio)]):
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    stored.seek(0)
    with av.open(stored) as container:
        samples = av.AudioResampler(format="fltp", layout="mono", rate=SAMPLE_RATE)
        pieces = [
            frame.to_ndarray()[0] for frame in _pass_through(samples, container.decode(audio=0))
        ]
    decoded = np.concatenate(pieces)[round(codec.delay * SAMPLE_RATE) :][: len(audio)]
    return np.pad(decoded, (0, len(audio) - len(decoded)))


def _frame(audio: Audio) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(audio[None], format="fltp", layout="mono")
    frame.sample_rate, frame.time_base = SAMPLE_RATE, Fraction(1, SAMPLE_RATE)
    frame.pts = 0  # without it the container does not declare the silence that encoders begin with
    return frame


def _pass_through(
    resampler: av.AudioResampler, frames: Iterator[av.AudioFrame] | list[av.AudioFrame]
) -> Iterator[av.AudioFrame]:
    for frame in frames:
        yield from resampler.resample(frame)
    yield from resampler.resample(None)
