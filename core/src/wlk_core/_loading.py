"""Load a backend by the name of its loader, and turn a framework that fails into a remedy."""

from __future__ import annotations

import importlib
from importlib import metadata
import re
from typing import TYPE_CHECKING, Any

from wlk_core._arguments import shown
from wlk_core._discovery import kind_of, normalised, reason
from wlk_core._user_signals import user_signals
from wlk_core.annotators import ANNOTATOR_CALLS
from wlk_core.backend import BackendSpec
from wlk_core.errors import BackendUnavailable, WLKError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from wlk_core._discovery import Spec
    from wlk_core.annotators import AnnotatorSpec
    from wlk_core.commands import CommandSpec

__all__ = ["load", "load_command", "missing_requirements", "not_installed"]

_CALLS = (
    *("create_processor", "transcribe", "stream", "atranscribe", "astream", "warmup", "close"),
    *("__enter__", "__exit__"),
)  # of LoadedBackend, which users call
_COMMAND_CALLS = ("main", "make_context", "invoke")  # of click.Command
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9._-]+")  # at the start of a requirement


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
            the loader does not exist, ended the program or returned something else.  Other
            exceptions of the loader are passed on, with a note that names it.

    """
    expected = _CALLS if isinstance(spec, BackendSpec) else ANNOTATOR_CALLS[spec.kind]
    loaded = _loaded(spec, lambda: _resolve(spec)(spec, model, **options), distribution)
    _require_calls(spec, loaded, expected, distribution)
    return loaded


def load_command(spec: CommandSpec, *, distribution: str) -> Any:
    """Import the click command of *spec*, which *distribution* brings; raises as `load`."""
    command = _loaded(spec, lambda: _resolve(spec), distribution)
    _require_calls(spec, command, _COMMAND_CALLS, distribution)
    return command


def _loaded(spec: Spec, load: Callable[[], Any], distribution: str) -> Any:
    title = f"{kind_of(spec)} {spec.name}"
    with user_signals() as raised_by_user:
        try:
            return load()
        except BaseException as error:
            if raised_by_user or isinstance(error, WLKError):
                raise
            if isinstance(error, Exception) and not _is_import_failure(error):
                error.add_note(f"raised by the loader of {title} of {distribution}")
                raise
            root = _root_cause(error)
            remedy = _remedy(spec, root, distribution)
            raise BackendUnavailable(f"{title} cannot be used: {reason(root)}; {remedy}") from error
    raise AssertionError("unreachable: it was loaded, or an error was raised")


def _require_calls(spec: Spec, loaded: object, calls: Iterable[str], distribution: str) -> None:
    if missing := [name for name in calls if not _has_call(loaded, name)]:
        kind = kind_of(spec)
        raise BackendUnavailable(
            f"{kind} {spec.name} cannot be used: its loader {spec.load} returns a {kind}, got "
            f"{shown(loaded)} without {', '.join(missing)}; update the plugin with: pip install "
            f"--upgrade {distribution}"
        )


def _has_call(backend: object, name: str) -> bool:
    try:
        return callable(getattr(backend, name, None))
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything when it is looked at
        return False


def missing_requirements(spec: Spec) -> dict[str, str]:
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


def not_installed(spec: BackendSpec) -> BackendUnavailable:
    """Describe the requirements of *spec* that are missing."""
    missing = missing_requirements(spec)
    return BackendUnavailable(
        f"backend {spec.name} cannot be used: {', '.join(missing)} is not installed; "
        f"install it with: {_joined(missing.values())}"
    )


def _resolve(spec: Spec) -> Any:
    module_name, _, name = spec.load.partition(":")
    module = importlib.import_module(module_name)
    try:
        return getattr(module, name)
    except AttributeError:
        raise ImportError(f"{module_name} has no function {name!r}", name=module_name) from None


def _remedy(spec: Spec, error: BaseException, distribution: str) -> str:
    """Return what to do about *error*, which an import raised."""
    plugin = spec.load.partition(".")[0].partition(":")[0]
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == plugin:
        return f"reinstall the plugin with: pip install {distribution} --force-reinstall"
    if missing := missing_requirements(spec):
        return f"install it with: {_joined(missing.values())}"
    if culprit := _foreign_culprit(error, own={distribution, *spec.requires}):
        if culprit in _needed({distribution, *spec.requires}):
            return (
                f"{culprit} is installed but does not work here, reinstall it with: pip install "
                f"--upgrade --force-reinstall {culprit}"
            )
        return (
            f"{culprit} is installed but does not work here, update it with: pip install "
            f"--upgrade {culprit}, or remove it with: pip uninstall {culprit}"
        )
    commands = list(spec.requires.values()) or [f"pip install {distribution}"]
    reinstall = _joined(f"{command} --force-reinstall" for command in commands)
    return f"it is installed but does not work, reinstall it with: {reinstall}"


def _joined(commands: Iterable[str]) -> str:
    return " && ".join(dict.fromkeys(commands))


def _is_import_failure(error: BaseException) -> bool:
    """Return whether *error* was raised while a module was imported, at any depth."""
    return isinstance(error, ImportError) or bool(_imported_modules(error.__traceback__))


def _imported_modules(traceback: TracebackType | None) -> list[str]:
    """Return the modules whose import *traceback* passes through, the innermost last."""
    modules = []
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name == "<module>":
            modules.append(str(frame.f_globals.get("__name__", "")))
        traceback = traceback.tb_next
    return modules


def _foreign_culprit(error: BaseException, *, own: set[str]) -> str | None:
    """Return the distribution that brings the innermost failing module, None for one of *own*."""
    modules = _imported_modules(error.__traceback__)
    if not modules:
        return None
    # Several distributions may share a package, as mlx and its back ends do.
    owners = metadata.packages_distributions().get(modules[-1].partition(".")[0], [])
    owners = [normalised(owner) for owner in owners]
    is_own = any(normalised(name) in owners for name in own)
    return owners[0] if owners and not is_own else None


def _needed(distributions: Iterable[str]) -> set[str]:
    """Return *distributions* and all that they require without an extra, as installed here."""
    needed: set[str] = set()
    waiting = [normalised(name) for name in distributions]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [
            normalised(match[0])
            for text in requirements
            if "extra ==" not in text and (match := _REQUIRED_NAME.match(text))
        ]
    return needed


def _root_cause(error: BaseException) -> BaseException:
    """Return the error that *error* was raised from, because frameworks wrap failing imports."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
