"""Settings of a run: flags before WLK_* variables before config.toml before the backend's own."""

from __future__ import annotations

from contextlib import contextmanager
import difflib
import os
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.config.file import OPTIONS, read_config
from wlk_core.errors import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_core.option_values import NO_POLICIES, OptionValues, parse_options, split_options
from wlk_core.registry import known_backends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.config.file import ConfigFile
    from wlk_core.registry import Registry

__all__ = [
    "OPTION_VARIABLE",
    "VARIABLES",
    "Setting",
    "Settings",
    "check_config",
    "choose_settings",
]

VARIABLES = ("WLK_BACKEND", "WLK_MODEL", "WLK_LANGUAGE")
OPTION_VARIABLE = "WLK_OPTION_"  #: the beginning of a variable that sets an option


@attrs.frozen
class Setting:
    """A value and its origin, which messages name: a place in config.toml or a variable."""

    value: Any
    origin: str
    is_variable: bool = False  # and so precedes config.toml


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
        """
        Load the backend.

        Raises:
            ModelNotFoundError: a model that was not named by a flag is reported with its origin.
            OptionError, BackendUnavailable: see `Registry.load_backend`.

        """
        try:
            return registry.load_backend(self.spec.name, self.model, **self.options.backend)
        except ModelNotFoundError as error:
            if self.model_origin is None:
                raise
            raise ModelNotFoundError(f"{self.model_origin}: {error}") from error


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

    A model belongs to its backend: one that config.toml or a variable sets is not used where the
    backend is chosen by a variable or a flag that precedes it.

    Raises:
        OptionError: a value that the backend does not take; one that no flag set is named by its
            file, line and key, or by its variable.
        BackendUnavailable: the backend is not installed or broken.

    """
    config = read_config()
    _check_tables(config, registry, known=registry.names() | set(known_backends()))
    names = _layers(config, "backend")
    models = _layers(config, "model")
    languages = _layers(config, "language")
    if backend is not None:
        spec, usable_models = registry.spec(backend), []
    elif names:
        with _with_origin(names[0].origin):
            spec = registry.spec(names[0].value)
        is_from_variable = names[0].is_variable
        usable_models = [model for model in models if model.is_variable or not is_from_variable]
    else:
        spec, usable_models = registry.default_backend(), models
    chosen_model = None if model is not None or not usable_models else usable_models[0]
    if policy is not None and not spec.policies:
        raise OptionError(f"{spec.name} {NO_POLICIES}: leave --policy out")
    if model is None:
        model = chosen_model.value if chosen_model else spec.default_model
    return Settings(
        spec=spec,
        model=model,
        model_origin=chosen_model.origin if chosen_model else None,
        language=_language(spec, language, languages),
        options=_options(spec, config, pairs if policy is None else [*pairs, f"policy={policy}"]),
    )


def check_config(config: ConfigFile, registry: Registry) -> None:
    """
    Check every value of config.toml that an installed backend decides on.

    Options of a backend that is not installed are left alone, unless its name is close to one of
    an installed backend or of this project.

    Raises:
        OptionError: an option or a language that its backend does not take, or options of a
            misspelt backend, by file, line and key.
        BackendUnavailable: the default backend is not installed.

    """
    if config.backend is not None:
        with _with_origin(config.origin("backend")):
            default = registry.spec(config.backend)
        if config.language is not None:
            _language(default, None, [Setting(config.language, config.origin("language"))])
    _check_tables(config, registry, known=set(known_backends()))
    for spec in registry.specs():
        settings = _file_options(spec, config)
        policy = settings["policy"].value if "policy" in settings else None
        for name in sorted(settings, key=lambda name: name != "policy"):
            _checked(spec, name, settings, policy=policy)


def _check_tables(config: ConfigFile, registry: Registry, *, known: Collection[str]) -> None:
    """
    Refuse options of a backend whose name is misspelt, because they would be left out silently.

    Plugins are loaded only if a name is not among the *known* ones.
    """
    unknown = [name for name in config.options if name not in known]
    if not unknown:
        return
    names = {spec.name for spec in registry.specs()} | set(registry.conflicts()) | set(known)
    for name in unknown:
        close = [] if name in names else difflib.get_close_matches(name, sorted(names), n=1)
        if close:
            origin = config.origin(OPTIONS, name)
            raise OptionError(f"{origin}: no backend called {name!r} (did you mean {close[0]}?)")


def _layers(config: ConfigFile, name: str) -> list[Setting]:
    """Return the variable and the key of config.toml that are set, the variable first."""
    variable = f"WLK_{name.upper()}"
    settings = []
    if value := os.environ.get(variable):
        settings.append(Setting(value, variable, is_variable=True))
    if value := getattr(config, name):
        settings.append(Setting(value, config.origin(name)))
    return settings


def _language(spec: BackendSpec, flag: str | None, layers: Sequence[Setting]) -> str | None:
    language, origin = flag, None
    if flag is None and layers:
        language, origin = layers[0].value, layers[0].origin
    language = None if language == "auto" else language
    try:
        spec.check_language(language)
    except OptionError as error:
        if origin is None:
            raise
        raise OptionError(f"{origin}: {error} (for this run: --language auto)") from error
    return language


def _options(spec: BackendSpec, config: ConfigFile, pairs: Sequence[str]) -> OptionValues:
    """Return the options of all layers; those of another policy than a flag's are left out."""
    settings = _set_options(spec, config)
    typed = {pair.partition("=")[0].strip() for pair in pairs}
    if "policy" in settings and "policy" not in typed:
        pairs = [*pairs, f"policy={_checked(spec, 'policy', settings)}"]
    flags = parse_options(spec, pairs)
    policy = flags.stream.get("policy")
    values = {**flags.backend, **flags.stream}
    policies = {option.name: option.policies for option in spec.all_options}
    for name, setting in settings.items():
        is_preceded = "policy" in typed or (
            "policy" in settings and settings["policy"].is_variable and not setting.is_variable
        )
        if is_preceded and policies.get(name) and policy not in policies[name]:
            continue  # set for another policy than the one that precedes it
        if name not in values:
            values[name] = _checked(spec, name, settings, policy=policy)
    return split_options(spec, values)


def _set_options(spec: BackendSpec, config: ConfigFile) -> dict[str, Setting]:
    """Return what config.toml and the variables set for a backend."""
    settings = _file_options(spec, config)
    for variable, value in sorted(os.environ.items()):
        if variable.startswith(OPTION_VARIABLE) and value:
            name = variable.removeprefix(OPTION_VARIABLE).lower()
            settings[name] = Setting(value, variable, is_variable=True)
    return settings


def _file_options(spec: BackendSpec, config: ConfigFile) -> dict[str, Setting]:
    return {
        name: Setting(value, config.origin(OPTIONS, spec.name, name))
        for name, value in config.options.get(spec.name, {}).items()
    }


def _checked(
    spec: BackendSpec, name: str, settings: Mapping[str, Setting], *, policy: str | None = None
) -> Any:
    """Return one value, after a check whose error names its origin."""
    values = {name: settings[name].value}
    if policy is not None and name != "policy":
        values["policy"] = policy
    with _with_origin(settings[name].origin):
        split = split_options(spec, values)
    return {**split.backend, **split.stream}[name]


@contextmanager
def _with_origin(origin: str | None) -> Iterator[None]:
    """Put the origin of a value before the message of an error about it."""
    try:
        yield
    except (BackendUnavailable, OptionError) as error:
        if origin is None:
            raise
        raise type(error)(f"{origin}: {error}") from error
