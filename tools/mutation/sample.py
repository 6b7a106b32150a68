"""
Sample mutants of the code that all streams share, and count those that the suite alone detects.

`python tools/mutation/sample.py` draws mutants made by mutmut from `wlk_core.streaming`,
`wlk_core.online` and the scripted backend.  Each is written to a copy of the sources in
build/mutants, where wlk-conformance plays the generated sessions and runs both tiers of each
policy on the scripted backend until a rule fails.
Strings are not mutated, because the suite does not judge the wording of messages.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
import difflib
import os
from pathlib import Path
from random import Random
import resource
import shutil
import subprocess
import sys
from typing import Any

import libcst
from mutmut.mutation.file_mutation import create_mutations

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutants"
SOURCES = (ROOT / "core/src", ROOT / "conformance/src")
PACKAGES = (
    ROOT / "core/src/wlk_core/streaming",
    ROOT / "core/src/wlk_core/online",
    ROOT / "conformance/src/wlk_conformance/scripted",
)
#: The generated sessions, which use every policy in turn, come first: they detect most mutants.
RUNS = (
    ("--sessions", "120"),
    *(
        ("--sessions", "0", "--speech", "--policy", policy)
        for policy in ("local-agreement", "alignatt", "native", "long-form")
    ),
)
# A mutant that does not end counts as detected.  The limit is in seconds of processor time, because
# load on the machine must not detect anything; on the sound sources the suite takes 20.
LIMIT = 150
WAIT = 3600.0  # seconds, for a mutant that waits forever without using the processor


def mutants() -> list[tuple[Path, libcst.Module, Any]]:
    """Return every mutant: its file relative to the sources, the module and the change."""
    every = []
    for package in PACKAGES:
        for path in sorted(package.glob("*.py")):
            if path.name == "__init__.py":
                continue
            text = path.read_text(encoding="utf-8")
            with chdir(HERE):  # mutmut reads its configuration there
                module, mutations, *_ = create_mutations(str(path), text)
            relative = path.relative_to(package.parents[1])
            every += [(relative, module, change) for change in mutations if not _is_text(change)]
    return every


def _is_text(mutation: Any) -> bool:
    return isinstance(mutation.original_node, libcst.SimpleString | libcst.FormattedString)


def limit_processor_time() -> None:
    """Let the system end this process after LIMIT seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


def judge(number: int, mutant: tuple[Path, str, str]) -> tuple[int, str]:
    """Return the number of a mutant and how the suite detected it, empty if it did not."""
    path, _, after = mutant
    folder = WORK / str(number)
    for source in SOURCES:
        shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / path).write_text(after, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    suite = [sys.executable, "-m", "wlk_conformance", "scripted", "--model", "digits"]
    try:
        for run in RUNS:
            done = subprocess.run(
                [*suite, *run], env=environment, cwd=folder, capture_output=True, text=True,
                timeout=WAIT, check=False, preexec_fn=limit_processor_time,
            )  # fmt: skip
            if done.returncode:
                lines = (done.stdout + done.stderr).splitlines()
                failed = [line.strip() for line in lines if "FAIL" in line.upper()]
                reasons = [*failed, *lines[-1:], f"exit status {done.returncode}"]
                return number, reasons[0][:120]
    except subprocess.TimeoutExpired:
        return number, f"not done within {WAIT:g} s"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return number, ""


def changed(mutant: tuple[Path, str, str]) -> str:
    """Return the lines that a mutant changes."""
    path, before, after = mutant
    diff = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    line_number = diff[2].split()[1].lstrip("-").partition(",")[0]
    lines = [f"{line[0]} {line[1:].strip()}" for line in diff[3:]]
    return f"{path}:{line_number}: " + " | ".join(lines)


def main() -> None:
    """Draw the sample, judge it and print the survivors and the share that was detected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="mutants to try (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args()
    every = mutants()
    rng = Random(arguments.seed)  # noqa: S311 -- reproducible, not secret
    sample = [
        (path, module.code, module.deep_replace(change.original_node, change.mutated_node).code)
        for path, module, change in rng.sample(every, min(arguments.count, len(every)))
    ]
    detected = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, why in pool.map(judge, range(len(sample)), sample):
            if why:
                detected += 1
            verdict = f"detected by {why}" if why else "SURVIVED"
            print(f"{verdict}\n    {changed(sample[number])}", flush=True)
    print(f"{detected} of {len(sample)} detected, drawn from {len(every)}, seed {arguments.seed}")


if __name__ == "__main__":
    main()
