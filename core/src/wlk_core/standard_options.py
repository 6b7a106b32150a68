"""
Options that backends share, so that each has one name, unit and help text.

A plugin picks those it needs and adjusts them with `attrs.evolve`::

    options=(device("cpu", "cuda", "cuda:N"), PROMPT, attrs.evolve(TICK_SECONDS, default=2.0))

All durations are seconds.  "auto" leaves a choice to the checkpoint or the backend.
"""

from __future__ import annotations

from functools import partial

from wlk_core.options import AUTO, Option

_stream_option = partial(Option, scope="stream")


def device(*choices: str) -> Option:
    """Return the option that chooses a device of *choices*, which need not include "auto"."""
    return Option(
        name="device",
        default=AUTO,
        choices=tuple(dict.fromkeys((AUTO, *choices))),
        help="device that runs the model; auto takes the fastest one here",
    )


def dtype(*choices: str) -> Option:
    """Return the option that chooses a dtype of *choices*, which need not include "auto"."""
    return Option(
        name="dtype",
        default=AUTO,
        choices=tuple(dict.fromkeys((AUTO, *choices))),
        help="arithmetic of the model; auto takes what the checkpoint declares, else what suits "
        "the device",
        former_names=("compute_type", "precision", "torch_dtype"),
    )


CACHE_DIR = Option(
    name="cache_dir",
    help="directory of the Hugging Face cache with the models; by default the user's own",
    former_names=("download_root", "model_cache_dir"),
)

ALIGNMENT_HEADS = Option(
    name="alignment_heads",
    is_auto_allowed=True,
    help="decoder heads whose attention follows the audio, as layer.head,layer.head; auto takes "
    "those known for the model",
    former_names=("custom_alignment_heads",),
)

PROMPT = _stream_option(
    name="prompt",
    help="text given to the decoder before the audio: names, spelling, style",
    former_names=("init_prompt", "initial_prompt", "static_init_prompt"),
)

KEYTERMS = _stream_option(
    name="keyterms",
    help="names and terms that the audio may contain, separated by commas, for the whole stream",
    former_names=("hotwords", "keywords", "keyterm", "keyterms_prompt"),
)

LANGUAGES = _stream_option(
    name="languages",
    help="languages among which one is detected, separated by commas; by default all of the model",
)

TICK_SECONDS = _stream_option(
    name="tick_seconds",
    type=float,
    default=1.0,
    minimum=0.2,
    maximum=10.0,
    help="seconds of audio between two hypotheses",
    former_names=("asr_coalesce_min_s", "audio_min_len", "min_chunk_size", "tick"),
)

BUFFER_SECONDS = _stream_option(
    name="buffer_seconds",
    type=float,
    minimum=3.0,
    maximum=25.0,
    is_auto_allowed=True,
    help="length in seconds above which the buffer is cut after committed words; auto takes what "
    "the checkpoint declares, else 12",
    former_names=("audio_max_len", "buffer_trimming_sec"),
)

BORDER_SECONDS = _stream_option(
    name="border_seconds",
    type=float,
    default=0.5,  # SimulStreaming's frame_threshold, 25 frames of 20 ms
    minimum=0.0,
    maximum=5.0,
    help="seconds at the end of the audio that no committed word attends to; the last word also "
    "waits until it ended a second ago",
    policies=("alignatt",),
    former_names=("border_frames", "frame_threshold"),
)

BEAM_SIZE = _stream_option(
    name="beam_size",
    type=int,
    minimum=1,
    maximum=16,
    is_auto_allowed=True,
    help="hypotheses that the decoder keeps; 1 is greedy; auto takes 5 with long-form, else 1",
    former_names=("beam", "beams", "num_beams"),
)
