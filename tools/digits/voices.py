"""Render synthetic voices, digits and other words, into one file, and load them.

python tools/digits/voices.py --output voices.npz
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from accents import ACCENTS, FESTIVAL_LANGUAGES, OTHER_SPELLINGS, PICO_LANGUAGES
import numpy as np
from recordings import CLIP_PEAK, Audio, Voice
from synthesis import Speaker, render
from vocabulary import DIGITS

#: Speech without digits, for which a digit recogniser must emit nothing.
SENTENCES = (
    "hello there",
    "please call me back when you can",
    "the weather is lovely in the garden",
    "good morning everybody",
    "thank you very much",
    "where is the railway station",
    "open the window a little",
    "my brother plays the guitar",
    "coffee with milk and sugar",
    "yesterday",
    "the quick brown fox jumps over a lazy dog",
    "maybe later",
)

# fmt: off
_ACCENTS = (
    "en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-gb-x-gbclan", "en-029",
    "en-us-nyc",
)
_VARIANTS = (
    "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5", "klatt", "klatt2",
    "klatt4", "Alex", "Alicia", "Andrea", "Andy", "Annie", "Denis", "Gene", "Hugo", "Jacky", "Lee",
    "Mario", "Michael", "adam", "anika", "antonio", "aunty", "belinda", "benjamin", "boris",
    "caleb", "david", "edward", "grandma", "grandpa", "iven", "john", "max", "michel", "miguel",
    "norbert", "pablo", "paul", "quincy", "rob", "sandro", "shelby", "steph", "steph3", "travis",
    "victor", "whisper", "zac",
)
_THROATS = (  # variants that leave an accent recognisable; the first is the language's own
    "", "+m1", "+m3", "+m7", "+f2", "+f4", "+klatt2", "+Andy", "+Alicia", "+max", "+steph",
    "+david", "+rob", "+belinda", "+Mario", "+norbert",
)
# fmt: on
_PITCHES = (35, 50, 62, 44, 56)
_SPEEDS = (115, 130, 145, 160, 175)
_RENDERERS = 2


def _espeak_speakers() -> tuple[Speaker, ...]:
    """Pair every variant with three accents, cycling through pitches and speeds."""
    speakers = []
    for index, variant in enumerate(_VARIANTS):
        for turn in range(3):
            accent = _ACCENTS[(index + 3 * turn) % len(_ACCENTS)]
            pitch = _PITCHES[(index + 2 * turn) % 5]
            speed = _SPEEDS[(2 * index + turn) % 5]
            speakers.append(
                Speaker(engine="espeak-ng", voice=f"{accent}+{variant}", pitch=pitch, speed=speed)
            )
    return tuple(speakers)


def _foreign_speakers() -> tuple[Speaker, ...]:
    """Give every accent eight throats, cycling through pitches and speeds."""
    speakers = []
    for index, (language, words) in enumerate(ACCENTS.items()):
        for turn in range(8):
            throat = _THROATS[(3 * index + 5 * turn) % len(_THROATS)]
            speakers.append(
                Speaker(
                    engine="espeak-ng",
                    voice=language + throat,
                    pitch=_PITCHES[(index + 2 * turn) % 5],
                    speed=_SPEEDS[(2 * index + turn) % 5],
                    words=tuple(words.split()),
                )
            )
    return tuple(speakers)


ESPEAK = _espeak_speakers()
FOREIGN = _foreign_speakers()
FLITE = tuple(
    Speaker(engine="flite", voice=voice, pitch=pitch, speed=speed)
    for voice, pitches in (
        ("slt", (150, 172, 195, 215)),
        ("rms", (82, 98, 115, 135)),
        ("awb", (100, 120, 142, 165)),
        ("kal16", (90, 110, 130, 155)),
    )
    for pitch in pitches
    for speed in (0.8, 0.95, 1.15)
)


def _spellings(language: str) -> tuple[str, ...]:
    if language == "en":
        return (" ".join(DIGITS),)
    return tuple(table[language] for table in (ACCENTS, OTHER_SPELLINGS) if language in table)


def _people(
    engine: str,
    languages: dict[str, str],
    *,
    pitches: tuple[int, ...],
    speeds: tuple[float, ...],
) -> tuple[Speaker, ...]:
    """Give every voice all spellings of its language, at every pitch and speed."""
    return tuple(
        Speaker(
            engine=engine,
            voice=voice,
            pitch=pitch + turn,  # so that spellings have different names
            speed=speed,
            words=tuple(words.split()),
        )
        for voice, language in languages.items()
        for turn, words in enumerate(_spellings(language))
        for pitch in pitches
        for speed in speeds
    )


FESTIVAL = _people("festival", FESTIVAL_LANGUAGES, pitches=(0,), speeds=(0.8, 1.0, 1.2))
PICO = _people("pico", PICO_LANGUAGES, pitches=(78, 100, 128), speeds=(0.8, 1.0, 1.25))


def training_speakers() -> tuple[Speaker, ...]:
    """Return every synthetic speaker that may be trained on."""
    return ESPEAK + FLITE + FOREIGN + FESTIVAL + PICO


def load_voices(path: Path) -> tuple[list[Voice], list[Audio]]:
    """Load rendered voices, and sentences without digits."""
    with np.load(path) as stored:
        clips = {
            name: stored[name].astype(np.float32) / np.iinfo(np.int16).max for name in stored.files
        }
    names = dict.fromkeys(
        name.rsplit("/", 1)[0] for name in clips if not name.startswith("sentence/")
    )
    voices = [
        Voice(
            name=name,
            takes=tuple((clips[f"{name}/{digit}"],) for digit in range(10)),
            kind="synthetic",
        )
        for name in names
    ]
    return voices, [clip for name, clip in clips.items() if name.startswith("sentence/")]


def _stored(audio: Audio) -> np.ndarray:
    return np.round(
        audio * (CLIP_PEAK * np.iinfo(np.int16).max / (np.abs(audio).max() + 1e-6))
    ).astype(np.int16)


def main() -> None:
    """Render every training speaker into one file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    jobs = [
        (f"{speaker.name}/{digit}", speaker, text)
        for speaker in training_speakers()
        for digit, text in enumerate(speaker.words)
    ]
    for index, speaker in enumerate((ESPEAK + FLITE)[::5]):
        jobs += [
            (f"sentence/{index}/{turn}", speaker, SENTENCES[(index + 5 * turn) % len(SENTENCES)])
            for turn in range(3)
        ]
    with ThreadPoolExecutor(_RENDERERS) as pool:
        clips = pool.map(lambda job: _stored(render(job[1], job[2])), jobs)
        np.savez_compressed(output, **dict(zip((name for name, _, _ in jobs), clips, strict=True)))


if __name__ == "__main__":
    main()
