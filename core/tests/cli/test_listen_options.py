"""Options of ``listen``: who speaks, and when an utterance begins and ends."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_core.vad import SilenceGate

SUFFIXES = (".txt", ".srt", ".vtt", ".json", ".wav")


def blocks_of(audio):
    """Return audio in blocks of 50 ms."""
    return partition(audio, 0.05)


DIARIZER = """
from wlk_core.plugins import AnnotatorSpec, hookimpl
from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.tokens import SpeakerSpan

opened = []

@hookimpl
def wlk_diarizers():
    return [AnnotatorSpec(
        kind="diarizer", name="who", api=1, summary="finds speakers", load=f"{__name__}:load",
    )]

def load(spec, model, **options):
    spans = [SpeakerSpan("anna", 0.0, 0.9), SpeakerSpan("bert", 0.9, 9.0)]
    opened.append(ScriptedDiarizer(spans, max_delay=0.3))
    return opened[-1]
"""


def test_speakers_are_in_every_file(site, listen, microphone, spoken, tmp_path):
    """They come after the words, so that standard output has none of them."""
    site.install("wlk-who", "who", DIARIZER)
    microphone(blocks_of(spoken(1, 2, 3)))
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen("--diarizer", "who", *saves)
    text, srt, vtt, document, _ = (path.read_bytes() for path in paths)
    speakers = [token["speaker"] for token in json.loads(document)["tokens"]]

    assert (0, "one two three\n", "") == done
    assert ["anna", "bert"] == list(dict.fromkeys(speakers))
    assert text.decode().startswith("anna: one")
    assert "\nbert: " in text.decode()
    assert b"\nanna: one" in srt
    assert b"<v bert>" in vtt
    (diarizer,) = importlib.import_module("wlk_who_cli_plugin").opened
    assert diarizer.is_closed


def test_the_live_view_names_who_speaks(monkeypatch, site, listen, microphone, spoken):
    """As soon as the diarizer has found out."""
    site.install("wlk-who", "who", DIARIZER)
    monkeypatch.setattr("wlk_core.cli.live_view._is_terminal", lambda: True)
    microphone([*blocks_of(spoken(1, 2, 3, 4)), *[np.zeros(800, np.float32)] * 30])
    drawn = listen("--diarizer", "who").err

    assert -1 < drawn.find("microphone  anna") < drawn.find("microphone  bert")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--diarizer", "else"], 1, "no diarizer called 'else'; installed: none"),
        (["--vad-threshold", "0.4"], 2, "--no-vad excludes the options --vad-...; choose one"),
    ],
)
def test_a_diarizer_or_parameter_that_is_not_there_is_one_line(  # noqa: PLR0917 -- fixtures
    arguments, status, message, listen, microphone, toy_engine
):
    """No model is loaded for it."""
    microphone([])
    done = listen(*arguments)

    assert status == done.status
    assert message in done.err
    assert not getattr(toy_engine, "LOADED", [])


@pytest.mark.parametrize("name", ["listen", "transcribe"])
def test_the_parameters_of_voice_activity_detection_reach_the_gate(  # noqa: PLR0917 -- fixtures
    name, monkeypatch, command, microphone, save, spoken
):
    """Names are those of users; the gate gets lengths that add up to the silence."""
    seen = []

    def gate(_detector, **lengths):
        seen.append(lengths)
        return SilenceGate(_detector, **lengths)

    monkeypatch.setattr("wlk_core.vad.gate.SilenceGate", gate)
    microphone([])
    start = [name] if name == "listen" else [name, save("a.wav", spoken(1))]
    options = ("--vad-threshold", "0.4", "--vad-silence", "0.7", "--vad-pre-roll", "0.1")
    assert 0 == command(*start, *options).status
    (lengths,) = seen

    assert 0.4 == lengths["threshold"]
    assert 0.1 == lengths["pre_roll"]
    assert 0.6 == pytest.approx(lengths["hang_over"] + lengths["min_silence"])
    assert "longer silence" in command(*start, "--vad-silence", "0.2").err
    assert "--no-vad excludes" in command(*start, "--no-vad", "--vad-silence", "0.8").err
