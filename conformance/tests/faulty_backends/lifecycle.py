"""Faulty backends that break LIFE."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import FaultyBackend, FaultyStream, breaks
from wlk_conformance import EngineFault, EngineFaults
from wlk_core import ASRToken
from wlk_core.errors import StreamClosed

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

CONTEXT = 75.0  # seconds after which a faulty model reaches its limit
SHORT = 0.2  # seconds


@breaks("LIFE-01")
class CommitsBeforeAudio(FaultyStream):
    """Commits a word before any audio was inserted."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Commit a word."""
        if call != "process_iter" or self.stream.stats.audio_seconds:
            return emission
        return emission.replace(committed=(ASRToken(0.0, 0.0, "you", 1.0),))


@breaks("LIFE-02")
class DropsShortRest(FaultyStream):
    """Never decodes a stream shorter than a fifth of a second."""

    def finish(self) -> Emission:
        """Drop what is short."""
        emission = super().finish()
        if 0 < self.stream.stats.audio_seconds < SHORT:
            return emission.replace(committed=())
        return emission


@breaks("LIFE-03")
class FinishesTwice(FaultyStream):
    """Commits the last word again at a second finish."""

    last: tuple[ASRToken, ...] = ()
    is_finished = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Commit it again."""
        if self.is_finished and call == "finish":
            return emission.replace(committed=self.last)
        self.last = emission.committed[-1:] or self.last
        self.is_finished = call == "finish"
        return emission

    def reset(self) -> None:
        """Start over."""
        self.is_finished, self.last = False, ()
        self.stream.reset()


@breaks("LIFE-04")
class AcceptsAudioAfterFinish(FaultyStream):
    """Accepts audio after finish and drops it."""

    is_closed = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Accept it."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except StreamClosed:
            if self.is_closed:
                raise

    def close(self) -> None:
        """Note it."""
        self.is_closed = True
        self.stream.close()


@breaks("LIFE-05")
class DecodesPaddingAlone(FaultyStream):
    """Decodes its padding at finish although there was no audio."""

    def finish(self) -> Emission:
        """Call the engine."""
        if not self.stream.stats.audio_seconds:
            self.backend.engine_calls.wrap(list)()
        return super().finish()


@breaks("LIFE-06")
class KeepsSpeakerOverReset(FaultyStream):
    """Keeps the speaker over a reset."""

    speaker: Any = None
    is_reset = False

    def new_speaker(self, change: Any) -> Emission:
        """Note the speaker."""
        self.speaker = change.speaker
        return super().new_speaker(change)

    def reset(self) -> None:
        """Keep the speaker."""
        self.stream.reset()
        self.is_reset = True

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        del call
        if not self.is_reset:
            return emission
        tokens = (attrs.evolve(token, speaker=self.speaker) for token in emission.committed)
        return emission.replace(committed=tuple(tokens))


@breaks("LIFE-07")
class FinishesAtIsLast(FaultyStream):
    """Finishes the stream at process_iter(is_last=True)."""

    is_finished = False

    def finish(self) -> Emission:
        """Note it."""
        self.is_finished = True
        return super().finish()

    def reset(self) -> None:
        """Start over."""
        self.is_finished = False
        self.stream.reset()

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """End it."""
        if is_last and self.stream.stats.audio_seconds and not self.is_finished:
            return self.finish()
        return super().process_iter(is_last)


@breaks("LIFE-08")
class LosesWordAtContextLimit(FaultyStream):
    """Loses the word at which the context of the model is full."""

    is_past = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it, in a stream with a word each third of a second."""
        if call in {"start_silence", "is_last"} or emission.stable_up_to > CONTEXT + 10:
            self.is_past = True
        kept = []
        for token in emission.committed:
            if not self.is_past and token.start > CONTEXT and self.backend.engine_calls.count:
                self.is_past = True
                continue
            kept.append(token)
        return emission.replace(committed=tuple(kept))


@breaks("LIFE-08")
class DropsTextAtEndOfText(FaultyStream):
    """Drops the word that waits to be final when its engine ends a text early."""

    cuts = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cuts = EngineFaults.of(self.backend.engine_calls).cut_count

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        del call
        if (
            self.cuts == EngineFaults.of(self.backend.engine_calls).cut_count
            or not emission.committed
        ):
            return emission
        self.cuts = EngineFaults.of(self.backend.engine_calls).cut_count
        return emission.replace(committed=emission.committed[1:])


@breaks("LIFE-09")
class WarmsUpInStreams(FaultyBackend):
    """Warms up through the streams that are open."""

    def create_processor(self, **options: Any) -> Any:
        """Keep the stream."""
        stream = _Disturbed(super().create_processor(**options).stream, self)
        self.marks["open"] = [*self.marks.get("open", ())[-3:], stream]
        return stream

    def warmup(self) -> None:
        """Disturb the streams that have audio."""
        super().warmup()
        for stream in self.marks.get("open", ()):
            stream.is_disturbed = stream.stream.stats.audio_seconds > 0


class _Disturbed(FaultyStream):
    is_disturbed = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Commit another word."""
        del call
        if not self.is_disturbed or not emission.committed:
            return emission
        self.is_disturbed = False
        first = attrs.evolve(emission.committed[0], text=" you")
        return emission.replace(committed=(first, *emission.committed[1:]))


@breaks("LIFE-09")
class HidesWarmupFailure(FaultyBackend):
    """Hides the failure of its warmup."""

    def warmup(self) -> None:
        """Hide it."""
        try:
            super().warmup()
        except EngineFault:
            return


@breaks("LIFE-10")
class LeavesThread(FaultyStream):
    """Leaves a thread running that waits for audio."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.never = threading.Event()
        if self.backend.marks.setdefault("threads", 0) < 200:
            self.backend.marks["threads"] += 1
            threading.Thread(target=self.never.wait, args=(60.0,), daemon=True).start()


@breaks("LIFE-10")
class OpensStreamsAfterClose(FaultyBackend):
    """Opens streams after it was closed."""

    def close(self) -> None:
        """Stay open."""
