"""What the directory of a checkpoint declares about its streams: tekken.json and wlk.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.errors import ModelNotFoundError, OptionError
from wlk_core.models import read_json_table
from wlk_voxtral.tokenizer import TekkenTokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.streaming import LogMel

__all__ = ["CheckpointSettings"]

TOKENIZER_FILE = "tekken.json"
SETTINGS_FILE = "wlk.json"


@attrs.frozen(kw_only=True, eq=False)
class CheckpointSettings:
    """
    What streams need of a checkpoint beside its weights.

    Attributes:
        name: the model as users call it, for error messages.
        tokenizer: its tokenizer, which declares the layout of its streams.
        log_mel: the features its encoder takes.
        dtype: the name of the arithmetic it was made for; None where it does not declare it.
        delays_ms: the delays it was trained for; None for every delay of the format.

    """

    name: str
    tokenizer: TekkenTokenizer
    log_mel: LogMel
    dtype: str | None = None
    delays_ms: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path, *, name: str, log_mel: LogMel) -> CheckpointSettings:
        """
        Read tekken.json, and `dtype` and `delays_ms` of a wlk.json where there is one.

        Raises:
            ModelNotFoundError: tekken.json is missing or belongs to another model, or a file is
                damaged.

        """
        file = directory / TOKENIZER_FILE
        if not file.is_file():
            raise ModelNotFoundError(
                f"{directory} contains no {TOKENIZER_FILE}, the tokenizer of Voxtral Realtime; "
                "pull the model again, or copy the file from where it was published"
            )
        try:
            tokenizer = TekkenTokenizer.from_json(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelNotFoundError(
                f"{file} is not a tokenizer of Voxtral Realtime: {error}; pull the model again"
            ) from error
        settings = read_json_table(directory / SETTINGS_FILE)
        return cls(
            name=name,
            tokenizer=tokenizer,
            log_mel=log_mel,
            dtype=settings.get("dtype"),
            delays_ms=tuple(settings["delays_ms"]) if "delays_ms" in settings else None,
        )

    def delay_steps(self, delay_ms: int | None) -> int:
        """
        Return the delay of a stream in steps, the checkpoint's own for None.

        Raises:
            OptionError: the format, or this checkpoint, has no such delay.

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
