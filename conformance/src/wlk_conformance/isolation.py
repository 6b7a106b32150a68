"""Code run in an interpreter of its own, where imports can be watched."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["run_python"]

LIMIT = 60.0  # seconds an import may take


def run_python(code: str, *arguments: str) -> str:
    """
    Run *code* in a fresh interpreter and return its standard output.

    Raises:
        AssertionError: it failed or took too long; the end of its standard error is the message.

    """
    try:
        done = subprocess.run(  # noqa: S603 -- the suite's own code
            [sys.executable, "-P", "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"an interpreter of its own did not end in {LIMIT:g} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AssertionError(f"in an interpreter of its own: {last}")
    return done.stdout
