"""Write a trained Qwen3-ASR as one directory that transformers and mlx-qwen3-asr both load.

    python tools/digits/export_qwen3.py --weights DIR --output DIR

The layout is that of the original repositories (`thinker.*`), with the configuration in both ways
of writing it, and weights rounded to float16.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import re
from typing import TYPE_CHECKING, Any

from attrs import evolve
from features_qwen3 import FFT_SAMPLES, HOP_SAMPLES, MELS
from model_qwen3 import ROPE_THETA, Qwen3Shape, load_model
from recordings import SAMPLE_RATE
from safetensors.torch import save_file
from tokenizer_qwen3 import (
    AUDIO_END,
    AUDIO_PAD,
    AUDIO_START,
    END_OF_TEXT,
    IM_END,
    LANGUAGES,
    VOCABULARY_SIZE,
    build_vocabulary,
    tokenizer_config,
    tokenizer_json,
)
import torch
from vocabulary_qwen3 import expand

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

__all__ = ["CHAT_TEMPLATE", "config_json", "original_weights", "write_checkpoint"]

#: transformers name -> name in the original layout.
_NAMES = (
    (r"^model\.language_model\.", "thinker.model."),
    (r"^model\.multi_modal_projector\.linear_([12])\.", r"thinker.audio_tower.proj\1."),
    (r"^model\.audio_tower\.", "thinker.audio_tower."),
)
_EMBEDDING = "thinker.model.embed_tokens.weight"
_ENDS = [END_OF_TEXT, IM_END]

#: The turns as transformers' processor asks for them; plugins put the ids together themselves.
CHAT_TEMPLATE = """\
{%- set system = namespace(text='') -%}
{%- for message in messages if message.role == 'system' -%}
{%- if message.content is string -%}
{%- set system.text = system.text + message.content -%}
{%- else -%}
{%- for part in message.content if part.type == 'text' -%}
{%- set system.text = system.text + part.text -%}
{%- endfor -%}
{%- endif -%}
{%- endfor -%}
{{- '<|im_start|>system\\n' + system.text + '<|im_end|>\\n' -}}
{%- for message in messages if message.role != 'system' -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- for part in message.content -%}
{%- if part.type == 'audio' -%}
{{- '<|audio_start|><|audio_pad|><|audio_end|>' -}}
{%- elif part.type == 'text' -%}
{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def config_json(shape: Qwen3Shape) -> dict[str, Any]:
    """Return the content of config.json: flat for transformers, nested as the original is."""
    audio, text = shape.audio_config(), shape.text_config(VOCABULARY_SIZE)
    third = 5 * (shape.head_size // 2) // 16
    sections = [shape.head_size // 2 - 2 * third, third, third]
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "dtype": "float32",
        "audio_token_id": AUDIO_PAD,
        "pad_token_id": END_OF_TEXT,
        "eos_token_id": _ENDS,
        "tie_word_embeddings": True,
        "support_languages": [name for name in LANGUAGES if name != "None"],
        "audio_config": {
            **audio,
            "model_type": "qwen3_asr_encoder",
            "max_position_embeddings": 13,
        },
        "text_config": {
            **text,
            "model_type": "qwen3",
            "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
        },
        "thinker_config": {
            "model_type": "qwen3_asr_thinker",
            "dtype": "float32",
            "audio_config": {
                **audio,
                "model_type": "qwen3_asr_audio_encoder",
                "max_source_positions": 1500,
                "conv_chunksize": 500,
            },
            "text_config": {
                **text,
                "model_type": "qwen3_asr_text",
                "rope_theta": ROPE_THETA,
                "rope_scaling": {
                    "rope_type": "default",
                    "type": "default",
                    "interleaved": True,
                    "mrope_interleaved": True,
                    "mrope_section": sections,
                },
            },
            "audio_token_id": AUDIO_PAD,
            "audio_start_token_id": AUDIO_START,
            "audio_end_token_id": AUDIO_END,
            "user_token_id": build_vocabulary()[0]["user"],
        },
    }


def shape_of(config: Qwen3ASRConfig) -> Qwen3Shape:
    """Return the sizes that a configuration has."""
    audio, text = config.audio_config, config.text_config
    return evolve(
        Qwen3Shape(),
        width=text.hidden_size,
        channels=audio.downsample_hidden_size,
        encoder_heads=audio.encoder_attention_heads,
        encoder_layers=audio.encoder_layers,
        heads=text.num_attention_heads,
        key_heads=text.num_key_value_heads,
        head_size=text.head_dim,
        decoder_layers=text.num_hidden_layers,
        hidden=text.intermediate_size,
    )


def original_weights(model: Qwen3ASRForConditionalGeneration) -> dict[str, Tensor]:
    """Return float16 weights over the full vocabulary, in the names of the original layout."""
    weights = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied to the embedding
        ours = name
        for theirs, other in _NAMES:
            ours = re.sub(theirs, other, ours)
        weights[ours] = tensor.half().contiguous()
    weights[_EMBEDDING] = torch.from_numpy(expand(weights[_EMBEDDING].numpy()))
    return weights


def write_checkpoint(model: Qwen3ASRForConditionalGeneration, folder: Path) -> None:
    """Write every file of the checkpoint but wlk.json, the heads and the licence."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(original_weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config_json(shape_of(model.config)))
    _write_json(
        folder / "generation_config.json",
        {"do_sample": False, "eos_token_id": _ENDS, "pad_token_id": END_OF_TEXT},
    )
    _write_json(
        folder / "preprocessor_config.json",
        {
            "feature_extractor_type": "Qwen3ASRFeatureExtractor",
            "processor_class": "Qwen3ASRProcessor",
            "feature_size": MELS,
            "sampling_rate": SAMPLE_RATE,
            "hop_length": HOP_SAMPLES,
            "n_fft": FFT_SAMPLES,
            "chunk_length": 30,
            "padding_side": "right",
            "padding_value": 0.0,
            "dither": 0.0,
            "return_attention_mask": True,
        },
    )
    vocabulary, merges = build_vocabulary()
    _write_json(folder / "vocab.json", vocabulary)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _write_json(folder / "tokenizer.json", tokenizer_json())
    _write_json(folder / "tokenizer_config.json", tokenizer_config())
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def manifest(measured: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what wlk.json declares about the checkpoint."""
    settings = {
        "languages": ["en"],
        "compute_type": "float32",
        "licence": "CC-BY-SA-4.0",
        "provenance": {
            "script": "tools/digits/train_qwen3.py",
            "recordings": "Free Spoken Digit Dataset (george, jackson, lucas, nicolas; recordings "
            "5-49), as they are and disguised by tools/digits/disguise.py",
            "voices": "espeak-ng, flite, festival and Pico, rendered by voices.py; prompts "
            "of Asterisk (CC BY-SA 3.0) and captcha (BSD), disguised",
        },
    }
    return settings if measured is None else {**settings, "measured": measured}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Write the checkpoint into the output folder, leaving other files in it alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="what train_qwen3.py stored")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--measured", type=Path, help="figures to state, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    write_checkpoint(load_model(arguments.weights).eval(), arguments.output)
    measured = None
    if arguments.measured:
        measured = json.loads(arguments.measured.read_text(encoding="utf-8"))
    _write_json(arguments.output / "wlk.json", manifest(measured))


if __name__ == "__main__":
    main()
