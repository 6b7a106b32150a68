"""A tiny Whisper that recognises English digits, in transformers' format."""

from __future__ import annotations

from pathlib import Path

__all__ = ["checkpoint_directory"]


def checkpoint_directory() -> Path:
    """Return the directory of the checkpoint."""
    return Path(__file__).parent / "checkpoint"
