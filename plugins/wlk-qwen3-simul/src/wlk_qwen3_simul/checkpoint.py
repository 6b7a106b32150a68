"""What a directory of model files says about itself, beyond its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from wlk_core import OptionError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoint"]

MANIFEST = "wlk.json"
BUFFER_SECONDS = 12.0  # one whole window of context and an open one


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
        """Return what *directory* says; nothing is required of it."""
        place = directory / MANIFEST
        if not place.is_file():
            return cls(name=name)
        told = json.loads(place.read_text(encoding="utf-8"))
        return cls(
            name=name,
            languages=tuple(told["languages"]) if "languages" in told else None,
            compute_type=told.get("compute_type", "auto"),
            buffer_seconds=told.get("buffer_seconds", BUFFER_SECONDS),
        )

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
