"""Settings of a run: flags before WLK_* variables before config.toml before the backend's own."""

from __future__ import annotations

from contextlib import contextmanager
import difflib
import os
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.config.file import config_path, read_config
from wlk_core.errors import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_core.option_values import NO_POLICIES, OptionValues, parse_pairs, split_options
from wlk_core.registry import known_backends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.config.file import ConfigFile
    from wlk_core.registry import Registry

__all__ = ["OPTION_VARIABLE", "Settings", "check_config", "choose_settings"]

OPTION_VARIABLE = "WLK_OPTION_"  #: the beginning of a variable that sets an option

_FLAG, _VARIABLE, _FILE, _DEFAULT = range(4)  # a lower rank precedes a higher one


@attrs.frozen
class _Setting:
    """A value and where it was set; messages name `origin`, which is None for a flag."""

    value: Any = None
    rank: int = _DEFAULT
    origin: str | None = None


@attrs.frozen(kw_only=True)
class Settings:
    """
    What a command uses, everything checked against the backend but the model.

    Attributes:
        spec: the backend.
        model: the model, None for a backend without a default one.
        language: the code to force, None to detect.
        options: the options that were set, by scope.
        model_origin: where the model was set, None for a flag or the backend's own default.

    """

    spec: BackendSpec
    model: str | None
    language: str | None
    options: OptionValues
    model_origin: str | None = None

    def load(self, registry: Registry) -> Backend:
        """Load the backend; a model that is not found is reported with where it was set."""
        with _naming(self.model_origin, ModelNotFoundError):
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
    Return the settings of a command; the arguments are its flags, None where they were left out.

    Raises:
        OptionError: a value that the backend does not take; one that no flag set is named by its
            file and key, or by its variable.
        BackendUnavailable: the backend is not installed or broken.

    """
    config = read_config()
    _check_tables(config, registry)
    chosen = _choose("backend", backend, config)
    with _naming(chosen.origin, BackendUnavailable):
        name = chosen.value
        spec = registry.default_backend() if name is None else registry.spec(name)
    chosen_model = _choose("model", model, config)
    if chosen_model.rank > chosen.rank:  # a model belongs to the backend it was written for
        chosen_model = _Setting()
    if policy is not None:
        if not spec.policies:
            raise OptionError(f"{spec.name} {NO_POLICIES}: leave --policy out")
        pairs = [*pairs, f"policy={policy}"]
    options = _file_options(spec, config)
    for variable, value in os.environ.items():
        if variable.startswith(OPTION_VARIABLE) and value:
            name = variable.removeprefix(OPTION_VARIABLE).lower()
            options[name] = _Setting(value, _VARIABLE, variable)
    options |= {name: _Setting(value, _FLAG) for name, value in parse_pairs(pairs).items()}
    return Settings(
        spec=spec,
        model=spec.default_model if chosen_model.value is None else chosen_model.value,
        model_origin=chosen_model.origin,
        language=_language(spec, _choose("language", language, config)),
        options=_resolve(spec, options),
    )


def check_config(config: ConfigFile, registry: Registry) -> None:
    """
    Check every value of config.toml that an installed backend decides on.

    Raises:
        OptionError: an option or a language that its backend does not take, or options of a
            misspelt backend.
        BackendUnavailable: the default backend is not installed.

    """
    _check_tables(config, registry)
    if config.backend:
        with _naming(_origin("backend"), BackendUnavailable):
            default = registry.spec(config.backend)
        _language(default, _Setting(config.language or None, _FILE, _origin("language")))
    for spec in registry.specs():
        _resolve(spec, _file_options(spec, config))


def _check_tables(config: ConfigFile, registry: Registry) -> None:
    """Refuse options of a misspelt backend, which would be left out silently."""
    known = registry.names() | known_backends().keys()
    for name in config.options.keys() - known:
        if close := difflib.get_close_matches(name, known, n=1):
            origin = _origin("options", name)
            raise OptionError(f"{origin}: no backend called {name!r} (did you mean {close[0]}?)")


def _choose(name: str, flag: str | None, config: ConfigFile) -> _Setting:
    """Return the setting of the lowest rank."""
    variable = f"WLK_{name.upper()}"
    if flag is not None:
        return _Setting(flag, _FLAG)
    if value := os.environ.get(variable):
        return _Setting(value, _VARIABLE, variable)
    if value := getattr(config, name):
        return _Setting(value, _FILE, _origin(name))
    return _Setting()


def _language(spec: BackendSpec, setting: _Setting) -> str | None:
    language: str | None = None if setting.value == "auto" else setting.value
    with _naming(setting.origin, OptionError, " (for this run: --language auto)"):
        spec.check_language(language)
    return language


def _file_options(spec: BackendSpec, config: ConfigFile) -> dict[str, _Setting]:
    return {
        name: _Setting(value, _FILE, _origin("options", spec.name, name))
        for name, value in config.options.get(spec.name, {}).items()
    }


def _resolve(spec: BackendSpec, settings: Mapping[str, _Setting]) -> OptionValues:
    """Return the options by scope, without those that a preceding choice of policy makes void."""
    takers = {option.name: option.policies for option in spec.all_options}
    policy = settings.get("policy", _Setting())
    given = {} if policy.value is None else {"policy": policy.value}
    with _naming(policy.origin, OptionError):
        split_options(spec, given)
    values = dict(given)
    for name, setting in settings.items():
        policies = takers.get(name) or (policy.value,)
        if policy.rank < setting.rank and policy.value not in policies:
            continue
        with _naming(setting.origin, OptionError):
            split_options(spec, given | {name: setting.value})
        values[name] = setting.value
    return split_options(spec, values)


def _origin(*keys: str) -> str:
    return f"{config_path()}, key {'.'.join(keys)}"


@contextmanager
def _naming(origin: str | None, kind: type[Exception], hint: str = "") -> Iterator[None]:
    """Put the origin of a value in front of the message of an error about it."""
    try:
        yield
    except kind as error:
        if origin is None:
            raise
        raise type(error)(f"{origin}: {error}{hint}") from error
