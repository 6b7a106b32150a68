"""The files of a CTranslate2 Whisper, accepted before CTranslate2 and faster-whisper read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from wlk_core.frameworks.memory import physical_memory, require_memory
from wlk_core.models import Index, Size, TensorSize, check_sizes, read_json, read_json_table
from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_whisper.ctranslate2.model_header import read_model_header
from wlk_whisper.engine.alignment_heads import AlignmentHeads
from wlk_whisper.engine.tokenizer import TOKENIZER_FILE, read_tokenizer, require_special_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models import TensorHeader

__all__ = ["check_files"]

REMEDY = "convert or pull it again"
N_FFT, HOP_LENGTH, CHUNK_SECONDS = 400, 160, 30  # of every Whisper
DEFAULT_MELS = 80  # of faster-whisper, where the file gives none


class _Config(Struct):  # ctranslate2 reads it by itself and takes no null
    alignment_heads: list[tuple[Index, Index]] | UnsetType = UNSET  # [layer, head], from 0
    lang_ids: list[Index] | UnsetType = UNSET
    suppress_ids: list[Index] | UnsetType = UNSET
    suppress_ids_begin: list[Index] | UnsetType = UNSET


class _Features(Struct):
    feature_size: Size | UnsetType = UNSET
    sampling_rate: Annotated[int, Meta(ge=SAMPLE_RATE, le=SAMPLE_RATE)] | UnsetType = UNSET
    n_fft: Annotated[int, Meta(ge=N_FFT, le=N_FFT)] | UnsetType = UNSET
    hop_length: Annotated[int, Meta(ge=HOP_LENGTH, le=HOP_LENGTH)] | UnsetType = UNSET
    chunk_length: Annotated[int, Meta(ge=1, le=CHUNK_SECONDS)] | UnsetType = UNSET


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
    _check_heads(directory / "config.json", heads, variables)
    features = directory / "preprocessor_config.json"
    table = read_json_table(features, _Features, remedy=REMEDY)
    sizes = {"feature_size": table.get("feature_size") or DEFAULT_MELS}
    check_sizes(sizes, (_MELS,), variables, path=features, remedy=REMEDY)
    _check_vocabulary(directory / "vocabulary.json", variables)
    if (directory / TOKENIZER_FILE).exists():
        # Read here first, because faster-whisper raises a bare Exception for a damaged file.
        hf_tokenizer = read_tokenizer(directory / TOKENIZER_FILE)
        embedding = variables.get(_EMBEDDING)
        if embedding is not None:
            require_special_tokens(hf_tokenizer, directory, n_vocab=embedding.shape[0])
    # Without a list CTranslate2 takes the upper half of the layers.
    pairs = tuple(sorted((layer, head) for layer, head in heads))
    return AlignmentHeads(pairs=pairs, are_known=bool(pairs))


def _check_heads(path: Path, heads: list[list[int]], variables: dict[str, TensorHeader]) -> None:
    """CTranslate2 would read past the end of its layers."""
    for layer, _ in heads:
        if _LAYER.format(layer) not in variables:
            raise ModelNotFoundError(
                f"{path} does not fit the weights: alignment_heads names the layer {layer}, which "
                f"the decoder does not have; {REMEDY}"
            )


def _check_vocabulary(path: Path, variables: dict[str, TensorHeader]) -> None:
    tokens = read_json(path, list[str], remedy=REMEDY)
    embedding = variables.get(_EMBEDDING)
    if tokens is None or embedding is None:
        return  # other converters write vocabulary.txt, and CTranslate2 names a missing variable
    if len(tokens) < embedding.shape[0]:  # CTranslate2 reads past the end of the list
        raise ModelNotFoundError(
            f"{path} does not fit the weights: it has {len(tokens)} tokens, and the weights have "
            f"{embedding.shape[0]}; {REMEDY}"
        )
