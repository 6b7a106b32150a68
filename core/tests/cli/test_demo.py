from __future__ import annotations

import attrs
import pytest

from wlk_core.streaming.words import Word
from wlk_core.testing import digits
from wlk_core.testing.digits import Clip
from wlk_core.testing.scripted_spec import SCRIPTED_SPEC

WORDS = ("four", "two", "seven", "seven", "one")


@pytest.fixture(autouse=True)
def sample(monkeypatch, save, said):
    """Put coded audio in the place of the sample, one spoken word of it unheard of."""
    audio = said(4, 2, 7, 7, 1)
    path = save("demo.wav", audio)
    words = tuple(
        Word(0.08 + 0.48 * place, 0.32 + 0.48 * place, f" {text}")
        for place, text in enumerate(("four", "two", "seven", "seven", "none"))
    )
    monkeypatch.setattr(digits, "load_clip", lambda _name: Clip(audio, words))
    monkeypatch.setattr(digits, "clip_path", lambda _name: path)

    class Everything:
        frame_samples = 512

        def __call__(self, _frame):
            return 1.0

        def reset(self):
            pass

    monkeypatch.setattr("wlk_core.vad.SileroDetector", Everything)


def test_the_demo_prints_words_with_their_times_and_figures(command):
    """Each word is a line; length, latency and real-time factor come last."""
    done = command("demo", "--fast")

    lines = done.out.splitlines()

    assert (done.status, done.err) == (0, "")
    assert lines[0] == "2.5 s of spoken digits, heard by toy:"
    assert [line.split() for line in lines[1:6]] == [
        [f"{0.08 + 0.48 * place:.2f}", f"{0.32 + 0.48 * place:.2f}", text]
        for place, text in enumerate(WORDS)
    ]
    assert lines[6] == "2.48 s of audio, 5 words, 4 of the 5 spoken"
    assert lines[7].startswith("median latency ")
    assert lines[7].endswith(" s behind the end of a word, computing left out")
    assert lines[8].startswith("real-time factor 0.")


def test_the_demo_is_live_unless_told_otherwise(command, monkeypatch):
    """The sample is given as it would be spoken, and the latency is by the clock on the wall."""
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)

    done = command("demo")

    assert len(slept) == 5
    assert "computing included" in done.out


def test_a_backend_without_the_model_is_passed_over(command, site):
    """The demo takes the best backend that brings the digits model."""
    site.install(
        "wlk-big",
        "big",
        """
import attrs
from wlk_core import hookimpl
from wlk_core.testing.scripted_spec import SCRIPTED_SPEC

@hookimpl
def wlk_backends():
    yield attrs.evolve(SCRIPTED_SPEC, name="big", preference=99, models={}, default_model=None)
""",
    )

    assert command("demo", "--fast").out.startswith("2.5 s of spoken digits, heard by toy:")
    done = command("demo", "--backend", "big")
    assert done.status == 1
    assert "backend big brings no digits model" in done.err


def test_the_sample_brings_what_the_demo_needs():
    """The declaration of the scripted backend names the model of the demo."""
    assert "digits" in attrs.asdict(SCRIPTED_SPEC, recurse=False)["models"]
