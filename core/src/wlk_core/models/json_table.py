"""The JSON files that lie beside a model's weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_json_table"]


def read_json_table(path: Path) -> dict[str, Any]:
    """
    Return the table in a JSON file of a model; an empty one if there is no file or no table.

    Raises:
        ModelNotFoundError: the file is damaged or cannot be read.

    """
    if not path.is_file():
        return {}
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deep"
        raise ModelNotFoundError(f"{path} is damaged: {reason}; pull the model again") from error
    except OSError as error:
        raise ModelNotFoundError(
            f"{path} cannot be read: {error.strerror or error}; pull the model again"
        ) from error
    return table if isinstance(table, dict) else {}
