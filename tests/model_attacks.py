"""Damaged model directories, with which tests/test_model_directories.py attacks backends."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MILLION = 10**6
LARGE_BYTES = 1_000_000  # larger files are linked instead of copied


@attrs.frozen(kw_only=True, eq=False)
class Target:
    """
    A backend and its digits checkpoint.

    `sizes` are paths in the file `config`, each with the size of the weights; `aliases` are other
    names that the framework accepts for some of them.  `others` are the other JSON files.
    """

    backend: str
    package: str
    config: str
    sizes: dict[str, int]
    weights: str = "model.safetensors"
    others: tuple[str, ...] = ("generation_config.json", "tokenizer.json", "wlk.json")
    aliases: dict[str, int] = attrs.field(factory=dict)
    folder: str = "digits"

    @property
    def directory(self) -> Path:
        """The directory of the checkpoint."""
        module = __import__(self.package)
        return Path(str(module.__file__)).parent / self.folder


_WHISPER_SIZES = {
    "decoder_layers": 4,
    "encoder_layers": 3,
    "d_model": 64,
    "decoder_ffn_dim": 256,
    "vocab_size": 51865,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
}
_QWEN3_SIZES = {
    "thinker_config.text_config.num_hidden_layers": 4,
    "thinker_config.text_config.hidden_size": 96,
    "thinker_config.text_config.intermediate_size": 256,
    "thinker_config.text_config.vocab_size": 151936,
    "thinker_config.audio_config.encoder_layers": 2,
    "thinker_config.audio_config.d_model": 96,
    "thinker_config.audio_config.downsample_hidden_size": 32,
}
_WHISPER: dict[str, Any] = {
    "package": "wlk_whisper_digits",
    "folder": "checkpoint",
    "config": "config.json",
    "sizes": _WHISPER_SIZES,
}
_QWEN3: dict[str, Any] = {
    "package": "wlk_qwen3_simul", "config": "config.json", "sizes": _QWEN3_SIZES
}  # fmt: skip
TARGETS = {
    target.backend: target
    for target in (
        Target(
            backend="faster-whisper",
            package="wlk_whisper",
            folder="digits/ctranslate2",
            config="preprocessor_config.json",
            sizes={"feature_size": 80},
            weights="model.bin",
            others=("config.json", "tokenizer.json", "vocabulary.json", "wlk.json"),
        ),
        Target(backend="whisper", **_WHISPER, aliases={"num_hidden_layers": 3, "hidden_size": 64}),
        Target(backend="mlx-whisper", **_WHISPER),
        Target(
            backend="qwen3-simul",
            **_QWEN3,
            aliases={
                "thinker_config.audio_config.num_hidden_layers": 2,
                "thinker_config.audio_config.hidden_size": 96,
            },
        ),
        Target(backend="qwen3-mlx-simul", **_QWEN3),
        Target(
            backend="nemotron",
            package="wlk_nemotron",
            config="config.json",
            sizes={
                "encoder_config.num_hidden_layers": 3,
                "encoder_config.hidden_size": 96,
                "encoder_config.intermediate_size": 256,
                "encoder_config.num_key_value_heads": 4,
                "encoder_config.head_dim": 24,
                "encoder_config.subsampling_conv_channels": 32,
                "decoder_hidden_size": 96,
            },
            others=(
                "generation_config.json",
                "processor_config.json",
                "tokenizer.json",
                "wlk.json",
            ),
        ),
        Target(
            backend="voxtral-hf",
            package="wlk_voxtral_hf",
            config="config.json",
            sizes={
                "text_config.num_hidden_layers": 2,
                "text_config.hidden_size": 96,
                "text_config.intermediate_size": 256,
                "text_config.vocab_size": 328,
                "audio_config.num_hidden_layers": 3,
                "audio_config.hidden_size": 96,
            },
            aliases={"audio_config.encoder_layers": 3, "audio_config.d_model": 96},
            others=("generation_config.json", "tekken.json", "wlk.json"),
        ),
        Target(
            backend="voxtral-mlx",
            package="wlk_voxtral_mlx",
            config="params.json",
            sizes={
                "n_layers": 2,
                "dim": 96,
                "hidden_dim": 256,
                "vocab_size": 328,
                "multimodal.whisper_model_args.encoder_args.n_layers": 3,
                "multimodal.whisper_model_args.encoder_args.dim": 96,
            },
            weights="consolidated.safetensors",
            others=("tekken.json", "wlk.json"),
        ),
    )
}


@attrs.frozen
class Attack:
    """
    Damage to one file of a directory, and strings that the error message has to contain.

    `change` is a dotted path in a JSON file with a new value, or new content, or a function that
    creates something else in place of the file.
    """

    name: str
    file: str
    change: tuple[str, Any] | bytes | Callable[[Path], object]
    expected: tuple[str, ...] = ()

    def damage(self, directory: Path) -> None:
        """Damage the file in a copy of the model."""
        path = directory / self.file
        change = self.change
        if isinstance(change, tuple):
            table = json.loads(path.read_text(encoding="utf-8"))
            set_value(table, *change)
            change = json.dumps(table).encode()
        path.unlink(missing_ok=True)
        if isinstance(change, bytes):
            path.write_bytes(change)
        else:
            change(path)


def copied(target: Target, directory: Path) -> Path:
    """Return *directory* with the files of *target*; large ones are linked."""
    directory.mkdir(parents=True)
    for file in target.directory.iterdir():
        if file.is_file() and file.stat().st_size > LARGE_BYTES:
            (directory / file.name).symlink_to(file)
        elif file.is_file():
            shutil.copyfile(file, directory / file.name)
    return directory


def attacks(target: Target) -> Iterator[Attack]:
    """Generate the attacks on *target*."""
    config, weights = target.config, target.weights
    for path, size in (target.sizes | target.aliases).items():
        shown = f"{path.rpartition('.')[2] if path in target.sizes else ''}={MILLION}"
        expected = (config, shown, f"the weights have {size};")
        yield Attack(f"{path} of a million", config, (path, MILLION), expected)
    path = next(iter(target.sizes))
    for value in (-1, 0, 2.5, "x", True, [1], {"a": 1}, 10**30, 2**40):
        yield Attack(f"{path}={json.dumps(value)[:12]}", config, (path, value), (config,))
    for file in (config, *target.others):
        for name, content in CONTENTS.items():
            yield Attack(f"{file}: {name}", file, content, (file,))
        yield Attack(f"{file}: a folder", file, Path.mkdir, (file,))
        yield Attack(f"{file}: a FIFO", file, os.mkfifo, (file,))
    for name, content in WEIGHTS.items():
        yield Attack(f"weights: {name}", weights, content, (weights,))
    yield Attack("weights: a folder", weights, Path.mkdir)
    yield Attack("weights: a FIFO", weights, os.mkfifo)


def _weights(dtype: str, shape: list[int]) -> bytes:
    """Return a safetensors file with 8 bytes of data whose header declares a tensor of *shape*."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, 8]}
    content = json.dumps({"a": entry}).encode()
    return len(content).to_bytes(8, "little") + content + bytes(8)


#: Content that every JSON file of a model is refused for.
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "cut off": b'{"a": ',
    "nested": b"[" * 100_000,
    "nested tables": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "50 MB": b'{"a": "' + b"x" * 50_000_000 + b'"}',
    "30 MB of lists": b"[" + b"[]," * 10_000_000 + b"[]]",
    "NaN": b'{"a": NaN}',
    "a number of 5000 digits": b'{"a": 1' + b"0" * 5000 + b"}",
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "latin-1": b'{"a": "\xe9"}',
    "a number": b"7",
}
#: Weights that must not reach any framework, most of them with a header like that of safetensors.
WEIGHTS: dict[str, bytes] = {
    "empty": b"",
    "a header of 2**63 bytes": (2**63).to_bytes(8, "little") + b"{}",
    "a nested header": (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "a tensor of 4 TB": _weights("F32", [MILLION, MILLION]),
    "an unknown type": _weights("F7", [1]),
    "zeros": bytes(1000),
}  # fmt: skip


def set_value(table: Any, path: str, value: Any) -> None:
    """Set the value at the dotted *path* of a table."""
    *parents, key = path.split(".")
    for parent in parents:
        table = table[parent]
    table[key] = value
