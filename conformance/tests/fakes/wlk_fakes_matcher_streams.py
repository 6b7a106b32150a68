"""Streams of a real engine that change a word after the n-th call of one kind."""

from __future__ import annotations

from functools import partial

import attrs
from wlk_fakes_matcher import open_stream, transcribe, warmup

from wlk_core.plugins import LoadedBackend

LONG_PAUSE = 20.0  # seconds

# The call that is counted over all resets, its number, and what happens to the next word.
STREAM_FAULTS = {
    "loses-in-third-life": ("reset", 2, "lost"),
    "loses-after-second-turn": ("new_speaker", 2, "lost"),
    "loses-after-second-flush": ("is_last", 2, "lost"),
    "loses-after-long-pause": ("long pause", 1, "lost"),
    "repeats-after-third-pause": ("end_silence", 3, "repeated"),
}


def load(spec, model):
    """Load the matcher with the streams that the name of *spec* ends in."""
    del model  # there is one
    return FaultyMatcher(spec, partial(transcribe, list), open_stream=open_stream, warmup=warmup)


class FaultyMatcher(LoadedBackend):
    """A sound engine whose streams have a fault."""

    def create_processor(self, **arguments):
        """Return a faulty stream."""
        fault = STREAM_FAULTS[self.spec.name.removeprefix("matcher-")]
        return FaultyStream(super().create_processor(**arguments), *fault)


class FaultyStream:
    """A stream that loses or repeats the word after the n-th call of one kind."""

    def __init__(self, stream, call, number, change):
        self._stream = stream
        self._call = call
        self._left = number
        self._change = change

    def __getattr__(self, name):
        """Return an attribute of the sound stream."""
        return getattr(self._stream, name)

    def process_iter(self, is_last=False):
        """Change a word of the sound stream's."""
        emission = self._changed(self._stream.process_iter(is_last))
        self._count("is_last" if is_last else "process_iter")
        return emission

    def start_silence(self):
        """Change a word of the sound stream's."""
        return self._changed(self._stream.start_silence())

    def finish(self):
        """Change a word of the sound stream's."""
        return self._changed(self._stream.finish())

    def new_speaker(self, change):
        """Change a word of the sound stream's."""
        emission = self._changed(self._stream.new_speaker(change))
        self._count("new_speaker")
        return emission

    def end_silence(self, duration, offset=None):
        """Count the pause."""
        self._stream.end_silence(duration, offset)
        self._count("end_silence")
        if duration > LONG_PAUSE:
            self._count("long pause")

    def reset(self):
        """Count the life."""
        self._stream.reset()
        self._count("reset")

    def _count(self, call):
        self._left -= call == self._call

    def _changed(self, emission):
        if self._left or not emission.committed:
            return emission
        self._left = -1
        first, *rest = emission.committed
        middle = (first.start + first.end) / 2
        halves = [attrs.evolve(first, end=middle), attrs.evolve(first, start=middle)]
        kept = halves if self._change == "repeated" else []
        return emission.replace(committed=(*kept, *rest))
