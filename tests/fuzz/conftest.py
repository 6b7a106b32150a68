"""Targets for generated input, and how many cases each is tried with."""

from __future__ import annotations

from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).parent)]
