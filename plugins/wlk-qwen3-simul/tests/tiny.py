"""A tiny Qwen3-ASR with random weights, written as the real ones are: for either engine."""

from __future__ import annotations

import json
import re

from wlk_qwen3_simul.text.vocabulary import Vocabulary

WORDS = (
    " language", " English", " German", " hello", " world",
    "language", "system", "user", "assistant",
)  # fmt: skip
MARKS = (
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
SECTIONS = [4, 2, 2]  # of the rotation, as MLX reads them: half of head_dim
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


def byte_letters():
    """Return the letters that stand for the bytes of a byte-level vocabulary, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {
        byte: chr(256 + place) for place, byte in enumerate(rest)
    }


def vocabulary():
    """Return every byte and a few words as ids by letters, and the merges that make the words."""
    letters = byte_letters()
    ids = {letters[byte]: byte for byte in range(256)}
    merges = []
    for word in WORDS:
        spelt = [letters[byte] for byte in word.encode()]
        made = spelt[0]
        for letter in spelt[1:]:
            if (made, letter) not in merges:
                merges.append((made, letter))
            made += letter
            ids.setdefault(made, len(ids))
    return ids, merges


def write_tokenizer(directory, *, marks=MARKS, is_whole=True):
    """Write tokenizer.json, or without *is_whole* what the original repositories hold instead."""
    ids, merges = vocabulary()
    added = {mark: len(ids) + place for place, mark in enumerate(marks)}
    entries = {
        str(number): {
            "content": mark,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": mark != "<asr_text>",
        }
        for mark, number in added.items()
    }
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": entries}
    (directory / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    if is_whole and set(marks) >= set(MARKS):
        Vocabulary.read(directory).tokenizer.save(str(directory / "tokenizer.json"))
    return len(ids) + len(marks)


def write_config(directory, size):
    """Write the config of both layouts in one file."""
    audio = {**AUDIO, "model_type": "qwen3_asr_audio_encoder", "max_source_positions": 1500}
    rotation = {"mrope_interleaved": True, "mrope_section": SECTIONS, "rope_type": "default"}
    text = {**TEXT, "vocab_size": size, "model_type": "qwen3_asr_text", "rope_scaling": rotation}
    told = {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "thinker_config": {
            "model_type": "qwen3_asr_thinker",
            "audio_config": audio,
            "text_config": text,
            "audio_token_id": size - 3,
        },
    }
    (directory / "config.json").write_text(json.dumps(told), encoding="utf-8")


def write_checkpoint(directory, *, seed=0, layout="original"):
    """Write the whole directory; weights are drawn from *seed*."""
    # Heavy, and only some environments have them.
    from safetensors.torch import save_file  # noqa: PLC0415
    import torch  # noqa: PLC0415
    from transformers import Qwen3ASRForConditionalGeneration  # noqa: PLC0415

    from wlk_qwen3_simul.torch_checkpoint import _config  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    size = write_tokenizer(directory)
    write_config(directory, size)
    config = _config(directory)
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
        for pattern, given in ORIGINAL if layout == "original" else ():
            name = re.sub(pattern, given, name)  # noqa: PLW2901 -- one name becomes another
        state[name] = weights.clone().contiguous()
    save_file(state, str(directory / "model.safetensors"), metadata={"format": "pt"})
    if layout == "hf":
        told = config.to_dict()
        (directory / "config.json").write_text(json.dumps(told, default=str), encoding="utf-8")
    (directory / "alignment_heads.json").write_text(json.dumps(HEADS), encoding="utf-8")
    return directory
