"""What a checkpoint directory says about itself beyond its weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from wlk_core import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer as Vocabulary

__all__ = ["BUNDLED", "Checkpoint"]

MANIFEST = "wlk.json"
BUFFER_SECONDS = 12.0  # context enough; longer buffers cost more and help little

#: Directory names of the bundled digits checkpoint, by engine.
BUNDLED = {
    "faster-whisper": "digits/ctranslate2",
    "mlx-whisper": "digits/mlx",
    "whisper": "digits/transformers",
}


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    Limits and wishes of a checkpoint.

    A directory, or its parent, may hold a ``wlk.json`` that names the languages and tasks the
    checkpoint was trained for, the compute type it wants, whether it was trained on shorter input
    than 30 s, and the length of buffer it hears best.  Other checkpoints have no limits of their
    own.
    """

    name: str
    languages: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    compute_type: str = "default"
    takes_shorter_input: bool = False
    buffer_seconds: float = BUFFER_SECONDS

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """Return what *directory* says; nothing is required of it."""
        for place in (directory / MANIFEST, directory.parent / MANIFEST):
            if place.is_file():
                told = json.loads(place.read_text(encoding="utf-8"))
                return cls(
                    name=name,
                    languages=tuple(told["languages"]) if "languages" in told else None,
                    tasks=tuple(told["tasks"]) if "tasks" in told else None,
                    compute_type=told.get("compute_type", "default"),
                    takes_shorter_input=told.get("shorter_input", False),
                    buffer_seconds=told.get("buffer_seconds", BUFFER_SECONDS),
                )
        return cls(name=name)

    def check(
        self, *, language: str | None, task: str, is_multilingual: bool, vocabulary: Vocabulary
    ) -> None:
        """
        Check what a stream asks of this checkpoint.

        Raises:
            OptionError: a language or task the checkpoint was not trained for.

        """
        languages = self.languages if is_multilingual else ("en",)
        tasks = self.tasks if is_multilingual else ("transcribe",)
        if language is not None and languages is not None and language not in languages:
            raise OptionError(
                f"the model {self.name} hears {', '.join(languages)} only, not {language!r}; "
                "choose another model or leave the language out"
            )
        # Without a token for it (yue, before large-v3) the decoder would not be told.
        is_told = language is not None and is_multilingual
        if is_told and vocabulary.token_to_id(f"<|{language}|>") is None:
            raise OptionError(
                f"the model {self.name} has no token for the language {language!r}; "
                "choose another model or leave the language out"
            )
        if tasks is not None and task not in tasks:
            raise OptionError(
                f"the model {self.name} was trained to {' and '.join(tasks)} only; "
                f"choose a multilingual model to {task}"
            )
