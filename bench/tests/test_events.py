from __future__ import annotations

import json

import attrs
import pytest

from wlk_bench.errors import LogError
from wlk_bench.events import SCHEMA, End, read_log, write_log
from wlk_bench.selftest import small_log


def test_a_log_is_read_as_it_was_written(tmp_path):
    """Header, reference and every event survive the file, whose first line names the schema."""
    log = small_log()
    path = tmp_path / "small.jsonl"

    write_log(path, log)

    assert log == read_log(path)
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert SCHEMA == first["schema"] == "wlk-bench/1"


def test_another_schema_is_refused(tmp_path):
    """A log whose fields may mean something else is not read."""
    path = tmp_path / "old.jsonl"
    path.write_text('{"schema": "wlk-bench/0", "audio": "x"}\n', encoding="utf-8")

    with pytest.raises(LogError, match="expected schema wlk-bench/1, got 'wlk-bench/0'"):
        read_log(path)


@pytest.mark.parametrize("text", ["", "no JSON\n", "[]\n", '{"audio": "x"}\n'])
def test_a_file_that_is_not_a_log_is_refused(tmp_path, text):
    """The message for a file without a header states what was expected."""
    path = tmp_path / "other.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(LogError, match="expected a header with a schema in line 1"):
        read_log(path)


def test_a_log_without_an_end_is_refused(tmp_path):
    """A stream that was cut short is never scored as if it were whole."""
    log = small_log()
    path = tmp_path / "cut.jsonl"
    write_log(path, attrs.evolve(log, events=log.events[:-1]))

    with pytest.raises(LogError, match="expected an end event last"):
        read_log(path)


def test_a_damaged_line_is_named(tmp_path):
    """The message has the number and the beginning of the line."""
    path = tmp_path / "damaged.jsonl"
    write_log(path, small_log())
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[3] = '{"event": "dance"}'
    path.write_text("\n".join(lines), encoding="utf-8")

    with pytest.raises(LogError, match="expected an event in line 4"):
        read_log(path)


def test_a_failed_write_leaves_no_log(tmp_path):
    """A file with the name of a log is a whole log."""
    broken = attrs.evolve(small_log(), events=(End(audio_time=object(), wall=0.0),))

    with pytest.raises(TypeError):
        write_log(tmp_path / "log.jsonl", broken)

    assert not (tmp_path / "log.jsonl").exists()
