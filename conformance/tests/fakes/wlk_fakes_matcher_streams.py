"""Streams of a real engine that change a word after the n-th call of one kind."""

from __future__ import annotations

from functools import partial

import attrs
from faulty_backends.base import FaultyStream, without
from wlk_fakes_matcher import open_stream, transcribe, warmup

from wlk_core.plugins import LoadedBackend

LONG_PAUSE = 20.0  # seconds

# The call that is counted across resets, its number, and whether the next word is lost.
STREAM_FAULTS = {
    "loses-after-second-reset": ("reset", 2, True),
    "loses-after-second-turn": ("new_speaker", 2, True),
    "loses-after-second-flush": ("is_last", 2, True),
    "loses-after-long-pause": ("long pause", 1, True),
    "repeats-after-third-pause": ("end_silence", 3, False),
}


def load(spec, model):
    """Load the matcher with the streams that the name of *spec* ends in."""
    del model  # there is only one
    return FaultyMatcher(spec, partial(transcribe, list), open_stream=open_stream, warmup=warmup)


class FaultyMatcher(LoadedBackend):
    """A sound engine whose streams have a fault."""

    streams_opened = 0

    def create_processor(self, **arguments):
        """Return a faulty stream."""
        fault = STREAM_FAULTS[self.spec.name.removeprefix("matcher-")]
        return ChangingStream(super().create_processor(**arguments), self, fault)


class ChangingStream(FaultyStream):
    """A stream that loses or repeats the word after the n-th call of one kind."""

    lasting = (*FaultyStream.lasting, "_call", "_left", "_is_lost", "is_due")

    def __init__(self, stream, backend, fault):
        self._call, self._left, self._is_lost = fault
        super().__init__(stream, backend)

    def changed(self, emission, call):
        """Change a word, and count the call."""
        is_struck = self.strikes(emission)
        self._count(call)
        if not is_struck or self._is_lost:
            return without(emission) if is_struck else emission
        first, *rest = emission.committed
        middle = (first.start + first.end) / 2  # so that neither half lies beyond the audio
        halves = [attrs.evolve(first, end=middle), attrs.evolve(first, start=middle)]
        return attrs.evolve(emission, committed=(*halves, *rest))

    def end_silence(self, duration, offset=None):
        """Count the pause."""
        super().end_silence(duration, offset)
        self._count("end_silence")
        if duration > LONG_PAUSE:
            self._count("long pause")

    def reset(self):
        """Count the reset."""
        super().reset()
        self._count("reset")

    def _count(self, call):
        if call == self._call:
            self._left -= 1
            self.is_due = self._left == 0
