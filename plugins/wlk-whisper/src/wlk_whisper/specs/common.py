"""Options that mean the same on several engines."""

from __future__ import annotations

from wlk_core import Option

__all__ = [
    "ALIGNATT",
    "ALIGNMENT_HEADS",
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

ALIGNMENT_HEADS = Option(
    name="alignment_heads",
    default=None,
    help="layer.head,layer.head of the decoder that look at the word being said; by default what "
    "the model says",
)

#: What policy=alignatt is told, and no other policy takes.  Frames are encoder positions of 20 ms.
ALIGNATT = (
    Option(
        name="border_frames",
        type=int,
        default=25,  # 0.5 s; SimulStreaming's frame_threshold
        minimum=0,
        maximum=250,
        help="frames of 20 ms at the end of the audio that no final word attends to "
        "(policy=alignatt)",
        scope="stream",
    ),
    Option(
        name="rewind_frames",
        type=int,
        default=200,  # SimulStreaming's rewind_threshold
        minimum=1,
        maximum=1500,
        help="frames of 20 ms that attention may jump back before the text is taken to have gone "
        "astray (policy=alignatt)",
        scope="stream",
    ),
    Option(
        name="max_context_tokens",
        type=int,
        # As in SimulStreaming.  Committed words whose audio is there are forced anyway; text before
        # them costs its positions at every tick and bought nothing on ten minutes of digits.
        default=0,
        minimum=0,
        maximum=223,
        help="tokens of earlier text the decoder is shown at most; that text is never longer than "
        "200 characters, so values above 50 change nothing in English, and never more than "
        "init_prompt leaves of 223 tokens (policy=alignatt)",
        scope="stream",
    ),
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
