"""Capture of standard output, of Python and of the libraries below it."""

from __future__ import annotations

from contextlib import contextmanager, redirect_stdout
import io
import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["standard_output"]

STDOUT = 1  # the file descriptor


@contextmanager
def standard_output() -> Iterator[Callable[[], str]]:
    """Capture standard output; yields a function that returns the text after the block."""
    python = io.StringIO()
    text: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        before = os.dup(STDOUT)
        os.dup2(file.fileno(), STDOUT)
        try:
            with redirect_stdout(python):
                yield lambda: "".join(text)
        finally:
            os.dup2(before, STDOUT)
            os.close(before)
            file.seek(0)
            text += [python.getvalue(), file.read().decode(errors="replace")]
