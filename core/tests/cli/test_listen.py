"""The command ``listen``: a microphone or a file in real time, and the files it keeps."""

from __future__ import annotations

import errno
import importlib
import io
import json
import re
import signal
import wave

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_core.cli import run, writers
from wlk_core.cli.outputs import Output
from wlk_core.cli.run import FileSource
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.cli.writers import pcm16
from wlk_core.errors import AudioDeviceError, AudioFormatError
from wlk_core.microphone import Captured
from wlk_core.vad import GateParameters, SilenceGate, silence_gate

SUFFIXES = (".txt", ".srt", ".vtt", ".json", ".jsonl", ".wav")


def blocks_of(audio):
    """Return audio in blocks of 50 ms."""
    return partition(audio, 0.05)


def read_wav(path):
    """Return the samples of a wav file and its rate."""
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()


def test_words_of_a_microphone_go_to_standard_output(listen, microphone, spoken):
    """The device is released in the end."""
    opened = microphone(blocks_of(spoken(1, 2, 3)))

    assert listen() == (0, "one two three\n", "")
    assert opened.is_closed


def test_a_recording_is_played_in_real_time(listen, spoken_time, recording, transcribe):
    """The words are those of ``transcribe``, and as much time passes as it lasts."""
    path = recording("a.wav", 1, 2, 3, 4, 5, 6)

    words = transcribe(path).out
    assert 0 == spoken_time()
    assert listen("--input", path).out == words
    assert 2.96 == pytest.approx(spoken_time())
    assert transcribe("--realtime", path).out == words
    assert 5.92 == pytest.approx(spoken_time())


def test_every_file_is_kept(listen, microphone, spoken, tmp_path):
    """Text, captions, JSON and sound of one run."""
    audio = spoken(1, 2, 3)
    microphone(blocks_of(audio))
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]

    assert 0 == listen(*saves).status
    text, srt, vtt, document, events, sound = paths
    assert '"event": "end"' in events.read_text()
    assert "one two three\n" == text.read_text()
    assert "one two three" in srt.read_text()
    assert vtt.read_text().startswith("WEBVTT")
    result = json.loads(document.read_text())
    assert "one two three" == result["text"]
    assert "incomplete" not in result
    samples, rate = read_wav(sound)
    assert 16_000 == rate
    assert pcm16(audio) == samples.tobytes()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_with_every_word(  # noqa: PLR0917 -- fixtures
    number, status, listen, microphone, spoken, tmp_path
):
    """Ctrl-C is how a run usually ends; the last words are decoded and every file is whole."""
    microphone([*blocks_of(spoken(1, 2, 3)), Stopped(number), *blocks_of(spoken(4))])
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]
    done = listen(*saves)
    STOPS.reset()

    assert (status, "one two three\n") == done[:2]
    assert "one two three" == json.loads(paths[3].read_text())["text"]
    assert "one two three\n" == paths[0].read_text()


def test_the_files_are_whole_while_it_runs(listen, microphone, spoken, tmp_path):
    """A run that is killed leaves the words and the sound before it."""
    audio = spoken(1, 2, 3)
    text, events, sound = (tmp_path / f"talk{suffix}" for suffix in (".txt", ".jsonl", ".wav"))
    seen = []

    class Script(list):
        """Blocks, a gap that ends the utterance, a look at the files."""

        def pop(self, index):
            """Return the next item."""
            item = super().pop(index)
            if not isinstance(item, str):
                return item
            seen.extend((text.read_text(), events.read_text(), len(read_wav(sound)[0])))
            return Captured(b"")

    opened = microphone([])
    opened.script = Script([*blocks_of(audio), Captured(b"\0\0" * 160, 2.0), *[b""] * 9, "look"])
    listen("--save", text, "--save", events, "--save", sound)

    assert "one two three" == seen[0]
    assert " three" in seen[1]
    assert len(audio) - 16_000 <= seen[2]  # the header is brought up to date each second


