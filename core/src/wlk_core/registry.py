"""The registry: which plugins are installed, and how what they offer is loaded by name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
import importlib
from importlib import metadata
from itertools import chain
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import pluggy

from wlk_core import hookspecs
from wlk_core.commands import COMMAND_PREFIX
from wlk_core.errors import BackendUnavailable, OptionError, WLKError
from wlk_core.untrusted import reason, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.metadata import EntryPoint

    from wlk_core.annotators import AnnotatorKind, AnnotatorSpec
    from wlk_core.backend import BackendSpec
    from wlk_core.commands import CommandSpec
    from wlk_core.loaded_backend import LoadedBackend

__all__ = [
    "PluginInfo",
    "Registry",
    "known_backends",
    "load_backend",
    "missing_requirements",
]

Spec: TypeAlias = "BackendSpec | AnnotatorSpec | CommandSpec"

_UNKNOWN = "unknown"

_KINDS = {  # what each hook returns
    "wlk_backends": "backend",
    "wlk_diarizers": "diarizer",
    "wlk_translators": "translator",
    "wlk_turn_detectors": "turn-detector",
    "wlk_commands": "command",
}


@attrs.frozen(kw_only=True)
class PluginInfo:
    """A plugin as it was found; a broken one offers nothing."""

    names: tuple[str, ...]  #: its entry points, sorted, which are named after what it offers
    distribution: str  #: that declares it, "unknown" where metadata is missing
    version: str
    specs: tuple[Any, ...] = ()  #: what it offers, each a Spec
    error: str | None = None  #: why it could not be loaded, one line

    @property
    def backends(self) -> tuple[BackendSpec, ...]:
        """The backends that it offers."""
        return tuple(spec for spec in self.specs if spec.kind == "backend")

    @property
    def title(self) -> str:
        """The distribution and its version, as messages name it."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def remedy(self) -> str:
        """What to do about a broken plugin."""
        if self.distribution == _UNKNOWN:
            return "reinstall the distribution that declares it"
        return (
            f"update it with: pip install --upgrade {self.distribution}, "
            f"or remove it with: pip uninstall {self.distribution}"
        )


