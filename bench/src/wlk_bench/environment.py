"""The environment of a run: platform, versions and memory, as the system reports them."""

from __future__ import annotations

from importlib import metadata
import os
from pathlib import Path
import platform
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_FRAMEWORKS = ("ctranslate2", "mlx", "torch", "transformers")  # their versions change figures
_STATM = Path("/proc/self/statm")  # one object: Python interns the parts of each new Path anew


def describe_platform() -> dict[str, Any]:
    """Return system, machine, processor, cores and Python of this process."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def detect_versions(distributions: Iterable[str] = ()) -> dict[str, str]:
    """Return the installed versions of wlk-bench, wlk-core, *distributions* and the frameworks."""
    found: dict[str, str] = {}
    for name in ("wlk-bench", "wlk-core", *distributions, "jiwer", "numpy", *_FRAMEWORKS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def resident_bytes() -> int | None:
    """Return the memory of this process, None where the system has no cheap way to read it."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def machine_cpu_seconds() -> float | None:
    """Return the busy seconds of all cores since the start, None where the system has no file."""
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
