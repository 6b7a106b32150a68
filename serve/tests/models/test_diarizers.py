"""Diarizers of sessions: one for each, loaded where it is used."""

from __future__ import annotations

import pytest

from wlk_conformance.testing.annotators import ScriptedDiarizer
from wlk_core.errors import BackendUnavailable
from wlk_core.registry import Registry
from wlk_core.tokens import SpeakerSpan
from wlk_serve.models.service import DiarizerSource


@pytest.fixture
def loaded():
    """Return the list of the diarizers that were loaded."""
    return []


@pytest.fixture
def source(loaded):
    """Return a source of scripted diarizers."""

    def load():
        loaded.append(ScriptedDiarizer([SpeakerSpan("anna", 0, 1)], max_delay=0.5))
        return loaded[-1]

    return DiarizerSource(load)


def test_one_is_loaded_before_the_server_is_ready(source, loaded):
    """It declares the delay, and is closed again; each session has another one."""
    (first,) = loaded
    opened = source.open()

    assert first.is_closed
    assert 0.5 == source.max_delay
    assert opened is loaded[1]
    assert not opened.is_closed


def test_a_diarizer_is_named_or_absent():
    """A name that no plugin has is refused at the start."""
    assert DiarizerSource.named(Registry([]), None) is None
    with pytest.raises(BackendUnavailable, match="no diarizer called 'else'; installed: none"):
        DiarizerSource.named(Registry([]), "else")
