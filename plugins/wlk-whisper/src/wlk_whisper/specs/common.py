"""Options that mean the same on several engines."""

from __future__ import annotations

from wlk_core import Option

__all__ = [
    "AUDIO_CONTEXT",
    "BEAM_SIZE",
    "BOUNDS",
    "BUFFER_SECONDS",
    "CACHE_DIR",
    "CAPABILITIES",
    "INIT_PROMPT",
    "TICK_SECONDS",
]

CACHE_DIR = Option(name="cache_dir", default=None, help="where pulled models lie")

BEAM_SIZE = Option(
    name="beam_size",
    type=int,
    default=1,
    minimum=1,
    maximum=16,
    help="hypotheses the decoder keeps",
    scope="stream",
)

INIT_PROMPT = Option(
    name="init_prompt",
    default=None,
    help="text that precedes the stream: names, spelling, style",
    scope="stream",
)

TICK_SECONDS = Option(
    name="tick_seconds",
    type=float,
    default=1.0,
    minimum=0.2,
    maximum=10.0,
    help="seconds of audio between two hypotheses",
    scope="stream",
)

BUFFER_SECONDS = Option(
    name="buffer_seconds",
    type=float,
    default=None,
    minimum=3.0,
    maximum=25.0,
    help="length from which the buffer is cut behind committed words; by default what "
    "the checkpoint asks for, else 12",
    scope="stream",
)

AUDIO_CONTEXT = Option(
    name="audio_context",
    default=None,
    choices=("full", "fitted"),
    help="encode 30 s always, or only as much as the buffer needs; by default what the "
    "checkpoint was trained for",
    scope="stream",
)

CAPABILITIES = frozenset(
    {
        "hypothesis",
        "word-times",
        "probabilities",
        "language-detection",
        "language-forcing",
        "translation",
        "speaker-turns",
        "bounded-state",
    }
)

#: What the digits checkpoint promises on the speech tier, on any engine.
BOUNDS = {"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10}
