"""A tokenizer whose tokens are single bytes, and the file it is read from."""

from __future__ import annotations

import base64
import json
from pathlib import Path
import sys

import pytest

from wlk_voxtral.tokenizer import TekkenTokenizer

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def tekken_json():
    """Return the content of a tekken.json: four control tokens, then one id for each byte."""
    names = ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")
    return json.dumps(
        {
            "config": {"default_vocab_size": 260, "default_num_special_tokens": 4},
            "vocab": [
                {"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode()}
                for rank in range(256)
            ],
            "special_tokens": [
                {"rank": rank, "token_str": name} for rank, name in enumerate(names)
            ],
            "audio": {
                "transcription_format": "streaming",
                "transcription_delay_ms": 480,
                "streaming_n_left_pad_tokens": 32,
            },
        }
    )


@pytest.fixture(scope="session")
def tokenizer(tekken_json):
    """Return the tokenizer of that file: pad is 2, the word marker 3, byte b is 4 + b."""
    return TekkenTokenizer.from_table(json.loads(tekken_json))
