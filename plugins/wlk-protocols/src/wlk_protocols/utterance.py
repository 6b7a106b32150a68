"""The text of an utterance as it grows, for protocols that send interim and final texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_live.session import Commit, Endpoint, HypothesisChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.tokens import ASRToken
    from wlk_live.session import Event
    from wlk_serve.protocols import SegmentEnd


def text_of(tokens: Iterable[ASRToken]) -> str:
    """Return the text of *tokens* without surrounding white space."""
    return "".join(token.text for token in tokens).strip()


@attrs.define
class Utterance:
    """The words of the current utterance of one speaker."""

    _words: list[ASRToken] = attrs.field(init=False, factory=list)  # committed
    _shown: str = attrs.field(init=False, default="")  # the last interim text

    def apply(self, event: Event | SegmentEnd) -> tuple[str, Sequence[ASRToken]] | None:
        """Return "interim" or "final" and the words, if *event* changes the text or ends it."""
        match event:
            case Commit(tokens=tokens):
                self._words += tokens
                words = [*self._words]
            case HypothesisChange(transcript=transcript):
                words = [*self._words, *transcript.tokens]
            case Endpoint() if self._words:
                words, self._words, self._shown = self._words, [], ""
                return "final", words
            case _:
                return None
        text = text_of(words)
        if text in {"", self._shown}:
            return None
        self._shown = text
        return "interim", words
