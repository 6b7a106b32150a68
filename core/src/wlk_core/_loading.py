"""Resolve the loader that a backend names, and turn a framework that fails into a remedy."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from wlk_core.errors import BackendUnavailable, WLKError

if TYPE_CHECKING:
    from types import TracebackType

    from wlk_core.backend import Backend, BackendSpec

__all__ = ["load", "missing_requirements", "unavailable"]


def load(spec: BackendSpec, model: str | None, options: dict[str, Any]) -> Backend:
    """
    Import the loader of *spec* and load *model* with it.

    Raises:
        BackendUnavailable: importing the loader or its framework failed, in whatever way, or the
            loader is not there.  Other exceptions of the loader pass.

    """
    try:
        if callable(spec.load):  # until every plugin of this repository names its loader
            return spec.load(model, **options)
        backend: Backend = _resolve(spec)(spec, model, **options)
    except (Exception, SystemExit) as error:
        if isinstance(error, WLKError) or not _is_import_failure(error):
            raise
        raise unavailable(spec, error) from error
    else:
        return backend


def missing_requirements(spec: BackendSpec) -> dict[str, str]:
    """
    Return the distributions that *spec* requires and that are absent, and what installs them.

    Read from package metadata: nothing is imported, so a distribution that is present but broken
    is not noticed here.
    """
    return {
        distribution: command
        for distribution, command in spec.requires.items()
        if not _is_installed(distribution)
    }


def unavailable(spec: BackendSpec, error: BaseException | None = None) -> BackendUnavailable:
    """Describe a framework that is missing, or broken where importing it raised *error*."""
    missing = missing_requirements(spec)
    reason = _reason(error) if error else f"{', '.join(missing)} is not installed"
    commands = list(dict.fromkeys((missing or spec.requires).values()))
    remedy = f"; install it with: {' && '.join(commands)}" if commands else ""
    if error and not missing and commands:
        remedy = f"; it is installed but does not work, reinstall it with: {commands[0]}"
    return BackendUnavailable(f"backend {spec.name} cannot be used: {reason}{remedy}")


def _resolve(spec: BackendSpec) -> Any:
    module_name, _, name = str(spec.load).partition(":")
    module = importlib.import_module(module_name)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ImportError(f"{module_name} has no function {name!r}") from None


def _is_import_failure(error: BaseException) -> bool:
    """Return whether *error* was raised while a module was imported, at any depth."""
    return isinstance(error, ImportError) or _was_importing(error.__traceback__)


def _was_importing(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "<module>":
            return True
        traceback = traceback.tb_next
    return False


def _reason(error: BaseException) -> str:
    """Return *error* in one line; the type is left out where the text of an import says it all."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
