"""Which files the results of `transcribe` go to, in which format, and what is refused."""

from __future__ import annotations

from pathlib import Path
import re

import click
import pytest

from wlk_live.cli.plan import plan_outputs


def names(files, output, style="srt"):
    """Return the planned file names."""
    return [path.name for _, path in plan_outputs(files, str(output), style)]


def test_without_output_everything_goes_to_standard_output():
    """One file of any format, and several as text or json, need no path."""
    assert plan_outputs(["a"], None, "srt") == [("srt", None)]
    assert plan_outputs(["a", "b"], "-", "json") == [("json", None)] * 2


@pytest.mark.parametrize(
    ("output", "style", "planned"),
    [
        ("x.srt", None, ("srt", "x.srt")),
        ("X.JSON", "json", ("json", "X.JSON")),
        ("x", "vtt", ("vtt", "x")),
        ("x.log", None, ("text", "x.log")),
        (".", "srt", ("srt", "a.srt")),
        ("new/", "json", ("json", "new/a.json")),
        ("new.srt/", "json", ("json", "new.srt/a.json")),
    ],
)
def test_the_ending_of_a_file_is_its_format(tmp_path, monkeypatch, output, style, planned):
    """In a directory, which is created, the result has the name of the recording."""
    monkeypatch.chdir(tmp_path)

    assert plan_outputs(["a.wav"], output, style) == [(planned[0], Path(planned[1]))]


@pytest.mark.parametrize(
    ("files", "output", "style", "message"),
    [
        (["a", "b"], None, "srt", "several files as srt need a directory of their own: --output"),
        (["a", "b"], "-", "jsonl", "several files as jsonl need a directory of their own: --out"),
        (["a"], "x.srt", "json", "x.srt has the extension of srt, but --format is json; leave"),
        (["x/a.wav", "y/a.mp3"], ".", "srt", "two recordings are called a; transcribe each wi"),
        (["a.wav"], "a.wav", "text", "--output a.wav would overwrite the recording a.wav"),
        (["a", "b"], "a.wav", None, "expected a directory for several results, got a.wav"),
        (["a", "b"], "new.srt", None, "expected a directory for several results, got new.srt"),
        (["a"], "", None, "--output needs the path of a file or directory, got ''"),
    ],
)
def test_formats_and_files_that_do_not_fit_are_refused(  # noqa: PLR0917 -- fixtures
    tmp_path, monkeypatch, files, output, style, message
):
    """No subtitle file gets plain text, and no recording is overwritten."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.wav").touch()

    with pytest.raises(click.UsageError, match=re.escape(message)):
        plan_outputs(files, output, style)


def test_several_files_go_into_a_directory_that_is_made(tmp_path):
    """The directory for the results of several recordings is created."""
    target = tmp_path / "new" / "out"

    assert names(["x/a.wav", "b.mp3", "-"], target) == ["a.srt", "b.srt", "stdin.srt"]
    assert target.is_dir()


def test_a_file_with_content_is_replaced_only_if_forced(tmp_path):
    """A second run does not overwrite corrected subtitles, but it replaces an empty file."""
    for name in ("a.srt", "b.srt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "c.srt").touch()

    with pytest.raises(click.UsageError, match=r"a\.srt: it exists; replace it with --force, or"):
        plan_outputs(["a.wav", "b.wav", "c.wav"], str(tmp_path), "srt")
    assert len(plan_outputs(["a.wav", "b.wav"], str(tmp_path), "srt", is_forced=True)) == 2
    assert plan_outputs(["c.wav"], str(tmp_path), "srt") == [("srt", tmp_path / "c.srt")]


def test_a_recording_among_several_is_not_overwritten(tmp_path):
    """The result of one recording never replaces another recording, even if forced."""
    (tmp_path / "a.txt").write_text("sound")
    other = tmp_path / "other.mka"
    other.hardlink_to(tmp_path / "a.txt")

    with pytest.raises(click.UsageError, match=r"a\.txt would overwrite the recording .*other\.m"):
        plan_outputs(["a.wav", str(other)], str(tmp_path), "text", is_forced=True)
