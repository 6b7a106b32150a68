"""Mistral's tokenizer for streaming models: the bytes of token ids, and the layout of a stream."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import attrs
from msgspec import Meta, Struct, convert

from wlk_frameworks.features import FRAME_SAMPLES

# Everywhere in this package, a step is 80 ms of a stream: eight mel frames, one position of the
# decoder and one token id.  `Recognizer.step` of the core decodes several of them.
STEP_MS = 80  # 12.5 token ids a second (arXiv:2602.11298)
STEP_SECONDS = 0.08
STEP_SAMPLES = 1280  # at 16 kHz
STEP_FRAMES = STEP_SAMPLES // FRAME_SAMPLES  # mel frames of 10 ms
MAX_DELAY_STEPS = 30  # 2.4 s, the longest delay that Voxtral Realtime was trained for
MAX_IDS = 10_000_000  # limit of a vocabulary; the published one has 131,072
LEFT_PAD_STEPS = 32  # 2.56 s of silence, as in the published model
MAX_LEFT_PAD_STEPS = 1000  # 80 s
SPECIAL_TOKENS = ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")

_Id = Annotated[int, Meta(ge=0, le=MAX_IDS)]


class _Config(Struct):
    default_num_special_tokens: _Id
    default_vocab_size: _Id


class _Entry(Struct):
    rank: _Id
    token_bytes: str


class _SpecialToken(Struct):
    rank: _Id
    token_str: str


class _Encoding(Struct):
    num_mel_bins: Annotated[int, Meta(ge=1, le=512)] | None = None


class _Audio(Struct):
    transcription_format: str | None = None
    transcription_delay_ms: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    audio_encoding_config: _Encoding | None = None
    streaming_n_left_pad_tokens: Annotated[int, Meta(ge=0, le=MAX_LEFT_PAD_STEPS)] | None = None


class _Tekken(Struct):
    config: _Config
    vocab: list[_Entry]
    special_tokens: list[_SpecialToken] | None = None
    audio: _Audio | None = None


@attrs.frozen(kw_only=True, eq=False)
class TekkenTokenizer:
    """
    The parts of a tekken.json that decoding a stream of token ids needs.

    Ids below `specials` are control tokens and have no text.  `word_id` marks the end of a word and
    precedes its text, and `pad_id` stands for a step without text.  Text comes `delay_steps` after
    its audio, which follows `left_pad_steps` of silence (arXiv:2602.11298).
    """

    pieces: tuple[bytes, ...]  #: the bytes of each id, from the id `specials` on
    specials: int
    bos_id: int
    eos_id: int
    pad_id: int
    word_id: int
    delay_steps: int
    left_pad_steps: int
    mels: int | None  #: mel bands of the features; None if the file does not declare them

    @classmethod
    def from_table(cls, content: dict[str, Any]) -> TekkenTokenizer:
        """
        Read the table in a tekken.json.

        Raises:
            ValueError: the table is invalid, or its model does not stream; the message gives the
                reason.

        """
        convert(content, _Tekken)
        config, audio = content["config"], content.get("audio") or {}
        specials, size = config["default_num_special_tokens"], config["default_vocab_size"]
        entries = sorted(content["vocab"], key=_rank)[: max(0, size - specials)]
        # An id is a rank after the control tokens: with one left out, each later id has other text.
        wrong = next((n for n, entry in enumerate(entries) if _rank(entry) != n), None)
        if wrong is not None:
            raise ValueError(f"its vocabulary has rank {_rank(entries[wrong])} in place {wrong}")
        pieces = tuple(base64.b64decode(entry["token_bytes"]) for entry in entries)
        ids = {entry["token_str"]: _rank(entry) for entry in content.get("special_tokens") or ()}
        delay_ms = audio.get("transcription_delay_ms")
        left_pad_steps = audio.get("streaming_n_left_pad_tokens")
        if audio.get("transcription_format") != "streaming" or delay_ms is None:
            raise ValueError(
                "audio.transcription_format is not streaming, or transcription_delay_ms is missing"
            )
        if specials <= (highest := max(ids.values(), default=-1)):
            raise ValueError(
                f"it declares {specials} special tokens, but has one of rank {highest}"
            )
        if missing := [name for name in SPECIAL_TOKENS if name not in ids]:
            raise ValueError(f"its special tokens lack {', '.join(missing)}")
        bos_id, eos_id, pad_id, word_id = (ids[name] for name in SPECIAL_TOKENS)
        return cls(
            pieces=pieces,
            specials=specials,
            bos_id=bos_id,
            eos_id=eos_id,
            pad_id=pad_id,
            word_id=word_id,
            delay_steps=cls.steps_of(delay_ms),
            left_pad_steps=LEFT_PAD_STEPS if left_pad_steps is None else left_pad_steps,
            mels=(audio.get("audio_encoding_config") or {}).get("num_mel_bins"),
        )

    @staticmethod
    def steps_of(delay_ms: float) -> int:
        """
        Return a delay in steps.

        Raises:
            ValueError: the format does not support the delay.

        """
        steps = round(delay_ms / STEP_MS)
        if steps * STEP_MS != delay_ms or not 1 <= steps <= MAX_DELAY_STEPS:
            raise ValueError(
                f"a delay must be a multiple of {STEP_MS} ms from {STEP_MS} to "
                f"{MAX_DELAY_STEPS * STEP_MS}, got {delay_ms:g}"
            )
        return steps

    def prompt(self, delay_steps: int) -> tuple[int, ...]:
        """Return the ids that open an utterance; its text begins with the id that follows them."""
        return (self.bos_id, *[self.pad_id] * (self.left_pad_steps + delay_steps))

    def piece(self, token_id: int) -> bytes:
        """Return the bytes of an id; control tokens and ids outside the vocabulary have none."""
        index = token_id - self.specials
        return self.pieces[index] if 0 <= index < len(self.pieces) else b""


def _rank(entry: dict[str, Any]) -> int:
    rank: int = entry["rank"]
    return rank
