"""Metrics, and the log line of a session."""

from __future__ import annotations

from collections import deque
import logging

import pytest

from wlk_core.errors import BackendError
from wlk_live.session.events import Commit, Endpoint, Failure
from wlk_serve.errors import RequestError
from wlk_serve.ops.metrics import Metrics, SessionFigures


@pytest.fixture
def metrics():
    """Return new metrics."""
    return Metrics()


@pytest.fixture
def record(metrics, clock):
    """Return the figures of a session."""
    return SessionFigures(
        metrics=metrics, protocol="realtime", session_id="sess_1", key_id="ab12", clock=clock
    )


def values(metrics):
    """Return the samples other than zero, by name and labels."""
    text, _ = metrics.render()
    lines = [line for line in text.decode().splitlines() if line.startswith("wlk_")]
    pairs = [
        line.rsplit(" ", 1) for line in lines if "_created" not in line and "_build" not in line
    ]
    return {name: float(value) for name, value in pairs if float(value)}


def test_a_session_is_counted_by_its_state(metrics, record):
    """At its end the session is no longer counted."""
    connected = 'wlk_sessions{protocol="realtime",state="connected"}'
    waiting = 'wlk_sessions{protocol="realtime",state="waiting"}'

    assert values(metrics) == {connected: 1}
    record.set_state("waiting")
    assert values(metrics) == {waiting: 1}
    record.finish("1000")
    assert {connected, waiting}.isdisjoint(values(metrics))


def test_latencies_are_counted_of_words_and_of_utterances(metrics, record, clock, token):
    """For speech that ends by itself, latency is measured in audio; for a commit, by the clock."""
    commits = deque([98.5])
    record.add_events([Commit((token("zero", end=1.0),), 1.25)], 0.5, commits)
    record.add_events([Endpoint(2.0, "silence", 2.75)], 0.0, commits)
    record.add_events([Endpoint(3.0, "commit", 3.0), Endpoint(3.0, "commit", 3.0)], 0.0, commits)

    found = values(metrics)
    assert found["wlk_emission_latency_seconds_sum"] == 0.25
    assert found["wlk_final_latency_seconds_sum"] == 2.25
    assert found["wlk_final_latency_seconds_count"] == 2
    assert found["wlk_backlog_seconds_sum"] == 0.5


def test_a_failure_is_counted_by_what_failed(metrics, record):
    """It is the same for every protocol, whatever the message to the client."""
    lost = BackendError("GPU 0 is lost")
    failures = [Failure(lost, True, 1.0), Failure(lost, False, 1.0, annotator="diarizer")]
    record.add_events([Failure(lost, False, 1.0), *failures], 0.0, deque())

    found = {name: count for name, count in values(metrics).items() if "errors" in name}
    assert found == {
        'wlk_errors_total{code="engine_failed"}': 1,
        'wlk_errors_total{code="annotator_failed"}': 1,
    }


def test_a_refusal_is_no_error(metrics):
    """Refusals and errors are counted separately, by their codes."""
    metrics.counted(RequestError("full", status=503, code="server_overloaded"))
    metrics.counted(RequestError("wrong", status=400, code="invalid_value"))
    metrics.errors.labels("invalid_json").inc()

    assert values(metrics) == {
        'wlk_rejected_total{reason="server_overloaded"}': 1,
        'wlk_errors_total{code="invalid_value"}': 1,
        'wlk_errors_total{code="invalid_json"}': 1,
    }


def test_the_line_of_a_session_has_figures_and_no_text(record, clock, token, caplog, monkeypatch):
    """One line is logged at the end of a session; it contains no recognised word."""
    # Tools that other tests run disable existing loggers.
    monkeypatch.setattr("wlk_serve.ops.metrics._LOGGER.disabled", False)
    record.add_audio(2.5)
    record.add_events([Commit((token("secret", end=1.0),), 1.25)], 0.0, deque())
    record.set_state("waiting")
    clock.now += 3
    with caplog.at_level(logging.INFO, "wlk_serve"):
        record.finish("1000")

    (line,) = caplog.messages
    assert line == (
        "session sess_1 protocol=realtime key=ab12 seconds=3.0 audio=2.5 words=1 losses=1 "
        "latency_p95=0.25 end=1000"
    )
