"""
Attack a real wlk-serve and compare what its clients received with what it committed.

    python tools/serve_attacks/run.py churn --minutes 10 --sessions 50
    python tools/serve_attacks/run.py slow-reader
    python tools/serve_attacks/run.py connects --count 10000
    python tools/serve_attacks/run.py connects --count 3000 --files 128
    python tools/serve_attacks/run.py shutdown --sessions 20 --backend faster-whisper

Linux only.  The scripted backend reads coded audio, so that every word is known; a plugin in the
process of the server records what it commits.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
import sys
import tempfile
import time

from churn import Crowd, churn, outcome_of
from connects import KEY, connect_many
from server import BACKENDS, run_server
from shutdown import terminate_in_mid_sentence
from slow import read_slowly

_IDLE_FILES = 12  # of a server without clients


def attack_by_churn(arguments: argparse.Namespace) -> list[str]:
    """Let clients come and go; return what went wrong."""
    with (
        tempfile.TemporaryDirectory() as name,
        run_server(arguments.backend, "--max-sessions", "1000") as server,
    ):
        problems = []
        before = None
        print("at the beginning:", server.figures)
        minutes = 60 * arguments.minutes / arguments.rounds
        rounds = [(f"round {number}", minutes) for number in range(1, arguments.rounds + 1)]
        for number, (label, seconds) in enumerate([("warm", arguments.warm), *rounds]):
            folder = Path(name) / label
            folder.mkdir()
            cpu, began = server.cpu_seconds, time.monotonic()
            crowd = churn(
                server,
                folder,
                sessions=arguments.sessions,
                seconds=seconds,
                seed=number + arguments.seed,
            )
            server.wait_until_idle()
            outcome = outcome_of(folder, server.committed())
            problems += outcome.problems
            share = (server.cpu_seconds - cpu) / (time.monotonic() - began)
            print(f"{label}: {outcome}; {crowd.kills} kills -9, {crowd.resumed} resumed after one")
            print(f"{label}: after it {server.figures}; {share:.0%} of a core", flush=True)
            if before is not None and server.figures.files > before.files:
                problems.append("files stay open")
            before = server.figures
        server.terminate()
        print("status", server.wait())
        return problems + server.unexpected_lines()


def attack_by_connects(arguments: argparse.Namespace) -> list[str]:
    """Connect thousands of times while sessions speak; return what went wrong."""
    with (
        tempfile.TemporaryDirectory() as name,
        run_server("scripted", key=KEY, files=arguments.files) as server,
    ):
        problems: list[str] = []
        for number in range(arguments.rounds):
            folder = Path(name) / str(number)
            folder.mkdir()
            crowd = Crowd(server, folder, 10, 1 + number, is_steady=True)
            crowd.wait_for_words()
            began, cpu = time.monotonic(), server.cpu_seconds
            count = arguments.count // arguments.rounds
            found, wrong = asyncio.run(connect_many(server, count, arguments.seed + number))
            seconds = time.monotonic() - began
            share = (server.cpu_seconds - cpu) / seconds
            crowd.stop()
            server.wait_until_idle()
            for (kind, status), count in sorted(found.items()):
                print(f"{count:6} {kind}: {status or 'no answer'}")
            outcome = outcome_of(folder, server.committed())
            problems += outcome.problems
            if arguments.files is None:  # else refusals are what is expected
                problems += [*wrong, *(["sessions were refused"] * outcome.refused)]
            print(f"{seconds:.0f} s, {share:.0%} of a core; others: {outcome}")
            print(f"p99 of the others {outcome.p99:.2f} s; after it {server.figures}", flush=True)
        if server.figures.files > _IDLE_FILES:
            problems.append("files stay open")
        server.terminate()
        print("status", server.wait())
        # Without a free file, asyncio writes a traceback for each connection that it cannot accept.
        return problems + ([] if arguments.files is not None else server.unexpected_lines())


def attack_by_a_slow_reader(_arguments: argparse.Namespace) -> list[str]:
    """Read one kilobyte a second while others speak; return what went wrong."""
    with tempfile.TemporaryDirectory() as name, run_server("scripted") as server:
        folders = [Path(name) / label for label in ("alone", "beside")]
        outcomes = []
        for number, folder in enumerate(folders):
            folder.mkdir()
            crowd = Crowd(server, folder, 10, 1 + number, is_steady=True)
            if number:
                found = read_slowly(server, print)
            else:
                time.sleep(30)
            crowd.stop()
            server.wait_until_idle()
            print(f"{folder.name}: {server.figures}")
            outcomes.append(outcome_of(folder, server.committed()))
        for folder, outcome in zip(folders, outcomes, strict=True):
            print(f"{folder.name}: {outcome}; p99 {outcome.p99:.2f} s")
        most = max(figures.memory for figures in found.figures)
        print(
            f"slow reader: {found.sent} messages sent, {found.messages} and {found.size} bytes "
            f"read in {found.seconds:.0f} s, closed with {found.close_code}; "
            f"at most {most / 1e6:.1f} MB"
        )
        problems = [problem for outcome in outcomes for problem in outcome.problems]
        if found.close_code not in {None, 1013}:  # a close frame waits for a reader for 10 s
            problems.append(f"the slow reader got {found.close_code}")
        print([line for line in server.log.read_text().splitlines() if "end=1013" in line])
        return problems + server.unexpected_lines()


def attack_by_a_shutdown(arguments: argparse.Namespace) -> list[str]:
    """Send SIGTERM in mid-sentence; return what went wrong."""
    with (
        tempfile.TemporaryDirectory() as name,
        run_server(arguments.backend, "--drain-seconds", "0") as server,
    ):
        problems = terminate_in_mid_sentence(
            server, Path(name), sessions=arguments.sessions, seed=arguments.seed
        )
        return problems + server.unexpected_lines()


def main() -> int:
    """Print the figures; return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("churn")
    command.add_argument("--minutes", type=float, default=10.0)
    command.add_argument("--warm", type=float, default=30.0, help="seconds before that")
    command.add_argument("--rounds", type=int, default=2, help="with a pause after each")
    command.add_argument("--sessions", type=int, default=50)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--backend", choices=BACKENDS, default="scripted")
    command.set_defaults(attack=attack_by_churn)
    command = commands.add_parser("connects")
    command.add_argument("--count", type=int, default=10_000)
    command.add_argument("--rounds", type=int, default=2, help="with a pause after each")
    command.add_argument("--files", type=int, help="how many the server may open")
    command.add_argument("--seed", type=int, default=0)
    command.set_defaults(attack=attack_by_connects)
    command = commands.add_parser("slow-reader")
    command.set_defaults(attack=attack_by_a_slow_reader)
    command = commands.add_parser("shutdown")
    command.add_argument("--sessions", type=int, default=20)
    command.add_argument("--backend", choices=BACKENDS, default="scripted")
    command.add_argument("--seed", type=int, default=0)
    command.set_defaults(attack=attack_by_a_shutdown)
    arguments = parser.parse_args()
    problems = arguments.attack(arguments)
    for problem in problems[:50]:
        print("PROBLEM:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
