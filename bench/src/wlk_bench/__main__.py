"""Entry point of ``wlk-bench`` and of ``python -m wlk_bench``."""

from __future__ import annotations

from wlk_bench.cli import main
from wlk_core.cli.main import run_program


def run() -> None:
    """Run ``wlk-bench`` and exit with its status."""
    interrupted = "interrupted; to continue a `wlk-bench run`, repeat the same command"
    run_program(main, "wlk-bench", interrupted)


if __name__ == "__main__":
    run()
