"""The contract of diarizers: a sound one keeps it, and each faulty one breaks its rule."""

from __future__ import annotations

import attrs
from faulty_annotators import (
    ChangesSamples,
    DeletesAtClose,
    HidesFailure,
    OpensPartOnSpeech,
    RunsModelAtInsert,
    broken_by,
    each_faulty,
    rules_of,
)
import numpy as np

from wlk_conformance.annotators import DiarizerConformance
from wlk_conformance.annotators.suite import broken_rules
from wlk_conformance.testing import read_tokens
from wlk_conformance.testing.annotators import CodedDiarizer
from wlk_core.processor import SAMPLE_RATE
from wlk_core.tokens import SpeakerSpan


class TestCodedDiarizer(OpensPartOnSpeech, DiarizerConformance):
    """The sound diarizer keeps every rule."""

    part = CodedDiarizer


class FutureSpans(CodedDiarizer):
    """Ends spans after the audio."""

    def process_iter(self, is_last=False):
        """Return spans that are too long."""
        return [attrs.evolve(span, end=span.end + 2.0) for span in super().process_iter(is_last)]


class NoSpeaker(CodedDiarizer):
    """Names no speaker."""

    def process_iter(self, is_last=False):
        """Return spans of None."""
        return [attrs.evolve(span, speaker=None) for span in super().process_iter(is_last)]


class Twice(CodedDiarizer):
    """Returns every span again at the end."""

    def reset(self):
        """Forget the spans."""
        super().reset()
        self.spans = []

    def process_iter(self, is_last=False):
        """Return the spans so far too."""
        found = super().process_iter(is_last)
        self.spans += found
        repeated, self.spans = (self.spans, []) if is_last else (found, self.spans)
        return repeated


class Growing(CodedDiarizer):
    """Returns a span again when it has become longer."""

    def process_iter(self, is_last=False):
        """Return the first half of each span as a span of its own."""
        found = super().process_iter(is_last)
        halves = [attrs.evolve(s, end=(s.start + s.end) / 2) for s in found]
        return [*halves, *found]


class Slow(CodedDiarizer):
    """Declares a second and takes three."""

    def process_iter(self, is_last=False):
        """Wait longer than declared."""
        self.max_delay = 3.0
        try:
            return super().process_iter(is_last)
        finally:
            self.max_delay = 1.0


class AtTheEnd(CodedDiarizer):
    """Returns everything with the last call."""

    def process_iter(self, is_last=False):
        """Return nothing before."""
        return super().process_iter(is_last) if is_last else []


class ByChunk(CodedDiarizer):
    """Looks at each chunk by itself, so that a token on a cut is two."""

    def insert_audio_chunk(self, audio):
        """Begin a stretch for each chunk."""
        super().insert_silence(0.0)
        super().insert_audio_chunk(audio)


class OnGridOfCalls(CodedDiarizer):
    """Rounds times to the calls."""

    def process_iter(self, is_last=False):
        """Let spans end with the audio."""
        found = super().process_iter(is_last)
        return [
            SpeakerSpan(s.speaker, s.start, max(s.end, self._clock - self.max_delay)) for s in found
        ]


class WithoutSilence(CodedDiarizer):
    """Ignores silences."""

    def insert_silence(self, seconds):
        """Move nothing."""


class WholeSeconds(CodedDiarizer):
    """Rounds silences to seconds."""

    def insert_silence(self, seconds):
        """Move by whole seconds."""
        super().insert_silence(float(int(seconds)))


class Restless(CodedDiarizer):
    """Runs its model at every call."""

    def process_iter(self, is_last=False):
        """Run the model."""
        self._call_model()
        return super().process_iter(is_last)


class Insisting(CodedDiarizer):
    """Returns an empty span at every call without audio."""

    def process_iter(self, is_last=False):
        """Return a span of no length at the end of the audio."""
        if self._has_audio or is_last:
            return super().process_iter(is_last)
        return [SpeakerSpan("speaker 0", self._clock, self._clock)]


class Eager(RunsModelAtInsert, CodedDiarizer):
    """Runs its model while audio is inserted."""


class Borrowing(CodedDiarizer):
    """Keeps the memory of the caller."""

    def reset(self):
        """Forget the chunks."""
        super().reset()
        self.chunks = []

    def insert_audio_chunk(self, audio):
        """Keep the array itself."""
        super().insert_audio_chunk(audio)
        self.chunks.append(audio)

    def process_iter(self, is_last=False):
        """Read the arrays of the caller."""
        if is_last and len(self._stretches) == 1 and self.chunks:
            self._stretches[0].audio = np.concatenate(self.chunks)
        return super().process_iter(is_last)


class InPlace(ChangesSamples, CodedDiarizer):
    """Normalises the samples of the caller."""


