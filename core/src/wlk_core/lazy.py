"""Load the public names of a module on first use; only its stub file lists them."""

from __future__ import annotations

import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_EXPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(
    module: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for *module*, from the stub beside *file*."""
    with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as stub:  # noqa: PTH123 -- pathlib takes 3 ms
        homes = {name: home for home, name in _EXPORT.findall(stub.read())}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = importlib.import_module(homes[name])
        try:
            value = getattr(home, name)
        except AttributeError:  # a submodule that has not been imported yet
            value = importlib.import_module(f"{homes[name]}.{name}")
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: sorted(homes), sorted(homes)
