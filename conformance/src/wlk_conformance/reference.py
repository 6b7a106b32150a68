"""The scripted backend with every optional seam, so that no rule is out of reach on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.testing import ScriptedBackend

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ReferenceBackend"]


@attrs.define
class ReferenceBackend(ScriptedBackend):
    """A scripted backend whose engine can be held, see SupportsEngineGate."""

    before_call: Callable[[], None] | None = None

    def _begin_call(self) -> None:
        if self.before_call is not None:
            self.before_call()
        super()._begin_call()
