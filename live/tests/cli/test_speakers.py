"""Speakers of recordings: `transcribe --diarizer` in every format, at the speed of the model."""

from __future__ import annotations

import importlib
import json

import pytest

from wlk_core.errors import BackendError
from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText
from wlk_live.cli.formats import new_format
from wlk_live.cli.late_speakers import LateSpeakers
from wlk_live.session import Commit, Endpoint, Failure, SpeakerTurn, Translation

DIARIZER = """
from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.tokens import SpeakerSpan

opened = []

@hookimpl
def wlk_diarizers():
    return [AnnotatorSpec(
        kind="diarizer", name="who", api=1, summary="finds speakers", load=f"{__name__}:load",
    )]

def load(spec, model, **options):
    spans = [SpeakerSpan(0, 0.0, 0.9), SpeakerSpan(1, 0.9, 9.0)]
    opened.append(ScriptedDiarizer(spans, max_delay=0.3))
    return opened[-1]
"""
WHO = ("--diarizer", "who")
NAMES = {(): ["Speaker 1", "Speaker 2"], ("--speaker-names", "Anna,Ben"): ["Anna", "Ben"]}


@pytest.fixture(autouse=True)
def who(site):
    """Install a diarizer that numbers two speakers."""
    site.install("wlk-who", ["who"], DIARIZER)


@pytest.mark.parametrize(("given", "names"), NAMES.items(), ids=["numbered", "named"])
def test_every_format_has_the_speakers(transcribe, recording, given, names):
    """They are on standard output too, where nobody waits for the words."""
    path, (one, two) = recording("a.wav", 1, 2, 3), names

    def written(style):
        return transcribe(path, *WHO, *given, "--format", style).out

    events = list(map(json.loads, written("jsonl").splitlines()))
    turns = [event["speaker"] for event in events if event["event"] == "speaker"]

    assert written("text") == f"{one}: one two\n{two}: three\n"
    assert f"\n{one}: one two\n" in written("srt")
    assert f"\n<v {two}>three\n" in written("vtt")
    assert [each["speaker"] for each in json.loads(written("json"))["tokens"]] == [one, one, two]
    assert turns == [one, two]


def test_speakers_change_no_word(transcribe, recording):
    """Words and times are those of a run without a diarizer."""
    path = recording("a.wav", *range(10))
    plain, labelled = (
        json.loads(transcribe(path, *more, "--format", "json").out) for more in ((), WHO)
    )
    without = [token | {"speaker": None} for token in labelled["tokens"]]

    assert labelled["text"] == plain["text"]
    assert without == plain["tokens"]


def test_every_recording_begins_with_the_first_speaker(transcribe, recording, tmp_path):
    """The diarizer is reset between recordings and closed at the end."""
    files = [recording(f"{name}.wav", 1, 2, 3) for name in "ab"]
    done = transcribe(*files, *WHO, "--format", "srt", "--output", f"{tmp_path}/out/")
    results = [(tmp_path / "out" / f"{name}.srt").read_text() for name in "ab"]
    opened = importlib.import_module("wlk_who_plugin").opened

    assert done.status == 0
    assert results[0] == results[1]
    assert "Speaker 1: one two" in results[0]
    assert all(diarizer.is_closed for diarizer in opened)


ONE, TWO = ASRToken(0.0, 1.0, " one"), ASRToken(1.0, 2.0, " two")
SAID = (Commit((ONE, TWO), 2.0), Endpoint(2.0, "silence", 2.5))


@pytest.fixture
def watched():
    """Return the format of a terminal whose diarizer needs a second of audio."""
    form = new_format("text", has_speakers=False, has_translations=True, in_lines=True)
    return LateSpeakers(form, 1.0)


def written(form, *events):
    """Return what each event writes."""
    return [form.push(event) for event in events]


def test_a_line_on_a_terminal_waits_for_the_name_of_its_speaker(watched):
    """The translation, which was known before, comes below what it translates."""
    translation = Translation(TranslatedText("EINS ZWEI", 0.0, 2.0, "de"), 2.6)
    first = SpeakerTurn(SpeakerSpan("Anna", 0.0, 1.0), 3.0)
    second = SpeakerTurn(SpeakerSpan("Ben", 1.0, 2.5), 3.5)

    assert written(watched, *SAID, translation, first) == [""] * 4
    assert watched.push(second) == "Anna: one\nBen: two\n  EINS ZWEI\n"


@pytest.mark.parametrize(
    "event",
    [
        Endpoint(9.0, "silence", 9.0),
        Failure(BackendError("no memory"), False, 3.0, annotator="diarizer"),
    ],
    ids=["nobody is found", "the diarizer fails"],
)
def test_a_line_without_a_speaker_is_printed_after_the_longest_delay(watched, event):
    """A failure tells that no speaker will follow."""
    assert written(watched, *SAID, event) == ["", "", "one two\n"]


def test_after_a_diarizer_has_failed_no_line_waits(watched):
    """Its delay is over for the rest of the run."""
    failure = Failure(BackendError("no memory"), False, 1.0, annotator="diarizer")

    assert written(watched, failure, *SAID) == ["", "", "one two\n"]
