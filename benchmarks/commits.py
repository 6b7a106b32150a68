"""
How long clients wait for the last words after a commit, whatever else the machine does.

The sessions of benchmarks/serve.py without its sockets: one worker steps them in simulated time,
which the processor time of this process moves.  With `--step` and `--call` each step and each
engine call costs the same, so that a run is repeatable.
"""

from __future__ import annotations

import argparse
from functools import partial
import heapq
from itertools import count
from typing import TYPE_CHECKING

from live import directly
import numpy as np
from serve_load.talk import talk_of

from wlk_bench.capacity.measurement import CpuClock
from wlk_core import load_backend
from wlk_core.session import Commit, Endpoint, Session
from wlk_core.vad import silence_gate
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from serve_load.talk import Talk

    from wlk_core import Event
    from wlk_core.plugins import EngineCalls

CHUNK_SAMPLES = 800  # 50 ms, as LiveKit sends
CHUNK_SECONDS = 0.05
MILLI = 1000.0


class FixedClock(CpuClock):
    """A clock that steps and engine calls move by fixed costs in seconds."""

    def __init__(self, calls: EngineCalls, *, step: float, call: float) -> None:
        super().__init__()
        self._calls, self._step, self._call = calls, step, call
        self._count = calls.count

    def read(self) -> float:
        """Let a step pass, with the engine calls since the last reading."""
        made, self._count = self._calls.count - self._count, self._calls.count
        self.now += self._step + self._call * made
        return self.now


class Client:
    """A session that is spoken to, and when its commits and their endpoints came."""

    def __init__(self, talk: Talk, session: Session) -> None:
        self.talk, self.session = talk, session
        self.commits: list[float] = []
        self.words: list[str] = []
        self.ends = 0  # of utterances, which the clock has to stamp
        self.delays: list[float] = []

    def take(self, events: list[Event]) -> None:
        """Take the events of a step."""
        for event in events:
            if isinstance(event, Commit):
                self.words += [token.text.strip() for token in event.tokens]
            elif isinstance(event, Endpoint) and event.reason == "commit":
                self.ends += 1

    def stamp(self, now: float) -> None:
        """Count the endpoints of a step that ended at *now*."""
        for _ in range(self.ends):
            self.delays.append(now - self.commits[len(self.delays)])
        self.ends = 0


def schedule(clients: list[Client]) -> list[tuple[float, int, Callable[[], object], Client]]:
    """Return what is to be done when: chunks, and a commit after each utterance."""
    due: list[tuple[float, int, Callable[[], object], Client]] = []
    number = count()
    for index, client in enumerate(clients):
        began, audio = index / len(clients), client.talk.audio
        ends = [utterance.end + CHUNK_SECONDS for utterance in client.talk.utterances]
        for first in range(0, len(audio), CHUNK_SAMPLES):
            chunk, time = audio[first : first + CHUNK_SAMPLES], first / 16_000 + CHUNK_SECONDS
            receive = client.session.receive
            due.append((began + time, next(number), partial(receive, chunk), client))
            if ends and time >= ends[0]:
                ends.pop(0)
                client.commits.append(began + time)
                due.append((began + time, next(number), client.session.commit, client))
    heapq.heapify(due)
    return due


def run(clients: list[Client], clock: CpuClock) -> float:
    """Speak to the sessions in simulated time; return the share of a core that was busy."""
    with Scheduler(workers=0, clock=clock) as scheduler:
        attached = {
            client: scheduler.attach(client.session, client.take, call=directly)
            for client in clients
        }
        due, busy = schedule(clients), 0.0
        while True:
            while due and due[0][0] <= clock():
                _, _, act, client = heapq.heappop(due)
                act()
                attached[client].notify()
            clock.leave_out()
            began = clock()
            if scheduler.step():
                busy += clock.read() - began
                for client in clients:
                    client.stamp(clock())
            elif due:
                clock.skip_to(due[0][0])
            else:
                return busy / clock()


def main() -> None:
    """Print the delays."""
    parser = argparse.ArgumentParser(description="delays of commits by the processor's clock")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each session")
    parser.add_argument("--backend", default="faster-whisper")
    parser.add_argument("--step", type=float, help="fixed seconds of a step")
    parser.add_argument("--call", type=float, help="fixed seconds of an engine call")
    arguments = parser.parse_args()
    with load_backend(arguments.backend, "digits") as backend:
        backend.warmup()
        for sessions in arguments.sessions:
            clients = [
                Client(
                    talk_of(arguments.seconds, index),
                    Session(backend.create_processor(language="en"), gate=silence_gate()),
                )
                for index in range(sessions)
            ]
            calls: EngineCalls = getattr(backend, "engine_calls")  # noqa: B009 -- of LoadedBackend
            first, clock = calls.count, CpuClock()
            if arguments.step is not None and arguments.call is not None:
                clock = FixedClock(calls, step=arguments.step, call=arguments.call)
            busy = run(clients, clock)
            delays = [delay for client in clients for delay in client.delays]
            p50, p90, p99 = np.percentile(delays, [50, 90, 99], method="higher") * MILLI
            wrong = sum(client.words != list(client.talk.words) for client in clients)
            print(
                f"{sessions:3} sessions, {len(delays)} commits: p50 {p50:.0f}  p90 {p90:.0f}  "
                f"p99 {p99:.0f} ms, {busy:.2f} of a core, {calls.count - first} engine calls, "
                f"{wrong} sessions with other words",
                flush=True,
            )


if __name__ == "__main__":
    main()
