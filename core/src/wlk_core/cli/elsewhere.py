"""What is installed in the other environments that config.toml or a variable names."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from wlk_core.config import OPTION_VARIABLE, read_config
from wlk_core.environments import environment_elsewhere, find_pythons
from wlk_core.errors import WLKError
from wlk_core.standard_options import PYTHON
from wlk_core.untrusted import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wlk_core.registry import Registry

__all__ = ["environment_rows"]

_PATIENCE_SECONDS = 60.0  # to list plugins, which imports no framework


def environment_rows(registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield each backend with the option `python`, and what is installed in each environment."""
    try:
        config = read_config()
    except WLKError:
        return  # reported elsewhere, with its line
    for spec in registry.specs():
        if PYTHON.name not in {option.name for option in spec.options}:
            continue
        value = os.environ.get(f"{OPTION_VARIABLE}{PYTHON.name.upper()}") or config.options.get(
            spec.name, {}
        ).get(PYTHON.name)
        if isinstance(value, str) and value:
            try:
                pythons = find_pythons(value)
            except WLKError as error:
                yield spec.name, str(error)
                continue
            for python in pythons:
                yield spec.name, f"{python}: {_installed(python)}"


def _installed(python: Path) -> str:
    """Return the plugins of *python* with their versions and backends, or why there are none."""
    try:
        done = subprocess.run(  # noqa: S603 -- the Python that the user has configured
            [str(python), "-m", "wlk_core", "plugins", "--json"],
            env=environment_elsewhere(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        rows = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"lists no plugins ({one_line(str(error))})"
    if not isinstance(rows, list):
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return f"has no wlk-core ({one_line(lines[-1])}); type: {python} -m pip install wlk-serve"
    titles = [_title(row) for row in rows if isinstance(row, dict)]
    if not any("serve" in row.get("commands", ()) for row in rows if isinstance(row, dict)):
        return f"has no wlk-serve; type: {python} -m pip install wlk-serve"
    return ", ".join(titles)


def _title(row: dict[str, object]) -> str:
    backends = row.get("backends")
    names = [str(name) for name in backends] if isinstance(backends, list) else []
    title = one_line(f"{row.get('name')} {row.get('version')}")
    return f"{title} ({', '.join(map(one_line, names))})" if names else title
