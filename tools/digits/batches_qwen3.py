"""Training batches for Qwen3-ASR: audio between a prompt and the text that it should become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from features import disturb
from features_qwen3 import CHUNK_FRAMES, MELS, normalise, raw_log_mel, token_spans
from mixing import Mixture, Word
import numpy as np
from recordings import SAMPLE_RATE
from rng import happens
from vocabulary_qwen3 import END, FIRST_WORDS, NAMES, OTHER, PAD, SUFFIX, WORDS, header, prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from features import Features
    from features_qwen3 import Spans
    from mixing import Mixer
    from numpy.typing import NDArray

IGNORED = -100
NOTHING = 10  # class of audio without a digit
MOST_WORDS = 47  # the highest count of words; more count as this many
SHORTEST_SAMPLES = 8_000  # some engines pad shorter audio to half a second, others do not
LINGER_SECONDS = 0.16  # how long after its end a word still counts as the latest one
PEAK = 0.35  # place in a word with the most attention: early, so that the peak dates its start
EDGE = 0.4  # attention at a word's edges as a share of that at the peak
LONGEST_PROMPT = 24
CUT_SHARE = 0.12  # share of buffers with CUT_WORDS or more that begin inside a committed word
CUT_WORDS = 3
LOUDER_DECADES = 2.0  # by which earlier audio of a stream may have been louder than the buffer

_ENGLISH, _NONE, *_OTHERS = NAMES


@frozen(kw_only=True)
class Draft:
    """What one mixture becomes: U compact ids, and what each row but the last should predict."""

    ids: tuple[int, ...]
    outputs: tuple[int, ...]  #: U: `ids[i + 1]` if row i should predict it, else IGNORED
    first_audio: int  #: row of the first embedding of the audio
    first_word: int  #: row that predicts the first word


@frozen(kw_only=True)
class AudioTargets:
    """The words in the audio of each of T embeddings, all int64[T]."""

    digits: NDArray[np.int64]  #: the digit spoken in it, or NOTHING
    latest: NDArray[np.int64]  #: the digit of which at least half has been spoken, or NOTHING
    counts: NDArray[np.int64]  #: how many words have been spoken by at least half at its end


@frozen(kw_only=True)
class TextBatch:
    """B mixtures, padded on the right to S mel frames and L rows."""

    features: NDArray[np.float32]  #: B, 128, S
    mask: NDArray[np.int64]  #: B, S: 1 for frames of audio
    ids: NDArray[np.int64]  #: B, L
    outputs: NDArray[np.int64]  #: B, L: compact ids or IGNORED
    audio: AudioTargets  #: of all embeddings, one mixture after another
    look_rows: NDArray[np.int64]  #: N, 2: mixture and row that should attend to a word
    looks: NDArray[np.float32]  #: N, L: where it should look


def draw_text_batch(mixer: Mixer, seconds: float, size: int) -> TextBatch:
    """Draw *size* mixtures of at most *seconds*."""
    rng = mixer.rng
    mixtures, have_prefix = [], []
    for _ in range(size):
        mixture = mixer.draw(seconds)
        is_cut = len(mixture.words) >= CUT_WORDS and happens(CUT_SHARE, rng)
        mixtures.append(cut_first_word(mixture, rng.uniform(0.2, 0.8)) if is_cut else mixture)
        have_prefix.append(is_cut or happens(0.15, rng))
    features = [_features(mixture, rng) for mixture in mixtures]
    spans = [token_spans(mel.shape[1]) for mel in features]
    drafts = [
        make_draft(mixture, len(span), rng, is_first_given=has_prefix)
        for mixture, span, has_prefix in zip(mixtures, spans, have_prefix, strict=True)
    ]
    audio = [mark_audio(mixture.words, span) for mixture, span in zip(mixtures, spans, strict=True)]
    rows = max(len(draft.ids) for draft in drafts)
    mel, mask = _stack(features)
    positions, looks = _looks(mixtures, spans, drafts, rows)
    return TextBatch(
        features=mel,
        mask=mask,
        ids=_pad([draft.ids for draft in drafts], rows, END),
        outputs=_pad([draft.outputs for draft in drafts], rows, IGNORED),
        audio=AudioTargets(
            digits=np.concatenate([labels.digits for labels in audio]),
            latest=np.concatenate([labels.latest for labels in audio]),
            counts=np.concatenate([labels.counts for labels in audio]),
        ),
        look_rows=positions,
        looks=looks,
    )


def cut_first_word(mixture: Mixture, share: float) -> Mixture:
    """
    Return a mixture cut inside its first word, of which *share* is lost.

    Streams are cut at whole windows, even inside a word.  The word is kept if its middle is.
    """
    first = mixture.words[0]
    cut = first.start + share * (first.end - first.start)
    words = [
        Word(digit=word.digit, start=max(word.start - cut, 0.0), end=word.end - cut)
        for word in mixture.words
        if (word.start + word.end) / 2 >= cut
    ]
    audio = mixture.audio[int(cut * SAMPLE_RATE) :]
    return Mixture(audio=audio, words=tuple(words), is_cut=mixture.is_cut)


def make_draft(
    mixture: Mixture, tokens: int, rng: np.random.Generator, *, is_first_given: bool = False
) -> Draft:
    """
    Return the rows of a mixture whose audio makes *tokens* embeddings.

    In half of the drafts the header is a target, else it is given.  A given header names another
    language in a tenth of the cases, and English digits follow all the same.  Without speech, a
    target header names no language, and the end follows a given header.  If the first word is given
    too, as after a cut, it may begin with a space.
    """
    digits = [word.digit for word in mixture.words]
    is_given = happens(0.5, rng)
    language = _ENGLISH if digits else _NONE
    if is_given:
        language = int(rng.choice(_OTHERS)) if happens(0.1, rng) else _ENGLISH
    opening = (*prefix(_prompt(rng)), *[PAD] * tokens, *SUFFIX)
    head = header(language)
    text = [*(WORDS[digit] for digit in digits), END]
    is_first_given = is_first_given and len(digits) > 1
    if digits and not (is_first_given and happens(0.7, rng)):
        text[0] = FIRST_WORDS[digits[0]]
    ids = (*opening, *head, *text)
    first_text = len(opening) + len(head)
    outputs = [IGNORED] * len(ids)
    first_asked = first_text if is_given else len(opening)
    outputs[first_asked - 1 : -1] = ids[first_asked:]
    if is_first_given:
        outputs[first_text - 1] = IGNORED
    return Draft(
        ids=ids,
        outputs=tuple(outputs),
        first_audio=len(opening) - len(SUFFIX) - tokens,
        first_word=first_text - 1,
    )


def _prompt(rng: np.random.Generator) -> tuple[int, ...]:
    """Return text before the audio that is unrelated to it: digits, and unknown words."""
    if happens(0.7, rng):
        return ()
    numbers = rng.integers(0, 10, int(rng.integers(1, LONGEST_PROMPT)))
    strange = rng.random(len(numbers)) < rng.choice([0.0, 0.5, 1.0])
    prompt = [OTHER if odd else WORDS[digit] for digit, odd in zip(numbers, strange, strict=True)]
    if not strange[0] and happens(0.5, rng):
        prompt[0] = FIRST_WORDS[numbers[0]]
    return tuple(prompt)


def mark_audio(words: Sequence[Word], spans: Spans) -> AudioTargets:
    """Return the words of each embedding of the audio that contains *words*."""
    starts, ends = spans.T
    digits = np.full(len(spans), NOTHING, np.int64)
    latest = np.full(len(spans), NOTHING, np.int64)
    counts = np.zeros(len(spans), np.int64)
    for word in words:
        centres, middle = (starts + ends) / 2, (word.start + word.end) / 2
        digits[(centres >= word.start) & (centres < word.end)] = word.digit
        latest[(ends >= middle) & (starts < word.end + LINGER_SECONDS)] = word.digit
        counts += ends >= middle
    return AudioTargets(digits=digits, latest=latest, counts=np.minimum(counts, MOST_WORDS))


def word_look(word: Word, spans: Spans) -> NDArray[np.float32]:
    """Return float32[T], summing to 1: where the row that predicts a word should look."""
    starts, ends = spans.T
    overlap = np.clip(np.minimum(ends, word.end) - np.maximum(starts, word.start), 0.0, None)
    length = max(word.end - word.start, 1e-3)
    share = np.clip(((starts + ends) / 2 - word.start) / length, 0.0, 1.0)
    slope = np.where(share < PEAK, share / PEAK, (1 - share) / (1 - PEAK))
    look = overlap * (EDGE + (1 - EDGE) * slope)
    if look.sum() <= 0:  # a word so short that no embedding overlaps it
        look[np.argmin(np.abs((starts + ends) / 2 - word.start))] = 1.0
    return (look / look.sum()).astype(np.float32)


def _looks(
    mixtures: Sequence[Mixture], spans: Sequence[Spans], drafts: Sequence[Draft], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    positions, looks = [], []
    for number, (mixture, span, draft) in enumerate(zip(mixtures, spans, drafts, strict=True)):
        for index, word in enumerate(mixture.words):
            look = np.zeros(rows, np.float32)
            look[draft.first_audio : draft.first_audio + len(span)] = word_look(word, span)
            positions.append((number, draft.first_word + index))
            looks.append(look)
    return (
        np.asarray(positions, np.int64).reshape(-1, 2),
        np.asarray(looks, np.float32).reshape(-1, rows),
    )


def _features(mixture: Mixture, rng: np.random.Generator) -> Features:
    audio = mixture.audio
    if len(audio) < SHORTEST_SAMPLES and happens(0.5, rng):
        audio = np.pad(audio, (0, SHORTEST_SAMPLES - len(audio)))
    louder = rng.uniform(0.0, LOUDER_DECADES) if happens(0.2, rng) else 0.0
    return normalise(disturb(raw_log_mel(audio), rng), louder=louder)


def _stack(features: Sequence[Features]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    longest = max(mel.shape[1] for mel in features)
    frames = -(-longest // CHUNK_FRAMES) * CHUNK_FRAMES
    batch = np.zeros((len(features), MELS, frames), np.float32)
    mask = np.zeros((len(features), frames), np.int64)
    for index, mel in enumerate(features):
        batch[index, :, : mel.shape[1]] = mel
        mask[index, : mel.shape[1]] = 1
    return batch, mask


def _pad(rows: Sequence[Sequence[int]], length: int, filler: int) -> NDArray[np.int64]:
    padded = np.full((len(rows), length), filler, np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded
