"""Whether a model is in the cache, how much of it, and who brought it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from wlk_core.models.hub_cache import matching
from wlk_core.models.pull_record import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.backend import BackendSpec
    from wlk_core.models.hub_cache import CachedRepo

__all__ = ["CachedState", "cached_state"]


@attrs.frozen(kw_only=True)
class CachedState:
    """
    What a cache has of a model.

    Attributes:
        word: "pulled" (by wlk-core for this backend), "cached" (by another tool), "incomplete" or
            "absent".
        revision: the commit, None if there is no snapshot.

    """

    word: Literal["pulled", "cached", "incomplete", "absent"]
    revision: str | None = None

    @property
    def usable_revision(self) -> str | None:
        """The commit whose snapshot holds the whole model, None without such a snapshot."""
        return self.revision if self.word in {"pulled", "cached"} else None


def cached_state(repo: CachedRepo, spec: BackendSpec, *, needs: Sequence[str] = ()) -> CachedState:
    """Return what the cache has of *repo* for a backend; a complete pull precedes all else."""
    known = list(records(repo=repo.repo))
    pulled = [
        record.revision
        for record in known
        if record.backend == spec.name and repo.holds(record.revision, record.files)
    ]
    if pulled:
        return CachedState(word="pulled", revision=repo.main if repo.main in pulled else pulled[0])
    main = repo.main
    if main is None or not repo.snapshot(main).is_dir():
        return CachedState(word="incomplete" if repo.folder.is_dir() else "absent")
    is_damaged = any(
        repo.size(main, name) != record.files[name]
        for record in known
        if record.revision == main
        for name in matching(record.files, spec.model_files)
    )
    is_complete = repo.is_complete(main, needs=needs, patterns=spec.model_files)
    word: Literal["cached", "incomplete"] = (
        "cached" if is_complete and not is_damaged else "incomplete"
    )
    return CachedState(word=word, revision=main)
