"""
User settings: flags take precedence over WLK_* variables, and these over config.toml.

Only commands read them; `load_backend` and the rest of the API take explicit arguments.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
import os
from pathlib import Path
import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import msgspec
import platformdirs

from wlk_core.backend import BackendSpec
from wlk_core.errors import BackendUnavailable, OptionError
from wlk_core.options import AUTO, OptionValues, parse_pairs, resolve_options
from wlk_core.untrusted import shown
from wlk_live.language_choice import OPTION, checked_language, forced_language
from wlk_live.whisperlivekit import answered_backend, check_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wlk_core.backend import Backend
    from wlk_core.registry import Registry

OPTION_VARIABLE = "WLK_OPTION_"  #: prefix of a variable that sets an option

Text = Annotated[str, msgspec.Meta(min_length=1)]


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The content of config.toml: defaults, "" if not set, and options by backend or filter."""

    backend: Text = ""
    model: Text = ""
    language: Text = ""
    filters: tuple[Text, ...] = ()
    options: dict[str, dict[str, Any]] = {}  # each backend or filter checks its own values


class _Rank(IntEnum):
    """Where a setting comes from; the lower one takes precedence."""

    FLAG = 0
    VARIABLE = 1
    FILE = 2
    DEFAULT = 3


@attrs.frozen
class _Setting:
    value: Any = None
    rank: _Rank = _Rank.DEFAULT
    origin: str | None = None  # its name in messages; None for a flag


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a command, all but the model checked against the backend."""

    spec: BackendSpec
    model: str | None  #: None if the backend has no default model
    language: str | None  #: the code to force, None to detect
    options: OptionValues  #: those that were set, by scope

    def load(self, registry: Registry) -> Backend:
        """Load the backend."""
        return registry.load_backend(self.spec.name, self.model, **self.options.backend)


def choose_settings(
    registry: Registry,
    *,
    backend: str | None = None,
    model: str | None = None,
    language: str | None = None,
    policy: str | None = None,
    pairs: Sequence[str] = (),
) -> Settings:
    """
    Return the settings of a command; the arguments are its flags, None for those left out.

    Raises:
        OptionError: the backend does not take a value; unless a flag set the value, the message
            names its file and key, or its variable.
        BackendUnavailable: the backend is broken or not installed.

    """
    config = read_config()
    chosen_backend = _choose("backend", backend, config)
    name = chosen_backend.value
    with errors_from(chosen_backend.origin), answered_backend(name):
        spec = registry.default_backend() if name is None else registry.spec(name)
    chosen_model = _choose("model", model, config)
    # A model set with less precedence than the backend was meant for another backend.
    if chosen_model.rank > chosen_backend.rank or chosen_model.value is None:
        chosen_model = _Setting(spec.default_model)
    if policy is not None:
        pairs = [*pairs, f"policy={policy}"]
    options = {
        name: _Setting(value, _Rank.FILE, _origin("options", spec.name, name))
        for name, value in config.options.get(spec.name, {}).items()
    }
    for variable, value in os.environ.items():
        if variable.startswith(OPTION_VARIABLE) and value:
            name = variable.removeprefix(OPTION_VARIABLE).lower()
            options[name] = _Setting(value, _Rank.VARIABLE, variable)
    options |= {name: _Setting(value, _Rank.FLAG) for name, value in parse_pairs(pairs).items()}
    chosen_language = _choose("language", language, config)
    is_detected = chosen_language.value is None or chosen_language.value.lower() == AUTO
    code = None
    if not is_detected:
        with errors_from(chosen_language.origin):
            code = checked_language(chosen_language.value, spec)
        unset = _Setting()
        if chosen_language.rank > options.get(OPTION, unset).rank:
            code = None  # several were chosen with more precedence
        elif forced_language(code) is None:
            options[OPTION] = attrs.evolve(chosen_language, value=code)
    return Settings(
        spec=spec,
        model=chosen_model.value,
        language=forced_language(code),
        options=_resolve(spec, options),
    )


def config_path() -> Path:
    """Return the path of config.toml, in $WLK_HOME or the user's folder; it need not exist."""
    if home := os.environ.get("WLK_HOME"):
        return Path(os.path.expandvars(home)).expanduser().absolute() / "config.toml"
    return platformdirs.user_config_path("wlk-core", appauthor=False) / "config.toml"


