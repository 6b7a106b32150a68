"""Check the files of a CTranslate2 Whisper before CTranslate2 and faster-whisper read them."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Annotated, BinaryIO

from msgspec import UNSET, Meta, Struct, UnsetType

from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import Index, Size, read_json_table
from wlk_frameworks.memory import physical_memory, require_memory
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.tokenizer_file import read_tokenizer, read_vocabulary

if TYPE_CHECKING:
    from pathlib import Path

REMEDY = "convert or pull it again"
DEFAULT_MELS = 80  # faster-whisper's, if the file gives none


class _Config(Struct):  # CTranslate2 also reads the file, and accepts no null
    alignment_heads: list[tuple[Index, Index]] | UnsetType = UNSET  # [layer, head], from 0
    lang_ids: list[Index] | UnsetType = UNSET
    suppress_ids: list[Index] | UnsetType = UNSET
    suppress_ids_begin: list[Index] | UnsetType = UNSET


class _Features(Struct):
    feature_size: Size | UnsetType = UNSET
    sampling_rate: Annotated[int, Meta(ge=SAMPLE_RATE, le=SAMPLE_RATE)] | UnsetType = UNSET
    n_fft: Annotated[int, Meta(ge=400, le=400)] | UnsetType = UNSET
    hop_length: Annotated[int, Meta(ge=160, le=160)] | UnsetType = UNSET
    chunk_length: Annotated[int, Meta(ge=1, le=30)] | UnsetType = UNSET


def check_files(directory: Path) -> AlignmentHeads:
    """
    Check the files of a model against each other.

    Returns:
        the alignment heads that CTranslate2 will use.

    Raises:
        ModelNotFoundError: a file is damaged, or does not fit the weights.
        BackendUnavailable: the model does not fit into memory.

    """
    weights = directory / "model.bin"
    require_memory(
        str(directory),
        # CTranslate2 reads the file into memory before it moves anything to a GPU.
        needed=weights.stat().st_size,
        available=physical_memory(),
        device="cpu",
        remedy="choose a smaller model",
    )
    config = read_json_table(directory / "config.json", _Config, remedy=REMEDY)
    features = read_json_table(directory / "preprocessor_config.json", _Features, remedy=REMEDY)
    vocabulary, tokens = read_vocabulary(directory)
    shapes = read_shapes(weights)
    heads = tuple(sorted((layer, head) for layer, head in config.get("alignment_heads") or []))
    mels = features.get("feature_size") or DEFAULT_MELS
    # CTranslate2 itself would read past the end of its layers, or of too short a list of tokens.
    for layer, _ in heads:
        if f"decoder/layer_{layer}/attention/linear_0/weight" not in shapes:
            raise _misfit(
                directory / "config.json",
                f"alignment_heads names the layer {layer}, which the decoder does not have",
            )
    found = _dimension(shapes, "encoder/conv1/weight", axis=1)
    if found != mels:
        raise _misfit(
            directory / "preprocessor_config.json",
            f"it has feature_size={mels}, but the weights have {found}",
        )
    rows = _dimension(shapes, "decoder/embeddings/weight", axis=0)
    if tokens and len(tokens) < rows:
        fault = f"it has {len(tokens)} tokens, but the weights have {rows}"
        raise _misfit(directory / vocabulary, fault)
    # Read here first, because faster-whisper raises a bare Exception for a damaged file, and takes
    # that of whisper-tiny from the cache or the hub for a missing one.
    read_tokenizer(directory, n_vocab=rows)
    # Without a list CTranslate2 uses the upper half of the layers.
    return AlignmentHeads(pairs=heads, are_known=bool(heads))


def _dimension(shapes: dict[str, tuple[int, ...]], name: str, *, axis: int) -> int:
    """Return a dimension of the variable *name*, 0 if there is none."""
    shape = shapes.get(name, ())
    return shape[axis] if axis < len(shape) else 0


def _misfit(path: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"{path} does not fit the weights: {reason}; {REMEDY}")


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """
    Return the shapes of a model's variables by name.

    Raises:
        ModelNotFoundError: the file is damaged.

    """
    try:
        with path.open("rb") as file:
            return _read_shapes(file, path.stat().st_size)
    except (OSError, ValueError, struct.error) as error:
        raise ModelNotFoundError(
            f"{path} could not be loaded as a CTranslate2 Whisper model: "
            f"{one_line(str(error))}; {REMEDY}"
        ) from error


def _read_shapes(file: BinaryIO, size: int) -> dict[str, tuple[int, ...]]:
    # https://github.com/OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py, _serialize
    _read_number(file, "I")  # the version
    if (spec := _read_text(file)) != "WhisperSpec":
        raise ValueError(f"expected a WhisperSpec, got {spec[:60]!r}")
    _read_number(file, "I")  # the revision of the spec
    shapes: dict[str, tuple[int, ...]] = {}
    for _ in range(_read_number(file, "I")):
        name = _read_text(file)
        shapes[name] = tuple(_read_number(file, "I") for _ in range(_read_number(file, "B")))
        _read_number(file, "B")  # the type
        if file.seek(_read_number(file, "I"), os.SEEK_CUR) > size:
            raise ValueError(f"the variable {name[:60]!r} lies outside the file")
    return shapes


def _read_number(file: BinaryIO, kind: str) -> int:
    number: int = struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]
    return number


def _read_text(file: BinaryIO) -> str:
    """Read a string with its length before it and a zero byte after it."""
    return file.read(_read_number(file, "H")).rstrip(b"\0").decode("utf-8")
