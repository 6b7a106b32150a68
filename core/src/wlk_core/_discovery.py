"""Entry points become plugins: loaded one by one, checked, and kept apart when broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
import logging
import os
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import pluggy

from wlk_core import hookspecs
from wlk_core._arguments import shown
from wlk_core._user_signals import user_signals
from wlk_core.annotators import AnnotatorSpec
from wlk_core.backend import API_FLOOR, API_VERSION, BackendSpec
from wlk_core.commands import COMMAND_PREFIX, CommandSpec
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint

__all__ = [
    "PluginInfo",
    "PluginSource",
    "Spec",
    "kind_of",
    "new_manager",
    "normalised",
    "reason",
    "sources",
]

UNKNOWN = "unknown"  #: the distribution of an entry point without metadata

_MOST_SPECS = 1000  # of one hook, because one may yield without end
Spec: TypeAlias = BackendSpec | AnnotatorSpec | CommandSpec

_HOOKS: dict[str, tuple[type[Spec], str]] = {  # what each hook offers
    "wlk_backends": (BackendSpec, "backend"),
    "wlk_diarizers": (AnnotatorSpec, "diarizer"),
    "wlk_translators": (AnnotatorSpec, "translator"),
    "wlk_turn_detectors": (AnnotatorSpec, "turn-detector"),
    "wlk_commands": (CommandSpec, "command"),
}

_log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class PluginInfo:
    """
    A plugin as it was found; `error` is None for one that works.

    Attributes:
        name: its entry points, which are named after backends; the first one.
        names: all of them.
        distribution: the distribution that declares it, "unknown" where metadata is missing.
        version: the version of that distribution.
        backends: the backends it offers; none where it is broken.
        annotators: the annotators it offers; none where it is broken.
        commands: the commands it offers; none where it is broken.
        error: why it could not be loaded, one line.

    """

    name: str
    distribution: str
    version: str
    names: tuple[str, ...] = ()
    backends: tuple[BackendSpec, ...] = ()
    annotators: tuple[AnnotatorSpec, ...] = ()
    commands: tuple[CommandSpec, ...] = ()
    error: str | None = None

    @property
    def title(self) -> str:
        """The distribution and its version, as messages name it."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def remedy(self) -> str:
        """What to do about a broken plugin."""
        if self.distribution == UNKNOWN:
            return "reinstall the distribution that declares it"
        return (
            f"update it with: pip install --upgrade {self.distribution}, "
            f"or remove it with: pip uninstall {self.distribution}"
        )


