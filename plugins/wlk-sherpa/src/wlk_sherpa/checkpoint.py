"""
The directory of a model: which ONNX file is what, and what the files declare.

sherpa-onnx ends the process where a file lacks what it reads, so the files are checked first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from msgspec import Meta, Struct
import numpy as np

from wlk_core.errors import ModelNotFoundError
from wlk_core.models import read_json_table, read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

TOKENS = "tokens.txt"
SUBSAMPLING = 4  # frames of features to a frame of the encoder; NeMo's models declare theirs
FRAME_SECONDS = 0.01  # of the features
# Fields of onnx.proto: of ModelProto, and of GraphProto.
GRAPH, METADATA, INPUT = 7, 14, 11
# Kinds of fields of protobuf, and the sizes of those of fixed sizes.
VARINT, LENGTH, SIZES = 0, 2, {1: 8, 5: 4}
REMEDY = "get one with: wlk-core pull zipformer-en --backend sherpa"

_CHUNK = "T decode_chunk_len"
_ZIPFORMER2 = (
    "encoder_dims query_head_dims value_head_dims num_heads num_encoder_layers cnn_module_kernels "
    f"left_context_len {_CHUNK}"
)
_NEMO = (
    "vocab_size window_size chunk_shift subsampling_factor cache_last_channel_dim1 "
    "cache_last_channel_dim2 cache_last_channel_dim3 cache_last_time_dim1 cache_last_time_dim2 "
    "cache_last_time_dim3"
)
#: Of each kind of model, the types that its metadata may declare and the keys that each must have
#: (sherpa-onnx/csrc/online-*-model.cc).  The type of a model of NeMo is the name of its class.
_KEYS = {
    "transducer": {
        "conformer": f"num_encoder_layers left_context encoder_dim pad_length cnn_module_kernel "
        f"{_CHUNK}",
        "ebranchformer": "num_hidden_layers hidden_size intermediate_size csgu_kernel_size "
        f"merge_conv_kernel left_context_len num_heads head_dim {_CHUNK}",
        "lstm": f"num_encoder_layers rnn_hidden_size d_model {_CHUNK}",
        "zipformer2": _ZIPFORMER2,
        "zipformer": "encoder_dims attention_dims num_encoder_layers cnn_module_kernels "
        f"left_context_len {_CHUNK}",
        "EncDec": f"{_NEMO} pred_rnn_layers pred_hidden",
    },
    "ctc": {"zipformer2": _ZIPFORMER2, "EncDec": _NEMO},
    "paraformer": {
        "": "vocab_size lfr_window_size lfr_window_shift encoder_output_size decoder_num_blocks "
        "decoder_kernel_size neg_mean inv_stddev"
    },
}
_NUMBERS = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)
_REALS = re.compile(r"[-\d][-+\d.,eE]*", re.ASCII)
_REAL_KEYS = {"neg_mean", "inv_stddev"}


class _Settings(Struct):
    word_gap_seconds: Annotated[float, Meta(ge=0.04, le=2)] | None = None


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    A streaming model of sherpa-onnx whose files are complete.

    Attributes:
        directory: where it is.
        kind: "transducer", "paraformer", "zipformer2_ctc" or "nemo_ctc": which constructor of
            OnlineRecognizer loads it.
        files: the ONNX files, by the arguments of that constructor.
        model_type: of an encoder of icefall, such as "zipformer2"; empty for others.
        tokens: the vocabulary; the position of a token is its id.
        frame_seconds: from one frame of the encoder to the next, the resolution of times.
        time_scale: seconds to a second of the times of sherpa-onnx.
        state_bytes: of the encoder's state, for one stream.
        word_gap: seconds without a token after which a word is final; what a wlk.json
            declares, None without one.

    """

    directory: Path
    kind: str
    files: Mapping[str, Path]
    model_type: str
    tokens: tuple[str, ...]
    frame_seconds: float
    time_scale: float
    state_bytes: int
    word_gap: float | None


