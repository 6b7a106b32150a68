"""Faults of the hypothesis that begin late: its words, their order and their spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from faulty_backends.base import CountedStream, violates
from wlk_core import Transcript

if TYPE_CHECKING:
    from wlk_core import ASRToken

__all__: list[str] = []


class _EditedHypothesis(CountedStream):
    """A stream whose hypothesis is edited once `is_due`."""

    @property
    def is_due(self) -> bool:
        """Whether the fault has begun."""
        return self.words >= 6

    def edited(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Return *tokens* with the fault."""
        return tokens

    def get_buffer(self) -> Transcript:
        """Edit it."""
        shown: Transcript = self.stream.get_buffer()
        return Transcript(self.edited(shown.tokens)) if self.is_due and shown.tokens else shown


@violates("HYP-02", detector="sessions")
class HypothesisDropsFirstWord(_EditedHypothesis):
    """Shows the hypothesis without its first word, once six words are committed."""

    def edited(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Drop it."""
        return tokens[1:]


@violates("HYP-02", detector="sessions")
class HypothesisHasOtherWords(_EditedHypothesis):
    """Shows a word that was not spoken for every word, from the third pause on."""

    @property
    def is_due(self) -> bool:
        """Whether there were three pauses."""
        return self.silences >= 3

    def edited(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Replace them."""
        return tuple(attrs.evolve(token, text=" thanks") for token in tokens)


@violates("HYP-02", detector="sessions")
class HypothesisRepeatsItsLastWord(_EditedHypothesis):
    """Shows the newest word twice, once six words are committed."""

    def edited(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Repeat it."""
        newest = tokens[-1]
        again = attrs.evolve(newest, text=f" {newest.text.strip()}", start=newest.end)
        return (*tokens, again)


@violates("COM-03", detector="sessions")
class HypothesisLosesItsSpace(_EditedHypothesis):
    """Shows the first word without the space before it, once six words are committed."""

    def edited(self, tokens: tuple[ASRToken, ...]) -> tuple[ASRToken, ...]:
        """Strip it."""
        return (attrs.evolve(tokens[0], text=tokens[0].text.lstrip()), *tokens[1:])
