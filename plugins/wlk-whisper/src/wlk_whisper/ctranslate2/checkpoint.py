"""Check the files of a CTranslate2 Whisper before CTranslate2 and faster-whisper read them."""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING, Annotated, BinaryIO

from msgspec import UNSET, Meta, Struct, UnsetType

from wlk_core.frameworks.memory import physical_memory, require_memory
from wlk_core.models import (
    Index,
    Size,
    TensorHeader,
    TensorSize,
    check_sizes,
    read_json,
    read_json_table,
)
from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.model_files import TOKENIZER_FILE, read_tokenizer, require_special_tokens

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_files", "read_model_header"]

REMEDY = "convert or pull it again"
DEFAULT_MELS = 80  # of faster-whisper, where the file gives none


# https://github.com/OpenNMT/CTranslate2, python/ctranslate2/specs/model_spec.py, _serialize
TYPES = (("float32", 4), ("int8", 1), ("int16", 2), ("int32", 4), ("float16", 2), ("bfloat16", 2))
VERSIONS = range(4, 7)  # with the type and the bytes of a variable; converters write 6 since 2021
SPEC = "WhisperSpec"


class _Config(Struct):  # ctranslate2 reads it by itself and takes no null
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


_EMBEDDING = "decoder/embeddings/weight"
_LAYER = "decoder/layer_{}/attention/linear_0/weight"
_MELS = TensorSize("feature_size", ("encoder/conv1/weight",), axis=1)


def check_files(directory: Path) -> AlignmentHeads:
    """
    Check the files of a model against each other and against what Whisper needs.

    Returns:
        the alignment heads that CTranslate2 will use.

    Raises:
        ModelNotFoundError: a file is damaged, or the sizes of two of them differ.
        BackendUnavailable: the model does not fit into memory.

    """
    config = read_json_table(directory / "config.json", _Config, remedy=REMEDY)
    variables = read_model_header(directory / "model.bin")
    require_memory(
        str(directory),
        # CTranslate2 reads the file into memory before it moves anything to a GPU.
        needed=(directory / "model.bin").stat().st_size,
        available=physical_memory(),
        device="cpu",
        remedy="choose a smaller model",
    )
    heads = config.get("alignment_heads") or []
    for layer, _ in heads:
        if _LAYER.format(layer) not in variables:  # CTranslate2 reads past the end of its layers
            raise ModelNotFoundError(
                f"{directory / 'config.json'} does not fit the weights: alignment_heads names the "
                f"layer {layer}, which the decoder does not have; {REMEDY}"
            )
    features = directory / "preprocessor_config.json"
    table = read_json_table(features, _Features, remedy=REMEDY)
    sizes = {"feature_size": table.get("feature_size") or DEFAULT_MELS}
    check_sizes(sizes, (_MELS,), variables, path=features, remedy=REMEDY)
    rows = variables[_EMBEDDING].shape[0] if _EMBEDDING in variables else 0
    vocabulary = directory / "vocabulary.json"  # other converters write vocabulary.txt
    tokens = read_json(vocabulary, list[str], remedy=REMEDY)
    if tokens is not None and len(tokens) < rows:  # CTranslate2 reads past the end of the list
        raise ModelNotFoundError(
            f"{vocabulary} does not fit the weights: it has {len(tokens)} tokens, and the weights "
            f"have {rows}; {REMEDY}"
        )
    if rows and (directory / TOKENIZER_FILE).exists():
        # Read here first, because faster-whisper raises a bare Exception for a damaged file.
        hf_tokenizer = read_tokenizer(directory / TOKENIZER_FILE)
        require_special_tokens(hf_tokenizer, directory, n_vocab=rows)
    # Without a list CTranslate2 takes the upper half of the layers.
    pairs = tuple(sorted((layer, head) for layer, head in heads))
    return AlignmentHeads(pairs=pairs, are_known=bool(pairs))


def read_model_header(path: Path) -> dict[str, TensorHeader]:
    """
    Return the variables of a model by their names.

    Raises:
        ModelNotFoundError: the file is damaged: it ends early, or a variable has another size than
            it declares; or it contains another model than a Whisper.

    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return _read_variables(file, size)
    except (OSError, ValueError, struct.error) as error:
        raise ModelNotFoundError(
            f"{path} could not be loaded as a CTranslate2 Whisper model: "
            f"{one_line(str(error))}; {REMEDY}"
        ) from error


def _read_variables(file: BinaryIO, size: int) -> dict[str, TensorHeader]:
    version = _number(file, "I")
    if version not in VERSIONS:
        raise ValueError(f"it has the unknown version {version}")
    spec = _text(file)
    if spec != SPEC:
        raise ValueError(f"it contains a {spec[:60]!r}, expected a {SPEC}")
    _number(file, "I")  # the revision of the spec
    variables: dict[str, TensorHeader] = {}
    for _ in range(_number(file, "I")):
        name = _text(file)
        shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
        kind, length = _number(file, "B"), _number(file, "I")
        end = file.seek(0, os.SEEK_CUR) + length
        if kind >= len(TYPES) or end > size:
            raise ValueError(f"the variable {name[:60]!r} lies outside of the file")
        dtype, item_bytes = TYPES[kind]
        if math.prod(shape) * item_bytes != length:
            raise ValueError(f"the size of {name[:60]!r} is not that of its shape")
        variables[name] = TensorHeader(dtype, shape)
        file.seek(end)
    return variables


def _number(file: BinaryIO, kind: str) -> int:
    number: int = struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]
    return number


def _text(file: BinaryIO) -> str:
    """Return a string, which its length precedes and a zero byte ends."""
    return file.read(_number(file, "H")).rstrip(b"\0").decode("utf-8")
