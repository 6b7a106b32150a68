"""`transcribe --channels`: each channel a stream, and one transcript in the order of time."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from wlk_core.cli.signals import SIGNALS

CHANNELS = ("--channels",)


def tokens_of(done):
    """Return the tokens of a document, by channel."""
    tokens = json.loads(done.out)["tokens"]
    drop = {"channel", "speaker"}
    return [
        [{key: each[key] for key in each.keys() - drop} for each in tokens if each["channel"] == n]
        for n in (0, 1)
    ]


def test_the_words_of_each_channel_are_those_of_a_run_of_its_own(transcribe, save, call, sides):
    """With their times and probabilities, whatever the others say."""
    drop = {"speaker"}
    alone = [
        json.loads(transcribe(save(f"{n}.wav", side), "--format", "json").out)["tokens"]
        for n, side in enumerate(sides)
    ]
    own = [[{key: each[key] for key in each.keys() - drop} for each in some] for some in alone]

    assert tokens_of(transcribe(call, *CHANNELS, "--format", "json")) == own
    assert [len(tokens) for tokens in own] == [3, 3]


@pytest.mark.parametrize(
    ("given", "names"),
    [((), ["Channel 1", "Channel 2"]), (("--speaker-names", "Anna,Ben"), ["Anna", "Ben"])],
    ids=["numbered", "named"],
)
def test_every_format_has_the_channels_in_the_order_of_time(transcribe, call, given, names):
    """A channel is the speaker of its words."""

    def written(style):
        return transcribe(call, *CHANNELS, *given, "--format", style).out

    one, two = names
    lines = [f"{one}: one two", f"{two}: four five six", f"{one}: three"]
    found = json.loads(written("json"))
    events = [json.loads(line) for line in written("jsonl").splitlines()]
    commits = [event for event in events if event["event"] == "commit"]
    cues = written("srt").split("\n\n")

    assert written("text").splitlines() == lines
    assert [cue.splitlines()[2:] for cue in cues if cue] == [[line] for line in lines]
    assert [cue.splitlines()[0] for cue in cues if cue] == ["1", "2", "3"]
    assert f"<v {two}>four five six\n" in written("vtt")
    assert found["text"] == "one two four five six three"
    assert [(each["speaker"], each["channel"]) for each in found["segments"]] == [
        (one, 0),
        (two, 1),
        (one, 0),
    ]
    assert [(each["speaker"], each["text"]) for each in found["channels"]] == [
        (one, "one two three"),
        (two, "four five six"),
    ]
    assert found["duration"] == pytest.approx(found["tokens"][-1]["end"], abs=0.5)
    assert [event["audio_time"] for event in events] == sorted(e["audio_time"] for e in events)
    for channel, name in enumerate(names):
        spoken = [t for e in commits if e["channel"] == channel for t in e["tokens"]]
        assert {token["speaker"] for token in spoken} == {name}
        assert len(spoken) == 3
    ends = [event for event in events if event["event"] == "end"]
    assert [event["channel"] for event in ends] == [0, 1]
    assert all(event["wall_seconds"] >= 0 for event in ends)


def test_a_recording_with_one_channel_has_one_speaker(transcribe, recording):
    """So that a folder of recordings can have both kinds."""
    assert transcribe(recording("a.wav", 1, 2), *CHANNELS).out == "Channel 1: one two\n"


def test_several_recordings_are_transcribed_by_channel(transcribe, call, recording, tmp_path):
    """To files, or as an array."""
    files = [call, recording("a.wav", 1)]
    transcribe(*files, *CHANNELS, "--format", "srt", "--output", f"{tmp_path}/out/")
    array = json.loads(transcribe(*files, *CHANNELS, "--format", "json").out)

    assert (tmp_path / "out" / "call.srt").read_text().count("-->") == 3
    assert [len(each["channels"]) for each in array] == [2, 1]


def test_several_recordings_may_be_transcribed_at_once(transcribe, call, recording, monkeypatch):
    """With a backend that batches; their order and words are the same."""
    files = [call, recording("a.wav", 1)]
    expected = transcribe(*files, *CHANNELS).out
    monkeypatch.setattr("wlk_live.cli.runs.streams_at_once", lambda _spec: 2)

    assert transcribe(*files, *CHANNELS).out == expected


def test_more_channels_than_the_bound_are_reported_in_one_line(transcribe, save, recording):
    """Each would be decoded and transcribed by itself; other recordings are not affected."""
    many = save("many.wav", np.zeros((16_000, 17), np.float32))
    done = transcribe(many, recording("a.wav", 1), *CHANNELS)

    assert (done.status, done.out) == (1, "Channel 1: one\n")
    assert done.err == f"wlk-core: {many}: expected at most 16 channels, got 17\n"


def test_standard_input_is_reported_because_it_cannot_be_read_twice(transcribe):
    """Before a model is loaded."""
    done = transcribe("-", *CHANNELS)

    assert done.status == 1
    assert "expected a file for --channels" in done.err


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--diarizer", "who"), "--channels and --diarizer cannot be used together"),
        (("--realtime",), "--channels and --realtime cannot be used together"),
    ],
)
def test_what_contradicts_channels_is_refused(transcribe, call, more, reason):
    """In one line, before anything is loaded."""
    done = transcribe(call, *CHANNELS, *more)

    assert (done.status, done.out) == (2, "")
    assert reason in done.err


def test_a_damaged_recording_has_the_words_of_every_channel_before_the_damage(
    transcribe, save, sides
):
    """The damage is reported once."""
    sound = np.stack(sides, axis=1)
    sound[-100:] = np.inf
    damaged = save("damaged.wav", sound)
    done = transcribe(damaged, *CHANNELS)

    assert done.status == 1
    assert done.out.count("Channel 2: four five six\n") == 1
    assert len(done.err.splitlines()) == 1


def test_a_signal_in_the_second_channel_keeps_what_is_committed(
    transcribe, call, toy_engine, monkeypatch, own_signals
):
    """The document says why it is incomplete; the first channel has all its words."""
    SIGNALS.reset()
    SIGNALS.install()
    decode = toy_engine.Engine.transcribe
    heard = []

    def interrupted(self, audio, **options):
        answer = decode(self, audio, **options)
        heard.extend(word.text.strip() for word in answer.words)
        if "five" in heard:
            signal.raise_signal(signal.SIGTERM)
        return answer

    monkeypatch.setattr(toy_engine.Engine, "transcribe", interrupted)
    done = transcribe(call, *CHANNELS, "--format", "json", "--chunk-seconds", "0.5")
    found = json.loads(done.out)

    assert done.status == 143
    assert found["incomplete"] == "stopped by SIGTERM"
    assert found["channels"][0]["text"] == "one two three"
    assert found["channels"][1]["stats"] is None
