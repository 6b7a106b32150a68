"""Rules ERR: an engine that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same
from wlk_conformance.rules import NotApplicable, rule
from wlk_core.errors import BackendError, StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.subject import Subject
    from wlk_core import Emission

__all__ = ["FailureRules"]

FAULTS = range(1, 21)  # engine calls at which a fault is injected, one after the other
RETRIES = 3  # failed retries after which a stream is broken


class FailureRules:
    """Rules of an engine that fails."""

    @rule("ERR-01", kinds="F", causes=("except Exception: return [] (B06, B07)",))
    def test_an_engine_error_is_raised(self, wlk: Subject) -> None:
        """An engine error is raised as BackendError with its cause, never turned into silence."""
        fed = wlk.speech(4, seed=3)
        for call in ("process_iter", "start_silence", "finish"):
            driver = wlk.stream()
            driver.insert(fed.audio)
            with wlk.faults(*FAULTS):
                error = _error_of(getattr(driver, "process" if call == "process_iter" else call))
            assert error is not None, f"the engine failed in {call}, and nothing was raised"
            assert error.__cause__ is not None, f"{call} raised {error!r} without its cause"

    @rule(
        "ERR-02",
        kinds="F",
        causes=(
            "pending audio is taken before the engine has answered (B06)",
            "the tick is moved on although it failed (B07)",
        ),
    )
    def test_a_failed_call_changes_nothing(self, wlk: Subject) -> None:
        """
        A failed call changes nothing: the next one retries, and nothing is lost.

        The recovered text equals the fault-free text (fault at call 1..20).  A failed `finish`
        leaves the stream open and can be retried.
        """
        with wlk.faults():
            fed = wlk.speech(24, seed=19)
        expected = wlk.solo(fed)
        wlk.heard(expected, fed)
        failed = 0
        for call in FAULTS:
            driver = wlk.stream()
            with wlk.faults(call):
                for chunk in fed.chunks(1.0):
                    driver.insert(chunk)
                    failed += _retried(driver.process)
                failed += _retried(driver.finish)
            check_same(expected, driver.tokens, what=f"with a fault at engine call {call}")
        if not failed:
            raise NotApplicable("no engine call could be made to fail")

    @rule("ERR-02", kinds="F", causes=("finish marks the stream finished before it flushes",))
    def test_a_failed_finish_can_be_retried(self, wlk: Subject) -> None:
        """A failed finish leaves the stream open: it takes audio, and finish again."""
        fed = wlk.speech(6, seed=5)
        first, rest = fed.cut(fed.seconds / 2)
        driver = wlk.stream()
        driver.insert(first)
        with wlk.faults(1):
            error = _error_of(driver.finish)
        assert error is not None, "the engine failed in finish, and nothing was raised"
        driver.insert(rest)
        driver.finish()
        check_same(wlk.solo(fed), driver.tokens, what="after a finish that failed", tolerance=0.1)

    @rule("ERR-03", kinds="F", causes=("every call tries again for ever",))
    def test_failure_is_bounded(self, wlk: Subject) -> None:
        """
        Failure is bounded: after three failed retries the stream is broken for good.

        StreamBroken says so at every call.
        """
        fed = wlk.speech(4, seed=3)
        driver = wlk.stream()
        driver.insert(fed.audio)
        with wlk.faults(*range(1, 100)):
            errors = [_error_of(driver.process) for _ in range(RETRIES + 1)]
        kinds = [type(error).__name__ for error in errors]
        assert all(isinstance(error, BackendError) for error in errors), f"raised {kinds}"
        assert not isinstance(errors[0], StreamBroken), "the first failure ended the stream"
        calls: dict[str, Callable[[], object]] = {
            "process_iter": driver.process,
            "start_silence": driver.start_silence,
            "end_silence": lambda: driver.processor.end_silence(1.0),
            "insert_audio_chunk": lambda: driver.processor.insert_audio_chunk(fed.audio),
            "finish": driver.finish,
        }
        for name, call in calls.items():
            error = _error_of(call)
            assert isinstance(error, StreamBroken), (
                f"{name} of a stream that failed {RETRIES + 1} times raised {error!r}"
            )
        driver.processor.close()

    @rule("ERR-04", kinds="F", causes=("the engine's failure is remembered on the backend",))
    def test_other_streams_do_not_notice(self, wlk: Subject) -> None:
        """One stream's failure leaves the other streams of the backend as they were."""
        fed = wlk.speech(6, seed=5)
        healthy, failing = wlk.stream(), wlk.stream()
        for chunk in fed.chunks(1.0):
            healthy.feed(chunk)
            failing.insert(chunk)
            with wlk.faults(*range(1, 100)):
                _error_of(failing.process)
        healthy.drain()
        healthy.finish()
        check_same(wlk.solo(fed), healthy.tokens, what="beside a stream that fails")
        later = wlk.run(fed)
        check_same(wlk.solo(fed), later.tokens, what="opened after a failure")


def _error_of(call: Callable[[], object]) -> BackendError | None:
    try:
        call()
    except BackendError as error:
        return error
    return None


def _retried(call: Callable[[], Emission]) -> bool:
    """Make the call, once more if it fails; tell whether it did."""
    if _error_of(call) is None:
        return False
    call()
    return True
