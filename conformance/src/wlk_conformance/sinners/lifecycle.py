"""Sinners against LIFE."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.scripted import EngineFault
from wlk_conformance.sinners.sinner import Sin, SinfulBackend, sinner
from wlk_core import ASRToken
from wlk_core.errors import StreamClosed

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

CONTEXT = 75.0  # seconds at which a sinner's model reaches its limit
SHORT = 0.2  # seconds


@sinner("LIFE-01")
class SpeaksBeforeItHears(Sin):
    """Commits a word before there is any audio."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Thank you."""
        if call != "process_iter" or self.stream.stats.audio_seconds:
            return emission
        return attrs.evolve(emission, committed=(ASRToken(0.0, 0.0, "you", 1.0),))


@sinner("LIFE-02", defects="B17, B27")
class IgnoresAShortRest(Sin):
    """Never decodes a stream of a fifth of a second."""

    def finish(self) -> Emission:
        """Drop what is short."""
        emission = super().finish()
        if 0 < self.stream.stats.audio_seconds < SHORT:
            return attrs.evolve(emission, committed=())
        return emission


@sinner("LIFE-03", defects="B24, B25")
class FinishesTwice(Sin):
    """Commits the last word again at a second finish."""

    last: tuple[ASRToken, ...] = ()
    is_finished = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say it again."""
        if self.is_finished and call == "finish":
            return attrs.evolve(emission, committed=self.last)
        self.last = emission.committed[-1:] or self.last
        self.is_finished = call == "finish"
        return emission

    def reset(self) -> None:
        """Begin anew."""
        self.is_finished, self.last = False, ()
        self.stream.reset()


@sinner("LIFE-04", defects="B24")
class TakesAudioAfterItsEnd(Sin):
    """Takes audio after finish and does nothing with it."""

    is_closed = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Take it."""
        try:
            self.stream.insert_audio_chunk(audio, end_time)
        except StreamClosed:
            if self.is_closed:
                raise

    def close(self) -> None:
        """Remember that."""
        self.is_closed = True
        self.stream.close()


@sinner("LIFE-05", defects="B25")
class DecodesItsPadding(Sin):
    """Decodes its padding at finish though there was no audio."""

    def finish(self) -> Emission:
        """Call the engine."""
        if not self.stream.stats.audio_seconds:
            self.backend._begin_call()  # noqa: SLF001 -- the engine
        return super().finish()


@sinner("LIFE-06")
class RemembersItsFormerLife(Sin):
    """Keeps the speaker over a reset."""

    speaker: Any = None
    is_reset = False

    def new_speaker(self, change: Any) -> Emission:
        """Remember who it is."""
        self.speaker = change.speaker
        return super().new_speaker(change)

    def reset(self) -> None:
        """Keep who it was."""
        self.stream.reset()
        self.is_reset = True

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say so."""
        del call
        if not self.is_reset:
            return emission
        tokens = (attrs.evolve(token, speaker=self.speaker) for token in emission.committed)
        return attrs.evolve(emission, committed=tuple(tokens))


@sinner("LIFE-07", defects="B26")
class EndsAtIsLast(Sin):
    """Takes is_last for the end of the stream."""

    is_finished = False

    def finish(self) -> Emission:
        """Remember that."""
        self.is_finished = True
        return super().finish()

    def reset(self) -> None:
        """Begin anew."""
        self.is_finished = False
        self.stream.reset()

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """End it."""
        if is_last and self.stream.stats.audio_seconds and not self.is_finished:
            return self.finish()
        return super().process_iter(is_last)


@sinner("LIFE-08", defects="B05, B28")
class LosesAWordAtItsLimit(Sin):
    """Loses the word at which the context of the model is full."""

    is_past = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Lose it, in a stream of a word each third of a second."""
        if call in {"start_silence", "is_last"} or emission.stable_up_to > CONTEXT + 10:
            self.is_past = True
        kept = []
        for token in emission.committed:
            if not self.is_past and token.start > CONTEXT and self.backend.calls:
                self.is_past = True
                continue
            kept.append(token)
        return attrs.evolve(emission, committed=tuple(kept))


@sinner("LIFE-09", defects="B47")
class WarmsUpInAStream(SinfulBackend):
    """Warms up through the streams that are open."""

    def create_processor(self, **options: Any) -> Any:
        """Remember the stream."""
        stream = _Disturbed(super().create_processor(**options).stream, self)
        self.marks["open"] = [*self.marks.get("open", ())[-3:], stream]
        return stream

    def warmup(self) -> None:
        """Disturb those that have heard something."""
        super().warmup()
        for stream in self.marks.get("open", ()):
            stream.is_disturbed = stream.stream.stats.audio_seconds > 0


class _Disturbed(Sin):
    is_disturbed = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say another word."""
        del call
        if not self.is_disturbed or not emission.committed:
            return emission
        self.is_disturbed = False
        first = attrs.evolve(emission.committed[0], text=" you")
        return attrs.evolve(emission, committed=(first, *emission.committed[1:]))


@sinner("LIFE-09", defects="B07, B47")
class WarmsUpWhateverHappens(SinfulBackend):
    """Hides the failure of its warmup."""

    def warmup(self) -> None:
        """Hide it."""
        try:
            super().warmup()
        except EngineFault:
            return


@sinner("LIFE-10", defects="B48")
class LeavesAThread(Sin):
    """Leaves a thread behind that waits for audio."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.never = threading.Event()
        if self.backend.marks.setdefault("threads", 0) < 200:  # noqa: PLR2004 -- enough to be seen
            self.backend.marks["threads"] += 1
            threading.Thread(target=self.never.wait, args=(60.0,), daemon=True).start()


@sinner("LIFE-10")
class ServesAfterItsEnd(SinfulBackend):
    """Opens streams after it was closed."""

    def close(self) -> None:
        """Stay open."""