class Forgetful(CodedDiarizer):
    """Loses the spans that are not certain when the audio ends."""

    def process_iter(self, is_last=False):
        """Return what was certain."""
        return super().process_iter() if is_last else super().process_iter(is_last)


class Endless(CodedDiarizer):
    """Returns the last span with each last call."""

    def process_iter(self, is_last=False):
        """Forget that the last span was returned."""
        found = super().process_iter(is_last)
        if is_last and found:
            self._stretches[-1].returned -= 1
        return found


class KeepsItsClock(CodedDiarizer):
    """Does not reset the clock."""

    def reset(self):
        """Keep the clock."""
        clock = getattr(self, "_clock", 0.0)
        super().reset()
        if clock:
            self.insert_silence(clock)


class KeepsItsAudio(CodedDiarizer):
    """Does not reset the audio."""

    def reset(self):
        """Do nothing but for the first time."""
        if not hasattr(self, "_clock"):
            super().reset()


class Sharing(CodedDiarizer):
    """Keeps its state on the class."""

    shared = None

    def reset(self):
        """Share the stretches of the one before, if it was opened for the same audio."""
        super().reset()
        if Sharing.shared is not None and not Sharing.shared._has_audio:
            self._stretches = Sharing.shared._stretches
        Sharing.shared = self

    def close(self):
        """Share nothing any more."""
        Sharing.shared = None


class LosesAudio(CodedDiarizer):
    """Takes the audio before the model fails."""

    def process_iter(self, is_last=False):
        """Drop what was inserted."""
        try:
            return super().process_iter(is_last)
        except RuntimeError:
            super().reset()
            raise


class Hiding(HidesFailure, CodedDiarizer):
    """Returns nothing where its model fails."""


class ClosesOnce(DeletesAtClose, CodedDiarizer):
    """Cannot be closed twice."""


class Imagining(CodedDiarizer):
    """Finds a speaker in silence."""

    def process_iter(self, is_last=False):
        """Return a span for silence."""
        found = super().process_iter(is_last)
        if is_last and not any(read_tokens(stretch.audio) for stretch in self._stretches):
            return [SpeakerSpan("speaker 0", self._clock, self._clock)]
        return found


class Nothing(CodedDiarizer):
    """Returns None instead of an empty list."""

    def process_iter(self, is_last=False):
        """Return None in silence."""
        found = super().process_iter(is_last)
        has_speech = any(stretch.audio.any() for stretch in self._stretches)
        return found if has_speech else None


class NeedsHalfSeconds(CodedDiarizer):
    """Refuses the rest that a session inserts at its end."""

    def insert_audio_chunk(self, audio):
        """Refuse the sixtieth chunk."""
        self.count = getattr(self, "count", 0) + 1
        if self.count > 40 and len(audio) == SAMPLE_RATE // 2:
            raise ValueError("too much")
        super().insert_audio_chunk(audio)


FAULTY = [
    (FutureSpans, "DIA-01"), (NoSpeaker, "DIA-01"), (Twice, "DIA-02"), (Growing, "DIA-02"),
    (Slow, "DIA-03"), (AtTheEnd, "DIA-03"), (ByChunk, "DIA-04"), (OnGridOfCalls, "DIA-04"),
    (WithoutSilence, "DIA-05"), (WholeSeconds, "DIA-05"), (Restless, "DIA-06"),
    (Insisting, "DIA-06"), (Eager, "DIA-07"), (Borrowing, "DIA-07"), (InPlace, "DIA-07"),
    (Forgetful, "DIA-08"), (Endless, "DIA-08"), (KeepsItsClock, "DIA-09"),
    (KeepsItsAudio, "DIA-09"), (Sharing, "DIA-10"), (LosesAudio, "DIA-11"), (Hiding, "DIA-11"),
    (ClosesOnce, "DIA-12"), (Imagining, "DIA-13"), (Nothing, "DIA-13"),
    (NeedsHalfSeconds, "DIA-14"),
]  # fmt: skip


@each_faulty(FAULTY)
def test_a_faulty_diarizer_breaks_its_rule(part, rule):
    """The suite detects every one of them under its id."""
    broken = broken_by(TestCodedDiarizer, part)

    assert rule in broken, broken


def test_every_rule_is_broken_by_a_faulty_diarizer():
    """A rule that no diarizer can break is no rule."""
    assert rules_of(DiarizerConformance) == {rule for _, rule in FAULTY}


def test_a_diarizer_without_scripted_faults_is_not_judged_by_them():
    """The rule is skipped, and all others are kept."""
    suite = type("Suite", (TestCodedDiarizer,), {"open_failing": DiarizerConformance.open_failing})

    assert {} == broken_rules(suite)
