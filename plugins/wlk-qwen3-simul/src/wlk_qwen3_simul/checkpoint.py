"""What a directory of model files says about itself, beyond its weights."""

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
LEAST_SECONDS, MOST_SECONDS = 8.0, 25.0  # of a buffer: a window, and what the core's bound leaves
COMPUTE_TYPES = ("auto", "float32", "float16", "bfloat16")


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    Limits and wishes of a checkpoint.

    A directory may hold a ``wlk.json`` that names the languages the checkpoint was trained for, the
    compute type it wants, and the length of buffer it hears best.  Other checkpoints have no
    limits of their own.
    """

    name: str
    languages: tuple[str, ...] | None = None
    compute_type: str = "auto"
    buffer_seconds: float = BUFFER_SECONDS

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """
        Return what *directory* says; nothing is required of it.

        Raises:
            ModelNotFoundError: it says what cannot be understood, or kept to.

        """
        place = directory / MANIFEST
        if not place.is_file():
            return cls(name=name)
        try:
            told = json.loads(place.read_text(encoding="utf-8"))
            return cls(
                name=name,
                languages=_languages(told["languages"]) if "languages" in told else None,
                compute_type=_compute_type(told.get("compute_type", "auto")),
                buffer_seconds=_seconds(told.get("buffer_seconds", BUFFER_SECONDS)),
            )
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ModelNotFoundError(
                f"{place} cannot be read: {' '.join(str(error).split())}; pull the model again"
            ) from error

    def check_language(self, language: str | None) -> None:
        """
        Check what a stream asks of this checkpoint.

        Raises:
            OptionError: a language the checkpoint was not trained for.

        """
        if language is None or self.languages is None or language in self.languages:
            return
        raise OptionError(
            f"the model {self.name} hears {', '.join(self.languages)} only, not {language!r}; "
            "choose another model or leave the language out"
        )


def ties_head(told: Mapping[str, Any]) -> bool:
    """Tell whether a config.json in the original layout says that the head is the embedding."""
    thinker = told["thinker_config"]
    for part in (thinker.get("text_config", {}), thinker, told):
        if "tie_word_embeddings" in part:
            return bool(part["tie_word_embeddings"])
    return True  # as the published ones are


def _languages(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not told or not all(one in LANGUAGES for one in told):
        raise ValueError(f"expected languages as a list of codes such as 'en', got {told!r}")
    return tuple(told)


def _compute_type(told: Any) -> str:
    if told not in COMPUTE_TYPES:
        choices = ", ".join(COMPUTE_TYPES)
        raise ValueError(f"expected compute_type as one of {choices}, got {told!r}")
    return str(told)


def _seconds(told: Any) -> float:
    is_number = isinstance(told, (int, float)) and not isinstance(told, bool)
    if not is_number or not LEAST_SECONDS <= told <= MOST_SECONDS:
        raise ValueError(
            f"expected buffer_seconds from {LEAST_SECONDS:g} to {MOST_SECONDS:g}, got {told!r}"
        )
    return float(told)
