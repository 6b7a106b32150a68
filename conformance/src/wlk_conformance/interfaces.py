"""Optional interfaces of a backend that let the suite test more of the contract on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core import BackendSpec
    from wlk_core.online.engine_calls import EngineCalls

#: Habits of real models, which an engine that reads coded audio does not have by itself.
CHANGES_ITS_MIND = "changes its mind"
MOVES_TIMES = "moves times"
STAYS_UNDECIDED = "stays undecided"
HABITS = (CHANGES_ITS_MIND, MOVES_TIMES, STAYS_UNDECIDED)
RECENT_SECONDS = 0.4  # shorter than the time between two calls of an engine with habits
MOVED_SECONDS = 0.04  # largest error of a moved time


@runtime_checkable
class SupportsEngineCalls(Protocol):
    """
    A backend whose engine calls can be counted, held, made to fail and cut short.

    Every `wlk_core.plugins.LoadedBackend` has it, because its engine calls pass through the
    `EngineCalls` that it hands to its functions.  Any other backend creates an `EngineCalls` of its
    own and runs its model through ``engine_calls.wrap(...)``.

    The suite sets `engine_calls.intercept`, see `EngineFaults`.  The engine must not be called
    while holding a lock that `insert_audio_chunk` or `get_buffer` takes.  LIFE-08 cuts answers
    short: it cuts those of LocalAgreement and AlignAtt itself, others by the function passed as
    ``engine_calls.wrap(..., cut=...)``.
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
    """A backend whose declaration is known only once it is loaded, such as one on a server."""

    def declared(self) -> BackendSpec:
        """Return the declaration of this loaded backend."""


@runtime_checkable
class SupportsHabits(Protocol):
    """
    A backend that reads coded audio and imitates the habits of models that are set, see HABITS.

    - CHANGES_ITS_MIND: a word cut off by the end of the audio is mistaken for the next one of the
      vocabulary.  In a stream that compares hypotheses, a word that ended less than RECENT_SECONDS
      before the end is mistaken for the one after that.
    - STAYS_UNDECIDED: in every second hypothesis of a stream that compares them, each word is
      mistaken for the third one after it.
    - MOVES_TIMES: a word has other times in each call, at most MOVED_SECONDS off.
    """

    habits: frozenset[str]
