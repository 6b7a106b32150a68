"""Write tiny Qwen3-ASR checkpoints with random weights, in the layouts of the real ones."""

from __future__ import annotations

import json
import re

from wlk_qwen3_simul.engine.vocabulary import _BYTES, Vocabulary

WORDS = (
    " language", " English", " German", " hello", " world",
    "language", "system", "user", "assistant",
)  # fmt: skip
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<asr_text>",
    "<timestamp>",
)
AUDIO = {
    "num_mel_bins": 128,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "d_model": 32,
    "output_dim": 48,
    "n_window": 50,
    "n_window_infer": 800,
    "downsample_hidden_size": 8,
    "activation_function": "gelu",
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
}
TEXT = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "tie_word_embeddings": True,
    "rope_theta": 1e6,
}
SECTIONS = [4, 2, 2]  # sections of the rotation, as MLX reads them: half of head_dim
ORIGINAL = (
    (r"^model\.language_model\.", "thinker.model."),
    (r"^model\.audio_tower\.", "thinker.audio_tower."),
    (r"^model\.multi_modal_projector\.linear_1\.", "thinker.audio_tower.proj1."),
    (r"^model\.multi_modal_projector\.linear_2\.", "thinker.audio_tower.proj2."),
)
HEADS = {
    "format": 1,
    "model": "tiny",
    "layers": 2,
    "heads": 4,
    "row": "predict",
    "best": [{"layer": 1, "head": 2}, {"layer": 0, "head": 3}],
}


def vocabulary():
    """Return the ids of all bytes and of a few words, by their letters, and the merges of words."""
    letters = {byte: letter for letter, byte in _BYTES.items()}
    ids = {letters[byte]: byte for byte in range(256)}
    merges = []
    for word in WORDS:
        first, *rest = (letters[byte] for byte in word.encode())
        merged = first
        for letter in rest:
            if (merged, letter) not in merges:
                merges.append((merged, letter))
            merged += letter
            ids.setdefault(merged, len(ids))
    return ids, merges


def write_tokenizer(directory, *, special_tokens=SPECIAL_TOKENS, is_whole=True):
    """Write tokenizer.json or, unless *is_whole*, the files of the original repositories."""
    ids, merges = vocabulary()
    added = {text: len(ids) + index for index, text in enumerate(special_tokens)}
    entries = {
        str(number): {
            "content": text,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": text != "<asr_text>",
        }
        for text, number in added.items()
    }
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": entries}
    (directory / "tokenizer_config.json").write_text(json.dumps(table), encoding="utf-8")
    if is_whole and set(special_tokens) >= set(SPECIAL_TOKENS):
        Vocabulary.read(directory).tokenizer.save(str(directory / "tokenizer.json"))
    return len(ids) + len(special_tokens)


def write_config(directory, size):
    """Write the config of both layouts in one file."""
    audio = {**AUDIO, "model_type": "qwen3_asr_audio_encoder", "max_source_positions": 1500}
    rotation = {"mrope_interleaved": True, "mrope_section": SECTIONS, "rope_type": "default"}
    text = {**TEXT, "vocab_size": size, "model_type": "qwen3_asr_text", "rope_scaling": rotation}
    table = {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "thinker_config": {
            "model_type": "qwen3_asr_thinker",
            "audio_config": audio,
            "text_config": text,
            "audio_token_id": size - 3,
        },
    }
    (directory / "config.json").write_text(json.dumps(table), encoding="utf-8")


def write_checkpoint(directory, *, seed=0, layout="original"):
    """Write the whole directory, with weights drawn from *seed*."""
    # Slow to import, and missing in some environments.
    from safetensors.torch import save_file  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration  # noqa: PLC0415

    from wlk_qwen3_simul.torch.checkpoint import read_fields  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    size = write_tokenizer(directory)
    write_config(directory, size)
    config = Qwen3ASRConfig.from_dict(read_fields(directory))
    model = Qwen3ASRForConditionalGeneration(config)
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            noise = torch.randn(weights.shape, generator=drawn)
            if "norm" in name and name.endswith("weight"):
                weights.copy_(1 + 0.1 * noise)
            elif name.endswith("bias"):
                weights.copy_(0.05 * noise)
            else:
                weights.copy_(
                    noise * (0.2 if weights.ndim == 4 else 1.5 * weights.shape[-1] ** -0.5)
                )
    state = {}
    for name, weights in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        for pattern, original in ORIGINAL if layout == "original" else ():
            name = re.sub(pattern, original, name)  # noqa: PLW2901 -- one name becomes another
        state[name] = weights.clone().contiguous()
    save_file(state, str(directory / "model.safetensors"), metadata={"format": "pt"})
    if layout == "hf":
        table = config.to_dict()
        (directory / "config.json").write_text(json.dumps(table, default=str), encoding="utf-8")
    (directory / "alignment_heads.json").write_text(json.dumps(HEADS), encoding="utf-8")
    return directory
