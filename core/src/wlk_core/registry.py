"""The registry: which backends are installed, and how one is loaded by name."""

from __future__ import annotations

from contextlib import nullcontext
import difflib
from importlib import metadata
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_core._arguments import shown
from wlk_core._discovery import PluginInfo, PluginSource, new_manager, sources
from wlk_core._loading import load, load_command, missing_requirements, not_installed
from wlk_core.commands import COMMAND_PREFIX
from wlk_core.errors import BackendUnavailable, OptionError
from wlk_core.hookspecs import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

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


class Registry:
    """
    The plugins of this environment, each loaded once and only when it is needed.

    `entry_points` replaces what the installed distributions declare, for tests and embedders.
    """

    def __init__(self, entry_points: Iterable[metadata.EntryPoint] | None = None) -> None:
        if entry_points is None:
            entry_points = metadata.entry_points(group=ENTRY_POINT_GROUP)
        self._sources = sources(entry_points)
        self._loaded: dict[PluginSource, PluginInfo] = {}
        #: Called with each plugin around its import and its hook, which are foreign code.
        self.watch: Callable[[PluginInfo], AbstractContextManager[object]] = nullcontext
        self._manager = new_manager()

    def names(self) -> frozenset[str]:
        """Return the backends that entry points are named after; imports nothing."""
        names = (name for source in self._sources for name in source.names)
        return frozenset(name for name in names if not name.startswith(COMMAND_PREFIX))

    def commands(self) -> dict[str, str]:
        """
        Return the commands of plugins, sorted, each with its line in the help.

        Imports the plugins whose entry points are named after commands; a broken one has a line.
        """
        prefix = COMMAND_PREFIX
        points = {n for source in self._sources for n in source.names if n.startswith(prefix)}
        return {
            point.removeprefix(prefix): self._summary(point.removeprefix(prefix))
            for point in sorted(points)
        }

    def load_command(self, name: str) -> Any:
        """
        Import the click command called *name* of a plugin; None where no plugin offers it.

        Raises:
            BackendUnavailable: the plugin or the command cannot be imported, or two distributions
                offer it.

        """
        offer = self._command(name)
        if offer is None:
            return None
        plugin, spec = offer
        return load_command(spec, distribution=plugin.distribution)

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Return every plugin, broken ones too; loads them all."""
        return tuple(self._load(source) for source in self._sources)

    def specs(self) -> tuple[BackendSpec, ...]:
        """Return every backend that one plugin offers, sorted by name; loads all plugins."""
        offers = _offers(self.plugins())
        return tuple(offers[name][0][1] for name in sorted(offers) if len(offers[name]) == 1)

    def conflicts(self) -> dict[str, tuple[str, ...]]:
        """Return the backends that several distributions offer, with these; loads all plugins."""
        return {
            name: tuple(plugin.title for plugin, _ in offers)
            for name, offers in sorted(_offers(self.plugins()).items())
            if len(offers) > 1
        }

    def fault(self, plugin: PluginInfo) -> str | None:
        """Return why *plugin*, or a backend that it offers, cannot be used; None if all can."""
        if plugin.error is not None:
            return f"{plugin.error}; {plugin.remedy}"
        offers = _offers(self.plugins())
        for name in (spec.name for spec in plugin.backends):
            owners = [owner for owner, _ in offers[name]]
            if len(owners) > 1:
                titles = " and ".join(owner.title for owner in owners)
                return f"backend {name!r} is offered by {titles}: uninstall one"
            if plugin not in owners:
                return (
                    f"its backend {name!r} is left out, because {owners[0].title} has the entry "
                    f"point of that name: uninstall one"
                )
        return None

    def spec(self, name: str) -> BackendSpec:
        """
        Return the backend called *name*.

        An entry point is named after its backend, so that only its plugin is imported.  Where no
        entry point has the name, every plugin is.  A backend belongs to the plugin with the entry
        point of its name, whatever others offer.

        Raises:
            BackendUnavailable: it is absent, broken, or offered by two distributions.

        """
        return self._offer(name)[1]

    def owner(self, name: str) -> PluginInfo:
        """Return the plugin that offers the backend called *name*; raises as `spec`."""
        return self._offer(name)[0]

    def usable(self) -> tuple[BackendSpec, ...]:
        """
        Return the backends whose requirements are installed, the most preferred first.

        Backends without a preference are left out, because they are used only when they are named.
        The requirements are read from package metadata; no framework is imported.
        """
        return tuple(spec for spec in self._ranked() if not missing_requirements(spec))

    def default_backend(self) -> BackendSpec:
        """
        Return the usable backend that prefers this platform most.

        Raises:
            BackendUnavailable: no backend is installed, or none is usable without being named, or
                two distributions offer the one that this platform prefers.

        """
        usable = self.usable()
        highest = max((spec.preference or 0 for spec in usable), default=-math.inf)
        for name, offers in sorted(_offers(self.plugins()).items()):
            rivals = [spec for _, spec in offers if not missing_requirements(spec)]
            preferences = [spec.preference for spec in rivals if spec.preference is not None]
            if len(offers) > 1 and preferences and max(preferences) > highest:
                raise _contested(name, [plugin for plugin, _ in offers])
        if usable:
            return usable[0]
        if ranked := self._ranked():
            raise not_installed(ranked[0])
        if specs := self.specs():
            raise BackendUnavailable(
                f"no backend is the default: {specs[0].name} is used only when it is named, "
                f"with --backend {specs[0].name}"
            )
        raise self._refusal(None, [])

    def load_backend(
        self, name: str, model: str | os.PathLike[str] | None = None, /, **options: Any
    ) -> LoadedBackend[Any]:
        """
        Load a model with the backend called *name*.

        `model` is a size alias, a repository id or a local directory; None is the backend's own
        default.  `options` are the backend's options of scope "backend".

        Raises:
            BackendUnavailable: the backend is absent or broken, or its framework is.
            OptionError: an option is unknown or takes another value, or `model` is of another type.
            ModelNotFoundError: the model is neither local nor can be fetched.

        """
        if not isinstance(name, str):
            raise OptionError(f"a backend is named by a text, got {shown(name)}")
        spec = self.spec(name)
        values = spec.backend_options(options)
        owner = self.owner(name).distribution
        text = _model_text(model)
        chosen = spec.default_model if text is None else text
        backend: LoadedBackend[Any] = load(spec, chosen, values, distribution=owner)
        return backend

    def annotators(self, kind: AnnotatorKind | None = None) -> tuple[AnnotatorSpec, ...]:
        """Return the annotators of a kind, or all, sorted by name; loads all plugins."""
        specs = (spec for plugin in self.plugins() for spec in plugin.annotators)
        return tuple(
            sorted(
                (spec for spec in specs if kind in {None, spec.kind}),
                key=lambda spec: (spec.kind, spec.name),
            )
        )

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

        Raises:
            BackendUnavailable: it is absent or broken, its framework is, or two distributions
                offer it.
            OptionError: an option is unknown or takes another value.

        """
        offers = [
            (plugin, spec)
            for plugin in self.plugins()
            for spec in plugin.annotators
            if (spec.kind, spec.name) == (kind, name)
        ]
        if not offers:
            names = ", ".join(spec.name for spec in self.annotators(kind)) or "none"
            raise BackendUnavailable(f"no {kind} called {name!r}; installed: {names}")
        if len(offers) > 1:
            raise _contested(name, [plugin for plugin, _ in offers])
        ((plugin, spec),) = offers
        values = spec.resolved_options(options)
        text = _model_text(model)
        chosen = spec.default_model if text is None else text
        return load(spec, chosen, values, distribution=plugin.distribution)

    def _offer(self, name: str) -> tuple[PluginInfo, BackendSpec]:
        named = [self._load(source) for source in self._sources if name in source.names]
        offers = _offers(named).get(name) or _offers(self.plugins()).get(name)
        if not offers:
            raise self._refusal(name, named)
        if len(offers) > 1:
            raise _contested(name, [plugin for plugin, _ in offers])
        return offers[0]

    def _command(self, name: str) -> tuple[PluginInfo, CommandSpec] | None:
        point = COMMAND_PREFIX + name
        named = [self._load(source) for source in self._sources if point in source.names]
        offers = [(info, spec) for info in named for spec in info.commands if spec.name == name]
        if len(offers) > 1:
            raise _contested(name, [plugin for plugin, _ in offers], kind="command")
        if offers:
            return offers[0]
        if named:
            raise BackendUnavailable(
                f"command {name} cannot be used: {named[0].error or 'its plugin has none'}; "
                f"{named[0].remedy}"
            )
        return None

    def _summary(self, name: str) -> str:
        try:
            offer = self._command(name)
        except BackendUnavailable:
            return "Cannot be used; see: wlk-core plugins."
        return offer[1].summary if offer else ""

    def _ranked(self) -> list[BackendSpec]:
        ranked = [(-spec.preference, spec) for spec in self.specs() if spec.preference is not None]
        return [spec for _, spec in sorted(ranked, key=lambda pair: (pair[0], pair[1].name))]

    def _load(self, source: PluginSource) -> PluginInfo:
        if source not in self._loaded:
            with self.watch(source.info):
                self._loaded[source] = source.load(self._manager)
        return self._loaded[source]

    def _refusal(self, name: str | None, named: Iterable[PluginInfo]) -> BackendUnavailable:
        """Describe why there is no backend called *name* (None: no backend at all)."""
        for plugin in named:
            if plugin.error is not None:
                return BackendUnavailable(
                    f"{plugin.title} is installed but could not be loaded: {plugin.error} "
                    f"(WLK_STRICT_PLUGINS=1 shows the traceback; "
                    f"remove it with: pip uninstall {plugin.distribution})"
                )
        plugins = self.plugins()
        installed = sorted(_offers(plugins))
        broken = sorted({plugin.distribution for plugin in plugins if plugin.error is not None})
        excuse = f"could not be loaded: {', '.join(broken)} (see: wlk-core plugins)"
        known = known_backends()
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
    text = Path(__file__).with_name("known_backends.json").read_text(encoding="utf-8")
    known: dict[str, str] = json.loads(text)
    return known


