"""The size of captions and the names of speakers, as options of the commands."""

from __future__ import annotations

import json

import pytest

DIARIZER = """
from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.tokens import SpeakerSpan

@hookimpl
def wlk_diarizers():
    return [AnnotatorSpec(
        kind="diarizer", name="who", api=1, summary="finds speakers", load=f"{__name__}:load",
    )]

def load(spec, model, **options):
    spans = [SpeakerSpan(0, 0.0, 0.9), SpeakerSpan(1, 0.9, 9.0)]
    return ScriptedDiarizer(spans, max_delay=0.3)
"""


@pytest.fixture
def who(site):
    """Install a diarizer that numbers two speakers."""
    site.install("wlk-who", ["who"], DIARIZER)


@pytest.mark.usefixtures("who")
@pytest.mark.parametrize(
    "given", [["--speaker-names", " Anna, Ben"], []], ids=["named", "numbered"]
)
def test_speakers_have_the_same_names_in_every_file(listen, microphone, spoken, tmp_path, given):
    """A numbered speaker is "Speaker 1" unless the user named it."""
    microphone(spoken(1, 2, 3))
    paths = [tmp_path / f"talk.{suffix}" for suffix in ("txt", "srt", "vtt", "json")]
    saves = [argument for path in paths for argument in ("--save", path)]
    one, two = ("Anna", "Ben") if given else ("Speaker 1", "Speaker 2")

    assert listen("--diarizer", "who", *saves, *given).status == 0
    text, srt, vtt, document = (path.read_text() for path in paths)
    tokens = json.loads(document)["tokens"]
    assert text.startswith(f"{one}: one")
    assert f"\n{two}: " in text
    assert f"\n{one}: one" in srt
    assert f"<v {two}>" in vtt
    assert list(dict.fromkeys(token["speaker"] for token in tokens)) == [one, two]


def test_captions_have_the_size_that_was_chosen(transcribe, recording):
    """Lines, captions of text and segments of JSON follow it."""
    path = recording("a.wav", *range(1, 9))
    size = ("--max-line-width", "10", "--max-lines", "1")
    srt = transcribe(path, "--format", "srt", *size).out
    document = json.loads(transcribe(path, "--format", "json", *size).out)
    lines = [cue.splitlines()[2:] for cue in srt.strip().split("\n\n")]

    assert [len(each) for each in lines] == [1] * len(lines)
    assert max(len(line) for each in lines for line in each) <= 10
    assert [each["text"] for each in document["segments"]] == [each[0] for each in lines]
    assert transcribe(path, *size).out.split("\n") == [*(each[0] for each in lines), ""]


@pytest.mark.usefixtures("who")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--speaker-names", "Anna"], "--speaker-names needs --diarizer NAME or"),
        (["--diarizer", "who", "--speaker-names", "Anna,,Ben"], "as in Anna,Ben, got 'Anna,,Ben'"),
        (["--diarizer", "who", "--speaker-names", ""], "as in Anna,Ben, got ''"),
        (["--max-lines", "0"], "0 is not in the range x>=1"),
        (["--max-line-width", "x"], "'x' is not a valid integer"),
    ],
)
def test_a_choice_that_cannot_be_followed_is_refused(listen, arguments, message):
    """The message names what is missing or how names are written."""
    done = listen(*arguments)

    assert done.status == 2
    assert message in done.err
