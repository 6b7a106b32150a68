"""
The AlignAtt engine call: the text behind what is committed, and where each token was heard.

Wang et al., "Simul-Whisper: Attention-Guided Streaming Whisper with Truncation Detection"
(Interspeech 2024), and SimulStreaming (Machacek and Polak, 2025).  The decoder is made to begin
with the committed words of the buffer and goes on from there; the policy is the core's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core import Attended, AttendedWord
from wlk_whisper.alignment import settle_times, without_loops
from wlk_whisper.decoder.budget import token_budget
from wlk_whisper.decoder.engine import NO_SPEECH
from wlk_whisper.decoder.features import SAMPLES_PER_FRAME
from wlk_whisper.decoder.network import POSITION_FRAMES
from wlk_whisper.decoder.search import decode
from wlk_whisper.decoder.timing import boundaries
from wlk_whisper.decoder.words import spell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.tokenizer import Tokenizer
    from numpy.typing import NDArray

    from wlk_core.streaming import Word
    from wlk_whisper.decoder.engine import Engine, StreamSettings
    from wlk_whisper.decoder.search import Decoded
    from wlk_whisper.decoder.words import Spelt

__all__ = ["FRAME_SAMPLES", "AttendSettings", "attend"]

FRAME_SAMPLES = SAMPLES_PER_FRAME * POSITION_FRAMES  # of one encoder position: 20 ms
FEW_TOKENS = 64  # new ones that there is room for, however much text was committed
RATE = 16_000


@attrs.frozen(kw_only=True)
class AttendSettings:
    """What a stream with AlignAtt asked for beyond what all streams do."""

    static_prompt: str = ""  #: stays before the audio for the whole stream
    max_context_tokens: int = 223  #: of the text before the audio, the static prompt excluded
    rewind_frames: int = 200  #: attention that jumps back farther ends the text


def attend(
    audio: NDArray[np.float32],
    *,
    engine: Engine,
    stream: StreamSettings,
    settings: AttendSettings,
    context: tuple[AttendedWord, ...],
    prompt: str,
    language: str | None,
    is_last: bool,
) -> Attended:
    """
    Return what is said in float32[n] at 16 kHz, 0 < n <= 30 s, behind the words of *context*.

    One pass without timestamps: its attention tells both the frame of each token and, warped in
    time, where words begin and end.  Nothing is kept for the next call: what the decoder made of
    earlier audio is not what it makes of longer audio.
    """
    encoded, work = engine.encode(audio, is_fitted=stream.is_fitted)
    if language is None:
        language, detected = engine.detect_language(encoded)
        work += detected
    tokenizer = engine.tokenizer(language, stream.task)
    heard_end = context[-1].word.end if context else 0.0
    unheard = len(audio) - round(min(max(0.0, heard_end), len(audio) / RATE) * RATE)
    wanted = token_budget(unheard, language, task=stream.task)
    before, forced, budget = _prompt(
        tokenizer,
        context,
        prompt,
        settings=settings,
        wanted=wanted,
        room=engine.network.text_positions,
    )
    rules = engine.rules(tokenizer, has_timestamps=False)
    if forced:
        # The end may come right behind committed words: they are the beginning of the text.
        rules = attrs.evolve(rules, begin_suppressed=np.zeros(0, dtype=np.int64))
    positions = max(1, -(-len(audio) // SAMPLES_PER_FRAME) // POSITION_FRAMES)
    found = decode(
        engine.network,
        encoded,
        [*before, *forced],
        rules=rules,
        budget=budget,
        beam_size=stream.beam_size,
        attend=True,
        positions=positions,
        halt=None if is_last else partial(_is_astray, rewind_frames=settings.rewind_frames),
    )
    work += found.work
    if found.no_speech > NO_SPEECH and not forced:
        return Attended(language=language, work=work)
    words, spelt = _words(tokenizer, found, first=len(before) - 1, forced=forced, is_last=is_last)
    work = attrs.evolve(work, detokenised_ids=(work.detokenised_ids or 0) + spelt)
    kept = without_loops([entry.word for entry, _ in words])
    settled = settle_times([*_of(context), *kept], audio)[len(context) :]
    return Attended(
        words=tuple(
            attrs.evolve(attended, word=word)
            for word, (_, attended) in zip(settled, words, strict=False)
        ),
        language=language,
        work=work,
    )


def _of(context: tuple[AttendedWord, ...]) -> list[Word]:
    return [one.word for one in context]


def _is_astray(_: Sequence[int], frames: Sequence[int], *, rewind_frames: int) -> bool:
    """Tell whether the newest token was heard too far back: no word from there on is final."""
    return frames[-1] < max(frames) - rewind_frames


def _prompt(
    tokenizer: Tokenizer,
    context: tuple[AttendedWord, ...],
    prompt: str,
    *,
    settings: AttendSettings,
    wanted: int,
    room: int,
) -> tuple[list[int], list[int], int]:
    """
    Return the tokens before the text, those of the text that are forced, and how many may follow.

    Of *room* positions the committed words are given theirs first, but for what a few new words
    need; then the *wanted* new ones; the text before the audio takes what is left, at most half of
    all as in openai/whisper, and its oldest part gives way.
    """
    start = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
    left = room - len(start)
    text = [token for one in context for token in one.tokens if isinstance(token, int)]
    text = text[max(0, len(text) - (left - min(wanted, FEW_TOKENS))) :]
    left -= len(text)
    budget = min(wanted, left)
    left = min(left - budget, room // 2) - 1
    static = tokenizer.encode(f" {settings.static_prompt}") if settings.static_prompt else []
    static = static[: max(0, left)]
    # No prompt means no prompt tokens: not even an empty one (defect B57).
    scrolling = tokenizer.encode(f" {prompt}") if prompt else []
    most = min(len(scrolling), settings.max_context_tokens, max(0, left - len(static)))
    previous = [*static, *scrolling[len(scrolling) - most :]]
    before = [*([tokenizer.sot_prev, *previous] if previous else []), *start]
    return before, text, budget


def _spoken(found: Decoded) -> int:
    """
    Return how many tokens of a text that may end in a loop were spoken.

    Who says the same thing over and over is heard farther on each time; a decoder that only repeats
    itself is not, and keeps the first round.
    """
    loop = found.loop
    if loop is None:
        return len(found.tokens)
    rounds = found.frames[loop.start : loop.end : loop.period]
    if len(rounds) and bool(np.all(np.diff(rounds) > 0)):
        return len(found.tokens)
    return loop.start + loop.period


def _words(
    tokenizer: Tokenizer, found: Decoded, *, first: int, forced: Sequence[int], is_last: bool
) -> tuple[list[tuple[Spelt, AttendedWord]], int]:
    """Return the words behind the forced ones, and how many ids were made text for them."""
    tokens = found.tokens[: _spoken(found)]
    if not tokens or found.attention is None:
        return [], 0
    bounds = boundaries(
        found.attention, first=first, positions=found.attention.shape[-1], chose_nothing=0
    )[len(forced) :]
    # A last token that was never fed has no end yet.
    bounds = np.append(bounds, bounds[-1])[: len(tokens) + 1]
    likely = np.exp(found.log_probs[: len(tokens)].astype(np.float64))
    spelt = spell(tokenizer, tokens, bounds, likely)
    if not found.ended and not is_last:
        spelt = spelt[:-1]  # it may go on: the next call will tell
    words = [
        AttendedWord(
            word=entry.word,
            frames=tuple(int(frame) for frame in found.frames[entry.first : entry.behind]),
            tokens=tuple(tokens[entry.first : entry.behind]),
        )
        for entry in spelt
    ]
    return list(zip(spelt, words, strict=True)), 2 * len(tokens)
