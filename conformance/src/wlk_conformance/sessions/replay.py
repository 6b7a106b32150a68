"""Repeat a session: its calls in words, and the file of one that failed or was stopped."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
import json
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_conformance.backend_under_test import BackendUnderTest

__all__ = ["Replays", "listed", "stopped_session"]

RUNNING = "running.json"  # the session being played, in the folder of replays


def listed(session: Session) -> str:
    """Return the audio and the calls of *session*, a line each; equal calls in a row are one."""
    lines = [f"tape {number}: {json.dumps(t.as_dict())}" for number, t in enumerate(session.tapes)]
    lines += [f"{name}: {value}" for name, value in session.engine.items()]
    calls = (json.dumps(action.as_dict()) for action in session.actions)
    for call, equal in groupby(calls):
        count = sum(1 for _ in equal)
        lines.append(call if count == 1 else f"{call}, {count} times")
    return "\n".join(f"    {line}" for line in lines)


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
    return (
        f"replay: wlk-conformance {under_test.spec.name} --replay {path}\n"
        f"drawn as {session.name}; its last call hangs or ends the process:\n{listed(session)}"
    )
