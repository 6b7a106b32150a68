"""A monitor of every stream, and generated sessions of calls, which replay from a file."""

from __future__ import annotations
