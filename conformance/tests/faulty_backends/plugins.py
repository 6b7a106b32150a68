"""Plugins with faults of their own; pytest stands in for a framework that can be hidden."""

from __future__ import annotations

import attrs

from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core.errors import BackendUnavailable
from wlk_core.plugins import hookimpl

FRAMED = {"requires": {"pytest": "pip install pytest"}}


class Sound:
    """A plugin without a fault."""

    @staticmethod
    @hookimpl
    def wlk_backends():
        return [SCRIPTED_SPEC]


class HeavyHook:
    """A plugin that imports numpy when it offers its backends."""

    @staticmethod
    @hookimpl
    def wlk_backends():
        import numpy as np  # noqa: F401, PLC0415 -- the fault

        return [SCRIPTED_SPEC]


class Framed:
    """A plugin that requires a framework, and does not explain that it is absent."""

    load = "explained_by_nothing"

    @classmethod
    @hookimpl
    def wlk_backends(cls):
        return [attrs.evolve(SCRIPTED_SPEC, load=f"{__name__}:{cls.load}", **FRAMED)]


class WithoutCommand(Framed):
    """A plugin whose error names no command that installs its framework."""

    load = "explained_without_command"


def explained_by_nothing(spec, model, **_options):
    """Load the scripted backend."""
    return _load(spec, model, RuntimeError("something went wrong"))


def explained_without_command(spec, model, **_options):
    """Load the scripted backend."""
    return _load(spec, model, BackendUnavailable("pytest cannot be imported"))


def _load(spec, model, error):
    try:
        import pytest  # noqa: F401, PLC0415 -- stands in for a framework
    except ImportError:
        raise error from None
    from wlk_conformance.scripted import backend  # noqa: PLC0415 -- imports numpy

    return backend.load(spec, model)
