from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path

import click
import pytest

from wlk_core.cli.outputs import FileOutput, plan_outputs


def names(files, output, style="srt"):
    """Return the planned file names."""
    return [path.name for path in plan_outputs(files, str(output), style)]


def test_without_output_everything_goes_to_standard_output():
    """One file of any format, and several as text or json, need no path."""
    assert plan_outputs(["a"], None, "srt") == [None]
    assert plan_outputs(["a", "b"], None, "json") == [None, None]


@pytest.mark.parametrize("style", ["jsonl", "srt", "vtt"])
def test_several_files_of_other_formats_need_a_directory(style):
    """Formats that cannot be joined ask for --output."""
    with pytest.raises(click.UsageError, match="need a directory of their own: --output DIR"):
        plan_outputs(["a", "b"], None, style)


def test_one_file_goes_to_the_named_path(tmp_path):
    """With one recording the path is the file's."""
    assert plan_outputs(["a.wav"], str(tmp_path / "x.srt"), "srt") == [tmp_path / "x.srt"]


def test_one_file_goes_into_a_directory_that_exists(tmp_path):
    """With one recording and a directory the file is named after the recording."""
    assert plan_outputs(["a.wav"], str(tmp_path), "srt") == [tmp_path / "a.srt"]


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
        "b.json",
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

    with pytest.raises(click.UsageError, match="expected a directory for several files"):
        plan_outputs(["a", "b"], str(tmp_path / "file"), "text")


def test_a_missing_parent_is_refused(tmp_path):
    """A file whose directory does not exist is refused before anything is decoded."""
    with pytest.raises(click.UsageError, match="there is no directory"):
        plan_outputs(["a"], str(tmp_path / "no" / "x.txt"), "text")


def test_a_file_appears_with_the_first_text(tmp_path):
    """Nothing is created before there is something to write, and then it is there at once."""
    output = FileOutput(tmp_path / "x.txt")
    assert not output.path.exists()

    output.write("five")

    assert output.path.read_text() == "five"
    output.close()


def test_a_whole_file_appears_complete_or_not_at_all(tmp_path):
    """A file that only makes sense complete takes its name when it is."""
    output = FileOutput(tmp_path / "x.json", whole=True)
    output.write("{}")
    assert not output.path.exists()

    output.close()

    assert output.path.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """A failing write names the file and what to do."""
    (tmp_path / "file").touch()
    output = FileOutput(tmp_path / "file" / "x.txt")

    with pytest.raises(OSError, match=r"cannot write .*x\.txt: .*; choose another path with --ou"):
        output.write("x")


def test_files_beside_a_whole_one_are_left_alone(tmp_path):
    """The draft has a name of its own, so that no file of the user is replaced."""
    (tmp_path / "x.json.part").write_text("mine")
    output = FileOutput(tmp_path / "x.json", whole=True)
    output.write("{}")
    output.close()

    assert (tmp_path / "x.json.part").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.json.part"]


def test_a_draft_that_cannot_take_its_name_is_removed(tmp_path):
    """A failed rename leaves nothing."""
    output = FileOutput(tmp_path / "x.json", whole=True)
    output.write("{}")
    (tmp_path / "x.json").mkdir()

    with pytest.raises(OSError, match=r"cannot write .*x\.json"):
        output.close()
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_link_to_a_whole_file_stays_a_link(tmp_path):
    """The file it leads to is replaced."""
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "real.json"
    target.write_text("old")
    link = tmp_path / "x.json"
    link.symlink_to(target)
    output = FileOutput(link, whole=True)
    output.write("{}")
    output.close()

    assert link.is_symlink()
    assert target.read_text() == "{}"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs names of descriptors")
def test_a_descriptor_is_written_directly(tmp_path):
    """What a shell opened, a pipe or a file, gets the text and is not replaced."""
    (tmp_path / "x.json").write_text("before ")
    with (tmp_path / "x.json").open("r+") as opened:
        node = os.fstat(opened.fileno()).st_ino
        output = FileOutput(Path(f"/dev/fd/{opened.fileno()}"), whole=True)
        output.write("{}")
        output.close()

    assert (tmp_path / "x.json").read_text() == "{}"
    assert (tmp_path / "x.json").stat().st_ino == node


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_directly(tmp_path):
    """A reader at a named pipe, or a device, gets the text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(pipe.read_text)
        output = FileOutput(pipe, whole=True)
        output.write("{}")
        output.close()

    assert reader.result() == "{}"
    assert pipe.is_fifo()
