"""Model references: what a user writes after ``--model``, and what it stands for."""

from __future__ import annotations

import os
from pathlib import Path
import re
from typing import TYPE_CHECKING

from wlk_core._directories import expanded
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec

__all__ = [
    "BUNDLED",
    "is_local",
    "is_repository",
    "local_directory",
    "packaged_word",
    "repository",
    "unknown_model",
]

BUNDLED = "bundled"  #: the word in `BackendSpec.models` for a model inside the plugin's wheel

# The hub's own rules (huggingface_hub.utils.validate_repo_id), for ids with an owner.
_PART = r"\w(?:[\w.-]*\w)?"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_LONGEST = 96  # characters of the name


def is_repository(ref: str) -> bool:
    """Return whether *ref* is written like a repository id, owner/name."""
    return (
        _REPOSITORY.fullmatch(ref) is not None
        and len(ref.partition("/")[2]) <= _LONGEST
        and "--" not in ref
        and ".." not in ref
        and not ref.endswith(".git")
    )


def is_local(ref: str, spec: BackendSpec) -> bool:
    """Return whether *ref* is a path: it is written like one, or exists and is no alias."""
    if ref in spec.models:
        return False
    is_path = ref.startswith((".", "/", "~")) or (os.sep != "/" and os.sep in ref)
    return is_path or (ref != "" and Path(ref).exists())


def local_directory(ref: str) -> Path:
    """Return the path that a local reference names; a relative one stays relative."""
    return expanded(ref) if ref.startswith("~") else Path(ref)


def packaged_word(ref: str, spec: BackendSpec) -> str | None:
    """Return the spec's word for a model that comes from no hub, such as "bundled"."""
    source = spec.models.get(ref, ref)
    return source if ref in spec.models and not is_repository(source) else None


def repository(ref: str, spec: BackendSpec) -> str:
    """
    Return the repository id of a size alias or of an id itself.

    Raises:
        ModelNotFoundError: *ref* is neither; the message lists the aliases.

    """
    repo = spec.models.get(ref, ref)
    if is_repository(repo):
        return repo
    raise unknown_model(ref, spec)


def unknown_model(ref: str, spec: BackendSpec) -> ModelNotFoundError:
    """Return the error for a reference that is no alias, repository id or directory."""
    known = ", ".join(spec.models) or "none"
    return ModelNotFoundError(
        f"{spec.name} has no model called {ref!r}; expected one of {known}, a repository id "
        f"(owner/name) or a directory; get one with: wlk-core pull MODEL --backend {spec.name}"
    )
