"""The command ``listen``: a microphone or a file in real time, its speakers, and how it ends."""

from __future__ import annotations

import importlib
import json
import re
import signal

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_core.cli.signals import SIGNALS, SignalReceived
from wlk_core.errors import AudioFormatError
from wlk_live.cli.playback import Playback
from wlk_live.errors import AudioDeviceError
from wlk_live.microphone import Captured

SUFFIXES = (".txt", ".srt", ".vtt", ".json", ".jsonl", ".wav")


def test_words_of_a_microphone_go_to_standard_output(listen, microphone, spoken):
    """The device is released at the end."""
    opened = microphone(spoken(1, 2, 3))

    assert listen() == (0, "one two three\n", "")
    assert opened.is_closed


def test_a_recording_is_played_in_real_time(listen, clock, recording, transcribe):
    """The words are those of ``transcribe``, and playing takes as long as the recording."""
    path = recording("a.wav", 1, 2, 3, 4, 5, 6)

    words = transcribe(path).out
    assert clock.seconds == 50
    assert listen("--input", path).out == words
    assert clock.seconds == pytest.approx(52.96)
    assert transcribe("--realtime", path).out == words
    assert clock.seconds == pytest.approx(55.92)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_every_word(  # noqa: PLR0917 -- fixtures
    number, status, listen, microphone, spoken, tmp_path
):
    """Ctrl-C is the usual end of a run; the last words are decoded and every file is complete."""
    microphone(
        [*partition(spoken(1, 2, 3), 0.05), SignalReceived(number), *partition(spoken(4), 0.05)]
    )
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen(*saves)
    SIGNALS.reset()

    assert done[:2] == (status, "one two three\n")
    assert json.loads(paths[3].read_text())["text"] == "one two three"
    assert paths[0].read_text() == "one two three\n"


def test_a_lost_device_is_reported_once_and_the_run_continues(listen, microphone, spoken):
    """The words after the device returns are transcribed too."""
    problem = "USB Audio gives no audio; connect it again, or choose another with --device"
    microphone([spoken(1), problem, problem, None, Captured(spoken(2), 3.0)])
    done = listen()

    assert done[:2] == (0, "one\ntwo\n")
    assert done.err.count("gives no audio") == 1


def test_an_engine_that_is_too_slow_loses_no_word(listen, microphone, spoken):
    """The audio waits, and one line names the remedy."""
    talk = np.concatenate([spoken(1, 2, 3), np.zeros(16_000 * 200, np.float32), spoken(4)])

    opened = microphone([])

    class AtOnce(type(opened)):
        def read(self, timeout):
            """Return everything at once."""
            blocks, self.script = self.script, []
            return blocks or super().read(timeout)

    opened.__class__ = AtOnce
    opened.script = [Captured(talk[i : i + 160_000]) for i in range(0, len(talk), 160_000)]

    done = listen()

    assert done[:2] == (0, "one two three\nfour\n")
    assert len(done.err.splitlines()) == 1
    assert re.search(r"is too slow for live audio: it takes \d+\.\d s for a second", done.err)
    assert "tick_seconds" in done.err


