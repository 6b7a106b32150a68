"""The table of Mistral's tokenizer."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_voxtral.tokenizer import TekkenTokenizer


def content(**audio):
    """Return a small tekken.json: four control tokens, the letters a to d, and one entry more."""
    names = ("<s>", "</s>", "[STREAMING_PAD]", "[STREAMING_WORD]")
    return {
        "config": {"default_vocab_size": 8, "default_num_special_tokens": 4},
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(bytes([97 + rank])).decode()}
            for rank in (2, 0, 1, 3, 4)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)
        ],
        "audio": {
            "transcription_format": "streaming",
            "transcription_delay_ms": 480,
            "streaming_n_left_pad_tokens": 32,
            **audio,
        },
    }


def test_ids_are_ranks_behind_the_control_tokens():
    """Control tokens have no bytes, and entries beyond the vocabulary's size are none of it."""
    tekken = TekkenTokenizer.from_json(json.dumps(content()))

    assert [b"", b"", b"", b"", b"a", b"b", b"c", b"d", b"", b""] == [
        tekken.piece(token) for token in range(10)
    ]
    assert (0, 1, 2, 3) == (tekken.bos_id, tekken.eos_id, tekken.pad_id, tekken.word_id)


@pytest.mark.parametrize("delay", [80, 240, 480, 800, 2400])
def test_the_prompt_is_as_long_as_the_silence_and_the_delay(delay):
    """A step of 80 ms, one id: the first, the silence in front, and the delay."""
    tekken = TekkenTokenizer.from_json(json.dumps(content(transcription_delay_ms=delay)))

    assert delay == 80 * tekken.delay_steps
    assert (0, *[2] * (32 + delay // 80)) == tekken.prompt(tekken.delay_steps)


@given(st.integers(-100, 5000))
def test_delays_are_multiples_of_80_ms(delay):
    """What the format does not have is refused with what it has."""
    if delay % 80 == 0 and 80 <= delay <= 2400:
        assert delay == 80 * TekkenTokenizer.steps_of(delay)
    else:
        with pytest.raises(ValueError, match="multiple of 80 ms from 80 to 2400"):
            TekkenTokenizer.steps_of(delay)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no tekken.json"),
        ("{}", "no tekken.json: KeyError: 'config'"),
        ("[]", "no tekken.json"),
        (json.dumps(content(transcription_format="instruct")), "no streaming transcription"),
        (json.dumps(content(transcription_delay_ms=None)), "no streaming transcription"),
        (json.dumps(content(transcription_delay_ms=100)), "multiple of 80 ms"),
        (json.dumps({**content(), "special_tokens": []}), r"\[STREAMING_PAD\], \[STREAMING_WORD"),
    ],
    ids=["empty", "object", "list", "offline", "no delay", "odd delay", "no markers"],
)
def test_a_file_of_another_kind_is_refused(text, told):
    """The message says what is missing."""
    with pytest.raises(ValueError, match=told):
        TekkenTokenizer.from_json(text)
