"""A session that did not end: the rule of the call that hangs, and how to repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_conformance.sessions.actions import Session
from wlk_conformance.sessions.replay import snippet

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_conformance.backend_under_test import BackendUnderTest

__all__ = ["RULES_OF_CALLS", "RUNNING", "stopped_session"]

RUNNING = "running.json"  # the session being played, in the folder of replays
RULES_OF_CALLS = {
    "insert_audio_chunk": "IN-04", "get_buffer": "HYP-01", "process_iter": "IN-05",
    "is_last": "LIFE-07", "start_silence": "SIL-01", "end_silence": "SIL-03",
    "new_speaker": "SPK-01", "finish": "LIFE-02", "reset": "LIFE-06", "close": "LIFE-10",
}  # fmt: skip


def stopped_session(folder: Path | None, under_test: BackendUnderTest) -> str:
    """
    Return how to repeat the session that was running when the process ended or hung.

    It is kept as a file of its own.  It is not made smaller, because that means to play it again.
    """
    if folder is None or not (folder / RUNNING).is_file():
        return ""
    path = folder / f"{under_test.spec.name}-stopped.json"
    (folder / RUNNING).replace(path)
    session = Session.from_json(path.read_text(encoding="utf-8"))
    script = snippet(session, under_test.spec.name, under_test.model, under_test.backend_options)
    indented = "\n".join(f"    {line}" for line in script.splitlines())
    return (
        f"replay: wlk-conformance {under_test.spec.name} --replay {path}\n"
        f"drawn as {session.name}; one of its calls hangs or ends the process:\n{indented}"
    )
