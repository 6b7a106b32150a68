"""
The cost of a Voxtral stream: forward passes, bytes held, and the text path.

python benchmarks/voxtral.py --backend voxtral-mlx
python benchmarks/voxtral.py --backend voxtral-mlx --engine voxmlx
python benchmarks/voxtral.py --backend voxtral-hf --growth 60   # an hour, minute by minute
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import TYPE_CHECKING, Any

from digit_streams.growth import print_growth
import numpy as np

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend
from wlk_core.processor import SAMPLE_RATE
from wlk_core.streaming import TokenPrediction
from wlk_voxtral.detokenizer import StreamingDetokenizer
from wlk_voxtral.tokenizer import TekkenTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import ASRToken, Backend, StreamStats

STEP_SECONDS = 0.08
TARGET_PASSES = 6.0  # a second in file mode, against 12.5 step by step


def speech(minutes: float) -> np.ndarray:
    """Return connected digits in several voices, without a silence that ends an utterance."""
    parts: list[np.ndarray] = []
    seed = 0
    while sum(map(len, parts)) < 60 * minutes * SAMPLE_RATE:
        parts.append(connected_digits(6, seed=seed, gap=(0.05, 0.8), lead=0.2, tail=0.4).audio)
        seed += 1
    return np.concatenate(parts)[: round(60 * minutes * SAMPLE_RATE)]


def transcribed(
    backend: Backend, audio: np.ndarray, chunk_seconds: float
) -> tuple[tuple[ASRToken, ...], StreamStats]:
    """Return the words of a stream and its counters."""
    driver = StreamDriver(backend.create_processor())
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()
    return driver.tokens, driver.processor.stats


def print_passes(backend: Backend, minutes: float) -> None:
    """Compare live audio with a file: decoder passes a second, and the words."""
    audio = speech(minutes)
    seconds = len(audio) / SAMPLE_RATE
    live, live_stats = transcribed(backend, audio, STEP_SECONDS)
    file, file_stats = transcribed(backend, audio, 60.0)
    for name, stats in (
        ("live, chunks of 80 ms", live_stats),
        ("file, chunks of 60 s", file_stats),
    ):
        passes = (stats.decoder_forwards or 0) / seconds
        positions = (stats.decoder_positions or 0) / seconds
        busy = stats.busy_seconds / seconds
        print(
            f"  {name}: {passes:.2f} passes over {positions:.2f} positions and {busy:.4f} busy "
            "seconds per audio second"
        )
    print(f"  target in file mode: at most {TARGET_PASSES:g} passes")
    # Probabilities are left out, because wider passes round differently.
    same = [(token.text, token.start, token.end) for token in live] == [
        (token.text, token.start, token.end) for token in file
    ]
    print(f"  the same words and times: {same} ({len(file)} words)")


def print_bytes(backend: Any, minutes: Sequence[int]) -> None:
    """Print the bytes that one stream without a silence holds as it grows longer."""
    engine, states = backend.engine, []
    decode = engine.decode

    def recorded(*arguments: Any, **options: Any) -> Any:
        output = decode(*arguments, **options)
        states[:] = [output[1]]
        return output

    engine.decode = recorded
    driver = StreamDriver(backend.create_processor())
    audio, before = speech(1.0), 0
    for minute in range(1, max(minutes) + 1):
        driver.feed(audio, chunk_seconds=5.0)
        driver.drain()
        stats = driver.processor.stats
        if minute in minutes:
            passes = (stats.decoder_forwards or 0) - before
            print(
                f"  minute {minute}: {stats.state_bytes} bytes held, {states[0].encoder_bytes} of "
                f"them by the encoder; {passes / 60:.2f} passes per second of this minute"
            )
        before = stats.decoder_forwards or 0
    driver.processor.close()
    engine.decode = decode


def print_text_path(hours: float) -> None:
    """Print the cost of assembling words, which is the same for every id."""
    tokenizer = _large_tokenizer()
    text_id = tokenizer.specials
    ids = (tokenizer.word_id, text_id, text_id, tokenizer.pad_id)
    ids *= round(hours * 3600 / STEP_SECONDS / len(ids))
    detokenizer, began = StreamingDetokenizer(tokenizer), perf_counter()
    for token_id in ids:
        detokenizer.push(TokenPrediction(token_id, 0.9))
    spent = perf_counter() - began
    print(f"  text path: {spent / hours:.2f} s per hour, {1e6 * spent / len(ids):.1f} us per id")


def _large_tokenizer() -> TekkenTokenizer:
    """Return a tokenizer of the published size whose ids of text are all the same piece."""
    return TekkenTokenizer(
        pieces=tuple(b" x" for _ in range(130_072)),
        specials=1000,
        bos_id=1,
        eos_id=2,
        pad_id=32,
        word_id=33,
        delay_steps=6,
        left_pad_steps=32,
    )


def main() -> None:
    """Print the requested figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="voxtral-mlx")
    parser.add_argument("--engine", help="of voxtral-mlx: native or voxmlx")
    parser.add_argument("--minutes", type=float, default=2.0, help="of audio to compare modes on")
    parser.add_argument(
        "--at", type=int, nargs="+", default=[1, 10, 60], help="minutes to count at"
    )
    parser.add_argument("--growth", type=int, metavar="MINUTES", help="loop a minute instead")
    arguments = parser.parse_args()
    options = {"engine": arguments.engine} if arguments.engine else {}
    print(" ".join([arguments.backend, "digits", *options.values()]))
    with load_backend(arguments.backend, "digits", **options) as backend:
        backend.warmup()
        if arguments.growth:
            print_growth(backend.create_processor(), arguments.growth)
            return
        print_passes(backend, arguments.minutes)
        print_bytes(backend, arguments.at)
    print_text_path(1.0)


if __name__ == "__main__":
    main()