class Registry:
    """
    The plugins of this environment, each loaded once and only when it is needed.

    `entry_points` replaces what the installed distributions declare, for tests and embedders.
    """

    def __init__(self, entry_points: Iterable[EntryPoint] | None = None) -> None:
        if entry_points is None:
            entry_points = metadata.entry_points(group=hookspecs.ENTRY_POINT_GROUP)
        self._found = _plugins(entry_points)
        self._loaded: dict[EntryPoint, PluginInfo] = {}
        #: Entered around the import of a plugin, which is foreign code.
        self.import_context: Callable[[], AbstractContextManager[object]] = nullcontext

    def load_command(self, name: str) -> Any:
        """
        Import the click command called *name* of a plugin; None where no plugin offers it.

        Raises:
            BackendUnavailable: the plugin or the command cannot be imported, or two distributions
                offer it.

        """
        named = self._named(COMMAND_PREFIX + name)
        offers = _offers("command", name, named)
        if not named:
            return None
        if not offers:
            raise BackendUnavailable(
                f"command {name} cannot be used: {named[0].error or 'its plugin has none'}; "
                f"{named[0].remedy}"
            )
        plugin, spec = _only(offers)
        try:
            return _resolve(spec)
        except WLKError:
            raise
        except (Exception, SystemExit) as error:
            raise _unusable(spec, error, plugin.distribution) from error

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Return every plugin, broken ones too; loads them all."""
        return tuple(self._load(*found) for found in self._found)

    def specs(self) -> tuple[BackendSpec, ...]:
        """Return every backend that one plugin offers, sorted by name; loads all plugins."""
        specs = [spec for plugin in self.plugins() for spec in plugin.backends]
        names = [spec.name for spec in specs]
        unique = (spec for spec in specs if names.count(spec.name) == 1)
        return tuple(sorted(unique, key=lambda spec: spec.name))

    def fault(self, plugin: PluginInfo) -> str | None:
        """Return why *plugin*, or a backend that it offers, cannot be used; None if all can."""
        if plugin.error is not None:
            return f"{plugin.error}; {plugin.remedy}"
        for spec in plugin.backends:
            titles = [owner.title for owner, _ in _offers("backend", spec.name, self.plugins())]
            if len(titles) > 1:
                return f"backend {spec.name!r} is offered by {' and '.join(titles)}: uninstall one"
        return None

    def spec(self, name: str) -> BackendSpec:
        """
        Return the backend called *name*.

        An entry point is named after its backend, so that only its plugin is imported.  Where no
        entry point has the name, every plugin is.

        Raises:
            BackendUnavailable: it is absent, broken, or offered by two distributions.

        """
        return self._backend(name)[1]

    def owner(self, name: str) -> PluginInfo:
        """Return the plugin that offers the backend called *name*; raises as `spec`."""
        return self._backend(name)[0]

    def model_spec(self, name: str) -> BackendSpec | AnnotatorSpec:
        """Return the annotator called *name*, or the backend, whose models are asked for."""
        kinds = ("diarizer", "translator", "turn-detector")
        offers = [offer for kind in kinds for offer in _offers(kind, name, self._named(name))]
        return _only(offers)[1] if offers else self.spec(name)

    def usable(self) -> tuple[BackendSpec, ...]:
        """
        Return the backends whose requirements are installed, the most preferred first.

        Backends without a preference are left out, because they are used only when they are named.
        """
        return tuple(spec for spec in self._ranked() if not missing_requirements(spec))

    def default_backend(self) -> BackendSpec:
        """
        Return the usable backend that prefers this platform most.

        Raises:
            BackendUnavailable: no backend is installed, or none is usable without being named, or
                two distributions offer the one that this platform prefers.

        """
        if usable := self.usable():
            return self.spec(usable[0].name)  # which refuses a name that two distributions offer
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
        raise self._refusal(None)

    def load_backend(
        self, name: str, model: str | os.PathLike[str] | None = None, /, **options: Any
    ) -> LoadedBackend[Any]:
        """
        Load a model with the backend called *name*.

        `model` is a size alias, a repository id or a local directory; None is the backend's own
        default.  `options` are the backend's options of scope "backend".

        Raises:
            BackendUnavailable: the backend is absent or broken, or its framework is.
            OptionError: an option is unknown or takes another value, or `model` is empty.
            ModelNotFoundError: the model is neither local nor can be fetched.

        """
        if not isinstance(name, str):
            raise OptionError(f"the name of a backend is a string, got {shown(name)}")
        plugin, spec = self._backend(name)
        backend: LoadedBackend[Any] = _open(plugin, spec, model, spec.backend_options(options))
        if model is not None and hasattr(backend, "model"):
            backend.model = os.fspath(model)
        return backend

    def load_annotator(
        self,
        kind: AnnotatorKind,
        name: str,
        model: str | os.PathLike[str] | None = None,
        /,
        **options: Any,
    ) -> Any:
        """
        Load a diarizer, translator or turn detector for one session.

        Users who choose one by a single word choose its model too, as "NAME=MODEL".

        Raises:
            BackendUnavailable: it is absent or broken, its framework is, or two distributions
                offer it.
            OptionError: an option is unknown or takes another value.

        """
        name, _, chosen = name.partition("=")
        model = chosen or None if model is None else model
        plugins = self.plugins()
        if not (offers := _offers(kind, name, plugins)):
            specs = [spec for plugin in plugins for spec in plugin.specs]
            names = sorted({spec.name for spec in specs if spec.kind == kind})
            raise BackendUnavailable(
                f"no {kind} called {name!r}; installed: {', '.join(names) or 'none'}"
            )
        plugin, spec = _only(offers)
        return _open(plugin, spec, model, spec.resolved_options(options))

    def _backend(self, name: str) -> tuple[PluginInfo, BackendSpec]:
        named = self._named(name)
        offers = _offers("backend", name, named)
        for info in named:
            if info.error is not None and not offers:
                raise BackendUnavailable(
                    f"{info.title} is installed but could not be loaded: {info.error} "
                    f"(WLK_STRICT_PLUGINS=1 shows the traceback; "
                    f"remove it with: pip uninstall {info.distribution})"
                )
        if offers := offers or _offers("backend", name, self.plugins()):
            return _only(offers)
        raise self._refusal(name)

    def _named(self, point: str) -> list[PluginInfo]:
        return [self._load(*found) for found in self._found if point in found[0].names]

    def _load(self, info: PluginInfo, point: EntryPoint) -> PluginInfo:
        """Import a plugin and read what it offers, once; a broken one is described by its error."""
        if point not in self._loaded:
            with self.import_context():
                try:
                    self._loaded[point] = _read(info, point.load())
                # A plugin may raise anything at import, and some exit where a device is missing.
                # The failure is recorded, so that one broken plugin does not take the others down.
                except (Exception, SystemExit) as error:
                    if os.environ.get("WLK_STRICT_PLUGINS", "0") not in {"", "0"}:
                        raise
                    self._loaded[point] = attrs.evolve(info, error=reason(error))
        return self._loaded[point]

    def _ranked(self) -> list[BackendSpec]:
        """Return the backends with a preference, the most preferred first."""
        specs = chain.from_iterable(plugin.backends for plugin in self.plugins())
        ranked = [
            (-spec.preference, spec.name, spec) for spec in specs if spec.preference is not None
        ]
        return [spec for *_, spec in sorted(ranked, key=lambda row: row[:2])]

    def _refusal(self, name: str | None) -> BackendUnavailable:
        """Describe why there is no backend called *name* (None: no backend at all)."""
        import difflib  # noqa: PLC0415 -- only for a mistake

        plugins, known = self.plugins(), known_backends()
        installed = sorted({spec.name for plugin in plugins for spec in plugin.backends})
        broken = sorted({info.distribution for info in plugins if info.error is not None})
        excuse = f"could not be loaded: {', '.join(broken)} (see: wlk-core plugins)"
        if not installed and name not in known:
            if broken:
                return BackendUnavailable(f"no backend works; {excuse}")
            return BackendUnavailable(
                "no backend is installed: wlk-core carries no model of its own; "
                f"install one, for example: {next(iter(known.values()))}"
            )
        parts = [f"no backend called {name!r}; installed: {', '.join(installed) or 'none'}"]
        if name in known:
            parts.append(f"install it with: {known[name]}")
        elif close := difflib.get_close_matches(name or "", [*installed, *known], n=1):
            parts[0] += f" (did you mean {close[0]}?)"
            if close[0] not in installed:
                parts.append(f"install {close[0]} with: {known[close[0]]}")
        return BackendUnavailable("; ".join([*parts, excuse] if broken else parts))


def load_backend(
    name: str, model: str | os.PathLike[str] | None = None, **options: Any
) -> LoadedBackend[Any]:
    """
    Load a model with an installed backend; use it as a context manager or close it.

    The names, their models and their options are listed by ``wlk-core backends``.  Raises as
    `Registry.load_backend`.
    """
    return Registry().load_backend(name, model, **options)


def known_backends() -> dict[str, str]:
    """Return the backends of this project and the command that installs each, the first to try."""
    import json  # noqa: PLC0415 -- only where a backend is missing

    text = Path(__file__).with_name("known_backends.json").read_text(encoding="utf-8")
    known: dict[str, str] = json.loads(text)
    return known


def _plugins(entry_points: Iterable[EntryPoint]) -> list[tuple[PluginInfo, EntryPoint]]:
    """
    Group entry points by their module into plugins, in order of their distributions.

    An editable install beside a wheel shows every entry point twice.
    """
    grouped: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points:
        grouped.setdefault(point.value, {}).setdefault(point.name, point)
    plugins = []
    for points in grouped.values():
        names = tuple(sorted(points))
        point = points[names[0]]
        # Its `name` and `version` would each parse the whole METADATA, with the readme in it.
        found: Any = point.dist.metadata if point.dist else {"Name": _UNKNOWN, "Version": ""}
        info = PluginInfo(names=names, distribution=found["Name"], version=found["Version"])
        plugins.append((info, point))
    return sorted(plugins, key=lambda plugin: (plugin[0].distribution, plugin[1].value))


def _read(info: PluginInfo, plugin: Any) -> PluginInfo:
    """Return *info* with what the hooks of *plugin*, a module, offer."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    if not manager.get_hookcallers(plugin):
        raise BackendUnavailable(f"it implements none of the hooks {', '.join(_KINDS)}")
    specs: list[Any] = []
    for hook, kind in _KINDS.items():
        for spec in chain.from_iterable(getattr(manager.hook, hook)()):
            if getattr(spec, "kind", None) != kind:
                raise BackendUnavailable(f"{hook} returns a {kind}, got {shown(spec)}")
            if not hookspecs.API_FLOOR <= spec.api <= hookspecs.API_VERSION:
                raise BackendUnavailable(
                    f"{kind} {spec.name!r} speaks plugin API {spec.api}, this wlk-core speaks "
                    f"{hookspecs.API_FLOOR} to {hookspecs.API_VERSION}"
                )
            if kind == "command" and COMMAND_PREFIX + spec.name not in info.names:
                raise BackendUnavailable(
                    f"its command {spec.name!r} needs the entry point {COMMAND_PREFIX}{spec.name}"
                )
            specs.append(spec)
    return attrs.evolve(info, specs=tuple(specs))


