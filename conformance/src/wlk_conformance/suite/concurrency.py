"""Calls made while a step runs, for the rules about threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wlk_conformance.threaded_call import ThreadedCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.testing import StreamDriver

__all__ = ["returns_promptly", "while_a_step_runs"]

PROMPT = 5.0  # seconds within which a call that does not wait returns, on any machine
LIMIT = 30.0  # seconds: a step that has not begun or ended by then is stuck


def returns_promptly(call: Callable[[], object], *, name: str) -> None:
    """Make *call* on a new thread; AssertionError if it waits for the running step."""
    calling = ThreadedCall(call)
    assert calling.wait(PROMPT), f"{name} did not return within {PROMPT:g} s while a step ran"
    calling.raise_error()


def while_a_step_runs(
    wlk: BackendUnderTest,
    driver: StreamDriver,
    act: Callable[[], None],
    *,
    may_raise: tuple[type[Exception], ...] = (),
) -> bool:
    """
    Call process_iter on a new thread, and *act* on this thread while the engine is held.

    Where the engine cannot be held, *act* is called as soon as the step was requested: it then
    overlaps the step if it can.  Returns whether the engine was held.  Raises what either raised,
    except for what the step *may_raise*.
    """
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(LIMIT)

    def step() -> None:
        try:
            if not is_held:
                begun.set()
            driver.process()
        except may_raise:
            pass
        finally:
            begun.set()

    with wlk.gate(wait) as is_held:
        stepping = ThreadedCall(step)
        try:
            assert begun.wait(LIMIT), f"the step did not reach the engine within {LIMIT:g} s"
            act()
        finally:
            go_on.set()
            has_ended = stepping.wait(LIMIT)
    assert has_ended, f"the step did not end within {LIMIT:g} s"
    stepping.raise_error()
    return is_held
