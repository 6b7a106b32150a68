"""Files that results are written to: when they begin, and how they fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from wlk_live.cli.formats import Text
from wlk_live.cli.outputs import LiveView, Output, TextFile


def test_a_file_begins_with_its_first_text(tmp_path):
    """Its old content is kept until there are words, or until there will certainly be none."""
    path = tmp_path / "x.txt"
    file = TextFile(LiveView(), path)
    output = Output(Text(), file)
    path.write_text("old")
    output.finish(SimpleNamespace(incomplete="stopped"))
    assert path.read_text() == "old"

    file.write("five")
    assert path.read_text() == "five"
    complete = SimpleNamespace(incomplete=None)
    output.finish(complete)
    Output(Text(), TextFile(LiveView(), path)).finish(complete)
    assert path.read_text() == ""


FULL = pytest.param(
    "/dev/full", "No space left on device",
    marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here"),
)  # fmt: skip


@pytest.mark.parametrize(("path", "reason"), [("notes/x.txt", "Not a directory"), FULL])
def test_a_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, path, reason):
    """The error names the file and the reason; a later finish() does not raise again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").touch()
    file = TextFile(LiveView(), Path(path))

    with pytest.raises(OSError, match=f"^cannot write {path}: {reason}$"):
        file.write("text")
    Output(Text(), file).finish(SimpleNamespace(incomplete="cannot write"))
