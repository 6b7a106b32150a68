"""The registry: find the installed plugins, and load what they offer by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
import difflib
import importlib
from importlib import metadata
from itertools import chain
import json
import os
from pathlib import Path
import threading
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pluggy

from wlk_core import hookspecs
from wlk_core.errors import BackendUnavailable, OptionError, WLKError
from wlk_core.options import ModelSpec, PluginSpec, resolve_options
from wlk_core.untrusted import reason, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from importlib.metadata import EntryPoint

    from wlk_core.annotators import AnnotatorKind
    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.options import Scope

R = TypeVar("R")

# A plugin module imports nothing heavy, so one that takes this long to import hangs.
_MAX_IMPORT_SECONDS = 10.0
_MAX_LOAD_SECONDS = 120.0  # of a command or protocol, which may bring a server from a slow disk

_SPECIFICATIONS = "hookspecs."  # entry points of further hook specifications
# Backends and annotators have entry points of their own name, other kinds of "KIND.NAME".
_PREFIXED_KINDS = ("command", "protocol")


@attrs.frozen(kw_only=True)
class PluginInfo:
    """An installed plugin; a broken one offers nothing."""

    names: tuple[str, ...]  #: its entry points, sorted; each is named after what it offers
    distribution: str  #: the distribution that declares it; "unknown" without metadata
    version: str
    specs: tuple[PluginSpec, ...] = ()  #: what it offers
    error: str | None = None  #: why it could not be loaded, one line

    def offers(self, kind: str) -> tuple[Any, ...]:
        """Return the specs of *kind* that it offers."""
        return tuple(spec for spec in self.specs if spec.kind == kind)

    @property
    def title(self) -> str:
        """The distribution and its version, as messages name it."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def failure(self) -> str:
        """Why a broken plugin could not be loaded, and what to do about it."""
        return (
            f"{self.error}; update it with: pip install --upgrade {self.distribution}, "
            f"or remove it with: pip uninstall {self.distribution}"
        )


