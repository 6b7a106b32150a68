"""A model that was loaded before a fork is refused in the child instead of waiting for ever."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import BackendError, LoadedBackend, LocalAgreementRecognizer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_a_fork(report):
    """Return what *report* returns in a child made by fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, report().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def message_of(call):
    """Return the message of the error that the call raises."""
    try:
        call()
    except BackendError as error:
        assert not error.retryable
        return str(error)
    return "accepted"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python 3.12: threads run
def test_a_fork_is_refused_with_the_remedy(engine, speech, toy_spec):
    """Each call of a stream and of its backend names spawn; the parent goes on."""
    backend = LoadedBackend(
        toy_spec,
        engine,
        open_stream=lambda engine, _config, calls: (
            lambda: LocalAgreementRecognizer(calls.wrap(engine.transcribe))
        ),
        warmup=lambda _engine, _calls: None,
        release=lambda _engine: sys.exit("released by the child"),
    )
    driver = StreamDriver(backend.create_processor())
    driver.feed(speech.audio[:80_000])
    stream = driver.processor

    def report():
        calls = [
            lambda: stream.insert_audio_chunk(np.zeros(160, np.float32)),
            stream.process_iter,
            stream.start_silence,
            lambda: stream.end_silence(1.0),
            stream.finish,
            stream.reset,
            backend.create_processor,
            backend.warmup,
        ]
        messages = {message_of(call).replace(str(os.getpid()), "child") for call in calls}
        stream.close()
        backend.close()
        return "\n".join(messages)

    message = in_a_fork(report)
    driver.feed(speech.audio[80_000:])
    driver.finish()

    assert f"the model was loaded in process {os.getpid()}" in message
    assert "multiprocessing.get_context('spawn')" in message
    assert "\n" not in message
    assert speech.text == driver.text
