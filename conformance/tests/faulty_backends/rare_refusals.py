"""Faults of what is refused seldom: chunks, silences, options, and failures around a reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from faulty_backends.base import CountedStream, FaultyBackend, violates
from wlk_core.errors import BackendError, StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core import Emission

__all__: list[str] = []

QUIET = 20.0  # seconds


@violates("IN-02", detector="sessions")
class ReadsStartOfChunkForNaN(CountedStream):
    """Looks for NaN in the first 1600 samples of a chunk only."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Take the others as zeros."""
        is_float = audio.dtype == np.float32 and audio.ndim == 1 and len(audio) > 1600
        if is_float and np.isfinite(audio[:1600]).all():
            audio = np.nan_to_num(audio)
        self.stream.insert_audio_chunk(audio, end_time)


@violates("IN-02", detector="sessions")
class TakesOtherByteOrder(CountedStream):
    """Takes float32 of the other byte order, and reads it in its own."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Misread it."""
        if audio.dtype == np.dtype(">f4"):
            audio = np.clip(np.nan_to_num(audio.view("<f4")), -1, 1).astype(np.float32)
        self.stream.insert_audio_chunk(audio, end_time)


@violates("IN-05", detector="sessions")
class LosesWordAfterLongQuiet(CountedStream):
    """Loses a word that begins more than 20 s after the last one, where there was no silence."""

    end = 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        kept = []
        for token in emission.committed:
            if self.silences or token.start - self.end < QUIET:
                kept.append(token)
            self.end = token.end
        return emission.replace(committed=tuple(kept))

    def reset(self) -> None:
        """Begin anew."""
        super().reset()
        self.end = 0.0


@violates("SIL-03", detector="sessions")
class AcceptsNaNSilenceLater(CountedStream):
    """Takes a silence of NaN seconds for none, once a word is committed."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        if seconds == seconds or not self.words:  # noqa: PLR0124 -- not NaN
            super().end_silence(seconds, offset)


@violates("SIL-07", detector="sessions")
class LosesWordAfterEmptySilence(CountedStream):
    """Loses the first word after a silence of no length, once a word is committed."""

    is_due = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Note it."""
        super().end_silence(seconds, offset)
        self.is_due = self.is_due or (seconds == 0 and self.words > 0)

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if not (self.is_due and emission.committed):
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


@violates("ERR-03", detector="sessions")
class CountsFailuresOverReset(CountedStream):
    """Adds the failures before a reset to those after it, and breaks too early."""

    failures = 0

    def counted(self, make: Callable[[], Emission]) -> Emission:
        """Count a failure."""
        try:
            emission = make()
        except BackendError as error:
            self.failures += 1
            if self.failures < 4 or isinstance(error, StreamBroken):
                raise
            raise StreamBroken(f"broken: {error}") from error.__cause__
        self.failures = 0
        return emission

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Count its failures."""
        return self.counted(lambda: super(CountsFailuresOverReset, self).process_iter(is_last))


class _LenientBackend(FaultyBackend):
    """A backend that changes the options of a stream before they are checked."""

    def lenient(self, options: dict[str, Any]) -> None:
        """Change *options*."""

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> Any:
        """Change them."""
        self.lenient(options)
        return super().create_processor(language=language, task=task, **options)


@violates("PKG-04")
class ClampsOptions(_LenientBackend):
    """Takes a number out of its range for the limit of the range."""

    def lenient(self, options: dict[str, Any]) -> None:
        """Clamp it."""
        if isinstance(options.get("tick_seconds"), int | float):
            options["tick_seconds"] = min(10.0, max(0.1, options["tick_seconds"]))


@violates("PKG-04")
class DropsOptionOfOtherPolicy(_LenientBackend):
    """Drops an option that the chosen policy does not take."""

    def lenient(self, options: dict[str, Any]) -> None:
        """Drop it."""
        if options.get("policy") == "native":
            options.pop("tick_seconds", None)
