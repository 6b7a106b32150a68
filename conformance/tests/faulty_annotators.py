"""Mistakes that annotators of any kind can make, and how their tests judge them."""

from __future__ import annotations

import pytest

from wlk_conformance.annotators.suite import CODED_SPEECH, annotator_rules, broken_rules


class OpensPart:
    """A suite on `part`, a class of annotators whose model can be made to fail."""

    part = None

    def open(self):
        """Return a new annotator."""
        return self.part()

    def open_failing(self, call):
        """Return one whose model fails."""
        return self.part(fail_at={call})


class OpensPartOnSpeech(OpensPart):
    """A suite on `part`, a class of annotators of audio."""

    def speech(self):
        """Return coded audio."""
        return CODED_SPEECH


class RunsModelAtInsert:
    """Runs its model while audio is inserted."""

    def insert_audio_chunk(self, audio):
        """Run the model."""
        super().insert_audio_chunk(audio)
        self.calls += 1


class ChangesSamples:
    """Normalises the samples of the caller."""

    def insert_audio_chunk(self, audio):
        """Keep a copy, and change the original."""
        super().insert_audio_chunk(audio.copy())
        audio *= 0.5


class HidesFailure:
    """Returns nothing where its model fails."""

    def process_iter(self, is_last=False):  # noqa: FBT002 -- as the annotator
        """Hide the failure."""
        try:
            return super().process_iter(is_last)
        except RuntimeError:
            return []


class DeletesAtClose:
    """Cannot be closed twice."""

    def close(self):
        """Delete what a second close needs."""
        super().close()
        del self._fail_at


def each_faulty(faulty):
    """Return the decorator of a test of each of *faulty*, pairs of a class and a rule."""
    return pytest.mark.parametrize(
        ("part", "rule"), faulty, ids=[part.__name__ for part, _ in faulty]
    )


def broken_by(suite, part):
    """Return the rules that *part* breaks in *suite*, each with the reason."""
    return broken_rules(type("Suite", (suite,), {"part": part}))


def rules_of(suite):
    """Return the ids of the rules of *suite*."""
    return {test.id for test in annotator_rules(suite)}
