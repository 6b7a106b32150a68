"""The clips whose words and times are compared with what was spoken in the contract tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus

__all__ = ["known_clips", "word_error_rate"]

SEEDS = (26, 27, 28)
WORDS = 12  # in each clip
WORD_ERRORS = 0.1  # share of the words that a model gets wrong, where its spec declares none
LEAD = 1.2  # seconds of quiet before the first word


def word_error_rate(wlk: BackendUnderTest) -> float:
    """Return the share of words by which two decodings of the same speech may differ."""
    return wlk.bounds.get("wer", WORD_ERRORS)


def known_clips(wlk: BackendUnderTest) -> Iterator[Stimulus]:
    """Yield the clips; their words are known to models that are declared to recognise them."""
    for seed in SEEDS:
        yield wlk.speech(WORDS, seed=seed, gap=(0.1, 0.6), lead=LEAD)
