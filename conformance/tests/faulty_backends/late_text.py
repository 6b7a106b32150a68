"""Faulty backends whose text is wrong late in a stream, or in rare sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import CountedStream, violates
from wlk_core import Emission, Transcript

if TYPE_CHECKING:
    from wlk_core import ASRToken

__all__: list[str] = []


@violates("SIL-07", detector="sessions")
class RepeatsWordAfterThirdPause(CountedStream):
    """Commits the first word after the third pause twice."""

    is_done = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Repeat it."""
        if self.silences < 3 or self.is_done or not emission.committed:
            return emission
        self.is_done = True
        first, *rest = emission.committed
        again = attrs.evolve(first, text=f" {first.text.strip()}", start=first.end)
        return emission.replace(committed=(first, again, *rest))


@violates("SIL-07", detector="sessions")
class JoinsWordsAfterFifthPause(CountedStream):
    """Loses the space before the first word after the fifth pause."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Strip it."""
        if self.silences != 5 or not emission.committed:
            return emission
        self.silences += 1
        first, *rest = emission.committed
        return emission.replace(committed=(attrs.evolve(first, text=first.text.strip()), *rest))


@violates("SIL-07", detector="sessions")
class LosesWordAfterAnHour(CountedStream):
    """Loses the first word after a silence of an hour or more."""

    is_due = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note a long one."""
        super().end_silence(seconds, offset)
        self.is_due = self.is_due or (seconds >= 3600 and self.flushes > 0)

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop the word."""
        if not self.is_due or not emission.committed:
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


@violates("COM-03", detector="sessions")
class CommitsEmptyToken(CountedStream):
    """Commits an empty token at the fourth flush."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Add it."""
        if self.flushes != 4 or call == "process_iter" or not emission.committed:
            return emission
        empty = attrs.evolve(emission.committed[-1], text="")
        return emission.replace(committed=(*emission.committed, empty))


@violates("COM-02", detector="sessions")
class ChangesReturnedToken(CountedStream):
    """Corrects a token after it was returned, once there are ten."""

    kept: tuple[ASRToken, ...] = ()

    def changed(self, emission: Emission, call: str) -> Emission:
        """Change the tenth."""
        self.kept += emission.committed
        if len(self.kept) >= 10:
            object.__setattr__(self.kept[-10], "text", " corrected")
        return emission


@violates("COM-01", detector="sessions")
class RepeatsLongWord(CountedStream):
    """Commits a word of more than 0.9 s twice, as if its halves were two."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Cut it in two."""
        tokens: list[ASRToken] = []
        for token in emission.committed:
            tokens.append(token)
            if token.end - token.start > 0.9:
                text = f" {token.text.strip()}"
                tokens.append(attrs.evolve(token, start=token.end, text=text))
        return emission.replace(committed=tuple(tokens))


@violates("IN-05", detector="sessions")
class LosesWordAfterFortySeconds(CountedStream):
    """Loses the first word that is committed after 40 s without a pause."""

    is_done = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        is_due = emission.committed and emission.committed[0].start > 40 and not self.silences
        if self.is_done or not is_due or self.flushes:
            return emission
        self.is_done = True
        return emission.replace(committed=emission.committed[1:])


@violates("TIME-01", detector="sessions")
class HypothesisEndsBeforeItBegins(CountedStream):
    """Shows a hypothesis that ends before it begins, once two words are upcoming."""

    def get_buffer(self) -> Transcript:
        """Turn the times of the last word round."""
        shown: Transcript = self.stream.get_buffer()
        if len(shown.tokens) < 2:
            return shown
        last = shown.tokens[-1]
        turned = attrs.evolve(last, start=last.end, end=last.start)
        return Transcript((*shown.tokens[:-1], turned))


@violates("HYP-02", detector="sessions")
class HypothesisGoesBack(CountedStream):
    """Shows a hypothesis a second too early after the second flush."""

    def get_buffer(self) -> Transcript:
        """Move it."""
        shown: Transcript = self.stream.get_buffer()
        if self.flushes < 2 or not shown.tokens or shown.tokens[0].start < 1:
            return shown
        return Transcript(
            tuple(
                attrs.evolve(token, start=token.start - 1, end=token.end - 1)
                for token in shown.tokens
            )
        )


@violates("HYP-03", detector="sessions")
class KeepsHypothesisAtSecondFlush(CountedStream):
    """Shows its last hypothesis after the second flush, and after later ones."""

    last = Transcript()

    def get_buffer(self) -> Transcript:
        """Keep it."""
        shown: Transcript = self.stream.get_buffer()
        self.last = shown if shown.tokens else self.last
        return shown if shown.tokens or self.flushes < 2 else self.last


@violates("PKG-01", detector="sessions")
class ProbabilityAboveOne(CountedStream):
    """Returns a probability above 1 for a word of more than 0.9 s."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Scale it by the length."""
        tokens: list[Any] = [
            attrs.evolve(token, probability=max(1.0, (token.end - token.start) / 0.9))
            for token in emission.committed
        ]
        return emission.replace(committed=tuple(tokens))
