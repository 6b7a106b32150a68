"""Faulty backends whose streams affect each other, or their own next life."""

from __future__ import annotations

from typing import Any

import attrs

from faulty_backends.base import CountedStream, FaultyBackend, violates
from wlk_core import ChangeSpeaker, Emission

__all__: list[str] = []


class _LosingStream(CountedStream):
    """A stream that loses the next word where `is_due` is set."""

    is_due = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if not self.is_due or not emission.committed:
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


@violates("ISO-01", detector="sessions")
class FifthStreamLosesWord(_LosingStream):
    """Loses the first word of the fifth stream of a backend."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        number = backend.marks["streams"] = backend.marks.get("streams", 0) + 1
        self.is_due = number == 5


@violates("ISO-01", detector="sessions")
class CloseClearsCaches(_LosingStream):
    """Clears the cache of every stream of the backend when one is closed, and a word is lost."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        backend.marks.setdefault("streams", []).append(self)

    def close(self) -> None:
        """Clear the caches."""
        self.stream.close()
        for stream in self.backend.marks["streams"]:
            stream.is_due = True


@violates("ISO-01", detector="sessions")
class ResetClearsCaches(CloseClearsCaches):
    """Clears the cache of the other streams of the backend when one is reset."""

    def close(self) -> None:
        """Close this stream alone."""
        self.stream.close()

    def reset(self) -> None:
        """Clear the caches of the others."""
        self.stream.reset()
        for stream in self.backend.marks["streams"]:
            stream.is_due = stream is not self


@violates("LIFE-06", detector="sessions")
class LosesWordAfterReset(_LosingStream):
    """Loses the first word after a reset."""

    def reset(self) -> None:
        """Lose it."""
        self.stream.reset()
        self.is_due = True


@violates("LIFE-07", detector="sessions")
class LosesWordAfterIsLast(_LosingStream):
    """Loses the first word after process_iter(is_last=True) where the hypothesis was empty."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Lose the next word."""
        emission = super().emitted(emission, call)
        self.is_due = self.is_due or call == "is_last"
        return emission


@violates("ISO-05", detector="sessions")
class KeepsLanguageOfFirstStream(CountedStream):
    """Reports the language of the first stream of the backend in every other one."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        backend.marks.setdefault("language", language)

    def changed(self, emission: Emission, call: str) -> Emission:
        """Replace it."""
        language = self.backend.marks["language"] or "en"
        return emission.replace(
            committed=tuple(
                attrs.evolve(token, detected_language=language) for token in emission.committed
            )
        )


@violates("SPK-02", detector="sessions")
class SpeakerZeroIsNone(CountedStream):
    """Takes speaker 0 for no speaker."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Replace it."""
        tokens = tuple(
            attrs.evolve(token, speaker=token.speaker or None) for token in emission.committed
        )
        return emission.replace(committed=tokens)


@violates("SPK-02", detector="sessions")
class AppliesFutureTurnAtOnce(CountedStream):
    """Attributes every later word to the speaker of a turn that lies in the future."""

    def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """Apply it from here."""
        now = self.stream._input._timeline.end
        return self.emitted(
            self.stream.new_speaker(ChangeSpeaker(change.speaker, min(change.start, now))),
            "new_speaker",
        )


@violates("SPK-01", detector="sessions")
class LosesWordAtPastTurn(CountedStream):
    """Drops the last word of a turn that lies more than a second in the past."""

    def new_speaker(self, change: ChangeSpeaker) -> Emission:
        """Drop it."""
        is_past = change.start < self.stream._input._timeline.end - 1
        emission = self.emitted(self.stream.new_speaker(change), "new_speaker")
        return emission.replace(committed=emission.committed[:-1]) if is_past else emission


@violates("HYP-01", detector="sessions")
class ReadFromThreadLosesWord(_LosingStream):
    """Loses a word where the hypothesis was read seven times between two calls."""

    reads = 0

    def get_buffer(self) -> Any:
        """Count the reads."""
        self.reads += 1
        self.is_due = self.is_due or self.reads >= 7
        return self.stream.get_buffer()

    def changed(self, emission: Emission, call: str) -> Emission:
        """Count from here."""
        self.reads = 0
        return super().changed(emission, call)
