"""Themes of generated sessions: how long they are, and how often each thing happens in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LONG", "THEMES", "USUAL", "Theme"]

TINY = (0, 1, 159, 160, 161, 512, 1280, 1599, 1600, 1601)  # samples
USUAL = (1280, 8000, 16_000, 24_000, 40_000)
BIG = (80_000, 320_000, 960_000)


@attrs.frozen(kw_only=True)
class Theme:
    """How often each thing happens after a chunk, and the size of a session."""

    chunks: tuple[int, ...] = (*TINY, *USUAL)
    seconds: float = 12.0
    streams: tuple[int, int] = (1, 1)
    pauses: float = 0.06
    flushes: float = 0.04
    turns: float = 0.03
    clocks: float = 0.1
    forms: float = 0.3
    reads: float = 0.15
    faults: float = 0.0
    threads: float = 0.05
    holds: float = 0.0
    refusals: float = 0.03
    resets: float = 0.0
    warmups: float = 0.01
    neighbours: bool = False
    drains: float = 0.25
    options: float = 0.2
    habits: float = 0.4  # of the sessions: their engine has habits of models


THEMES: Mapping[str, Theme] = {
    "mixed": Theme(faults=0.03, resets=0.02, streams=(1, 2)),
    "chunks": Theme(chunks=(*TINY, 15_999, 16_000, 16_001), seconds=8.0, pauses=0.01, clocks=0.0),
    "pauses": Theme(chunks=USUAL, seconds=24.0, pauses=0.9, clocks=0.0, turns=0.0),
    "many streams": Theme(streams=(9, 9), seconds=5.0, chunks=USUAL),
    "neighbours": Theme(streams=(2, 4), neighbours=True, resets=0.05, faults=0.05, seconds=8.0),
    "faults": Theme(faults=0.6, chunks=USUAL, seconds=14.0),
    "clock": Theme(clocks=0.9, pauses=0.15, chunks=(*TINY, *USUAL)),
    "speakers": Theme(turns=0.5, pauses=0.1, chunks=USUAL, seconds=16.0),
    "monologue": Theme(chunks=(16_000, *BIG), seconds=100.0, pauses=0.0, flushes=0.0, turns=0.0,
                        clocks=0.0, refusals=0.0, resets=0.0, habits=0.9),
    "threads": Theme(threads=0.6, holds=0.4, reads=0.4, pauses=0.25, flushes=0.25, chunks=USUAL),
    "lives": Theme(resets=0.25, chunks=USUAL, seconds=16.0, flushes=0.15),
    "options": Theme(options=1.0, streams=(2, 3), seconds=8.0),
}  # fmt: skip
LONG: Mapping[str, Theme] = {
    "ten minutes": Theme(chunks=(8000, 16_000, *BIG), seconds=600.0, pauses=0.0, flushes=0.0,
                          turns=0.0, clocks=0.0, refusals=0.0),
    "sixty pauses": Theme(chunks=(16_000, 24_000), seconds=80.0, pauses=1.0, clocks=0.0),
}  # fmt: skip