def read_checkpoint(directory: Path, *, dtype: str = "auto") -> Checkpoint:
    """
    Return the model in *directory*; *dtype* is "float32", "int8", or "auto" for either.

    Raises:
        ModelNotFoundError: it is not a streaming model of sherpa-onnx, or a file is damaged.

    """
    kind, files = _files(directory, dtype)
    main = next(iter(files.values()))
    metadata, state_bytes = _read_onnx(main)
    declared = metadata.get("model_type", "")
    model_type = next((name for name in _KEYS[kind] if declared.startswith(name)), None)
    if model_type is None:
        raise ModelNotFoundError(
            f"{main} declares the model_type {declared or 'none'}, expected one of "
            f"{', '.join(_KEYS[kind])}: is it a streaming model? {REMEDY}"
        )
    _require(_KEYS[kind][model_type], metadata, main, kind)
    is_nemo = model_type == "EncDec"
    if kind == "transducer" and not is_nemo:
        decoder, _ = _read_onnx(files["decoder"])
        _require("vocab_size context_size", decoder, files["decoder"], kind)
        metadata["vocab_size"] = decoder["vocab_size"]
    tokens = _read_tokens(directory / TOKENS)
    if _first(metadata.get("vocab_size", "0")) > len(tokens):
        raise ModelNotFoundError(
            f"{directory / TOKENS} has {len(tokens)} tokens, but {main} emits "
            f"{metadata['vocab_size']}; {REMEDY}"
        )
    settings = read_json_table(directory / "wlk.json", _Settings)
    subsampling = _first(metadata["subsampling_factor"]) if is_nemo else SUBSAMPLING
    return Checkpoint(
        directory=directory,
        kind=kind if kind != "ctc" else "nemo_ctc" if is_nemo else "zipformer2_ctc",
        files=files,
        model_type=model_type if kind == "transducer" and not is_nemo else "",
        tokens=tokens,
        frame_seconds=subsampling * FRAME_SECONDS,
        # It takes SUBSAMPLING for granted of every CTC model (online-recognizer-ctc-impl.h, 2.0).
        time_scale=subsampling / SUBSAMPLING if kind == "ctc" else 1.0,
        state_bytes=state_bytes,
        word_gap=settings.get("word_gap_seconds"),
    )


