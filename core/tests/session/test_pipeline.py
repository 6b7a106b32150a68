"""Sessions: decoded audio in, events out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from wlk_core import AudioFormatError, BackendError, StreamBroken
from wlk_core.session import Commit, End, HypothesisChange, SilenceSpan, transcribe_stream
from wlk_core.testing import (
    DIGIT_WORDS,
    CodedToken,
    ScriptedBackend,
    encode,
    script_words,
    silence,
)
from wlk_core.vad import SilenceGate

SCRIPT = [CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]
AUDIO = encode(SCRIPT, cells=126)
WORDS = script_words(SCRIPT, DIGIT_WORDS)


class LoudIsSpeech:
    """A detector for coded audio: any sample that is not zero is speech."""

    frame_samples = 512

    def __call__(self, frame):
        """Return 1 for speech, 0 for none."""
        return 1.0 if np.any(frame) else 0.0

    def reset(self):
        """Forget nothing: there is nothing to forget."""


def run(audio, **options):
    """Return the events of a session over *audio*."""
    return list(transcribe_stream(ScriptedBackend().create_processor(), [audio], **options))


def tokens_of(events):
    """Return the committed tokens."""
    return [token for event in events if isinstance(event, Commit) for token in event.tokens]


@pytest.mark.parametrize("chunk_seconds", [0.1, 0.5, 1.0, 5.0, 60.0])
def test_a_session_says_the_same_for_any_chunk(chunk_seconds):
    """Words and times do not depend on the chunks."""
    tokens = tokens_of(run(AUDIO, chunk_seconds=chunk_seconds))

    assert [w.text.strip() for w in WORDS] == [t.text.strip() for t in tokens]
    assert [w.start for w in WORDS] == pytest.approx([t.start for t in tokens])


@pytest.mark.parametrize("chunk_seconds", [0.1, 1.0, 60.0])
def test_pauses_are_left_out_and_the_clock_stays(chunk_seconds):
    """Behind gated pauses the times are still those of the recording."""
    audio = np.concatenate((silence(3.0), AUDIO, silence(7.0), AUDIO, silence(4.0)))
    events = run(audio, chunk_seconds=chunk_seconds, gate=SilenceGate(LoudIsSpeech()))
    shifted = [w.start + 3.0 for w in WORDS] + [w.start + 10.0 + len(AUDIO) / 16_000 for w in WORDS]
    spans = [event.silence for event in events if isinstance(event, SilenceSpan)]

    assert shifted == pytest.approx([t.start for t in tokens_of(events)])
    assert 3 == len(spans)
    assert len(audio) / 16_000 == pytest.approx(events[-1].audio_time)
    heard = events[-1].stats.audio_seconds + sum(span.duration for span in spans)
    assert heard == pytest.approx(events[-1].audio_time)


def test_a_session_ends_with_its_figures():
    """End tells length, counters and emission latency."""
    end = run(AUDIO)[-1]

    assert isinstance(end, End)
    assert len(WORDS) == end.latency.words
    assert end.stats.encoder_frames > 0
    assert end.stats.state_bytes > 0


def test_the_hypothesis_is_told_when_it_changes():
    """Every change is told once, and the last one is that nothing is left."""
    changes = [event for event in run(AUDIO) if isinstance(event, HypothesisChange)]
    texts = [change.transcript.text for change in changes]

    assert all(one != other for one, other in pairwise(texts))
    assert "" == texts[-1]


def test_damaged_audio_gives_the_words_before_the_damage():
    """What was decoded is transcribed to its end before the error is raised."""

    def damaged():
        yield AUDIO
        raise AudioFormatError("damaged at 10 s")

    events = []
    with pytest.raises(AudioFormatError, match="damaged"):
        for event in transcribe_stream(ScriptedBackend().create_processor(), damaged()):
            events.append(event)  # noqa: PERF402 -- kept although the iteration fails

    assert len(WORDS) == len(tokens_of(events))


def test_a_passing_fault_is_tried_again():
    """A fault that passes leaves no trace in the text."""
    backend = ScriptedBackend(fail_at={3, 5})
    events = transcribe_stream(backend.create_processor(), [AUDIO])

    assert len(WORDS) == len(tokens_of(events))


def test_a_lasting_fault_ends_the_session_with_all_that_was_committed():
    """Every committed word comes out before the error."""
    backend = ScriptedBackend(fail_at=range(6, 100))
    events = []
    with pytest.raises((StreamBroken, BackendError)):
        for event in transcribe_stream(backend.create_processor(), [AUDIO], chunk_seconds=60.0):
            events.append(event)  # noqa: PERF402 -- kept although the iteration fails

    spoken = "".join(token.text for token in tokens_of(events))
    assert spoken
    assert "".join(word.text for word in WORDS).strip().startswith(spoken)
