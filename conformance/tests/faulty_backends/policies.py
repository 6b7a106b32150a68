"""Faulty backends whose policy fails on an engine that changes its mind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faulty_backends.base import FaultyStream, violates
from wlk_core.online import LocalAgreementRecognizer
from wlk_core.streaming import LocalAgreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.streaming import Word

__all__: list[str] = []


class _SpoiledStream(FaultyStream):
    """A stream whose recognizer is spoiled, where it is one of LocalAgreement."""

    def __init__(self, stream: Any, backend: Any, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        self._spoil_recognizer()

    def reset(self) -> None:
        """Spoil the new recognizer too."""
        self.stream.reset()
        self._spoil_recognizer()

    def spoil(self, recognizer: Any) -> None:
        """Put the fault into *recognizer*."""

    def _spoil_recognizer(self) -> None:
        recognizer = self.stream._recognizer
        if isinstance(recognizer, LocalAgreementRecognizer):
            self.spoil(recognizer)


class _PolicyStream(_SpoiledStream):
    """A stream with another policy, `policy`, in every utterance."""

    policy: type[LocalAgreement]

    def spoil(self, recognizer: Any) -> None:
        """Replace the policy now and after each utterance."""
        end_utterance = recognizer.end_utterance

        def replaced(committed_text: str) -> None:
            end_utterance(committed_text)
            recognizer._policy = self.policy()

        recognizer.end_utterance = replaced
        recognizer._policy = self.policy()


class _HastyAgreement(LocalAgreement):
    def update(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """Commit a word more than is agreed on."""
        agreed = super().update(words)
        return agreed + super().force(1) if agreed else agreed


@violates("IN-05", detector="sessions")
class CommitsWordThatIsNotAgreed(_PolicyStream):
    """Commits the word after those on which two hypotheses agree."""

    policy = _HastyAgreement


class _ForgetfulAgreement(LocalAgreement):
    def force(self, count: int) -> tuple[Word, ...]:
        """Drop words where not all of the hypothesis is committed."""
        forced = super().force(count)
        return () if self.hypothesis else forced


@violates("IN-05", detector="sessions")
class DropsForcedWords(_PolicyStream):
    """Drops the words that it must commit because its window is full."""

    policy = _ForgetfulAgreement


@violates("IN-05", detector="sessions")
class CutsFullWindowInTheMiddle(_SpoiledStream):
    """Cuts a window that is full in its middle, whatever word is there."""

    def spoil(self, recognizer: Any) -> None:
        """Leave the next word out of account."""
        window = recognizer._window
        window._forced_cut = lambda following: (window.start + window.processed) // 2
