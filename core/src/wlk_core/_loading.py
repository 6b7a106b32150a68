"""Import what a declaration names, and turn a framework that fails into a remedy."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any, TypeAlias

from wlk_core.annotators import AnnotatorSpec
from wlk_core.backend import BackendSpec
from wlk_core.commands import CommandSpec
from wlk_core.errors import BackendUnavailable, WLKError
from wlk_core.untrusted import reason

__all__ = ["Spec", "kind_of", "load", "load_command", "missing_requirements"]

Spec: TypeAlias = BackendSpec | AnnotatorSpec | CommandSpec


def kind_of(spec: Spec) -> str:
    """Return what *spec* declares: a backend, a command or a kind of annotator."""
    if isinstance(spec, AnnotatorSpec):
        return spec.kind
    return "backend" if isinstance(spec, BackendSpec) else "command"


def load(
    spec: BackendSpec | AnnotatorSpec,
    model: str | None,
    options: dict[str, Any],
    *,
    distribution: str,
) -> Any:
    """
    Import the loader of *spec*, which *distribution* brings, and load *model* with it.

    Raises:
        BackendUnavailable: importing the loader or its framework failed, whatever it raised, or
            the loader does not exist.  Other exceptions of the loader are passed on, with a note
            that names it.

    """
    try:
        return _resolve(spec)(spec, model, **options)
    except WLKError:
        raise
    except (Exception, SystemExit) as error:
        if not _is_import_failure(error):
            error.add_note(f"raised by the loader of {_title(spec)} of {distribution}")
            raise
        raise _unusable(spec, error, distribution) from error


def load_command(spec: CommandSpec, *, distribution: str) -> Any:
    """Import the click command of *spec*, which *distribution* brings; raises as `load`."""
    try:
        return _resolve(spec)
    except WLKError:
        raise
    except (Exception, SystemExit) as error:
        raise _unusable(spec, error, distribution) from error


def missing_requirements(spec: Spec) -> dict[str, str]:
    """
    Return the distributions that *spec* requires and that are absent, and what installs them.

    Read from package metadata: nothing is imported, so a distribution that is present but broken
    is not noticed here.
    """
    return {name: command for name, command in spec.requires.items() if not _is_installed(name)}


def _title(spec: Spec) -> str:
    return f"{kind_of(spec)} {spec.name}"


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
    return BackendUnavailable(f"{_title(spec)} cannot be used: {reason(root)}; {remedy}")


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
