"""``python -m wlk_conformance`` is ``wlk-conformance``."""

from __future__ import annotations

from wlk_conformance.cli import run

if __name__ == "__main__":
    run()
