"""The generation_config.json of a checkpoint: alignment heads and suppressed first tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import attrs

from wlk_core.models import read_json_table
from wlk_core.plugins import ModelNotFoundError

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
        table = read_json_table(path)
        heads, tokens = table.get("alignment_heads"), table.get("begin_suppress_tokens")
        are_pairs = heads is None or (
            isinstance(heads, list) and all(_are_numbers(pair) and len(pair) == 2 for pair in heads)  # noqa: PLR2004 -- layer and head
        )
        if not are_pairs or not (tokens is None or _are_numbers(tokens)):
            raise ModelNotFoundError(
                f"{path} is invalid: expected alignment_heads as a list of [layer, head] and "
                "begin_suppress_tokens as a list of numbers, or neither; "
                "pull or convert the model again"
            )
        return cls(
            alignment_heads=None if heads is None else tuple((int(a), int(b)) for a, b in heads),
            begin_suppress_tokens=None if tokens is None else tuple(tokens),
        )


def _are_numbers(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int for value in values)
