"""Assemble streams of spoken digits from clips, so that every word and its times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen
from augment import add_noise, change_speed, degrade, fade
from lossy import draw_codec, transcode
from negatives import draw_negative
import numpy as np
from recordings import SAMPLE_RATE, Audio, Voice
from rng import happens

if TYPE_CHECKING:
    from collections.abc import Sequence

AUDIBLE = 0.6  # a cut word counts if at least this share of it is left
NOT_AUDIBLE = 0.3  # and does not if at most this share is; cuts in between are avoided
SHORTEST_SAMPLES = SAMPLE_RATE // 20


@frozen(kw_only=True)
class Word:
    """A digit and where it lies, in seconds from the start of the audio."""

    digit: int
    start: float
    end: float


@frozen(kw_only=True)
class Mixture:
    """Audio and the words in it; `is_cut` if speech continues after its end."""

    audio: Audio
    words: tuple[Word, ...] = ()
    is_cut: bool = False


def assemble(
    clips: Sequence[tuple[int, Audio]], gaps: Sequence[float], *, lead: float, tail: float
) -> Mixture:
    """Join clips with `gaps[i]` seconds of silence after clip i, *tail* seconds after the last."""
    parts = [np.zeros(int(lead * SAMPLE_RATE), np.float32)]
    words: list[Word] = []
    position = len(parts[0])
    for index, (digit, clip) in enumerate(clips):
        end = position + len(clip)
        words.append(Word(digit=digit, start=position / SAMPLE_RATE, end=end / SAMPLE_RATE))
        seconds = gaps[index] if index + 1 < len(clips) else tail
        pause = np.zeros(int(seconds * SAMPLE_RATE), np.float32)
        parts += [clip, pause]
        position = end + len(pause)
    return Mixture(audio=np.concatenate(parts), words=tuple(words))


@frozen(kw_only=True)
class Mixer:
    """Draws mixtures as a streaming recogniser meets them: cut, noisy, repeated, or empty."""

    voices: Sequence[Voice]
    rng: np.random.Generator
    others: Sequence[Audio] = ()
    synthetic_share: float = 0.5
    disguised_share: float = 0.2
    mixed_share: float = 0.25
    negative_share: float = 0.12
    repeat_share: float = 0.15
    codec_share: float = 0.2
    _kinds: list[tuple[list[Voice], float]] = field(init=False)

    @_kinds.default
    def _find_kinds(self) -> list[tuple[list[Voice], float]]:
        """Return the voices and the share of each kind that there is; `pick` scales the shares."""
        shares = {"synthetic": self.synthetic_share, "disguised": self.disguised_share}
        shares["recorded"] = 1 - sum(shares.values())
        kinds = [
            ([voice for voice in self.voices if voice.kind == kind], share)
            for kind, share in shares.items()
        ]
        return [(voices, share) for voices, share in kinds if voices]

    def draw(self, seconds: float) -> Mixture:
        """Return a mixture of at most the given length."""
        rng = self.rng
        mixture = self._draw_as_recorded(seconds)
        if not happens(self.codec_share, rng):
            return mixture
        audio = np.clip(transcode(mixture.audio, *draw_codec(rng)), -1, 1)
        return Mixture(audio=audio, words=mixture.words, is_cut=mixture.is_cut)

    def _draw_as_recorded(self, seconds: float) -> Mixture:
        rng = self.rng
        if happens(self.negative_share, rng):
            return Mixture(audio=self._draw_negative(seconds))
        mixture = self._cut(self._speak(seconds), seconds)
        if len(mixture.audio) < SHORTEST_SAMPLES:
            return Mixture(audio=self._draw_negative(seconds))
        audio = degrade(mixture.audio, rng)
        if happens(0.7, rng):
            audio = add_noise(audio, rng.uniform(12, 50), rng)
        audio = np.clip(audio * 10 ** (rng.uniform(-24, 4) / 20), -1, 1).astype(np.float32)
        return Mixture(audio=audio, words=mixture.words, is_cut=mixture.is_cut)

    def _draw_negative(self, seconds: float) -> Audio:
        rng = self.rng
        samples = max(int(rng.uniform(0.1, 1.0) * seconds * SAMPLE_RATE), SHORTEST_SAMPLES)
        if not self.others or happens(0.85, rng):
            return draw_negative(samples, rng)
        sentence = change_speed(
            self.others[rng.integers(len(self.others))], rng.uniform(0.85, 1.2)
        )[:samples]
        return np.pad(sentence, (0, samples - len(sentence))) * np.float32(
            10 ** (rng.uniform(-20, 0) / 20)
        )

    def pick(self) -> Voice:
        """Draw a speaker."""
        rng = self.rng
        shares = np.array([share for _, share in self._kinds])
        voices = self._kinds[rng.choice(len(self._kinds), p=shares / shares.sum())][0]
        return voices[rng.integers(len(voices))]

    def _speak(self, seconds: float) -> Mixture:
        """Speak digits that fill *seconds*, or fewer."""
        rng = self.rng
        count = 10**6 if happens(0.5, rng) else int(rng.integers(1, max(2, int(seconds * 1.3))))
        voice, is_mixed = self.pick(), happens(self.mixed_share, rng)
        rate, hurry = rng.uniform(0.82, 1.22), rng.uniform(0.15, 1.0)
        position = lead = min(self._lead(), 0.6 * seconds)
        clips: list[tuple[int, Audio]] = []
        gaps: list[float] = []
        while len(clips) < count and position < seconds:
            repeats = bool(clips) and happens(self.repeat_share, rng)
            digit = clips[-1][0] if repeats else int(rng.integers(10))
            speaker = self.pick() if is_mixed and happens(0.5, rng) else voice
            clip = fade(change_speed(speaker.draw(digit, rng), rate * rng.uniform(0.93, 1.08)))
            clips.append((digit, clip * np.float32(10 ** (rng.uniform(-6, 0) / 20))))
            gaps.append(self._gap(hurry))
            position += len(clip) / SAMPLE_RATE + gaps[-1]
        tail = rng.uniform(0, 2.0) if happens(0.5, rng) else 0.0
        return assemble(clips, gaps, lead=lead, tail=tail)

    def _lead(self) -> float:
        """Return the silence before the first word: none, a little, or a pause."""
        return float(
            self.rng.choice(
                [0.0, self.rng.uniform(0, 0.5), self.rng.uniform(0, 2.0)], p=[0.2, 0.5, 0.3]
            )
        )

    def _gap(self, hurry: float) -> float:
        rng = self.rng
        return rng.uniform(0.6, 2.5) if happens(0.06, rng) else rng.uniform(0.02, 0.65) * hurry

    def _cut(self, mixture: Mixture, seconds: float) -> Mixture:
        """Cut the start (sometimes) and the end (when too long) as a streaming buffer is cut."""
        start = 0.0
        if happens(0.2, self.rng) and len(mixture.words) > 1:
            start = self._clear(self.rng.uniform(0, 2.0), mixture.words)
            if happens(0.5, self.rng):  # a buffer trimmed right after a committed word
                start = max(mixture.words[0].end + self.rng.uniform(-0.1, 0.25), 0.0)
        end = max(min(len(mixture.audio) / SAMPLE_RATE, start + seconds), start)
        if happens(0.3, self.rng):
            end = self.rng.uniform(start + 0.3 * (end - start), end)
        end = self._clear(end, mixture.words)
        audio = mixture.audio[
            int(start * SAMPLE_RATE) : int(min(end, start + seconds) * SAMPLE_RATE)
        ]
        length = len(audio) / SAMPLE_RATE
        words = []
        for word in mixture.words:
            first, last = max(word.start - start, 0.0), min(word.end - start, length)
            if last - first >= AUDIBLE * (word.end - word.start):
                words.append(Word(digit=word.digit, start=first, end=last))
        is_cut = bool(mixture.words) and end < mixture.words[-1].end
        return Mixture(audio=audio, words=tuple(words), is_cut=is_cut)

    @staticmethod
    def _clear(time: float, words: Sequence[Word]) -> float:
        """Move a cut to the start of the word that it would leave ambiguous, if there is one."""
        for word in words:
            share = (time - word.start) / (word.end - word.start)
            if NOT_AUDIBLE < share < 1 - NOT_AUDIBLE:
                return word.start
        return time
