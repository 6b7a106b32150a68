"""Sessions: a monitor of every stream, and generated sessions of calls that replay from a file."""

from __future__ import annotations
