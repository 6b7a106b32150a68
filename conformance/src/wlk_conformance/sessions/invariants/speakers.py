"""Speakers: tokens after a turn carry the new speaker, tokens before it the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.sessions.violation import Violation
from wlk_core import EPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core import ASRToken, ChangeSpeaker, Emission

__all__ = ["Speakers"]

Speaker = int | str | None


class Speakers:
    """The turns of a stream, in the order of the calls."""

    def __init__(self, *, is_reset: bool) -> None:
        self._is_reset = is_reset
        self._turns: list[ChangeSpeaker] = []

    def turn(self, change: ChangeSpeaker) -> None:
        """Note a turn; its own call already returns tokens by it."""
        self._turns.append(change)

    def take(self, emission: Emission, call: str) -> Iterator[Violation]:
        """Check the speakers of the tokens of *emission*."""
        for token in emission.committed:
            allowed = self._allowed(token)
            if not any(_is_same(token.speaker, speaker) for speaker in allowed):
                yield Violation(
                    "LIFE-06" if self._is_reset and not self._turns else "SPK-02",
                    f"{call}: {token.text!r} at {token.start:.3f} s is by speaker "
                    f"{token.speaker!r}, expected {' or '.join(map(repr, allowed))}; turns: "
                    + ", ".join(
                        f"{turn.speaker!r} from {turn.start:.3f} s" for turn in self._turns
                    ),
                )
                return

    def _allowed(self, token: ASRToken) -> list[Speaker]:
        """
        Return the speakers that a token may have.

        Either side of a turn is accepted within EPS.  The contract leaves open whether a turn that
        is called later cancels one that starts later, so that both readings are accepted.
        """
        allowed: list[Speaker] = []
        for time in (token.start, token.start - EPS, token.start + EPS):
            by_call: Speaker = None
            for turn in self._turns:
                by_call = turn.speaker if turn.start <= time else by_call
            in_time = sorted(
                (turn for turn in self._turns if turn.start <= time), key=lambda turn: turn.start
            )
            allowed += [by_call, in_time[-1].speaker if in_time else None]
        return list(dict.fromkeys(allowed))


def _is_same(actual: object, expected: object) -> bool:
    return type(actual) is type(expected) and actual == expected