def _model_text(model: object) -> str | None:
    """Return *model* as text, because backends accept no path objects."""
    text = os.fspath(model) if isinstance(model, os.PathLike) else model
    if text == "":
        raise OptionError("a model has a name; got an empty text, leave it out for the default")
    if text is None or isinstance(text, str):
        return text
    raise OptionError(
        f"a model is a text or a path; got {type(model).__name__} (a size alias, a repository id "
        "or a directory)"
    )


def _contested(
    name: str, owners: Sequence[PluginInfo], kind: str = "backend"
) -> BackendUnavailable:
    return BackendUnavailable(
        f"{kind} {name!r} is offered by {' and '.join(owner.title for owner in owners)}; "
        f"keep one: pip uninstall {owners[-1].distribution}"
    )


def _offers(plugins: Iterable[PluginInfo]) -> dict[str, list[tuple[PluginInfo, BackendSpec]]]:
    """Return who offers each backend; plugins with an entry point of its name precede others."""
    offers: dict[str, list[tuple[PluginInfo, BackendSpec]]] = {}
    for plugin in plugins:
        for spec in plugin.backends:
            offers.setdefault(spec.name, []).append((plugin, spec))
    return {
        name: [offer for offer in offered if name in offer[0].names] or offered
        for name, offered in offers.items()
    }
