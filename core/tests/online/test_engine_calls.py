"""Engine calls: counted, and intercepted where a test requests it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core.plugins import EngineCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.online.engine_calls import EngineRun


@pytest.fixture
def calls() -> Any:
    """Return the calls of an engine that never ran."""
    return EngineCalls()


def test_calls_of_many_threads_are_all_counted(calls: EngineCalls) -> None:
    """No call of eight threads is lost, and each number is intercepted once."""
    numbers: list[int] = []

    def intercept(run: EngineRun) -> Sequence[Any]:
        numbers.extend(run.numbers)
        return run.answer()

    calls.intercept = intercept
    engine = calls.wrap(len)

    def run(_thread: Any) -> int:
        return sum(engine("a") for _ in range(1000))

    with ThreadPoolExecutor(8) as pool:
        assert [1000] * 8 == list(pool.map(run, range(8)))

    assert 8000 == calls.count
    assert list(range(1, 8001)) == sorted(numbers)


def test_an_intercepted_call_can_fail_or_have_another_answer(calls: EngineCalls) -> None:
    """The function runs where the interceptor lets it; its answer and its cut are handed over."""
    reached: list[str] = []

    def upper(text: str) -> str:
        reached.append(text)
        return text.upper()

    def intercept(run: EngineRun) -> Sequence[Any]:
        if run.numbers == (2,):
            raise RuntimeError("on request")
        assert run.cut is not None
        return [run.cut(answer, 0.5) for answer in run.answer()]

    call = calls.wrap(upper, cut=lambda text, share: text[: int(share * len(text))])
    calls.intercept = intercept
    first = call("abcd")
    with pytest.raises(RuntimeError, match="on request"):
        call("efgh")
    calls.intercept = None

    assert ("AB", "ABCD") == (first, call("abcd"))
    assert ["abcd", "abcd"] == reached
    assert 3 == calls.count
