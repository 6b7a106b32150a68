"""Rules ERR: behaviour when the engine fails."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from wlk_conformance.compare import check_same
from wlk_conformance.rules import NotApplicable, rule
from wlk_conformance.side_effects import network_blocked
from wlk_conformance.suite.scenes import (
    check_alone,
    exclusive_calls,
    flushes_of,
    unless_answers_vary,
    variant_streams,
    while_call_runs,
)
from wlk_conformance.testing import StreamDriver, silence
from wlk_core.errors import BackendError, OptionError, StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest

RETRIES = 3  # failed retries after which a stream is broken
MOST_CALLS = 4 * (RETRIES + 1)  # some may not call the engine, because no step is due yet
FLUSH_CALLS = (1, 2, 3)  # numbers of the engine calls of a flush that fail
PAIRS = 4  # of neighbouring words
BRIEF_SAMPLES = 5600  # 0.35 s: quiet and the beginning of a word
FAULTS = range(1, 21)  # numbers of the engine calls that fail, each in some stream
#: FAULTS spread over four streams, because four in a row break a stream.
SPACED_FAULTS = [tuple(FAULTS[first :: RETRIES + 1]) for first in range(RETRIES + 1)]
RETRIED_CALLS = (1, 3, 4)  # of streams with other policies and options
#: As many faults in a row as a stream survives, and again after a call that succeeds.
FAULTS_IN_A_ROW = tuple(call for call in FAULTS if call % (RETRIES + 1))


class FailureRules:
    """Rules of behaviour when the engine fails."""

    @rule(
        "ERR-01",
        "except Exception: return []",
        "an error after text is dropped",
        "an error for audio that is short or quiet is taken for the answer that it has no words",
        "an error of the last call of a flush is taken for the end of its answer",
        kinds="F",
    )
    def test_an_engine_error_is_raised(self, wlk: BackendUnderTest) -> None:
        """
        An engine error is raised as BackendError with its cause, never turned into silence.

        If earlier steps of a call committed text, that call or the next one raises.
        """
        faults, stimulus = wlk.faults, wlk.speech(4, seed=3)
        before = faults.raised
        wlk.recipes.append("its first 0.35 s, and a second of zeros")
        audios = (silence(1.0), stimulus.audio[:BRIEF_SAMPLES], stimulus.audio)
        acts = (StreamDriver.process, *flushes_of(wlk).values())
        for is_after in (False, True):
            for audio, call in product(audios, acts):
                driver = wlk.stream(audio)
                with faults.failing(FAULTS, after=is_after):
                    _error_of(partial(call, driver))
                # The monitor of every stream checks the error of this call, or of the next one.
                _error_of(driver.finish)
        first, rest = stimulus.cut(stimulus.seconds / 2)
        for is_after, number, flush in product((False, True), FLUSH_CALLS, acts[1:]):
            driver = wlk.stream()
            driver.feed(first)
            driver.drain()
            driver.insert(rest)
            with faults.failing((number,), after=is_after):
                _error_of(partial(flush, driver))
            _error_of(driver.finish)
        stimulus = wlk.speech(24, seed=19)
        for calls in SPACED_FAULTS:
            driver = wlk.stream(stimulus.audio)  # all at once, so that a call runs several steps
            with faults.failing(calls):
                _retried(driver.drain)
                _retried(driver.finish)
            driver.finish()
        _require(faults.raised - before)

    @rule("ERR-01", "except OSError: return []", since="2.0")
    def test_a_lost_connection_is_raised(self, wlk: BackendUnderTest) -> None:
        """If the network fails, a backend that uses it raises; any other is unaffected."""
        stimulus = wlk.speech(4, seed=3)
        wlk.solo(stimulus)
        first, rest = stimulus.cut(stimulus.seconds / 2)
        for is_connected in (False, True):
            driver = wlk.stream(first)
            if is_connected:
                driver.drain()
            driver.insert(rest)
            with network_blocked(is_lost=True) as attempts:
                error = _error_of(driver.finish)
            assert error or not attempts, f"finish hid a lost connection ({attempts[0]})"

    @rule(
        "ERR-02",
        "audio, tick or state moves on before the engine has answered",
        "finish marks the stream finished before it flushes",
        kinds="F",
    )
    def test_a_failed_call_changes_nothing(self, wlk: BackendUnderTest) -> None:
        """
        A failed call changes nothing: the next one retries, and nothing is lost.

        The recovered text equals the fault-free text, for faults at calls 1 to 20, alone and three
        in a row, before the engine runs and after it.  A failed `finish` leaves the stream open:
        audio and another finish are accepted.
        """
        faults, stimulus = wlk.faults, wlk.speech(6, seed=5)
        first, rest = stimulus.cut(stimulus.seconds / 2)
        for is_after in (False, True):
            driver, before = wlk.stream(first), faults.raised
            with faults.failing((1,), after=is_after):
                error = _error_of(driver.finish)
            assert error or faults.raised == before, "the engine failed, but finish raised nothing"
            driver.insert(rest)
            driver.finish()
            check_alone(wlk, stimulus, driver, "after a finish that failed", tolerance=0.1)
        stimulus, before = wlk.speech(24, seed=19), faults.raised
        wlk.require_tokens(wlk.solo(stimulus), stimulus)
        # Streams of real engines have several faults each, because every stream takes time.
        plans = [(call,) for call in FAULTS] if wlk.is_coded else SPACED_FAULTS
        for is_after in (False, True):
            for calls in (*plans, FAULTS_IN_A_ROW):
                driver = wlk.stream()
                with faults.failing(calls, after=is_after):
                    for chunk in stimulus.chunks(1.0):
                        driver.insert(chunk)
                        _retried(driver.process)
                    _retried(driver.finish)
                what = f"with faults at engine calls {', '.join(map(str, calls))}"
                what += " after the engine ran" if is_after else ""
                check_alone(wlk, stimulus, driver, what)
        _require(faults.raised - before)

    @rule(
        "ERR-02",
        "the audio of a failed step is put back behind what was inserted meanwhile",
        kinds="F",
        since="2.0",
    )
    def test_audio_inserted_during_a_failure_keeps_its_order(self, wlk: BackendUnderTest) -> None:
        """Audio that is inserted while a call fails is decoded after the audio of that call."""
        faults, stimulus = wlk.faults, wlk.speech(6, seed=5)
        wlk.require_tokens(wlk.solo(stimulus), stimulus)
        first, rest = stimulus.cut(stimulus.seconds / 2)
        before = faults.raised
        for is_after in (False, True):
            driver = wlk.stream(first)
            with faults.failing((1,), after=is_after):
                error = while_call_runs(wlk, driver.process, partial(driver.insert, rest))
            assert error is None or isinstance(error, BackendError), f"process raised {error!r}"
            driver.end()
            what = "with audio inserted while a call failed"
            check_alone(wlk, stimulus, driver, what, tolerance=0.1)
        _require(faults.raised - before)

    @rule(
        "ERR-02",
        "a retry is made with the defaults, and not with the arguments of the stream",
        kinds="F",
        requires="language-forcing",
        since="2.0",
    )
    def test_a_failed_call_keeps_the_language(self, wlk: BackendUnderTest) -> None:
        """A forced language holds after a failed call."""
        faults, stimulus, before = wlk.faults, wlk.speech(6, seed=5), wlk.faults.raised
        for language in sorted(wlk.spec.languages, key=lambda code: code != "en")[:2]:
            try:
                expected = wlk.run(stimulus, language=language).tokens
            except OptionError:  # not every model has every language of its backend
                continue
            for is_after in (False, True):
                driver = wlk.stream(language=language)
                with faults.failing((1, 3), after=is_after):
                    for chunk in stimulus.chunks(1.0):
                        driver.insert(chunk)
                        _retried(driver.process)
                    _retried(driver.finish)
                # The monitor of every stream checks the language of each token.
                what = f"with {language!r} forced, and faults at engine calls 1 and 3"
                with unless_answers_vary(wlk, stimulus):
                    check_same(expected, driver.tokens, what=what)
        _require(faults.raised - before)

    @rule(
        "ERR-02",
        "the state of one policy is put back, that of another is not",
        kinds="F",
        since="2.0",
    )
    def test_a_failed_call_changes_nothing_with_any_option(self, wlk: BackendUnderTest) -> None:
        """A failed call changes nothing with other policies and options either."""
        if not wlk.variants:
            raise NotApplicable("there are no other policies and options to try", "not declared")
        faults, before = wlk.faults, wlk.faults.raised
        for name, driver, stimulus in variant_streams(wlk, 6, seed=5):
            with faults.failing(RETRIED_CALLS, after=True):
                for chunk in stimulus.chunks(1.0):
                    driver.insert(chunk)
                    _retried(driver.process)
                _retried(driver.finish)
            expected = wlk.run(stimulus, **wlk.variants[name]).tokens
            with unless_answers_vary(wlk, stimulus):
                what = f"with {name}, and failures after the engine ran"
                check_same(expected, driver.tokens, what=what)
        _require(faults.raised - before)

    @rule(
        "ERR-02",
        "what failed is put back only where it is repeated",
        "the hypothesis or the speaker is cleared before the engine is called",
        kinds="F",
        since="2.0",
    )
    def test_a_failed_call_need_not_be_repeated(self, wlk: BackendUnderTest) -> None:
        """That holds too if the caller goes on with audio, a silence or another flush."""
        faults, stimulus, before = wlk.faults, wlk.speech(6, seed=5), wlk.faults.raised
        first, rest = stimulus.cut(stimulus.seconds / 2)
        middle, rest = np.array_split(rest, 2)
        step, flush = StreamDriver.process, StreamDriver.start_silence
        ways: list[tuple[Callable[[StreamDriver], object], Any]]
        ways = [(step, None), (step, flush), (flush, None), (flush, _end_silence)]
        if wlk.has("speaker-turns"):
            ways.append((_turn, None))

        def play(goes_on: Any, failing: Any = None, *, after: bool = False) -> StreamDriver:
            driver = wlk.stream()
            if wlk.has("speaker-turns"):
                driver.new_speaker("anna")  # the monitor of every stream checks the speaker
            driver.feed(first)
            driver.drain()
            driver.insert(middle)
            if failing is not None:
                shown = driver.processor.get_buffer()
                with faults.failing((1,), after=after):
                    _error_of(partial(failing, driver))
                what = f"{failing.__name__} that failed"
                assert driver.processor.get_buffer() == shown, f"{what} changed the hypothesis"
            if goes_on is not None:
                goes_on(driver)
            driver.insert(rest)
            driver.end()
            return driver

        plain = {goes_on: play(goes_on) for _, goes_on in ways}
        for is_after, (failing, goes_on) in product((False, True), ways):
            driver = play(goes_on, failing, after=is_after)
            what = f"{failing.__name__} that failed and was not repeated"
            speakers = {token.speaker for token in driver.tokens}
            assert speakers <= {None, "anna"}, f"{what} changed the speaker to {speakers}"
            with unless_answers_vary(wlk, stimulus):
                check_same(plain[goes_on].tokens, driver.tokens, what=what, tolerance=0.1)
        _require(faults.raised - before)

    @rule("ERR-02", "the failure of a prepared flush is dropped", kinds="F", since="2.0")
    def test_a_failed_preparation_loses_nothing(self, wlk: BackendUnderTest) -> None:
        """If the engine fails while a flush is prepared, the flush returns every word."""
        stimulus = wlk.speech(6, seed=5)
        audio, raised = stimulus.audio, wlk.faults.raised
        scenes = [(audio, audio[:0])]  # what a tick has passed, and a word that ends between two
        for before, word in list(pairwise(stimulus.words))[-PAIRS:]:
            first = stimulus.cut(before.end)[0]
            scenes.append((first, stimulus.cut(word.end)[0][len(first) :]))
        faults = [((), False), *product(((1,), (1, 2)), (False, True))]
        for decoded, pending in scenes:
            plain: StreamDriver | None = None  # the first one, without a failure
            for calls, is_after in faults:
                driver = wlk.stream()
                prepare = getattr(driver.processor, "prepare_flush", None)
                if not callable(prepare):
                    raise NotApplicable("its streams prepare no flush", "not declared")
                driver.feed(decoded)
                driver.drain()
                driver.insert(pending)
                driver.drain()
                if calls:
                    with wlk.faults.failing(calls, after=is_after), suppress(BackendError):
                        prepare()
                    prepare()
                driver.start_silence()
                plain = plain or driver
                with unless_answers_vary(wlk, stimulus):
                    what = "a flush whose preparation failed"
                    check_same(plain.tokens, driver.tokens, what=what, tolerance=0.1)
        if wlk.faults.raised == raised:
            raise NotApplicable("preparing a flush makes no engine call")

    @rule("ERR-03", "every call retries for ever", "a new chunk resets the count", kinds="F")
    def test_failure_is_bounded(self, wlk: BackendUnderTest) -> None:
        """
        Failure is bounded: after three failed retries the stream is broken for good.

        Every further call raises StreamBroken.
        """
        stimulus, before = wlk.speech(4, seed=3), wlk.faults.raised
        driver = wlk.stream()
        raised: list[BackendError] = []
        with wlk.faults.failing(range(1, 100)):
            for _ in range(MOST_CALLS):
                driver.insert(stimulus.audio)
                if (error := _error_of(driver.process)) is not None:
                    raised.append(error)
                if len(raised) > RETRIES:
                    break
        _require(wlk.faults.raised - before or len(raised))
        assert len(raised) > RETRIES, f"{len(raised)} of {MOST_CALLS} calls raised a failure"
        assert isinstance(raised[-1], StreamBroken), (
            f"failure {RETRIES + 1} in a row raised {raised[-1]!r}"
        )
        for is_after in (False, True):
            for name, flush in flushes_of(wlk).items():
                driver = wlk.stream(stimulus.audio)
                with wlk.faults.failing(range(1, 100), after=is_after):
                    errors = [_error_of(partial(flush, driver)) for _ in range(RETRIES + 1)]
                kinds = [type(error).__name__ for error in errors]
                assert isinstance(errors[-1], StreamBroken), (
                    f"{RETRIES + 1} calls of {name} whose engine failed raised {kinds}, expected "
                    f"StreamBroken after {RETRIES} failed retries"
                )
            driver = wlk.stream(stimulus.audio)
            with wlk.faults.failing(range(1, 100), after=is_after):
                errors = [_error_of(driver.process) for _ in range(RETRIES + 1)]
            kinds = [type(error).__name__ for error in errors]
            assert all(isinstance(error, BackendError) for error in errors), f"raised {kinds}"
            assert not isinstance(errors[0], StreamBroken), "the first failure ended the stream"
            calls = {**exclusive_calls(wlk, driver, stimulus.audio), "finish": driver.finish}
            for name, call in calls.items():
                error = _error_of(call)
                assert isinstance(error, StreamBroken), f"{name} of a broken stream: {error!r}"
            driver.processor.get_buffer()
            driver.reset()
            driver.feed(stimulus.audio)
            driver.finish()
            check_alone(wlk, stimulus, driver, "after the reset of a broken stream")

    @rule(
        "ERR-04",
        "the engine's failure is stored on the backend",
        "after some failures in a row the engine is spared, for every stream",
        kinds="F",
    )
    def test_other_streams_are_unaffected(self, wlk: BackendUnderTest) -> None:
        """One stream's failure leaves the other streams of the backend as they were."""
        faults, stimulus = wlk.faults, wlk.speech(6, seed=5)
        before = faults.raised
        for is_after in (False, True):
            healthy, failing = wlk.stream(), wlk.stream()
            for chunk in stimulus.chunks(1.0):
                healthy.feed(chunk)
                with faults.failing(range(1, 100), after=is_after):
                    _error_of(partial(failing.feed, chunk))
            with faults.failing(range(1, 100), after=is_after):
                for driver in (wlk.stream(stimulus.audio), wlk.stream(stimulus.audio)):
                    for _ in range(1 + RETRIES):  # without a call that succeeds between them
                        _error_of(driver.finish)
            healthy.end()
            check_alone(wlk, stimulus, healthy, "beside a stream that fails")
        check_alone(wlk, stimulus, wlk.run(stimulus), "opened after a failure")
        _require(faults.raised - before)


def _turn(driver: StreamDriver) -> None:
    driver.new_speaker("bob")


def _end_silence(driver: StreamDriver) -> None:
    driver.end_silence(1.0)


def _require(raised: int) -> None:
    """Raise NotApplicable if no fault was *raised*, because an untested rule must not pass."""
    if not raised:
        raise NotApplicable("no engine call could be made to fail")


def _error_of(call: Callable[[], object]) -> BackendError | None:
    try:
        call()
    except BackendError as error:
        return error
    return None


def _retried(call: Callable[[], object]) -> None:
    """
    Repeat the call until it succeeds.

    A retry may meet the next fault after steps that succeeded, so only a broken stream limits the
    number of retries.
    """
    while (error := _error_of(call)) is not None:
        if isinstance(error, StreamBroken):
            raise error
