"""A call of the hub's library ends: with its result, its failure, or for want of patience."""

from __future__ import annotations

import threading

import pytest

from wlk_core.models.hub_answers import UnexpectedAnswer
from wlk_core.models.watch import LibraryError, watched


def watch(call, **options):
    """Watch a call that may receive 100 bytes."""
    return watched(call, **{"seconds": 5, "most_bytes": 100} | options)


def test_the_result_of_a_call_is_returned():
    """A call that ends in time is as if it were made directly, None included."""
    assert watch(lambda: "result") == "result"
    assert watch(lambda: None) is None


@pytest.mark.parametrize("failure", [OSError(28, "full"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failure_of_the_system_is_passed_on(failure):
    """An error of the disk, and the user's Ctrl-C, reach the caller as they are."""

    def fail():
        raise failure

    with pytest.raises(type(failure)) as caught:
        watch(fail)
    assert caught.value is failure


def test_an_error_of_the_library_is_wrapped():
    """Any other error becomes one class, with the error as its cause."""
    with pytest.raises(LibraryError) as caught:
        watch(lambda: int("x"))
    assert isinstance(caught.value.__cause__, ValueError)


def test_patience_runs_out():
    """A call that never ends is given up."""
    never = threading.Event()

    with pytest.raises(TimeoutError):
        watch(lambda: never.wait(0.5), seconds=0.05)
    never.set()


def test_bytes_that_arrive_bring_patience_back():
    """A call whose file grows goes on for longer than its patience."""
    sizes = iter(range(0, 1_000_000, 10_000))
    done = threading.Event()

    def growing():
        size = next(sizes)
        if size == 150_000:
            done.set()
        return size

    assert watch(lambda: done.wait(9), seconds=0.5, most_bytes=10**6, partial_bytes=growing)


def test_a_file_that_grows_beyond_its_size_ends_the_call():
    """The unfinished file of any transport is watched too."""
    sizes = iter([0, 50, 101])
    too_long = threading.Event()

    def growing():
        size = next(sizes)
        if size == 101:
            too_long.set()
        return size

    def call():
        too_long.wait(9)
        threading.Event().wait(0.5)

    with pytest.raises(UnexpectedAnswer, match="longer than 100 bytes"):
        watch(call, seconds=1, partial_bytes=growing)
