"""Text for people: whatever it contains, a terminal obeys none of it."""

from __future__ import annotations

import logging

import click

from wlk_core.untrusted import printable

__all__ = ["PrintableFormatter", "echo"]


def echo(text: object = "", *, err: bool = False) -> None:
    """Write lines to standard output or error; active characters are escapes."""
    click.echo(_lines(str(text)), err=err)


class PrintableFormatter(logging.Formatter):
    """Formats a log record so that its active characters are escapes."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return _lines(super().format(record))


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
