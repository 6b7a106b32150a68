"""Run the command as ``python -m wlk_serve``."""

from __future__ import annotations

from wlk_serve.cli import run

if __name__ == "__main__":
    run()
