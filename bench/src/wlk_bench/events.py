"""
The event log of one stream: everything that the metrics use, as JSON lines.

Times are not rounded, because half a microsecond can decide whether LongYAAL counts a word as
emitted before the end of the recording.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- msgspec reads the annotations
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import msgspec

from wlk_bench.errors import LogError
from wlk_bench.reference import Reference  # noqa: TC001 -- as above
from wlk_core.processor import WorkCounters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_T = TypeVar("_T")

SCHEMA = "wlk-bench/1"  #: in the first line of a log; the number changes with the meaning
FLUSHES = frozenset({"start_silence", "finish"})  #: calls that must commit all audio before them


@attrs.frozen
class TimedText:
    """A token as it was emitted; joining the texts gives the transcript."""

    start: float
    end: float
    text: str


@attrs.frozen(kw_only=True)
class AudioIn:
    """A chunk was inserted: audio up to `audio_time`, `wall` seconds after the start."""

    audio_time: float
    wall: float
    resident_bytes: int | None = None  #: of the process, if the platform reports it


@attrs.frozen(kw_only=True)
class Call:
    """
    An exclusive call of the processor.

    It began at `wall` and took `duration` seconds of real time; `work` is what it added to the
    stream's counters.  `state_bytes` is the size of the stream's state afterwards.
    """

    kind: str
    audio_time: float
    wall: float
    duration: float
    processed_up_to: float
    stable_up_to: float
    work: WorkCounters = attrs.field(factory=WorkCounters)
    state_bytes: int | None = None
    is_failed: bool = False  #: whether it raised a retryable error and was repeated


@attrs.frozen(kw_only=True)
class Commit:
    """Text became final at `wall`, when audio up to `audio_time` had been inserted."""

    audio_time: float
    wall: float
    tokens: tuple[TimedText, ...]


@attrs.frozen(kw_only=True)
class HypothesisShown:
    """The hypothesis, which follows the committed text, changed to these tokens."""

    audio_time: float
    wall: float
    tokens: tuple[TimedText, ...]


@attrs.frozen(kw_only=True)
class End:
    """The end of the stream; a log without this event is incomplete."""

    audio_time: float
    wall: float


Event = AudioIn | Call | Commit | HypothesisShown | End

_TYPES: dict[str, type[Any]] = {
    "audio": AudioIn,
    "call": Call,
    "commit": Commit,
    "hypothesis": HypothesisShown,
    "end": End,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


@attrs.frozen(kw_only=True)
class Header:
    """
    The conditions under which a stream was recorded.

    Attributes:
        audio: the id of the sample, unique within its data set.
        audio_seconds: the length of the stream, pauses included.
        reference: the true text and its times.
        language: the language forced on the stream; None if the model decides.
        setup: the configuration of the run, as `RunConfig.to_json` returns it.
        platform: the machine, as `describe_platform` returns it.

    """

    audio: str
    audio_seconds: float
    reference: Reference
    language: str | None = None
    setup: Mapping[str, Any] = attrs.field(factory=dict)
    platform: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class EventLog:
    """A header and the events of one stream, in the order in which they happened."""

    header: Header
    events: tuple[Event, ...]

    def of(self, kind: type[_T]) -> Iterator[_T]:
        """Iterate over the events of one kind."""
        return (event for event in self.events if isinstance(event, kind))


def write_log(path: Path, log: EventLog) -> None:
    """Write *log* atomically: *path* never contains half a log."""
    lines = [{"schema": SCHEMA, **attrs.asdict(log.header)}]
    for event in log.events:
        fields = attrs.asdict(event, filter=lambda _attribute, value: value is not None)
        lines.append({"event": _NAMES[type(event)], **fields})
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(msgspec.json.Encoder().encode_lines(lines))
    part.replace(path)


def read_log(path: Path) -> EventLog:
    """
    Return the log at *path*.

    Raises:
        LogError: it is not a log, has another schema, is damaged or has no end.
        OSError: it cannot be read.

    """
    number, events = 1, []
    try:
        first, *others = path.read_bytes().splitlines() or [b""]
        fields = _fields(first)
        if (schema := fields.get("schema")) != SCHEMA:
            raise LogError(
                f"expected schema {SCHEMA}, got {schema!r} in {path}; "
                "read it with the release of wlk-bench that wrote it, or record it again"
            )
        header = msgspec.convert(fields, Header)
        for number, line in enumerate(others, 2):  # noqa: B007 -- the message names it
            fields = _fields(line)
            events.append(msgspec.convert(fields, _TYPES[fields["event"]]))
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise LogError(
            f"expected an event log, got {error} in line {number} of {path}; "
            "delete the file and run again"
        ) from error
    if not events or not isinstance(events[-1], End):
        raise LogError(
            f"expected an end event last, got {len(events)} events in {path}; "
            "the recording was interrupted: delete the file and run again"
        )
    return EventLog(header=header, events=tuple(events))


def _fields(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])
