"""Code of plugins inside a command: its prints are no results, and a long wait has a line."""

from __future__ import annotations

from contextlib import contextmanager, redirect_stdout
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wlk_core.registry import PluginInfo

__all__ = ["quiet", "quietly", "watched"]

T = TypeVar("T")

_PATIENCE_SECONDS = 5.0  # a plugin imports nothing heavy: 0.05 s each on a slow disk


@contextmanager
def quiet() -> Iterator[None]:
    """Send what is printed to standard error."""
    with redirect_stdout(sys.stderr):
        yield


def quietly(items: Iterable[T]) -> Iterator[T]:
    """Yield *items*; what is printed while one is made goes to standard error."""
    iterator = iter(items)
    while True:
        with quiet():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def watched(plugin: PluginInfo, report: Callable[[str], None]) -> Iterator[None]:
    """Import a plugin and call its hook; *report* a wait of some seconds by its name."""
    line = (
        f"still waiting for {plugin.title}, which takes more than {_PATIENCE_SECONDS:.0f} s to "
        f"import; Ctrl-C ends this, pip uninstall {plugin.distribution} removes it"
    )
    timer = threading.Timer(_PATIENCE_SECONDS, report, [line])
    timer.daemon = True
    timer.start()
    try:
        with quiet():
            yield
    finally:
        timer.cancel()
