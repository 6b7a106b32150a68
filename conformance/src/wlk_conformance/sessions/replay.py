"""Repeat a session: as a Python script without the monitor, or from the file of a stopped run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sessions.clock import StreamClock
from wlk_conformance.sessions.session import VOCABULARIES, Session
from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.sessions.session import Action, Tape

__all__ = ["Replays", "snippet", "stopped_session"]

CALLS = {
    "process": "process_iter()", "start_silence": "start_silence()", "finish": "finish()",
    "is_last": "process_iter(is_last=True)", "reset": "reset()", "close": "close()",
}  # fmt: skip
RUNNING = "running.json"  # the session being played, in the folder of replays


def snippet(session: Session, backend: str, model: str | None, options: Mapping[str, Any]) -> str:
    """Return the calls of *session* on *backend* as a script."""
    arguments = "".join(f", {name}={value!r}" for name, value in options.items())
    lines = [
        "import numpy as np",
        "from wlk_core import ChangeSpeaker, load_backend",
        "from wlk_conformance import EngineFaults",
        "from wlk_conformance.testing import CodedToken, connected_digits, encode, noise",
        "",
        f"backend = load_backend({backend!r}, {model!r}{arguments})",
    ]
    if session.vocabulary:
        lines.append(f"backend.vocabulary = {VOCABULARIES[session.vocabulary].words!r}")
    if session.habits:
        lines.append(f"backend.habits = frozenset({session.habits!r})")
    feeds: dict[int, _Feed] = {}
    for action in session.actions:
        lines += _lines(action, session, feeds.setdefault(action.stream, _Feed()))
    unfinished = [number for number, feed in feeds.items() if not feed.is_over]
    lines += [f"print(stream_{number}.finish())" for number in unfinished]
    return "\n".join(lines)


@attrs.define
class _Feed:
    """What a stream was fed: its clock since the last reset, and its position on the tape."""

    clock: StreamClock = attrs.field(factory=StreamClock)
    position: int = 0  # samples
    is_over: bool = False


def _lines(action: Action, session: Session, feed: _Feed) -> Iterator[str]:
    """Yield the lines of one action; *feed* is what its stream was fed."""
    if action.faults:
        when = "after the engine ran" if action.is_after else "before the engine runs"
        yield f"# engine calls {list(action.faults)} of the next call fail, {when}:"
        attribute = "fail_after" if action.is_after else "fail_before"
        then = (
            "and the call is not repeated"
            if action.is_given_up
            else "then repeat the call while it fails"
        )
        yield "faults = EngineFaults.of(backend.engine_calls)"
        yield f"count = faults.count  # {then}"
        numbers = ", ".join(f"count + {fault}" for fault in action.faults)
        yield f"faults.{attribute} = frozenset({{{numbers}}})"
    if action.inner:
        yield "# the next call is held at its first engine call, while a thread makes these calls:"
        for inner in action.inner:
            yield from (f"#   {line}" for line in _lines(inner, session, feed))
    if action.is_threaded:
        yield "# from a thread of its own:"
    yield from _call(action, session, feed)


def _call(action: Action, session: Session, feed: _Feed) -> Iterator[str]:
    """Yield the call of one action."""
    stream = f"stream_{action.stream}"
    if action.do == "open":
        arguments = ", ".join(f"{name}={value!r}" for name, value in action.options.items())
        yield f"audio_{action.stream} = {_audio(session.tapes[action.stream % len(session.tapes)])}"
        yield f"{stream} = backend.create_processor({arguments})"
    elif action.do == "insert":
        yield from _insert(action, stream, feed)
    elif action.do == "end_silence":
        offset = "" if action.offset is None else f", {action.offset!r}"
        yield f"{stream}.end_silence({action.seconds!r}{offset})"
        feed.clock.add_pause(action.seconds)
    elif action.do == "new_speaker":
        start = max(0.0, feed.clock.end + action.start)
        yield f"print({stream}.new_speaker(ChangeSpeaker({action.speaker or 0!r}, {start!r})))"
    elif action.do == "drain":
        yield f"while {stream}.has_backlog:"
        yield f"    print({stream}.process_iter())"
    elif action.do in ("reset", "close"):
        yield f"{stream}.{CALLS[action.do]}"
        feed.clock, feed.is_over = StreamClock(), action.do == "close"
    elif action.do in CALLS:
        yield f"print({stream}.{CALLS[action.do]})"
        feed.is_over = feed.is_over or action.do == "finish"
    else:
        yield {
            "read": f"{stream}.get_buffer(), {stream}.stats  # {action.times} times",
            "warmup": "backend.warmup()",
            "refuse": f"# a call of {stream} with {action.bad}, which must be refused",
            "exhaust": f"# every engine call of {stream} fails until it is broken",
        }[action.do]


def _insert(action: Action, stream: str, feed: _Feed) -> Iterator[str]:
    clock, stop = feed.clock, feed.position + action.samples
    audio = f"audio_{action.stream}[{feed.position}:{stop}]"
    if action.form == "strided":
        audio = f"np.repeat({audio}, 2)[::2]"
    elif action.form == "reversed":
        audio = f"{audio}[::-1].copy()[::-1]"
    note = "  # overwritten after the call" if action.form == "reused" else ""
    if action.end_offset is not None:
        end_time = clock.end + action.samples / SAMPLE_RATE + action.end_offset
        audio += f", {end_time!r}"
        gap = clock.gap_before(action.samples, end_time)
        if gap < 0:
            yield f"{stream}.insert_audio_chunk({audio})  # raises ClockError"
            return
        clock.add_pause(gap)
    clock.add_audio(action.samples)
    feed.position = stop
    yield f"{stream}.insert_audio_chunk({audio}){note}"


def _audio(tape: Tape) -> str:
    """Return the expression of the tape's audio, and some zeros after it."""
    if tape.kind == "coded":
        tokens = ", ".join(f"CodedToken{token}" for token in tape.tokens)
        audio = f"encode([{tokens}])"
    elif tape.kind == "speech":
        audio = f"connected_digits({tape.count}, seed={tape.seed}, gap={tape.gap}).audio"
    else:
        audio = f"noise({tape.seconds}, seed={tape.seed})"
    if tape.first_sample:
        audio += f"[{tape.first_sample}:]"
    return f"np.append({audio}, np.zeros(960_000, np.float32))"


