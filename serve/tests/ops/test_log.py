"""The log as JSON: every line an object, with its figures as fields."""

from __future__ import annotations

import json
import logging
import re

import pytest

from wlk_core.cli.main import show_warnings
from wlk_serve import cli
from wlk_serve.errors import RequestError
from wlk_serve.ops.metrics import Metrics, SessionFigures


@pytest.fixture
def logged(monkeypatch, capsys):
    """Return a function that returns the line, parsed, that a call logs as JSON."""

    def run(call):
        monkeypatch.setattr(logging.root, "handlers", [])
        show_warnings("wlk-serve")
        cli._log_to_stderr(is_json=True)
        call()
        (line,) = capsys.readouterr().err.splitlines()
        return json.loads(line)

    return run


def test_the_end_of_a_session_has_its_figures_as_fields(logged):
    """A program reads them without parsing the message; times are in UTC."""
    seconds = iter((10.0, 12.5))
    figures = SessionFigures(
        metrics=Metrics(), protocol="realtime", session_id="s1", key_id="", clock=seconds.__next__
    )
    figures.add_audio(2.0)
    line = logged(lambda: figures.finish("1000"))

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("message").startswith(
        "session s1 protocol=realtime key=- seconds=2.5 audio=2.0"
    )
    assert line == {
        "level": "INFO",
        "logger": "wlk_serve.ops.metrics",
        "session": "s1",
        "protocol": "realtime",
        "key": None,
        "seconds": 2.5,
        "audio": 2.0,
        "words": 0,
        "losses": 0,
        "latency_p95": None,
        "end": "1000",
    }


def test_a_refused_client_has_a_line(logged):
    """An operator sees a wrong key, which is otherwise only a counter."""
    error = RequestError("expected a key", status=401, code="invalid_api_key")
    line = logged(lambda: Metrics().counted(error))

    assert (line["message"], line["status"]) == ("refused 401 invalid_api_key", 401)
