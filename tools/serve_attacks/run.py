"""
Attack a real wlk-serve and compare what its clients received with what it committed.

    python tools/serve_attacks/run.py churn --minutes 10 --sessions 50
    python tools/serve_attacks/run.py shutdown --sessions 20 --backend faster-whisper

Linux only.  The scripted backend reads coded audio, so that every word is known; a plugin in the
process of the server records what it commits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
import tempfile
import time

from churn import churn, outcome_of
from server import BACKENDS, run_server
from shutdown import terminate_in_mid_sentence


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
