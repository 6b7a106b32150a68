"""
Count the words that a backend writes in audio without any, without a gate in front of it.

    python tools/real/wordless.py whisper DIR --minutes 10 --option policy=alignatt

The recordings are those of recordings.py in `wordless/`, at the given length, and more: what
microphones and lines bring when nobody speaks.  A row has the words per minute and the first ones.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from recordings import WORDLESS

from wlk_conformance.testing.signals import noise
from wlk_core import SAMPLE_RATE, load_backend
from wlk_core.options import parse_pairs
from wlk_core.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core import ASRToken, Backend

MAINS = 50.0  # hertz
SHOWN = 8  # words of a row


def white(seconds: float) -> NDArray[np.float32]:
    """Return white noise."""
    return noise(seconds, level=0.02, seed=4)


def quiet(seconds: float) -> NDArray[np.float32]:
    """Return the noise of a microphone in a quiet room, at -66 dB."""
    return noise(seconds, level=0.0005, seed=4)


def hum(seconds: float) -> NDArray[np.float32]:
    """Return the hum of the mains, with overtones and a trace of noise."""
    phases = 2 * np.pi * MAINS * np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    tones = sum(np.sin(order * phases) / order for order in range(1, 6))
    return (0.05 * np.asarray(tones) + 0.02 * white(seconds)).astype(np.float32)


def words_in(backend: Backend, audio: NDArray[np.float32], options: dict[str, str]) -> list[str]:
    """Return the words that a live stream commits, fed with chunks of a second."""
    with closing(backend.create_processor(**options)) as stream:
        tokens: list[ASRToken] = []
        for start in range(0, len(audio), SAMPLE_RATE):
            stream.insert_audio_chunk(audio[start : start + SAMPLE_RATE])
            while stream.has_backlog:
                tokens += stream.process_iter()[0]
        tokens += stream.finish()[0]
    return "".join(token.text for token in tokens).split()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].strip())
    parser.add_argument("backend")
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    spec = Registry().spec(arguments.backend)
    values = spec.split_options(parse_pairs(arguments.option))
    signals = {**WORDLESS, "quiet": quiet, "white": white, "hum": hum}
    with load_backend(arguments.backend, arguments.model, **values.backend) as backend:
        for name, signal in signals.items():
            words = words_in(backend, signal(60 * arguments.minutes), values.stream)
            rate = len(words) / arguments.minutes
            print(f"{name:10} {rate:6.2f} words a minute  {' '.join(words[:SHOWN])}", flush=True)


if __name__ == "__main__":
    main()
