"""Read config.toml, and change one value of it without touching the rest."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from wlk_core._directories import config_directory
from wlk_core.errors import OptionError
from wlk_core.option_values import split_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wlk_core.registry import Registry

__all__ = ["ConfigFile", "config_path", "read_config", "set_value", "unset_value"]

_TEXT_KEYS = ("backend", "model", "language")
_OPTION_KEYS = 3  # options.BACKEND.OPTION

Text = Annotated[str, msgspec.Meta(min_length=1)]


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The content of config.toml: defaults, "" where there is none, and options by backend."""

    backend: Text = ""
    model: Text = ""
    language: Text = ""
    options: dict[str, dict[str, Any]] = {}  # each backend checks the values of its own

    def values(self) -> Iterator[tuple[str, Any]]:
        """Yield each value that is set, after its dotted key."""
        yield from ((name, getattr(self, name)) for name in _TEXT_KEYS if getattr(self, name))
        for backend, options in self.options.items():
            yield from ((f"options.{backend}.{name}", value) for name, value in options.items())


def config_path() -> Path:
    """Return the path of config.toml, which need not exist."""
    return config_directory() / "config.toml"


def read_config(path: Path | None = None) -> ConfigFile:
    """
    Read config.toml; a file that does not exist is empty.

    Raises:
        OptionError: the file cannot be read, or has a mistake, whose line or key is named.

    """
    path = path or config_path()
    try:
        return msgspec.convert(tomllib.loads(_read_text(path)), ConfigFile)
    except msgspec.ValidationError as error:
        reason, _, key = str(error).partition(" - at `$.")
        place = f", key {key.rstrip('`')}" if key else ""
        raise OptionError(f"{path}{place}: {reason}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{path}: {error}") from error


def set_value(key: str, value: str, registry: Registry) -> Path:
    """
    Set a key of config.toml, which is created where it does not exist, and return its path.

    Raises:
        OptionError: an unknown key, a value that its backend does not take, or the file has a
            mistake.
        BackendUnavailable: no such backend is installed.

    """
    import tomlkit  # noqa: PLC0415 -- only to write

    *tables, name = _split(key)
    typed: Any = value
    if tables:
        values = split_options(registry.spec(tables[1]), {name: value})
        typed = (values.backend | values.stream)[name]
        typed = value if typed is None else typed  # "auto", and what stands for no value
    elif not value:
        raise OptionError(f"{key} needs a value; remove it with: wlk-core config unset {key}")
    elif key == "backend":
        registry.spec(value)
    document = table = _document()
    for each in tables:
        if each not in table:
            table[each] = tomlkit.table(is_super_table=each == tables[0])
        table = table[each]
    table[name] = typed
    return _write(document.as_string())


def unset_value(key: str) -> Path:
    """
    Remove a key from config.toml, and return its path.

    Raises:
        OptionError: the key is unknown or not set, or the file has a mistake.

    """
    *tables, name = _split(key)
    document = table = _document()
    for each in tables:
        table = table.get(each, {})
    if name not in table:
        raise OptionError(f"{key} is not set in {config_path()}")
    del table[name]
    return _write(document.as_string())


def _split(key: str) -> list[str]:
    keys = key.split(".")
    is_option = keys[0] == "options" and len(keys) == _OPTION_KEYS and all(keys)
    if key not in _TEXT_KEYS and not is_option:
        raise OptionError(
            f"unknown configuration key {key}; expected backend, model, language or "
            "options.BACKEND.OPTION"
        )
    return keys


def _document() -> Any:
    import tomlkit  # noqa: PLC0415 -- only to write

    read_config()  # a file with a mistake is not changed
    return tomlkit.parse(_read_text(config_path()))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # editors on Windows write a byte order mark
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise OptionError(f"{path} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror or error}") from error


def _write(text: str) -> Path:
    path = config_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error
    return path
