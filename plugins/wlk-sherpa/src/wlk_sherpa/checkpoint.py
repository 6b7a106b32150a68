"""
Find the files of a model in its directory, and read their metadata.

sherpa-onnx terminates the process if metadata is missing, so the files are checked first.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated

import attrs
from msgspec import Meta, Struct
import numpy as np

from wlk_core.errors import ModelNotFoundError
from wlk_frameworks.checkpoints import read_json_table, read_limited
from wlk_sherpa.protobuf import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

TOKENS = "tokens.txt"
SUBSAMPLING = 4  # feature frames per encoder frame; NeMo's models declare their own
FRAME_SECONDS = 0.01  # from one feature frame to the next
STATE_ITEM_BYTES = 4  # float32 or int32
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
#: For each kind of model, the model_types it can declare, and the metadata keys each must have
#: (sherpa-onnx/csrc/online-*-model.cc).  NeMo's models declare the name of their class as type.
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
_DISAMBIGUATION = re.compile(r"#\d+")  # symbols of a decoding graph, which no model emits
_BLANKS = {"<blk>", "<blank>", "<eps>"}
_REAL_KEYS = {"neg_mean", "inv_stddev"}

# Field numbers, named as in onnx.proto (https://github.com/onnx/onnx) ...
_MODEL_GRAPH, _MODEL_METADATA_PROPS = 7, 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_GRAPH_INPUT, _GRAPH_OUTPUT = 11, 12
_VALUE_INFO_TYPE = 2
_TYPE_TENSOR_TYPE = 1
_TENSOR_TYPE_SHAPE = 2
_SHAPE_DIM = 1
_DIMENSION_DIM_VALUE = 1
# ... and in sentencepiece_model.proto (https://github.com/google/sentencepiece).
_MODEL_PIECES = 1
_PIECE_TEXT, _PIECE_SCORE = 1, 2


class _Config(Struct):
    word_gap_seconds: Annotated[float, Meta(ge=0.04, le=2)] | None = None


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    A streaming model of sherpa-onnx with all its files.

    Attributes:
        directory: the directory of the model.
        kind: "transducer", "paraformer", "zipformer2_ctc" or "nemo_ctc": the suffix of the
            OnlineRecognizer constructor that loads it.
        files: the ONNX files, by the arguments of that constructor.
        model_type: the type of icefall's transducers, such as "zipformer2"; empty for others.
        tokens: the vocabulary, indexed by token id.
        frame_seconds: the time from one encoder frame to the next, the resolution of times.
        time_scale: the factor that converts times of sherpa-onnx to seconds.
        state_bytes: the size of the encoder's state, per stream.
        word_gap: seconds without a token after which a word is final, from wlk.json; or None.

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
    Return the model in *directory*, with files in *dtype*: "float32", "int8", or "auto" for either.

    Raises:
        ModelNotFoundError: it is not a streaming model of sherpa-onnx, or a file is damaged.

    """
    kind, files = _find_files(directory, dtype)
    main = next(iter(files.values()))
    onnx = _read_onnx(main)
    metadata, state_bytes = onnx.metadata, onnx.state_bytes
    declared = metadata.get("model_type", "")
    model_type = next((name for name in _KEYS[kind] if declared.startswith(name)), None)
    if model_type is None:
        raise ModelNotFoundError(
            f"{main} declares the model_type {declared or 'none'}, expected one of "
            f"{', '.join(_KEYS[kind])}: is it a streaming model? {REMEDY}"
        )
    _require(_KEYS[kind][model_type].split(), metadata, main, kind)
    is_nemo = model_type == "EncDec"
    if kind == "transducer" and not is_nemo:
        decoder = _read_onnx(files["decoder"]).metadata
        _require(("vocab_size", "context_size"), decoder, files["decoder"], kind)
        metadata["vocab_size"] = decoder["vocab_size"]
    tokens = _read_tokens(directory / TOKENS)
    last = list(files.values())[-1]  # the joiner of a transducer
    least = _first(metadata.get("vocab_size", "0"))
    _check_tokens(directory / TOKENS, tokens, last, is_nemo=is_nemo, least=least)
    config = read_json_table(directory / "wlk.json", _Config)
    subsampling = _first(metadata["subsampling_factor"]) if is_nemo else SUBSAMPLING
    # It assumes SUBSAMPLING for every CTC model (online-recognizer-ctc-impl.h, 2.0).
    time_scale = subsampling / SUBSAMPLING if kind == "ctc" else 1.0
    if kind == "ctc":
        kind = "nemo_ctc" if is_nemo else "zipformer2_ctc"
    return Checkpoint(
        directory=directory,
        kind=kind,
        files=files,
        model_type=model_type if kind == "transducer" and not is_nemo else "",
        tokens=tokens,
        frame_seconds=subsampling * FRAME_SECONDS,
        time_scale=time_scale,
        state_bytes=state_bytes,
        word_gap=config.get("word_gap_seconds"),
    )


