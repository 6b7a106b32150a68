"""The files of ``listen --save``: valid at any time, and one line for each that fails."""

from __future__ import annotations

import errno
import gc
import json
from pathlib import Path
import struct
import wave

import numpy as np
import pytest

from wlk_conformance.testing import partition
from wlk_live.cli.outputs import TextFile
from wlk_live.microphone import Captured

SUFFIXES = (".txt", ".srt", ".vtt", ".json", ".jsonl", ".wav")


def read_wav(path):
    """Return the samples of a 16 kHz wav file."""
    with wave.open(str(path)) as file:
        assert file.getframerate() == 16_000
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_every_file_is_kept(listen, microphone, spoken, tmp_path):
    """One run saves text, captions, JSON and sound."""
    audio = spoken(1, 2, 3)
    microphone(audio)
    paths = [tmp_path / f"talk{suffix}" for suffix in SUFFIXES]
    saves = [argument for path in paths for argument in ("--save", path)]

    assert listen(*saves).status == 0
    text, srt, vtt, document, events, sound = paths
    assert '"event": "end"' in events.read_text()
    assert text.read_text() == "one two three\n"
    assert "one two three" in srt.read_text()
    assert vtt.read_text().startswith("WEBVTT")
    result = json.loads(document.read_text())
    assert result["text"] == "one two three"
    assert "incomplete" not in result
    assert np.array_equal(np.round(audio * 32_768).clip(-32_768, 32_767), read_wav(sound))


@pytest.mark.usefixtures("loud_is_speech")
def test_the_files_are_whole_while_it_runs(command, microphone, spoken, tmp_path):
    """A run that is killed leaves the words and the sound so far."""
    text, events, sound = (tmp_path / f"talk{suffix}" for suffix in (".txt", ".jsonl", ".wav"))
    seen = []

    class Script(list):
        """Blocks of audio, with looks at the files in between."""

        def pop(self, index):
            """Return the next item."""
            item = super().pop(index)
            if item != "look":
                return item
            seen.extend((text.read_text(), events.read_text(), len(read_wav(sound))))
            return None

    opened = microphone([])
    talk = np.concatenate([spoken(1, 2, 3), np.zeros(32_000, np.float32)])
    opened.script = Script([*map(Captured, partition(talk, 0.05)), "look"])
    command("listen", "--save", text, "--save", events, "--save", sound)

    assert seen[0] == "one two three"
    assert " three" in seen[1]
    assert seen[2] == len(talk)


def test_files_are_complete_when_the_reader_of_standard_output_leaves(
    listen, microphone, spoken, tmp_path, monkeypatch
):
    """What standard output no longer took is in the files, and no line is printed."""
    write = TextFile.write

    def leave(self, text):
        if self.path is None:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        write(self, text)

    monkeypatch.setattr(TextFile, "write", leave)
    silence = np.zeros(32_000, np.float32)
    microphone(np.concatenate([spoken(1, 2, 3), silence, spoken(*range(9))]))
    document = tmp_path / "talk.json"

    assert listen("--save", document) == (141, "", "")
    result = json.loads(document.read_text())
    assert result["text"].startswith("one")
    assert result["incomplete"] == "[Errno 32] Broken pipe"


def test_a_gap_is_reported_and_saved_as_silence(listen, microphone, spoken, tmp_path):
    """The times of the words after the gap match the saved recording."""
    sound, document = tmp_path / "talk.wav", tmp_path / "talk.json"
    first, second = spoken(1, 2), spoken(3)
    microphone([first, Captured(second, 1.5)])
    done = listen("--save", sound, "--save", document)
    samples = read_wav(sound)
    start = json.loads(document.read_text())["tokens"][2]["start"]
    before = len(first) / 16_000

    assert done.out == "one two\nthree\n"
    assert f"1.5 s of audio were lost, from {before:.1f} s on" in done.err
    assert start == pytest.approx(before + 1.5 + 0.08)
    assert len(samples) == len(first) + 24_000 + len(second)
    assert not samples[len(first) : len(first) + 24_000].any()


def test_the_transcript_continues_when_a_wav_file_is_full(listen, microphone, spoken, tmp_path):
    """The length in its header has 32 bits; the transcript continues."""
    gap = 2**31 / 16_000  # of two bytes each
    microphone([spoken(1), Captured(spoken(2), gap / 1_000)])
    sound = tmp_path / "talk.wav"
    patched = wave.Wave_write._patchheader

    def patch(self):
        if self._datawritten > 1_000_000:
            raise struct.error("'L' format requires 0 <= number <= 4294967295")
        patched(self)

    with pytest.MonkeyPatch.context() as context:
        context.setattr(wave.Wave_write, "_patchheader", patch)
        done = listen("--save", sound)

    assert done[:2] == (1, "one\ntwo\n")
    assert f"wlk-core: cannot write {sound}: a wav file holds 4 GB\n" in done.err
    assert len(read_wav(sound)) > 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_other_outputs_continue_when_a_disk_is_full(listen, microphone, spoken, tmp_path):
    """One line names each file; the other files and standard output are still written."""
    sound, events, text = (tmp_path / f"talk{suffix}" for suffix in (".wav", ".jsonl", ".txt"))
    for full in (sound, events):
        full.symlink_to("/dev/full")
    microphone(spoken(1, 2, 3))
    done = listen("--save", sound, "--save", events, "--save", text)
    gc.collect()  # warns of a file that was left open

    assert done[:2] == (1, "one two three\n")
    assert done.err.splitlines() == [
        f"wlk-core: cannot write {full}: No space left on device" for full in (sound, events)
    ]
    assert text.read_text() == "one two three\n"


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_cannot_be_opened_closes_its_files(
    listen, microphone, toy_engine, tmp_path, monkeypatch
):
    """Existing files keep their content, except the wav file, which is empty."""

    def full(*_arguments):
        raise RuntimeError("no place is free")

    monkeypatch.setattr(toy_engine, "open_stream", full)
    microphone([])
    sound, text = tmp_path / "talk.wav", tmp_path / "talk.txt"
    text.write_text("precious")
    done = listen("--save", sound, "--save", text, "--force")
    gc.collect()

    assert done.status == 1
    assert "no place is free" in done.err
    assert len(read_wav(sound)) == 0
    assert text.read_text() == "precious"
