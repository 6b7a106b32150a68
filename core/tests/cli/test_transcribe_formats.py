"""What `transcribe` writes in each format, for one recording and for several."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wlk_core.cli.outputs import SUFFIXES


def test_words_go_to_standard_output(transcribe, recording):
    """A recording becomes a line of text, and nothing else is printed."""
    assert transcribe(recording("a.wav", 1, 2, 3)) == (0, "one two three\n", "")


def test_a_line_is_a_caption(transcribe, save, spoken):
    """A pause begins a new line."""
    path = save("a.wav", spoken(1, 2), np.zeros(32000), spoken(3))

    assert transcribe(path).out == "one two\nthree\n"


def test_silence_gives_no_text(transcribe, save):
    """A recording without speech is not a failure, and one line tells it from a defect."""
    path = save("a.wav", np.zeros(16000))
    line = f"wlk-core: {path}: no words were recognised by model digits\n"

    assert transcribe(path) == (0, "", line)


def test_json_has_exactly_the_pinned_fields(transcribe, recording):
    """The object of one file is what scripts rely on."""
    path = recording("a.wav", 1, 2)
    done = transcribe(path, "--format", "json", "--language", "en")

    result = json.loads(done.out)
    stats = result.pop("stats")

    assert result == {
        "file": str(path),
        "backend": "toy",
        "model": "digits",
        "language": "en",
        "duration": 1.04,
        "text": "one two",
        "tokens": [
            {
                "start": 0.08,
                "end": 0.32,
                "text": result["tokens"][0]["text"],
                "probability": 1.0,
                "speaker": None,
                "language": "en",
            },
            {
                "start": 0.56,
                "end": 0.8,
                "text": " two",
                "probability": 1.0,
                "speaker": None,
                "language": "en",
            },
        ],
        "segments": [{"start": 0.08, "end": 0.8, "text": "one two", "speaker": None}],
        "silences": [],
    }
    assert stats["audio_seconds"] == pytest.approx(1.04)
    assert {"encoder_frames", "decoder_positions", "state_bytes", "busy_seconds"} < stats.keys()


@pytest.mark.parametrize("language", [[], ["--language", "auto"]], ids=["none", "auto"])
def test_the_language_is_the_detected_one(transcribe, recording, language):
    """Without a forced language the detected one is reported."""
    done = transcribe(recording("a.wav", 1), "--format", "json", *language)

    assert json.loads(done.out)["language"] == "en"


def test_json_lines_are_events_as_they_happen(transcribe, recording):
    """Each line is an event with its audio time; the last one is the end."""
    done = transcribe(recording("a.wav", 1, 2, 3, 4, 5, 6, 7, 8), "--format", "jsonl")

    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = {event["event"] for event in events}
    times = [event["audio_time"] for event in events]
    tokens = [token for event in events for token in event.get("tokens", ()) if is_commit(event)]

    assert kinds == {"hypothesis", "commit", "end"}
    assert times == sorted(times)
    assert "".join(token["text"] for token in tokens).split() == [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ]  # fmt: skip
    assert events[-1]["event"] == "end"
    assert events[-1]["stats"]["audio_seconds"] == pytest.approx(3.92)


def is_commit(event):
    """Return whether an event is a commit."""
    return event["event"] == "commit"


def test_pauses_are_silences(command, save, spoken, monkeypatch):
    """With the voice detector, pauses are left out, reported and clocked."""

    class Loudness:
        frame_samples = 512

        def __call__(self, frame):
            return float(np.abs(frame).max() > 0)

        def reset(self):
            pass

    monkeypatch.setattr("wlk_core.vad.gate.SileroDetector", Loudness)
    path = save("a.wav", spoken(1, 2), np.zeros(64000), spoken(3))

    result = json.loads(command("transcribe", path, "--format", "json").out)

    (silence,) = result["silences"]
    assert result["text"] == "one two three"
    assert 0.9 < silence["start"] < 2.5
    assert 3.5 < silence["end"] < 5.2
    assert result["tokens"][2]["start"] == pytest.approx(5.12, abs=0.05)


def test_subtitles(transcribe, recording):
    """A recording becomes numbered cues, or WebVTT cues below their header."""
    path = recording("a.wav", 1, 2)

    assert transcribe(path, "--format", "srt").out == (
        "1\n00:00:00,080 --> 00:00:00,800\none two\n\n"
    )
    assert transcribe(path, "--format", "vtt").out == (
        "WEBVTT\n\n00:00:00.080 --> 00:00:00.800\none two\n\n"
    )


@pytest.mark.parametrize("style", SUFFIXES)
def test_output_holds_what_standard_output_would(transcribe, recording, tmp_path, style):
    """A file given with --output gets the same text."""
    path = recording("a.wav", 1, 2, 3)
    target = tmp_path / "out"
    printed = transcribe(path, "--format", style).out

    assert transcribe(path, "--format", style, "--output", target) == (0, "", "")
    assert without_clock(target.read_text()) == without_clock(printed)


def without_clock(text):
    """Drop the figures that depend on how fast this machine is."""
    drop = ("busy_seconds", "wall_seconds")
    return [line for line in text.split(",") if not any(name in line for name in drop)]
