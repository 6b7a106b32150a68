"""The command ``wlk-bench``, also as ``python -m wlk_bench``."""

from __future__ import annotations

from wlk_bench.cli import main
from wlk_core.cli.main import run_program


def run() -> None:
    """Run the command as the program ``wlk-bench`` and exit with its status."""
    interrupted = "interrupted; the same command continues an interrupted `wlk-bench run`"
    run_program(main, "wlk-bench", interrupted)


if __name__ == "__main__":
    run()
