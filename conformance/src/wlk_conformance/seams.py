"""Optional seams: what a backend may offer so that more of the contract can be tested on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import BackendSpec
    from wlk_core.online.engine_calls import EngineCalls

#: What models do, and an engine that reads coded audio does not do by itself.
CHANGES_ITS_MIND = "changes its mind"
MOVES_TIMES = "moves times"
STAYS_UNDECIDED = "stays undecided"
HABITS = (CHANGES_ITS_MIND, MOVES_TIMES, STAYS_UNDECIDED)
RECENT_SECONDS = 0.4  # below the shortest time between two calls of an engine that has habits
MOVED_SECONDS = 0.04


@runtime_checkable
class SupportsEngineCalls(Protocol):
    """
    A backend whose engine calls can be counted, held, made to fail and cut short.

    Every backend made with `wlk_core.plugins.LoadedBackend` has this seam, because its engine
    calls pass through the `EngineCalls` that it hands to its functions.  A backend of another make
    has an `EngineCalls` of its own and runs its model through ``engine_calls.wrap(...)``.

    The suite sets its `intercept`, see `EngineFaults`.  The engine must not be called with a lock
    held that `insert_audio_chunk` or `get_buffer` takes.  LIFE-08 cuts answers short: those of
    LocalAgreement and AlignAtt as they are, others by ``engine_calls.wrap(..., cut=...)``.
    """

    @property
    def engine_calls(self) -> EngineCalls:
        """The engine calls of every stream and of `warmup`."""


@runtime_checkable
class SupportsCodedAudio(Protocol):
    """A backend that reads coded audio: token *i* is the word ``vocabulary[i - 1]``."""

    vocabulary: Sequence[str]


@runtime_checkable
class SupportsDeclaration(Protocol):
    """A backend whose declaration is known once it is loaded, as one at a server."""

    def declared(self) -> BackendSpec:
        """Return the declaration of this loaded backend."""


@runtime_checkable
class SupportsHabits(Protocol):
    """
    A backend that reads coded audio and imitates habits of models, those of HABITS that are set.

    - One that changes its mind takes a word that the end of its audio cuts off for the next one of
      the vocabulary, and, if its hypotheses are compared with each other, a word that ended less
      than RECENT_SECONDS before the end for the one after that.
    - One that stays undecided takes every word for the third after it, in every second hypothesis
      of a stream that compares them.
    - One that moves times gives a word other times in each call, MOVED_SECONDS away at most.
    """

    habits: frozenset[str]
