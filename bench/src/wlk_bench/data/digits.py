"""The digit clips of wlk_conformance.testing, and streams composed of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wlk_bench.data.sample import CHAPTER_GAP_SECONDS, Sample
from wlk_bench.reference import Reference, ReferenceWord
from wlk_conformance.testing import clip_names, connected_digits, load_clip

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_conformance.testing import Clip

COMPOSED = 24  #: streams composed of single digits, besides the clips themselves
_WORDS = 10  # digits in a composed stream: about seven seconds
_SEED = 1000  # far from the seeds of the tests
_LONG_SEED = 100_000
_PER_CHAPTER = 12


def digits() -> tuple[Sample, ...]:
    """
    Return the clips that ship with wlk-conformance, then the composed streams, with exact times.

    Audio and words depend only on the release of wlk-conformance.  Composed streams consist of
    digits cut from the clips, so the 33 streams of the set are not 33 independent recordings.
    """
    clips = [_sample(name, "clips", partial(load_clip, name)) for name in clip_names()]
    composed = [
        _sample(
            f"composed-{index:02}",
            f"composed-{index // _PER_CHAPTER}",
            partial(connected_digits, _WORDS, seed=_SEED + index),
        )
        for index in range(COMPOSED)
    ]
    return (*clips, *composed)


def long_digits(minutes: float) -> tuple[Sample, ...]:
    """
    Return the utterances of one stream of at least that many minutes, gaps included.

    A long stream shows whether work and memory grow.
    """
    parts: list[Sample] = []
    seconds = 0.0
    while seconds < 60.0 * minutes:
        index = len(parts)
        load = partial(connected_digits, _WORDS, seed=_LONG_SEED + index)
        parts.append(_sample(f"part-{index:04}", f"{minutes:g}-minutes", load))
        seconds += parts[-1].seconds + CHAPTER_GAP_SECONDS
    return tuple(parts)


def _sample(name: str, group: str, load: Callable[[], Clip]) -> Sample:
    clip = load()
    return Sample(
        id=name,
        audio=lambda: iter([load().audio]),
        seconds=clip.seconds,
        reference=Reference(
            text=clip.text,
            words=tuple(ReferenceWord(w.text.strip(), w.start, w.end) for w in clip.words),
        ),
        group=group,
        speaker=name,
    )