def read_pieces(directory: Path) -> list[tuple[str, float]]:
    """
    Return the pieces of the tokenizer and their scores, none without bpe.vocab and bpe.model.

    Raises:
        ModelNotFoundError: the file is damaged.

    """
    path = directory / "bpe.vocab"
    try:
        if content := read_limited(path):
            lines = content.decode().splitlines()
            return [(piece, float(score)) for piece, score in (line.split("\t") for line in lines)]
        path = directory / "bpe.model"  # sentencepiece_model.proto: pieces of text and score
        content = read_limited(path) or b""
        pieces = [dict(_fields(value)) for key, value in _fields(memoryview(content)) if key == 1]
        return [
            (bytes(piece[1]).decode(), float(np.frombuffer(piece[2], "<f4")[0])) for piece in pieces
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelNotFoundError(f"{path} is damaged: {error}; {REMEDY}") from error


def _files(directory: Path, dtype: str) -> tuple[str, dict[str, Path]]:
    roles = ("encoder", "decoder", "joiner")
    parts = {role: _file(directory, f"*{role}*.onnx", dtype) for role in roles}
    found = {role: path for role, path in parts.items() if path is not None}
    if len(found) == len(roles):
        return "transducer", found
    if found.keys() == {"encoder", "decoder"}:
        return "paraformer", found
    if model := _file(directory, "*model*.onnx", dtype) or _file(directory, "*ctc*.onnx", dtype):
        return "ctc", {"model": model}
    names = ", ".join(sorted(path.name for path in directory.glob("*.onnx"))) or "no ONNX file"
    raise ModelNotFoundError(
        f"expected encoder, decoder and joiner.onnx of a transducer, the first two of a Paraformer "
        f"or the model.onnx of a CTC model in {directory}, found {names}; {REMEDY}"
    )


def _file(directory: Path, pattern: str, dtype: str) -> Path | None:
    """
    Return the file in the arithmetic *dtype*, else the other; None where there is neither.

    Some repositories have the same weights with several left contexts, "...-left-64.onnx" and
    "...-left-128.onnx".  The longest is taken, which is the most accurate.
    """
    paths = sorted(directory.glob(pattern), key=_numbers)
    int8 = [path for path in paths if ".int8." in path.name]
    float32 = [path for path in paths if path not in int8]
    # Published models in int8 have decoders in float32, which are as small.
    wanted = (int8 or float32) if dtype == "int8" else (float32 or int8)
    return wanted[-1] if wanted else None


def _numbers(path: Path) -> tuple[list[int], str]:
    """Return the numbers in a name, to sort by, and the name where they are equal."""
    return [int(number) for number in re.findall(r"\d+", path.name)], path.name


def _require(keys: str, metadata: Mapping[str, str], path: Path, kind: str) -> None:
    missing = [
        key
        for key in keys.split()
        if not (_REALS if key in _REAL_KEYS else _NUMBERS).fullmatch(metadata.get(key, ""))
    ]
    if missing:
        raise ModelNotFoundError(
            f"{path}, read as a {kind}, declares no number as {', '.join(missing)}, which "
            "sherpa-onnx needs; export it with a current export-onnx.py of its recipe"
        )


def _first(numbers: str) -> int:
    return int(numbers.split(",", 1)[0])


def _read_tokens(path: Path) -> tuple[str, ...]:
    """Return the vocabulary of a file with a line "token id" for each token."""
    try:
        lines = (read_limited(path) or b"").decode().splitlines()
        tokens = {}
        for line in lines:
            *texts, number = line.split()  # the token of a space leaves its number alone
            (tokens[int(number)],) = texts or [" "]
        return tuple(tokens[index] for index in range(len(lines)))
    except (ValueError, KeyError) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: expected a token and its id on every line ({error!r}); {REMEDY}"
        ) from error


def _read_onnx(path: Path) -> tuple[dict[str, str], int]:
    """Return the metadata of a model, and the bytes of its inputs but the first: of its state."""
    metadata, sizes = {}, list[int]()
    try:
        # The weights are a part of the file that is passed over, hence the map.
        for key, value in _fields(_mapped(path)):
            if key == METADATA:
                entry = {number: bytes(text).decode() for number, text in _fields(value)}
                metadata[entry[1]] = entry.get(2, "")
            elif key == GRAPH:
                sizes = [_elements(each) for number, each in _fields(value) if number == INPUT]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFoundError(f"{path} is not an ONNX model: {error}; {REMEDY}") from error
    return metadata, 4 * sum(sizes[1:])


def _mapped(path: Path) -> Any:
    return memoryview(np.memmap(path, dtype=np.uint8, mode="r"))  # type: ignore[arg-type]  # numpy 2.3 declares no buffer


def _elements(value_info: Any) -> int:
    """Return the elements of an input for one stream: the product of its known dimensions."""
    tensor = dict(_fields(dict(_fields(dict(_fields(value_info))[2]))[1]))
    dimensions = [dict(_fields(each)) for number, each in _fields(tensor[2]) if number == 1]
    return int(np.prod([max(1, dimension.get(1, 1)) for dimension in dimensions]))


def _fields(data: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field of a protobuf message: onnx.proto is one."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == LENGTH:
            size, position = _varint(data, position)
        elif (size := SIZES.get(kind, 0)) == 0:
            raise ValueError(f"it has a field of the kind {kind}")
        if position + size > len(data):
            raise ValueError("it is cut off")
        yield key >> 3, data[position : position + size]
        position += size


def _varint(data: Any, position: int) -> tuple[int, int]:
    value = 0
    for index in range(10):  # of 7 bits each, as many as 64 bits take
        if position + index >= len(data):
            raise ValueError("it is cut off")
        byte = data[position + index]
        value |= (byte & 127) << (7 * index)
        if not byte & 128:
            return value, position + index + 1
    raise ValueError("a number is too long")
