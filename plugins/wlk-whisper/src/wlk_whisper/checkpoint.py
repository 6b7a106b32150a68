"""The settings that a checkpoint declares in its wlk.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from wlk_core import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer as HfTokenizer

__all__ = ["BUNDLED_DIRECTORIES", "Checkpoint"]

FILE_NAME = "wlk.json"
BUFFER_SECONDS = 12.0  # enough context; longer buffers cost more and improve little

#: Directories of the bundled digits checkpoint, by backend.
BUNDLED_DIRECTORIES = {
    "faster-whisper": "digits/ctranslate2",
    "mlx-whisper": "digits/mlx",
    "whisper": "digits/transformers",
}


@attrs.frozen(kw_only=True)
class Checkpoint:
    """
    Limits and defaults of a checkpoint.

    A directory, or its parent, may contain a ``wlk.json`` with the languages and tasks the
    checkpoint was trained for, its compute type, whether it was trained on windows shorter than
    30 s, and the buffer length of its best accuracy.  Without that file a checkpoint has no limits.
    """

    name: str
    languages: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    compute_type: str = "default"
    takes_shorter_input: bool = False
    buffer_seconds: float = BUFFER_SECONDS

    @classmethod
    def read(cls, directory: Path, *, name: str) -> Checkpoint:
        """Return the settings of *directory*, the defaults where it has no wlk.json."""
        for path in (directory / FILE_NAME, directory.parent / FILE_NAME):
            if path.is_file():
                settings = json.loads(path.read_text(encoding="utf-8"))
                return cls(
                    name=name,
                    languages=tuple(settings["languages"]) if "languages" in settings else None,
                    tasks=tuple(settings["tasks"]) if "tasks" in settings else None,
                    compute_type=settings.get("compute_type", "default"),
                    takes_shorter_input=settings.get("shorter_input", False),
                    buffer_seconds=settings.get("buffer_seconds", BUFFER_SECONDS),
                )
        return cls(name=name)

    def check(
        self, *, language: str | None, task: str, is_multilingual: bool, hf_tokenizer: HfTokenizer
    ) -> None:
        """
        Check that this checkpoint can decode a language and a task.

        Raises:
            OptionError: the checkpoint was not trained for the language or the task.

        """
        languages = self.languages if is_multilingual else ("en",)
        tasks = self.tasks if is_multilingual else ("transcribe",)
        if language is not None and languages is not None and language not in languages:
            raise OptionError(
                f"the model {self.name} recognises {', '.join(languages)} only, not {language!r}; "
                "choose another model or leave the language out"
            )
        # Without a token (yue, before large-v3) the language cannot be forced on the decoder.
        is_forced = language is not None and is_multilingual
        if is_forced and hf_tokenizer.token_to_id(f"<|{language}|>") is None:
            raise OptionError(
                f"the model {self.name} has no token for the language {language!r}; "
                "choose another model or leave the language out"
            )
        if tasks is not None and task not in tasks:
            raise OptionError(
                f"the model {self.name} was trained to {' and '.join(tasks)} only; "
                f"choose a multilingual model to {task}"
            )
