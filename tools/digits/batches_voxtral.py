"""Training batches in Voxtral Realtime's streaming format: a token for every 80 ms of audio."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen
import numpy as np
from rng import happens

from wlk_frameworks.features import LogMel

if TYPE_CHECKING:
    from mixing import Mixer, Mixture
    from numpy.typing import NDArray

PLUGINS = Path(__file__).parents[2] / "plugins"
#: The shipped checkpoint; training writes new weights for its tokenizer.
BUNDLED = PLUGINS / "wlk-voxtral-hf/src/wlk_voxtral_hf/digits"
#: A tokenizer of Mistral's kind that is just large enough to spell the digits.
TEKKEN: dict[str, Any] = json.loads((BUNDLED / "tekken.json").read_text(encoding="utf-8"))
#: Pieces of each digit's name: longer words come in two, as words of a real vocabulary do.
PIECES = (
    (" ze", "ro"), (" one",), (" two",), (" th", "ree"), (" fo", "ur"), (" five",), (" six",),
    (" se", "ven"), (" eight",), (" ni", "ne"),
)  # fmt: skip
# Ids to which the format gives a meaning; they are those of the real tokenizer.
BOS_ID, EOS_ID, PAD_ID, WORD_ID = 1, 2, 32, 33
SPECIALS = TEKKEN["config"]["default_num_special_tokens"]  # control tokens, before all others
LEFT_PAD = TEKKEN["audio"]["streaming_n_left_pad_tokens"]  # steps of silence before the audio
STEP_SAMPLES = 1280  # 80 ms

DELAYS = (3, 6, 6, 10)  # steps; the default is drawn twice as often
NOTHING = 10  # class of a step without a digit
TAIL_STEPS = 11  # after the delay: the step of the prompt, and those of a long word
SHORT_PAD = 8  # steps; positions are relative, so most batches need less leading silence
STEP_SECONDS = 0.08

_LOG_MEL = LogMel()
_BEFORE, _AFTER = 200, 40  # samples that the outermost frames reach beyond their steps
_FLOOR = (1.5 - 8.0 + 4.0) / 4.0  # the value of silence


def word_ids(digit: int) -> tuple[int, ...]:
    """Return the ids that write a digit, its leading space included."""
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in TEKKEN["vocab"]}
    return tuple(SPECIALS + ranks[piece.encode()] for piece in PIECES[digit])


_WORD_IDS = tuple(map(word_ids, range(10)))


@frozen(kw_only=True)
class StreamBatch:
    """B streams of N steps; the first `prompt` ids are given, the others are to be predicted."""

    features: NDArray[np.float32]  #: B, 128, 8 N
    ids: NDArray[np.int64]  #: B, N
    digits: NDArray[np.int64]  #: B, N: the digit that ends about here, or NOTHING
    delay: int
    prompt: int


def draw_stream_batch(mixer: Mixer, seconds: float, size: int) -> StreamBatch:
    """Draw *size* mixtures of at most *seconds*, all with one delay."""
    rng = mixer.rng
    delay = int(rng.choice(DELAYS))
    pad = SHORT_PAD if happens(0.7, rng) else LEFT_PAD
    mixtures = [mixer.draw(seconds) for _ in range(size)]
    audio_steps = max(math.ceil(len(mixture.audio) / STEP_SAMPLES) for mixture in mixtures)
    steps = pad + audio_steps + delay + TAIL_STEPS
    features = np.stack([_features(mixture, pad, steps, rng) for mixture in mixtures])
    return StreamBatch(
        features=features,
        ids=np.stack([stream_ids(mixture, steps, delay, pad) for mixture in mixtures]),
        digits=np.stack([_mark(mixture, steps, pad) for mixture in mixtures]),
        delay=delay,
        prompt=1 + pad + delay,
    )


def stream_ids(mixture: Mixture, steps: int, delay: int, pad: int = LEFT_PAD) -> NDArray[np.int64]:
    """
    Return the ids of all steps: the prompt, then the text, delayed.

    The token *k* steps after the prompt stands for the audio up to ``80 (k + 1)`` ms.  WORD_ID
    announces a word where it ends, and its pieces follow, one a step.
    """
    prompt = 1 + pad + delay
    ids = np.full(steps, PAD_ID, np.int64)
    ids[0] = BOS_ID
    free = 0
    for word in mixture.words:
        step = max(math.ceil(word.end / STEP_SECONDS - 1e-6) - 1, free)
        pieces = (WORD_ID, *_WORD_IDS[word.digit])
        places = ids[prompt + step : prompt + step + len(pieces)]  # fewer at the end
        places[:] = pieces[: len(places)]
        free = step + len(pieces)
    return ids


def stream_features(audio: NDArray[np.float32], steps: int) -> NDArray[np.float32]:
    """Return float32[128, 8 steps] of audio with silence around it."""
    padded = np.zeros(_BEFORE + steps * STEP_SAMPLES + _AFTER, np.float32)
    padded[_BEFORE : _BEFORE + len(audio)] = audio
    return _LOG_MEL(padded).T


def disturb_mel(mel: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return float32[mels, frames] from another vocal tract through another microphone."""
    mels = len(mel)
    if happens(0.7, rng):
        bins = np.clip(np.arange(mels) * (1 + rng.uniform(-0.12, 0.12)), 0, mels - 1.001)
        low = bins.astype(int)
        share = (bins - low)[:, None].astype(np.float32)
        mel = mel[low] * (1 - share) + mel[low + 1] * share
    angles = np.arange(mels) / mels * np.pi
    sizes = (0.06, 0.04, 0.025, 0.015)  # in units of four decades, as features are
    tilt = sum(rng.normal(0, size) * np.cos(k * angles) for k, size in enumerate(sizes, start=1))
    mel = np.where(mel > _FLOOR + 0.02, mel + np.asarray(tilt)[:, None], mel)
    if happens(0.2, rng):
        first = rng.integers(0, mels - 12)
        mel[first : first + rng.integers(1, 13)] = _FLOOR
    return np.maximum(mel, _FLOOR).astype(np.float32)


def _features(
    mixture: Mixture, pad: int, steps: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    padded = np.concatenate([np.zeros(pad * STEP_SAMPLES, np.float32), mixture.audio])
    return disturb_mel(stream_features(padded, steps), rng)


def _mark(mixture: Mixture, steps: int, pad: int) -> NDArray[np.int64]:
    """Return for each step the digit whose second half lies in it, or NOTHING."""
    digits = np.full(steps, NOTHING, np.int64)
    for word in mixture.words:
        first = pad + int((word.start + word.end) / 2 / STEP_SECONDS)
        digits[first : pad + math.ceil(word.end / STEP_SECONDS) + 1] = word.digit
    return digits
