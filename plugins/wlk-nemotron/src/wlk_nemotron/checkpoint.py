"""Read what a checkpoint in the layout of transformers declares besides its weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from msgspec import Meta, Struct

from wlk_core.errors import ModelNotFoundError, OptionError
from wlk_frameworks.checkpoints import Index, Size, check_agreement, read_json_table
from wlk_nemotron.languages import LANGUAGES, code_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FRAME_MS = 80  # length of an encoder frame
AUTOMATIC = "auto"  # the prompt with which the model detects the language
ENGLISH_PROMPT = 0  # for models without prompts, which ignore it
LOOK_AHEADS = (13, 6, 1, 0)  # in encoder frames; the default of transformers
LANGUAGE_TAG = re.compile("<([a-z]{2,3}-[A-Za-z]{2})>")
WORD_SPACE = "▁"  # SentencePiece
CONFIG = "config.json"
MODEL_TYPES = ("nemotron3_5_asr", "nemotron_asr_streaming")

_LookAhead = Annotated[int, Meta(ge=0, le=13)]


class _Encoder(Struct):
    num_mel_bins: Annotated[int, Meta(ge=1, le=512)]
    hidden_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    sliding_window: Annotated[int, Meta(ge=2, le=4096)]
    conv_kernel_size: Annotated[int, Meta(ge=2, le=255)] = 9
    subsampling_factor: Literal[8] = 8


class _Config(Struct):
    encoder_config: _Encoder
    vocab_size: Size
    blank_token_id: Index
    decoder_hidden_size: Size
    num_decoder_layers: Annotated[int, Meta(ge=1, le=16)] = 2
    num_prompts: Annotated[int, Meta(ge=1, le=65_536)] = 128


class _Features(Struct):
    feature_size: Annotated[int, Meta(ge=1, le=512)] = 80
    sampling_rate: Literal[16_000] = 16_000
    hop_length: Literal[160] = 160
    n_fft: Literal[512] = 512
    win_length: Literal[400] = 400


class _Processor(Struct):
    feature_extractor: _Features | None = None
    supported_num_lookahead_tokens: Annotated[list[_LookAhead], Meta(min_length=1)] | None = None
    default_num_lookahead_tokens: _LookAhead | None = None
    prompt_dictionary: dict[str, Index] | None = None
    blank_token: str | None = None
    num_prompts: Index | None = None


class _AddedToken(Struct):
    id: Index
    content: str
    special: bool = False


class _Vocabulary(Struct):
    vocab: dict[str, Index] | list[tuple[str, float]]


class _Tokenizer(Struct):
    model: _Vocabulary
    added_tokens: list[_AddedToken] = []


class _WlkConfig(Struct):
    dtype: Literal["float32", "float16", "bfloat16"] | None = None


@attrs.frozen(kw_only=True, eq=False)
class CheckpointConfig:
    """
    What streams need to know of a checkpoint besides its weights.

    Attributes:
        name: the model as users call it, for error messages.
        dtype: the name of the number format it is meant for; None if it declares none.
        pieces: the text of each token id, with the space before it; empty for a control token.
        languages: the language codes that tags stand for, by token id.
        prompts: the number of the prompt for each language code and for "auto"; empty for an
            English-only model, which takes no prompt.
        look_aheads: the chunk lengths it was trained for, in encoder frames; the default first.

    """

    name: str
    dtype: str | None
    pieces: tuple[str, ...]
    languages: Mapping[int, str | None]
    prompts: Mapping[str, int]
    look_aheads: tuple[int, ...]

    @classmethod
    def read(cls, directory: Path, *, name: str) -> CheckpointConfig:
        """
        Read all files but the weights.

        Raises:
            ModelNotFoundError: the directory has no Nemotron model in the layout of transformers,
                or a file is damaged.

        """
        config = _config(directory)
        read_json_table(directory / "generation_config.json")  # validated: transformers reads it
        path = directory / "processor_config.json"
        processor = read_json_table(path, _Processor)
        _check_features(directory, config, processor)
        if config["model_type"] == MODEL_TYPES[0]:
            prompts = ("num_prompts", config.get("num_prompts", 128))
            declared = ("num_prompts", processor.get("num_prompts"))
            check_agreement(path, declared, directory / CONFIG, prompts)
        supported = processor.get("supported_num_lookahead_tokens") or LOOK_AHEADS
        default = processor.get("default_num_lookahead_tokens")
        default = supported[0] if default is None else default
        pieces, languages = _vocabulary(directory, config, processor.get("blank_token"))
        return cls(
            name=name,
            dtype=read_json_table(directory / "wlk.json", _WlkConfig).get("dtype")
            or config.get("dtype"),
            pieces=pieces,
            languages=languages,
            prompts=_prompts(path, config, processor.get("prompt_dictionary") or {}),
            look_aheads=tuple(dict.fromkeys(ahead + 1 for ahead in (default, *sorted(supported)))),
        )

    def chunk_frames(self, look_ahead_ms: int | None) -> int:
        """
        Return the encoder frames per chunk; None stands for the checkpoint's own look-ahead.

        Raises:
            OptionError: the model was not trained for that look-ahead.

        """
        if look_ahead_ms is None:
            return self.look_aheads[0]
        frames, rest = divmod(look_ahead_ms, FRAME_MS)
        if rest or frames not in self.look_aheads:
            trained = ", ".join(str(FRAME_MS * frames) for frames in sorted(self.look_aheads))
            raise OptionError(
                f"the model {self.name} was trained for a look_ahead_ms of {trained}, "
                f"got {look_ahead_ms}"
            )
        return frames

    def prompt(self, language: str | None) -> int:
        """
        Return the number of the prompt for a language code; None lets the model detect it.

        Raises:
            OptionError: the model has no prompt for it.

        """
        if not self.prompts and language in {None, "en"}:
            return ENGLISH_PROMPT
        number = self.prompts.get(language or AUTOMATIC)
        if number is None:
            known = ", ".join(code for code in self.prompts if code != AUTOMATIC) or "en"
            raise OptionError(
                f"the model {self.name} has no prompt for the language {language}; expected one of "
                f"{known}, or none to detect it"
            )
        return number


def _config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG
    kind = read_json_table(path).get("model_type")
    if kind in MODEL_TYPES and any(directory.glob("model*.safetensors")):
        return read_json_table(path, _Config)
    if kind in MODEL_TYPES:
        found = "config.json without model*.safetensors"
    elif any(directory.glob("*.nemo")):
        found = "NeMo's own layout"
    else:
        names = sorted(entry.name for entry in directory.iterdir())[:6]
        found = f"model_type {kind}" if kind else ", ".join(names) or "nothing"
    raise ModelNotFoundError(
        f"expected a Nemotron ASR model of transformers (config.json, model.safetensors, "
        f"processor_config.json, tokenizer.json) in {directory}, found {found}; get one with: "
        "wlk-core pull 0.6b --backend nemotron"
    )


def _check_features(
    directory: Path, config: Mapping[str, Any], processor: Mapping[str, Any]
) -> None:
    """Check that the features of the processor, in either of two files, are those of the model."""
    path, features = directory / "processor_config.json", processor.get("feature_extractor")
    if features is None:
        path = directory / "preprocessor_config.json"
        features = read_json_table(path, _Features)
        if not path.exists():
            raise ModelNotFoundError(
                f"{directory} has a feature_extractor neither in processor_config.json nor in "
                f"{path.name}; pull the model again"
            )
    bins = ("encoder_config.num_mel_bins", config["encoder_config"]["num_mel_bins"])
    mels = ("feature_size", features.get("feature_size", 80))
    check_agreement(path, mels, directory / CONFIG, bins)


def _vocabulary(
    directory: Path, config: Mapping[str, Any], blank_token: str | None
) -> tuple[tuple[str, ...], dict[int, str | None]]:
    """Return the text of each id, and the language codes of ids that are language tags."""
    path = directory / "tokenizer.json"
    table = read_json_table(path, _Tokenizer)
    if not table:
        raise ModelNotFoundError(f"{directory} contains no {path.name}; pull the model again")
    vocabulary = table["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    pieces = {number: piece.replace(WORD_SPACE, " ") for piece, number in vocabulary.items()}
    tags = {number: LANGUAGE_TAG.fullmatch(piece) for number, piece in pieces.items()}
    added = {token["content"]: token["id"] for token in table.get("added_tokens", ())}
    moved = next((each for each, n in added.items() if vocabulary.get(each, n) != n), None)
    pieces |= {token["id"]: "" for token in table.get("added_tokens", ()) if token.get("special")}
    languages = {number: code_of(tag[1]) for number, tag in tags.items() if tag}
    size, blank = config["vocab_size"], config["blank_token_id"]
    missing = next((n for n in range(size) if n not in pieces and n != blank), None)
    highest = max((n for n, piece in pieces.items() if piece), default=0)
    fault = ""
    if missing is not None:
        fault = f", but the tokenizer lacks the id {missing}"
    elif highest >= size:
        fault = f", but the tokenizer has the id {highest}"
    elif pieces.get(blank):
        fault = f", but the tokenizer has the text {pieces[blank]!r} for that id"
    elif added.get(blank_token or "", blank) != blank:
        fault = f", but the tokenizer has the id {added[blank_token or '']} for {blank_token}"
    elif moved is not None:  # in a shifted vocabulary, each id has the text of another
        ids = f"{vocabulary[moved]} and {added[moved]}"
        fault = f", but the tokenizer has the ids {ids} for {moved}"
    if fault or blank >= size:
        raise ModelNotFoundError(
            f"{path} does not fit the model: config.json has vocab_size={size} and "
            f"blank_token_id={blank}{fault}; pull the model again"
        )
    ordered = ("" if n == blank or n in languages else pieces[n] for n in range(size))
    return tuple(ordered), languages


def _prompts(
    path: Path, config: Mapping[str, Any], dictionary: Mapping[str, int]
) -> dict[str, int]:
    """Return the prompt of each language code: its own, or else that of its first locale."""
    if config["model_type"] != MODEL_TYPES[0]:
        return {}
    count = config.get("num_prompts", 128)
    outside = next((locale for locale, number in dictionary.items() if number >= count), None)
    if AUTOMATIC not in dictionary or outside is not None:
        fault = f"the number for {outside} is not below {count}" if outside else "auto is missing"
        raise ModelNotFoundError(
            f"the prompt_dictionary in {path} is invalid: {fault}; pull the model again"
        )
    prompts = {AUTOMATIC: dictionary[AUTOMATIC]}
    for code in LANGUAGES:
        locales = (code, *(locale for locale in dictionary if locale.startswith(f"{code}-")))
        number = next((dictionary[locale] for locale in locales if locale in dictionary), None)
        if number is not None:
            prompts[code] = number
    return prompts
