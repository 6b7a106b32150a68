"""The settings that a checkpoint declares in wlk.json, and what its config.json ties."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import ModelNotFoundError, OptionError
from wlk_qwen3_simul.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Checkpoint", "ties_head"]

MANIFEST = "wlk.json"
BUFFER_SECONDS = 12.0  # one whole window of context and an open one
MIN_SECONDS, MAX_SECONDS = 8.0, 25.0  # of a buffer: one window, and what the core's bound leaves
COMPUTE_TYPES = ("auto", "float32", "float16", "bfloat16")


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    Languages and defaults of a checkpoint.

    A directory may hold a ``wlk.json`` with the languages that the checkpoint was trained for, its
    compute type, and its best buffer length.  Other checkpoints have no limits of their own.
    """

    name: str
    languages: tuple[str, ...] | None = None
    compute_type: str = "auto"
    buffer_seconds: float = BUFFER_SECONDS

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """
        Return the settings in *directory*; every one of them is optional.

        Raises:
            ModelNotFoundError: wlk.json cannot be read, or has an invalid value.

        """
        path = directory / MANIFEST
        if not path.is_file():
            return cls(name=name)
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                name=name,
                languages=_languages(table["languages"]) if "languages" in table else None,
                compute_type=_compute_type(table.get("compute_type", "auto")),
                buffer_seconds=_seconds(table.get("buffer_seconds", BUFFER_SECONDS)),
            )
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ModelNotFoundError(
                f"{path} cannot be read: {' '.join(str(error).split())}; pull the model again"
            ) from error

    def check_language(self, language: str | None) -> None:
        """
        Check that the checkpoint was trained for *language*.

        Raises:
            OptionError: it was not.

        """
        if language is None or self.languages is None or language in self.languages:
            return
        raise OptionError(
            f"the model {self.name} recognises {', '.join(self.languages)} only, not {language!r}; "
            "choose another model or leave the language out"
        )


def ties_head(config: Mapping[str, Any]) -> bool:
    """Return whether *config*, in the original layout, makes the embedding the output head."""
    thinker = config["thinker_config"]
    for part in (thinker.get("text_config", {}), thinker, config):
        if "tie_word_embeddings" in part:
            return bool(part["tie_word_embeddings"])
    return True  # as in the published models


def _languages(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(code in LANGUAGES for code in value):
        raise ValueError(f"expected languages as a list of codes such as 'en', got {value!r}")
    return tuple(value)


def _compute_type(value: Any) -> str:
    if value not in COMPUTE_TYPES:
        choices = ", ".join(COMPUTE_TYPES)
        raise ValueError(f"expected compute_type as one of {choices}, got {value!r}")
    return str(value)


def _seconds(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not MIN_SECONDS <= value <= MAX_SECONDS:
        raise ValueError(
            f"expected buffer_seconds from {MIN_SECONDS:g} to {MAX_SECONDS:g}, got {value!r}"
        )
    return float(value)
