"""
Run wlk-conformance on the backends of tests/proofs.toml, two at a time, and keep the reports.

    python tools/prove.py --reports DIR scripted hello -- --speech --seed 2

Without names, every backend is proven.  Arguments after "--" go to wlk-conformance; a proof that is
a test of a plugin takes them as --wlk-ARGUMENT.  Each line of a proof is printed when it comes,
after its name.  The exit status is 1 if a backend is not compliant.  SIGTERM ends the proofs that
run, each of which then writes a report on what it judged.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import os
from pathlib import Path
import signal
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "tests/proofs.toml"
WORKERS = 2


def command(
    proof: Mapping[str, Any], report: Path, suite_arguments: Sequence[str]
) -> list[str | Path]:
    """Return the command that runs a proof and writes *report*."""
    if "test" in proof:  # which starts a server or names a model
        pytest = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-q"]
        options = [f"--wlk-{argument.removeprefix('--')}" for argument in joined(suite_arguments)]
        return [*pytest, ROOT / proof["test"], f"--wlk-report={report}", *options]
    suite = [sys.executable, "-m", "wlk_conformance", *proof["arguments"]]
    return [*suite, "--report", report, *suite_arguments]


def joined(arguments: Sequence[str]) -> list[str]:
    """
    Return *arguments* with every value joined to its option.

    >>> joined(["--speech", "--seed", "2", "--sessions=3"])
    ['--speech', '--seed=2', '--sessions=3']
    """
    words: list[str] = []
    for argument in arguments:
        if argument.startswith("--") or not words:
            words.append(argument)
        else:
            words[-1] += f"={argument}"
    return words


class Proofs:
    """The proofs that run, which end together."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.is_ended = False

    def end(self, *_signal: object) -> None:
        """End the proofs that run, and begin no other."""
        self.is_ended = True
        for process in list(self.running):
            process.terminate()

    def prove(
        self, name: str, proof: Mapping[str, Any], reports: Path, suite_arguments: Sequence[str]
    ) -> bool:
        """Run one proof, print its output, and return whether the backend is compliant."""
        report = reports / f"{name}.json"
        report.unlink(missing_ok=True)
        if self.is_ended:
            return False
        process = subprocess.Popen(
            command(proof, report, suite_arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.running.append(process)
        with process:
            for line in process.stdout or ():
                print(f"{name}: {line}", end="", flush=True)
        self.running.remove(process)
        print(f"{name}: exit status {process.returncode}", flush=True)
        return process.returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    proofs = tomllib.loads(PROOFS.read_text(encoding="utf-8"))
    own, suite_arguments = list(arguments), []
    if "--" in own:
        split = own.index("--")
        own, suite_arguments = own[:split], own[split + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(proofs)}")
    parser.add_argument("--reports", type=Path, required=True, help="folder of the JSON reports")
    chosen = parser.parse_args(own)
    if unknown := [name for name in chosen.names if name not in proofs]:
        parser.error(f"expected proofs among {', '.join(proofs)}; got {', '.join(unknown)}")
    names = chosen.names or list(proofs)
    chosen.reports.mkdir(parents=True, exist_ok=True)
    folder, proofs_run = chosen.reports.resolve(), Proofs()
    signal.signal(signal.SIGTERM, proofs_run.end)
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        run = partial(proofs_run.prove, reports=folder, suite_arguments=suite_arguments)
        results = list(pool.map(run, names, [proofs[name] for name in names]))
    failed = [name for name, is_compliant in zip(names, results, strict=True) if not is_compliant]
    if failed:
        sys.stdout.write(f"not compliant: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
