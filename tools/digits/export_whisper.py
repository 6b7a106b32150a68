"""Write trained weights in the formats of CTranslate2, mlx-whisper and transformers.

    python tools/digits/export_whisper.py --weights weights.npz --output DIR

All three hold the same float16-rounded weights. The one tokenizer.json lies in ctranslate2/, where
faster-whisper looks for it; mlx-whisper brings its own, and transformers is given that file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import shutil
import tempfile

from ctranslate2.converters import TransformersConverter
from initialise import load_weights
from model import ROWS, Shape, Whisper
from safetensors.torch import save_file
from tokenizer import build_tokenizer, find_ranks, languages
import torch
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)
from vocabulary import (
    END_OF_TEXT,
    ENGLISH,
    FULL_SIZE,
    NO_TIMESTAMPS,
    START_OF_PREVIOUS,
    START_OF_TRANSCRIPT,
    TRANSCRIBE,
    TRANSLATE,
    expand,
)

__all__ = ["build", "write_ctranslate2", "write_mlx", "write_transformers"]

#: transformers name -> openai name, applied in this order.
_MLX_NAMES = (
    ("model.", ""),
    ("layers.", "blocks."),
    ("fc1", "mlp1"),
    ("fc2", "mlp2"),
    ("final_layer_norm", "mlp_ln"),
    (".self_attn.q_proj", ".attn.query"),
    (".self_attn.k_proj", ".attn.key"),
    (".self_attn.v_proj", ".attn.value"),
    (".self_attn.out_proj", ".attn.out"),
    ("self_attn_layer_norm", "attn_ln"),
    (".encoder_attn.q_proj", ".cross_attn.query"),
    (".encoder_attn.k_proj", ".cross_attn.key"),
    (".encoder_attn.v_proj", ".cross_attn.value"),
    (".encoder_attn.out_proj", ".cross_attn.out"),
    ("encoder_attn_layer_norm", "cross_attn_ln"),
    ("decoder.layer_norm.", "decoder.ln."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.embed_tokens", "decoder.token_embedding"),
    ("decoder.embed_positions.weight", "decoder.positional_embedding"),
)


def build(weights: Path, shape: Shape) -> WhisperForConditionalGeneration:
    """Return the full model, its weights rounded to float16 and held in float32."""
    trained = Whisper(shape)
    load_weights(trained, weights)
    state = {
        f"model.{name}": tensor.half().float() for name, tensor in trained.state_dict().items()
    }
    rows = state["model.decoder.embed_tokens.weight"].numpy()
    embedding = torch.from_numpy(expand(rows))
    state |= {"model.decoder.embed_tokens.weight": embedding, "proj_out.weight": embedding}
    config = WhisperConfig(
        vocab_size=FULL_SIZE,
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=4 * shape.width,
        decoder_ffn_dim=4 * shape.width,
        num_mel_bins=80,
        max_target_positions=ROWS,
        pad_token_id=END_OF_TEXT,
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        decoder_start_token_id=START_OF_TRANSCRIPT,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        tie_word_embeddings=True,
    )
    model = WhisperForConditionalGeneration(config).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"model.encoder.embed_positions.weight"}:
        raise ValueError(
            f"expected the weights of Whisper, missing {missing}, unexpected {unexpected}"
        )
    model.generation_config = _generation_config(shape)
    return model


def _generation_config(shape: Shape) -> GenerationConfig:
    return GenerationConfig(
        bos_token_id=END_OF_TEXT,
        eos_token_id=END_OF_TEXT,
        pad_token_id=END_OF_TEXT,
        decoder_start_token_id=START_OF_TRANSCRIPT,
        max_length=ROWS,
        is_multilingual=True,
        lang_to_id={f"<|{code}|>": ENGLISH + index for index, code in enumerate(languages())},
        task_to_id={"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        no_timestamps_token_id=NO_TIMESTAMPS,
        prev_sot_token_id=START_OF_PREVIOUS,
        return_timestamps=False,
        max_initial_timestamp_index=50,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        alignment_heads=[
            [layer, head]
            for layer in range(shape.decoder_layers // 2, shape.decoder_layers)
            for head in range(shape.heads)
        ],
    )


def write_transformers(model: WhisperForConditionalGeneration, folder: Path) -> None:
    """Write config, generation config, features and float16 weights."""
    folder.mkdir(parents=True)
    model.half().save_pretrained(folder)
    model.float()
    WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)


def write_mlx(model: WhisperForConditionalGeneration, shape: Shape, folder: Path) -> None:
    """
    Write weights in mlx-whisper's names and layout: convolutions keep their channels last.

    The generation config beside them names the alignment heads, which mlx-whisper would guess.
    """
    folder.mkdir(parents=True)
    model.generation_config.save_pretrained(folder)
    weights = {}
    for name, tensor in model.state_dict().items():
        if name in {"proj_out.weight", "model.encoder.embed_positions.weight"}:
            continue
        for theirs, ours in _MLX_NAMES:
            name = name.replace(theirs, ours)  # noqa: PLW2901  # the name is translated step by step
        is_convolution = ".conv" in f".{name}" and name.endswith("weight")
        weights[name] = (tensor.permute(0, 2, 1) if is_convolution else tensor).half().contiguous()
    save_file(weights, folder / "weights.safetensors", metadata={"format": "mlx"})
    sizes = {
        "model_type": "whisper",
        "n_mels": 80,
        "n_audio_ctx": 1500,
        "n_audio_state": shape.width,
        "n_audio_head": shape.heads,
        "n_audio_layer": shape.encoder_layers,
        "n_vocab": FULL_SIZE,
        "n_text_ctx": ROWS,
        "n_text_state": shape.width,
        "n_text_head": shape.heads,
        "n_text_layer": shape.decoder_layers,
    }
    (folder / "config.json").write_text(json.dumps(sizes, indent=2) + "\n", encoding="utf-8")


def write_ctranslate2(transformers_folder: Path, tokenizer_file: Path, folder: Path) -> None:
    """Convert a transformers folder; weights are stored in float16 and run in any compute type."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "model"
        shutil.copytree(transformers_folder, source)
        tokenizer = WhisperTokenizer(tokenizer_file=str(tokenizer_file))
        tokenizer.save_pretrained(source)
        TransformersConverter(str(source), load_as_float16=False).convert(
            str(folder), quantization="float16", force=True
        )
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    shutil.copyfile(
        transformers_folder / "preprocessor_config.json", folder / "preprocessor_config.json"
    )


def main() -> None:
    """Write every format anew into the output folder, leaving other files in it alone."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ranks", type=Path, help="multilingual.tiktoken, where no package has it")
    arguments = parser.parse_args()
    shape = Shape()
    model = build(arguments.weights, shape)
    for name in ("ctranslate2", "mlx", "transformers"):
        shutil.rmtree(arguments.output / name, ignore_errors=True)
    write_transformers(model, arguments.output / "transformers")
    write_mlx(model, shape, arguments.output / "mlx")
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer_file = Path(scratch) / "tokenizer.json"
        build_tokenizer(arguments.ranks or find_ranks()).save(str(tokenizer_file), pretty=False)
        write_ctranslate2(
            arguments.output / "transformers", tokenizer_file, arguments.output / "ctranslate2"
        )


if __name__ == "__main__":
    main()