def _offers(kind: str, name: str, plugins: Iterable[PluginInfo]) -> list[tuple[PluginInfo, Any]]:
    """Return what *plugins* offer under a name, with the plugin of each."""
    return [
        (info, spec)
        for info in plugins
        for spec in info.specs
        if (spec.kind, spec.name) == (kind, name)
    ]


def _only(offers: Sequence[tuple[PluginInfo, Any]]) -> tuple[PluginInfo, Any]:
    """Return the one offer, or refuse to choose between two distributions."""
    if len(offers) == 1:
        return offers[0]
    owners, spec = [plugin for plugin, _ in offers], offers[0][1]
    raise BackendUnavailable(
        f"{spec.kind} {spec.name!r} is offered by "
        f"{' and '.join(owner.title for owner in owners)}; "
        f"keep one: pip uninstall {owners[-1].distribution}"
    )


def _open(
    plugin: PluginInfo,
    spec: BackendSpec | AnnotatorSpec,
    model: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> Any:
    """
    Import the loader of *spec*, which *plugin* brings, and load *model* with it.

    Raises:
        BackendUnavailable: importing the loader or its framework failed, whatever it raised, or
            the loader does not exist.  Other exceptions of the loader are passed on, with a note
            that names it.

    """
    name = os.fspath(model) if isinstance(model, os.PathLike) else model  # backends take no paths
    if name is not None and not isinstance(name, str):
        raise OptionError(f"a model is a string or a path, got {shown(model)}")
    if name == "":
        raise OptionError("a model has a name; got an empty text, leave it out for the default")
    try:
        return _resolve(spec)(spec, spec.default_model if name is None else name, **options)
    except WLKError:
        raise
    except (Exception, SystemExit) as error:
        if not _is_import_failure(error):
            error.add_note(
                f"raised by the loader of {spec.kind} {spec.name} of {plugin.distribution}"
            )
            raise
        raise _unusable(spec, error, plugin.distribution) from error


def missing_requirements(spec: Spec) -> dict[str, str]:
    """
    Return the distributions that *spec* requires and that are absent, and what installs them.

    Read from package metadata: nothing is imported, so a distribution that is present but broken
    is not noticed here.
    """
    missing = {}
    for name, command in spec.requires.items():
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing[name] = command
    return missing


def _resolve(spec: Spec) -> Any:
    module_name, _, name = spec.load.partition(":")
    module = importlib.import_module(module_name)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ImportError(f"{module_name} has no function {name!r}", name=module_name) from None


def _is_import_failure(error: BaseException) -> bool:
    """Return whether *error* was raised while a module was imported, at any depth."""
    # Broken frameworks raise anything when they are imported: OSError of a missing library,
    # RuntimeError of another version.  What a loader raises by itself is about the model.
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "<module>":
            return True
        traceback = traceback.tb_next
    return isinstance(error, ImportError)


def _unusable(spec: Spec, error: BaseException, distribution: str) -> BackendUnavailable:
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
