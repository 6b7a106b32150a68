from __future__ import annotations

import pytest

from wlk_core.cli import transcribe
from wlk_core.vad import silence_gate

WORDS = ("four", "two", "seven", "seven", "one")


@pytest.fixture(autouse=True)
def sample(monkeypatch, save, spoken):
    """Put coded audio in the place of the sample."""
    path = save("demo.wav", spoken(4, 2, 7, 7, 1))
    monkeypatch.setattr(transcribe, "sample_path", lambda: path)

    class Everything:
        frame_samples = 512

        def __call__(self, _frame):
            return 1.0

        def reset(self):
            pass

    monkeypatch.setattr(f"{silence_gate.__module__}.SileroDetector", Everything)


def test_the_demo_prints_words_with_their_times_and_figures(command):
    """Each word is a line; length, latency and real-time factor come last."""
    done = command("demo", "--fast")

    lines = done.out.splitlines()

    assert (done.status, done.err) == (0, "")
    assert lines[0] == "2.5 s of spoken digits, transcribed by toy:"
    assert [line.split() for line in lines[1:6]] == [
        [f"{0.08 + 0.48 * index:.2f}", f"{0.32 + 0.48 * index:.2f}", text]
        for index, text in enumerate(WORDS)
    ]
    assert lines[6] == "2.48 s of audio, 5 words"
    assert lines[7].startswith("final ")
    assert lines[7].endswith(" s after the end of a word (median, computing left out)")
    assert lines[8].startswith("real-time factor 0.")


def test_the_demo_is_live_by_default(command, monkeypatch):
    """The sample is given as it would be spoken."""
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)

    command("demo")

    assert len(slept) == 5


def test_the_recording_can_be_kept(command, tmp_path):
    """The file is the recording, and a second run finds it in its place."""
    path = tmp_path / "kept.flac"

    first = command("demo", "--fast", "--save", path)
    second = command("demo", "--fast", "--save", path)

    assert (first.status, second.status) == (0, 0)
    assert path.read_bytes() == transcribe.sample_path().read_bytes()


def test_no_other_file_is_replaced_by_the_recording(command, tmp_path):
    """A file with other content, and a folder that does not exist, end the run before a word."""
    other = tmp_path / "notes.txt"
    other.write_text("keep me", encoding="utf-8")

    replaced = command("demo", "--save", other)
    absent = command("demo", "--save", tmp_path / "absent" / "demo.flac")

    assert (replaced.status, replaced.out, absent.status, absent.out) == (2, "", 2, "")
    assert f"--save {other}: it exists; replace it" in replaced.err
    assert f"there is no directory {tmp_path / 'absent'}" in absent.err
    assert other.read_text(encoding="utf-8") == "keep me"


BIG = """
from wlk_core.plugins import BackendSpec, hookimpl

@hookimpl
def wlk_backends():
    return [BackendSpec(name="big", api=1, summary="big", load="nothing:load", preference=99)]
"""


def test_a_backend_without_the_model_is_passed_over(command, site):
    """The demo takes the best backend that brings the digits model."""
    site.install("wlk-big", "big", BIG)

    assert command("demo", "--fast").out.startswith("2.5 s of spoken digits, transcribed by toy:")
    done = command("demo", "--backend", "big")
    assert done.status == 1
    assert "backend big brings no digits model for the demo; backends that do: toy" in done.err
