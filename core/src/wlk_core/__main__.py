"""The command ``wlk-core``, also as ``python -m wlk_core``."""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # the status of a program that Ctrl-C ended


def run() -> None:
    """Run the command line and exit with its status."""
    from wlk_core.cli.main import execute, prepare_streams  # noqa: PLC0415 -- this one is `run`
    from wlk_core.cli.stops import STOPS  # noqa: PLC0415 -- as above

    prepare_streams()
    STOPS.install()
    status = execute(sys.argv[1:])
    if status == _INTERRUPTED:
        # Python ends by SIGINT itself then: the status is 130 all the same, and a loop of a shell
        # ends too, which it does not after an exit with 130.
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    sys.exit(status)


if __name__ == "__main__":
    run()
