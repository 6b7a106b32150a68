"""The actions of a session as data: every call of the protocol, ready for a JSON file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import attrs

from wlk_conformance.seams import HABITS
from wlk_conformance.sessions.tape import Tape
from wlk_conformance.sessions.vocabularies import VOCABULARIES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FLUSHES", "Action", "Do", "Form", "Session"]

Do = Literal[
    "open", "insert", "refuse", "process", "drain", "start_silence", "end_silence", "is_last",
    "new_speaker", "finish", "reset", "close", "read", "warmup", "exhaust",
]  # fmt: skip
Form = Literal["plain", "read-only", "strided", "reversed", "reused"]

FLUSHES = ("start_silence", "is_last", "new_speaker", "finish")
VERSION = 1  # of the JSON document


def _actions(values: Any) -> tuple[Action, ...]:
    return tuple(values)


def _tapes(values: Any) -> tuple[Tape, ...]:
    return tuple(values)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(values)


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(values)


@attrs.frozen(kw_only=True)
class Action:
    """
    One call of a stream, or several that belong together.

    Attributes:
        do: what is done.  "exhaust" makes every engine call fail until the stream is broken;
            "refuse" makes a call that must raise and change nothing.
        stream: the number of the stream.
        samples: of audio to insert, taken from the stream's tape, or of a chunk to be refused.
        form: the memory layout of the array; a "reused" array is overwritten after the insert.
        end_offset: the end time of the chunk relative to the true one in seconds; None for none.
        seconds: of a silence.
        offset: the advisory offset of end_silence.
        speaker: of a turn.
        start: of a turn, in seconds relative to the end of the audio.
        faults: the engine calls of this action that fail, 1 for its first.
        is_after: they fail after the engine ran.
        is_given_up: the call is not repeated after it failed.
        is_threaded: the call is made on a thread of its own.
        times: how often a hypothesis is read.
        bad: what a refused call brings.
        inner: actions made while the first engine call of this action is held.
        options: arguments of create_processor.

    """

    do: Do
    stream: int = 0
    samples: int = 0
    form: Form = "plain"
    end_offset: float | None = None
    seconds: float = 0.0
    offset: float | None = None
    speaker: int | str | None = None
    start: float = 0.0
    faults: tuple[int, ...] = attrs.field(default=(), converter=_numbers)
    is_after: bool = False
    is_given_up: bool = False
    is_threaded: bool = False
    times: int = 1
    bad: str = ""
    inner: tuple[Action, ...] = attrs.field(default=(), converter=_actions)
    options: dict[str, Any] = attrs.field(factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        values: dict[str, Any] = {"do": self.do, "stream": self.stream}
        for field in attrs.fields(Action):
            value = getattr(self, field.name)
            if field.name in values or value in ((), {}) or value == field.default:
                continue
            values[field.name] = value
        if self.inner:
            values["inner"] = [action.as_dict() for action in self.inner]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Action:
        """Return the action that `as_dict` described."""
        inner = [cls.from_dict(action) for action in values.get("inner", ())]
        return cls(**{**values, "inner": inner})


@attrs.frozen(kw_only=True)
class Session:
    """
    Streams of one backend: a tape for each, and the actions in order.

    `vocabulary` names the words of a coded engine, see VOCABULARIES, and `habits` what it imitates,
    see SupportsHabits; both are empty for the engine as it is loaded.
    """

    name: str
    tapes: tuple[Tape, ...] = attrs.field(converter=_tapes)
    actions: tuple[Action, ...] = attrs.field(converter=_actions)
    vocabulary: str = ""
    habits: tuple[str, ...] = attrs.field(default=(), converter=_texts)

    def as_json(self) -> str:
        """Return the session as a JSON document, one action on a line."""
        tapes = ",\n    ".join(json.dumps(tape.as_dict()) for tape in self.tapes)
        actions = ",\n    ".join(json.dumps(action.as_dict()) for action in self.actions)
        engine = f'  "vocabulary": {json.dumps(self.vocabulary)},\n' if self.vocabulary else ""
        engine += f'  "habits": {json.dumps(self.habits)},\n' if self.habits else ""
        return (
            f'{{\n  "version": {VERSION},\n  "name": {json.dumps(self.name)},\n{engine}'
            f'  "tapes": [\n    {tapes}\n  ],\n  "actions": [\n    {actions}\n  ]\n}}\n'
        )

    @classmethod
    def from_json(cls, text: str) -> Session:
        """
        Return the session of a JSON document.

        Raises:
            ValueError: it is no such document.

        """
        try:
            document = json.loads(text)
            if document["version"] == VERSION:
                return cls(
                    name=str(document["name"]),
                    tapes=[Tape(**tape) for tape in document["tapes"]],
                    actions=[Action.from_dict(action) for action in document["actions"]],
                    vocabulary=_known(document.get("vocabulary", ""), ("", *VOCABULARIES)),
                    habits=[_known(habit, HABITS) for habit in document.get("habits", ())],
                )
            reason = f"version {document['version']!r}"
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"expected a session written by wlk-conformance, got {reason}")


def _known(name: str, names: Iterable[str]) -> str:
    if name not in names:
        raise ValueError(f"expected one of {', '.join(map(repr, names))}, got {name!r}")
    return name
