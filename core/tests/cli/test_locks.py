from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wlk_core._directories import lock_directory
from wlk_core.cli.locks import locked
from wlk_core.errors import WLKError

HOLD = """
import sys
from pathlib import Path
from wlk_core.cli.locks import locked
with locked([Path(sys.argv[1])]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """Keep locks in a directory of the test."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "home"))


@pytest.mark.slow
def test_a_file_that_another_process_writes_is_refused(tmp_path):
    """The second writer gets one line, and none once the first has ended, even by a kill."""
    path = tmp_path / "x.srt"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(WLKError, match=r"another run of wlk-core is writing .*x\.srt; wait"):
            locked([path]).__enter__()
        process.kill()
        process.communicate()

    with locked([path]):
        pass


def test_a_link_to_a_file_is_the_same_file(tmp_path):
    """Two names of one file are one output."""
    (tmp_path / "link.srt").symlink_to(tmp_path / "x.srt")

    with locked([tmp_path / "x.srt"]), pytest.raises(WLKError, match="another run"):
        locked([tmp_path / "link.srt"]).__enter__()


def test_locks_leave_nothing_beside_the_file(tmp_path):
    """Lock files are in a directory of their own."""
    (tmp_path / "out").mkdir()

    with locked([tmp_path / "out" / "x.srt", tmp_path / "out" / "y.srt", None]):
        assert list((tmp_path / "out").iterdir()) == []


def test_a_failing_lock_releases_the_others(tmp_path):
    """A run that is refused keeps no file from the next one."""
    with locked([tmp_path / "b"]), pytest.raises(WLKError):
        locked([tmp_path / "a", tmp_path / "b"]).__enter__()

    with locked([tmp_path / "a"]):
        pass


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_has_any_number_of_writers(tmp_path):
    """Locks are for files that would be replaced, so a pipe gets none."""
    os.mkfifo(tmp_path / "pipe")

    with locked([tmp_path / "pipe"]), locked([tmp_path / "pipe"]):
        assert not lock_directory().exists()


def test_without_a_place_for_locks_there_are_none(tmp_path, monkeypatch):
    """A home that cannot be written does not keep results from being written."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "file"))

    with locked([tmp_path / "x.srt"]), locked([tmp_path / "x.srt"]):
        assert not lock_directory().exists()
