"""The files of a CTranslate2 Whisper, accepted before CTranslate2 and faster-whisper read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.frameworks.memory import physical_memory, require_memory
from wlk_core.models import VOCABULARY_LIMITS, check_sizes, read_json, read_json_table
from wlk_core.models.json_kinds import ListOf, Table, Text, Whole
from wlk_core.models.weight_sizes import TensorSize
from wlk_core.plugins import SAMPLE_RATE, ModelNotFoundError
from wlk_whisper.ctranslate2.model_header import read_model_header
from wlk_whisper.engine.tokenizer import TOKENIZER_FILE, read_tokenizer, require_special_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.models import TensorHeader

__all__ = ["check_files"]

REMEDY = "convert or pull it again"
N_FFT, HOP_LENGTH, CHUNK_SECONDS = 400, 160, 30  # of every Whisper
DEFAULT_MELS = 80  # of faster-whisper, where the file gives none
_IDS = ListOf(Whole(), label="a list of token ids")
_CONFIG = Table(
    {
        "alignment_heads": ListOf(
            ListOf(Whole(), length=2), label="a list of [layer, head], both counted from 0"
        ),
        "lang_ids": _IDS,
        "suppress_ids": _IDS,
        "suppress_ids_begin": _IDS,
    },
    refuses_null=True,
)
_FEATURES = Table(
    {
        "feature_size": Whole(1),
        "sampling_rate": Whole(SAMPLE_RATE, SAMPLE_RATE),
        "n_fft": Whole(N_FFT, N_FFT),
        "hop_length": Whole(HOP_LENGTH, HOP_LENGTH),
        "chunk_length": Whole(1, CHUNK_SECONDS),
    },
    refuses_null=True,
)
_EMBEDDING = "decoder/embeddings/weight"
_LAYER = "decoder/layer_{}/attention/linear_0/weight"
_MELS = TensorSize("feature_size", ("encoder/conv1/weight",), axis=1)


def check_files(directory: Path) -> None:
    """
    Check the files of a model against each other and against what Whisper needs.

    Raises:
        ModelNotFoundError: a file is damaged, or the sizes of two of them differ.
        BackendUnavailable: the model does not fit into memory.

    """
    config = read_json_table(directory / "config.json", _CONFIG, remedy=REMEDY)
    variables = read_model_header(directory / "model.bin")
    require_memory(
        str(directory),
        # CTranslate2 reads the file into memory before it moves anything to a GPU.
        needed=(directory / "model.bin").stat().st_size,
        available=physical_memory(),
        device="cpu",
        remedy="choose a smaller model",
    )
    _check_heads(directory / "config.json", config.get("alignment_heads") or [], variables)
    features = directory / "preprocessor_config.json"
    table = read_json_table(features, _FEATURES, remedy=REMEDY)
    sizes = {"feature_size": table.get("feature_size") or DEFAULT_MELS}
    check_sizes(sizes, (_MELS,), variables, path=features, remedy=REMEDY)
    _check_vocabulary(directory / "vocabulary.json", variables)
    if (directory / TOKENIZER_FILE).exists():
        # Read here first, because faster-whisper raises a bare Exception for a damaged file.
        hf_tokenizer = read_tokenizer(directory / TOKENIZER_FILE)
        embedding = variables.get(_EMBEDDING)
        if embedding is not None:
            require_special_tokens(hf_tokenizer, directory, n_vocab=embedding.shape[0])


def _check_heads(path: Path, heads: list[list[int]], variables: dict[str, TensorHeader]) -> None:
    """CTranslate2 would read past the end of its layers."""
    for layer, _ in heads:
        if _LAYER.format(layer) not in variables:
            raise ModelNotFoundError(
                f"{path} does not fit the weights: alignment_heads names the layer {layer}, which "
                f"the decoder does not have; {REMEDY}"
            )


def _check_vocabulary(path: Path, variables: dict[str, TensorHeader]) -> None:
    tokens = read_json(
        path, ListOf(Text(), label="a list of tokens"), limits=VOCABULARY_LIMITS, remedy=REMEDY
    )
    embedding = variables.get(_EMBEDDING)
    if tokens is None or embedding is None:
        return  # other converters write vocabulary.txt, and CTranslate2 names a missing variable
    if len(tokens) < embedding.shape[0]:  # CTranslate2 reads past the end of the list
        raise ModelNotFoundError(
            f"{path} does not fit the weights: it has {len(tokens)} tokens, and the weights have "
            f"{embedding.shape[0]}; {REMEDY}"
        )
