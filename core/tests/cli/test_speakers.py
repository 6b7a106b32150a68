"""Speakers that a diarizer finds for ``listen``, in its files and in the live view."""

from __future__ import annotations

import importlib
import json

import numpy as np

from wlk_conformance.testing import partition

SUFFIXES = (".txt", ".srt", ".vtt", ".json", ".jsonl", ".wav")


def blocks_of(audio):
    """Return audio in blocks of 50 ms."""
    return partition(audio, 0.05)


DIARIZER = """
from wlk_core.plugins import AnnotatorSpec
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
    site.install("wlk-who", ["who"], DIARIZER)
    microphone(blocks_of(spoken(1, 2, 3)))
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen("--diarizer", "who", *saves)
    text, srt, vtt, document, *_ = (path.read_bytes() for path in paths)
    speakers = [token["speaker"] for token in json.loads(document)["tokens"]]

    assert (0, "one two three\n", "") == done
    assert ["anna", "bert"] == list(dict.fromkeys(speakers))
    assert text.decode().startswith("anna: one")
    assert "\nbert: " in text.decode()
    assert b"\nanna: one" in srt
    assert b"<v bert>" in vtt
    (diarizer,) = importlib.import_module("wlk_who_plugin").opened
    assert diarizer.is_closed


def test_the_live_view_names_who_speaks(monkeypatch, site, listen, microphone, spoken):
    """As soon as the diarizer has found out."""
    site.install("wlk-who", ["who"], DIARIZER)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    microphone([*blocks_of(spoken(1, 2, 3, 4)), *[np.zeros(800, np.float32)] * 30])
    drawn = listen("--diarizer", "who").err

    assert -1 < drawn.find("microphone  anna") < drawn.find("microphone  bert")
