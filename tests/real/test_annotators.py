"""Published weights of annotators: who speaks, and when a turn ends."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import numpy as np

from wlk_bench.annotators.speakers import diarization_errors
from wlk_bench.annotators.turns import pauses_of
from wlk_bench.data import Sample
from wlk_bench.reference import Reference, ReferenceTurn
from wlk_conformance.testing import load_clip
from wlk_core.registry import Registry
from wlk_live.audio import decode_file
from wlk_live.session import Commit, Endpoint, Session, SpeakerTurn
from wlk_live.vad import silence_gate

from .conftest import FOLDER, MODELS, RECORDINGS, loaded

SMART_TURN = f"{FOLDER}/packages/pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"
QUIET = np.random.default_rng(1).standard_normal(24_000).astype(np.float32) / 2_000


def speech_in(audio):
    """Return the start and end of each stretch of speech between pauses of at least 0.3 s."""
    whole = ReferenceTurn("", 0.0, len(audio) / 16_000)
    sample = Sample(
        id="", audio=lambda: iter([audio]), seconds=whole.end, reference=Reference(text=""),
        turns=(whole,),
    )  # fmt: skip
    pauses = [(p.start, p.end) for p in pauses_of(sample) if p.end - p.start >= 0.3]
    edges = [(0.0, 0.0), *pauses, (whole.end, whole.end)]
    return [(before[1], after[0]) for before, after in pairwise(edges) if before[1] < after[0]]


def recording(name):
    """Return a recording of a person, float32[n]."""
    return np.concatenate(list(decode_file(RECORDINGS / f"clean/{name}.wav")))


def conversation():
    """Return audio of two people in turn, one reading and one saying digits, and the reference."""
    reader, other = recording("two_cities"), load_clip("high").audio
    first, second = reader[: 16_000 * 17], reader[16_000 * 17 : 16_000 * 33]  # cut in pauses
    parts, turns, start = [], [], 0.0
    for speaker, part in (("a", first), ("b", other), ("a", second), ("b", other)):
        turns += [ReferenceTurn(speaker, start + a, start + b) for a, b in speech_in(part)]
        parts += [part, QUIET[:8000]]
        start += (len(part) + 8000) / 16_000
    return np.concatenate(parts), turns


def events_of(audio, **annotator):
    """Return the events of a session on tiny.en that is fed in chunks of 0.1 s."""
    with closing(loaded("faster-whisper", "tiny.en").create_processor(tick_seconds=2.0)) as stream:
        session = Session(stream, gate=silence_gate(), **annotator)
        chunks = np.split(audio, range(1600, len(audio), 1600))
        return [event for chunk in chunks for event in session.feed(chunk)] + session.finish()


def test_two_people_are_distinguished_and_the_words_stay():
    """The DER is at most 12 % (measured: 8 %), and the tokens are those without the diarizer."""
    audio, turns = conversation()
    diarizer = Registry().load_annotator("diarizer", "clustering", MODELS / "speakers")
    with closing(diarizer):
        events = events_of(audio, diarizer=diarizer)
    found = [event.span for event in events if isinstance(event, SpeakerTurn)]
    errors = diarization_errors(turns, found, 0.25)

    assert len({span.speaker for span in found}) == 2
    assert errors.errors / errors.total <= 0.12, errors
    assert [e.tokens for e in events if isinstance(e, Commit)] == [
        e.tokens for e in events_of(audio) if isinstance(e, Commit)
    ]


def test_a_finished_sentence_ends_sooner_than_by_silence():
    """The detector ends the turn half a second before the 1.2 s of silence are over."""
    audio = np.concatenate([recording("two_cities")[-16_000 * 8 :], QUIET, QUIET])
    detector = Registry().load_annotator("turn-detector", "smart-turn", SMART_TURN)
    with closing(detector):
        ends = [
            [event for event in events_of(audio, **part) if isinstance(event, Endpoint)][-1]
            for part in ({"turn_detector": detector}, {})
        ]

    assert [end.reason for end in ends] == ["turn-detector", "silence"]
    assert ends[1].audio_time - ends[0].audio_time >= 0.5
