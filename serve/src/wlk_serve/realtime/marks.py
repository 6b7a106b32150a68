"""Marks of a Realtime session: what was decoded up to a place that the client chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_serve.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.session.events import Marked
    from wlk_core.tokens import ASRToken
    from wlk_serve.sessions.protocol import Message

__all__ = ["MARK", "Marks", "check_name"]

MARK = "wlk.mark"  # the client's event
_MAX_ID_CHARACTERS = 200


def check_name(name: object) -> None:
    """Raise RequestError unless *name* can be the `id` of a mark: a string that is not too long."""
    if not isinstance(name, str) or len(name) > _MAX_ID_CHARACTERS:
        expected = f"as a string of up to {_MAX_ID_CHARACTERS} characters"
        raise invalid("id", expected, code="invalid_type")


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

    def marked(self, event: Marked) -> Message:
        """Return the answer to a mark."""
        tokens, self._tokens = self._tokens, []
        return {
            "type": "wlk.marked",
            "id": event.name,
            "tokens": [_record(token) for token in tokens],
            "hypothesis": [_record(token) for token in event.transcript.tokens],
            "processed_up_to": event.processed_up_to,
            "stable_up_to": event.stable_up_to,
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