def read_pieces(directory: Path, tokens: Iterable[str]) -> list[tuple[str, float]]:
    """
    Return the tokenizer's pieces and scores from bpe.vocab or bpe.model; empty without either.

    Raises:
        ModelNotFoundError: the file is damaged, or most of its pieces are not in *tokens*.

    """
    path, pieces = _read_pieces(directory)
    # Not all: a vocabulary of two languages can leave out pieces that its texts never used.
    known = set(tokens)
    unknown = [piece for piece, _ in pieces if piece not in known]
    if 2 * len(unknown) > len(pieces):
        raise ModelNotFoundError(
            f"{path} and {TOKENS} belong to different models: {len(unknown)} of {len(pieces)} "
            f"pieces, such as {unknown[0]!r}, are not in {TOKENS}; {REMEDY}"
        )
    return pieces


def _read_pieces(directory: Path) -> tuple[Path, list[tuple[str, float]]]:
    path = directory / "bpe.vocab"
    try:
        if content := read_limited(path):
            rows = [line.split("\t") for line in content.decode().splitlines()]
            return path, [(piece, float(score)) for piece, score in rows]
        path = directory / "bpe.model"
        model = Message(memoryview(read_limited(path) or b""))
        return path, [
            (piece.text(_PIECE_TEXT), piece.float32(_PIECE_SCORE))
            for piece in model.messages(_MODEL_PIECES)
        ]
    except ValueError as error:
        raise ModelNotFoundError(f"{path} is damaged: {error}; {REMEDY}") from error


def _find_files(directory: Path, dtype: str) -> tuple[str, dict[str, Path]]:
    roles = ("encoder", "decoder", "joiner")
    parts = {role: _find_file(directory, f"*{role}*.onnx", dtype) for role in roles}
    files = {role: path for role, path in parts.items() if path is not None}
    if len(files) == len(roles):
        return "transducer", files
    if files.keys() == {"encoder", "decoder"}:
        return "paraformer", files
    for pattern in ("*model*.onnx", "*ctc*.onnx"):
        if model := _find_file(directory, pattern, dtype):
            return "ctc", {"model": model}
    names = ", ".join(sorted(path.name for path in directory.glob("*.onnx"))) or "no ONNX file"
    raise ModelNotFoundError(
        f"expected encoder, decoder and joiner.onnx of a transducer, encoder and decoder.onnx of a "
        f"Paraformer, or model.onnx of a CTC model in {directory}, got {names}; {REMEDY}"
    )


def _find_file(directory: Path, pattern: str, dtype: str) -> Path | None:
    """
    Return a file in *dtype*, else one in the other dtype; None if there is neither.

    Some repositories have the same weights with several left contexts, "...-left-64.onnx" and
    "...-left-128.onnx".  The longest is used, because it is the most accurate.
    """
    paths = sorted(directory.glob(pattern), key=_sort_key)
    int8 = [path for path in paths if ".int8." in path.name]
    float32 = [path for path in paths if path not in int8]
    # Published int8 models have float32 decoders, which are just as small.
    matching = (int8 or float32) if dtype == "int8" else (float32 or int8)
    return matching[-1] if matching else None


def _sort_key(path: Path) -> tuple[list[int], str]:
    """Order files by the numbers in their names, then by name."""
    return [int(number) for number in re.findall(r"\d+", path.name)], path.name


def _require(keys: Iterable[str], metadata: Mapping[str, str], path: Path, kind: str) -> None:
    """Raise ModelNotFoundError unless the metadata of *path* has a list of numbers for each key."""
    missing = []
    for key in keys:
        pattern = _REALS if key in _REAL_KEYS else _NUMBERS
        if not pattern.fullmatch(metadata.get(key, "")):
            missing.append(key)
    if missing:
        raise ModelNotFoundError(
            f"{path}, read as a {kind}, declares no numbers for {', '.join(missing)}, which "
            "sherpa-onnx needs; export it with a current export-onnx.py of its recipe"
        )


