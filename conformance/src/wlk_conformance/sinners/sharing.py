"""Sinners against ISO."""

from __future__ import annotations

import threading
from typing import Any

import attrs

from wlk_conformance.sinners.sinner import Sin, SinfulBackend, sinner
from wlk_core import Emission
from wlk_core.errors import ConcurrentCallError

__all__: list[str] = []

MANY = 4  # streams, or threads


@sinner("ISO-01", defects="B04")
class MixesUpItsStreams(Sin):
    """Loses a word where four streams take turns on one thread."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Remember who stepped; drop a word where four did in turn."""
        if call != "process_iter":
            return emission
        turns = self.backend.marks.setdefault("turns", [])
        turns.append((threading.get_ident(), id(self)))
        del turns[: -2 * MANY]
        is_mixed = (
            len({thread for thread, _ in turns}) == 1
            and len({stream for _, stream in turns}) == MANY
            and turns[:MANY] == turns[MANY:]
        )
        return attrs.evolve(emission, committed=emission.committed[1:]) if is_mixed else emission


@sinner("ISO-02", defects="B03, B04")
class MixesUpItsThreads(SinfulBackend):
    """Hears nothing where two engine calls overlap."""

    def _counted(self, call: Any) -> Any:
        counted = super()._counted(call)

        def mixed_up(*args: Any, **kwargs: Any) -> Any:
            inside = self.marks.setdefault("inside", [])
            inside.append(object())
            is_shared = len(inside) > 1
            try:
                hypothesis = counted(*args, **kwargs)
                is_shared = is_shared or len(inside) > 1
            finally:
                inside.pop()
            return attrs.evolve(hypothesis, words=()) if is_shared else hypothesis

        return mixed_up


@sinner("ISO-03")
class WantsItsOwnThread(Sin):
    """Fails when a fourth thread calls."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Count the threads that have called."""
        threads = self.__dict__.setdefault("threads", [])
        current = threading.current_thread()
        if current not in threads:
            threads.append(current)
        if len(threads) >= MANY:
            raise RuntimeError(f"{call} came from a thread that has no stream of the device")
        return emission


@sinner("ISO-04", defects="B03, B04, B49a")
class LeavesAHook(Sin):
    """Leaves a hook on the shared model at each step."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Leave it."""
        del call
        self.backend.marks[f"hook of {id(self):#x}"] = self.emitted
        return emission


@sinner("ISO-05", defects="B50")
class SharesItsLanguage(Sin):
    """Keeps the language on the backend, where the next stream changes it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks["language"] = self.language or "en"

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report what the backend has now."""
        del call
        language = self.backend.marks["language"]
        tokens = (attrs.evolve(token, detected_language=language) for token in emission.committed)
        return attrs.evolve(emission, committed=tuple(tokens))


@sinner("ISO-06")
class TakesOverlappingCalls(Sin):
    """Answers a call that overlaps another one with nothing."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Answer."""
        try:
            return super().process_iter(is_last)
        except ConcurrentCallError:
            return Emission((), 0.0, 0.0)


@sinner("ISO-06")
class ServesOneBackendOnly(SinfulBackend):
    """Closes with every other backend of the process."""

    def close(self) -> None:
        """Break the streams of all the others."""
        super().close()
        _CLOSED.append(self)

    def create_processor(self, **options: Any) -> Any:
        """Return a stream that looks whether another backend was closed since."""
        return _Sibling(super().create_processor(**options).stream, self)


_CLOSED: list[SinfulBackend] = []


class _Sibling(Sin):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.closed_before = len(_CLOSED)

    def finish(self) -> Emission:
        """Fail where one was."""
        if len(_CLOSED) > self.closed_before and _CLOSED[-1] is not self.backend:
            raise RuntimeError("the framework was shut down")
        return super().finish()
