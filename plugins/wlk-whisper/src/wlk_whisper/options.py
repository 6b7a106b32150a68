"""Options that several Whisper backends declare."""

from __future__ import annotations

from wlk_core import Option

__all__ = [
    "ALIGNATT_OPTIONS",
    "ALIGNMENT_HEADS",
    "AUDIO_CONTEXT",
    "BEAM_SIZE",
    "BUFFER_SECONDS",
    "CACHE_DIR",
    "INIT_PROMPT",
    "TICK_SECONDS",
]

CACHE_DIR = Option(name="cache_dir", default=None, help="directory of pulled models")

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
    help="length from which the buffer is cut after committed words; by default the checkpoint's, "
    "else 12",
    scope="stream",
)

AUDIO_CONTEXT = Option(
    name="audio_context",
    default=None,
    choices=("full", "fitted"),
    help="encode windows of 30 s, or only as much as the buffer needs; by default what the "
    "checkpoint was trained for",
    scope="stream",
)

ALIGNMENT_HEADS = Option(
    name="alignment_heads",
    default=None,
    help="layer.head,layer.head of the decoder heads that attend to the next word; by default "
    "the model's",
)

#: Options of policy=alignatt only.  A frame is an encoder frame of 20 ms.
ALIGNATT_OPTIONS = (
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
        help="frames of 20 ms that attention may jump back before decoding stops (policy=alignatt)",
        scope="stream",
    ),
    Option(
        name="max_context_tokens",
        type=int,
        # As in SimulStreaming.  Committed words are forced while their audio is in the buffer.
        # Earlier text costs its positions at every tick, and ten minutes of digits gained nothing.
        default=0,
        minimum=0,
        maximum=223,
        help="most tokens of earlier text in the prompt; earlier text has at most 200 characters, "
        "so values above 50 change nothing in English, and init_prompt and earlier text share 223 "
        "tokens (policy=alignatt)",
        scope="stream",
    ),
)
