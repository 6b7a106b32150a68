"""Faulty backends that break ISO."""

from __future__ import annotations

import threading
from typing import Any

import attrs

from faulty_backends.base import FaultyBackend, FaultyStream, breaks
from wlk_core import Emission
from wlk_core.errors import ConcurrentCallError

__all__: list[str] = []

MANY = 4  # streams, or threads


@breaks("ISO-01")
class MixesInterleavedStreams(FaultyStream):
    """Loses a word where four streams take turns on one thread."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Note the stream; drop a word where four took turns."""
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
        return emission.replace(committed=emission.committed[1:]) if is_mixed else emission


@breaks("ISO-02")
class MixesOverlappingCalls(FaultyBackend):
    """Returns no words where two engine calls overlap."""

    def __init__(self) -> None:
        super().__init__()
        wrap = self.engine_calls.wrap
        inside: list[object] = []

        def mixing(function: Any, **options: Any) -> Any:
            call = wrap(function, **options)

            def mixed(*args: Any, **kwargs: Any) -> Any:
                inside.append(object())
                is_shared = len(inside) > 1
                try:
                    hypothesis = call(*args, **kwargs)
                    is_shared = is_shared or len(inside) > 1
                finally:
                    inside.pop()
                return attrs.evolve(hypothesis, words=()) if is_shared else hypothesis

            return mixed

        self.engine_calls.wrap = mixing  # type: ignore[method-assign]  # the fault


@breaks("ISO-03")
class NeedsOneThread(FaultyStream):
    """Fails when a fourth thread calls."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Count the threads that have called."""
        threads = self.__dict__.setdefault("threads", [])
        current = threading.current_thread()
        if current not in threads:
            threads.append(current)
        if len(threads) >= MANY:
            raise RuntimeError(f"{call} was called by a thread without a stream of the device")
        return emission


@breaks("ISO-04")
class LeavesHook(FaultyStream):
    """Leaves a hook on the shared model at each step."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Add the hook."""
        self.backend.marks[f"hook of {id(self):#x}"] = (
            call  # and not the stream, whose memory it is
        )
        return emission


@breaks("ISO-05")
class SharesItsLanguage(FaultyStream):
    """Keeps the language on the backend, where the next stream changes it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks["language"] = self.language or "en"

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report the language that is on the backend now."""
        del call
        language = self.backend.marks["language"]
        tokens = (attrs.evolve(token, detected_language=language) for token in emission.committed)
        return emission.replace(committed=tuple(tokens))


@breaks("ISO-06")
class AcceptsOverlappingCalls(FaultyStream):
    """Returns an empty emission for a call that overlaps another call."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Answer."""
        try:
            return super().process_iter(is_last)
        except ConcurrentCallError:
            return Emission((), 0.0, 0.0)


@breaks("ISO-06")
class SupportsOneBackend(FaultyBackend):
    """Closes with every other backend of the process."""

    def close(self) -> None:
        """Break the streams of all the others."""
        super().close()
        _CLOSED.append(self)

    def create_processor(self, **options: Any) -> Any:
        """Return a stream that fails after another backend was closed."""
        return _Sibling(super().create_processor(**options).stream, self)


_CLOSED: list[FaultyBackend] = []


class _Sibling(FaultyStream):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.closed_before = len(_CLOSED)

    def finish(self) -> Emission:
        """Fail after another backend was closed."""
        if len(_CLOSED) > self.closed_before and _CLOSED[-1] is not self.backend:
            raise RuntimeError("the framework was shut down")
        return super().finish()
