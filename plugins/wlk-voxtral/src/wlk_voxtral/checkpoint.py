"""Read what a checkpoint declares about its streams in tekken.json and wlk.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import attrs
from msgspec import Meta, Struct

from wlk_core.errors import ModelNotFoundError, OptionError
from wlk_frameworks.checkpoints import Index, Size, check_agreement, read_json_table
from wlk_voxtral.tokenizer import TekkenTokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_frameworks.features import LogMel

TOKENIZER_FILE = "tekken.json"
CONFIG_FILE = "wlk.json"


class _Config(Struct):
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    delays_ms: Annotated[list[Size], Meta(min_length=1)] | None = None


@attrs.frozen(kw_only=True, eq=False)
class CheckpointConfig:
    """
    What streams need to know of a checkpoint besides its weights.

    Attributes:
        name: the model as users call it, for error messages.
        tokenizer: its tokenizer, which declares the layout of its streams.
        log_mel: computes the features that its encoder takes.
        dtype: the name of the number format it is meant for; None if it declares none.
        delays_ms: the delays it was trained for; None for every delay of the format.

    """

    name: str
    tokenizer: TekkenTokenizer
    log_mel: LogMel
    dtype: str | None = None
    delays_ms: tuple[int, ...] | None = None

    @classmethod
    def read(
        cls, directory: Path, *, name: str, log_mel: LogMel, config_file: Path
    ) -> CheckpointConfig:
        """
        Read tekken.json and, if there is one, wlk.json; *log_mel* is that of *config_file*.

        Raises:
            ModelNotFoundError: tekken.json is missing or belongs to another model, or a file is
                damaged.

        """
        file = directory / TOKENIZER_FILE
        content = read_json_table(file)
        if not file.exists():
            raise ModelNotFoundError(
                f"{directory} contains no {TOKENIZER_FILE}, the tokenizer of Voxtral Realtime; "
                "pull the model again, or copy the file from where it was published"
            )
        try:
            tokenizer = TekkenTokenizer.from_table(content)
        except ValueError as error:
            raise ModelNotFoundError(
                f"{file} is not a tokenizer of Voxtral Realtime: {error}; pull the model again"
            ) from error
        bins = ("audio.audio_encoding_config.num_mel_bins", tokenizer.mels)
        check_agreement(file, bins, config_file, ("num_mel_bins", log_mel.mels))
        _check_ids(directory, tokenizer)
        config = read_json_table(directory / CONFIG_FILE, _Config)
        delays_ms = config.get("delays_ms")
        return cls(
            name=name,
            tokenizer=tokenizer,
            log_mel=log_mel,
            dtype=config.get("dtype"),
            delays_ms=None if delays_ms is None else tuple(delays_ms),
        )

    def require_vocabulary(self, rows: int, *, file: Path) -> None:
        """
        Check that the model, with *rows* in its embedding, has every id of the tokenizer.

        Raises:
            ModelNotFoundError: an id has no row; the message names *file*, the config of the model.

        """
        tokens = self.tokenizer
        last = tokens.specials + len(tokens.pieces) - 1
        highest = max(tokens.bos_id, tokens.eos_id, tokens.pad_id, tokens.word_id, last)
        if highest >= rows:
            raise ModelNotFoundError(
                f"{file} does not fit the tokenizer: it has a vocabulary of {rows} rows, but "
                f"{TOKENIZER_FILE} has the id {highest}; pull the model again"
            )

    def delay_steps(self, delay_ms: int | None) -> int:
        """
        Return *delay_ms* in steps; None stands for the checkpoint's own delay.

        Raises:
            OptionError: the format or this checkpoint does not support the delay.

        """
        if delay_ms is None:
            return self.tokenizer.delay_steps
        if self.delays_ms is not None and delay_ms not in self.delays_ms:
            trained = ", ".join(map(str, self.delays_ms))
            raise OptionError(
                f"the model {self.name} was trained for a delay_ms of {trained}, got {delay_ms}"
            )
        try:
            return self.tokenizer.steps_of(delay_ms)
        except ValueError as error:
            raise OptionError(f"delay_ms: {error}") from error


class _Ids(Struct):
    bos_token_id: Index | None = None
    eos_token_id: Index | list[Index] | None = None


class _ModelIds(_Ids):
    text_config: _Ids | None = None


def _check_ids(directory: Path, tokenizer: TekkenTokenizer) -> None:
    """Check the ids that the configs of transformers name, if they do, against the tokenizer's."""
    for name in ("config.json", "generation_config.json"):
        table = read_json_table(directory / name, _ModelIds)
        for ids in (table, table.get("text_config") or {}):
            ends = ids.get("eos_token_id")
            claims = {"bos_token_id": (ids.get("bos_token_id"), tokenizer.bos_id)}
            if not isinstance(ends, list):
                claims["eos_token_id"] = (ends, tokenizer.eos_id)
            for key, (value, expected) in claims.items():
                text = "<s>" if key == "bos_token_id" else "</s>"
                check_agreement(
                    directory / TOKENIZER_FILE, (text, expected), directory / name, (key, value)
                )
