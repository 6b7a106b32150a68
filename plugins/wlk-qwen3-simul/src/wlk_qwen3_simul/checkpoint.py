"""The settings that a checkpoint declares in wlk.json and config.json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from msgspec import Meta, Struct

from wlk_core.models import read_json_table
from wlk_core.plugins import ModelNotFoundError, OptionError
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
_Language = Annotated[str, Meta(pattern=f"^({'|'.join(LANGUAGES)})$")]


class _Settings(Struct):
    languages: Annotated[list[_Language], Meta(min_length=1)] | None = None
    compute_type: Literal["auto", "float32", "float16", "bfloat16"] | None = None
    buffer_seconds: Annotated[float, Meta(ge=MIN_SECONDS, le=MAX_SECONDS)] | None = None


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
        table = read_json_table(directory / MANIFEST, _Settings)
        languages = table.get("languages")
        return cls(
            name=name,
            languages=None if languages is None else tuple(languages),
            compute_type=table.get("compute_type") or "auto",
            buffer_seconds=float(table.get("buffer_seconds") or BUFFER_SECONDS),
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
