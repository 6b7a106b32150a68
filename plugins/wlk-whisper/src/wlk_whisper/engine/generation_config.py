"""The generation_config.json of a checkpoint: alignment heads and suppressed first tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GenerationConfig"]

FILE_NAME = "generation_config.json"


@attrs.frozen(kw_only=True)
class GenerationConfig:
    """
    The entries of generation_config.json that decoding uses; None where the file has none.

    transformers writes the file for every model, and converters to other formats often copy it.
    """

    alignment_heads: tuple[tuple[int, int], ...] | None = None
    begin_suppress_tokens: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path) -> GenerationConfig:
        """
        Return the generation config in *directory*, empty where there is no file.

        Raises:
            ModelNotFoundError: the file exists and is invalid.

        """
        path = directory / FILE_NAME
        if not path.is_file():
            return cls()
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            heads, tokens = table.get("alignment_heads"), table.get("begin_suppress_tokens")
            return cls(
                alignment_heads=None if heads is None else tuple(_pair(pair) for pair in heads),
                begin_suppress_tokens=None if tokens is None else tuple(map(int, tokens)),
            )
        except (AttributeError, OSError, TypeError, ValueError) as error:
            raise ModelNotFoundError(
                f"{path} cannot be read: expected alignment_heads as a list of [layer, head] and "
                f"begin_suppress_tokens as a list of numbers, or neither ({error}); "
                "pull or convert the model again"
            ) from error


def _pair(pair: Any) -> tuple[int, int]:
    layer, head = pair
    return int(layer), int(head)
