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


def test_a_file_with_content_is_replaced_only_if_forced(tmp_path):
    """Subtitles that a person has corrected are not lost to a second run; an empty file may be."""
    for name in ("a.srt", "b.srt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "c.srt").touch()

    with pytest.raises(click.UsageError, match=r"a\.srt exists; replace with --force, or choose"):
        plan_outputs(["a.wav"], str(tmp_path), "srt")
    with pytest.raises(click.UsageError, match=r"a\.srt and 1 more files exist; replace with --fo"):
        plan_outputs(["a.wav", "b.wav", "c.wav"], str(tmp_path), "srt")
    assert len(plan_outputs(["a.wav", "b.wav"], str(tmp_path), "srt", is_forced=True)) == 2
    assert plan_outputs(["c.wav"], str(tmp_path), "srt") == [tmp_path / "c.srt"]


def test_a_recording_among_several_is_not_overwritten(tmp_path):
    """The result of one recording never replaces another recording, not even when forced."""
    (tmp_path / "a.txt").write_text("sound")
    other = tmp_path / "other.mka"
    other.hardlink_to(tmp_path / "a.txt")

    with pytest.raises(click.UsageError, match=r"a\.txt would overwrite the recording .*other\.m"):
        plan_outputs(["a.wav", str(other)], str(tmp_path), "text", is_forced=True)


def test_a_file_is_replaced_and_not_emptied(tmp_path):
    """A reader that has the old file open keeps it; permissions stay."""
    path = tmp_path / "x.txt"
    path.write_text("old")
    path.chmod(0o640)
    with path.open() as reader:
        output = FileOutput(path)
        output.write("new")

        assert reader.read() == "old"
    assert path.read_text() == "new"
    output.write(" text")
    assert path.read_text() == "new text"
    output.close()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("whole", [True, False])
def test_a_full_disk_leaves_the_text_before_it(tmp_path, monkeypatch, whole):
    """A write that fails in its middle is undone, and no later text follows the gap."""
    output = FileOutput(tmp_path / "x.srt", whole=whole)
    output.write("first\n")
    write = os.write

    def fail(descriptor, data):
        if len(data) < 3:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:3])

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space left on device; choose another path"):
        output.write("second\n")
    monkeypatch.undo()
    with pytest.raises(OSError, match="No space left"):
        output.write("third\n")
    output.close()

    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == ({} if whole else {"x.srt": "first\n"})


@pytest.mark.parametrize("whole", [True, False])
def test_a_disk_that_is_full_at_once_keeps_no_draft(tmp_path, monkeypatch, whole):
    """A file that failed may never be closed; the message has the option that named it."""

    def fail(descriptor, data):
        raise OSError(28, "No space left on device")

    output = FileOutput(tmp_path / "x.srt", whole=whole, option="--save")
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="choose another path with --save"):
        output.write("first\n")

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("whole", [True, False])
def test_a_mounted_file_is_written_in_place(tmp_path, monkeypatch, whole):
    """A file that cannot be replaced, as one that a container mounts, gets the text itself."""
    path = tmp_path / "x.json"
    path.write_text("a longer text that was there before")
    node = path.stat().st_ino

    def busy(self, target):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    output = FileOutput(path, whole=whole)
    output.write("{")
    output.write("}")
    output.close()

    assert (path.read_text(), path.stat().st_ino) == ("{}", node)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_file_in_a_folder_that_is_not_writable_is_written_in_place(tmp_path):
    """The right to write a file is enough."""
    path = tmp_path / "x.json"
    path.write_text("old and long")
    tmp_path.chmod(0o555)
    output = FileOutput(path, whole=True)
    output.write("{}")
    output.close()
    tmp_path.chmod(0o755)

    assert path.read_text() == "{}"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs names of descriptors")
@pytest.mark.parametrize("is_link", [False, True], ids=["path", "link"])
def test_a_file_that_a_shell_appends_to_keeps_its_content(tmp_path, is_link):
    """``--output /dev/stdout >> all.txt`` appends."""
    path = tmp_path / "all.txt"
    path.write_text("before ")
    with path.open("a") as opened:
        name = Path(f"/dev/fd/{opened.fileno()}")
        if is_link:
            (tmp_path / "link").symlink_to(name)
            name = tmp_path / "link"
        output = FileOutput(name)
        output.write("after")
        output.close()

    assert path.read_text() == "before after"


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    """The draft has a short name, whatever the file's is."""
    path = tmp_path / ("x" * 255)
    output = FileOutput(path, whole=True)
    output.write("text")
    output.close()

    assert path.read_text() == "text"
