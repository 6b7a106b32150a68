"""A fingerprint of a loaded model, to detect whether a call changed it."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from wlk_core.online.engine_calls import EngineCalls

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fingerprint"]

DEPTH = 5  # attributes deep: backend, engine, model, tokenizer and one more
LIMIT = 20_000  # objects visited, because a framework's graph may be endless
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


def fingerprint(backend: object) -> dict[str, str]:
    """
    Return a description of every object inside *backend*, by its path.

    Modules of torch and mlx are identified by id, hooks and parameter names, other objects by the
    names of their attributes and the ids of callables among them, dictionaries by their keys and
    plain values.  Numbers are left out because counting is allowed, and so are the engine's seams
    because the rules themselves set them.
    """
    return dict(_objects(backend))


def _objects(backend: object) -> Iterator[tuple[str, str]]:
    seen: set[int] = set()
    pending: list[tuple[str, object, int]] = [("backend", backend, 0)]
    while pending and len(seen) < LIMIT:
        path, value, depth = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "named_modules") and hasattr(value, "named_parameters"):
            yield from _torch(path, value)
            continue
        inside = _inside(value)
        if inside is None:
            continue
        yield path, f"{type(value).__qualname__} with {', '.join(sorted(inside))}"
        for name, part in inside.items():
            inner = f"{path}.{name}"
            if isinstance(part, (str, bool, type(None))):
                yield inner, repr(part)
            elif callable(part):
                yield inner, f"{type(part).__qualname__} at {id(part):#x}"
            if depth < DEPTH:
                pending.append((inner, part, depth + 1))


def _inside(value: object) -> dict[str, Any] | None:
    """Return the parts of an object or dictionary; None where there are no parts of interest."""
    if isinstance(value, (str, bytes, int, float, type, ModuleType, EngineCalls)) or value is None:
        return None
    if isinstance(value, dict):
        return {str(key): part for key, part in value.items() if isinstance(key, str)}
    if type(value).__module__ in {"builtins", "threading", "_thread", "numpy"}:
        return None
    parts = dict(getattr(value, "__dict__", {}))
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in {"__dict__", "__weakref__"} and hasattr(value, name):
                parts[name] = getattr(value, name)
    return parts


def _torch(path: str, model: Any) -> Iterator[tuple[str, str]]:
    for name, module in model.named_modules():
        hooks = {key: len(getattr(module, key, ())) for key in HOOKS}
        own = sorted(key for key in vars(module) if not key.startswith("_"))
        yield f"{path}:{name}", f"{type(module).__qualname__} at {id(module):#x} {hooks} {own}"
    names = sorted(name for name, _ in model.named_parameters())
    yield f"{path}:parameters", str(hash(tuple(names)))
