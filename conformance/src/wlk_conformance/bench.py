"""From a backend's name to the subject that the rules examine."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from wlk_conformance.subject import Subject
from wlk_core.hookspecs import ENTRY_POINT_GROUP
from wlk_core.registry import PluginInfo, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wlk_core import Backend

__all__ = ["open_subject"]


def open_subject(
    name: str,
    *,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    tiers: Iterable[str] = (),
    touch: Callable[[], None] = lambda: None,
) -> tuple[Subject, PluginInfo]:
    """
    Return the installed backend *name* for examination, and the plugin that offers it.

    Raises:
        BackendUnavailable: it is not installed, or broken.

    """
    registry = Registry()
    spec, owner = registry.spec(name), registry.owner(name)

    def load(model: str | None = None, **given: Any) -> Backend:
        return registry.load_backend(name, model, **given)

    subject = Subject(
        spec=spec,
        load=load,
        model=model,
        options=options or {},
        tiers=frozenset({"contract", *tiers}),
        entry_point=_entry_point(owner),
        touch=touch,
    )
    return subject, owner


def _entry_point(owner: PluginInfo) -> str | None:
    points = metadata.entry_points(group=ENTRY_POINT_GROUP, name=owner.name)
    return next((point.value for point in points), None)
