"""Make the modules of this folder importable, because they import each other."""

from __future__ import annotations

from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).parent)]
