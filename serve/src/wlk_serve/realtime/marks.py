"""Marks of a Realtime session: what was decoded up to a place that the client chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.session.events import Marked
    from wlk_core.tokens import ASRToken

__all__ = ["MARK", "MARKS", "Marks", "check_name"]

Message: TypeAlias = "dict[str, Any]"
MARKS = "wlk.marks"  # in `include`
MARK = "wlk.mark"  # the client's event
_MOST_NAME_CHARACTERS = 200


def check_name(name: object) -> str:
    """
    Return the `id` of a mark.

    Raises:
        RequestError: no text, or a long one.

    """
    if not isinstance(name, str) or len(name) > _MOST_NAME_CHARACTERS:
        raise RequestError(
            f"expected `id` as a text of up to {_MOST_NAME_CHARACTERS} characters",
            code="invalid_type",
            param="id",
        )
    return name


class Marks:
    """
    Collects the tokens between two marks; times are exact, not rounded as in `words`.

    Nothing is collected unless `is_enabled`, because a client without marks would never take it.
    """

    def __init__(self) -> None:
        self.is_enabled = False
        self._tokens: list[ASRToken] = []

    def extend(self, tokens: Iterable[ASRToken]) -> None:
        """Collect committed tokens on the clock of the session."""
        if self.is_enabled:
            self._tokens += tokens

    def marked(self, event: Marked, hypothesis: Iterable[ASRToken], offset: float) -> Message:
        """Return the answer to a mark, of a stream that begins at *offset* seconds."""
        tokens, self._tokens = self._tokens, []
        return {
            "type": "wlk.marked",
            "id": event.name,
            "tokens": [_record(token) for token in tokens],
            "hypothesis": [_record(token) for token in hypothesis],
            "processed_up_to": event.processed_up_to + offset,
            "stable_up_to": event.stable_up_to + offset,
            "stats": attrs.asdict(event.stats),
        }


def _record(token: ASRToken) -> Message:
    return {
        "start": token.start,
        "end": token.end,
        "text": token.text,
        "probability": token.probability,
        "speaker": token.speaker,
        "language": token.detected_language,
    }
