"""
Failure of a stream: errors are raised, counted and bounded, and no text is lost.

The rules ERR of the suite fail each call of the engine; here are failures around it.
"""

from __future__ import annotations

import attrs
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import BackendError, LocalAgreementRecognizer, OnlineStream, StreamBroken


def test_a_broken_stream_returns_the_committed_text(speech, coded_engine):
    """StreamBroken.committed has the tokens that no Emission carried."""
    engine = coded_engine(fail_at=range(8, 100))
    driver = StreamDriver(engine.stream())
    driver.insert(speech.audio)
    broken = None
    while broken is None:
        try:
            driver.processor.finish()
        except StreamBroken as error:
            broken = error
        except BackendError:
            continue

    text = "".join(token.text for token in broken.committed)
    assert text
    assert speech.text.startswith(text)


@pytest.mark.parametrize("call", ["process_iter", "start_silence", "finish"])
def test_an_error_after_committed_text_is_raised_by_the_next_call(speech, coded_engine, call):
    """The text of the earlier steps is returned, then the error is raised before any new work."""
    engine = coded_engine(fail_at={4})
    driver = StreamDriver(engine.stream())
    driver.insert(speech.audio)

    assert driver.process().committed
    with pytest.raises(BackendError, match="RuntimeError: call 4 fails") as failure:
        getattr(driver.processor, call)()
    assert isinstance(failure.value.__cause__, RuntimeError)
    assert 4 == engine.calls
    driver.finish()
    assert speech.text == driver.text
    driver.processor.reset()
    assert ((), 0.0) == tuple(driver.processor.process_iter())


def test_an_error_that_is_raised_later_is_counted_once(speech, coded_engine):
    """The fourth failure of the engine breaks the stream, not the fourth call that raises."""
    engine = coded_engine(fail_at=range(4, 100))
    driver = StreamDriver(engine.stream())
    driver.insert(speech.audio)
    driver.process()
    for calls in (4, 5, 6):
        with pytest.raises(BackendError) as failure:
            driver.process()
        assert not isinstance(failure.value, StreamBroken)
        assert calls == engine.calls

    with pytest.raises(StreamBroken):
        driver.process()
    assert 7 == engine.calls


class Failing:
    """A recognizer of which one attribute or call fails the first *times* times."""

    def __init__(self, recognizer, attribute, times=0):
        self.recognizer, self.attribute, self.left = recognizer, attribute, times

    def __getattr__(self, name):
        """Return the recognizer's attribute, or fail."""
        if name == self.attribute and self.left:
            self.left -= 1
            raise MemoryError("no room\nat all")
        return getattr(self.recognizer, name)


@pytest.mark.parametrize(
    "attribute", ["feed", "end_utterance", "hypothesis", "language", "work", "state_bytes"]
)
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("seconds", [1, 5, 9])
def test_a_failure_around_a_step_loses_no_word(speech, engine, attribute, times, seconds):
    """What a step committed is applied by the call that repeats the failed one, and once."""
    recognizer = Failing(LocalAgreementRecognizer(engine.transcribe), attribute)
    driver = StreamDriver(OnlineStream(lambda: recognizer))
    driver.feed(speech.audio[: 16_000 * seconds])
    recognizer.left = times
    driver.insert(speech.audio[16_000 * seconds :])
    for _ in range(times):
        with pytest.raises(BackendError, match="MemoryError: no room at all; nothing was changed"):
            driver.start_silence()
    driver.silence(1.0)
    driver.feed(speech.audio)
    driver.finish()

    assert f"{speech.text} {speech.text}" == driver.text


@pytest.mark.parametrize("attribute", ["feed", "end_utterance", "hypothesis", "state_bytes"])
def test_failures_around_a_step_are_bounded(speech, engine, attribute):
    """The fourth in a row breaks the stream, although steps between them succeed."""
    recognizer = Failing(LocalAgreementRecognizer(engine.transcribe), attribute)
    stream = OnlineStream(lambda: recognizer)
    stream.insert_audio_chunk(speech.audio)
    recognizer.left = 100
    for _ in range(3):
        with pytest.raises(BackendError) as failure:
            stream.start_silence()
        assert not isinstance(failure.value, StreamBroken)

    with pytest.raises(StreamBroken):
        stream.start_silence()
    assert 96 == recognizer.left


@pytest.mark.parametrize("failing", range(1, 9))
def test_words_are_committed_once_where_the_hypothesis_after_them_fails(
    speech, engine, monkeypatch, failing
):
    """The step is repeated from its answer, of which the words are committed already."""
    driver = StreamDriver(engine.stream())
    preview, calls = driver.processor._transcript.preview, 0

    def failing_preview(*arguments):
        nonlocal calls
        calls += 1
        if calls == failing:
            raise ValueError("a hypothesis that cannot be read")
        return preview(*arguments)

    monkeypatch.setattr(driver.processor._transcript, "preview", failing_preview)
    driver.insert(speech.audio)
    with pytest.raises(BackendError, match="cannot be read"):
        while True:
            driver.finish()
    driver.finish()

    assert speech.text == driver.text


def test_a_reset_that_fails_changes_nothing(speech, engine):
    """If no new recognizer can be made, the stream goes on with the old recognizer."""
    recognizers = iter([LocalAgreementRecognizer(engine.transcribe)])
    driver = StreamDriver(OnlineStream(lambda: next(recognizers)))
    driver.feed(speech.audio[: 16_000 * 5])

    with pytest.raises(BackendError, match="could not be reset") as failure:
        driver.processor.reset()
    assert isinstance(failure.value.__cause__, StopIteration)
    driver.feed(speech.audio[16_000 * 5 :])
    driver.finish()
    assert speech.text == driver.text


@pytest.mark.parametrize("attribute", ["work", "close"])
def test_a_failure_around_a_stream_is_a_backend_error(engine, attribute):
    """Opening, resetting and closing raise no error of a framework."""
    recognizer = Failing(LocalAgreementRecognizer(engine.transcribe), attribute)
    stream = OnlineStream(lambda: recognizer)
    recognizer.left = 2

    with pytest.raises(BackendError, match="could not be reset: MemoryError: no room"):
        stream.reset()
    if attribute == "work":
        with pytest.raises(BackendError, match="could not be opened: MemoryError"):
            OnlineStream(lambda: recognizer)
    else:
        with pytest.raises(BackendError, match="could not be released: MemoryError"):
            stream.close()
        stream.close()


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

    assert 1 == failures
    assert speech.text == driver.text
