"""What a session speaks, and how its client behaves: all drawn from a seed."""

from __future__ import annotations

from functools import cached_property
import random
from typing import Any

import attrs
import numpy as np

from wlk_conformance.testing import CELL_SAMPLES, CodedToken, connected_digits, encode

__all__ = ["Script"]

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_CELLS = 6  # from the start of a coded word to that of the next: 0.48 s, half of it silence
_RATE = 16_000
_RESUMABLE = 0.8  # of the sessions
_COMMITS = 0.05  # of the pauses
_LEAD = 1  # cells before the first word


@attrs.frozen
class Script:
    """
    One session: `backend` decides the form of its audio, everything else follows from `seed`.

    Half of the sessions lose their socket up to three times and resume, some leave for good, and
    the others end properly.  Utterances are ended between words.  Where it `is_steady`, the client
    does nothing but speak, in real time.
    """

    seed: int
    backend: str
    is_steady: bool = False

    @cached_property
    def _random(self) -> random.Random:
        return random.Random(self.seed)  # noqa: S311 -- behaviour, no secrets

    @cached_property
    def _plan(self) -> dict[str, Any]:
        source = self._random
        shortest, longest = (12, 80) if self.backend == "scripted" else (6, 24)
        count = source.randint(shortest, longest)
        plan: dict[str, Any] = {"count": count, "speed": source.uniform(0.9, 3.0)}
        plan["is_resumable"] = source.random() < _RESUMABLE
        plan["commits"] = {n for n in range(1, count) if source.random() < _COMMITS} | {count}
        plan["end"] = source.choices(["finish", "vanish", "close"], [0.7, 0.2, 0.1])[0]
        plan["leaves_at"] = source.random()
        plan["losses"] = sorted(source.random() for _ in range(source.choice([0, 1, 2, 3])))
        return plan | ({"speed": 1.0, "end": "finish", "losses": []} if self.is_steady else {})

    @property
    def is_resumable(self) -> bool:
        """Whether the client asks for a token."""
        return bool(self._plan["is_resumable"])

    @property
    def speed(self) -> float:
        """Seconds of audio that are sent in a second."""
        return float(self._plan["speed"])

    @cached_property
    def _speech(self) -> tuple[np.ndarray, list[str], list[int]]:
        """Return audio, words, and a sample after each word that lies in a pause."""
        count = self._plan["count"]
        source = random.Random(self.seed)  # noqa: S311 -- words, no secrets
        if self.backend == "scripted":
            ids = [source.randint(1, 10) for _ in range(count)]
            tokens = [CodedToken(id_, _LEAD + _CELLS * n) for n, id_ in enumerate(ids)]
            pauses = [(_LEAD + _CELLS * (n + 1) - 1) * CELL_SAMPLES for n in range(count)]
            audio = encode(tokens, cells=_LEAD + _CELLS * count)
            return audio, [_DIGITS[id_ - 1] for id_ in ids], pauses
        clip = connected_digits(count, seed=self.seed, gap=(0.3, 0.6))
        ends = [word.end for word in clip.words]
        return (
            clip.audio,
            [word.text.strip() for word in clip.words],
            [round((end + 0.15) * _RATE) for end in ends],
        )

    @property
    def words(self) -> list[str]:
        """What is spoken."""
        return self._speech[1]

    @cached_property
    def data(self) -> bytes:
        """The audio: floats of the scripted backend, 16-bit samples of others."""
        audio = self._speech[0]
        if self.backend == "scripted":
            return audio.astype("<f4").tobytes()
        return (np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes()

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample."""
        return 4 if self.backend == "scripted" else 2

    @property
    def pauses(self) -> list[int]:
        """A sample in the pause after each word."""
        return self._speech[2]

    @property
    def commits(self) -> list[int]:
        """The samples at which the client ends an utterance."""
        return [self.pauses[number - 1] for number in sorted(self._plan["commits"])]

    @property
    def end(self) -> str:
        """Return "finish", or "vanish" or "close" for a client that leaves in the middle."""
        return str(self._plan["end"])

    @property
    def leaves_at(self) -> int:
        """The sample after which the client leaves."""
        return int(self._plan["leaves_at"] * self.pauses[-1])

    @property
    def losses(self) -> list[int]:
        """The samples after which the socket is lost."""
        last = self.pauses[-1]
        return [int(share * last) for share in self._plan["losses"]] if self.is_resumable else []

    @property
    def update(self) -> dict[str, Any]:
        """The configuration: without a gate for coded audio, because it is no speech."""
        is_coded = self.backend == "scripted"
        kind = "audio/wlk-f32le" if is_coded else "audio/pcm"
        audio = {"format": {"type": kind, "rate": _RATE}, "turn_detection": None}
        session = {
            "type": "transcription",
            "audio": {"input": audio},
            "include": ["wlk.hypothesis", *(["wlk.marks"] if is_coded else [])],
        }
        return {"type": "session.update", "session": session}
