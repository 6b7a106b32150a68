"""Mistral's tokenizer as a table from ids to bytes, and what it says about a streaming format."""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs

__all__ = ["TekkenTokenizer"]

STEP_MS = 80  # of audio for each token: 12.5 Hz
LONGEST_DELAY_STEPS = 30  # 2.4 s, the longest that Voxtral Realtime is meant for


@attrs.frozen(kw_only=True, eq=False)
class TekkenTokenizer:
    """
    What a tekken.json holds that decoding a stream of ids needs.

    Ids below `specials` are control tokens and have no text.  `word_id` announces a word where it
    ends, `pad_id` stands where nothing is said, and the text lags `delay_steps` behind the audio,
    in front of which lie `left_pad_steps` of silence (arXiv:2602.11298, the format of Voxtral
    Realtime).
    """

    pieces: tuple[bytes, ...]  #: of the vocabulary, the first one has the id `specials`
    specials: int
    bos_id: int
    eos_id: int
    pad_id: int
    word_id: int
    delay_steps: int
    left_pad_steps: int

    @classmethod
    def from_json(cls, text: str) -> TekkenTokenizer:
        """
        Read the content of a tekken.json.

        Raises:
            ValueError: it is no such file, or its model does not stream; the message says why.

        """
        try:
            told: dict[str, Any] = json.loads(text)
            config = told["config"]
            specials = int(config["default_num_special_tokens"])
            count = int(config["default_vocab_size"]) - specials
            entries = sorted(told["vocab"], key=_rank)[:count]
            pieces = tuple(base64.b64decode(entry["token_bytes"]) for entry in entries)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is no tekken.json: {type(error).__name__}: {error}") from error
        audio = told.get("audio") or {}
        named = {one["token_str"]: int(one["rank"]) for one in told.get("special_tokens") or ()}
        delay = audio.get("transcription_delay_ms")
        if audio.get("transcription_format") != "streaming" or delay is None:
            raise ValueError(
                "it describes no streaming transcription: audio.transcription_delay_ms"
            )
        missing = [
            name for name in ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")
            if name not in named
        ]  # fmt: skip
        if missing:
            raise ValueError(f"it names no {', '.join(missing)} among its special tokens")
        return cls(
            pieces=pieces,
            specials=specials,
            bos_id=named["<s>"],
            eos_id=named["</s>"],
            pad_id=named["[STREAMING_PAD]"],
            word_id=named["[STREAMING_WORD]"],
            delay_steps=cls.steps_of(delay),
            left_pad_steps=int(audio.get("streaming_n_left_pad_tokens") or 0),
        )

    @staticmethod
    def steps_of(delay_ms: float) -> int:
        """
        Return a delay in steps.

        Raises:
            ValueError: the format has no such delay.

        """
        steps = round(delay_ms / STEP_MS)
        if steps * STEP_MS != delay_ms or not 1 <= steps <= LONGEST_DELAY_STEPS:
            raise ValueError(
                f"a delay is a multiple of {STEP_MS} ms from {STEP_MS} to "
                f"{LONGEST_DELAY_STEPS * STEP_MS}, got {delay_ms:g}"
            )
        return steps

    def prompt(self, delay_steps: int) -> tuple[int, ...]:
        """Return the ids that open a run: the text begins with the one that follows them."""
        return (self.bos_id, *[self.pad_id] * (self.left_pad_steps + delay_steps))

    def piece(self, token: int) -> bytes:
        """Return the bytes of an id; control tokens and ids beyond the vocabulary have none."""
        place = token - self.specials
        return self.pieces[place] if 0 <= place < len(self.pieces) else b""


def _rank(entry: dict[str, Any]) -> int:
    return int(entry["rank"])
