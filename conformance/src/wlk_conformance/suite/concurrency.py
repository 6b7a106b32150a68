"""Calls made while a step runs, for the rules about threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core.testing import StreamDriver

__all__ = ["returns_promptly", "while_a_step_runs"]

PROMPT = 5.0  # seconds within which a call that does not wait returns, on any machine
LIMIT = 30.0  # seconds: a step that has not begun or ended by then is stuck


def returns_promptly(call: Callable[[], object], *, name: str) -> None:
    """Make *call* on a new thread; AssertionError if it waits for the running step."""
    failures: list[BaseException] = []

    def make() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 -- raised again by the thread that waits
            failures.append(error)

    calling = threading.Thread(target=make, daemon=True)
    calling.start()
    calling.join(PROMPT)
    assert not calling.is_alive(), f"{name} did not return within {PROMPT:g} s while a step ran"
    if failures:
        raise failures[0]


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
    failures: list[BaseException] = []

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
        except BaseException as error:  # noqa: BLE001 -- raised again by the thread that waits
            failures.append(error)
        finally:
            begun.set()

    with wlk.gate(wait) as is_held:
        stepping = threading.Thread(target=step, daemon=True)
        stepping.start()
        try:
            assert begun.wait(LIMIT), f"the step did not reach the engine within {LIMIT:g} s"
            act()
        finally:
            go_on.set()
            stepping.join(LIMIT)
    assert not stepping.is_alive(), f"the step did not end within {LIMIT:g} s"
    if failures:
        raise failures[0]
    return is_held
