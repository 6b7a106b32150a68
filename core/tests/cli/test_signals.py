"""Signals that end a program, as exceptions."""

from __future__ import annotations

import signal

import pytest

from wlk_core.cli.signals import SIGNALS, SignalReceived


@pytest.fixture(autouse=True)
def handlers(own_signals):
    """Install the handlers of the command line for one test."""
    SIGNALS.reset()
    SIGNALS.install()


def test_a_signal_raises_at_once():
    """Loading a model or waiting for audio ends immediately."""
    with pytest.raises(SignalReceived) as caught:
        signal.raise_signal(signal.SIGTERM)

    assert (str(caught.value), caught.value.status) == ("stopped by SIGTERM", 143)
    assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL  # it kills a run that hangs


def test_only_the_first_signal_raises():
    """A second signal, as systemd sends, does not interrupt what the first one made necessary."""
    with pytest.raises(SignalReceived):
        signal.raise_signal(signal.SIGTERM)

    signal.raise_signal(signal.SIGHUP)

    assert str(SIGNALS.received) == "stopped by SIGTERM"


def test_a_signal_that_is_ignored_stays_ignored():
    """Programs started with nohup ignore a closing terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    SIGNALS.install()

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
