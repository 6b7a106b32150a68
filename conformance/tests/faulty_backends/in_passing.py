"""Faults in passing: of text, time, memory, options and states that few calls reach."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Any
import unicodedata

import attrs

from faulty_backends.base import CountedStream, FaultyBackend, FaultyStream, violates, with_tokens
from wlk_core import Emission
from wlk_core.errors import BackendError, StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []

KILOBYTE = 1024


class _Respelling(FaultyStream):
    spell: Callable[[str], str]

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Spell each word otherwise."""
        tokens = [
            attrs.evolve(token, text=type(self).spell(token.text)) for token in emission.committed
        ]
        return emission.replace(committed=tuple(tokens))


for name, spell, sentence in (
    ("NormalisesText", lambda text: unicodedata.normalize("NFKC", text), "Commits text in NFKC."),
    ("FoldsCase", str.lower, "Commits text in lower case."),
    ("CutsLongWords", lambda text: text[:24], "Commits 24 characters of each word at most."),
):
    members = {"__doc__": sentence, "__module__": __name__, "spell": staticmethod(spell)}
    violates("COM-03")(type(name, (_Respelling,), members))


@violates("ERR-01")
class TakesTimeOutForSilence(FaultyStream):
    """Returns no words where the client of its engine timed out, and raises any other error."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Return nothing."""
        try:
            return super().process_iter(is_last)
        except BackendError as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            return Emission((), 0.0, 0.0)


@violates("IN-04")
class WaitsALittleInEachInsert(FaultyStream):
    """Waits for 12 ms in each insert."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Wait."""
        sleep(0.012)
        self.stream.insert_audio_chunk(audio, end_time)


@violates("LIFE-10")
class ClosesSlowly(FaultyStream):
    """Takes more than five seconds to close."""

    def close(self) -> None:
        """Wait, once."""
        if not self.backend.marks.setdefault("waited", []):
            self.backend.marks["waited"].append(True)
            sleep(5.1)
        self.stream.close()


@violates("PKG-04")
class IgnoresItsTick(FaultyBackend):
    """Checks tick_seconds and never passes it on."""

    def create_processor(self, **arguments: Any) -> Any:  # type: ignore[override]  # as they come
        """Drop it."""
        super().create_processor(**arguments).close()
        arguments.pop("tick_seconds", None)
        return super().create_processor(**arguments)


class _Hoarding(FaultyStream):
    """A stream that keeps kilobytes on its backend, which `state_bytes` does not count."""

    def hoard(self) -> None:
        """Keep them."""
        self.backend.marks.setdefault("kept", []).append(bytes(8 * KILOBYTE))


@violates("RES-01")
class KeepsMemoryOfEachLife(_Hoarding):
    """Keeps eight kilobytes at each reset."""

    def reset(self) -> None:
        """Keep them."""
        self.stream.reset()
        self.hoard()


@violates("RES-01")
class KeepsMemoryOfEachTurn(_Hoarding):
    """Keeps eight kilobytes at each speaker turn."""

    def new_speaker(self, change: Any) -> Emission:
        """Keep them."""
        self.hoard()
        return super().new_speaker(change)


@violates("RES-01")
class KeepsMemoryOfEachStream(_Hoarding):
    """Keeps eight kilobytes when a stream is closed."""

    def close(self) -> None:
        """Keep them."""
        self.stream.close()
        self.hoard()


@violates("ERR-03")
class TakesTurnWhenBroken(FaultyStream):
    """Returns nothing for a speaker turn once it is broken, instead of refusing it."""

    def new_speaker(self, change: Any) -> Emission:
        """Return nothing."""
        try:
            return super().new_speaker(change)
        except StreamBroken:
            return Emission((), self.stream.stats.audio_seconds, 0.0)


@violates("ERR-03")
class StaysBrokenAfterReset(FaultyStream):
    """Refuses a reset once it is broken."""

    def reset(self) -> None:
        """Refuse it."""
        self.stream.end_silence(0.0)
        self.stream.reset()


@violates("ERR-03")
class ForgetsFailuresAtInsert(FaultyStream):
    """Counts its failures from the last insert on, so that it never breaks while audio comes."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Forget them."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.stream._failures = 0


@violates("LIFE-05")
class RaisesWithoutAudioAfterReset(CountedStream):
    """Raises at a finish without audio in the life after a reset."""

    is_reset = False

    def reset(self) -> None:
        """Note it."""
        super().reset()
        self.is_reset = True

    def finish(self) -> Emission:
        """Raise."""
        if self.is_reset and not self.stream.stats.audio_seconds:
            raise ValueError("no audio")
        return super().finish()


@violates("LIFE-09")
class FirstStreamHasWarmup(FaultyBackend):
    """Takes the warmup for the beginning of the first stream, and loses its first word."""

    def warmup(self) -> None:
        """Note it."""
        super().warmup()
        self.marks.setdefault("streams", 0)

    def create_processor(self, **arguments: Any) -> Any:  # type: ignore[override]  # as they come
        """Spoil the first stream."""
        number = self.marks["streams"] = self.marks.get("streams", 9) + 1
        self.faulty_stream = _FirstWordLost if number == 1 else FaultyStream
        return super().create_processor(**arguments)


class _FirstWordLost(CountedStream):
    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        return emission.replace(committed=emission.committed[0 if self.words else 1 :])


@violates("LANG-01", detector="sessions")
class ForgetsLanguageAtReset(CountedStream):
    """Reports English after a reset, whatever language is forced."""

    is_reset = False

    def reset(self) -> None:
        """Forget it."""
        super().reset()
        self.is_reset = True

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        return with_tokens(emission, detected_language="en") if self.is_reset else emission


@violates("IN-05", tiers=("long",))
class LosesWordsAfterThousandsOfCalls(CountedStream):
    """Loses a word of each fiftieth call, from the five thousandth of a stream on."""

    calls = 0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        self.calls += 1
        is_due = self.calls > 5000 and self.calls % 50 == 0
        return emission.replace(committed=emission.committed[int(is_due) :])
