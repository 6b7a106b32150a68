"""What `transcribe` writes in each format, what it refuses and reports, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
import subprocess
import sys

import numpy as np
import pytest

from wlk_live.audio import decode_file
from wlk_live.cli.plan import SUFFIXES


def test_words_go_to_standard_output(transcribe, recording):
    """A recording becomes a line of text, and nothing else is printed."""
    assert transcribe(recording("a.wav", 1, 2, 3)) == (0, "one two three\n", "")


def test_a_line_is_a_caption(transcribe, save, spoken):
    """A pause starts a new line."""
    path = save("a.wav", spoken(1, 2), np.zeros(32000), spoken(3))

    assert transcribe(path).out == "one two\nthree\n"


def test_silence_gives_no_text(transcribe, save):
    """A recording without speech is not a failure; one line says that there are no words."""
    path = save("a.wav", np.zeros(16000))
    line = f"wlk-core: {path}: no words were recognised by model digits\n"

    assert transcribe(path) == (0, "", line)


def test_json_has_exactly_the_pinned_fields(transcribe, recording):
    """Scripts rely on the object of one file."""
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
    """Each line is an event with its audio time; the last is "end"."""
    done = transcribe(recording("a.wav", 1, 2, 3, 4, 5, 6, 7, 8), "--format", "jsonl")

    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = {event["event"] for event in events}
    times = [event["audio_time"] for event in events]
    commits = [event for event in events if event["event"] == "commit"]
    tokens = [token for commit in commits for token in commit["tokens"]]

    assert kinds == {"hypothesis", "commit", "end"}
    assert times == sorted(times)
    assert "".join(token["text"] for token in tokens).split() == [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ]  # fmt: skip
    assert events[-1]["event"] == "end"
    assert events[-1]["stats"]["audio_seconds"] == pytest.approx(3.92)


@pytest.mark.usefixtures("loud_is_speech")
def test_pauses_are_silences(command, save, spoken):
    """With the voice detector, pauses are left out and reported, and the clock counts them."""
    path = save("a.wav", spoken(1, 2), np.zeros(64000), spoken(3))

    result = json.loads(command("transcribe", path, "--format", "json").out)

    (silence,) = result["silences"]
    assert result["text"] == "one two three"
    assert 0.8 < silence["start"] < 2.5
    assert 3.5 < silence["end"] < 5.2
    assert result["tokens"][2]["start"] == pytest.approx(5.12, abs=0.05)


def test_subtitles(transcribe, recording):
    """A recording becomes numbered cues, or WebVTT cues below a header."""
    path = recording("a.wav", 1, 2)

    assert transcribe(path, "--format", "srt").out == (
        "1\n00:00:00,080 --> 00:00:00,880\none two\n\n"
    )
    assert transcribe(path, "--format", "vtt").out == (
        "WEBVTT\n\n00:00:00.080 --> 00:00:00.880\none two\n\n"
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
    """Drop the numbers that depend on the speed of this machine."""
    drop = ("busy_seconds", "wall_seconds")
    return [line for line in text.split(",") if not any(name in line for name in drop)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.wav", None),
        ("empty.wav", b""),
        ("noise.mp3", bytes(range(256)) * 8),
        ("list.m3u8", b"#EXTM3U\na.wav\n"),
    ],
    ids=["missing", "empty", "no audio", "playlist"],
)
def test_one_bad_file_does_not_stop_the_others(transcribe, recording, tmp_path, name, content):
    """A file that cannot be read is reported in one line with status 1; the rest is transcribed."""
    bad = tmp_path / name
    if content is not None:
        bad.write_bytes(content)

    done = transcribe(recording("a.wav", 1), bad, recording("b.wav", 2))

    assert (done.status, done.out) == (1, "one\ntwo\n")
    assert done.err.startswith("wlk-core: ")
    assert name in done.err
    assert done.err.count("\n") == 1


def test_without_a_readable_file_no_model_is_loaded(transcribe, tmp_path):
    """Files are opened first, so that no model is loaded or fetched in vain."""
    done = transcribe(tmp_path / "missing.wav", "--model", "no/such-model", "--offline")

    assert done.status == 1
    assert "missing.wav" in done.err
    assert "no/such-model" not in done.err


@pytest.mark.parametrize("style", SUFFIXES)
def test_words_before_a_failure_are_kept(transcribe, save, spoken, style):
    """A damaged recording gives all the words before the damage, in a valid file."""
    path = save("a.wav", spoken(1, 2, 3, 4, 5, 6), np.full(16000, np.nan))

    done = transcribe(path, "--format", style)

    assert done.status == 1
    assert "expected finite samples" in done.err
    assert "six" in done.out
    if style == "json":
        result = json.loads(done.out)
        assert result["text"] == "one two three four five six"
        assert "expected finite samples" in result["incomplete"]
        assert result["stats"]["audio_seconds"] >= result["tokens"][-1]["end"]


def test_several_files_as_json_are_an_array(transcribe, recording, save, spoken):
    """A damaged file is an object with the words before the damage; without words it has none."""
    bad = save("bad.wav", spoken(1, 2, 3), np.full(99, np.nan))
    worse = save("worse.wav", np.full(99, np.nan))

    done = transcribe(bad, recording("b.wav", 4), worse, "--format", "json")

    assert done.status == 1
    assert [result["text"] for result in json.loads(done.out)] == ["one two three", "four"]
    assert transcribe(worse, "missing.wav", "--format", "json").out == "[]\n"


@pytest.fixture
def interrupted(monkeypatch):
    """Raise KeyboardInterrupt at the end of the sound of a recording."""

    def stop(path, **_options):
        yield from decode_file(path)
        raise KeyboardInterrupt

    monkeypatch.setattr("wlk_live.cli.playback.decode_file", stop)


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_array_is_valid(transcribe, recording):
    """Ctrl-C during the first of two files still closes the array."""
    done = transcribe(recording("a.wav", *range(10)), recording("b.wav", 1), "--format", "json")

    assert len(json.loads(done.out)) == 1


def test_an_engine_that_fails_for_good_is_reported_in_one_line(
    transcribe, recording, toy_engine, monkeypatch, clock
):
    """It is reported with the file after retries with pauses; the other files are still tried."""

    def broken(*_arguments, **_options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(toy_engine.Engine, "transcribe", broken)

    done = transcribe(recording("a.wav", 1), recording("b.wav", 1))

    lines = [line for line in done.err.splitlines() if "a.wav" in line or "b.wav" in line]
    assert (done.status, done.out) == (1, "")
    assert len(lines) == 2
    assert all("out of memory" in line for line in lines)
    assert clock.seconds - 50.0 == pytest.approx(2 * (0.1 + 0.2 + 0.4))


def test_a_stream_that_cannot_be_opened_does_not_stop_the_others(
    transcribe, recording, toy_engine, monkeypatch
):
    """A server can be full for a moment: the file is reported, and the next one is tried."""
    answers = iter([RuntimeError("no place is free")])
    open_stream = toy_engine.open_stream

    def full(*arguments):
        for error in answers:
            raise error
        return open_stream(*arguments)

    monkeypatch.setattr(toy_engine, "open_stream", full)

    done = transcribe(recording("a.wav", 1), recording("b.wav", 2))

    assert (done.status, done.out) == (1, "two\n")
    assert "a.wav" in done.err
    assert "no place is free" in done.err


@pytest.mark.parametrize(
    ("arguments", "text", "status"),
    [
        (["--backend", "nope"], "no backend called 'nope'; installed: toy", 1),
        (["--model", "nope"], "got 'nope'", 1),
        (["--language", "xx"], "does not support the language 'xx'; expected one of: en, de", 2),
        (["--task", "translate"], "cannot do the task 'translate'", 2),
        (["--policy", "nope"], "policy must be one of local-agreement, alignatt; got 'nope'", 2),
        (["--option", "tick_sec=1"], "called 'tick_sec' (did you mean tick_seconds?)", 2),
        (["--policy", "alignatt", "--option", "policy=x"], "policy has two values, 'x' and", 2),
        (["--option", "tick_seconds=99"], "option tick_seconds must be between 0.1 and 10", 2),
        (["--chunk-seconds", "0"], "0.0 is not in the range", 2),
        (["--chunk-seconds", "nan"], "nan is not a number of seconds", 2),
        (["--format", "xml"], "'xml' is not one of", 2),
        (["--output", "no/such/path"], "there is no directory", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_choice_is_reported_in_one_line(transcribe, recording, arguments, text, status):
    """An invalid choice is refused before anything is decoded, and the valid ones are named."""
    done = transcribe(recording("a.wav", 1), *arguments)

    assert (done.status, done.out) == (status, "")
    assert text in done.err
    assert done.err.count("\n") == 1


def test_offline_forbids_the_network_to_everything_below(transcribe, recording):
    """--offline sets the variable that huggingface_hub and the frameworks read."""
    transcribe(recording("a.wav", 1), "--offline")

    assert os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "status"),
    [("SIGINT", -signal.SIGINT), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131)],
)
def test_a_signal_ends_a_live_pipe_with_its_words(spawn, spoken, wav, name, status):
    """
    A process that reads a pipe prints what was committed when Ctrl-C or another signal ends it.

    After Ctrl-C it kills itself with SIGINT, which a shell reports as 130 and which ends its loops.
    """
    process = spawn("transcribe", "-", "--no-vad", "--backend", "toy", bufsize=0)
    process.stdin.write(wav(spoken(*range(10), *range(10))))
    first = process.stdout.read(4)
    process.send_signal(signal.Signals[name])
    _, err = process.communicate()

    assert first == b"zero"
    assert process.returncode == status
    assert err.strip() == b"wlk-core: interrupted; everything done so far is kept"


@pytest.mark.slow
def test_a_pipe_whose_writer_dies_in_a_sample_gives_its_words(spawn, spoken, wav):
    """Everything before the half sample is transcribed once, whatever FFmpeg says of it."""
    data = wav(spoken(*range(4)))
    process = spawn("transcribe", "-", "--no-vad", "--backend", "toy", bufsize=0)
    out, err = process.communicate(data[:-1])

    assert out.split() == b"zero one two three".split()
    # Some releases of FFmpeg take half a sample for damage, others drop it.
    assert (process.returncode, err.count(b"\n")) in {(0, 0), (1, 1)}


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(spawn, recording):
    """If the reader closes the pipe early, no line is printed; the status is that of SIGPIPE."""
    paths = [recording(f"{number}.wav", *range(10)) for number in range(3)]
    process = spawn("transcribe", *paths, "--no-vad", "--backend", "toy", "--format", "text")
    process.stdout.close()
    err = process.stderr.read()

    assert process.wait() == 141
    assert err == b""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_standard_output_on_a_full_disk_is_reported_in_one_line(site, recording):
    """A result that cannot be written is a failure, in one line."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "wlk_core", "transcribe", "--no-vad"),
                *("--backend", "toy", str(recording("a.wav", 1))),
            ],
            env=site.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"cannot write standard output: No space left on device" in done.stderr


@pytest.mark.slow
def test_a_process_reads_a_recording_from_its_input(spawn, spoken, wav):
    """A dash is standard input."""
    process = spawn("transcribe", "-", "--no-vad", "--backend", "toy")
    out, err = process.communicate(wav(spoken(4, 2)))

    assert (process.returncode, out, err) == (0, b"four two\n", b"")
