"""Signals that are held until committed text is written."""

from __future__ import annotations

import signal

import pytest

from wlk_core.cli.signals import SIGNALS, SignalReceived


@pytest.fixture(autouse=True)
def handlers(own_signals):
    """Install the handlers of the command line for one test."""
    SIGNALS.reset()
    SIGNALS.install()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_signal_raises_at_once_where_nothing_is_held():
    """Loading a model or waiting for audio ends immediately."""
    with pytest.raises(SignalReceived) as caught:
        signal.raise_signal(signal.SIGTERM)

    assert (str(caught.value), caught.value.status) == ("stopped by SIGTERM", 143)


def test_a_held_signal_raises_when_the_text_is_written():
    """The first signal counts; others that come while signals are held change nothing."""
    SIGNALS.hold()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.raise_signal(number)

    with pytest.raises(SignalReceived) as caught:
        SIGNALS.release()
    assert str(caught.value) == "stopped by SIGTERM"
    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL  # it kills a run that hangs


def test_a_signal_that_is_ignored_stays_ignored():
    """Programs started with nohup ignore a closing terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    SIGNALS.install()

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