def read_config() -> ConfigFile:
    """
    Read config.toml; a missing file counts as empty.

    Raises:
        OptionError: the file cannot be read or is invalid; the message names the line or key.

    """
    path = config_path()
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
    Set a key of config.toml, creating the file if there is none, and return its path.

    Raises:
        OptionError: the key is unknown, the backend does not take the value, or the file is
            invalid.
        BackendUnavailable: no such backend is installed.

    """
    import tomlkit  # noqa: PLC0415 -- only to write

    *tables, name = key.split(".")
    if not re.fullmatch(r"backend|model|language|filters|options(\.[^.]+){2}", key):
        raise OptionError(
            f"unknown configuration key {key}; expected backend, model, language, filters or "
            "options.NAME.OPTION"
        )
    path = config_path()
    typed: Any = value
    if tables:
        spec = registry.model_spec(tables[1])
        if isinstance(spec, BackendSpec):
            check_option(spec, name)
            values = spec.split_options({name: value})
            typed = (values.backend | values.stream)[name]
        else:
            options = resolve_options(spec.options, {name: value}, scope=None, owner=spec.name)
            typed = options[name]
        typed = value if typed is None else typed  # keeps "auto": TOML has no null
    elif not value:
        raise OptionError(f"{key} needs a value; remove the line from {path}")
    elif key == "filters":
        typed = [each.strip() for each in value.split(",")]
        known = [spec.name for spec in registry.offers("text-filter")]
        if missing := [each for each in typed if each.partition("=")[0] not in known]:
            raise OptionError(
                f"filters: no text filter called {shown(missing[0])}; "
                f"installed: {', '.join(known) or 'none'}"
            )
    elif key == "backend":
        with answered_backend(value):
            registry.spec(value)
    read_config()  # raises if the file is invalid, which leaves it unchanged
    document: Any = tomlkit.parse(_read_text(path))
    table = document
    for each in tables:
        table = table.setdefault(each, tomlkit.table(is_super_table=each == tables[0]))
    table[name] = typed
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.as_string(), encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # editors on Windows write a byte order mark
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise OptionError(f"{path} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror or error}") from error


def _choose(name: str, flag: str | None, config: ConfigFile) -> _Setting:
    if flag is not None:
        return _Setting(flag, _Rank.FLAG)
    variable = f"WLK_{name.upper()}"
    if value := os.environ.get(variable):
        return _Setting(value, _Rank.VARIABLE, variable)
    if value := getattr(config, name):
        return _Setting(value, _Rank.FILE, _origin(name))
    return _Setting()


def _resolve(spec: BackendSpec, settings: Mapping[str, _Setting]) -> OptionValues:
    # A policy voids options of other policies that were set with less precedence, so that a file
    # may contain options of several policies.
    policies_of = {option.name: option.policies for option in spec.all_options}
    policy = settings.get("policy", _Setting())
    values: dict[str, Any] = {}
    if policy.value is not None:
        with errors_from(policy.origin):
            spec.split_options({"policy": policy.value})
        values["policy"] = policy.value
    chosen_policy = dict(values)
    for name, setting in settings.items():
        policies = policies_of.get(name, ())
        is_void = bool(policies) and policy.value not in policies and policy.rank < setting.rank
        if name == "policy" or is_void:
            continue
        with errors_from(setting.origin):
            check_option(spec, name)
            spec.split_options(chosen_policy | {name: setting.value})
        values[name] = setting.value
    return spec.split_options(values)


def _origin(*keys: str) -> str:
    return f"{config_path()}, key {'.'.join(keys)}"


@contextmanager
def errors_from(origin: str | None) -> Iterator[None]:
    """Name *origin* in the errors raised within the context."""
    try:
        yield
    except (BackendUnavailable, OptionError) as error:
        if origin is None:
            raise
        raise type(error)(f"{origin}: {error}") from error
