"""The hypothesis: timed like tokens, after what is committed, empty after a flush."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wlk_conformance.sessions.invariants.committed import check_declared, check_text
from wlk_conformance.sessions.violation import Violation
from wlk_core import EPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_core import BackendSpec

__all__ = ["check_hypothesis"]


def check_hypothesis(
    shown: Any,
    spec: BackendSpec,
    language: str | None,
    *,
    committed_end: float | None,
    audio_time: float,
    is_flushed: bool,
) -> Iterator[Violation]:
    """Check what get_buffer returned; `is_flushed` where nothing came since the last flush."""
    tokens = shown.tokens
    if is_flushed and tokens:
        yield Violation("HYP-03", f"after a flush the hypothesis is {shown.text!r}")
        return
    if shown.text != "".join(token.text for token in tokens):
        yield Violation("COM-03", f"the hypothesis {tokens} reads {shown.text!r}")
    before = 0.0
    for token in tokens:
        where = f"the hypothesis has {token.text!r} at {token.start:.3f}-{token.end:.3f} s"
        problem = check_text(token) or check_declared(token, spec, language)
        if problem is not None:
            yield Violation(*problem)
        elif not (math.isfinite(token.start) and math.isfinite(token.end)):
            yield Violation("TIME-01", f"{where}: no time")
        elif token.start >= audio_time:
            yield Violation("COM-06", f"{where}, the audio ends at {audio_time:.3f} s")
        elif not 0 <= token.start <= token.end <= audio_time + EPS:
            yield Violation("TIME-01", f"{where}, the audio ends at {audio_time:.3f} s")
        elif committed_end is not None and token.start < committed_end - EPS:
            yield Violation("HYP-02", f"{where}, committed text ends at {committed_end:.3f} s")
        elif token.start < before:
            yield Violation("TIME-02", f"{where}, the token before it starts at {before:.3f} s")
        else:
            before = token.start
            continue
        return
