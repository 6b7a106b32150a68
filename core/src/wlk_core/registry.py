"""The registry: which backends are installed, and how one is loaded by name."""

from __future__ import annotations

import difflib
from importlib import metadata
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_core._arguments import shown
from wlk_core._discovery import PluginInfo, PluginSource, new_manager, sources
from wlk_core._loading import load, missing_requirements, not_installed
from wlk_core.errors import BackendUnavailable, OptionError
from wlk_core.hookspecs import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.backend import Backend, BackendSpec

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
        self._manager = new_manager()

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

    def spec(self, name: str) -> BackendSpec:
        """
        Return the backend called *name*.

        An entry point is named after its backend, so that only its plugin is imported.  Where no
        entry point has the name, every plugin is.

        Raises:
            BackendUnavailable: it is absent, broken, or offered by two distributions.

        """
        named = [self._load(source) for source in self._sources if name in source.names]
        offers = _offers(named).get(name) or _offers(self.plugins()).get(name)
        if not offers:
            raise self._refusal(name, named)
        if len(offers) > 1:
            owners = [plugin for plugin, _ in offers]
            raise BackendUnavailable(
                f"backend {name!r} is offered by {' and '.join(owner.title for owner in owners)}; "
                f"keep one: pip uninstall {owners[-1].distribution}"
            )
        return offers[0][1]

    def owner(self, name: str) -> PluginInfo:
        """Return the plugin that offers the backend called *name*; raises as `spec`."""
        spec = self.spec(name)
        return next(plugin for plugin in self._loaded.values() if spec in plugin.backends)

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
            BackendUnavailable: no backend is installed, or none is usable without being named.

        """
        if usable := self.usable():
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
    ) -> Backend:
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
        return load(spec, chosen, values, distribution=owner)

    def _ranked(self) -> list[BackendSpec]:
        ranked = [(-spec.preference, spec) for spec in self.specs() if spec.preference is not None]
        return [spec for _, spec in sorted(ranked, key=lambda pair: (pair[0], pair[1].name))]

    def _load(self, source: PluginSource) -> PluginInfo:
        if source not in self._loaded:
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


def load_backend(name: str, model: str | os.PathLike[str] | None = None, **options: Any) -> Backend:
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


def _offers(plugins: Iterable[PluginInfo]) -> dict[str, list[tuple[PluginInfo, BackendSpec]]]:
    offers: dict[str, list[tuple[PluginInfo, BackendSpec]]] = {}
    for plugin in plugins:
        for spec in plugin.backends:
            offers.setdefault(spec.name, []).append((plugin, spec))
    return offers