def _check_tokens(
    path: Path, tokens: Sequence[str], model: Path, *, is_nemo: bool, least: int
) -> None:
    """Raise ModelNotFoundError unless *tokens* are those that *model* emits, *least* or more."""
    emitted = [token for token in tokens if not _DISAMBIGUATION.fullmatch(token)]
    outputs = _read_onnx(model).outputs or max(least, len(emitted))
    if len(tokens) < max(least, outputs) or len(emitted) > outputs:
        raise ModelNotFoundError(
            f"{path} has {len(emitted)} tokens, but {model} emits {max(least, outputs)}; {REMEDY}"
        )
    # sherpa-onnx takes this place for granted, and would write the blank as text.
    place = len(emitted) - 1 if is_nemo else 0
    blank = next((place for place, token in enumerate(tokens) if token in _BLANKS), place)
    if blank != place:
        raise ModelNotFoundError(
            f"{path} has {tokens[blank]} as number {blank}, but {model} emits it as number "
            f"{place}: they belong to different models; {REMEDY}"
        )


def _first(numbers: str) -> int:
    return int(numbers.split(",", 1)[0])


def _read_tokens(path: Path) -> tuple[str, ...]:
    """Read a vocabulary from a file with a line "token id" for each token."""
    try:
        lines = (read_limited(path) or b"").decode().splitlines()
        tokens = dict(_parse_token(line) for line in lines)
        return tuple(tokens[index] for index in range(len(lines)))
    except (ValueError, KeyError) as error:
        raise ModelNotFoundError(
            f"{path} is damaged: expected a token and its id on every line ({error!r}); {REMEDY}"
        ) from error


def _parse_token(line: str) -> tuple[int, str]:
    """Return the id and the text of a token; of the token " ", only the id remains in its line."""
    match line.split():
        case [text, number]:
            return int(number), text
        case [number]:
            return int(number), " "
    raise ValueError(f"the line {line!r}")


@attrs.frozen(kw_only=True)
class _Onnx:
    """What an ONNX file declares beside its weights."""

    metadata: dict[str, str]
    state_bytes: int  #: of all inputs but the first
    outputs: int  #: numbers in a row of the first output; 0 if unknown


def _read_onnx(path: Path) -> _Onnx:
    try:
        # Mapped into memory, because most of the file is weights, which are never read.
        model = Message(_mapped(path))
        metadata = {
            entry.text(_ENTRY_KEY): entry.text(_ENTRY_VALUE, "")
            for entry in model.messages(_MODEL_METADATA_PROPS)
        }
        sizes = [
            _input_size(value_info)
            for graph in model.messages(_MODEL_GRAPH)
            for value_info in graph.messages(_GRAPH_INPUT)
        ]
        outputs = [
            (_dimensions(value_info) or [0])[-1]
            for graph in model.messages(_MODEL_GRAPH)
            for value_info in graph.messages(_GRAPH_OUTPUT)[:1]
        ]
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{path} is not an ONNX model: {error}; {REMEDY}") from error
    return _Onnx(
        metadata=metadata, state_bytes=STATE_ITEM_BYTES * sum(sizes[1:]), outputs=sum(outputs)
    )


def _mapped(path: Path) -> memoryview:
    return memoryview(np.memmap(path, dtype=np.uint8, mode="r"))  # type: ignore[arg-type]  # numpy 2.3 declares no buffer


def _input_size(value_info: Message) -> int:
    """Return the number of elements of an input for one stream: the product of known dimensions."""
    return math.prod(max(1, size) for size in _dimensions(value_info))


def _dimensions(value_info: Message) -> list[int]:
    """Return the dimensions of an input or output; 0 for the batch, and what grows with audio."""
    tensor_type = value_info.message(_VALUE_INFO_TYPE).message(_TYPE_TENSOR_TYPE)
    dimensions = tensor_type.message(_TENSOR_TYPE_SHAPE).messages(_SHAPE_DIM)
    return [each.integer(_DIMENSION_DIM_VALUE, 0) for each in dimensions]
