"""The environment of a run: platform, versions and memory, as the system reports them."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata
import os
from pathlib import Path
import platform
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_FRAMEWORKS = ("ctranslate2", "mlx", "torch", "transformers")  # versions that affect figures
_STATM = Path("/proc/self/statm")  # kept: Python's table of interned strings grows with new Paths


def describe_platform() -> dict[str, Any]:
    """Return the system, machine, processor, cores and Python of this process."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def detect_versions(distributions: Iterable[str] = ()) -> dict[str, str]:
    """Return the installed versions of this project, *distributions* and the frameworks."""
    versions: dict[str, str] = {}
    ours = ("wlk-bench", "wlk-core", "wlk-live")
    for name in (*ours, *distributions, "jiwer", "numpy", *_FRAMEWORKS):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None if it cannot be read cheaply."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine_cpu_seconds() -> float | None:
    """Return the busy seconds of all cores since boot; None without /proc/stat."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    except (OSError, IndexError):
        return None
    idle = int(fields[3]) + int(fields[4])
    ticks_per_second = 100  # USER_HZ, the same on every architecture of Linux
    return (sum(int(field) for field in fields[:8]) - idle) / ticks_per_second


def _processor_name() -> str:
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        described = ""
    named = re.search(r"^model name\s*:\s*(.+)$", described, re.MULTILINE)
    return named.group(1).strip() if named else platform.processor() or platform.machine()
