"""The scripted backend with every optional seam, so that no rule is out of reach on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.testing import ScriptedBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.online import Hypothesis

__all__ = ["ReferenceBackend"]


@attrs.define
class ReferenceBackend(ScriptedBackend):
    """A scripted backend whose engine can be held, see SupportsEngineGate."""

    before_call: Callable[[], None] | None = None

    def _transcribe(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None
    ) -> Hypothesis:
        if self.before_call is not None:
            self.before_call()
        return super()._transcribe(audio, prompt=prompt, language=language)
