"""Make the project's own clips: synthetic voices speaking digits, with exact word times.

    python tools/digits/make_clips.py --output conformance/src/wlk_conformance/testing/clips

Every digit is rendered alone, trimmed and placed, so that its times are known by construction. No
checkpoint is trained on a voice with the settings used here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from attrs import frozen
from augment import fade
from mixing import Mixture, assemble
import numpy as np
from recordings import SAMPLE_RATE, Audio
import soundfile
from synthesis import Speaker, render
from vocabulary import DIGITS
from voices import training_speakers

LEVEL_DECIBELS = -23.0  # power of each word, relative to full scale
LICENCE = "CC0-1.0"

SUSAN = Speaker(engine="flite", voice="slt", pitch=182, speed=1.05)
RICHARD = Speaker(engine="flite", voice="rms", pitch=106, speed=1.02)
ALAN = Speaker(engine="flite", voice="awb", pitch=131, speed=1.05)
KEVIN = Speaker(engine="flite", voice="kal16", pitch=101, speed=1.05)
DOROTHY = Speaker(engine="espeak-ng", voice="en-us+f2", pitch=58, speed=138)
EDGAR = Speaker(engine="espeak-ng", voice="en-gb+m3", pitch=47, speed=122)


@frozen(kw_only=True)
class Phrase:
    """Digits of one speaker, each with the silence after it, the last before the next phrase."""

    speaker: Speaker
    digits: str
    gaps: tuple[float, ...]


@frozen(kw_only=True)
class Clip:
    """A clip to make; noise in decibels below the speech, None for none."""

    name: str
    phrases: tuple[Phrase, ...]
    noise: float | None = None


def _even(speaker: Speaker, digits: str, gap: float) -> Phrase:
    """Return digits with gaps that vary a little around *gap*, the same in every run."""
    gaps = tuple(round(gap * (0.8 + 0.1 * (3 * index % 5)), 3) for index in range(len(digits)))
    return Phrase(speaker=speaker, digits=digits, gaps=gaps)


CLIPS = (
    Clip(
        name="demo",
        phrases=(
            Phrase(speaker=SUSAN, digits="4277190", gaps=(0.42, 0.45, 0.3, 0.5, 0.4, 0.45, 1.5)),
            Phrase(speaker=RICHARD, digits="385162", gaps=(0.4, 0.45, 0.5, 0.4, 0.45, 0.0)),
        ),
    ),
    Clip(
        name="twice",
        phrases=(
            Phrase(
                speaker=ALAN,
                digits="7733551188",
                gaps=(0.05, 0.5, 0.15, 0.5, 0.4, 0.5, 0.7, 0.5, 1.0, 0.0),
            ),
        ),
    ),
    Clip(
        name="pauses",
        phrases=(Phrase(speaker=DOROTHY, digits="62094", gaps=(0.3, 1.6, 0.4, 2.2, 0.0)),),
    ),
    Clip(name="noisy", phrases=(_even(RICHARD, "90418273", 0.35),), noise=22.0),
    Clip(name="fast", phrases=(_even(SUSAN, "516038247", 0.14),)),
    Clip(name="slow", phrases=(_even(EDGAR, "80351", 0.7),)),
    Clip(name="low", phrases=(_even(KEVIN, "2946073", 0.3),)),
    Clip(name="high", phrases=(_even(DOROTHY, "17509386", 0.3),)),
    Clip(
        name="turns",
        phrases=(_even(ALAN, "304", 0.35), _even(SUSAN, "961", 0.35), _even(EDGAR, "285", 0.35)),
    ),
)


def make(clip: Clip) -> Mixture:
    """Render and place every digit of a clip."""
    clips, gaps = [], []
    for phrase in clip.phrases:
        clips += [
            (int(digit), fade(_levelled(render(phrase.speaker, DIGITS[int(digit)]))))
            for digit in phrase.digits
        ]
        gaps += phrase.gaps
    mixture = assemble(clips, gaps, lead=0.4, tail=0.6)
    if clip.noise is None:
        return mixture
    noise = np.random.default_rng(0).standard_normal(len(mixture.audio)) * 10 ** (
        (LEVEL_DECIBELS - clip.noise) / 20
    )
    return Mixture(audio=(mixture.audio + noise).astype(np.float32), words=mixture.words)


def _levelled(audio: Audio) -> Audio:
    return audio * np.float32(10 ** (LEVEL_DECIBELS / 20) / np.sqrt(np.square(audio).mean()))


def write(clip: Clip, folder: Path) -> None:
    """Write NAME.flac and NAME.json."""
    mixture = make(clip)
    soundfile.write(
        folder / f"{clip.name}.flac",
        mixture.audio,
        SAMPLE_RATE,
        subtype="PCM_16",
        compression_level=1.0,
    )
    description = {
        "audio": f"{clip.name}.flac",
        "sample_rate": SAMPLE_RATE,
        "licence": LICENCE,
        "voice": ", ".join(phrase.speaker.name for phrase in clip.phrases),
        "words": [
            {"text": DIGITS[word.digit], "start": round(word.start, 4), "end": round(word.end, 4)}
            for word in mixture.words
        ],
    }
    (folder / f"{clip.name}.json").write_text(
        json.dumps(description, indent=2) + "\n", encoding="utf-8"
    )


def main() -> None:
    """Make every clip anew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    trained = set(training_speakers()) & {
        phrase.speaker for clip in CLIPS for phrase in clip.phrases
    }
    if trained:
        names = ", ".join(speaker.name for speaker in trained)
        raise ValueError(f"expected speakers that nothing is trained on, got {names}")
    output.mkdir(parents=True, exist_ok=True)
    for clip in CLIPS:
        write(clip, output)


if __name__ == "__main__":
    main()
