"""Faulty backends that break ERR."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import FaultyBackend, FaultyStream, breaks, violates
from wlk_core import Emission
from wlk_core.errors import BackendError, StreamBroken
from wlk_core.online import LocalAgreementRecognizer

if TYPE_CHECKING:
    from wlk_conformance.scripted import ScriptedEngine
    from wlk_core import ASRToken
    from wlk_core.online import Hypothesis

__all__: list[str] = []


@breaks("ERR-01")
class TurnsFailureIntoSilence(FaultyStream):
    """Returns no text where its engine fails at a silence."""

    def start_silence(self) -> Emission:
        """Return nothing."""
        try:
            return super().start_silence()
        except StreamBroken:
            raise
        except BackendError:
            return Emission((), 0.0, 0.0)


@breaks("ERR-01")
class HidesTheCause(FaultyStream):
    """Raises BackendError without the cause."""

    def finish(self) -> Emission:
        """Hide it."""
        try:
            return super().finish()
        except StreamBroken:
            raise
        except BackendError as error:
            raise BackendError(str(error)) from None


@breaks("ERR-01")
class DropsErrorAfterText(FaultyStream):
    """Drops the error of a step if earlier steps of the same call committed text."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Repeat a call whose earlier steps committed text."""
        try:
            return super().process_iter(is_last)
        except StreamBroken:
            raise
        except BackendError as error:
            if not error.committed:
                raise
            return super().process_iter(is_last)


@breaks("ERR-02")
class KeepsStateOfFailedCall(FaultyBackend):
    """Keeps the cache of a failed engine call, and loses a word when the call is repeated."""

    def __init__(self) -> None:
        super().__init__()
        self._open_stream = _open_with_cache


class _CachedTranscriber:
    """An engine call that takes a repeated buffer for new audio after cached audio."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.cached_samples = 0

    def __call__(self, audio: Any, **options: Any) -> Hypothesis:
        """Lose the last word of a buffer that the cache has."""
        hypothesis = self.engine.transcribe(audio, **options)
        is_cached = len(audio) == self.cached_samples
        self.cached_samples = len(audio)
        return attrs.evolve(hypothesis, words=hypothesis.words[:-1]) if is_cached else hypothesis


def _open_with_cache(engine: Any, config: Any, calls: Any) -> Any:
    return partial(
        LocalAgreementRecognizer,
        calls.wrap(_CachedTranscriber(engine)),
        language=config.language,
        tick_seconds=config.options["tick_seconds"],
    )


@violates("ERR-02")
class LosesWordOnFailure(FaultyStream):
    """Loses the word it was about to commit when its engine failed."""

    has_failed = False

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Note the failure."""
        try:
            return super().process_iter(is_last)
        except BackendError:
            self.has_failed = True
            raise

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop a word."""
        del call
        if not self.has_failed or not emission.committed:
            return emission
        self.has_failed = False
        return emission.replace(committed=emission.committed[1:])


@breaks("ERR-02")
class FinishedByFailedFinish(FaultyStream):
    """Is finished although finish failed."""

    has_failed = False

    def finish(self) -> Emission:
        """Return nothing after a failure."""
        if self.has_failed:
            return Emission((), self.stream.stats.audio_seconds, 0.0)
        try:
            return super().finish()
        except StreamBroken:
            raise
        except BackendError:
            self.has_failed = True
            raise


@breaks("ERR-03")
class RetriesForever(FaultyStream):
    """Never raises StreamBroken from process_iter."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Report it as a failure that may be retried."""
        try:
            return super().process_iter(is_last)
        except StreamBroken as error:
            raise BackendError("try again") from error


@breaks("ERR-04")
class FailureAffectsOthers(FaultyStream):
    """Loses a word of the other streams when its engine fails."""

    is_infected = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks.setdefault("streams", []).append(self)
        del self.backend.marks["streams"][:-5]

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Spread the failure."""
        try:
            return super().process_iter(is_last)
        except BackendError:
            for other in self.backend.marks["streams"]:
                other.is_infected = other.is_infected or other is not self
            raise

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop a word."""
        del call
        if not self.is_infected or not emission.committed:
            return emission
        self.is_infected = False
        kept: tuple[ASRToken, ...] = emission.committed[1:]
        return emission.replace(committed=kept)
