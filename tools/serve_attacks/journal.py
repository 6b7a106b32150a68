"""What a client received, on disk before it counts: a client that is killed can be replaced."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Journal"]

_ITEM = "conversation.item.input_audio_transcription."
_KEPT = ("delta", "transcript", "error", "wlk_seq", "samples")


class Journal:
    """
    The file of one session: a line for each event, and one for each step of the client.

    Args:
        path: the file, which is created.
        seed: of the script.
        backend: of the script.

    """

    def __init__(self, path: Path, seed: int, backend: str, *, is_new: bool = True) -> None:
        self.path, self.seed, self.backend = path, seed, backend
        self.token: str | None = None
        self.has_begun = False  #: whether the server has opened the session
        self.last = 0  #: number of the last event
        self.deltas = ""
        self.transcripts: list[str] = []
        self.errors: list[str] = []
        self.commits: list[int] = []  #: number of the message of each
        self.last_sample: int | None = None  #: where a client that was stopped ends
        self.acknowledged = 0  #: samples that the server received
        self.commit_times: list[float] = []
        self.completed_times: list[float] = []
        self.notes: dict[str, Any] = {}
        if is_new:
            self._write({"seed": seed, "backend": backend})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what is written, also while a client writes it."""
        lines = path.read_text().splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        journal = cls(path, records[0]["seed"], records[0]["backend"], is_new=False)
        for record in records[1:]:
            journal._apply(record)
        return journal

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Return the journal of a client that was killed, perhaps in the middle of a line."""
        journal = cls.read(path)
        text = path.read_text()
        path.write_text(text[: text.rfind("\n") + 1])
        return journal

    @property
    def completed(self) -> int:
        """How many items are completed."""
        return len(self.transcripts)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to do."""
        return bool({"finished", "left", "closed", "failed"} & self.notes.keys())

    def write(self, event: dict[str, Any]) -> None:
        """Append an event of the server; only what is needed is kept."""
        record: dict[str, Any] = {"type": event["type"]}
        record |= {name: event[name] for name in _KEPT if name in event}
        if event["type"] == "session.created":
            resume = event["session"].get("wlk", {}).get("resume")
            record["token"] = resume["token"] if resume else None
        self._append(record)

    def note(self, **step: Any) -> None:
        """Append a step of the client."""
        self._append(step)

    def forget_commits(self, *, after: int) -> None:
        """Append that commits after message number *after* did not arrive."""
        self._append({"arrived": after})

    @property
    def delays(self) -> list[float]:
        """Seconds from the end of each utterance by the client to its transcript."""
        pairs = zip(self.commit_times, self.completed_times, strict=False)
        return [completed - commit for commit, completed in pairs]

    def _append(self, record: dict[str, Any]) -> None:
        record["at"] = time.monotonic()
        self._write(record)
        self._apply(record)

    def _write(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _apply(self, record: dict[str, Any]) -> None:
        match record:
            case {"type": kind}:
                self._apply_event(kind, record)
            case {"commit": number}:
                self.commits.append(number)
                self.commit_times.append(record["at"])
            case {"arrived": number}:
                self.commits = [commit for commit in self.commits if commit <= number]
            case {"last_sample": sample}:
                self.last_sample = sample
            case _:
                self.notes |= record

    def _apply_event(self, kind: str, record: dict[str, Any]) -> None:
        self.last = record.get("wlk_seq", self.last)
        if "token" in record:
            self.has_begun, self.token = True, record["token"]
        elif kind == _ITEM + "delta":
            self.deltas += record["delta"]
        elif kind == _ITEM + "completed":
            self.transcripts.append(record["transcript"])
            self.completed_times.append(record["at"])
        elif kind == "wlk.ack":
            self.acknowledged = record["samples"]
        elif "error" in record:
            self.errors.append(record["error"]["code"])
