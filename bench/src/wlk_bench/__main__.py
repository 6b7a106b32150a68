"""Make ``python -m wlk_bench`` the command."""

from __future__ import annotations

import sys

from wlk_bench.cli import run_command


def run() -> None:
    """Run the command and leave with its status."""
    sys.exit(run_command())


if __name__ == "__main__":
    run()
