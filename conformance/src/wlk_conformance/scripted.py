"""The plugin that offers the reference backend: no model, coded audio, every rule kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_core import hookimpl
from wlk_core.testing.scripted_spec import SCRIPTED_SPEC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend, BackendSpec

__all__ = ["REFERENCE_SPEC", "wlk_backends"]


def _load(model: str | None, **options: Any) -> Backend:
    SCRIPTED_SPEC.load(model, **options).close()  # refuses a model that it has not
    from wlk_conformance.reference import ReferenceBackend  # noqa: PLC0415 -- brings numpy

    return ReferenceBackend()


REFERENCE_SPEC = attrs.evolve(SCRIPTED_SPEC, load=_load)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [REFERENCE_SPEC]
