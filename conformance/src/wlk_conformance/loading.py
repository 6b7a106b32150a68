"""From a backend's name to the backend under test."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from wlk_conformance.backend_under_test import CALL_ARGUMENTS, BackendUnderTest
from wlk_core.hookspecs import ENTRY_POINT_GROUP
from wlk_core.options import parse_pairs
from wlk_core.registry import PluginInfo, Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wlk_core import Backend, BackendSpec

__all__ = ["find_backend"]


def find_backend(
    name: str,
    *,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    pairs: Iterable[str] = (),
    tiers: Iterable[str] = (),
    words: str | None = None,
    rules: Iterable[str] = (),
) -> tuple[BackendUnderTest, PluginInfo]:
    """
    Return the installed backend *name*, not yet loaded, and the plugin that offers it.

    Options are given by name, as KEY=VALUE strings in *pairs*, or both.

    Raises:
        BackendUnavailable: it is not installed, or broken.
        OptionError: a pair sets an option that is unknown or does not take the value.

    """
    registry = Registry()
    spec, owner = registry.spec(name), registry.owner(name)

    def load(model: str | None = None, **options: Any) -> Backend:
        return registry.load_backend(name, model, **options)

    under_test = BackendUnderTest(
        spec=spec,
        load=load,
        model=model,
        options={**_options_of(spec, tuple(pairs)), **(options or {})},
        tiers=frozenset({"contract", *tiers}),
        entry_point=_entry_point(owner),
        words=words,
        rules=frozenset(rules),
    )
    return under_test, owner


def _options_of(spec: BackendSpec, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that *pairs* set, `language` and `task` of the streams among them."""
    of_calls = [pair for pair in pairs if pair.partition("=")[0] in CALL_ARGUMENTS]
    values = spec.split_options(parse_pairs(pair for pair in pairs if pair not in of_calls))
    arguments = {name: value for name, _, value in (pair.partition("=") for pair in of_calls)}
    spec.check_language(arguments.get("language"))
    spec.check_task(arguments.get("task", "transcribe"))
    return {**values.backend, **values.stream, **arguments}


def _entry_point(owner: PluginInfo) -> str | None:
    points = metadata.entry_points(group=ENTRY_POINT_GROUP)
    return next((point.value for point in points if point.name in owner.names), None)