class Registry:
    """
    The plugins of this environment, each loaded once and only when it is needed.

    A plugin that cannot be imported, or whose hooks raise or do not return, is recorded as broken,
    and all others work; with WLK_STRICT_PLUGINS=1 its error is raised.

    Args:
        entry_points: replace what the installed distributions declare, for tests and embedders.
        guard: makes a context that is entered while a plugin's code runs, for example to redirect
            what it prints.

    """

    def __init__(
        self,
        entry_points: Iterable[EntryPoint] | None = None,
        *,
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        if entry_points is None:
            entry_points = metadata.entry_points(group=hookspecs.ENTRY_POINT_GROUP)
        points = list(entry_points)
        #: The plugin manager, with the hook specifications of the core and of installed hosts.
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.guard = guard  #: may be replaced
        self._installed = _plugins(points)
        self._loaded: dict[EntryPoint, PluginInfo] = {}
        self._loading = threading.RLock()  # held while a plugin is imported
        self._broken_hosts: list[PluginInfo] = []
        for point in points:
            if point.name.startswith(_SPECIFICATIONS):
                self._add_specifications(point)

    def load_command(self, name: str, kind: type) -> Any:
        """Import the command *name*, a *kind*; None if no plugin offers it.  Raises as `spec`."""
        if not any(f"command.{name}" in info.names for info, _ in self._installed):
            return None
        return self.load_object(self._find("command", name)[1], kind, "a command")

    def load_object(
        self, spec: PluginSpec, kind: Any, expected: str, use: Callable[[Any], Any] | None = None
    ) -> Any:
        """
        Return what *spec* names in `load`, a *kind*, or what *use* makes of it.

        Raises BackendUnavailable if it cannot be used, or if that takes more than two minutes.
        """

        def resolve() -> Any:
            found = _resolved(spec, kind, expected)
            return found if use is None else use(found)

        try:
            with self.guard():
                return _within(_MAX_LOAD_SECONDS, resolve)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as in `_load`
            if _is_strict():
                raise
            plugin = self._find(spec.kind, spec.name)[0]
            failure = attrs.evolve(plugin, error=reason(error)).failure
            raise BackendUnavailable(
                f"{spec.kind} {spec.name} cannot be used: {failure}"
            ) from error

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Return every plugin, broken ones too; loads them all."""
        loaded = [self._load(*plugin) for plugin in self._installed]
        return (*loaded, *self._broken_hosts)

    def specs(self) -> tuple[BackendSpec, ...]:
        """Return every backend that only one plugin offers, sorted by name; loads all plugins."""
        return self.offers("backend")

    def offers(self, kind: str) -> tuple[Any, ...]:
        """Return every spec of *kind* that only one plugin offers, sorted by name."""
        specs = [spec for plugin in self.plugins() for spec in plugin.offers(kind)]
        names = [spec.name for spec in specs]
        unique = (spec for spec in specs if names.count(spec.name) == 1)
        return tuple(sorted(unique, key=lambda spec: spec.name))

    def fault(self, plugin: PluginInfo) -> str | None:
        """Return why *plugin*, or something that it offers, cannot be used; None if all can."""
        if plugin.error is not None:
            return plugin.failure
        try:
            for spec in plugin.specs:
                self._find(spec.kind, spec.name)
        except BackendUnavailable as error:
            return str(error)
        return None

    def spec(self, name: str) -> BackendSpec:
        """Return the backend *name*; BackendUnavailable if absent, broken or offered twice."""
        spec: BackendSpec = self._find("backend", name)[1]
        return spec

    def owner(self, name: str) -> PluginInfo:
        """Return the plugin that offers the backend called *name*; raises as `spec`."""
        return self._find("backend", name)[0]

    def model_spec(self, name: str) -> ModelSpec:
        """Return the annotator or backend called *name*, for its models; raises as `spec`."""
        named = [self._load(*plugin) for plugin in self._installed if name in plugin[0].names]
        specs = [
            spec
            for info in named
            for spec in info.specs
            if spec.name == name and isinstance(spec, ModelSpec)
        ]
        return specs[0] if specs else self.spec(name)

    def usable(self) -> tuple[BackendSpec, ...]:
        """Return the backends with a preference and all they require, most preferred first."""
        return tuple(spec for spec in self._ranked() if not missing_requirements(spec))

    def default_backend(self) -> BackendSpec:
        """Return the most preferred usable backend; BackendUnavailable if none can be chosen."""
        if usable := self.usable():
            return self.spec(usable[0].name)  # raises if two distributions offer it
        if ranked := self._ranked():
            missing = missing_requirements(ranked[0])
            raise BackendUnavailable(
                f"backend {ranked[0].name} cannot be used: {', '.join(missing)} is not installed; "
                f"install it with: {' && '.join(dict.fromkeys(missing.values()))}"
            )
        if specs := self.specs():
            raise BackendUnavailable(
                f"no backend is the default: {specs[0].name} is used only when it is named, "
                f"with --backend {specs[0].name}"
            )
        raise self._refusal("backend", None)

    def load_backend(
        self, name: str, model: str | os.PathLike[str] | None = None, /, **options: Any
    ) -> Backend:
        """
        Load a model with the backend called *name*.

        `model` is a size alias, a repository id or a local directory; None is the backend's
        default.  `options` are the backend's options of scope "backend".

        Raises:
            BackendUnavailable: the backend is absent or broken, or its framework is.
            OptionError: an option is unknown or does not take its value, or `model` is empty.
            ModelNotFoundError: the model is not local and cannot be fetched.

        """
        backend: Backend = self._open("backend", name, model, options)
        return backend

    def load_annotator(
        self,
        kind: AnnotatorKind,
        name: str,
        model: str | os.PathLike[str] | None = None,
        /,
        **options: Any,
    ) -> Any:
        """Load the annotator NAME, or "NAME=MODEL", for one session; raises as `load_backend`."""
        name, _, chosen = name.partition("=")
        if model is None and chosen:
            model = chosen
        return self._open(kind, name, model, options)

    def _open(
        self, kind: str, name: str, model: str | os.PathLike[str] | None, values: dict[str, Any]
    ) -> Any:
        plugin, spec = self._find(kind, name)
        scope: Scope | None = "backend" if kind == "backend" else None  # annotators take all here
        options = resolve_options(spec.options, values, scope=scope, owner=spec.name)
        # Loaders take strings only.
        ref: Any = os.fspath(model) if isinstance(model, os.PathLike) else model
        if ref is not None and not (isinstance(ref, str) and ref):
            raise OptionError(f"a model is a name or a path, got {shown(model)}")
        try:
            with self.guard():
                loader = _resolved(spec, Callable, "a function")
                loaded = loader(spec, spec.default_model if ref is None else ref, **options)
        except (WLKError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # Broken frameworks raise anything when they are imported: OSError for a missing
            # library, RuntimeError for a wrong version.  Any other error concerns the model.
            frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
            is_at_import = any(frame.f_code.co_name == "<module>" for frame in frames)
            if not is_at_import and not isinstance(error, ImportError):
                error.add_note(f"raised by the loader of {kind} {name} of {plugin.distribution}")
                raise
            raise _unusable(spec, error, plugin.distribution) from error
        if loaded is None:
            failure = attrs.evolve(plugin, error=f"{spec.load} returned None").failure
            raise BackendUnavailable(f"{kind} {name} cannot be used: {failure}")
        return loaded

    def _find(self, kind: str, name: str) -> tuple[PluginInfo, Any]:
        # Entry points are named after what they offer, so `--backend NAME` imports one plugin.
        # If none has the name, every plugin is imported.
        point = f"{kind}.{name}" if kind in _PREFIXED_KINDS else name
        named = [plugin for plugin in self._installed if point in plugin[0].names]
        for candidates in (named, self._installed):
            plugins = [self._load(*each) for each in candidates]
            offers = [(info, each) for info in plugins for each in info.offers(kind)]
            if found := [offer for offer in offers if offer[1].name == name]:
                return _only(kind, name, found)
            broken = [info for info in plugins if info.error is not None]
            if broken and candidates is named:
                raise BackendUnavailable(f"{kind} {name} cannot be used: {broken[0].failure}")
        raise self._refusal(kind, name)

    def _add_specifications(self, point: EntryPoint) -> None:
        try:
            with self.guard():
                self.manager.add_hookspecs(_within(_MAX_IMPORT_SECONDS, point.load))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as in `_load`
            if _is_strict():
                raise
            self._broken_hosts.append(
                attrs.evolve(_info((point.name,), point), error=reason(error))
            )

    def _load(self, info: PluginInfo, point: EntryPoint) -> PluginInfo:
        with self._loading, self.guard():
            if point not in self._loaded:
                try:
                    self._loaded[point] = _within(
                        _MAX_IMPORT_SECONDS, lambda: self._read(info, point)
                    )
                except KeyboardInterrupt:
                    raise
                # A plugin can raise anything at import: some exit if a device is missing, and
                # pytest's skips derive from BaseException.  The failure is recorded, so that one
                # broken plugin does not take the others down.
                except BaseException as error:
                    if _is_strict():
                        raise
                    self._loaded[point] = attrs.evolve(info, error=reason(error))
        return self._loaded[point]

    def _read(self, info: PluginInfo, point: EntryPoint) -> PluginInfo:
        plugin = point.load()
        self.manager.register(plugin, point.value)
        hooks = self.manager.get_hookcallers(plugin) or []
        implementations = [
            (hook, each)
            for hook in hooks
            for each in hook.get_hookimpls()
            if each.plugin is plugin and (hook.spec is not None or not each.optionalhook)
        ]
        callers = vars(self.manager.hook)
        known = ", ".join(sorted(name for name, caller in callers.items() if caller.spec))
        if not hooks:
            raise BackendUnavailable(f"it implements none of the hooks {known}")
        specs: list[PluginSpec] = []
        for hook, implementation in implementations:
            if hook.spec is None:
                raise BackendUnavailable(f"no hook is called {hook.name}; expected some of {known}")
            specs += _checked(hook.name, implementation.function())
        for spec in specs:
            if spec.kind in _PREFIXED_KINDS and f"{spec.kind}.{spec.name}" not in info.names:
                raise BackendUnavailable(
                    f"it offers the {spec.kind} {spec.name!r} without an entry point "
                    f"{spec.kind}.{spec.name}"
                )
        return attrs.evolve(info, specs=tuple(specs))

    def _ranked(self) -> list[BackendSpec]:
        specs = chain.from_iterable(plugin.offers("backend") for plugin in self.plugins())
        preferred = [spec for spec in specs if spec.preference is not None]
        return sorted(preferred, key=lambda spec: (-(spec.preference or 0), spec.name))

    def _refusal(self, kind: str, name: str | None) -> BackendUnavailable:
        plugins, known = self.plugins(), known_plugins(kind)
        installed = sorted({spec.name for plugin in plugins for spec in plugin.offers(kind)})
        broken = sorted({info.distribution for info in plugins if info.error is not None})
        names = [*installed, *known]
        longer = sorted((each for each in names if name and each.startswith(name)), key=len)
        parts = [f"no {kind} called {name!r}; installed: {', '.join(installed) or 'none'}"]
        if name in known:
            parts.append(f"install it with: {known[name]}")
        elif kind == "backend" and not installed:
            parts = ["no backend works"] if broken else [no_backend()]
        elif close := longer or difflib.get_close_matches(str(name), names, n=1):
            parts[0] += f" (did you mean {close[0]}?)"
            if close[0] not in installed:
                parts.append(f"install {close[0]} with: {known[close[0]]}")
        if broken:
            parts.append(f"could not be loaded: {', '.join(broken)} (see: wlk-core plugins)")
        return BackendUnavailable("; ".join(parts))


def load_backend(name: str, model: str | os.PathLike[str] | None = None, **options: Any) -> Backend:
    """
    Load a model with an installed backend; use it as a context manager or close it.

    ``wlk-core backends`` lists names, models and options.  Raises as `Registry.load_backend`.
    """
    return Registry().load_backend(name, model, **options)


def known_plugins(kind: str) -> dict[str, str]:
    """Return this project's plugins of a kind, each with the command that installs it."""
    text = Path(__file__).with_name("known_plugins.json").read_text(encoding="utf-8")
    return dict(json.loads(text).get(kind, {}))


def no_backend() -> str:
    """Return the message for an installation without backends."""
    command = next(iter(known_plugins("backend").values()))
    return (
        "no backend is installed: wlk-core comes with no model of its own; "
        f"install a backend, for example: {command}"
    )


def _plugins(entry_points: Iterable[EntryPoint]) -> list[tuple[PluginInfo, EntryPoint]]:
    # A module is one plugin, however much it offers.  An editable install beside a wheel lists
    # every entry point twice.
    grouped: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points:
        if not point.name.startswith(_SPECIFICATIONS):
            grouped.setdefault(point.value, {}).setdefault(point.name, point)
    plugins = []
    for points in grouped.values():
        names = tuple(sorted(points))
        point = points[names[0]]
        plugins.append((_info(names, point), point))
    return sorted(plugins, key=lambda plugin: (plugin[0].distribution, plugin[1].value))


def _info(names: tuple[str, ...], point: EntryPoint) -> PluginInfo:
    # `dist.name` and `dist.version` would each parse the whole METADATA, readme included.
    fields: Any = point.dist.metadata if point.dist else {"Name": "unknown", "Version": ""}
    return PluginInfo(names=names, distribution=fields["Name"], version=fields["Version"])


def _is_strict() -> bool:
    return os.environ.get("WLK_STRICT_PLUGINS", "0") not in {"", "0"}


def _within(seconds: float, call: Callable[[], R]) -> R:
    """Return what *call* returns or raises; BackendUnavailable if it takes more than *seconds*."""
    answers: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 -- raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="wlk plugin import", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise BackendUnavailable(f"it did not answer within {seconds:.0f} seconds")
    return answers[0]


def _checked(hook: str, offered: Any) -> list[PluginSpec]:
    """Return the specs that an implementation of *hook* returned; BackendUnavailable for others."""
    kind = hook.removeprefix("wlk_").removesuffix("s").replace("_", "-")
    specs = list(offered)
    for spec in specs:
        if not isinstance(spec, PluginSpec) or spec.kind != kind:
            raise BackendUnavailable(f"expected {kind}s from {hook}, got {shown(spec)}")
        if not hookspecs.API_FLOOR <= spec.api <= hookspecs.API_VERSION:
            raise BackendUnavailable(
                f"{kind} {spec.name!r} needs plugin API {spec.api}, but this wlk-core "
                f"supports {hookspecs.API_FLOOR} to {hookspecs.API_VERSION}"
            )
    return specs


def _only(kind: str, name: str, offers: Sequence[tuple[PluginInfo, Any]]) -> tuple[PluginInfo, Any]:
    # Choosing one of two distributions silently would change transcripts.  For the same reason no
    # other backend becomes the default in place of one that two distributions offer.
    if len(offers) > 1:
        raise BackendUnavailable(
            f"{kind} {name!r} is offered by {' and '.join(info.title for info, _ in offers)}; "
            f"keep one: pip uninstall {offers[-1][0].distribution}"
        )
    return offers[0]


def missing_requirements(spec: ModelSpec) -> dict[str, str]:
    """Return the distributions that *spec* requires but metadata lacks, with install commands."""
    missing = {}
    for name, command in spec.requires.items():
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing[name] = command
    return missing


def _resolved(spec: PluginSpec, kind: Any, expected: str) -> Any:
    """Import what *spec* names in `load`; ImportError unless it is a *kind*."""
    name, _, attribute = spec.load.partition(":")
    module = importlib.import_module(name)
    member = getattr(module, attribute, None)
    if not isinstance(member, kind):
        found = f"got {shown(member)}" if hasattr(module, attribute) else "which has none"
        text = f"expected {expected} {attribute!r} in {name}, {found}"
        raise ImportError(text, name=name)  # noqa: TRY004 -- as if it were absent
    return member


def _unusable(spec: ModelSpec, error: BaseException, distribution: str) -> BackendUnavailable:
    root = error
    while root.__cause__ is not None:  # frameworks wrap failing imports
        root = root.__cause__
    package = spec.load.partition(".")[0].partition(":")[0]
    if isinstance(root, ImportError) and (root.name or "").partition(".")[0] == package:
        remedy = "reinstall the plugin with: "
        commands = [f"pip install {distribution} --force-reinstall"]
    elif missing := missing_requirements(spec):
        remedy, commands = "install it with: ", [*missing.values()]
    else:
        remedy = "it is installed but does not work, reinstall it with: "
        brought_by = spec.requires.values() or [f"pip install {distribution}"]
        commands = [f"{command} --force-reinstall" for command in brought_by]
    remedy += " && ".join(dict.fromkeys(commands))  # one extra may bring several requirements
    return BackendUnavailable(f"{spec.kind} {spec.name} cannot be used: {reason(root)}; {remedy}")
