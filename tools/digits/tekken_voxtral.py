"""A tokenizer of Mistral's kind (tekken.json) that is just large enough to write digits down."""

from __future__ import annotations

import base64
from typing import Any

from vocabulary import DIGITS

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "LEFT_PAD",
    "PAD_ID",
    "PIECES",
    "SPECIALS",
    "STEP_SAMPLES",
    "WORD_ID",
    "build_tekken",
    "word_ids",
]

#: Pieces of each digit's name: longer words come in two, as words of a real vocabulary do.
PIECES = (
    (" ze", "ro"), (" one",), (" two",), (" th", "ree"), (" fo", "ur"), (" five",), (" six",),
    (" se", "ven"), (" eight",), (" ni", "ne"),
)  # fmt: skip

# The ids of the real tokenizer, where the format gives them a meaning.
BOS_ID, EOS_ID, PAD_ID, WORD_ID = 1, 2, 32, 33
SPECIALS = 40  # control tokens in front of the vocabulary; the real one has 1000
LEFT_PAD = 32  # steps of silence before the audio
STEP_SAMPLES = 1280  # 80 ms
_NAMED = {
    0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]", 5: "[AVAILABLE_TOOLS]",
    6: "[/AVAILABLE_TOOLS]", 7: "[TOOL_RESULTS]", 8: "[/TOOL_RESULTS]", 9: "[TOOL_CALLS]",
    10: "[IMG]", 11: "<pad>", 12: "[IMG_BREAK]", 13: "[IMG_END]", 14: "[PREFIX]", 15: "[MIDDLE]",
    16: "[SUFFIX]", 17: "[SYSTEM_PROMPT]", 18: "[/SYSTEM_PROMPT]", 19: "[TOOL_CONTENT]",
    20: "[ARGS]", 21: "[CALL_ID]", 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 32: "[STREAMING_PAD]",
    33: "[STREAMING_WORD]",
}  # fmt: skip
_PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _vocabulary() -> list[bytes]:
    """Return the single bytes, then the pieces, each after all its beginnings: merges need them."""
    tokens = [bytes([value]) for value in range(256)]
    for pieces in PIECES:
        for piece in pieces:
            for length in range(2, len(piece) + 1):
                if (token := piece[:length].encode()) not in tokens:
                    tokens.append(token)
    return tokens


def word_ids(digit: int) -> tuple[int, ...]:
    """Return the ids that write a digit, its leading space included."""
    vocabulary = _vocabulary()
    return tuple(SPECIALS + vocabulary.index(piece.encode()) for piece in PIECES[digit])


def build_tekken(delay_steps: int = 6) -> dict[str, Any]:
    """Return the content of tekken.json for a streaming model that listens *delay_steps* ahead."""
    if tuple("".join(pieces).strip() for pieces in PIECES) != DIGITS:
        raise ValueError("the pieces do not spell the digits")
    vocabulary = _vocabulary()
    return {
        "config": {
            "pattern": _PATTERN,
            "num_vocab_tokens": len(vocabulary),
            "default_vocab_size": SPECIALS + len(vocabulary),
            "default_num_special_tokens": SPECIALS,
            "version": "v13",
        },
        "vocab": [
            {
                "rank": rank,
                "token_bytes": base64.b64encode(token).decode(),
                "token_str": token.decode(errors="replace"),
            }
            for rank, token in enumerate(vocabulary)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": _NAMED.get(rank, f"<SPECIAL_{rank}>"), "is_control": True}
            for rank in range(SPECIALS)
        ],
        "audio": {
            "sampling_rate": 16_000,
            "frame_rate": 12.5,
            "audio_encoding_config": {"num_mel_bins": 128, "hop_length": 160, "window_size": 400},
            "chunk_length_s": None,
            "transcription_format": "streaming",
            "transcription_delay_ms": 80 * delay_steps,
            "streaming_look_ahead_ms": 2.5,
            "streaming_look_back_ms": 52.5,
            "streaming_n_left_pad_tokens": LEFT_PAD,
        },
    }
