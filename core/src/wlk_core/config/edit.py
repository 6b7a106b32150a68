"""Change one value of config.toml; comments, order and layout of the rest stay as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_core.config.file import OPTIONS, TEXT_KEYS, config_path, read_config, read_text
from wlk_core.errors import OptionError
from wlk_core.option_values import split_options

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from wlk_core.registry import Registry

__all__ = ["set_value", "unset_value"]

_EXPECTED = "expected backend, model, language or options.BACKEND.OPTION"


def set_value(key: str, value: str, registry: Registry) -> Path:
    """
    Set a key of config.toml, which is made where it does not exist, and return its path.

    `key` is backend, model, language or options.BACKEND.OPTION.  The backend must be installed and
    the option one that it takes.

    Raises:
        OptionError: the key or the value is invalid, or the file has a mistake.
        BackendUnavailable: no such backend is installed.

    """
    keys = _split(key)
    typed = _typed(keys, value, registry)
    document = _document()
    table: Any = document
    for name in keys[:-1]:
        if name not in table:
            import tomlkit  # noqa: PLC0415 -- only to write

            table[name] = tomlkit.table(is_super_table=name == OPTIONS)
        table = table[name]
    table[keys[-1]] = typed
    return _write(document)


def unset_value(key: str) -> Path:
    """
    Remove a key from config.toml, and return its path.

    Raises:
        OptionError: the key is invalid or not set, or the file has a mistake.

    """
    keys = _split(key)
    document = _document()
    table: Any = document
    for name in keys[:-1]:
        table = table.get(name, {})
    if keys[-1] not in table:
        raise OptionError(f"{key} is not set in {config_path()}")
    del table[keys[-1]]
    return _write(document)


def _split(key: str) -> tuple[str, ...]:
    if key in TEXT_KEYS:
        return (key,)
    keys = tuple(key.split("."))
    if len(keys) != len((OPTIONS, "BACKEND", "OPTION")) or keys[0] != OPTIONS or not all(keys):
        raise OptionError(f"{key} is no key of the configuration; {_EXPECTED}")
    return keys


def _typed(keys: tuple[str, ...], value: str, registry: Registry) -> Any:
    """Return *value* as the type of its key, checked."""
    key = ".".join(keys)
    if keys[0] == OPTIONS:
        _, backend, name = keys
        values = split_options(registry.spec(backend), {name: value})
        typed = {**values.backend, **values.stream}[name]
        return value if typed is None else typed  # "auto", and what stands for no value
    if not value:
        raise OptionError(f"{key} needs a value; remove it with: wlk-core config unset {key}")
    if key == "backend":
        registry.spec(value)
    return value


def _document() -> TOMLDocument:
    import tomlkit  # noqa: PLC0415 -- only to write

    path = config_path()
    read_config(path)  # raises where there is a mistake, which has to be mended first
    return tomlkit.parse(read_text(path))


def _write(document: TOMLDocument) -> Path:
    """Write in one step; a symbolic link keeps leading to its file."""
    path = config_path()
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        draft.write_text(document.as_string(), encoding="utf-8")
        if target.exists():
            draft.chmod(target.stat().st_mode)
        draft.replace(target)
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error
    return path
