"""
Failure of a stream: errors are raised, counted and bounded, and no text is lost.

The ERR rules of the suite make each engine call fail; these tests are about failures around it.
"""

from __future__ import annotations

import gc
import weakref

import attrs
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import BackendError, LocalAgreementRecognizer, OnlineStream


@pytest.mark.parametrize("call", ["process_iter", "start_silence", "finish"])
@pytest.mark.parametrize("retryable", [True, False])
def test_an_error_after_committed_text_has_the_text(speech, coded_engine, call, retryable):
    """The tokens of earlier steps come with the error, and with the next emission."""
    engine = coded_engine()

    def fail_at_four():
        if engine.calls == 4:
            raise BackendError("no key", retryable=retryable)

    engine.before_call = fail_at_four
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio)
    with pytest.raises(BackendError, match="no key") as failure:
        getattr(stream, call)()
    emission = getattr(stream, call)()

    assert failure.value.retryable == retryable
    assert failure.value.committed
    assert emission.committed[: len(failure.value.committed)] == failure.value.committed
    assert speech.text.startswith("".join(token.text for token in emission.committed))


def test_a_recognizer_that_cannot_be_made_or_closed_is_a_backend_error(speech, engine):
    """The stream is not opened; if it cannot be reset, it keeps its recognizer."""
    recognizers = iter([LocalAgreementRecognizer(engine.transcribe)])
    stream = OnlineStream(lambda: next(recognizers))
    driver = StreamDriver(stream)
    driver.feed(speech.audio[: 16_000 * 5])

    with pytest.raises(BackendError, match="could not be reset: StopIteration") as failure:
        stream.reset()
    assert isinstance(failure.value.__cause__, StopIteration)
    driver.feed(speech.audio[16_000 * 5 :])
    driver.finish()
    assert driver.text == speech.text
    with pytest.raises(BackendError, match="could not be opened: StopIteration"):
        OnlineStream(lambda: next(recognizers))
    stream._recognizer.close = lambda: next(recognizers)
    with pytest.raises(BackendError, match="could not be released: StopIteration"):
        stream.close()
    stream.close()


def test_a_closed_stream_keeps_no_audio_of_the_call_that_failed(speech, engine):
    """The error is released too, because its traceback holds the audio."""
    audio = speech.audio.copy()
    windows = []

    def fail(window, **_arguments):
        windows.append(weakref.ref(window.base if window.base is not None else window))
        raise RuntimeError("no memory")

    stream = OnlineStream(lambda: LocalAgreementRecognizer(fail))
    stream.insert_audio_chunk(audio)
    with pytest.raises(BackendError, match="no memory"):
        stream.finish()

    stream.close()
    gc.collect()

    assert windows[0]() is None


@pytest.mark.parametrize("policy", ["local-agreement", "alignatt"])
@pytest.mark.parametrize("call", [1, 3, 6, 16])
def test_an_answer_that_cannot_be_read_is_requested_again(
    speech, engine, policy, call, monkeypatch
):
    """An engine that returns words without times once is called again for the same audio."""
    name = "transcribe" if policy == "local-agreement" else "decode"
    real, answers = getattr(engine, name), []

    def answer(*arguments, **options):
        answers.append(real(*arguments, **options))
        if len(answers) == call:
            return attrs.evolve(answers[-1], words=(None,))
        return answers[-1]

    monkeypatch.setattr(type(engine), name, lambda _, *args, **options: answer(*args, **options))
    driver = StreamDriver(engine.stream(policy=policy))
    failures = 0
    for start in range(0, len(speech.audio), 16_000):
        driver.insert(speech.audio[start : start + 16_000])
        try:
            driver.process()
        except BackendError:
            failures += 1
    try:
        driver.finish()
    except BackendError:
        failures += 1
        driver.finish()

    assert failures == 1
    assert driver.text == speech.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_before_words_are_committed_loses_none(speech, engine, monkeypatch, kind):
    """The recognizer does not repeat its step, so the step is kept until it is committed."""
    stream = engine.stream()
    stream.insert_audio_chunk(speech.audio)
    commit, raised = stream._transcript.commit, []

    def interrupted(*arguments):
        if not raised:
            raised.append(kind())
            raise raised[0]
        return commit(*arguments)

    monkeypatch.setattr(stream._transcript, "commit", interrupted)
    with pytest.raises(kind):
        stream.finish()

    assert "".join(token.text for token in stream.finish().committed) == speech.text
