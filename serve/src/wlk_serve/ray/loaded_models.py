"""The models that a replica reports, and how well it suits a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LoadedModels", "model_rank"]


@attrs.frozen(kw_only=True)
class LoadedModels:
    """
    The models of one replica, and its places.

    Attributes:
        default: name of the model of clients that name none.
        names: of the models that are loaded or being loaded.
        has_room: whether it could load another one now.
        max_sessions: sockets and requests that it takes at a time.

    """

    default: str
    names: tuple[str, ...]
    has_room: bool
    max_sessions: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LoadedModels | None:
        """Return what `to_json` made, None for a replica that has not reported yet."""
        if not record:
            return None
        return cls(**{**record, "names": tuple(record["names"])})


def model_rank(loaded: LoadedModels | None, model: str | None, *, requests: int) -> int:
    """
    Return how well a replica with a number of *requests* suits a session of *model*, 0 the best.

    First come replicas with the model, then those that can load it, then those that could not when
    they reported last or that did not report yet, and at the end those without a place.
    """
    if loaded is None:
        return 2
    if requests >= loaded.max_sessions:
        return 3
    if (model or loaded.default) in loaded.names:
        return 0
    return 1 if loaded.has_room else 2
