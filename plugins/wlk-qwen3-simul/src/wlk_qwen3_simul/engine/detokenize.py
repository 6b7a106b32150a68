"""Convert decoded tokens to words with times, and committed words to token ids."""

from __future__ import annotations

import codecs
import math
from typing import TYPE_CHECKING
import unicodedata

import attrs
import numpy as np

from wlk_core.plugins import AlignedWord
from wlk_core.streaming import is_unspaced, joined
from wlk_frameworks.decoding_loops import keep_spoken_repetitions
from wlk_qwen3_simul.engine.decoding import align_tokens
from wlk_qwen3_simul.engine.frames import FRAME_SECONDS
from wlk_qwen3_simul.engine.timing import word_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_qwen3_simul.engine.decoding import DecodingResult
    from wlk_qwen3_simul.engine.engine import Engine
    from wlk_qwen3_simul.engine.vocabulary import Vocabulary


@attrs.frozen
class WordToken:
    """A token of a word, with the call that decoded it and its index in the text of that call."""

    id: int
    call: int
    index: int


def words_from_tokens(
    result: DecodingResult,
    engine: Engine,
    audio: NDArray[np.float32],
    *,
    call: int,
    floor: float,
    preceding: str | None,
    is_last: bool,
) -> tuple[AlignedWord, ...]:
    """
    Return the words of a decoding, in seconds and frames from the start of *audio*.

    Args:
        result: the text alone, without a header.
        engine: the vocabulary and the alignment convention.
        audio: float32[n], the audio that was decoded.
        call: the number of the call that decoded the text.
        floor: the end of the committed words before this text, in seconds.
        preceding: the text that the first word is joined to, "" at the start of a transcript;
            None if the first word follows a committed word of the same buffer.
        is_last: whether the last word is complete even if the decoder emitted no end.

    """
    aligned = align_tokens(result.ids, result.steps, by_self=engine.by_self)
    tokens = keep_spoken_repetitions(aligned, [token.frame for token in aligned], result.loop)
    spans = split_words(
        [token.id for token in tokens],
        engine.vocabulary,
        is_complete=result.ended or is_last,
    )
    frames = [tuple(token.frame for token in tokens[span.first : span.end_token]) for span in spans]
    words: list[AlignedWord] = []
    times = word_times(_attended_seconds(frames), audio, floor=floor)
    for span, own_frames, (start, end) in zip(spans, frames, times, strict=True):
        text = joined(preceding, span.text.lstrip()) if preceding is not None else span.text
        preceding = None
        own = tokens[span.first : span.end_token]
        probability = float(np.mean([math.exp(min(0.0, token.logprob)) for token in own]))
        words.append(
            AlignedWord(
                start,
                end,
                text,
                probability,
                frames=own_frames,
                tokens=tuple(
                    WordToken(token.id, call, index)
                    for index, token in enumerate(own, start=span.first)
                ),
            )
        )
    return tuple(words)


def _attended_seconds(frames: list[tuple[int, ...]]) -> list[tuple[float, float]]:
    """Return the seconds of the first and last token of each word, adjusted never to go back."""
    seconds: list[tuple[float, float]] = []
    farthest = 0
    for own in frames:
        first = max(farthest, own[0])
        farthest = max(first, own[-1])
        seconds.append((first * FRAME_SECONDS, farthest * FRAME_SECONDS))
    return seconds


def forced_tokens(context: tuple[AlignedWord, ...], vocabulary: Vocabulary) -> tuple[int, ...]:
    """
    Return the ids of the context words at the beginning of a transcript.

    The first word is encoded again without its space, because a transcript begins without one.
    """
    ids = [token.id for word in context for token in word.tokens if isinstance(token, WordToken)]
    if not context or not vocabulary.bytes_of(ids[0]).startswith(b" "):
        return tuple(ids)
    first = vocabulary.encode(context[0].text.lstrip())
    return (*first, *ids[len(context[0].tokens) :])


def draft_tokens(
    context: tuple[AlignedWord, ...],
    decoded: tuple[int, ...],
    vocabulary: Vocabulary,
    *,
    call: int,
) -> tuple[int, ...]:
    """Return the tokens *decoded* by call number *call* that follow the committed words."""
    last = context[-1].tokens[-1] if context else None
    draft = decoded
    if isinstance(last, WordToken) and last.call == call:
        draft = decoded[last.index + 1 :]
    if context or not draft or not vocabulary.bytes_of(draft[0]).startswith(b" "):
        return draft
    return tuple(vocabulary.encode(vocabulary.decode(draft).lstrip()))


@attrs.frozen
class WordSpan:
    """A word with its own spacing, made of ``tokens[first:end_token]``."""

    text: str
    first: int
    end_token: int


def split_words(
    tokens: Sequence[int], vocabulary: Vocabulary, *, is_complete: bool
) -> tuple[WordSpan, ...]:
    """
    Return the words of *tokens* in order; joined, they are the whole text.

    A word begins with a space, or with a letter of a script written without spaces.  Punctuation
    belongs to the word before it.  Bytes of an unfinished character wait for the rest of it.
    Unless the text *is_complete*, its last word is left out, because more tokens may continue it.

    Each token is looked up in the vocabulary once.
    """
    words: list[WordSpan] = []
    for text, first, end in _pieces(tokens, vocabulary):
        if words and not _begins_word(words[-1].text, text):
            words[-1] = attrs.evolve(words[-1], text=words[-1].text + text, end_token=end)
        else:
            words.append(WordSpan(text, first, end))
    if words and not is_complete:
        words.pop()
    return tuple(word for word in words if word.text.strip())


def _pieces(tokens: Sequence[int], vocabulary: Vocabulary) -> list[tuple[str, int, int]]:
    """Return pieces of whole characters as (text, first, end), of as few tokens as possible."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
    pieces: list[tuple[str, int, int]] = []
    first, text = 0, ""
    for index, token in enumerate(tokens):
        text += decoder.decode(vocabulary.bytes_of(token)).replace("\ufffd", "")
        if decoder.getstate()[0]:
            continue  # the character continues in the next token
        pieces.append((text, first, index + 1))
        first, text = index + 1, ""
    return pieces


def _begins_word(previous: str, text: str) -> bool:
    """Return whether *text* begins a new word after the word *previous*."""
    if not text:
        return False
    if text[0].isspace():
        return not previous.isspace()
    if not previous.strip() or not _is_letter(text[0]):
        return False
    return is_unspaced(text[0]) or (_is_letter(previous[-1]) and is_unspaced(previous[-1]))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"
