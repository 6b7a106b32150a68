"""The settings that a checkpoint declares in wlk.json and config.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.plugins import ModelNotFoundError, OptionError, read_json_table
from wlk_qwen3_simul.engine.frames import SECOND_MEL_FRAMES
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.models import DIGITS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BUNDLED", "Checkpoint", "check_windows", "ties_head"]

BUNDLED = {DIGITS: Path(__file__).parent / "digits"}
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
            ModelNotFoundError: wlk.json is damaged, or has an invalid value.

        """
        path = directory / MANIFEST
        if not path.is_file():
            return cls(name=name)
        table = read_json_table(path)
        if not table:
            raise _invalid(path, "expected a table of settings")
        return cls(
            name=name,
            languages=_languages(table.get("languages"), path),
            compute_type=_compute_type(table.get("compute_type", "auto"), path),
            buffer_seconds=_seconds(table.get("buffer_seconds", BUFFER_SECONDS), path),
        )

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


def check_windows(half: Any, window: Any, path: Path) -> None:
    """
    Check the windows of the encoder: *half* a second, and *window* of whole seconds, in mel frames.

    Raises:
        ModelNotFoundError: the config.json at *path* declares others.

    """
    is_second = isinstance(half, int) and 2 * half == SECOND_MEL_FRAMES
    if not is_second or not isinstance(window, int) or window % SECOND_MEL_FRAMES or window <= 0:
        raise ModelNotFoundError(
            f"{path} does not describe a Qwen3-ASR: expected n_window={SECOND_MEL_FRAMES // 2} and "
            f"n_window_infer as a multiple of {SECOND_MEL_FRAMES}, as in the published models, got "
            f"{half!r} and {window!r}; pull the model again"
        )


def _languages(value: Any, path: Path) -> tuple[str, ...] | None:
    if value is None:
        return None
    codes = value if isinstance(value, list) else []
    if not codes or not all(isinstance(code, str) and code in LANGUAGES for code in codes):
        raise _invalid(path, f"expected languages as a list of codes such as 'en', got {value!r}")
    return tuple(codes)


def _compute_type(value: Any, path: Path) -> str:
    if value not in COMPUTE_TYPES:
        choices = ", ".join(COMPUTE_TYPES)
        raise _invalid(path, f"expected compute_type as one of {choices}, got {value!r}")
    return str(value)


def _seconds(value: Any, path: Path) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not MIN_SECONDS <= value <= MAX_SECONDS:
        limits = f"from {MIN_SECONDS:g} to {MAX_SECONDS:g}"
        raise _invalid(path, f"expected buffer_seconds {limits}, got {value!r}")
    return float(value)


def _invalid(path: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"{path} has an invalid setting: {reason}; pull the model again")
