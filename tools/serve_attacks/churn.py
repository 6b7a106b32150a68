"""Sessions that come, lose their sockets, are killed, resume and leave, for minutes."""

from __future__ import annotations

import math
from pathlib import Path
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import attrs
from journal import Journal
from scripts import Script
from server import letters

if TYPE_CHECKING:
    from server import ServerProcess

__all__ = ["Crowd", "Outcome", "churn", "journals", "outcome_of"]

_SEEDS = 1_000  # of one process
_SESSIONS = 5  # of one process
_WAIT_SECONDS = 180
_ABANDONED = 0.25  # of the killed processes
_KILL_SECONDS = (1.0, 5.0)  # between two kills


@attrs.define
class Outcome:
    """What came of a number of sessions."""

    sessions: int = 0
    finished: int = 0
    left: int = 0
    killed: int = 0
    refused: int = 0
    delays: list[float] = attrs.field(factory=list)
    words: int = 0  # spoken in finished sessions
    letters: int = 0  # received
    problems: list[str] = attrs.field(factory=list)

    @property
    def p99(self) -> float:
        """The 99th percentile of the delays, in seconds."""
        ordered = sorted(self.delays)
        return ordered[math.ceil(0.99 * len(ordered)) - 1] if ordered else math.inf

    def __str__(self) -> str:
        return (
            f"{self.sessions} sessions: {self.finished} finished with {self.words} words, "
            f"{self.left} left in the middle, {self.killed} killed without a successor, "
            f"{self.refused} refused; "
            f"{self.letters} letters received, {len(self.problems)} problems"
        )


class Crowd:
    """
    Client processes of five sessions each, in a folder of journals.

    Args:
        server: the one they connect to.
        folder: of the journals.
        sessions: how many at a time.
        seed: of the sessions and of the moments of kills.
        is_steady: whether the clients do nothing but speak.

    """

    def __init__(
        self,
        server: ServerProcess,
        folder: Path,
        sessions: int,
        seed: int,
        *,
        is_steady: bool = False,
    ) -> None:
        self._is_steady = is_steady
        self._server, self._folder = server, folder
        self._backend = server.backend
        self._random = random.Random(seed)  # noqa: S311 -- moments, no secrets
        self._sessions = sessions
        self._next_seed = seed * 1_000_000
        self._processes: dict[subprocess.Popen[bytes], set[Path]] = {}
        self.kills = self.resumed = 0
        for _ in range(sessions // _SESSIONS):
            self._start([])

    def wait_for_words(self) -> None:
        """Wait until every client has received some."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while sum(bool(journal.deltas) for journal in journals(self._folder)) < self._sessions:
            if time.monotonic() > deadline:
                raise SystemExit(f"no words came in {_WAIT_SECONDS} s")
            time.sleep(0.2)

    def kill_one(self) -> None:
        """Kill a process; its sessions are resumed by another, of which there always is one."""
        process = self._random.choice(list(self._processes))
        process.send_signal(signal.SIGKILL)
        process.wait()
        first = self._processes.pop(process)
        self.kills += 1
        journals = [Journal.read(path) for path in self._paths(first)]
        waiting = [journal.path for journal in journals if journal.token and not journal.is_over]
        if self._random.random() < _ABANDONED:
            waiting = []  # the server waits for their client in vain
        self.resumed += len(waiting)
        self._start(waiting)

    def stop(self) -> None:
        """Let every client end its sentence and wait for the words."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(_WAIT_SECONDS)

    def _start(self, resume: list[Path]) -> None:
        command = [sys.executable, str(Path(__file__).with_name("client.py")), self._server.url]
        command += [str(self._folder), "--backend", self._backend, "--sessions", str(_SESSIONS)]
        command += ["--steady"] if self._is_steady else []
        command += ["--seed", str(self._next_seed), "--resume", *map(str, resume)]
        seeds = range(self._next_seed, self._next_seed + _SEEDS)
        self._next_seed += _SEEDS
        process = subprocess.Popen(command)
        self._processes[process] = {self._folder / f"{seed}.jsonl" for seed in seeds} | set(resume)

    def _paths(self, known: set[Path]) -> list[Path]:
        return [path for path in known if path.exists() and path.stat().st_size]


def churn(
    server: ServerProcess, folder: Path, *, sessions: int, seconds: float, seed: int
) -> Crowd:
    """Let *sessions* come and go for *seconds*; kill a process every few seconds."""
    crowd = Crowd(server, folder, sessions, seed)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(random.uniform(*_KILL_SECONDS))  # noqa: S311 -- no secret
        crowd.kill_one()
    crowd.stop()
    return crowd


def journals(folder: Path) -> list[Journal]:
    """Return those of a folder as far as they are written."""
    return [Journal.read(path) for path in sorted(folder.iterdir()) if path.stat().st_size]


def outcome_of(folder: Path, committed: list[str]) -> Outcome:
    """
    Compare what clients received with what the server committed.

    Args:
        folder: the journals.
        committed: the text of each stream of the server.

    """
    found = Outcome()
    texts = set(committed)
    for journal in journals(folder):
        path = journal.path
        script = Script(journal.seed, journal.backend)
        received = letters(journal.deltas)
        found.sessions += 1
        found.delays += journal.delays
        found.letters += len(received)
        problems = [f"error {code}" for code in journal.errors]
        if received != letters("".join(journal.transcripts)) and "finished" in journal.notes:
            problems.append("the deltas differ from the transcripts")
        if "failed" in journal.notes and not journal.has_begun:
            found.refused += 1
        elif "failed" in journal.notes:
            problems.append(journal.notes["failed"])
        elif "finished" in journal.notes:
            found.finished += 1
            last = journal.last_sample
            count = len(script.words) if last is None else script.pauses.index(last) + 1
            found.words += count
            problems += _losses(journal, script.words[:count], received, texts)
        elif "left" in journal.notes:
            found.left += 1
        elif "closed" in journal.notes:
            problems.append(f"closed with {journal.notes['closed']}")
        else:
            found.killed += 1
        if not any(text.startswith(received) for text in texts | {""}):
            problems.append("received what no stream committed")
        found.problems += [f"{path.name}: {problem}" for problem in problems]
    return found


def _losses(journal: Journal, words: list[str], received: str, texts: set[str]) -> list[str]:
    """Return what is missing of a session whose client has every word."""
    spoken = "".join(words)
    problems = [] if received in texts else ["no stream committed exactly what was received"]
    if journal.backend == "scripted" and received != spoken:
        problems.append(f"spoken: {spoken}, received: {received}")
    return problems