def test_a_reader_that_leaves_costs_no_file_a_word(
    listen, microphone, spoken, tmp_path, monkeypatch
):
    """What standard output did not take any more is in the files, and no line is needed."""
    write = Output.write

    def leave(self, text):
        if self._path is None:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        write(self, text)

    monkeypatch.setattr(Output, "write", leave)
    microphone(blocks_of(spoken(1, 2, 3)))
    document = tmp_path / "talk.json"

    assert (141, "", "") == listen("--save", document)
    result = json.loads(document.read_text())
    assert result["text"].startswith("one")
    assert "[Errno 32] Broken pipe" == result["incomplete"]


def test_a_gap_is_a_line_and_silence_in_the_sound(listen, microphone, spoken, tmp_path):
    """The times of the words after it fit the recording."""
    sound, document = tmp_path / "talk.wav", tmp_path / "talk.json"
    first, second = spoken(1, 2), spoken(3)
    microphone([first, Captured(second, 1.5)])
    done = listen("--save", sound, "--save", document)
    samples, _ = read_wav(sound)
    start = json.loads(document.read_text())["tokens"][2]["start"]
    before = len(first) / 16_000

    assert "one two\nthree\n" == done.out
    assert f"1.5 s from {before:.1f} s on were not captured" in done.err
    assert before + 1.5 + 0.08 == pytest.approx(start)
    assert len(first) + 24_000 + len(second) == len(samples)
    assert not samples[len(first) : len(first) + 24_000].any()


def test_a_lost_device_is_one_line_and_no_end(listen, microphone, spoken):
    """The words after it come too."""
    problem = "USB Audio gives no audio; connect it again, or choose one with --device"
    microphone([spoken(1), problem, problem, None, Captured(spoken(2), 3.0)])
    done = listen()

    assert (0, "one\ntwo\n") == done[:2]
    assert 1 == done.err.count("gives no audio")


def test_an_engine_that_is_too_slow_loses_no_word(listen, microphone, spoken):
    """What does not fit into the session waits outside it, and one line names what helps."""
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

    assert (0, "one two three\nfour\n") == done[:2]
    assert 1 == len(done.err.splitlines())
    assert re.search(r"is too slow for live audio: it takes \d+\.\d s for a second", done.err)
    assert "tick_seconds" in done.err


