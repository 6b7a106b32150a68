"""What a generation_config.json beside the weights says about decoding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Generation"]

NAME = "generation_config.json"


@attrs.frozen(kw_only=True)
class Generation:
    """
    The alignment heads and the tokens no text begins with; None where nothing is said.

    transformers writes the file for every model, converters to other formats often keep it.
    """

    heads: tuple[tuple[int, int], ...] | None = None
    begin_suppressed: tuple[int, ...] | None = None

    @classmethod
    def read(cls, directory: Path) -> Generation:
        """
        Return what *directory* says; nothing is required of it.

        Raises:
            ModelNotFoundError: the file is there and cannot be read.

        """
        path = directory / NAME
        if not path.is_file():
            return cls()
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            heads, tokens = told.get("alignment_heads"), told.get("begin_suppress_tokens")
            return cls(
                heads=None if heads is None else tuple(_pair(pair) for pair in heads),
                begin_suppressed=None if tokens is None else tuple(int(token) for token in tokens),
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
