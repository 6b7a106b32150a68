"""The command ``wlk-core``, also as ``python -m wlk_core``."""

from __future__ import annotations


def run() -> None:
    """Run the command line and exit with its status."""
    from wlk_core.cli.main import run_program  # noqa: PLC0415 -- `import wlk_core` needs no click

    run_program()


if __name__ == "__main__":
    run()
