"""
Make small mistakes in the parts of streams and count those that a test detects.

`python tools/mutation/run.py` runs mutmut on `wlk_core.streaming` and `wlk_core.online`, in
build/mutation.  A mutant is killed by the core's tests of these two rooms, or by the contract tier
on the scripted backend.  `mutmut results` and `mutmut show NAME`, run in that folder, list and show
the survivors.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
import shutil
import subprocess
import sys

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutation"
STATISTICS = Path("mutants") / "mutmut-cicd-stats.json"
DETECTED = ("killed", "timeout", "segfault", "suspicious")
ROOMS = ("streaming", "online")


def prepare() -> None:
    """Copy the core, its tests and the configuration to an empty folder."""
    shutil.rmtree(WORK, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "core/src", WORK / "src", ignore=skip)
    for room in ROOMS:
        shutil.copytree(ROOT / "core/tests" / room, WORK / "tests" / room, ignore=skip)
    shutil.copy(HERE / "tests/test_contract_tier.py", WORK / "tests")
    shutil.copy(HERE / "pyproject.toml", WORK)


def main() -> None:
    """Run mutmut and fail where fewer mutants are detected than required."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants to try, with wildcards (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--floor", type=float, default=0.0, help="share that must be detected")
    arguments = parser.parse_args()
    prepare()
    mutmut = [sys.executable, "-m", "mutmut"]
    run = [*mutmut, "run", "--max-children", str(arguments.jobs), *arguments.names]
    subprocess.run(run, cwd=WORK, check=True)
    subprocess.run([*mutmut, "export-cicd-stats"], cwd=WORK, check=True)
    count = json.loads((WORK / STATISTICS).read_text(encoding="utf-8"))
    detected = sum(count[name] for name in DETECTED)
    tried = detected + count["survived"] + count["no_tests"]
    share = detected / max(1, tried)
    print(f"{detected} of {tried} mutants detected ({100 * share:.1f} %): {count}")
    sys.exit(0 if share >= arguments.floor else 1)


if __name__ == "__main__":
    main()
