from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path
import re

import click
import pytest

from wlk_core.cli.outputs import FileOutput, plan_outputs


def names(files, output, style="srt"):
    """Return the planned file names."""
    return [path.name for _, path in plan_outputs(files, str(output), style)]


def test_without_output_everything_goes_to_standard_output():
    """One file of any format, and several as text or json, need no path."""
    assert plan_outputs(["a"], None, "srt") == [("srt", None)]
    assert plan_outputs(["a", "b"], "-", "json") == [("json", None)] * 2


@pytest.mark.parametrize("style", ["jsonl", "srt", "vtt"])
def test_several_files_of_other_formats_need_a_directory(style):
    """Formats that cannot be joined ask for --output."""
    with pytest.raises(click.UsageError, match="need a directory of their own: --output DIR"):
        plan_outputs(["a", "b"], None, style)


@pytest.mark.parametrize(
    ("output", "style", "planned"),
    [
        ("x.srt", None, ("srt", "x.srt")),
        ("X.JSON", "json", ("json", "X.JSON")),
        ("x", "vtt", ("vtt", "x")),
        ("x.log", None, ("text", "x.log")),
        (".", "srt", ("srt", "a.srt")),
        ("new/", "json", ("json", "new/a.json")),
    ],
)
def test_the_ending_of_a_file_is_its_format(tmp_path, monkeypatch, output, style, planned):
    """A directory, which is made, gets the name of the recording."""
    monkeypatch.chdir(tmp_path)

    assert plan_outputs(["a.wav"], output, style) == [(planned[0], Path(planned[1]))]


@pytest.mark.parametrize(
    ("output", "style", "message"),
    [
        ("x.srt", "json", "x.srt is srt by its ending, but --format is json; leave"),
        ("", None, "--output needs the path of a file"),
    ],
)
def test_formats_and_files_that_do_not_fit_are_refused(output, style, message):
    """Nobody finds plain text in a subtitle file."""
    with pytest.raises(click.UsageError, match=re.escape(message)):
        plan_outputs(["a.wav"], output, style)


def test_several_files_go_into_a_directory_that_is_made(tmp_path):
    """With several recordings the directory is created."""
    target = tmp_path / "new" / "out"

    assert names(["x/a.wav", "b.mp3", "-"], target) == ["a.srt", "b.srt", "stdin.srt"]
    assert target.is_dir()


def test_recordings_of_one_stem_keep_their_endings(tmp_path):
    """Equal stems do not overwrite one another."""
    assert names(["a.wav", "a.mp3", "b.wav"], tmp_path, "json") == [
        "a.wav.json",
        "a.mp3.json",
        "b.wav.json",
    ]


def test_recordings_of_one_name_are_refused(tmp_path):
    """Equal names in different folders cannot share a directory."""
    with pytest.raises(click.UsageError, match=r"several recordings are called a\.wav"):
        plan_outputs(["x/a.wav", "y/a.wav"], str(tmp_path), "srt")


def test_a_recording_is_not_overwritten(tmp_path):
    """The output cannot be the recording itself."""
    recording = tmp_path / "a.wav"
    recording.touch()

    with pytest.raises(click.UsageError, match="would overwrite the recording"):
        plan_outputs([str(recording)], str(recording), "text")


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    """Several recordings cannot go into a file."""
    (tmp_path / "file").touch()

    for name in ("file", "new.srt"):
        with pytest.raises(click.UsageError, match="expected a directory for several files"):
            plan_outputs(["a", "b"], str(tmp_path / name), None)


def test_a_file_begins_with_its_first_text(tmp_path):
    """What it held before stays until there are words, or until there are certainly none."""
    output = FileOutput(tmp_path / "x.txt")
    output.path.write_text("old")
    output.close(is_complete=False)
    assert output.path.read_text() == "old"

    output.write("five")
    assert output.path.read_text() == "five"
    output.close()
    FileOutput(output.path).close()
    assert output.path.read_text() == ""


def test_a_whole_file_appears_complete_or_not_at_all(tmp_path):
    """A file that only makes sense complete takes its name when it is."""
    (tmp_path / "x.json").write_text("old")
    FileOutput(tmp_path / "x.json", is_whole=True).write("{}")

    assert (tmp_path / "x.json").read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """A failing write names the file and what to do."""
    (tmp_path / "file").touch()
    output = FileOutput(tmp_path / "file" / "x.txt")

    with pytest.raises(OSError, match=r"cannot write .*x\.txt: .*; choose another path"):
        output.write("x")


def test_a_link_to_a_whole_file_stays_a_link(tmp_path):
    """The file it leads to is replaced."""
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "real.json"
    target.write_text("old")
    link = tmp_path / "x.json"
    link.symlink_to(target)
    FileOutput(link, is_whole=True).write("{}")

    assert link.is_symlink()
    assert target.read_text() == "{}"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_directly(tmp_path):
    """A reader at a named pipe, or a device, gets the text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(pipe.read_text)
        output = FileOutput(pipe, is_whole=True)
        output.write("{}")
        output.close()

    assert reader.result() == "{}"
    assert pipe.is_fifo()


def test_a_file_with_content_is_replaced_only_if_forced(tmp_path):
    """Subtitles that a person has corrected are not lost to a second run; an empty file may be."""
    for name in ("a.srt", "b.srt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "c.srt").touch()

    with pytest.raises(click.UsageError, match=r"a\.srt: it exists; replace it with --force, or"):
        plan_outputs(["a.wav", "b.wav", "c.wav"], str(tmp_path), "srt")
    assert len(plan_outputs(["a.wav", "b.wav"], str(tmp_path), "srt", is_forced=True)) == 2
    assert plan_outputs(["c.wav"], str(tmp_path), "srt") == [("srt", tmp_path / "c.srt")]


def test_a_recording_among_several_is_not_overwritten(tmp_path):
    """The result of one recording never replaces another recording, not even when forced."""
    (tmp_path / "a.txt").write_text("sound")
    other = tmp_path / "other.mka"
    other.hardlink_to(tmp_path / "a.txt")

    with pytest.raises(click.UsageError, match=r"a\.txt would overwrite the recording .*other\.m"):
        plan_outputs(["a.wav", str(other)], str(tmp_path), "text", is_forced=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_named():
    """One line names the file, whether it is appended to or replaced."""
    path = Path("/dev/full")

    for is_whole in (False, True):
        output = FileOutput(path, is_whole=is_whole)
        with pytest.raises(OSError, match="cannot write /dev/full: No space left on device"):
            output.write("text")
        output.close()


def test_a_whole_file_on_a_full_disk_keeps_the_one_before(tmp_path, monkeypatch):
    """A document is never replaced by half of another."""
    (tmp_path / "x.json").write_text("old")

    def fail(path, data):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left on device"):
        FileOutput(tmp_path / "x.json", is_whole=True).write("{}")

    assert (tmp_path / "x.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_whole_file_of_no_words_replaces_the_one_before(tmp_path):
    """A transcript of another recording must not look like this one's."""
    path = tmp_path / "a.txt"
    path.write_text("of another recording\n", encoding="utf-8")

    FileOutput(path, is_whole=True).close(is_complete=True)

    assert "" == path.read_text(encoding="utf-8")
