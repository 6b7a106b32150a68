"""From what the decoder said to words with times, and from committed words back to ids."""

from __future__ import annotations

from itertools import pairwise
import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core import AttendedWord
from wlk_core.streaming import Word, joined
from wlk_qwen3_simul.audio.frames import FRAME_SAMPLES, RATE
from wlk_qwen3_simul.simul.said import said_of
from wlk_qwen3_simul.simul.times import word_times
from wlk_qwen3_simul.text.words import spell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_qwen3_simul.simul.engine import Engine
    from wlk_qwen3_simul.simul.said import Said
    from wlk_qwen3_simul.simul.speak import Spoken
    from wlk_qwen3_simul.text.vocabulary import Vocabulary

__all__ = ["Token", "draft_of", "forced_text", "told_words"]

FRAME_SECONDS = FRAME_SAMPLES / RATE


@attrs.frozen
class Token:
    """A token of a word, and which one it was of which call, so that its place is found again."""

    id: int
    call: int
    place: int


def told_words(
    spoken: Spoken,
    engine: Engine,
    audio: NDArray[np.float32],
    *,
    call: int,
    floor: float,
    before: str | None,
    is_last: bool,
) -> tuple[AttendedWord, ...]:
    """
    Return the words of a text, in seconds and frames from the start of *audio*.

    Args:
        spoken: the text alone, without a header.
        engine: whose vocabulary and heads they are.
        audio: what was heard.
        call: the number that the tokens are given.
        floor: seconds; where what was said before ends.
        before: the text that this one begins behind, "" for none; None where words stand between.
        is_last: whether a word at the end is whole although the model did not end the text.

    """
    said = _without_loop(said_of(spoken.ids, spoken.rows, by_self=engine.by_self), spoken)
    spelt = spell([one.id for one in said], engine.vocabulary, is_complete=spoken.ended or is_last)
    frames = [tuple(one.frame for one in said[word.first : word.behind]) for word in spelt]
    places: list[tuple[float, float]] = []
    farthest = 0
    for own in frames:
        farthest = max(farthest, own[0])
        first = farthest
        farthest = max(farthest, own[-1])
        places.append((first * FRAME_SECONDS, farthest * FRAME_SECONDS))
    words: list[AttendedWord] = []
    times = word_times(places, audio, floor=floor)
    for word, own, (start, end) in zip(spelt, frames, times, strict=True):
        text = joined(before, word.text.lstrip()) if before is not None else word.text
        before = None
        tokens = said[word.first : word.behind]
        likely = float(np.mean([math.exp(min(0.0, one.log_prob)) for one in tokens]))
        named = tuple(
            Token(one.id, call, place) for place, one in enumerate(tokens, start=word.first)
        )
        words.append(AttendedWord(word=Word(start, end, text, likely), frames=own, tokens=named))
    return tuple(words)


def _without_loop(said: tuple[Said, ...], spoken: Spoken) -> tuple[Said, ...]:
    """
    Return the tokens of a text that may end in a loop, as far as they were spoken.

    Who says the same thing over and over is heard farther on each time; a decoder that only repeats
    itself is not, and keeps the first round.
    """
    loop = spoken.loop
    if loop is None:
        return said
    rounds = [one.frame for one in said[loop.start : loop.end : loop.period]]
    if all(one < other for one, other in pairwise(rounds)):
        return said
    return said[: loop.start + loop.period]


def forced_text(context: tuple[AttendedWord, ...], vocabulary: Vocabulary) -> tuple[int, ...]:
    """
    Return the ids of committed words, as the model would begin with them.

    A text has no space at its start, so the first word may have other ids than it was said with.
    """
    ids = [token.id for one in context for token in one.tokens if isinstance(token, Token)]
    if not context or not vocabulary.bytes_of(ids[0]).startswith(b" "):
        return tuple(ids)
    first = vocabulary.encode(context[0].word.text.lstrip())
    return (*first, *ids[len(context[0].tokens) :])


def draft_of(
    context: tuple[AttendedWord, ...], said: tuple[int, ...], vocabulary: Vocabulary, *, call: int
) -> tuple[int, ...]:
    """Return what call number *call* said behind the words that are committed by now."""
    last = context[-1].tokens[-1] if context else None
    draft = said[last.place + 1 :] if isinstance(last, Token) and last.call == call else said
    if context or not draft or not vocabulary.bytes_of(draft[0]).startswith(b" "):
        return draft
    return tuple(vocabulary.encode(vocabulary.decode(draft).lstrip()))
