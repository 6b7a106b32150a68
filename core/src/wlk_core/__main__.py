"""The command ``wlk-core``, also as ``python -m wlk_core``."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

# Sent by `docker stop`, by systemd and by a terminal that is closed; Windows lacks the second.
_TERMINATIONS = ("SIGTERM", "SIGHUP")


def run() -> None:
    """Run the command line and exit with its status."""
    from wlk_core.cli.main import execute, prepare_streams  # noqa: PLC0415 -- this one is `run`

    prepare_streams()
    for name in _TERMINATIONS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    sys.exit(execute(sys.argv[1:]))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that results that were committed are written."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    run()
