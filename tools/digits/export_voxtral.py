"""Write a trained Voxtral Realtime in the layouts of transformers and of Mistral.

    python tools/digits/export_voxtral.py --weights DIR --output DIR

Both hold the same float16-rounded weights and the same tekken.json.  wlk-voxtral-hf loads
transformers/; wlk-voxtral-mlx and voxmlx load mistral/.  All other files are copied from the
shipped checkpoints, which have the same sizes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import re
import shutil
from typing import TYPE_CHECKING

from batches_voxtral import BUNDLED, PLUGINS
from model_voxtral import load_model
from safetensors.torch import save_file
import torch

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import VoxtralRealtimeForConditionalGeneration

MISTRAL = PLUGINS / "wlk-voxtral-mlx/src/wlk_voxtral_mlx/digits"

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


def write(model: VoxtralRealtimeForConditionalGeneration, output: Path) -> None:
    """Write both layouts anew below *output*, with the other files of the checkpoints."""
    weights = {name: tensor.half() for name, tensor in mistral_weights(model).items()}
    for name, source in (("transformers", BUNDLED), ("mistral", MISTRAL)):
        folder = output / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    model.half().save_pretrained(output / "transformers")
    save_file(weights, output / "mistral/consolidated.safetensors")


def main() -> None:
    """Write both layouts anew into the output folder, leaving other files in it alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True, help="output of train_voxtral.py")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    write(load_model(arguments.weights).eval(), arguments.output)


if __name__ == "__main__":
    main()