def test_audio_that_comes_while_the_model_works_delays_no_word(
    listen, microphone, spoken, tmp_path
):
    """PortAudio delivers blocks like this: one is there at once when it is due."""
    text = tmp_path / "talk.txt"
    written = []
    opened = microphone(spoken(*range(9)))

    class Prompt(type(opened)):
        is_due = False

        def read(self, timeout):
            """Return a block at every other call, even while the model has work."""
            self.is_due = not self.is_due
            if timeout == 0 and not self.is_due:
                return []
            written.append(text.read_text() if text.exists() else "")
            return super().read(1.0)

    opened.__class__ = Prompt
    done = listen("--save", text)

    assert done == (0, "zero one two three four five six seven eight\n", "")
    assert written[len(written) // 2].startswith("zero one")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--save", "a.mp3"], 2, "expected the extension .txt, .json, .jsonl, .srt, .vtt, .wav"),
        (["--save", "no/a.txt"], 2, "there is no directory no"),
        (["--save", "old.txt"], 2, "it exists; replace it with --force"),
        (["--device", "1", "--input", "a.wav"], 2, "cannot be used together"),
        (
            ["--input", "old.txt", "--save", "old.txt", "--force"],
            2,
            "would overwrite the recording",
        ),
        (["--input", "absent.wav"], 1, "absent.wav"),
        (["--diarizer-option", "a=1"], 2, "needs a diarizer: --diarizer NAME"),
        (["--diarizer", "else"], 1, "no diarizer called 'else'; installed: none"),
    ],
)
def test_a_wrong_call_is_reported_in_one_line(  # noqa: PLR0917 -- fixtures
    arguments, status, message, listen, microphone, tmp_path, monkeypatch
):
    """Nothing is loaded and no file is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.txt").write_text("precious")
    microphone([])
    done = listen(*arguments)

    assert done.status == status
    assert message in done.err
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.glob("*.txt")] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "precious"


def test_devices_are_listed_and_a_wrong_one_is_reported_in_one_line(listen, monkeypatch):
    """No model is loaded if the device is missing."""
    usb = {"index": 3, "name": "USB \x1b", "default_samplerate": 48e3, "is_default": True}

    def refuse(_name):
        raise AudioDeviceError("No input device matching 'radio'")

    monkeypatch.setattr("wlk_live.microphone.find_device", refuse)
    monkeypatch.setattr("wlk_live.microphone.input_devices", lambda: [usb])
    done = listen("--device", "radio", "--model", "absent")

    assert listen("--list-devices") == (0, "*  3  USB \\x1b\n", "")
    assert done == (1, "", "wlk-core: No input device matching 'radio'\n")


def test_a_slow_reader_of_a_file_gets_all_that_is_due(recording, clock):
    """Nothing is dropped, and nothing comes earlier than it was spoken."""
    source = Playback(str(recording("a.wav", *range(9))))
    first = source.read(0.0)
    clock.seconds += 1.05
    due, rest = [], []
    while captured := source.read(0.0):
        due += captured
    while (captured := source.read(1.0)) is not None:
        rest += captured

    assert first == []
    assert len(due) == 10
    assert sum(len(block) for block in due + rest) == 55 * 1_280


def test_what_comes_before_damage_is_read_before_the_error(monkeypatch, clock):
    """A late reader gets every chunk, and then the error."""

    def damaged(_file, **_options):
        yield np.zeros(32_000, np.float32)
        raise AudioFormatError("damaged data")

    monkeypatch.setattr("wlk_live.cli.playback.decode_file", damaged)
    source = Playback("a.flac")
    clock.seconds += 60.0
    blocks = []

    with pytest.raises(AudioFormatError, match="damaged data"):
        while captured := source.read(0.0):
            blocks += captured
    assert sum(len(block) for block in blocks) == 32_000
    assert source.read(0.0) is None


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
    spans = [SpeakerSpan("anna", 0.0, 0.9), SpeakerSpan("bert", 0.9, 9.0)]
    opened.append(ScriptedDiarizer(spans, max_delay=0.3))
    return opened[-1]
"""


def test_speakers_are_in_every_file(site, listen, microphone, spoken, tmp_path):
    """Speakers come after the words, so standard output of a live run has none."""
    site.install("wlk-who", ["who"], DIARIZER)
    microphone(spoken(1, 2, 3))
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen("--diarizer", "who", *saves)
    text, srt, vtt, document, *_ = (path.read_bytes() for path in paths)
    speakers = [token["speaker"] for token in json.loads(document)["tokens"]]

    assert done == (0, "one two three\n", "")
    assert list(dict.fromkeys(speakers)) == ["anna", "bert"]
    assert text.decode().startswith("anna: one")
    assert "\nbert: " in text.decode()
    assert b"\nanna: one" in srt
    assert b"<v bert>" in vtt
    (diarizer,) = importlib.import_module("wlk_who_plugin").opened
    assert diarizer.is_closed


def test_the_live_view_names_who_speaks(monkeypatch, site, listen, microphone, spoken):
    """The view shows a speaker as soon as the diarizer reports the span; lines wait for it."""
    site.install("wlk-who", ["who"], DIARIZER)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: True)
    microphone([*partition(spoken(1, 2, 3, 4), 0.05), *[np.zeros(800, np.float32)] * 30])
    _, printed, drawn = listen("--diarizer", "who")

    assert -1 < drawn.find("microphone  anna") < drawn.find("microphone  bert")
    assert [line.partition(" ")[0] for line in printed.splitlines()] == ["anna:", "bert:"]
