"""The command ``wlk-core``, also as ``python -m wlk_core``."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line and leave with its exit status."""
    from wlk_core.cli.main import execute, prepare_streams  # noqa: PLC0415 -- this one is `run`

    prepare_streams()
    sys.exit(execute(sys.argv[1:]))


if __name__ == "__main__":
    run()
