"""Read config.toml; a mistake in it names the file, the line and the key."""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core._directories import config_directory
from wlk_core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["OPTIONS", "TEXT_KEYS", "ConfigFile", "config_path", "read_config", "read_text"]

TEXT_KEYS = ("backend", "model", "language")  #: the keys at the top, each with a text
OPTIONS = "options"  #: the table with a table of options for each backend

_TOP_KEYS = (*TEXT_KEYS, OPTIONS)

Keys = tuple[str, ...]

# How tomllib ends its messages.
_POSITION = re.compile(
    r"(?P<reason>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)", re.DOTALL
)


@attrs.frozen(kw_only=True)
class ConfigFile:
    """
    The content of config.toml; empty if there is no file.

    Attributes:
        path: the file.
        backend, model, language: what is used where nothing else is chosen.
        options: for each backend, the values of options by their names.

    """

    path: Path
    backend: str | None = None
    model: str | None = None
    language: str | None = None
    options: Mapping[str, Mapping[str, str | int | float | bool]] = attrs.field(factory=dict)
    _lines: Mapping[Keys, int] = attrs.field(factory=dict, repr=False)

    def line(self, *keys: str) -> int | None:
        """Return the line of a value."""
        return self._lines.get(keys)

    def origin(self, *keys: str) -> str:
        """Return where a value is set, as messages name it: file, line and key."""
        return _origin(self.path, self._lines, keys)


def config_path() -> Path:
    """Return the path of config.toml, which need not exist."""
    return config_directory() / "config.toml"


def read_config(path: Path | None = None) -> ConfigFile:
    """
    Read config.toml.

    Raises:
        OptionError: the file has a mistake or cannot be read.

    """
    path = config_path() if path is None else path
    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _syntax_error(path, text, error) from error
    lines = dict(_lines(text)) if table else {}
    for keys, expected in _mistakes(table):
        raise OptionError(f"{_origin(path, lines, keys)}: {expected}")
    texts = {name: table[name] for name in TEXT_KEYS if name in table}
    return ConfigFile(path=path, options=table.get(OPTIONS, {}), lines=lines, **texts)


def read_text(path: Path) -> str:
    """
    Return the text of the file, empty if there is no file.

    Raises:
        OptionError: it cannot be read.

    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise OptionError(f"{path} is no UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror or error}") from error


def _mistakes(table: Mapping[str, Any]) -> Iterator[tuple[Keys, str]]:
    """Yield the keys of each mistake and what was expected there."""
    for name, value in table.items():
        if name in TEXT_KEYS:
            if not isinstance(value, str) or not value:
                yield (name,), f"expected a text, got {_shown(value)}"
        elif name != OPTIONS:
            close = difflib.get_close_matches(name, _TOP_KEYS, n=1)
            guess = f" (did you mean {close[0]}?)" if close else ""
            yield (name,), f"unknown key{guess}; expected one of: {', '.join(_TOP_KEYS)}"
        elif not isinstance(value, dict):
            yield (name,), f"expected a table for each backend, got {_shown(value)}"
        else:
            for backend, options in value.items():
                yield from _option_mistakes(backend, options)


def _option_mistakes(backend: str, options: Any) -> Iterator[tuple[Keys, str]]:
    if not isinstance(options, dict):
        expected = "expected options, below a line [options.NAME]"
        yield (OPTIONS, backend), f"{expected}, got {_shown(options)}"
        return
    for name, value in options.items():
        if not isinstance(value, str | int | float | bool):
            yield (
                (OPTIONS, backend, name),
                f"expected a text, a number, true or false, got {_shown(value)}",
            )


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return repr(value)


def _lines(text: str) -> Iterator[tuple[Keys, int]]:
    """
    Yield every key with its line.

    tomllib reports no positions, so the text is parsed once for each line it may end after: a key
    belongs to the first line with which it appears.
    """
    lines = text.splitlines(keepends=True)
    known: set[Keys] = set()
    for number in range(1, len(lines) + 1):
        try:
            table = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # inside a value of several lines
        for keys in _keys(table):
            if keys not in known:
                known.add(keys)
                yield keys, number


def _keys(table: Mapping[str, Any], prefix: Keys = ()) -> Iterator[Keys]:
    for name, value in table.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _keys(value, (*prefix, name))


def _origin(path: Path, lines: Mapping[Keys, int], keys: Keys) -> str:
    line = f", line {lines[keys]}" if keys in lines else ""
    return f"{path}{line}, key {'.'.join(keys)}"


def _syntax_error(path: Path, text: str, error: Exception) -> OptionError:
    if isinstance(error, RecursionError):
        return OptionError(f"{path} is nested too deep")
    if match := _POSITION.fullmatch(str(error)):
        line = match["line"] or len(text.splitlines())
        return OptionError(f"{path}, line {line}: {_lowered(match['reason'])}")
    return OptionError(f"{path}: {_lowered(str(error))}")


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