def test_a_full_disk_costs_one_file_and_no_word(listen, microphone, spoken, tmp_path, monkeypatch):
    """One line names the file; the other files and standard output go on."""
    sound, text = tmp_path / "talk.wav", tmp_path / "talk.txt"
    written = []

    class Full(io.FileIO):
        """A file on a disk that fills up."""

        def write(self, data):
            """Write until the disk is full."""
            written.append(len(data))
            if sum(written) > 4_000 and len(data) > 44:  # the header has its place
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(writers, "open", lambda path, _mode: Full(path, "wb"), raising=False)
    microphone(blocks_of(spoken(1, 2, 3)))
    done = listen("--save", sound, "--save", text)

    assert (1, "one two three\n") == done[:2]
    assert f"wlk-core: cannot write {sound}: No space left on device\n" == done.err
    assert "one two three\n" == text.read_text()
    assert len(read_wav(sound)[0]) > 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--save", "a.mp3"],
            2,
            "a file that ends with .txt, .json, .jsonl, .srt, .vtt, .wav",
        ),
        (["--save", "no/a.txt"], 2, "there is no directory no"),
        (["--save", "old.txt"], 2, "it exists; replace it with --force"),
        (["--device", "1", "--input", "a.wav"], 2, "exclude each other"),
        (["--save", "a.txt", "--save", "./a.txt"], 2, "a.txt is given twice"),
        (["--input", "a.wav", "--save", "a.wav", "--force"], 2, "would overwrite the recording"),
        (["--input", "absent.wav"], 1, "absent.wav"),
        (["--diarizer-option", "a=1"], 2, "needs a diarizer: --diarizer NAME"),
        (["--diarizer", "else"], 1, "no diarizer called 'else'; installed: none"),
        (["--vad-threshold", "0.4"], 2, "--no-vad excludes the options --vad-...; choose one"),
    ],
)
def test_a_wrong_call_is_one_line(  # noqa: PLR0917 -- fixtures
    arguments, status, message, listen, microphone, tmp_path, monkeypatch
):
    """Nothing is loaded and no file is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.txt").write_text("precious")
    (tmp_path / "a.wav").touch()
    microphone([])
    done = listen(*arguments)

    assert status == done.status
    assert message in done.err
    assert 1 == done.err.count("\n")
    assert ["old.txt"] == [path.name for path in tmp_path.glob("*.txt")]
    assert "precious" == (tmp_path / "old.txt").read_text()


def test_devices_are_listed_and_a_wrong_one_is_one_line(listen, monkeypatch):
    """No model is loaded for a device that is not there."""
    usb = {"index": 3, "name": "USB \x1b", "default_samplerate": 48e3, "is_default": True}

    def refuse(_name):
        raise AudioDeviceError("No input device matching 'radio'")

    monkeypatch.setattr("wlk_core.microphone.find_device", refuse)
    monkeypatch.setattr("wlk_core.microphone.input_devices", lambda: [usb])
    done = listen("--device", "radio", "--model", "absent")

    assert (0, "*   3 USB \\x1b  (48000 Hz)\n", "") == listen("--list-devices")
    assert (1, "", "wlk-core: No input device matching 'radio'\n") == done


def test_a_slow_reader_of_a_file_gets_all_that_is_due(recording, clock):
    """Nothing is dropped, and nothing comes before it would have been spoken."""
    source = FileSource(str(recording("a.wav", *range(9))))
    first = list(source.read(0.0))
    clock.seconds += 1.05
    due = list(source.read(0.0))
    rest = []
    while (captured := source.read(1.0)) is not None:
        rest += captured

    assert [] == first
    assert 10 == len(due)
    assert 55 * 1_280 == sum(len(block.audio) for block in due + rest)


def test_what_comes_before_damage_is_read_before_the_error(monkeypatch, clock):
    """A reader that is late gets every chunk, and the error after them."""

    def damaged(_file):
        yield np.zeros(32_000, np.float32)
        raise AudioFormatError("damaged data")

    monkeypatch.setattr(run, "decode_file", damaged)
    source = FileSource("a.flac")
    clock.seconds += 60.0
    blocks = []

    with pytest.raises(AudioFormatError, match="damaged data"):
        blocks.extend(source.read(0.0))
    assert 32_000 == sum(len(block.audio) for block in blocks)
    assert [] == list(source.read(0.0))
    assert source.read(0.0) is None


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
    monkeypatch.setattr("wlk_core.cli.live_view._is_terminal", lambda: True)
    microphone([*blocks_of(spoken(1, 2, 3, 4)), *[np.zeros(800, np.float32)] * 30])
    drawn = listen("--diarizer", "who").err

    assert -1 < drawn.find("microphone  anna") < drawn.find("microphone  bert")


@pytest.mark.parametrize("name", ["listen", "transcribe"])
def test_the_parameters_of_voice_activity_detection_reach_the_gate(  # noqa: PLR0917 -- fixtures
    name, monkeypatch, command, microphone, save, spoken
):
    """Names are those of users."""
    seen = []

    def gate(detector, parameters):
        seen.append(parameters)
        return SilenceGate(detector, parameters)

    monkeypatch.setattr(f"{silence_gate.__module__}.SilenceGate", gate)
    microphone([])
    start = [name] if name == "listen" else [name, save("a.wav", spoken(1))]
    options = ("--vad-threshold", "0.4", "--vad-silence", "0.7", "--vad-pre-roll", "0.1")
    assert 0 == command(*start, *options).status

    assert [GateParameters(threshold=0.4, silence_seconds=0.7, pre_roll=0.1)] == seen
    assert "longer silence" in command(*start, "--vad-silence", "0.2").err
    assert "--no-vad excludes" in command(*start, "--no-vad", "--vad-silence", "0.8").err
