"""OpenAI's client reads the speakers of `wlk-serve --diarizer`, with an installed plugin."""

from __future__ import annotations

from textwrap import wrap

import pytest

from wlk_conformance.testing.digits import clip_path

openai = pytest.importorskip("openai", reason="install openai[realtime], or run nox -s clients")

PLUGIN = """
from wlk_core.plugins import AnnotatorSpec, Option, hookimpl
from wlk_conformance.testing.annotators import ScriptedDiarizer, ScriptedTranslator
from wlk_core.tokens import SpeakerSpan

@hookimpl
def wlk_diarizers():
    return [AnnotatorSpec(
        kind="diarizer", name="scripted", api=1, summary="knows who spoke",
        load="wlk_scripted:load",
    )]

@hookimpl
def wlk_translators():
    names = ("target_language", "source_language")
    return [AnnotatorSpec(
        kind="translator", name="scripted", api=1, summary="shouts",
        load="wlk_scripted:translator", options=[Option(name=name) for name in names],
    )]

def load(spec, model, **options):
    return ScriptedDiarizer([SpeakerSpan(0, 0.0, CHANGE), SpeakerSpan("bert", CHANGE, 60.0)])

def translator(spec, model, **options):
    return ScriptedTranslator()
"""


@pytest.fixture
def change(expected):
    """Return the start of the first word by the second speaker."""
    return expected.starts[len(expected.starts) // 2]


@pytest.fixture
def server(serve_with, tmp_path, change):
    """Return a server that finds two speakers and can translate."""
    (tmp_path / "wlk_scripted.py").write_text(PLUGIN.replace("CHANGE", str(change)))
    info = tmp_path / "wlk_scripted-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wlk-scripted\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[wlk.plugins]\nscripted = wlk_scripted\n")
    options = ("--diarizer", "scripted", "--served-name", "whisper-1")
    options += ("--translate-to", "de", "--translator", "scripted")
    with serve_with(*options, plugins=tmp_path) as server:
        yield server


@pytest.fixture
def client(server):
    """Return a client of the server."""
    with openai.OpenAI(base_url=server.address, api_key="secret", max_retries=0) as client:
        yield client


@pytest.fixture
def spoken(expected, change):
    """Return the words of each speaker."""
    pairs = list(zip(expected.words, expected.starts, strict=True))
    first = [word for word, start in pairs if start < change]
    return {"Speaker 1": first, "bert": expected.words[len(first) :]}


def by_speaker(segments):
    """Return the words in segments, by speaker, in order."""
    found = {}
    for segment in segments:
        found.setdefault(segment.speaker, []).extend(segment.text.split())
    return found


def test_a_recording_and_its_events_have_the_speakers_of_the_plugin(client, expected, spoken):
    """The client parses the answers as its own types, for a model name that it knows."""
    create = client.audio.transcriptions.create
    form = {"file": clip_path("demo"), "model": "whisper-1", "response_format": "diarized_json"}
    whole = create(**form)
    events = list(create(**form, stream=True))
    segments = [event for event in events if event.type == "transcript.text.segment"]

    assert type(whole).__name__ == "TranscriptionDiarized"
    assert whole.text.split() == expected.words
    assert by_speaker(whole.segments) == by_speaker(segments) == spoken
    assert [model.id for model in client.models.list()] == ["whisper-1"]


def test_the_captions_of_obs_have_names_and_a_second_language(
    server, example, spoken, expected, tmp_path
):
    """A name is where the speaker changes; no word is lost or doubled when the names come."""
    path = tmp_path / "captions.txt"
    example("obs_captions.py", server.address, path, clip_path("demo"))
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [f"{name}: {' '.join(words)}" for name, words in spoken.items()]
    wrapped = [line for row in rows for line in wrap(row, 42)]

    assert lines == [*wrapped[-2:], expected.turns[-1].upper()]
