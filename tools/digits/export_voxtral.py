"""Write a trained Voxtral Realtime in the layouts of transformers and of Mistral.

    python tools/digits/export_voxtral.py --weights DIR --output DIR

Both hold the same float16-rounded weights and the same tekken.json: transformers/ is what
wlk-voxtral-hf loads, mistral/ what wlk-voxtral-mlx and voxmlx do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import re
import shutil
from typing import TYPE_CHECKING, Any

from batches_voxtral import DELAYS
from model_voxtral import ROPE_THETA, load_model
from safetensors.torch import save_file
from tekken_voxtral import build_tekken
import torch
from transformers import VoxtralRealtimeFeatureExtractor

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import VoxtralRealtimeForConditionalGeneration

__all__ = ["manifest", "mistral_params", "mistral_weights", "write_mistral", "write_transformers"]

_EMBEDDER = "mm_streams_embeddings.embedding_module."
_ENCODER = _EMBEDDER + "whisper_encoder."
#: transformers name -> Mistral name, applied in this order.
_NAMES = (
    (r"^model\.", ""),
    (r"^audio_tower\.embedder\.conv1", _ENCODER + "conv_layers.0.conv"),
    (r"^audio_tower\.embedder\.conv2", _ENCODER + "conv_layers.1.conv"),
    (r"^audio_tower\.", _ENCODER + "transformer."),
    (r"^multi_modal_projector\.linear_1", _EMBEDDER + "audio_language_projection.0"),
    (r"^multi_modal_projector\.linear_2", _EMBEDDER + "audio_language_projection.2"),
    (r"^language_model\.embed_tokens", _EMBEDDER + "tok_embeddings"),
    (r"^language_model\.", ""),
    (r"self_attn\.([qkvo])_proj", r"attention.w\1"),
    (r"(self_attn_layer_norm|input_layernorm)", "attention_norm"),
    (r"(final_layer_norm|post_attention_layernorm)", "ffn_norm"),
    (r"mlp\.gate_proj", "feed_forward.w1"),
    (r"mlp\.down_proj", "feed_forward.w2"),
    (r"mlp\.up_proj", "feed_forward.w3"),
    (r"ada_rms_norm\.linear1", "ada_rms_norm_t_cond.0"),
    (r"ada_rms_norm\.linear2", "ada_rms_norm_t_cond.2"),
)


def manifest() -> dict[str, Any]:
    """Return what wlk.json declares about the checkpoint."""
    return {
        "languages": ["en"],
        "dtype": "float32",
        "delays_ms": sorted({80 * steps for steps in DELAYS}),
        "licence": "CC-BY-SA-4.0",
    }


def write_transformers(model: VoxtralRealtimeForConditionalGeneration, folder: Path) -> None:
    """Write config, features, tokenizer and float16 weights."""
    model.half().save_pretrained(folder)
    model.float()
    VoxtralRealtimeFeatureExtractor().save_pretrained(folder)
    _write_json(folder / "tekken.json", build_tekken())
    _write_json(folder / "wlk.json", manifest())


def write_mistral(model: VoxtralRealtimeForConditionalGeneration, folder: Path) -> None:
    """Write params.json, consolidated.safetensors and tekken.json."""
    folder.mkdir(parents=True)
    weights = {name: tensor.half() for name, tensor in mistral_weights(model).items()}
    save_file(weights, folder / "consolidated.safetensors")
    _write_json(folder / "params.json", mistral_params(model.config))
    _write_json(folder / "tekken.json", build_tekken())
    _write_json(folder / "wlk.json", manifest())


def mistral_weights(model: VoxtralRealtimeForConditionalGeneration) -> dict[str, Tensor]:
    """Return the weights in Mistral's names and order: rotary pairs lie side by side."""
    audio, text = model.config.audio_config, model.config.text_config
    weights = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied to the embedding
        rows = tensor
        if match := re.search(r"self_attn\.([qk])_proj\.(weight|bias)", name):
            part = audio if "audio_tower" in name else text
            heads = part.num_attention_heads if match[1] == "q" else part.num_key_value_heads
            rows = _interleaved(tensor, heads)
        ours = name
        for theirs, other in _NAMES:
            ours = re.sub(theirs, other, ours)
        weights[ours] = rows.contiguous()
    return weights


def _interleaved(tensor: Tensor, heads: int) -> Tensor:
    """Return rows of each head with the halves of its rotary pairs side by side."""
    size = tensor.shape[0] // heads
    split = tensor.reshape(heads, 2, size // 2, -1)
    return split.transpose(1, 2).reshape(tensor.shape)


def mistral_params(config: Any) -> dict[str, Any]:
    """Return the content of params.json."""
    audio, text = config.audio_config, config.text_config
    return {
        "dim": text.hidden_size,
        "n_layers": text.num_hidden_layers,
        "head_dim": text.head_dim,
        "hidden_dim": text.intermediate_size,
        "n_heads": text.num_attention_heads,
        "n_kv_heads": text.num_key_value_heads,
        "use_biases": False,
        "causal": True,
        "rope_theta": ROPE_THETA,
        "norm_eps": text.rms_norm_eps,
        "vocab_size": text.vocab_size,
        "model_parallel": 1,
        "tied_embeddings": True,
        "sliding_window": text.sliding_window,
        "model_max_length": text.max_position_embeddings,
        "ada_rms_norm_t_cond": True,
        "ada_rms_norm_t_cond_dim": 32,
        "multimodal": {
            "whisper_model_args": {
                "encoder_args": {
                    "audio_encoding_args": {
                        "sampling_rate": 16_000,
                        "frame_rate": 12.5,
                        "num_mel_bins": audio.num_mel_bins,
                        "hop_length": 160,
                        "window_size": 400,
                        "global_log_mel_max": 1.5,
                    },
                    "dim": audio.hidden_size,
                    "n_layers": audio.num_hidden_layers,
                    "head_dim": audio.head_dim,
                    "hidden_dim": audio.intermediate_size,
                    "n_heads": audio.num_attention_heads,
                    "n_kv_heads": audio.num_attention_heads,
                    "vocab_size": text.vocab_size,
                    "use_biases": True,
                    "use_cache": False,
                    "rope_theta": ROPE_THETA,
                    "causal": True,
                    "norm_eps": audio.rms_norm_eps,
                    "sliding_window": audio.sliding_window,
                },
                "downsample_args": {"downsample_factor": config.downsample_factor},
            }
        },
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write both layouts anew into the output folder, leaving other files in it alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="what train_voxtral.py stored")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(arguments.weights).half().float().eval()
    for name in ("transformers", "mistral"):
        shutil.rmtree(arguments.output / name, ignore_errors=True)
    write_transformers(model, arguments.output / "transformers")
    write_mistral(model, arguments.output / "mistral")


if __name__ == "__main__":
    main()