@attrs.frozen(kw_only=True)
class PluginSource:
    """A plugin that may be loaded: one object of one distribution, under all of its names."""

    distribution: str
    version: str
    points: tuple[EntryPoint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its entry points."""
        return tuple(point.name for point in self.points)

    @property
    def info(self) -> PluginInfo:
        """The plugin as its distribution declares it, before it is imported."""
        return PluginInfo(
            name=self.names[0],
            names=self.names,
            distribution=self.distribution,
            version=self.version,
        )

    def load(self, manager: pluggy.PluginManager) -> PluginInfo:
        """
        Import the plugin, register it and read what it offers.

        A plugin that fails in any way leaves no trace in *manager* and is described by its error;
        with WLK_STRICT_PLUGINS=1 the failure is raised instead.
        """
        info = self.info
        others = manager.get_plugins()
        with user_signals() as raised_by_user:
            try:
                return _offered(info, manager, self.points[0].load())
            except BaseException as error:
                # A plugin may raise anything at import; it is recorded, and the others go on.
                for plugin in manager.get_plugins() - others:
                    manager.unregister(plugin)  # pluggy keeps a plugin whose registration failed
                if raised_by_user or os.environ.get("WLK_STRICT_PLUGINS", "0") not in {"", "0"}:
                    raise
                _log.debug("%s could not be loaded", info.title, exc_info=True)
                return attrs.evolve(info, error=reason(error))
        raise AssertionError("unreachable: the plugin is described by its backends or its error")


def sources(entry_points: Iterable[EntryPoint]) -> tuple[PluginSource, ...]:
    """
    Group entry points into plugins, in order of their distributions.

    Equal entry points of one distribution are one: an editable install beside a wheel shows
    every entry point twice.
    """
    grouped: dict[tuple[str, str], dict[str, EntryPoint]] = {}
    for point in entry_points:
        owner = normalised(point.dist.name) if point.dist else ""
        grouped.setdefault((owner, point.value), {}).setdefault(point.name, point)
    return tuple(_source(points) for _, points in sorted(grouped.items(), key=lambda item: item[0]))


def normalised(distribution: str) -> str:
    """Return the one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _source(points: Mapping[str, EntryPoint]) -> PluginSource:
    ordered = tuple(points[name] for name in sorted(points))
    owner = ordered[0].dist
    return PluginSource(
        distribution=owner.name if owner else UNKNOWN,
        version=owner.version if owner else "",
        points=ordered,
    )


def _offered(info: PluginInfo, manager: pluggy.PluginManager, plugin: Any) -> PluginInfo:
    others = manager.get_plugins()
    manager.register(plugin)
    specs: list[Spec] = []
    hooks = 0
    for name, (type_, kind) in _HOOKS.items():
        hook = manager.subset_hook_caller(name, remove_plugins=others)
        if not hook.get_hookimpls():
            continue
        hooks += 1
        for spec in _specs(name, hook()):
            if not isinstance(spec, type_) or kind_of(spec) != kind:
                title = type_.__name__
                expected = f"{title}(kind={kind!r})" if type_ is AnnotatorSpec else title
                got = type(spec).__name__
                raise BackendUnavailable(f"{name} returns {expected} objects, got {got}")
            specs.append(_checked(spec, info))
    if not hooks:
        raise BackendUnavailable(f"it implements none of the hooks {', '.join(_HOOKS)}")
    titles = (f"{kind_of(spec)} {spec.name!r}" for spec in specs)
    for title, count in Counter(titles).items():
        if count > 1:
            raise BackendUnavailable(f"it offers the {title} {count} times")
    return attrs.evolve(
        info,
        backends=tuple(spec for spec in specs if isinstance(spec, BackendSpec)),
        annotators=tuple(spec for spec in specs if isinstance(spec, AnnotatorSpec)),
        commands=tuple(spec for spec in specs if isinstance(spec, CommandSpec)),
    )


def _specs(name: str, results: list[Any]) -> Iterator[object]:
    """Yield what a hook returned, to a limit."""
    if not results or not isinstance(results[0], Iterable):  # pluggy leaves None out
        got = shown(results[0]) if results else "None"
        raise BackendUnavailable(
            f"{name} returns a list of {_HOOKS[name][0].__name__} objects, got {got}"
        )
    for number, spec in enumerate(chain.from_iterable(results)):
        if number == _MOST_SPECS:
            raise BackendUnavailable(f"it offers more than {_MOST_SPECS} {name[4:]}")
        yield spec


def kind_of(spec: Spec) -> str:
    """Return what *spec* declares: a backend, a command or a kind of annotator."""
    match spec:
        case BackendSpec():
            return "backend"
        case CommandSpec():
            return "command"
    return spec.kind


def _checked(spec: Spec, info: PluginInfo) -> Spec:
    attrs.validate(spec)  # again, because a frozen object can be changed by force
    if not API_FLOOR <= spec.api <= API_VERSION:
        window = f"{API_FLOOR} to {API_VERSION}" if API_FLOOR < API_VERSION else f"{API_VERSION}"
        raise BackendUnavailable(
            f"{kind_of(spec)} {spec.name!r} speaks plugin API {spec.api}, this wlk-core speaks "
            f"{window}"
        )
    if isinstance(spec, CommandSpec) and COMMAND_PREFIX + spec.name not in info.names:
        raise BackendUnavailable(
            f"its command {spec.name!r} needs the entry point {COMMAND_PREFIX}{spec.name}"
        )
    return spec


def reason(error: BaseException) -> str:
    """Return *error* in one line, without its type where an import explains itself."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 -- foreign errors may fail to describe themselves
        text = ""
    if isinstance(error, (ImportError, BackendUnavailable)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def new_manager() -> pluggy.PluginManager:
    """Return a plugin manager that knows the hooks."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager
