"""`tick_seconds=auto` is the smallest tick that the measured cost of a step leaves room for."""

from __future__ import annotations

from functools import partial
import logging

import pytest

from wlk_conformance import EngineFaults
from wlk_core.errors import BackendError
from wlk_core.loaded_backend import PROBES, TICKS, measure_step, smallest_tick
from wlk_core.plugins import (
    BackendSpec,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    standard_options,
)

SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(standard_options.TICK_SECONDS, standard_options.BUFFER_SECONDS),
)


class Engine:
    """An engine whose calls take the next of *costs* on its own clock; the last one stays."""

    def __init__(self, *costs):
        self.costs = list(costs)
        self.now = 0.0
        self.lengths = []  # seconds of audio of each call

    def clock(self):
        """Return the seconds so far."""
        return self.now

    def transcribe(self, audio, *, prompt, language):
        """Return no words."""
        self.lengths.append(len(audio) / 16_000)
        self.now += self.costs.pop(0) if len(self.costs) > 1 else self.costs[0]
        return Hypothesis()


def backend_of(engine, ticks):
    """Return a backend that appends the tick of every stream it opens to *ticks*."""

    def open_stream(engine, config, calls):
        ticks.append(config.options["tick_seconds"])
        return partial(
            LocalAgreementRecognizer,
            calls.wrap(engine.transcribe),
            tick_seconds=config.options["tick_seconds"],
        )

    return LoadedBackend(SPEC, engine, open_stream=open_stream, warmup=lambda *_: None)


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that makes a backend on the engine's clock, and the ticks it opened."""

    def make(*costs):
        engine, ticks = Engine(*costs), []
        # import-linter, which another test runs, disables the loggers that exist by then.
        monkeypatch.setattr("wlk_core.loaded_backend._LOGGER.disabled", False)
        monkeypatch.setattr(
            "wlk_core.loaded_backend.measure_step",
            partial(measure_step, clock=engine.clock),
        )
        return backend_of(engine, ticks), engine, ticks

    return make


@pytest.mark.parametrize(
    ("cost", "tick"),
    [(0.0, 0.25), (0.0625, 0.25), (0.07, 0.5), (0.25, 1.0), (0.3, 2.0), (9.0, 2.0)],
)
def test_a_step_takes_a_quarter_of_the_tick_at_most(cost, tick):
    """The smallest such tick is chosen, or the largest one for a model that is too slow."""
    assert tick == smallest_tick(cost)
    assert tick in TICKS


@pytest.mark.parametrize(("cost", "tick"), [(0.0, 0.5), (0.2, 1.0), (9.0, 2.0)])
def test_local_agreement_ticks_no_faster_than_twice_a_second(cost, tick):
    """Closer hypotheses agree on words that a cut-off word made the model invent."""
    assert tick == smallest_tick(cost, policy="local-agreement")


def test_the_cost_is_that_of_the_least_disturbed_step_after_the_first():
    """The first step warms up, and one of the others may share the processor."""
    engine = Engine(5.0, 0.9, 0.1)
    cost = measure_step(
        partial(LocalAgreementRecognizer, engine.transcribe, tick_seconds=8.0), clock=engine.clock
    )

    assert pytest.approx(0.1) == cost
    assert [8.0] * PROBES == engine.lengths


def test_auto_is_chosen_once_and_logged(loaded, caplog):
    """A later stream with the same options has the same tick although steps are slower by then."""
    backend, engine, ticks = loaded(0.1)
    with caplog.at_level(logging.INFO, logger="wlk_core.loaded_backend"):
        backend.create_processor(tick_seconds="auto")
        engine.costs = [9.0]
        backend.create_processor(tick_seconds="AUTO")

    assert [8.0, 0.5, 0.5] == ticks
    assert PROBES == len(engine.lengths)
    assert ["toy: tick_seconds=auto is 0.5 s, because a step takes 0.100 s"] == caplog.messages


def test_other_options_are_measured_anew(loaded):
    """What a step costs depends on the options of the stream."""
    backend, engine, ticks = loaded(0.1)
    backend.create_processor(tick_seconds="auto")
    engine.costs = [0.2]
    backend.create_processor(tick_seconds="auto", buffer_seconds=20.0)

    assert [8.0, 0.5, 8.0, 1.0] == ticks


def test_a_tick_in_seconds_runs_no_model(loaded):
    """Only auto is measured; the default is a second."""
    backend, engine, ticks = loaded(0.1)
    backend.create_processor()
    backend.create_processor(tick_seconds="0.3")

    assert [1.0, 0.3] == ticks
    assert [] == engine.lengths


def test_an_engine_that_fails_while_it_is_measured_opens_no_stream(loaded):
    """The error is a BackendError, and the next stream measures again."""
    backend, _engine, ticks = loaded(0.1)
    EngineFaults.of(backend.engine_calls).fail_before = frozenset({2})
    with pytest.raises(BackendError, match="could not open a stream"):
        backend.create_processor(tick_seconds="auto")
    backend.create_processor(tick_seconds="auto")

    assert 0.5 == ticks[-1]
