"""A session that did not end, and how to repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.sessions.actions import Session
from wlk_conformance.sessions.replay import snippet

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_conformance.backend_under_test import BackendUnderTest

__all__ = ["RUNNING", "stopped_session"]

RUNNING = "running.json"  # the session being played, in the folder of replays


def stopped_session(
    folder: Path | None, under_test: BackendUnderTest, *, number: int = 1, action: int = 0
) -> str:
    """
    Return how to repeat the session that was running when the process ended or hung.

    It is kept as a file of its own, *number* of this run.  It is not made smaller, because that
    means to play it again; what follows *action*, the number of the call from 1, is left out.
    """
    if folder is None or not (folder / RUNNING).is_file():
        return ""
    suffix = "" if number == 1 else f"-{number}"
    path = folder / f"{under_test.spec.name}-stopped{suffix}.json"
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
