"""
Measure how long clients of wlk-serve wait, and what a session costs the server.

One generator sends speech to a server in real time: sessions of different digits, in chunks of
50 ms, started within one second.  A delay runs from the true end of an utterance, or from the
commit of a client that ends it, to the message that makes all of its text final.  The silence
after which the server ends an utterance and the model's own delay are subtracted.  The server is
restarted for every row and can be kept on one core.  Processor time and memory are those of its
process.

The generator is a process of its own on the same machine, so a second line for each row states how
late it sent its chunks.  A delay counts from the time at which a commit was due, so it includes
that lateness.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
from typing import TYPE_CHECKING

import attrs
import numpy as np
from serve_load.process import Process, free_port, run_server, wlk_command
from serve_load.protocols import SILENCE_SECONDS, asr, realtime_commit, realtime_vad
from serve_load.talk import Talk, talk_of

from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.normalise import normaliser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from serve_load.talk import Report

BAR = 0.35  # seconds at the 99th percentile: the best of the services that Pipecat measures
WARM_SECONDS = 6.0  # length of the session before the measured ones
MILLI = 1000.0


@attrs.frozen(kw_only=True)
class Contender:
    """A client of the server; `waits`, in seconds, is subtracted from its delays."""

    name: str
    speak: Callable[[str, Talk, float], Awaitable[Report]]
    waits: float


@attrs.frozen(kw_only=True)
class Row:
    """The figures of a number of sessions; a delay in seconds is infinite if no text came."""

    sessions: int
    delays: list[float]
    errors: int
    words: int
    cpu: float  # processor seconds per second of audio
    session_bytes: float
    lateness: list[float]  # how late the generator sent each chunk, in seconds

    @property
    def holds(self) -> bool:
        """Whether the delays are within BAR."""
        return self.percentile(99) <= BAR

    def percentile(self, share: float) -> float:
        """Return a percentile of the delays: an observed value, so that infinities count."""
        return _percentile(self.delays, share)


def _percentile(values: list[float], share: float) -> float:
    return float(np.percentile(values, share, method="higher"))


async def _speak(contender: Contender, address: str, talks: list[Talk]) -> list[Report]:
    clock = asyncio.get_running_loop().time
    began = clock() + 1.0
    return await asyncio.gather(
        *(
            contender.speak(address, talk, began + index / len(talks))
            for index, talk in enumerate(talks)
        )
    )


def measure(contender: Contender, process: Process, sessions: int, seconds: float) -> Row:
    """Run *sessions* for *seconds* and return their figures."""
    asyncio.run(_speak(contender, process.address, [talk_of(WARM_SECONDS, 999)]))
    talks = [talk_of(seconds, index) for index in range(sessions)]
    bytes_before, cpu_before = process.resident_bytes, process.cpu_seconds
    reports, bytes_open = asyncio.run(_watched(contender, process, talks, seconds))
    cpu = process.cpu_seconds - cpu_before
    normalise = normaliser("basic")
    delays: list[float] = []
    errors = 0
    for talk, report in zip(talks, reports, strict=True):
        delays += [delay - contender.waits for delay in report.delays(talk)]
        errors += word_edits(normalise(" ".join(talk.words)), normalise(report.text)).counts.errors
    return Row(
        sessions=sessions,
        delays=delays,
        errors=errors,
        words=sum(len(talk.words) for talk in talks),
        cpu=cpu / sum(len(talk.audio) / 16_000 for talk in talks),
        session_bytes=max(0, bytes_open - bytes_before) / sessions,
        lateness=[late for report in reports for late in report.lateness],
    )


async def _watched(
    contender: Contender, process: Process, talks: list[Talk], seconds: float
) -> tuple[list[Report], int]:
    """Run the sessions, and read the memory near the end, while every session is open."""
    speaking = asyncio.create_task(_speak(contender, process.address, talks))
    await asyncio.sleep(0.8 * seconds)
    resident = process.resident_bytes
    return await speaking, resident


def print_row(contender: Contender, row: Row) -> None:
    """Print a row of the table, on two lines."""
    print(
        f"{contender.name:36} {row.sessions:3} sessions  "
        f"p50 {row.percentile(50) * MILLI:6.0f}  p99 {row.percentile(99) * MILLI:6.0f} ms  "
        f"{'held' if row.holds else '    '}  cpu {row.cpu * MILLI:5.1f} ms/s "
        f"({1 / row.cpu:5.1f} sessions/core)  {row.session_bytes / 1e6:5.1f} MB/session  "
        f"errors {row.errors}/{row.words}",
        flush=True,
    )
    print(
        f"{'':8} {len(row.delays)} utterances  chunks sent p50 "
        f"{_percentile(row.lateness, 50) * MILLI:.0f}, p99 "
        f"{_percentile(row.lateness, 99) * MILLI:.0f} ms late",
        flush=True,
    )


def contenders(arguments: argparse.Namespace) -> list[Contender]:
    """Return a client that commits and one that relies on the server's VAD, or one of /asr."""
    if arguments.asr:
        return [Contender(name="/asr", speak=asr, waits=0.0)]
    name, delay = f"wlk-serve {arguments.backend}", arguments.model_delay
    return [
        Contender(name=f"{name}, commit", speak=realtime_commit, waits=delay),
        Contender(name=f"{name}, server_vad", speak=realtime_vad, waits=SILENCE_SECONDS + delay),
    ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="delays and costs of servers")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each session")
    parser.add_argument("--backend", default="faster-whisper", help="option of wlk-serve")
    parser.add_argument("--model", default="digits", help="option of wlk-serve")
    parser.add_argument("--language", default="en", help="as above; empty for voxtral and sherpa")
    parser.add_argument("--asr", action="store_true", help="use the protocol of WhisperLiveKit")
    parser.add_argument("--server", help="another server's command, with {port}, for --asr")
    parser.add_argument("--option", action="append", default=[], help="KEY=VALUE for wlk-serve")
    parser.add_argument(
        "--model-delay", type=float, default=0.0, help="delay of the model; 0.48 for voxtral-hf"
    )
    parser.add_argument("--core", type=int, help="keep each server on this core")
    arguments = parser.parse_args()
    where = "all cores" if arguments.core is None else f"core {arguments.core} alone"
    print(f"sessions of {arguments.seconds:g} s, servers on {where}; bar {BAR * MILLI:.0f} ms")
    print(f"load average at the beginning: {os.getloadavg()[0]:.1f}")
    for contender in contenders(arguments):
        for sessions in arguments.sessions:
            port = free_port()
            command = wlk_command(
                port, arguments.backend, arguments.model, arguments.option, arguments.language
            )
            if arguments.server:
                command = shlex.split(arguments.server.format(port=port))
            with run_server(command, port, core=arguments.core) as process:
                print_row(contender, measure(contender, process, sessions, arguments.seconds))
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
