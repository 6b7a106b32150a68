"""The generation_config.json of a checkpoint: alignment heads and suppressed first tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from msgspec import Struct

from wlk_core.models import Index, read_json_table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["GenerationConfig"]

FILE_NAME = "generation_config.json"


class _Settings(Struct):
    alignment_heads: list[tuple[Index, Index]] | None = None  # [layer, head], both from 0
    begin_suppress_tokens: list[Index] | None = None


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
        table = read_json_table(directory / FILE_NAME, _Settings)
        heads, tokens = table.get("alignment_heads"), table.get("begin_suppress_tokens")
        return cls(
            alignment_heads=None if heads is None else tuple((a, b) for a, b in heads),
            begin_suppress_tokens=None if tokens is None else tuple(tokens),
        )