@attrs.frozen
class Replays:
    """The folder in which sessions that fail are written; None for nowhere."""

    folder: Path | None

    def write(self, name: str, session: Session) -> Path | None:
        """Write *session*; return None where there is no folder."""
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            self.folder.mkdir(exist_ok=True)
            path.write_text(session.as_json(), encoding="utf-8")
        except OSError:  # the current directory may be read-only
            return None
        return path

    def note(self, session: Session) -> None:
        """Write a session before it is played, because it may hang or end the process."""
        self.write(RUNNING, session)

    def forget_running(self) -> None:
        """Remove what `note` wrote, and the folder if nothing else is in it."""
        if self.folder is not None and self.folder.is_dir():
            (self.folder / RUNNING).unlink(missing_ok=True)
            with suppress(OSError):  # sessions that failed stay there
                self.folder.rmdir()


def stopped_session(folder: Path, under_test: BackendUnderTest, *, action: int = 0) -> str:
    """
    Return how to repeat the session that was running when the process ended or hung.

    It is kept as a file of its own.  It is not made smaller, because that means to play it again;
    what follows *action*, the number of the call from 1, is left out.
    """
    if not (folder / RUNNING).is_file():
        return ""
    path = folder / f"{under_test.spec.name}-stopped.json"
    (folder / RUNNING).replace(path)
    session = Session.from_json(path.read_text(encoding="utf-8"))
    if action:
        session = attrs.evolve(session, actions=session.actions[:action])
        path.write_text(session.as_json(), encoding="utf-8")
    script = snippet(session, under_test.spec.name, under_test.model, under_test.backend_options)
    indented = "\n".join(f"    {line}" for line in script.splitlines())
    return (
        f"replay: wlk-conformance {under_test.spec.name} --replay {path}\n"
        f"drawn as {session.name}; its last call hangs or ends the process:\n{indented}"
    )
