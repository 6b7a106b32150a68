"""Turn tokens and their boundaries into timed words, and correct these times by the audio."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_core.streaming import is_unspaced
from wlk_frameworks.features import (
    FRAME_SAMPLES,
    background_level,
    loud_frames,
    loudness,
    true_runs,
)
from wlk_whisper.engine.timing import ENCODER_FRAME_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.tokenizer import Tokenizer
    from numpy.typing import NDArray

W = TypeVar("W", bound=Word)

# Punctuation that joins the next word, or the previous one, as in faster_whisper/transcribe.py.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 -- the punctuation of Whisper's languages
INCOMPLETE_CHARACTER = "\ufffd"
# Frames of 10 ms, as in wlk_frameworks.features.
SPILL_FRAMES = 8  # a sound shorter than this at the edge of a span belongs to the neighbour ...
PAUSE_FRAMES = 5  # ... if a pause of at least this length separates it
SHIFT_FRAMES = 25  # how far a boundary within sound is moved to the nearest pause ...
GAP_FRAMES = 7  # ... of at least this length: longer than the closures inside most words
LOOP_WORDS = 3  # words without duration in a row: the decoder goes on without audio
LOOP_TOKENS = 3  # repeated tokens, at least; repeated words of fewer are left to the policies
LOOP_MAX_PERIOD = 16  # tokens of the longest n-gram searched for
MIN_ROUND_SECONDS = 0.1  # shorter than any word


@attrs.frozen
class WordSpan:
    """A word and the tokens it consists of: ``tokens[first:end_token]``."""

    word: Word
    first: int
    end_token: int


def spoken_tokens(
    tokens: Sequence[int], boundaries: NDArray[np.int64], *, rate: int
) -> NDArray[np.int64]:
    """
    Return the indices of *tokens* without the rounds of a loop that have no audio of their own.

    A decoder that repeats an n-gram soon has no audio left for it, and the alignment crowds the
    rounds into a few frames.  A loop ends before the first round that is too short to be spoken, at
    *rate* tokens a second; whoever repeats a phrase does so in audio.  *boundaries* are those of
    `words_from_tokens`.
    """
    kept: list[int] = []
    index = 0
    while index < len(tokens):
        period, end = _repetition(tokens, index)
        seconds = ENCODER_FRAME_SECONDS * np.diff(boundaries[index : end + 1 : period])
        is_spoken = seconds[1:] >= max(MIN_ROUND_SECONDS, period / rate)
        rounds = 1 + (len(is_spoken) if is_spoken.all() else int(is_spoken.argmin()))
        kept += range(index, end if is_spoken.all() else index + rounds * period)
        index = end
    return np.array(kept, dtype=np.int64)


def _repetition(tokens: Sequence[int], start: int) -> tuple[int, int]:
    """Return the period and the end of the loop from *start* on, those of a token without one."""
    for period in range(1, min(LOOP_MAX_PERIOD, (len(tokens) - start) // 2) + 1):
        end = start + period
        while end < len(tokens) and tokens[end] == tokens[end - period]:
            end += 1
        if end - start >= period + max(period, LOOP_TOKENS):
            return period, end
    return 1, start + 1


def words_from_tokens(
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    boundaries: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    *,
    lag_seconds: float = 0.0,
) -> tuple[WordSpan, ...]:
    """
    Return the words of *tokens*, in seconds from the start of the audio.

    Punctuation is joined to its word and changes neither the word's times nor its probability,
    which is the mean of its tokens'.  Text that follows a word without a space belongs to it
    ("1,000", "forty-two"), except in scripts without spaces.  Words end before an incomplete
    character.

    *tokens* are text only, without timestamps and the end of text.  *boundaries*,
    int64[tokens + 1], are the encoder frames where each begins and where the last one ends; they
    are later than the sound by *lag_seconds*.  *probabilities* are float64[tokens].
    """
    if not tokens:
        return ()
    times = boundaries * ENCODER_FRAME_SECONDS
    times = np.clip(times - lag_seconds, 0.0, times[-1])
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    spans: list[WordSpan] = []
    first = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        if INCOMPLETE_CHARACTER in text:
            break
        end_token = first + len(group)
        start, end = times[first], times[end_token]
        probability = min(1.0, max(0.0, float(probabilities[first:end_token].mean())))
        spans.append(WordSpan(Word(float(start), float(end), text, probability), first, end_token))
        first = end_token
    return tuple(span for span in _merge_punctuation(spans) if span.word.text.strip())


def _merge_punctuation(spans: list[WordSpan]) -> list[WordSpan]:
    """Return *spans* with opening marks joined to the next word, continuations to the previous."""
    merged: list[WordSpan] = []
    for span in reversed(spans):
        text = span.word.text
        if merged and text.startswith(" ") and text.strip() in PREPENDED:
            word = attrs.evolve(merged[-1].word, text=text + merged[-1].word.text)
            merged[-1] = attrs.evolve(merged[-1], word=word, first=span.first)
        else:
            merged.append(span)
    words: list[WordSpan] = []
    for span in reversed(merged):
        if words and _continues(words[-1].word.text, span.word.text):
            words[-1] = _extended(words[-1], span)
        else:
            words.append(span)
    return words


def _continues(before: str, text: str) -> bool:
    """Return whether *text* belongs to the word *before* it."""
    if before[-1].isspace() or text[0].isspace():
        return False
    return text in APPENDED or not (is_unspaced(before[-1]) or is_unspaced(text[0]))


def _extended(span: WordSpan, piece: WordSpan) -> WordSpan:
    """Return *span* extended by *piece*, whose time counts only if it has letters or digits."""
    text = span.word.text + piece.word.text
    if not any(character.isalnum() for character in piece.word.text):
        return attrs.evolve(
            span, word=attrs.evolve(span.word, text=text), end_token=piece.end_token
        )
    old, new = span.end_token - span.first, piece.end_token - piece.first
    mean = ((span.word.probability or 0) * old + (piece.word.probability or 0) * new) / (old + new)
    word = Word(span.word.start, piece.word.end, text, mean)
    return attrs.evolve(span, word=word, end_token=piece.end_token)


def drop_loop(words: Sequence[W]) -> tuple[W, ...]:
    """
    Return *words* without those that the decoder repeated without audio.

    Words of a loop have no duration, because the alignment has no audio for them; LOOP_WORDS of
    them in a row are a loop.  It is dropped with all that follows, unless at least as many words
    with audio come before the next loop: a window that begins in the middle of a word can make the
    decoder repeat a clause before it goes on.
    """
    sections: list[list[W]] = [[]]  # the words between loops
    for has_audio, group in groupby(words, _has_audio):
        run = list(group)
        if not has_audio and len(run) >= LOOP_WORDS:
            sections.append([])
        else:
            sections[-1] += run
    kept, *later_sections = sections
    for section in later_sections:
        if len(list(filter(_has_audio, section))) < LOOP_WORDS:
            break
        kept = kept + section
    return tuple(kept)


def _has_audio(word: Word) -> bool:
    return word.end > word.start


def tighten_to_speech(words: Sequence[W], audio: NDArray[np.float32]) -> tuple[W, ...]:
    """
    Return *words* without the silence that the alignment included in their spans.

    Alignment locates the boundary of two words to about 0.2 s, and puts the pause between them in
    the span of one.  A boundary within sound is therefore moved to a nearby pause, if there is one.
    Quiet frames at the edges of a span are removed, and so is a short sound at the very edge that a
    pause separates from the word, because it belongs to the neighbour.  In audio without pauses the
    model's times remain.  Times count from the start of *audio*, float32[n].
    """
    decibels = loudness(audio)
    if len(decibels) == 0:
        return tuple(words)
    background = background_level(decibels)
    moved = _move_boundaries(words, decibels, background)
    return tuple(_tighten(word, decibels, background) for word in moved)


def _move_boundaries(
    words: Sequence[W], decibels: NDArray[np.float64], background: float
) -> list[W]:
    """Return *words* with each boundary that two of them share moved into a nearby pause."""
    moved = list(words)
    reach = SHIFT_FRAMES + GAP_FRAMES  # includes a pause that begins at the limit
    for index in range(1, len(moved)):
        before, after = moved[index - 1], moved[index]
        boundary = _frame(after.start)
        if after.start - before.end > FRAME_SAMPLES / SAMPLE_RATE:
            continue  # the model itself found a pause
        first = max(_frame(before.middle), boundary - reach)
        end_frame = min(_frame(after.middle), boundary + reach)
        pauses = true_runs(~loud_frames(decibels[first:end_frame], background=background))
        pauses = [(begin, end) for begin, end in pauses if end - begin >= GAP_FRAMES]
        position = boundary - first
        if not pauses or any(begin <= position <= end for begin, end in pauses):
            continue
        begin, end = min(
            pauses, key=lambda pause: min(abs(pause[0] - position), abs(pause[1] - position))
        )
        time = (first + (begin + end) // 2) * FRAME_SAMPLES / SAMPLE_RATE
        moved[index - 1] = attrs.evolve(before, end=time)
        moved[index] = attrs.evolve(after, start=time)
    return moved


def _tighten(word: W, decibels: NDArray[np.float64], background: float) -> W:
    first, end_frame = _frame(word.start), _frame(word.end)
    span = decibels[first:end_frame]
    if len(span) == 0:
        return word
    sounds = true_runs(loud_frames(span, background=background))
    if len(sounds) > 1 and sounds[0][0] == 0 and _is_spill(sounds[0], sounds[1][0] - sounds[0][1]):
        sounds = sounds[1:]
    if (
        len(sounds) > 1
        and sounds[-1][1] == len(span)
        and _is_spill(sounds[-1], sounds[-1][0] - sounds[-2][1])
    ):
        sounds = sounds[:-1]
    start = max(word.start, (first + sounds[0][0]) * FRAME_SAMPLES / SAMPLE_RATE)
    end = min(word.end, (first + sounds[-1][1]) * FRAME_SAMPLES / SAMPLE_RATE)
    return attrs.evolve(word, start=start, end=max(start, end))


def _frame(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / FRAME_SAMPLES)


def _is_spill(sound: tuple[int, int], pause: int) -> bool:
    return sound[1] - sound[0] < SPILL_FRAMES and pause >= PAUSE_FRAMES
